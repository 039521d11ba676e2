//! What a value must do, by example.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use proptest::prelude::*;

use super::*;
use crate::RequestView;

fn fields(lines: &[(&'static str, &[u8])]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in lines {
        map.append(HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap());
    }
    map
}

fn view<'a>(target: &'a str, headers: &'a HeaderMap) -> RequestView<'a> {
    RequestView {
        method: &Method::GET,
        scheme: "https",
        host: "shop.example:8443",
        path_and_query: target,
        headers,
        has_body: false,
        is_trusted: false,
    }
}

fn rendered(text: &str, scope: Scope, style: Style, headers: &HeaderMap) -> String {
    let value = Value::parse(text, scope).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(Value::parse(&value.to_string(), scope), Ok(value.clone()), "{text}");
    let target = "/a/b%20c?x=1&y=%7B&x=2&empty=&bare";
    let bytes = value.render(&view(target, headers), style);
    String::from_utf8(bytes).unwrap()
}

#[test]
fn placeholders_and_filters() {
    let headers = fields(&[
        ("user-agent", b"Some \"Phone\""),
        ("x-two", b"One"),
        ("x-two", b"Two"),
        ("x-empty", b""),
        ("cookie", b"a=1; b=2; a=3"),
    ]);
    for (text, expected) in [
        ("", ""),
        ("plain", "plain"),
        ("{{literal}}", "{literal}"),
        ("{scheme}://{host}{uri}", "https://shop.example:8443/a/b%20c?x=1&y=%7B&x=2&empty=&bare"),
        ("{hostname}|{port}|{path}", "shop.example|8443|/a/b%20c"),
        ("{query}", "x=1&y=%7B&x=2&empty=&bare"),
        ("{query.x}{query.y}[{query.empty}][{query.bare}][{query.none}]", "1%7B[][][]"),
        ("{method}", "GET"),
        ("{header.X-Two}", "One"),
        ("{header.X-Two | lower}", "one"),
        ("{header.X-Two|lower|json}", "\"one\""),
        ("{header.User-Agent | json}", "\"Some \\\"Phone\\\"\""),
        ("{header.X-None | json}", "null"),
        ("{header.X-None | default \"-\" | json}", "\"-\""),
        ("{header.X-None | default 'a}|b'}", "a}|b"),
        ("{header.X-Empty | default \"none\"}", "none"),
        ("{header.X-Empty}{header.X-None}", ""),
        ("{cookie.a}{cookie.b}{cookie.c | default \"x\"}", "12x"),
    ] {
        assert_eq!(rendered(text, Scope::Request, Style::Plain, &headers), expected, "{text}");
    }
}

#[test]
fn mistakes_are_named() {
    let cases: &[(&str, Scope, &str)] = &[
        ("{host", Scope::Request, "missing `}`; a literal brace is written `{{`"),
        ("a}b", Scope::Request, "`}` without `{`; a literal brace is written `}}`"),
        ("{}", Scope::Request, "`{}` names nothing; a literal brace is written `{{`"),
        ("{\"a\": 1}", Scope::Request, "`{\"a\": 1}` names nothing; a literal brace is written `{{`"),
        ("{hots}", Scope::Request, "unknown placeholder `{hots}`"),
        ("{header.a b}", Scope::Request, "`{header.a b}` names nothing; a literal brace is written `{{`"),
        ("{header.a:}", Scope::Request, "`{header.a:}`: `a:` is not a name"),
        ("{query.}", Scope::Request, "`{query.}`: `` is not a name"),
        ("{origin.status}", Scope::Key, "`{origin.status}` is not known in the key; known in: response, log"),
        (
            "{request_id}",
            Scope::Key,
            "`{request_id}` is not known in the key; known in: request, response, answer, log",
        ),
        ("{host | upper}", Scope::Request, "unknown filter `upper`: use `default \"…\"`, `lower` or `json`"),
        ("{host | default}", Scope::Request, "`default` needs a text in quotes: `| default \"-\"`"),
        ("{host | default \"}", Scope::Request, "missing `}`; a literal brace is written `{{`"),
        ("{host | default \"a\nb\"}", Scope::Request, "`default` needs a text in quotes: `| default \"-\"`"),
    ];
    for (text, scope, expected) in cases {
        assert_eq!(Value::parse(text, *scope).unwrap_err().to_string(), *expected, "{text}");
    }
}

#[test]
fn every_row_is_a_placeholder_where_it_is_known() {
    for row in &ROWS {
        let name = row.name.replace("NAME", "x");
        for scope in Scope::ALL {
            let parsed = Value::parse(&format!("{{{name}}}"), scope);
            assert_eq!(parsed.is_ok(), row.is_known_in(scope), "{name} {scope:?}");
            if let Ok(value) = parsed {
                assert_eq!(value.to_string(), format!("{{{name}}}"));
            }
        }
        assert!(row.known_in().count() > 0 && !row.meaning.is_empty(), "{name}");
    }
}

#[test]
fn nothing_leaves_its_place() {
    let hostile = fields(&[("x-evil", b"a\tb\xff\"\\ ?#%\x80")]);
    let text = "{header.x-evil}";
    let value = Value::parse(text, Scope::Log).unwrap();
    let known = view("/", &hostile);
    for (style, expected) in [
        (Style::Plain, &b"a\tb\xff\"\\ ?#%\x80"[..]),
        (Style::Log, b"a\\x09b\\xFF\\x22\\x5C ?#%\\x80"),
        (Style::Url, b"a%09b%FF\"\\%20?#%%80"),
        (Style::Path, b"a%09b%FF\"\\%20%3F%23%%80"),
    ] {
        assert_eq!(value.render(&known, style), expected, "{style:?}");
    }
    let json = Value::parse("{header.x-evil | json}", Scope::Log).unwrap();
    assert_eq!(json.render(&known, Style::Log), b"\"a\\u0009b\\ufffd\\\"\\\\ ?#%\\ufffd\"");
    let log = Value::parse("{header.none} {header.x-evil | default \"-\" | lower}", Scope::Log).unwrap();
    assert!(log.render(&known, Style::Log).starts_with(b"- a\\x09b"));
}

#[test]
fn no_text_of_a_request_makes_a_log_long() {
    let long = fields(&[("x-long", &[0x80; 30_000])]);
    let length =
        |text: &str, style| Value::parse(text, Scope::Log).unwrap().render(&view("/", &long), style).len();
    assert_eq!(length("{header.x-long}", Style::Log), LOG_BYTES_MAX * "\\xHH".len());
    assert_eq!(length("{header.x-long | json}", Style::Log), LOG_BYTES_MAX * "\\uHHHH".len() + 2);
    assert_eq!(length("{header.x-long}", Style::Plain), 30_000);
    let text = fields(&[("x-a", "é𝄞\t".as_bytes())]);
    let json = Value::parse("{header.x-a | json}", Scope::Log).unwrap();
    assert_eq!(json.render(&view("/", &text), Style::Log), br#""\u00e9\ud834\udd1e\u0009""#);
}

/// What a client writes in a path or field is one parameter's value in the query of a target.
#[test]
fn no_text_adds_a_parameter() {
    let hostile = fields(&[("x-evil", b"5&admin=1;b+c#d?e%26")]);
    let render = |text: &str, target: &str, style| {
        let value = Value::parse(text, Scope::Rewrite).unwrap();
        String::from_utf8(value.render(&view(target, &hostile), style)).unwrap()
    };
    let one = "5%26admin%3D1%3Bb%2Bc%23d%3Fe%26";
    assert_eq!(render("/a?id={header.x-evil}", "/", Style::Path), format!("/a?id={one}"));
    assert_eq!(render("/a?{query}&id={header.x-evil}", "/?x=1&y", Style::Path), format!("/a?x=1&y&id={one}"));
    assert_eq!(render("/a{uri}&id={header.x-evil}", "/?x=1", Style::Path), format!("/a/?x=1&id={one}"));
    assert_eq!(render("/a?q={query.q}", "/?q=a+b;c=d", Style::Path), "/a?q=a+b%3Bc%3Dd");
    assert_eq!(render("/{header.x-evil}?b", "/", Style::Path), "/5&admin=1;b+c%23d%3Fe%26?b");
    assert_eq!(render("/a?{header.x-evil}", "/", Style::Url), "/a?5&admin=1;b+c#d?e%26");
}

/// Two requests have the same lines only if all their values are the same.
#[test]
fn lines_of_the_key_cannot_be_played_with() {
    let lines = |target: &str, headers: &HeaderMap| {
        let value =
            Value::parse("{query.a}-{query.b}{header.x | lower}{cookie.c | default \"d\"}", Scope::Key);
        let mut out = Vec::new();
        for placeholder in value.unwrap().placeholders() {
            placeholder.write_key_lines(&view(target, headers), &mut out);
        }
        String::from_utf8(out).unwrap()
    };
    let none = HeaderMap::new();
    let plain = "\nvalue query.a=1-2\nvalue query.b=3\nvalue header.x\nvalue cookie.c=d";
    assert_eq!(lines("/?a=1-2&b=3", &none), plain);
    let all: Vec<String> =
        ["/?a=1-2&b=3", "/?a=1&b=2-3", "/?a=1-2&b=3&b=3", "/?a=1-2&b=", "/?a=1-2", "/?b=3"]
            .iter()
            .map(|target| lines(target, &none))
            .collect();
    for (at, one) in all.iter().enumerate() {
        assert!(!all[at + 1..].contains(one), "{one}");
    }
    let twice = fields(&[("x", b"A"), ("x", b"B"), ("cookie", b"c=d")]);
    let expected = "\nvalue query.a\nvalue query.b\nvalue header.x=a\nvalue header.x=b\nvalue cookie.c=d";
    assert_eq!(lines("/", &twice), expected);
}

proptest! {
    /// Whatever is wrong has its place in the text, and nothing is wrong with what is parsed.
    #[test]
    fn faults_have_places(text in "([{}|\"' a-z$é.]|\\{host\\}|\\{hots\\}|\\{age \\| lower\\}){0,12}") {
        for scope in Scope::ALL {
            let faults = Value::faults(&text, scope);
            prop_assert_eq!(faults.first().map(|(_, error)| error.clone()), Value::parse(&text, scope).err());
            let mut end = 0;
            for (place, _) in faults {
                let part = text.get(place.clone()).unwrap_or_default();
                prop_assert!(place.start >= end && !part.is_empty(), "{:?}", place);
                end = place.end;
            }
        }
    }
}
