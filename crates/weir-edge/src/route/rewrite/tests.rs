//! What paths become, there and back, by example; and that no path leaves the place that its rule gives it.

use http::Method;
use proptest::prelude::*;
use weir_policy::RequestView;

use super::*;
use crate::route::Route;
use crate::route::tests::first;
use crate::values::Unasked;

fn route(inner: &str) -> std::sync::Arc<Route> {
    first(&format!("[[site.route]]\n{inner}\n"))
}

fn rewritten(route: &Route, target: &str) -> Result<Option<String>, DotSegment> {
    let headers = HeaderMap::new();
    let view = RequestView {
        method: &Method::GET,
        scheme: "https",
        host: "shop.example",
        path_and_query: target,
        headers: &headers,
        has_body: false,
        is_trusted: false,
    };
    let known = OfRequest { view, site: "*", route: route.words(), beside: &Unasked };
    route.rewritten(&known).map(|found| found.map(|found| found.target))
}

#[test]
fn paths_for_the_origin() {
    let rules = "rewrite = [{ from = \"/api/**\", to = \"/{1}\" }, \
                 { from = \"/x/*/**\", to = \"/{2}?who={1}&{query}\" }, \
                 { regex = '^/old/([0-9]+)$', to = \"/item?id={1}\" }]\n\
                 key = { query = { drop = [\"utm_*\"] } }";
    let route = route(rules);
    for (given, expected) in [
        ("/api/a/b?c=d", Some("/a/b?c=d")),
        ("/api/", Some("/")),
        ("/api//a", Some("//a")),
        ("/api/%2e%61%0d%0aX:%20y", Some("/%2e%61%0d%0aX:%20y")),
        ("/api/a?utm_x=1&b", Some("/a?b")),
        ("/api/a?utm_x=1", Some("/a")),
        ("/x/me/a/b", Some("/a/b?who=me")),
        ("/x/me/a?b=c&utm_x=1", Some("/a?who=me&b=c")),
        ("/x/me/a&", Some("/a&?who=me")),
        ("/x/me/a?b=c?", Some("/a?who=me&b=c?")),
        ("/old/42?gone", Some("/item?id=42")),
        ("/old/x", None),
        ("/", None),
    ] {
        assert_eq!(rewritten(&route, given), Ok(expected.map(str::to_owned)), "{given}");
    }
    for given in ["/api/../x", "/api/%2E%2e/x", "/api/a/..", "/api/..%2fx", "/api/..;/x"] {
        assert_eq!(rewritten(&route, given), Err(DotSegment), "{given}");
    }
}

/// `/pub-..` has no dot segment until a rule makes one.
#[test]
fn no_rule_makes_a_dot_segment() {
    let route = route("rewrite = [{ from = \"/pub-**\", to = \"/public/{1}\" }]");
    assert_eq!(rewritten(&route, "/pub-a..b"), Ok(Some("/public/a..b".to_owned())));
    for given in ["/pub-..", "/pub-../secret", "/pub-%2e%2e/secret", "/pub-.", "/pub-..%5csecret"] {
        assert_eq!(rewritten(&route, given), Err(DotSegment), "{given}");
    }
}

fn back(route: &Route, name: &'static str, value: &str) -> String {
    let mut headers = HeaderMap::new();
    headers.insert(name, HeaderValue::try_from(value).unwrap());
    route.location_back(&mut headers, "https", "shop.example", Some(0));
    headers[name].to_str().unwrap().to_owned()
}

#[test]
fn what_origins_say_is_mapped_back() {
    let rule = "rewrite = [{ from = \"/api/**\", to = \"/{1}\" }]\nhost = \"app.internal\"";
    let plain = route(rule);
    for (name, given, expected) in [
        ("location", "/login?next=/a#b", "/api/login?next=/a#b"),
        ("location", "http://app.internal/login", "https://shop.example/api/login"),
        ("location", "https://shop.example/login", "https://shop.example/api/login"),
        ("location", "https://other.example/login", "https://other.example/login"),
        ("location", "//other.example/login", "//other.example/login"),
        ("location", "//app.internal/login", "https://shop.example/api/login"),
        ("location", "//shop.example/login", "//shop.example/api/login"),
        ("location", "//shop.example.evil/login", "//shop.example.evil/login"),
        ("location", "next", "next"),
        ("content-location", "/a", "/api/a"),
        ("refresh", "5; url=/a", "5; url=/api/a"),
        ("refresh", "5;URL='http://app.internal/'", "5;URL='https://shop.example/api/'"),
        ("refresh", "5", "5"),
        (
            "set-cookie",
            "a=/x; Path=/; Domain=app.internal; Secure",
            "a=/x; Path=/api/; Domain=shop.example; Secure",
        ),
        ("set-cookie", "a=b; path=/x; domain=other.example", "a=b; path=/api/x; domain=other.example"),
        ("x-other", "/a", "/a"),
    ] {
        assert_eq!(back(&plain, name, given), expected, "{name}: {given}");
    }
    let prefixed = route("rewrite = [{ from = \"/shop/**\", to = \"/app/v1/{1}\" }]");
    for (given, expected) in [("/app/v1/a", "/shop/a"), ("/app/v2/a", "/app/v2/a"), ("/app/v1", "/app/v1")] {
        assert_eq!(back(&prefixed, "location", given), expected);
    }
    assert_eq!(back(&prefixed, "set-cookie", "a=b; Path=/app/v1"), "a=b; Path=/shop");
    let off = route(&format!(
        "{rule}\nback = {{ location = \"off\", cookie_path = \"off\", cookie_domain = \"off\" }}"
    ));
    for (name, given) in
        [("location", "http://app.internal/a"), ("set-cookie", "a=b; Path=/; Domain=app.internal")]
    {
        assert_eq!(back(&off, name, given), given);
    }
    let by_hand = route(
        "back = { location = [{ from = \"http://*.internal/**\", to = \"{scheme}://{host}/{1}/{2}\" }], \
         cookie_path = [{ from = \"/app**\", to = \"/{1}\" }], \
         cookie_domain = [{ from = \"**\", to = \"{hostname}\" }] }",
    );
    assert_eq!(back(&by_hand, "location", "http://a.internal/b/c"), "https://shop.example/a/b/c");
    assert_eq!(back(&by_hand, "location", "/b"), "/b");
    assert_eq!(
        back(&by_hand, "set-cookie", "a=b; Path=/app; Domain=x.y"),
        "a=b; Path=/; Domain=shop.example"
    );
    // What cannot be read backwards stays.
    let one_way = route("rewrite = [{ regex = '^/a/(.*)', to = \"/{1}\" }]");
    assert_eq!(back(&one_way, "location", "/b"), "/b");
}

#[test]
fn no_path_becomes_a_host_on_its_way_back() {
    let route = route("rewrite = [{ from = \"/**\", to = \"/app/{1}\" }]\nhost = \"app.internal\"");
    for (given, expected) in [
        ("/app//evil.com/a/", "https://shop.example//evil.com/a/"),
        ("/app/\\evil.com/a/", "https://shop.example/\\evil.com/a/"),
        ("/app/%09/evil.com/", "/%09/evil.com/"),
        ("http://app.internal/app//evil.com/", "https://shop.example//evil.com/"),
        ("/app/a//evil.com/", "/a//evil.com/"),
        ("//evil.com/app/", "//evil.com/app/"),
    ] {
        assert_eq!(back(&route, "location", given), expected, "{given}");
    }
    assert_eq!(back(&route, "refresh", "0;url=/app//evil.com/"), "0;url=https://shop.example//evil.com/");
    let by_hand = |rules: &str| route_of_back(rules);
    let path =
        by_hand("{ from = \"http://app.internal/**\", to = \"/{1}\" }, { from = \"/**\", to = \"/{1}\" }");
    let any = by_hand("{ from = \"http:**\", to = \"{1}\" }, { from = \"/a**\", to = \"{1}\" }");
    let cdn = by_hand("{ from = \"http://app.internal/**\", to = \"//cdn.example/{1}\" }");
    for (route, given, expected) in [
        (&path, "http://app.internal//evil.com/", "https://shop.example//evil.com/"),
        (&path, "http://app.internal/\\evil.com/", "https://shop.example/\\evil.com/"),
        (&path, "http://app.internal/a//b", "/a//b"),
        (&path, "//cdn.example/a", "//cdn.example/a"),
        (&any, "http://other.example/a", "//other.example/a"),
        (&any, "/a//evil.com/", "https://shop.example//evil.com/"),
        (&any, "/a\\/evil.com/", "https://shop.example\\/evil.com/"),
        (&cdn, "http://app.internal/a", "//cdn.example/a"),
    ] {
        assert_eq!(back(route, "location", given), expected, "{given}");
    }
}

fn route_of_back(rules: &str) -> std::sync::Arc<Route> {
    route(&format!("back = {{ location = [{rules}] }}"))
}

#[test]
fn what_is_mapped_back_stays_what_browsers_read() {
    let within = route("rewrite = [{ from = \"/i/**\", to = \"/{1}\" }]");
    for (name, given, expected) in [
        ("set-cookie", "__Host-s=b; Path=/; Secure", "__Host-s=b; Path=/; Secure"),
        ("set-cookie", " __host-s=b; Path=/; Secure", " __host-s=b; Path=/; Secure"),
        ("set-cookie", "__Secure-s=b; Path=/; Secure", "__Secure-s=b; Path=/i/; Secure"),
        ("set-cookie", "a=b; Path=\"/\"; Secure", "a=b; Path=\"/i/\"; Secure"),
        ("set-cookie", "a=b; Path=\"", "a=b; Path=\""),
        ("refresh", "0; URL=\"/x\"; b", "0; URL=\"/i/x\"; b"),
        ("refresh", "0; url = /x", "0; url = /i/x"),
        ("refresh", "5;/x", "5;/i/x"),
        ("refresh", " 1.5 '/x'y", " 1.5 '/i/x'y"),
        ("refresh", "5,urls", "5,urls"),
        ("refresh", "5;", "5;"),
        ("refresh", "url=/x", "url=/x"),
        ("location", "/../x", "/i/x"),
        ("location", "/a/%2E./../b/./?c=/../d", "/i/b/?c=/../d"),
        ("location", "/a\\..\\b", "/i/b"),
        ("location", "/a/..", "/i/"),
        ("location", "https://shop.example/../x", "https://shop.example/i/x"),
        // The path `//evil.com` of the same host.
        ("location", "/..//evil.com", "/..//evil.com"),
        ("location", "/a/...", "/i/a/..."),
    ] {
        assert_eq!(back(&within, name, given), expected, "{name}: {given}");
    }
    let glued = route("rewrite = [{ from = \"/i/**\", to = \"/a-{1}\" }]");
    assert_eq!(back(&glued, "location", "/a-../x"), "/a-../x");
}

proptest! {
    #[test]
    fn there_and_back(path in "(/[a-zA-Z0-9%._~!$&'()*+,;=:@-]{0,9}){1,6}", query in "[!-~&&[^#?]]{0,20}") {
        let route = route("rewrite = [{ from = \"/t/*/**\", to = \"/in/{2}/of/{1}\" }]");
        let target = format!("/t{path}?{query}");
        if let Ok(Some(made)) = rewritten(&route, &target) {
            let is_visible = made.bytes().all(|byte| byte.is_ascii_graphic());
            prop_assert!(made.starts_with("/in/") && is_visible, "{}", made);
            prop_assert_eq!(made.split_once('?').map(|(_, query)| query), Some(query.as_str()));
            let there = made.split('?').next().unwrap();
            prop_assert!(!has_dot_segment(there), "{}", there);
            // Where a part has the text between the stars, there is more than one way back.
            if !path.contains("of") {
                prop_assert_eq!(back(&route, "location", there), format!("/t{path}"));
            }
        }
    }
}
