//! What `route` must do, by example.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use http::header::{CACHE_CONTROL, EXPIRES, LOCATION};
use weir_config::{Flags, Loaded};

use super::*;
use crate::plan::Plan;
use crate::values::Circumstances;
use weir_observe::SiteId;
use weir_policy::RequestView;

fn load(text: &str) -> Loaded {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("weir-route-{}-{number}.toml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let loaded = weir_config::load(&path);
    std::fs::remove_file(&path).unwrap();
    loaded.unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// The first route of a configuration with one site.
pub(super) fn first(inner: &str) -> Arc<Route> {
    let head =
        "[upstream.a]\norigins = [\"http://127.0.0.1:1\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"a\"\n";
    let plan = Plan::compile(&load(&format!("{head}{inner}")), &|_| SiteId::NONE);
    plan.sites()[0].routes()[0].clone()
}

fn answer(route: &Route, host: &str, target: &str) -> Option<Answered> {
    let headers = headers(&[("x-name", "a b\u{e9}")]);
    let view = RequestView {
        method: &Method::GET,
        scheme: "http",
        host,
        path_and_query: target,
        headers: &headers,
        has_body: false,
        is_trusted: false,
    };
    route.answer(|| OfRequest { view, site: "*", route: route.words(), beside: &Nobody })
}

/// A request of which only the head is known.
struct Nobody;

impl Circumstances for Nobody {
    fn client(&self) -> Option<IpAddr> {
        Some([192, 0, 2, 7].into())
    }

    fn request_id(&self) -> &str {
        "id-1"
    }

    fn came(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(1_700_000_000_123)
    }

    fn protocol(&self) -> &str {
        "HTTP/1.1"
    }

    fn listener_port(&self) -> Option<u16> {
        Some(8443)
    }

    fn is_client_hidden(&self) -> bool {
        false
    }

    fn is_refused_by(&self, _: &Access) -> bool {
        false
    }
}

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    fields.iter().map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap())).collect()
}

#[test]
fn redirects_are_filled_in() {
    for (template, target, expected) in [
        ("https://{host}{uri}", "/a?b=c", "https://a.example:8080/a?b=c"),
        ("https://b.example{path}", "/a?b=c", "https://b.example/a"),
        ("/new?{query}", "/a?b=c", "/new?b=c"),
        ("/new?{query}", "/a", "/new"),
        ("{scheme}://{host}/", "/a", "http://a.example:8080/"),
        ("{uri}", "//evil.example/", "http://a.example:8080//evil.example/"),
        ("{path}/", "//evil.example", "http://a.example:8080//evil.example/"),
        ("{path}", "/\\evil.example", "http://a.example:8080/\\evil.example"),
        ("/{query.to}", "/?to=/evil.example", "http://a.example:8080//evil.example"),
        ("/x/{header.X-Name}", "/", "/x/a%20b%C3%A9"),
        ("/{hostname}/{port}/{client.address}/{time.unix}", "/", "/a.example/8080/192.0.2.7/1700000000"),
        ("/{query.none}{header.None}", "/", "/"),
    ] {
        let route = first(&format!("[[site.route]]\nredirect = \"{template}\"\n"));
        let answered = answer(&route, "a.example:8080", target).unwrap();
        assert_eq!(answered.headers[LOCATION], expected, "{template} {target}");
        assert_eq!((answered.status.as_u16(), answered.word), (301, "redirect"));
    }
}

#[test]
fn answers_and_captures_are_filled_in() {
    for (route, target, expected) in [
        ("path = \"/old/*/**\"\nredirect = \"/new/{2}/{1}?{query}\"", "/old/a/b/c?d", "/new/b/c/a?d"),
        ("path = \"/old/**\"\nredirect = \"/new/{1}?{query}\"", "/old/a", "/new/a"),
        ("path = \"/old/**\"\nredirect = \"/new/{1}?a&{query}\"", "/old/a?", "/new/a?a"),
        ("prefix = \"/old/\"\nredirect = \"/{1}\"", "/old//evil.example", "http://h//evil.example"),
        ("regex = '^/(?:a|(b))'\nredirect = \"/[{1}]\"", "/a", "/[]"),
        ("path = \"/x/*\"\nredirect = \"/{1}\"", "/x/%0d%0aSet-Cookie:a", "/%0d%0aSet-Cookie:a"),
    ] {
        let answered = answer(&first(&format!("[[site.route]]\n{route}\n")), "h", target).unwrap();
        assert_eq!(answered.headers[LOCATION], expected, "{route}");
    }
    let fields =
        "X-A = \"{method} {request_id} {time.iso} {time.unix_ms}\", X-B = \"{{}}\", X-C = \"{query.c}\"";
    let route = format!("[[site.route]]\nanswer = {{ body = \"b\", headers = {{ {fields} }} }}\n");
    let answered = answer(&first(&route), "h", "/").unwrap();
    let text = "GET id-1 2023-11-14T22:13:20.123Z 1700000000123";
    assert_eq!(
        (&answered.headers["x-a"], &answered.headers["x-b"]),
        (&text.parse().unwrap(), &"{}".parse().unwrap())
    );
    assert!(!answered.headers.contains_key("x-c") && &answered.body[..] == b"b");
}

#[test]
fn what_needs_no_origin() {
    let route = first("[[site.route]]\nanswer = { status = 410, body = \"gone\" }\n");
    let answered = answer(&route, "a.example", "/").unwrap();
    assert_eq!((answered.status.as_u16(), &answered.body[..], answered.word), (410, &b"gone"[..], "static"));
    assert!(route.upstream.is_none());

    let route = first("maintenance = { retry_after = \"2m\" }\nerror_pages = { \"503\" = \"<p>closed\" }\n");
    let answered = answer(&route, "a.example", "/").unwrap();
    assert_eq!(
        (answered.status.as_u16(), &answered.body[..], answered.word),
        (503, &b"<p>closed"[..], "maintenance")
    );
    assert_eq!(answered.headers["retry-after"], "120");
    assert_eq!(answered.headers["content-type"], "text/html; charset=utf-8");

    assert!(answer(&first(""), "a.example", "/").is_none());
    assert_eq!(first("").upstream.as_deref(), Some("a"));
}

#[test]
fn a_site_without_upstream_answers_404_with_its_page() {
    let loaded = load(
        "[[site]]\nhosts = [\"*\"]\nerror_pages = { \"*\" = \"oh\" }\n\
         [[site.route]]\nprefix = \"/a\"\nanswer = {}\n",
    );
    let plan = Plan::compile(&loaded, &|_| SiteId::NONE);
    let route = plan.site("x").unwrap().routes().last().unwrap();
    let answered = answer(route, "x", "/b").unwrap();
    assert_eq!((answered.status.as_u16(), &answered.body[..], answered.word), (404, &b"oh"[..], "no-route"));
}

#[test]
fn pages_for_errors() {
    let route = first("error_pages = { \"502\" = \"bad\", \"*\" = \"all\" }\n");
    let page = |status| route.error_page(StatusCode::from_u16(status).unwrap()).map(|page| page.body.clone());
    assert_eq!((page(502).unwrap(), page(504).unwrap()), (Bytes::from("bad"), Bytes::from("all")));
    assert!(first("error_pages = { \"502\" = \"bad\" }\n").error_page(StatusCode::NOT_FOUND).is_none());
}

#[test]
fn fields_are_removed_then_set() {
    let route = first(
        "request_headers = { set = { X-A = \"new\" }, remove = [\"Cookie\"] }\n\
         response_headers = { set = { X-A = \"out\" }, remove = [\"X-A\", \"Server\"] }\n",
    );
    let mut fields = headers(&[("x-a", "1"), ("x-a", "2"), ("cookie", "c"), ("accept", "*")]);
    route.edit_request(&mut fields);
    assert_eq!(fields, headers(&[("x-a", "new"), ("accept", "*")]));
    let mut fields = headers(&[("x-a", "1"), ("server", "s"), ("etag", "e")]);
    route.present(&mut fields, StatusCode::OK, 0);
    assert_eq!(fields, headers(&[("x-a", "out"), ("etag", "e")]));
}

/// Programs behind CGI read `X_Country` as `X-Country`, and the last one wins.
#[test]
fn fields_are_removed_and_set_in_all_spellings() {
    let edits =
        "{ set = { X-My-Country = \"de\", own_a = \"1\" }, remove = [\"X-Secret-Key\", \"odd_name\"] }";
    let route = first(&format!("request_headers = {edits}\nresponse_headers = {edits}\n"));
    let given = [
        ("x_my_country", "evil"),
        ("x-my_country", "evil"),
        ("x_my-country", "evil"),
        ("own-a", "evil"),
        ("x_secret_key", "evil"),
        ("x-secret_key", "evil"),
        ("odd-name", "evil"),
        ("x_my_county", "other"),
        ("xmycountry", "other"),
    ];
    let expect =
        headers(&[("x_my_county", "other"), ("xmycountry", "other"), ("x-my-country", "de"), ("own_a", "1")]);
    let mut fields = headers(&given);
    route.edit_request(&mut fields);
    assert_eq!(fields, expect);
    let mut fields = headers(&given);
    route.present(&mut fields, StatusCode::OK, 0);
    assert_eq!(fields, expect);
}

#[test]
fn browsers_are_told_another_lifetime() {
    let route = first("browser_ttl = \"1m\"\n");
    for (given, expected) in [
        (None, "max-age=60"),
        (Some("max-age=3600, public"), "public, max-age=60"),
        (Some("Max-Age=3600, s-maxage=10"), "s-maxage=10, max-age=60"),
        (Some("no-store"), "no-store"),
        (Some("max-age=1, private"), "max-age=1, private"),
        (Some("no-cache"), "no-cache"),
    ] {
        let mut fields = headers(&[("expires", "0")]);
        if let Some(given) = given {
            fields.insert(CACHE_CONTROL, given.parse().unwrap());
        }
        route.present(&mut fields, StatusCode::OK, 0);
        assert_eq!(fields[CACHE_CONTROL], expected);
        assert_eq!(fields.contains_key(EXPIRES), expected != "max-age=60" && !expected.contains("=60"));
    }
}

#[test]
fn browsers_are_told_what_the_origin_says_of_errors_and_redirects() {
    let route = first("browser_ttl = \"1m\"\n");
    for (status, expect) in [
        (200, "max-age=60"),
        (203, "max-age=60"),
        (206, "max-age=60"),
        (304, "max-age=60"),
        (204, "max-age=5"),
        (301, "max-age=5"),
        (404, "max-age=5"),
        (500, "max-age=5"),
    ] {
        let mut fields = headers(&[("cache-control", "max-age=5")]);
        route.present(&mut fields, StatusCode::from_u16(status).unwrap(), 0);
        assert_eq!(fields[CACHE_CONTROL], expect, "{status}");
    }
}

#[test]
fn the_origin_is_called_by_its_name() {
    let flags =
        |origin: &str| weir_config::from_flags(&Flags { origin: origin.into(), ..Flags::default() }).unwrap();
    let host = |origin: &str| {
        let plan = Plan::compile(&flags(origin), &|_| SiteId::NONE);
        plan.sites()[0].routes()[0].host_to_origin().map(|host| host.to_str().unwrap().to_owned())
    };
    assert_eq!(host("https://www.example.com").as_deref(), Some("www.example.com"));
    assert_eq!(host("https://www.example.com:8443").as_deref(), Some("www.example.com:8443"));
    assert_eq!(host("http://127.0.0.1:3000"), None);
    let plan = Plan::compile(&flags("https://www.example.com"), &|_| SiteId::NONE);
    let route = &plan.sites()[0].routes()[0];
    let mut fields = headers(&[("location", "https://www.example.com/a?b")]);
    route.location_back(&mut fields, "http", "127.0.0.1:8080", None);
    assert_eq!(fields[LOCATION], "http://127.0.0.1:8080/a?b");
    let mut fields = headers(&[("location", "https://other.example/a")]);
    route.location_back(&mut fields, "http", "127.0.0.1:8080", None);
    assert_eq!(fields[LOCATION], "https://other.example/a");
}
