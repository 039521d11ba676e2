//! What is said where nginx's words stand in a text, sentence by sentence.

use crate::sample::{expect, good, load};

/// An upstream and a site around what is tested, which begins at line 6.
fn site(inner: &str) -> String {
    format!("[upstream.a]\norigins = [\"http://a\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"a\"\n{inner}")
}

fn route(inner: &str) -> String {
    site(&format!("[[site.route]]\n{inner}"))
}

/// Expects one mistake in the last line.
fn check(text: &str, sentence: &str) {
    expect(text, &[(text.lines().count() as u32, sentence)]);
}

fn means(variable: &str, ours: &str) -> String {
    format!("`{variable}` is a variable of nginx, and only text here: did you mean `{ours}`?")
}

#[test]
fn variables_are_named_where_values_stand() {
    let set = |value: &str| site(&format!("request_headers = {{ set = {{ X-A = '{value}' }} }}"));
    for (theirs, ours) in [
        ("$remote_addr", "{client.address}"),
        ("$host", "{hostname}"),
        ("$http_host", "{host}"),
        ("$http_x_forwarded_for", "{header.X-Forwarded-For}"),
        ("$cookie_lang", "{cookie.lang}"),
        ("$arg_page", "{query.page}"),
        ("$request_uri", "{uri}"),
        ("$uri", "{path}"),
        ("$upstream_cache_status", "{outcome}"),
        ("$1", "{1}"),
    ] {
        check(&set(theirs), &means(theirs, ours));
    }
    let none = "`$upstream_http_x_a` is a variable of nginx, and only text here: no placeholder stands for a \
                field of a response";
    check(&set("$upstream_http_x_a"), none);
    for text in ["costs $", "$unknown", "$2y$10$abc", "US$ 20", "$hosting", "a$0"] {
        good(&set(text));
    }
    let uri = means("$request_uri", "{uri}");
    check(&route("path = \"/a\"\nredirect = \"https://b$request_uri\""), &uri);
    check(&route("path = \"/a\"\nredirect = { to = \"https://b$request_uri\", status = 302 }"), &uri);
    check(&site("key = { values = [\"$cookie_lang\"] }"), &means("$cookie_lang", "{cookie.lang}"));
    check(&site("rewrite = [{ from = \"/a/*\", to = \"/$1\" }]"), &means("$1", "{1}"));
    check(&site("back = { location = [{ from = \"/a/*\", to = \"/$1\" }] }"), &means("$1", "{1}"));
    check(&site("[log]\nformat = \"$status {uri}\""), &means("$status", "{status}"));
    check(
        &site("[map.a]\nrules = []\nof = \"$http_user_agent\""),
        &means("$http_user_agent", "{header.User-Agent}"),
    );
}

#[test]
fn conditions_name_things_alone() {
    for (inner, variable, meant) in [
        ("cookies = [\"$cookie_nocache\"]", "$cookie_nocache", "cookies = [\"nocache\"]"),
        ("query = [\"$arg_nocache\"]", "$arg_nocache", "query = [\"nocache\"]"),
        ("headers = [\"$http_pragma\"]", "$http_pragma", "headers = [\"Pragma\"]"),
    ] {
        check(&site(&format!("bypass = {{ {inner} }}")), &means(variable, meant));
    }
    let named = "`$request_method` is a variable of nginx, and only text here: a condition names a cookie, a \
                 parameter or a field by its name alone";
    check(&site("no_store = { headers = [\"$request_method\"] }"), named);
}

#[test]
fn expressions_stand_where_they_work() {
    let sign = "`~` is nginx's sign of an expression, and part of the path here: did you mean ";
    let case = format!("{sign}`'(?i)\\.(jpg|png)$'`, where `(?i)` takes small and large letters?");
    check(&route("regex = '~* \\.(jpg|png)$'"), &case);
    check(&route("regex = '~ ^/q$'"), &format!("{sign}`'^/q$'`?"));
    check(&site("rewrite = [{ regex = '~ ^/q$', to = \"/\" }]"), &format!("{sign}`'^/q$'`?"));
    good(&route("regex = '~user'"));
    let around = "not a regular expression: look-around, including look-ahead and look-behind, is not \
                  supported; a rule for the exceptions, before this one, says the same";
    check(&route("regex = '^/(?!api)'"), around);
    let star = "`~` begins no expression here, and `*` is any text: did you mean `*session*`?";
    check(&site("bypass = { cookies = [\"~*session\"] }"), star);
    check(&site("bypass = { headers = [\"X-A: ~*session\"] }"), star);
    let begins = "`~` begins no expression here, and `*` is any text: did you mean `session*`?";
    check(&site("bypass = { query = [\"~^session\"] }"), begins);
    check(
        &site("bypass = { methods = [\"GET|HEAD\"] }"),
        "`GET|HEAD` is not one method: did you mean `[\"GET\", \"HEAD\"]`?",
    );
}

#[test]
fn paths_are_no_expressions() {
    let expression = |text: &str, regex: &str| {
        format!(
            "`{text}` is an expression, and no glob: write `regex = '{regex}'`, or a glob with `*` for any \
             text up to the next `/` and `**` for any text"
        )
    };
    for (text, regex) in [
        ("/w(.*)", "^/w(.*)"),
        ("^/a$", "^/a$"),
        ("/x(/|$)", "^/x(/|$)"),
        ("\\.php$", "\\.php$"),
        ("/a/([0-9]+)", "^/a/([0-9]+)"),
    ] {
        check(&route(&format!("path = '{text}'")), &expression(text, regex));
        check(&site(&format!("bypass = {{ paths = ['{text}'] }}")), &expression(text, regex));
        check(&site(&format!("rewrite = [{{ from = '{text}', to = \"/\" }}]")), &expression(text, regex));
    }
    let sign = "`~` is nginx's sign of an expression: write `regex = '\\.php$'`";
    check(&route("path = '~ \\.php$'"), sign);
    check(&route("prefix = '~ \\.php$'"), sign);
    check(&route("prefix = \"= /fav\""), "`=` is nginx's sign of a whole path: write `path = \"/fav\"`");
    check(&route("path = \"^~ /img/\""), "`^~` is nginx's sign of a prefix: write `prefix = \"/img/\"`");
    for path in ["/a(b)", "/a|b", "/$metadata", "/(a)/*.png", "*.php"] {
        good(&route(&format!("path = \"{path}\"")));
    }
}

#[test]
fn bodies_and_lines_say_what_was_meant() {
    check(&site("[log]\nformat = \"combined\""), "did you mean `access = \"combined\"`?");
    let constant = "`main` would be every line: write placeholders, as `{client.address} {uri}`";
    check(&site("[log]\nformat = \"main\""), constant);
    let page = "the page would be the text `/502.html`: did you mean `{ file = \"502.html\" }`?";
    check(&site("error_pages = { \"502\" = \"/502.html\" }"), page);
    check(&site("maintenance = { page = \"/502.html\" }"), page);
    let body = "the body would be the text `robots.txt`: did you mean `body_file = \"robots.txt\"`?";
    check(&route("answer = { body = \"robots.txt\" }"), body);
    let only = |word: &str| format!("`{word}` is only text here: nothing is replaced in a body");
    check(&route("answer = { body = \"hello {client.address}\" }"), &only("{client.address}"));
    check(&route("answer = { body = \"hello $remote_addr\" }"), &only("$remote_addr"));
    check(&site("error_pages = { \"502\" = \"<p>{host}\" }"), &only("{host}"));
    good(&route("answer = { body = '{\"a\": {\"b\": 1}} [0-9]{1} $1' }"));
    check(&route("answer = { status = 444 }"), "444 is nginx's word for no answer, and Weir always answers");
}

#[test]
fn maps_have_no_keywords() {
    let map = |rule: &str| site(&format!("[map.a]\nof = \"{{host}}\"\nrules = [{rule}]"));
    let default = "`default` is a whole text in a rule, and not what the others get";
    check(&map("[\"default\", \"desktop\"]"), default);
    let only = |word: &str| format!("`{word}` is only text here: nothing is replaced in what a map gives");
    check(&map("[\"~^(a)\", \"{1}\"]"), &only("{1}"));
    check(&map("[\"~^(a)\", \"x$1\"]"), &only("$1"));
    check(&map("[\"a\", \"{header.X}\"]"), &only("{header.X}"));
    check(&site("[map.a]\nof = \"{host}\"\nrules = []\ndefault = \"$host\""), &only("$host"));
    let warned = |rule: &str| -> Vec<String> {
        let used = format!("response_headers.set.X-A = \"{{map.a}}\"\n{}", &map(rule)[site("").len()..]);
        good(&site(&used)).warnings()
    };
    let expected = "weir.toml:9: the map a: `*.example.com` is a whole text, in which `*` is a star; as a \
                    glob it is the expression '~^.*\\.example\\.com$'";
    assert_eq!(warned("[\"*.example.com\", \"b\"]"), [expected]);
    assert_eq!(warned("[\"~^.*\\\\.example\\\\.com$\", \"b\"]").len(), 0);
    check(&site("[map.a]\nof = \"{host}\"\nrules = [\"x\", \"y\"]"), "`rules` is a list of lists");
}

/// The lines, columns and sentences of all mistakes.
fn places(text: &str) -> Vec<(u32, u32, String)> {
    let mistakes = load(text).unwrap_err();
    let place = |(place, sentence): (Option<crate::Place>, String)| {
        place.map(|place| (place.line, place.column, sentence))
    };
    mistakes.sentences().into_iter().filter_map(place).collect()
}

#[test]
fn each_mistake_in_a_text_has_its_own_place() {
    let found = places(&site("[log]\nformat = \"{hots} $host {status} {uro}\""));
    let found: Vec<(u32, u32, &str)> =
        found.iter().map(|(line, column, text)| (*line, *column, text.as_str())).collect();
    let host = means("$host", "{hostname}");
    assert_eq!(
        found,
        [
            (7, 11, "unknown placeholder `{hots}`: did you mean `{host}`?"),
            (7, 18, host.as_str()),
            (7, 33, "unknown placeholder `{uro}`: did you mean `{uri}`?"),
        ]
    );
    // Escapes: the part is found by itself where it stands once.
    let found = places(&site("request_headers.set.X-A = \"\\u0061 {hots}\""));
    assert_eq!((found[0].0, found[0].1), (6, 35));
    let scopes = places(&site("request_headers.set.X-A = \"{age} {host} {status}\""));
    assert_eq!(scopes.iter().map(|found| found.1).collect::<Vec<_>>(), [28, 41]);
}

#[test]
fn a_map_with_a_mistake_is_there_and_shows_its_other_mistakes() {
    let text = site(
        "key = { values = [\"{map.a}\"] }\n[map.a]\nof = \"{hots}\"\nrules = [[\"~(\", \"b\"], [\"c\"]]",
    );
    expect(
        &text,
        &[
            (8, "unknown placeholder `{hots}`: did you mean `{host}`?"),
            (9, "not a regular expression: unclosed group"),
            (9, "a rule is a pattern and what it gives"),
        ],
    );
}

#[test]
fn help_names_the_word_of_weir() {
    let help = |text: &str| load(text).unwrap_err().to_string();
    for (inner, words) in [
        ("proxy_no_cache = \"$a\"", "`no_store` of `[[site]]`"),
        (
            "proxy_cache_bypass = \"$a\"",
            "`bypass` does what `proxy_cache_bypass` and `proxy_no_cache` do together",
        ),
        ("proxy_redirect = \"off\"", "`back.location` of `[[site]]`"),
        ("proxy_cookie_path = \"/ /a\"", "`back.cookie_path` of `[[site]]`"),
        ("proxy_cookie_domain = \"a b\"", "`back.cookie_domain` of `[[site]]`"),
        ("proxy_hide_header = \"X-A\"", "`response_headers.remove` of `[[site]]`"),
        ("proxy_cache_lock = true", "requests for what is being fetched wait for that one fetch"),
        ("http2 = true", "`protocols` of `[[listen]]`"),
        ("auth_basic = \"a\"", "Weir has nothing in its place yet"),
        ("bypass = true", "`bypass = { paths = [\"/**\"] }`"),
        ("[[site.route]]\nregex = \"\\.php$\"", "write the text in single quotes"),
        ("[map.a]\nof = \"{host}\"\nrules = [\"x\", \"y\"]", "did you mean `[[\"x\", \"y\"]]`?"),
        ("description = \"${request_uri}\"", "where nginx has `${request_uri}`, Weir has `{uri}`"),
    ] {
        let said = help(&site(inner));
        assert!(said.contains(words), "{said}");
    }
}
