//! What `semantics` must do, by example.

use crate::sample::{expect, good};

/// An upstream and a site around what is tested.
fn site(inner: &str) -> String {
    format!(
        "[upstream.app]\norigins = [\"http://127.0.0.1:1\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"app\"\n\
         {inner}"
    )
}

#[test]
fn names_lead_somewhere() {
    expect(&site("[[site.route]]\nprefix = \"/a\"\nupstream = \"ap\""), &[(8, "there is no upstream `ap`")]);
    expect("[[site]]\nhosts = [\"*\"]\nupstream = \"app\"", &[(3, "there is no upstream `app`")]);
    expect("", &[(0, "there is no `[[site]]`, so every request would be answered 421")]);
    expect("[[site]]\nhosts = [\"*\"]", &[(1, "this site has no upstream")]);
    expect(
        "[[site]]\nhosts = [\"*\"]\n[[site.route]]\nprefix = \"/a\"\n[[site.route]]\nprefix = \"/b\"\nanswer \
         = {}",
        &[(3, "this route has no upstream")],
    );
    good("[[site]]\nhosts = [\"*\"]\n[[site.route]]\nredirect = \"https://{host}{uri}\"");
}

#[test]
fn placeholders_are_known_where_they_stand() {
    let fields = |key: &str, text: &str| site(&format!("[site.{key}]\nset.X-A = '{text}'"));
    good(&fields("request_headers", "{client.address}, {header.X-B | lower}"));
    good(&fields("response_headers", "{outcome}; {age}; {origin.status}"));
    expect(
        &fields("request_headers", "{origin.status}"),
        &[(
            7,
            "`{origin.status}` is not known in a field of the request to the origin; known in: response, log",
        )],
    );
    expect(
        &fields("response_headers", "{body_bytes}"),
        &[(7, "`{body_bytes}` is not known in a field of the response; known in: log")],
    );
    expect(&fields("response_headers", "{host"), &[(7, "missing `}`; a literal brace is written `{{`")]);
    expect(&fields("response_headers", " a"), &[(7, "a field's value does not begin or end with space")]);
    let nearest = "unknown placeholder `{outcom}`: did you mean `{outcome}`?";
    expect(&fields("response_headers", "{outcom}"), &[(7, nearest)]);
    let answer = "[[site.route]]\nanswer = { headers = { X-A = '{status}' } }";
    let known = "`{status}` is not known in an answer or redirect of Weir's own; known in: response, log";
    expect(&site(answer), &[(7, known)]);
    let keyed = "`{request_id}` is not known in the key; known in: request, response, answer, log";
    expect(&site("key = { values = [\"{request_id}\"] }"), &[(6, keyed)]);
}

#[test]
fn captures_have_a_pattern_that_has_them() {
    let route = |inner: &str| site(&format!("[[site.route]]\n{inner}"));
    good(&route("path = \"/a/*/**\"\nredirect = \"/b/{2}/{1}\""));
    good(&route("prefix = \"/a/\"\nredirect = \"/b/{1}\""));
    good(&route("regex = '^/(x|y)/'\nkey = { values = [\"{1}\"] }"));
    let none = "`{1}` stands for nothing here: the route has no `path`, `prefix` or `regex`";
    expect(&route("redirect = \"/b/{1}\""), &[(7, none)]);
    let one = "`{2}` stands for nothing here: `/a/*` has 1 `*`";
    expect(&route("path = \"/a/*\"\nredirect = \"/b/{2}\""), &[(8, one)]);
    let groups = "`{2}` stands for nothing here: `^/(x|y)/` has 1 groups";
    expect(&route("regex = '^/(x|y)/'\nrequest_headers = { set = { X-A = \"{2}\" } }"), &[(8, groups)]);
    // Inherited by a route that has it, but not by the site itself.
    let inherited = site("response_headers = { set = { X-A = \"{1}\" } }\n[[site.route]]\npath = \"/a/*\"");
    expect(&inherited, &[(6, none)]);
}

#[test]
fn rewrites_can_match() {
    let rewrite = |rules: &str| site(&format!("rewrite = [{rules}]"));
    good(&rewrite("{ from = \"/a/*\", to = \"/{1}\" }, { from = \"/a/**\", to = \"/b/{1}\" }"));
    expect(&rewrite("{ to = \"/\" }"), &[(6, "this rule says no path: `from` is missing")]);
    let both = "{ from = \"/a\", regex = '^/b', to = \"/\" }";
    expect(&rewrite(both), &[(6, "`from` and `regex` exclude each other")]);
    let hidden = "{ from = \"/a/**\", to = \"/{1}\" }, { from = \"/a/b/*\", to = \"/c\" }";
    expect(&rewrite(hidden), &[(6, "this rule is never reached")]);
    let apart = "[[site.route]]\nprefix = \"/a/\"\nrewrite = [{ from = \"/b/**\", to = \"/{1}\" }]";
    expect(&site(apart), &[(8, "this rule is never reached")]);
    let captures = "`{2}` stands for nothing here: the rule has 1 stars or groups";
    expect(&rewrite("{ from = \"/a/*\", to = \"/{2}\" }"), &[(6, captures)]);
    let unkeyed = "`{header.x-a}` chooses what the origin is asked for, and is not in the key";
    expect(&rewrite("{ from = \"/**\", to = \"/{header.X-A}/{1}\" }"), &[(6, unkeyed)]);
    good(&site("key = { headers = [\"X-A\"] }\nrewrite = [{ from = \"/**\", to = \"/{header.X-A}/{1}\" }]"));
    expect(&rewrite("{ from = \"/a\", to = \"b\" }"), &[(6, "a path begins with `/`: did you mean `/b`?")]);
    let unknown = "`{path}` is not known here: use `{1}`, `{scheme}`, `{host}`, `{hostname}` or `{port}`";
    expect(&site("back = { location = [{ from = \"**\", to = \"{path}\" }] }"), &[(6, unknown)]);
}

#[test]
fn lines_of_the_log() {
    let log = |inner: &str| format!("{}[log]\n{inner}", site(""));
    good(&log("format = '{time.log} \"{method} {uri}\" {status} {body_bytes} {header.Referer | json}'"));
    let both = "`access` and `format` exclude each other";
    expect(&log("access = \"json\"\nformat = \"{status}\""), &[(8, both)]);
    let near = "unknown placeholder `{body_bytes_sent}`: did you mean `{body_bytes}`?";
    expect(&log("format = \"{body_bytes_sent}\""), &[(7, near)]);
    expect(&log("format = \"a\\nb\""), &[(7, "'\\n' is not allowed in a line of the log")]);
    expect(&log("format = \"\""), &[(7, "the line is empty")]);
}

#[test]
fn routes_name_hosts_and_ports_that_there_are() {
    let text = |route: &str| {
        format!(
            "[[listen]]\naddress = \"127.0.0.1:8080\"\n[[listen]]\naddress = \"[::1]:8443\"\n\
             [upstream.app]\norigins = [\"http://127.0.0.1:1\"]\n[[site]]\n\
             hosts = [\"shop.test\", \"*.shop.test\"]\nupstream = \"app\"\n[[site.route]]\n{route}\n"
        )
    };
    for route in [
        "hosts = [\"m.shop.test\", \"*.shop.test\", \"img-*\", \"~^img\"]",
        "port = 8443",
        "port = [8443, 8080]\nprefix = \"/a\"",
    ] {
        good(&text(route));
    }
    let loaded = good(&text("port = 8443"));
    let keyed: Vec<String> =
        loaded.resolved()[0].routes[0].cache.key.values.iter().map(ToString::to_string).collect();
    assert_eq!(keyed, ["{listener.port}"]);
    assert!(loaded.resolved()[0].routes[1].cache.key.values.is_empty());
    let never = "this route is never reached: the site has no host `m.shop.example`";
    expect(&text("hosts = [\"shop.test\", \"m.shop.example\"]"), &[(11, never)]);
    expect(&text("port = 8444"), &[(11, "no `[[listen]]` has the port 8444")]);
    expect(&text("port = [8443, 8444]"), &[(11, "no `[[listen]]` has the port 8444")]);
    let port = "a host has no port here: write `hosts = [\"shop.test\"]` and `port = 81`";
    expect(&text("hosts = [\"shop.test:81\"]"), &[(11, port)]);
    let reached = |first: &str, second: &str| {
        crate::sample::sentences(&text(&format!("{first}\n[[site.route]]\n{second}"))).is_empty()
    };
    assert!(reached("port = 8443", "port = 8080") && reached("port = 8443", "prefix = \"/a\""));
    assert!(reached("hosts = [\"a.shop.test\"]", "hosts = [\"b.shop.test\"]"));
    assert!(!reached("port = [8443, 8080]", "port = 8080\nprefix = \"/a\""));
    assert!(!reached("hosts = [\"*.shop.test\"]", "hosts = [\"*.shop.test\"]\nport = 8443"));
}

#[test]
fn conditions_on_maps_can_hold() {
    let devices = "[map.device]\nof = \"{header.User-Agent}\"\nrules = [[\"~*mobile\", \"phone\"]]\n\
                   default = \"desktop\"\n[map.office]\nof = \"{client.address}\"\n\
                   rules = [[\"192.0.2.0/24\", \"yes\"]]\n";
    let by = |key: &str, list: &str| format!("{}{devices}", site(&format!("{key} = {{ map = [{list}] }}\n")));
    for key in ["bypass", "refresh", "no_store"] {
        good(&by(key, "\"device=ph*\", \"office\""));
        expect(&by(key, "\"devise\""), &[(6, "there is no map `devise`")]);
        let never = "this condition never holds: the map `device` never gives that";
        expect(&by(key, "\"device=phon\""), &[(6, never)]);
    }
    expect(
        &by("bypass", "\"a b=c\""),
        &[(6, "' ' is not allowed in the name of a map: letters, digits, `-`, `_`")],
    );
    let warned = |list: &str| {
        let warnings = good(&by("refresh", list)).warnings();
        warnings.iter().any(|warning| warning.contains("`refresh` holds for any client"))
    };
    assert!(warned("\"device=phone\"") && !warned("\"office\""));
}

#[test]
fn maps_say_something() {
    let map =
        |inner: &str| format!("{}[map.device]\n{inner}", site("key = { values = [\"{map.device}\"] }\n"));
    good(&map("of = \"{header.User-Agent}\"\nrules = [[\"\", \"none\"], [\"~*mobile\", \"phone\"]]"));
    good(&map("of = \"{client.address}\"\nrules = [[\"192.0.2.1\", \"a\"], [\"2001:db8::/32\", \"b\"]]"));
    let of = |rules: &str| map(&format!("of = \"{{host}}\"\nrules = [{rules}]"));
    expect(&of("[\"a\"]"), &[(9, "a rule is a pattern and what it gives")]);
    expect(&of("[\"~(\", \"b\"]"), &[(9, "not a regular expression: unclosed group")]);
    expect(&of("[\"a\", \"b\"], [\"a\", \"c\"]"), &[(9, "the pattern `a` stands twice")]);
    let bad = "a field's value has visible characters and spaces only (RFC 9110 §5.5)";
    expect(&of("[\"a\", \"b\\r\\nX: c\"]"), &[(9, bad)]);
    let network = "`ten` is not an address or a network: `192.0.2.0/24`, `2001:db8::/32`";
    expect(&map("of = \"{client.address}\"\nrules = [[\"ten\", \"b\"]]"), &[(9, network)]);
    let known = "`{map.other}` is not known in a map; known in: key, request, response, answer, rewrite, log";
    let of_map = format!("{}[map.device]\nof = \"{{map.other}}\"\nrules = []", site(""));
    expect(&of_map, &[(7, known)]);
    expect(&site("key = { values = [\"{map.devise}\"] }"), &[(6, "there is no map `devise`")]);
    let field = "request_headers = { set = { X-A = \"{map.none}\" } }";
    expect(&site(field), &[(6, "there is no map `none`")]);
    expect(&format!("{}[log]\nformat = \"{{map.none}}\"", site("")), &[(7, "there is no map `none`")]);
    let path = "key = { values = [\"{map.a}\"] }\nrewrite = [{ from = \"/**\", to = \"/{map.a}/{1}\" }]\n";
    let text = format!("{}[map.a]\nof = \"{{host}}\"\nrules = []", site(path));
    expect(&text, &[(7, "the map `a` has no `default`, and chooses a path")]);
}

#[test]
fn nothing_stands_twice() {
    let two = "[upstream.app]\norigins = [\"http://127.0.0.1:1\"]\n[defaults]\nupstream = \"app\"\n";
    expect(
        &format!(
            "{two}[[site]]\nhosts = [\"a.example\", \"A.example.\"]\n[[site]]\nhosts = [\"*.b.example\", \
             \"a.example\"]"
        ),
        &[(6, "the host `a.example` appears twice"), (8, "the host `a.example` appears twice")],
    );
    expect(
        &format!(
            "{two}[[site]]\nhosts = [\"*\"]\n[admin]\nlisten = \"127.0.0.1:80\"\n[[listen]]\naddress = \
             \"127.0.0.1:80\""
        ),
        &[(10, "`127.0.0.1:80` is listened on twice")],
    );
    expect(
        &format!(
            "{two}[[site]]\nhosts = [\"*\"]\n[[listen]]\naddress = \"unix:/a\"\n[[listen]]\naddress = \
             \"unix:/a?mode=0600\""
        ),
        &[(10, "`unix:/a?mode=0600` is listened on twice")],
    );
    good(&format!(
        "{two}[[site]]\nhosts = [\"*\"]\n[[listen]]\naddress = \"127.0.0.1:0\"\n[[listen]]\naddress = \
         \"127.0.0.1:0\""
    ));
}

#[test]
fn routes_are_reached() {
    let never = "this route is never reached";
    for (first, second, is_reached) in [
        ("path = \"/a/**\"", "path = \"/a/b\"", false),
        ("path = \"/a/**\"", "prefix = \"/a/b\"", false),
        ("path = \"/a/**\"", "path = \"/*/b\"", true),
        ("path = \"/a/*\"", "path = \"/a/b\"", true),
        ("prefix = \"/a\"", "path = \"/a*\"", false),
        ("prefix = \"/\"", "regex = \"^/a\"", false),
        ("prefix = \"/a\"", "regex = \"^/a\"", true),
        ("regex = \"^/a\"", "regex = \"^/a\"", false),
        ("prefix = \"/a\"\nmethod = \"GET\"", "prefix = \"/a\"", true),
        ("prefix = \"/a\"\nmethod = [\"GET\", \"POST\"]", "prefix = \"/a\"\nmethod = \"POST\"", false),
        ("prefix = \"/a\"\nscheme = \"http\"", "prefix = \"/a\"", true),
        ("prefix = \"/a\"\nscheme = \"http\"", "prefix = \"/a\"\nscheme = \"http\"", false),
        ("", "prefix = \"/a\"", false),
        ("prefix = \"/a\"", "", true),
    ] {
        let text = site(&format!("[[site.route]]\n{first}\n[[site.route]]\n{second}"));
        let line = 7 + first.lines().count() as u32 + u32::from(first.is_empty());
        match is_reached {
            true => drop(good(&text)),
            false => expect(&text, &[(line, never)]),
        }
    }
}

#[test]
fn keys_that_exclude_each_other() {
    for (inner, line, sentence) in [
        ("[[site.route]]\npath = \"/a\"\nregex = \"b\"", 8, "`path` and `regex` exclude each other"),
        ("[[site.route]]\nanswer = {}\nredirect = \"/\"", 8, "`answer` and `redirect` exclude each other"),
        ("[[site.route]]\nanswer = {}\nupstream = \"app\"", 8, "`answer` and `upstream` exclude each other"),
        ("key = { query = { keep = [], drop = [] } }", 6, "`keep` and `drop` exclude each other"),
        ("[[site.route]]\nredirect = { to = \"/\", status = 304 }", 7, "304 is not a redirect status"),
        (
            "response_headers = { set = { Content-Length = \"1\" } }",
            6,
            "the field `Content-Length` cannot be set",
        ),
    ] {
        expect(&site(inner), &[(line, sentence)]);
    }
}

#[test]
fn upstreams() {
    let after = "\n[[site]]\nhosts = [\"*\"]\nupstream = \"app\"\n";
    for (inner, line, sentence) in [
        ("origins = []", 2, "`origins` is empty"),
        ("connect = \"1s\"", 1, "`origins` is missing in `app`"),
        ("origins = [{ url = \"http://a\", backup = true }]", 2, "all origins are backups"),
        (
            "origins = [\"http://a\"]\neject = { time = \"5s\", time_max = \"1s\" }",
            3,
            "`time_max` is less than `time` (5s)",
        ),
        (
            "origins = [\"http://a\"]\ncheck = { every = \"2s\", timeout = \"3s\" }",
            3,
            "`timeout` (3s) is longer than `every` (2s)",
        ),
        (
            "origins = [\"http://a\"]\ncheck = { every = \"50ms\", timeout = \"10ms\" }",
            3,
            "`every` is at least 100ms",
        ),
        (
            "origins = [\"http://a\"]\ncheck = { method = \"HEAD\", body = \"ok\" }",
            3,
            "a response to HEAD has no `body`",
        ),
        ("origins = [\"http://a\"]\ncheck = { body = \"\" }", 3, "every body contains an empty text"),
        (
            "origins = [\"http://a\"]\ncheck = { path = \"up\" }",
            3,
            "a path begins with `/`: did you mean `/up`?",
        ),
        (
            "origins = [\"http://a\"]\ncheck = { status = \"2xx\" }",
            3,
            "`2xx` is no range here: did you mean `200-299`?",
        ),
        (
            "origins = [\"http://a\"]\ncheck = { status = \"399-200\" }",
            3,
            "`399-200` is no range: did you mean `200-399`?",
        ),
        ("origins = [\"http://a\"]\ncheck = { staus = \"200\" }", 3, "unknown key `staus` in `check`"),
        ("origins = [\"http://a\"]\ncheck = \"tpc\"", 3, "unknown value `tpc` for `check`"),
        ("origins = [\"http://a\"]\nagent = { every = \"1s\" }", 3, "`port` is missing in `agent`"),
        (
            "origins = [\"unix:/a\"]\nagent = { port = 1 }",
            3,
            "an origin at a unix socket has no address for an `agent`",
        ),
        (
            "origins = [\"http://a\", \"http://b\"]\nhost = \"origin\"",
            3,
            "`host = \"origin\"`, but the origins of `app` have no one name",
        ),
        (
            "origins = [\"unix:/a\"]\nhost = \"origin\"",
            3,
            "`host = \"origin\"`, but the origins of `app` have no one name",
        ),
        ("origins = [\"http://a\"]\nconnections = 0", 3, "`connections` is out of bounds"),
        ("origins = [\"http://a\"]\nretry = { times = -1 }", 3, "`times` is out of bounds"),
        ("origins = [\"http://a\"]\nretries = 2", 3, "unknown key `retries` in `app`"),
        ("origins = [\"http://a\"]\nretry = { on = [\"500\"] }", 3, "unknown value `500` for `on`"),
        (
            "origins = [\"http://a\"]\neject = { status = \"599-500\" }",
            3,
            "`599-500` is no range: did you mean `500-599`?",
        ),
        ("origins = [\"http://a\"]\neject = { at_most = 50 }", 3, "`at_most` is of the wrong kind"),
        (
            "origins = [\"http://a\"]\neject = { at_most = \"0%\" }",
            3,
            "`0%` is out of bounds: use `1%` to `100%`",
        ),
        (
            "origins = [\"http://a\"]\neject = { least = 10 }",
            3,
            "`least` has no use without `share` or `slow`",
        ),
        ("origins = [\"http://a\"]\neject = { slow = 0.5 }", 3, "`slow` is out of bounds"),
        ("origins = [\"http://a\"]\neject = { slow = nan }", 3, "`slow` is out of bounds"),
        ("origins = [\"http://a\"]\neject = { share = \"5%\", least = 0 }", 3, "`least` is out of bounds"),
        (
            "origins = [\"http://a\"]\neject = { share = \"50%\", within = \"0s\" }",
            3,
            "`share` has no effect: `within` is zero",
        ),
        (
            "origins = [\"http://a\"]\neject = { slow = 3, within = \"0s\" }",
            3,
            "`slow` has no effect: `within` is zero",
        ),
        ("origins = [\"http://a\"]\neject = { shares = \"50%\" }", 3, "unknown key `shares` in `eject`"),
        (
            "origins = [\"http://a\"]\nslow_start = \"0s\"",
            3,
            "`slow_start` is zero: origins return at once without it",
        ),
        ("origins = [\"http://a\"]\neject = { stauts = \"5xx\" }", 3, "unknown key `stauts` in `eject`"),
        ("origins = [\"http://a\"]\nconnections = 1e3", 3, "`connections` is of the wrong kind"),
    ] {
        expect(&format!("[upstream.app]\n{inner}{after}"), &[(line, sentence)]);
    }
    good(&format!(
        "[upstream.app]\norigins = [\"http://a\", {{ url = \"https://a\", backup = true }}]\nhost = \
         \"origin\"{after}"
    ));
}

#[test]
fn what_is_not_there_yet_is_not_taken() {
    for (text, sentence) in [
        ("[cache]\ndisk = \"10GiB\"", "unknown key `disk` in `cache`"),
        (
            "[[cache.volume]]\npath = \"/a\"\n[[cache.volume]]\npath = \"/a/\"",
            "two volumes have the same folder",
        ),
        (
            "[[cache.volume]]\npath = \"/a/b\"\n[[cache.volume]]\npath = \"/a\"",
            "one volume's folder is inside another's",
        ),
    ] {
        let found = crate::sample::sentences(text);
        assert!(found.iter().any(|(_, found)| found == sentence), "{found:?}");
    }
}

#[test]
fn a_chunk_is_made_of_blocks() {
    let title = "a chunk is a multiple of 64 KiB, and at most 1 GiB";
    for size in ["0", "1kB", "100KiB", "2GiB"] {
        expect(&site(&format!("range = {{ chunk = \"{size}\" }}")), &[(6, title)]);
    }
    good(&site("range = { chunk = \"192KiB\", fill = \"whole\", ahead = \"1MiB\", parallel = 2 }"));
}

#[test]
fn a_rate_bounds_something() {
    let rate = |inner: &str| site(&format!("rate = {{ {inner} }}"));
    expect(&rate("query_max = \"1MB\""), &[(6, "`query_max` needs `query` beside it")]);
    expect(&rate("burst = \"1MB\""), &[(6, "`burst` needs `limit` or `query` beside it")]);
    expect(&rate("burst = \"1MB\", media = 1.5"), &[(6, "`burst` needs `limit` or `query` beside it")]);
    expect(
        &rate("limit = \"2MB\", query = \"rate\", query_max = \"1MB\""),
        &[(6, "`query_max` is less than `limit`")],
    );
    expect(&rate("media = 0.9"), &[(6, "`media` is out of bounds")]);
    expect(&rate("media = nan"), &[(6, "`media` is out of bounds")]);
    expect(&rate("media = \"1.2\""), &[(6, "`media` is of the wrong kind")]);
    expect(&rate("limit = 500"), &[(6, "`limit` is of the wrong kind")]);
    expect(
        &rate("limit = \"0\""),
        &[(6, "a rate of 0 would never end: leave the key out to send at full speed")],
    );
    good(&rate(""));
    good(&rate("media = 2"));
    good(&rate(
        "limit = \"500KB/s\", burst = \"1MiB\", query = \"rate\", query_max = \"1MB/s\", media = 1.2",
    ));
}

#[test]
fn a_listener_with_tls_needs_a_certificate() {
    let tls = "[[listen]]\naddress = \"127.0.0.1:443\"\ntls = true\n";
    let nothing = "a listener has TLS, but there is no certificate";
    expect(&site(tls), &[(8, nothing)]);
    good(&site(&format!("certificate = \"self\"\n{tls}")));
    good(&site(&format!("{tls}[[certificate]]\nchain = \"/not/there.pem\"")));
    good(&site("[[listen]]\naddress = \"127.0.0.1:80\"\nprotocols = [\"h2\"]"));
    expect(
        &site("[[listen]]\naddress = \"127.0.0.1:80\"\nprotocols = [\"h2\", \"http/1.1\", \"h2\"]"),
        &[(8, "a protocol stands twice in `protocols`")],
    );
    expect(&site("[[listen]]\naddress = \"127.0.0.1:80\"\nprotocols = []"), &[(8, "`protocols` is empty")]);
}

#[test]
fn certificates_fit_their_keys_by_their_globs() {
    let unequal = "`chain` and `key` do not have the same number of `*`";
    for (chain, key, is_good) in [
        ("/live/*/fullchain.pem", "/live/*/privkey.pem", true),
        ("/c/*.pem", "/k/*.pem", true),
        ("/c/a.pem", "/k/a.pem", true),
        ("/c/a.pem", "/k/*.pem", false),
        ("/c/*.pem", "/k/a.pem", false),
        ("/*/*.pem", "/k/*.pem", false),
    ] {
        let text = site(&format!("[[certificate]]\nchain = \"{chain}\"\nkey = \"{key}\""));
        match is_good {
            true => drop(good(&text)),
            false => expect(&text, &[(8, unequal)]),
        }
    }
    expect(
        &site("[[certificate]]\nchain = \"/a/*.pem\"\ndefault = true"),
        &[(8, "a default certificate is one file, and no glob")],
    );
    expect(
        &site(
            "[[certificate]]\nchain = \"/a\"\ndefault = true\n\
             [[certificate]]\nchain = \"/b\"\ndefault = true",
        ),
        &[(11, "two certificates are the default")],
    );
}

#[test]
fn ordering_needs_listeners() {
    let tls = "[[listen]]\naddress = \"127.0.0.1:443\"\ntls = true\n";
    let plain = "[[listen]]\naddress = \"127.0.0.1:80\"\n";
    good(&site(&format!("{tls}{plain}[acme]")));
    good(&site(&format!("{tls}[acme]\nchallenge = \"tls-alpn-01\"")));
    good(&site(&format!("{tls}[acme]\ncontact = [\"a@b.example\", \"mailto:a@b.example\"]")));
    expect(&site("[acme]"), &[(6, "certificates are ordered, but no listener has TLS")]);
    expect(
        &site(&format!("{tls}[acme]\nchallenge = \"http-01\"")),
        &[(10, "`http-01` needs a listener without TLS, and there is none")],
    );
    expect(
        &site(&format!("{tls}[acme]\ncontact = [\"admin\"]")),
        &[(10, "a contact is a mail address or a URL")],
    );
    let same = "directory = \"https://ca.example/dir\"";
    expect(
        &site(&format!("{tls}[acme]\n{same}\n[acme.fallback]\n{same}")),
        &[(12, "the fallback is the same certificate authority")],
    );
}

#[test]
fn a_status_has_one_lifetime() {
    for key in ["ttl", "ttl_override"] {
        let twice = |of: &str| format!("`{of}` appears twice in `{key}`");
        let of = |table: &str| site(&format!("{key} = {{ {table} }}"));
        expect(&of("\"200,404\" = \"1d\", \"404\" = \"1m\""), &[(6, &twice("404"))]);
        expect(&of("any = \"1d\", \"5xx,any\" = \"1m\""), &[(6, &twice("any"))]);
        expect(&of("5xx = \"1d\", \"500,5xx\" = \"1m\""), &[(6, &twice("5xx"))]);
        expect(&of(""), &[(6, &format!("`{key}` is empty"))]);
        good(&of("200 = \"1d\", 2xx = \"1m\", any = \"1s\""));
        expect(&of("200 = 60"), &[(6, "`200` is of the wrong kind")]);
        expect(&of("429 = \"1m\""), &[(6, "a 429 is never stored")]);
        expect(&of("4XX = \"1m\""), &[(6, "`4XX` is not a status: did you mean `4xx`?")]);
    }
}

#[test]
fn lifetimes_without_effect_are_warned_of() {
    for (rules, part) in [
        ("ttl = { 400 = \"1m\" }", Some("`ttl` names 400")),
        ("ttl = { 400 = \"1m\" }\nerrors = \"store_400\"", None),
        ("ttl_override = { 414 = \"1m\" }", Some("`ttl_override` names 414")),
        ("ttl = { 414 = \"1m\" }\nheuristics = \"whole\"", None),
        ("ttl = { 5xx = \"1m\" }\nerrors = \"no_store\"", Some("stores none")),
        ("ttl = { any = \"1m\" }\nerrors = \"no_store\"", None),
        ("ttl = { 401 = \"1m\" }", Some("clients with credentials")),
        ("ttl = { 200 = \"1m\", 4xx = \"1m\" }", None),
    ] {
        let text = site(&format!("{rules}\n[[site.route]]\nprefix = \"/a\""));
        let warnings = good(&text).warnings();
        let warnings: Vec<_> = warnings.iter().filter(|warning| warning.contains("the site *: ")).collect();
        assert_eq!(warnings.len(), usize::from(part.is_some()), "{rules}: {warnings:?}");
        assert!(part.is_none_or(|part| warnings[0].contains(part)), "{rules}: {warnings:?}");
    }
}

#[test]
fn stale_by_status_is_for_failures_and_ignored_directives_stand_once() {
    for (table, expected) in [
        ("404 = \"1m\", 5xx = \"1h\"", None),
        ("\"403,404\" = \"1m\", 404 = \"1h\"", Some("`404` appears twice in `stale.if_status`")),
        ("any = \"1m\"", Some("`any` is no failure of the origin: use 400 to 599, `4xx` or `5xx`")),
        (
            "\"200,404\" = \"1m\"",
            Some("`200,404` is no failure of the origin: use 400 to 599, `4xx` or `5xx`"),
        ),
        ("3xx = \"1m\"", Some("`3xx` is no failure of the origin: use 400 to 599, `4xx` or `5xx`")),
        ("", Some("`stale.if_status` is empty")),
    ] {
        let text = site(&format!("stale = {{ if_status = {{ {table} }} }}"));
        expect(&text, expected.map(|sentence| (6, sentence)).as_slice());
    }
    for (value, expected) in [
        ("[\"no-store\", \"private\", \"no-cache\"]", None),
        ("{ \"200,404\" = [\"no-store\"], any = [\"private\"] }", None),
        ("[\"no-store\", \"no-store\"]", Some("`no-store` appears twice in `ignore`")),
        ("{ 404 = [\"private\", \"private\"] }", Some("`private` appears twice in `ignore`")),
        ("{ 404 = [\"private\"], \"404,410\" = [\"private\"] }", Some("`404` appears twice in `ignore`")),
        ("[\"nostore\"]", Some("unknown value `nostore` for `ignore`")),
        ("[]", None),
        ("{}", Some("`ignore` is empty")),
        ("{ 429 = [\"private\"] }", Some("a 429 is never stored")),
    ] {
        expect(&site(&format!("ignore = {value}")), expected.map(|sentence| (6, sentence)).as_slice());
    }
    let warnings = good(&site("min_uses = { volume = 2 }")).warnings();
    assert!(
        warnings.iter().any(|warning| warning.contains("`min_uses.volume` has no effect")),
        "{warnings:?}"
    );
    let ignoring = site("ignore = [\"private\"]\n[[site.route]]\nprefix = \"/a\"\nignore = []\n");
    let loaded = good(&ignoring);
    let of_routes = loaded.resolved()[0].routes.iter().map(|route| route.cache.ignore.is_empty());
    assert_eq!(of_routes.collect::<Vec<_>>(), [true, false]);
    let warnings = loaded.warnings();
    assert!(warnings.iter().any(|warning| warning.contains("`ignore` stores")), "{warnings:?}");
}

#[test]
fn what_is_stored_nowhere_is_on_no_volume() {
    for (value, expected) in [
        ("2", None),
        ("{ volume = 2 }", None),
        ("{ memory = 2, volume = 3 }", None),
        ("{ memory = 3, volume = 3 }", Some("`volume` is not more than `memory`, and has no effect")),
        ("{ memory = 3, volume = 2 }", Some("`volume` is not more than `memory`, and has no effect")),
        ("0", Some("`min_uses` is out of bounds")),
        ("17", Some("`min_uses` is out of bounds")),
        ("{ volume = 5 }", Some("`volume` is out of bounds")),
        ("{ disk = 2 }", Some("unknown key `disk` in `min_uses`")),
    ] {
        expect(&site(&format!("min_uses = {value}")), expected.map(|sentence| (6, sentence)).as_slice());
    }
}

#[test]
fn no_site_reads_more_of_a_head_than_all_do() {
    let head = "`head` is more than `[limits]` allows (32KiB)";
    expect(&site("limits = { head = \"33KiB\" }"), &[(6, head)]);
    expect(&site("limits = { fields = 101 }"), &[(6, "`fields` is more than `[limits]` allows (100)")]);
    expect(&site("[[site.route]]\nprefix = \"/a\"\nlimits.head = \"1MiB\""), &[(8, head)]);
    expect(&site("[defaults.limits]\nhead = \"1MiB\""), &[(7, head)]);
    let raised = "[limits]\nhead = \"64KiB\"\nfields = 200\n[defaults.limits]\nhead = \"32KiB\"";
    good(&site(&format!("limits = {{ head = \"64KiB\", fields = 200 }}\n{raised}")));
    good(&site("limits = { body = \"50GiB\", body_rate = \"0\" }"));
    good(&site("limits = { body = \"0\", head = \"32KiB\", fields = 100 }"));
    expect(&site("limits = { fields = 0 }"), &[(6, "`fields` is out of bounds")]);
    expect(&site("limits = { bodys = \"1MiB\" }"), &[(6, "unknown key `bodys` in `limits`")]);
}
