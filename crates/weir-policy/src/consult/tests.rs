//! Which requests the cache may answer.

use super::{AskKind, Consult, PassReason, consult, cookies};
use crate::tests::given::{ask, fields, request};
use crate::{CacheRules, HeaderTrigger, MapTrigger, PairTrigger, RequestView, Triggers};
use http::{HeaderName, Method};

fn pass(method: &str, path: &str, lines: &str, rules: &CacheRules) -> Option<PassReason> {
    let method = Method::from_bytes(method.as_bytes()).expect("a method");
    let headers = fields(lines);
    match consult(&request(&method, path, &headers), rules) {
        Consult::Use(_) => None,
        Consult::Pass(reason) => Some(reason),
    }
}

#[test]
fn asks_for_get_and_head_alone() {
    let rules = CacheRules::default();
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "M-SEARCH", "get"] {
        assert_eq!(pass(method, "/", "", &rules), Some(PassReason::Method), "{method}");
    }
    assert_eq!(pass("GET", "/", "", &rules), None);
    assert_eq!(pass("HEAD", "/", "", &rules), None);
    let headers = fields("");
    let with_body = RequestView { has_body: true, ..request(&Method::GET, "/", &headers) };
    assert_eq!(consult(&with_body, &rules), Consult::Pass(PassReason::Body));
    assert_eq!(pass("GET", "/", "cache-control: no-store", &rules), Some(PassReason::NoStore));
}

#[test]
fn notes_what_the_request_has() {
    assert_eq!(ask("").kind, AskKind::Get);
    for line in ["if-match: *", "if-none-match: *", "if-modified-since: x", "if-unmodified-since: x"] {
        assert!(ask(line).is_conditional(), "{line}");
    }
    for line in ["if-range: x", "if: x", "if-some-match: x", "if-schedule-tag-match: x"] {
        assert!(!ask(line).is_conditional(), "{line}");
    }
    assert!(ask("range: bytes=0-").is_range());
    assert!(ask("authorization: x").is_authenticated());
    assert!(!ask("accept: x").is_authenticated());
    assert!(ask("pragma: no-cache").directives.no_cache());
}

fn pair(name: &str, value: Option<&str>) -> PairTrigger {
    PairTrigger { name: name.to_owned(), value: value.map(ToOwned::to_owned) }
}

fn triggers() -> Triggers {
    Triggers {
        cookies: vec![pair("session*", None)],
        query: vec![pair("preview", None), pair("mode", Some("debug*"))],
        methods: vec![Method::HEAD],
        headers: vec![
            HeaderTrigger { name: HeaderName::from_static("x-preview"), value: None },
            HeaderTrigger { name: HeaderName::from_static("x-mode"), value: Some("debug*".to_owned()) },
        ],
        paths: vec!["/admin/**".to_owned()],
        ..Triggers::default()
    }
}

#[test]
fn passes_what_the_route_says() {
    let rules = CacheRules { bypass: triggers(), ..CacheRules::default() };
    for (path, lines, expect) in [
        ("/", "", None),
        ("/", "cookie: a=b; session_id=1", Some(PassReason::BypassCookie)),
        ("/", "cookie: a=b\ncookie: session=1", Some(PassReason::BypassCookie)),
        ("/", "cookie: xsession=1; a=session", None),
        ("/", "x-preview: 1", Some(PassReason::BypassHeader)),
        ("/", "x-mode: debug 2", Some(PassReason::BypassHeader)),
        ("/", "x-mode: normal", None),
        ("/admin/a/b?q=1", "", Some(PassReason::BypassPath)),
        ("/?x=/admin/a", "", None),
        ("/?preview", "", Some(PassReason::BypassQuery)),
        ("/?a=1&preview=0", "", Some(PassReason::BypassQuery)),
        ("/?a=1;preview=0", "", Some(PassReason::BypassQuery)),
        ("/?%70review=1", "", Some(PassReason::BypassQuery)),
        ("/?mode=%64ebug", "", Some(PassReason::BypassQuery)),
        ("/?mode=plain&previews=1", "", None),
        ("/preview?a=preview", "", None),
    ] {
        assert_eq!(pass("GET", path, lines, &rules), expect, "{path} {lines}");
    }
    assert_eq!(pass("HEAD", "/", "", &rules), Some(PassReason::BypassMethod));
    assert_eq!(pass("POST", "/", "", &rules), Some(PassReason::Method));
    let by_value = Triggers { cookies: vec![pair("mode", Some("a*"))], ..Triggers::default() };
    let rules = CacheRules { bypass: by_value, ..CacheRules::default() };
    assert_eq!(pass("GET", "/", "cookie: mode=ab", &rules), Some(PassReason::BypassCookie));
    assert_eq!(pass("GET", "/", "cookie: mode=b", &rules), None);
}

#[test]
fn maps_hold_by_their_result() {
    let check = |result: Option<&str>, said: Option<&str>, expect: bool| {
        let trigger = MapTrigger { name: "device".to_owned(), result: result.map(str::to_owned) };
        assert_eq!(trigger.fits(said.map(str::as_bytes)), expect, "{result:?} {said:?}");
    };
    check(None, Some("phone"), true);
    check(None, Some(""), true);
    check(None, None, false);
    check(Some("*"), None, false);
    check(Some("ph*e"), Some("phone"), true);
    check(Some("ph*e"), Some("phones"), false);
    check(Some(""), Some(""), true);
    check(Some(""), Some("x"), false);
}

#[test]
fn refreshes_what_the_route_says() {
    let rules = CacheRules { refresh: triggers(), ..CacheRules::default() };
    let headers = fields("x-preview: 1");
    let Consult::Use(ask) = consult(&request(&Method::GET, "/", &headers), &rules) else { panic!("passed") };
    assert!(ask.is_refresh() && !ask.is_no_store());
    let rules = CacheRules { no_store: triggers(), ..CacheRules::default() };
    let Consult::Use(ask) = consult(&request(&Method::GET, "/?preview", &headers), &rules) else {
        panic!("passed")
    };
    assert!(!ask.is_refresh() && ask.is_no_store());
}

#[test]
fn reads_cookies() {
    let headers = fields("cookie: a=1; b=2;; c ;d=x=y\ncookie: e=");
    let found: Vec<(&[u8], &[u8])> = cookies::cookies(&headers).collect();
    let expect: [(&[u8], &[u8]); 5] = [(b"a", b"1"), (b"b", b"2"), (b"c", b""), (b"d", b"x=y"), (b"e", b"")];
    assert_eq!(found, expect);
}

#[test]
fn dot_segments_pass() {
    let rules = CacheRules::default();
    for path in [
        "/..",
        "/a/../b",
        "/a/./b",
        "/a/.",
        "/a/%2e%2E/b",
        "/a/.%2e",
        "/a/..%2fb",
        "/a%2F..%2fb",
        "/a/..%5cb",
        "/a\\..\\b",
        "/a/..;/b",
        "/a/..;x=y/b",
        "/%2e",
        "/a/..?x",
    ] {
        assert_eq!(pass("GET", path, "", &rules), Some(PassReason::DotSegment), "{path}");
    }
    for path in [
        "/",
        "/a.b",
        "/.well-known/x",
        "/a/...",
        "/a/..b",
        "/a/b..",
        "/a/%2e%2e%2e",
        "/a%2Fb",
        "/.%20",
        "/?x=/../y",
        "/%",
        "/a%2",
        "/%2e.x/",
        "/a;..",
        "*",
    ] {
        assert_eq!(pass("GET", path, "", &rules), None, "{path}");
    }
}
