//! What `explain` must say, by example.

use http::{HeaderName, HeaderValue, Method};
use weir_policy::{CacheRules, HeaderTrigger, MissReason, PairTrigger, RequestView, Triggers};

use super::wording::{Dropped, dropped, everywhere, tags, triggers};
use super::*;
use crate::values::{RouteWords, Unasked};

fn ask(url: &str, headers: &[(&str, &str)]) -> Result<Request, String> {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Request::parse(&Question { method: "GET".into(), url: url.into(), headers, client: None })
}

#[test]
fn a_question_is_normalised_as_a_request_is() {
    for (url, host) in [
        ("http://EXAMPLE.org./x", "example.org"),
        ("http://example.org:80/x", "example.org"),
        ("http://example.org:81/x", "example.org:81"),
        ("https://example.org:443/x", "example.org"),
        ("http://[::1]:80/", "[::1]"),
    ] {
        assert_eq!(ask(url, &[]).ok().map(|request| request.host.as_str().to_owned()).as_deref(), Some(host));
    }
    assert_eq!(ask("http://a/x", &[("Host", "b:80")]).ok().unwrap().host.as_str(), "b");
    for url in ["/x", "ftp://a/", "http://user@a/", "http://a b/"] {
        assert!(ask(url, &[]).is_err(), "{url}");
    }
    assert!(ask("http://a/", &[("a b", "c")]).is_err());
}

#[test]
fn what_the_query_loses_is_named() {
    let parameters = |names: &[&str]| Dropped::Parameters(names.iter().map(ToString::to_string).collect());
    assert_eq!(dropped("/x?a=1&utm=2&a=1", "/x?a=1&a=1"), parameters(&["utm=2"]));
    assert_eq!(dropped("/x?a=1&a=1", "/x?a=1"), parameters(&["a=1"]));
    assert_eq!(dropped("/x?b=1", "/x"), parameters(&["b=1"]));
    assert_eq!(dropped("/x?b=1&a=1", "/x?a=1&b=1"), Dropped::Order);
    assert_eq!(dropped("/x?a=1", "/x?a=1"), parameters(&[]));
}

#[test]
fn tags_are_read_from_every_field_that_origins_use() {
    let mut headers = HeaderMap::new();
    headers.append("surrogate-key", HeaderValue::from_static("a  b"));
    headers.append("surrogate-key", HeaderValue::from_static("c"));
    headers.append("cache-tag", HeaderValue::from_static("d e, f"));
    assert_eq!(tags(&headers), ["a", "b", "c", "d e", "f"]);
}

#[test]
fn triggers_say_which_of_them_the_request_pulls() {
    let mut headers = HeaderMap::new();
    headers.insert("cookie", HeaderValue::from_static("session=1"));
    let view = RequestView {
        method: &Method::POST,
        scheme: "http",
        host: "a",
        path_and_query: "/x",
        headers: &headers,
        has_body: true,
        is_trusted: false,
    };
    let rules = Triggers {
        cookies: ["session*", "other"].map(|name| PairTrigger { name: name.into(), value: None }).to_vec(),
        headers: vec![HeaderTrigger { name: HeaderName::from_static("x-preview"), value: Some("1*".into()) }],
        paths: vec!["/admin/**".into()],
        ..Triggers::default()
    };
    let view = RequestView { has_body: false, ..view };
    let known = OfRequest { view, site: "a", route: RouteWords::default(), beside: &Unasked };
    assert_eq!(
        triggers(&rules, &known),
        ["cookie session* (this one)", "cookie other", "field x-preview: 1*", "path /admin/**"]
    );
    assert!(everywhere(&CacheRules::default()).contains(&"Cache-Control: no-store".to_owned()));
}

#[test]
fn the_status_field_is_the_walks_own() {
    assert_eq!(printed(CacheStatus::miss(MissReason::Vary)), "weir; fwd=vary-miss");
    assert_eq!(
        printed(CacheStatus::pass(PassReason::BypassCookie)),
        "weir; fwd=bypass; detail=bypass-cookie"
    );
}
