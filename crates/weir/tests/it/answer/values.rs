//! Values with placeholders on the wire: a line stays a line in both versions of HTTP, whatever a client
//! writes, and no client gets what another has written.

use weir_testkit::{H2Client, Origin, Resource, Response, Weir};

use crate::server::{server, setup};

const SET: &str = "X-Cache = \"{outcome} {age | default '-'}\", X-Path = \"{uri}\", \
                   X-Said = \"{header.X-Said}\", \
                   X-Id = \"{request_id}\", X-Cookie = \"{cookie.a | json}\"";

/// A Weir for both versions that sets these fields in responses, and some towards the origin.
fn weir(origin: &Origin) -> Weir {
    setup().run_config(&format!(
        "[admin]\nlisten = \"{{admin}}\"\n[[listen]]\naddress = \"{{listen}}\"\n\
         protocols = [\"h2\", \"http/1.1\"]\n\
         [upstream.main]\norigins = [\"{}\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"main\"\n\
         response_headers = {{ set = {{ {SET} }} }}\n\
         request_headers = {{ set = {{ X-Sent = \"{{path}} {{header.X-Said}}\" }} }}\n\
         [[site.route]]\nprefix = \"/go/\"\nredirect = \"/{{1}}?{{query.to}}\"\n",
        origin.url()
    ))
}

fn echo() -> Origin {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let raw = exchange.request.raw.clone();
        exchange.reply(200, &[("Cache-Control", "max-age=600"), ("X-Said", "of the origin")], raw);
    });
    origin
}

/// Exactly the fields that Weir's own configuration and the origin have named.
fn names(answer: &Response) -> Vec<String> {
    let mut names: Vec<String> = answer
        .head
        .headers
        .iter()
        .map(|(name, _)| name.to_ascii_lowercase())
        .filter(|name| name.starts_with("x-"))
        .collect();
    names.sort();
    names
}

#[test]
fn hits_say_how_they_came_about_in_both_versions() {
    let origin = echo();
    let weir = weir(&origin);
    let first = weir.get_with("/a%0d%0aX-Evil:%201?b", &[("X-Said", "first"), ("Cookie", "a=1\"; a=2")]);
    assert_eq!(first.header("x-cache").as_deref(), Some("miss -"));
    assert_eq!(first.header("x-path").as_deref(), Some("/a%0d%0aX-Evil:%201?b"));
    assert_eq!(first.header("x-cookie").as_deref(), Some("\"1\\\"\""));
    assert!(first.text().contains("\r\nx-sent: /a%0d%0aX-Evil:%201 first\r\n"), "{}", first.text());
    assert_eq!(names(&first), ["x-cache", "x-cookie", "x-id", "x-path", "x-said"]);
    let mut client = H2Client::connect(weir.addr());
    let long = "y".repeat(7000);
    let mut ids = vec![first.header("x-id").unwrap()];
    for said in ["second", "a\tb", long.as_str(), ""] {
        let fields = [("x-said", said)];
        let fields = if said.is_empty() { &fields[..0] } else { &fields[..] };
        let new = client.get("localhost", "/a%0d%0aX-Evil:%201?b", fields);
        let old = weir.get_with("/a%0d%0aX-Evil:%201?b", fields);
        for answer in [new, old] {
            assert!(answer.cache_status().contains("; hit"), "{:?}", answer.head);
            assert!(answer.header("x-cache").unwrap().starts_with("hit "), "{:?}", answer.head);
            assert_eq!(answer.header("x-said").unwrap_or_default(), said);
            assert_eq!(answer.header("x-cookie").as_deref(), Some("null"));
            ids.push(answer.header("x-id").unwrap());
        }
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), origin.total()), (count, 1));
}

#[test]
fn redirects_stay_one_line_and_on_their_host() {
    let origin = echo();
    let weir = weir(&origin);
    for (target, expected) in [
        ("/go//evil.example/?to=x", "http://localhost//evil.example/?x"),
        ("/go/%5cevil?to=%0d%0aSet-Cookie:%20a=b", "/%5cevil?%0d%0aSet-Cookie:%20a=b"),
        ("/go/a?to=https://evil.example/&to=y", "/a?https://evil.example/"),
    ] {
        let answer = weir.get(target);
        assert_eq!(
            (answer.status(), answer.header("location").as_deref()),
            (301, Some(expected)),
            "{target}"
        );
        assert_eq!(answer.header("set-cookie"), None);
    }
    assert_eq!(origin.total(), 0);
}

/// Paths on the wire: no encoding, no line break and no dots lead out of the place that a rule gives.
#[test]
fn rewritten_paths_stay_in_their_place() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let raw = exchange.request.raw.clone();
        let fields = [("Cache-Control", "max-age=600"), ("Location", "/next"), ("Set-Cookie", "a=b; Path=/")];
        exchange.reply(200, &fields, raw);
    });
    let weir = setup().run_config(&format!(
        "[admin]\nlisten = \"{{admin}}\"\n[[listen]]\naddress = \"{{listen}}\"\n\
         [upstream.main]\norigins = [\"{}\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"main\"\n\
         set_cookie = \"store\"\nrewrite = [{{ from = \"/t/*/**\", to = \"/tenants/{{1}}/{{2}}\" }}]\n",
        origin.url()
    ));
    let long = format!("/t/a/{}", "%2f".repeat(2000));
    for (target, asked) in [
        ("/t/a/x?b", "/tenants/a/x?b"),
        ("/t/a/%0d%0aX-Evil:%201", "/tenants/a/%0d%0aX-Evil:%201"),
        ("/t/a/%252e%252e%252fb", "/tenants/a/%252e%252e%252fb"),
        ("/t/a//b", "/tenants/a//b"),
        ("/t/./a/y", "/tenants/a/y"),
        (long.as_str(), long.replacen("/t/", "/tenants/", 1).as_str()),
        ("/other", "/other"),
    ] {
        let first = weir.get(target);
        let expected = format!("GET {asked} HTTP/1.1");
        assert_eq!(first.text().lines().next(), Some(&*expected), "{target}");
        let second = weir.get(target);
        assert!(second.cache_status().contains("; hit"), "{target}: {:?}", second.head);
        assert_eq!(second.text(), first.text());
    }
    let asked = origin.total();
    for target in ["/t/a/../b/x", "/t/../x", "/t/%2e%2e/x", "/t/a/..%2fb", "/t/..%5cb/x", "/t/a/%2e%2E/x"] {
        let refused = weir.get(target);
        assert_eq!((refused.status(), refused.header("location")), (400, None), "{target}");
    }
    assert_eq!(origin.total(), asked);
}

/// A redirect and a fixed answer are the route's own; an error of Weir's is not.
#[test]
fn what_a_route_says_itself_has_the_fields_of_the_route() {
    let origin = Origin::start();
    let site = r#"
[site.response_headers]
set = { X-Frame-Options = "DENY", X-Cache = "{outcome}" }
remove = ["Cache-Status"]

[[site.route]]
path = "/old"
redirect = "/new"

[[site.route]]
path = "/robots.txt"
answer = { body = "User-agent: *" }

[[site.route]]
path = "/inside"
allow = ["192.0.2.1"]
"#;
    origin.put("/new", Resource::fresh("new"));
    let weir = server(&[&origin]).top("trusted_proxies = []").site(site).start();
    for (path, status, frame) in [
        ("/old", 301, Some("DENY")),
        ("/robots.txt", 200, Some("DENY")),
        ("/new", 200, Some("DENY")),
        ("/inside", 403, None),
    ] {
        let answer = weir.get(path);
        let fields = |name: &str| answer.head.headers.iter().filter(|(found, _)| found == name).count();
        assert_eq!((answer.status(), answer.header("x-frame-options").as_deref()), (status, frame), "{path}");
        assert_eq!(fields("x-cache"), usize::from(frame.is_some()), "{path}: {:?}", answer.head);
        assert_eq!(fields("cache-status"), 0, "{path}");
    }
}
