//! What may be stored, and what is stored of it.

use super::{NotStored, storable};
use crate::tests::given::{DATE, DAY_BEFORE, HOUR_AFTER, at, fields, judged, request};
use crate::{
    BodyEnd, CacheRules, CloseDelimited, Errors, Heuristics, IgnoredDirective, LifetimeSource, Lifetimes,
    RequestView, ResponseView, SetCookie, StaleRules, Statuses, StoredFlags,
};
use http::{Method, StatusCode};
use std::time::Duration;

fn check(status: u16, response: &str, expect: Result<(LifetimeSource, u64), NotStored>) {
    check_by(&CacheRules::default(), "", status, response, expect);
}

fn check_by(
    rules: &CacheRules,
    request: &str,
    status: u16,
    response: &str,
    expect: Result<(LifetimeSource, u64), NotStored>,
) {
    let lines = format!("date: {DATE}\n{response}");
    let found = judged(request, status, &lines, rules).map(|storable| {
        let facts = storable.stored().facts;
        (facts.source, facts.lifetime.as_secs())
    });
    assert_eq!(found, expect, "{status} {response}");
}

#[test]
fn lifetimes() {
    use LifetimeSource::{Expires, Heuristic, MaxAge, Nothing, SMaxage};
    let modified = format!("last-modified: {DAY_BEFORE}");
    check(200, "cache-control: max-age=60", Ok((MaxAge, 60)));
    check(200, "cache-control: max-age=60, s-maxage=9", Ok((SMaxage, 9)));
    check(200, &format!("expires: {HOUR_AFTER}"), Ok((Expires, 3600)));
    check(200, &format!("expires: {HOUR_AFTER}\nexpires: {HOUR_AFTER}"), Ok((Expires, 3600)));
    check(200, &format!("expires: {HOUR_AFTER}\ncache-control: max-age=60"), Ok((MaxAge, 60)));
    check(200, &format!("expires: 0\n{modified}"), Ok((Expires, 0)));
    check(200, &format!("expires: {DAY_BEFORE}\n{modified}"), Ok((Expires, 0)));
    check(200, &format!("expires: {HOUR_AFTER}\nexpires: {DAY_BEFORE}\n{modified}"), Ok((Expires, 0)));
    check(200, &modified, Ok((Heuristic, 8640)));
    check(200, "last-modified: Sun, 06 Nov 1994 08:49:37 GMT", Ok((Heuristic, 86_400)));
    check(200, &format!("last-modified: {HOUR_AFTER}"), Ok((Heuristic, 0)));
    check(200, "", Err(NotStored::NoFreshness));
    check(200, "etag: \"a\"", Err(NotStored::NoFreshness));
    check(200, "cache-control: public", Err(NotStored::NoFreshness));
    check(200, "cache-control: no-cache", Err(NotStored::NoCache));
    check(200, "cache-control: no-cache, max-age=9", Err(NotStored::NoCache));
    check(200, "cache-control: no-cache\netag: \"a\"", Ok((Nothing, 0)));
    check(200, "cache-control: max-age=0", Err(NotStored::Stale));
    check(200, "cache-control: max-age=0\netag: \"a\"", Ok((MaxAge, 0)));
    check(200, "cache-control: max-age=9\nage: 9", Err(NotStored::Stale));
    check(200, "cache-control: max-age=9, stale-while-revalidate=9\nage: 9", Ok((MaxAge, 9)));
}

#[test]
fn statuses() {
    use LifetimeSource::{Heuristic, MaxAge, Route};
    let modified = format!("last-modified: {DAY_BEFORE}");
    for status in [200, 203, 204, 300, 301, 308, 404, 405, 410] {
        check(status, &modified, Ok((Heuristic, 8640)));
    }
    for status in [201, 202, 302, 303, 307, 401, 403, 418, 499] {
        check(status, &modified, Err(NotStored::NoFreshness));
        check(status, "cache-control: max-age=9", Ok((MaxAge, 9)));
    }
    for status in [500, 501, 502, 503, 504, 599] {
        let reason = if status == 501 { NotStored::Refused } else { NotStored::ServerError };
        check(status, &modified, Err(reason));
        check(status, "cache-control: max-age=9", Ok((MaxAge, 9)));
        check(status, &format!("{modified}\ncache-control: public"), Ok((Heuristic, 8640)));
    }
    for status in [206, 304, 511, 103] {
        check(status, "cache-control: max-age=9", Err(NotStored::Status));
    }
    let store_400 = CacheRules { errors: Errors::Store400, ..CacheRules::default() };
    check_by(&store_400, "", 400, "cache-control: max-age=9", Ok((MaxAge, 9)));
    check_by(&store_400, "", 400, &modified, Err(NotStored::Refused));
    check_by(&store_400, "", 413, "cache-control: max-age=9", Err(NotStored::Refused));
    check_by(&store_400, "", 503, "cache-control: max-age=9", Ok((MaxAge, 9)));
    let whole = CacheRules { heuristics: Heuristics::Whole, ..CacheRules::default() };
    check_by(&whole, "", 414, &modified, Ok((Heuristic, 8640)));
    check_by(&whole, "", 414, "cache-control: max-age=9", Ok((MaxAge, 9)));
    check_by(&whole, "", 400, "cache-control: max-age=9", Err(NotStored::Refused));
    check_by(&whole, "", 501, &modified, Ok((Heuristic, 8640)));
    check_by(&whole, "", 413, &modified, Err(NotStored::Refused));
    let off = CacheRules { heuristics: Heuristics::Off, ..CacheRules::default() };
    check_by(&off, "", 200, &modified, Err(NotStored::NoFreshness));
    let strict = CacheRules { errors: Errors::NoStore, ..CacheRules::default() };
    check_by(&strict, "", 503, "cache-control: max-age=9", Err(NotStored::ServerError));
    let ttl = CacheRules { ttl: plain(5), ..CacheRules::default() };
    check_by(&ttl, "", 200, &modified, Ok((Route, 5)));
    check_by(&ttl, "", 404, "", Err(NotStored::NoFreshness));
    check_by(&ttl, "", 404, &modified, Ok((Heuristic, 8640)));
    check_by(&ttl, "", 200, "cache-control: max-age=9", Ok((MaxAge, 9)));
    let long = CacheRules { ttl: plain(500), ..CacheRules::default() };
    for status in [200, 203, 301, 308] {
        check_by(&long, "", status, "", Ok((Route, 500)));
        check_by(&long, "", status, "cache-control: max-age=900", Ok((MaxAge, 900)));
    }
    for status in [204, 300, 302, 303, 307, 403, 404, 405, 410] {
        check_by(&long, "", status, "", Err(NotStored::NoFreshness));
        check_by(&long, "", status, "cache-control: max-age=900", Ok((MaxAge, 900)));
    }
    check_by(&ttl, "", 503, "", Err(NotStored::ServerError));
    check_by(&ttl, "", 400, "", Err(NotStored::Refused));
}

#[test]
fn an_override_overrides_lifetimes_alone() {
    use LifetimeSource::{MaxAge, Override};
    let rules = CacheRules { ttl_override: plain(5), ..CacheRules::default() };
    check_by(&rules, "", 200, "cache-control: max-age=9", Ok((Override, 5)));
    check_by(&rules, "", 200, "", Ok((Override, 5)));
    check_by(&rules, "", 200, "cache-control: max-age=0", Ok((Override, 5)));
    check_by(&rules, "", 200, "cache-control: no-store", Err(NotStored::NoStore));
    check_by(&rules, "", 200, "cache-control: private", Err(NotStored::Private));
    check_by(&rules, "", 200, "cache-control: no-cache", Err(NotStored::NoCache));
    check_by(&rules, "", 200, "set-cookie: a=b", Err(NotStored::SetCookie));
    check_by(&rules, "authorization: x", 200, "", Err(NotStored::Authorization));
    for status in [203, 301, 308] {
        check_by(&rules, "", status, "cache-control: max-age=9", Ok((Override, 5)));
    }
    for status in [204, 302, 404, 410, 503] {
        check_by(&rules, "", status, "cache-control: max-age=9", Ok((MaxAge, 9)));
    }
    for status in [204, 302, 404, 410] {
        check_by(&rules, "", status, "", Err(NotStored::NoFreshness));
    }
}

/// What `ttl = "…"` means without a status.
fn plain(lifetime_s: u64) -> Lifetimes {
    Lifetimes::plain(Duration::from_secs(lifetime_s))
}

#[test]
fn a_route_gives_each_status_its_lifetime() {
    use LifetimeSource::{MaxAge, Override, Route};
    let one = |code| Statuses::One(StatusCode::from_u16(code).expect("a status"));
    let table = |entries: &[(Statuses, u64)]| {
        Lifetimes(entries.iter().map(|(of, s)| (*of, Duration::from_secs(*s))).collect())
    };
    let given = table(&[(one(200), 100), (one(404), 60), (Statuses::Class(5), 5), (Statuses::Any, 10)]);
    let ttl = CacheRules { ttl: given.clone(), ..CacheRules::default() };
    for (status, expect_s) in [(200, 100), (204, 10), (301, 10), (302, 10), (410, 10), (404, 60), (503, 5)] {
        check_by(&ttl, "", status, "", Ok((Route, expect_s)));
        check_by(&ttl, "", status, "cache-control: max-age=9", Ok((MaxAge, 9)));
        check_by(&ttl, "", status, "cache-control: private", Err(NotStored::Private));
        check_by(&ttl, "", status, "set-cookie: a=b", Err(NotStored::SetCookie));
        check_by(&ttl, "authorization: x", status, "", Err(NotStored::Authorization));
    }
    let forced = CacheRules { ttl_override: given, ..CacheRules::default() };
    for (status, expect_s) in [(200, 100), (404, 60), (500, 5), (307, 10)] {
        check_by(&forced, "", status, "cache-control: max-age=9", Ok((Override, expect_s)));
    }
    // What one client's odd request causes stays out, whatever the class.
    for status in [400, 414, 429, 501, 505] {
        check_by(&ttl, "", status, "", Err(NotStored::Refused));
    }
    for status in [401, 403, 405, 406, 494] {
        check_by(&ttl, "", status, "", Err(NotStored::NoFreshness));
        check_by(&ttl, "", status, "cache-control: max-age=9", Ok((MaxAge, 9)));
    }
    let strict = CacheRules { errors: Errors::NoStore, ..ttl };
    check_by(&strict, "", 503, "", Err(NotStored::ServerError));
    let named = CacheRules { ttl: table(&[(one(400), 7)]), ..CacheRules::default() };
    check_by(&named, "", 400, "", Err(NotStored::Refused));
    check_by(&CacheRules { errors: Errors::Store400, ..named }, "", 400, "", Ok((Route, 7)));
}

#[test]
fn a_whole_has_no_content_range() {
    for status in [200, 203, 404] {
        let lines =
            format!("date: {DATE}\ncontent-range: x\ncontent-range: Bytes 0-1/9\ncache-control: max-age=9");
        let stored = judged("", status, &lines, &CacheRules::default()).expect("storable").into_stored();
        assert!(!stored.headers.contains_key("content-range"), "{status}");
    }
}

#[test]
fn refusals() {
    use LifetimeSource::{CdnCacheControl, MaxAge, SMaxage};
    let fresh = "cache-control: max-age=60";
    for (request, response, expect) in [
        ("", "cache-control: no-store, max-age=60", Err(NotStored::NoStore)),
        ("", "cache-control: NO-STORE\ncache-control: max-age=60", Err(NotStored::NoStore)),
        ("", "cache-control: private, max-age=60", Err(NotStored::Private)),
        ("", "cache-control: private=\"a\", max-age=60", Ok((MaxAge, 60))),
        ("", "cache-control: private=\"content-encoding\", max-age=60", Err(NotStored::Private)),
        ("", "cache-control: must-understand, no-store, max-age=60", Ok((MaxAge, 60))),
        ("", "cache-control: must-understand, private, max-age=60", Err(NotStored::Private)),
        ("", "cache-control: no-store\ncdn-cache-control: max-age=9", Ok((CdnCacheControl, 9))),
        ("", "cache-control: max-age=60\ncdn-cache-control: no-store", Err(NotStored::NoStore)),
        ("", "cache-control: max-age=60\nvary: *", Err(NotStored::VaryAny)),
        ("cookie: a=b", "cache-control: max-age=60\nvary: cookie", Err(NotStored::VaryCookie)),
        ("", "cache-control: max-age=60\nvary: cookie", Ok((MaxAge, 60))),
        ("cache-control: no-store", fresh, Err(NotStored::RequestNoStore)),
        ("authorization: x", fresh, Err(NotStored::Authorization)),
        ("authorization: x", "cache-control: max-age=60, public", Ok((MaxAge, 60))),
        ("authorization: x", "cache-control: max-age=60, must-revalidate", Ok((MaxAge, 60))),
        ("authorization: x", "cache-control: max-age=60, proxy-revalidate", Err(NotStored::Authorization)),
        ("authorization: x", "cache-control: s-maxage=60", Ok((SMaxage, 60))),
        ("cookie: a=b", fresh, Ok((MaxAge, 60))),
        ("pragma: no-cache", fresh, Ok((MaxAge, 60))),
    ] {
        check_by(&CacheRules::default(), request, 200, response, expect);
    }
    check(299, "cache-control: must-understand, max-age=60", Err(NotStored::MustUnderstand));
    check(599, "cache-control: must-understand, max-age=60", Err(NotStored::MustUnderstand));
}

#[test]
fn cookies() {
    use LifetimeSource::MaxAge;
    let given = "cache-control: max-age=60\nset-cookie: a=b\nx: y";
    check(200, given, Err(NotStored::SetCookie));
    check(200, "cache-control: max-age=60, no-cache=\"set-cookie\"\nset-cookie: a=b", Ok((MaxAge, 60)));
    let kept = |rules: &CacheRules| {
        let stored = judged("", 200, given, rules).expect("storable").into_stored();
        stored.headers.contains_key("set-cookie")
    };
    let strip = CacheRules { set_cookie: SetCookie::Strip, ..CacheRules::default() };
    let store = CacheRules { set_cookie: SetCookie::Store, ..CacheRules::default() };
    assert!(!kept(&strip));
    assert!(kept(&store));
    for set_cookie in [SetCookie::NoStore, SetCookie::Strip, SetCookie::Store] {
        let mut rules = CacheRules { set_cookie, ..CacheRules::default() };
        rules.key.cookies = vec!["a".to_owned()];
        check_by(&rules, "", 200, given, Err(NotStored::SetKeyCookie));
    }
}

#[test]
fn a_body_that_ends_with_the_connection() {
    let (headers, response) = (fields(""), fields("cache-control: max-age=60"));
    let view = request(&Method::GET, "/a", &headers);
    let closing = ResponseView {
        body_end: BodyEnd::Close,
        ..ResponseView::new(StatusCode::OK, &response, at(0), at(0))
    };
    for (close_delimited, expect) in
        [(CloseDelimited::NoStore, Some(NotStored::CloseDelimited)), (CloseDelimited::Store, None)]
    {
        let rules = CacheRules { close_delimited, ..CacheRules::default() };
        let found = storable(&view, &closing, &rules);
        assert_eq!(found.err(), expect);
    }
}

fn post_store(request_lines: &str, status: u16, response: &str) -> Option<NotStored> {
    let (headers, response) = (fields(request_lines), fields(response));
    let view = RequestView { has_body: true, ..request(&Method::POST, "/a?b", &headers) };
    let status = StatusCode::from_u16(status).expect("a status");
    storable(&view, &ResponseView::new(status, &response, at(0), at(0)), &CacheRules::default()).err()
}

#[test]
fn methods() {
    let fresh = "cache-control: max-age=60\ncontent-location: /a?b";
    assert_eq!(post_store("", 200, fresh), None);
    assert_eq!(
        post_store("", 200, "cache-control: max-age=60\ncontent-location: http://example.com/a?b"),
        None
    );
    for (request_lines, status, response) in [
        ("", 200, "cache-control: max-age=60"),
        ("", 200, "cache-control: max-age=60\ncontent-location: /a"),
        ("", 200, "cache-control: max-age=60\ncontent-location: https://example.com/a?b"),
        ("", 201, fresh),
        ("cookie: a=b", 200, fresh),
    ] {
        assert_eq!(
            post_store(request_lines, status, response),
            Some(NotStored::Method),
            "{status} {response}"
        );
    }
    let guessed = format!("date: {DATE}\nlast-modified: {DAY_BEFORE}\ncontent-location: /a?b");
    assert_eq!(post_store("", 200, &guessed), Some(NotStored::Method));
    let (headers, response) = (fields(""), fields(fresh));
    for (method, has_body, expect) in [
        (Method::HEAD, false, NotStored::Method),
        (Method::PUT, true, NotStored::Method),
        (Method::GET, true, NotStored::RequestBody),
    ] {
        let view = RequestView { has_body, ..request(&method, "/a?b", &headers) };
        let rules = CacheRules::default();
        let found = storable(&view, &ResponseView::new(StatusCode::OK, &response, at(0), at(0)), &rules);
        assert_eq!(found.err(), Some(expect), "{method}");
    }
}

#[test]
fn what_is_kept_of_the_head() {
    let lines = format!(
        "date: {DATE}\nage: 1\nconnection: a, close\na: 1\nb: 2\nkeep-alive: x\nproxy-authenticate: x\nte: x
        transfer-encoding: chunked\nupgrade: x\ntrailer: x\netag: \"e\"\nc: 3
        cache-control: max-age=60, no-cache=\"b\""
    );
    let stored = judged("", 200, &lines, &CacheRules::default()).expect("storable").into_stored();
    let mut names: Vec<&str> = stored.headers.keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["c", "cache-control", "date", "etag"]);
    let undated = judged("", 200, "cache-control: max-age=60", &CacheRules::default()).expect("storable");
    assert_eq!(undated.stored().headers["date"], DATE);
}

#[test]
fn ages_at_arrival() {
    for (lines, requested_s, received_s, expect_s) in [
        ("", 0, 0, 0),
        ("age: 10", 0, 0, 10),
        ("age: 10", 0, 3, 13),
        ("", 0, 100, 100),
        (&*format!("date: {DAY_BEFORE}"), 0, 0, 86_400),
        (&*format!("date: {HOUR_AFTER}"), 0, 0, 0),
        ("date: nonsense\nage: 5", 0, 0, 5),
        ("age: 0, 7200", 0, 0, 0),
        ("age: 7200, 0", 0, 0, 7200),
        // Of a list the first member counts, over however many lines (RFC 9111 §5.1).
        ("age: 0, 0", 0, 0, 0),
        ("age: 5, 5", 0, 0, 5),
        ("age: 5\nage: 5", 0, 0, 5),
        ("age: 0\nage: 7200", 0, 0, 0),
        ("age: 7200\nage: 0", 0, 0, 7200),
        ("age: ,, 7 ,8", 0, 0, 7),
        ("age:\nage: 7", 0, 0, 7),
        // What is not a non-negative integer is ignored: the delay counts, and the Date.
        ("age: abc", 0, 3, 3),
        ("age: -1", 0, 0, 0),
        ("age: 1.0", 0, 0, 0),
        ("age: 7;a=b", 0, 0, 0),
        ("age: abc, 7", 0, 0, 0),
        ("age: \"7\"", 0, 0, 0),
        ("age:", 0, 0, 0),
        (&*format!("date: {DAY_BEFORE}\nage: abc"), 0, 0, 86_400),
        ("age: 99999999999999", 0, 0, 1 << 31),
    ] {
        let has_date = lines.contains("date");
        let all = if has_date { lines.to_owned() } else { format!("date: {DATE}\n{lines}") };
        let headers = fields(&all);
        let response = ResponseView::new(StatusCode::OK, &headers, at(requested_s), at(received_s));
        let age = crate::freshness::initial_age(&response);
        assert_eq!(age.as_secs(), expect_s, "{lines}");
    }
}

#[test]
fn grace_windows() {
    let origin = "cache-control: max-age=9, stale-while-revalidate=5, stale-if-error=7";
    let windows = |rules: &CacheRules, lines: &str| {
        let facts = judged("", 200, lines, rules).expect("storable").stored().facts;
        (facts.while_revalidate.as_secs(), facts.if_error.as_secs())
    };
    let route = CacheRules {
        stale: StaleRules {
            while_revalidate: Some(Duration::from_secs(50)),
            if_error: Some(Duration::from_secs(70)),
            ..StaleRules::default()
        },
        ..CacheRules::default()
    };
    assert_eq!(windows(&CacheRules::default(), origin), (5, 7));
    assert_eq!(windows(&CacheRules::default(), "cache-control: max-age=9"), (0, 0));
    assert_eq!(windows(&route, origin), (50, 70));
    // s-maxage leaves what is named, by the origin or the route (ADR 0095).
    assert_eq!(windows(&CacheRules::default(), &format!("{origin}, s-maxage=9")), (5, 7));
    assert_eq!(windows(&route, "cache-control: s-maxage=9"), (50, 70));
    for bound in ["must-revalidate", "proxy-revalidate", "no-cache"] {
        assert_eq!(windows(&route, &format!("{origin}, {bound}\netag: \"a\"")), (0, 0), "{bound}");
    }
    let stored = judged("", 200, "cache-control: immutable, max-age=9", &route).expect("storable");
    assert!(stored.stored().facts.flags.has(StoredFlags::IMMUTABLE));
}

#[test]
fn what_may_be_shared() {
    let strict = CacheRules { errors: Errors::NoStore, ..CacheRules::default() };
    for rules in [CacheRules::default(), strict] {
        for (lines, expect) in [
            ("", true),
            ("cache-control: max-age=0", true),
            ("cache-control: no-store", false),
            ("cache-control: private", false),
            ("cache-control: no-cache", false),
            ("set-cookie: a=b", false),
            ("vary: *", false),
            ("vary: cookie", false),
        ] {
            let found = judged("cookie: a=b", 503, lines, &rules).err();
            assert_eq!(found.is_some_and(NotStored::may_be_shared), expect, "{lines}");
        }
        let found = judged("authorization: x", 503, "", &rules).err();
        assert_eq!(found, Some(NotStored::Authorization));
    }
}

#[test]
fn what_may_be_remembered() {
    assert!(NotStored::NoStore.is_of_response());
    assert!(!NotStored::Authorization.is_of_response());
    assert!(!NotStored::RequestNoStore.is_of_response());
}

#[test]
fn a_fault_of_one_request_says_nothing_of_the_resource() {
    for status in [400, 408, 411, 412, 413, 414, 415, 416, 417, 421, 422, 425, 426, 428, 429, 431, 501, 505] {
        for rules in [CacheRules::default(), CacheRules { errors: Errors::NoStore, ..CacheRules::default() }]
        {
            check_by(&rules, "", status, "", Err(NotStored::Refused));
        }
    }
    // These statuses are refused whatever the response says.
    let said = "cache-control: public, max-age=9, immutable\ncdn-cache-control: max-age=9\netag: \"a\"";
    let ttl = Lifetimes(vec![(Statuses::Any, Duration::from_secs(9))]);
    for status in [400, 408, 411, 412, 413, 414, 415, 416, 417, 421, 422, 425, 426, 428, 429, 431] {
        for rules in [
            CacheRules::default(),
            CacheRules { ttl: ttl.clone(), ttl_override: ttl.clone(), ..CacheRules::default() },
        ] {
            check_by(&rules, "", status, said, Err(NotStored::Refused));
        }
    }
    assert!(!NotStored::Refused.is_of_response() && !NotStored::Refused.may_be_shared());
    check(503, "", Err(NotStored::ServerError));
    check(403, "", Err(NotStored::NoFreshness));
}

#[test]
fn a_second_spelling_of_a_selecting_field() {
    let fresh = "cache-control: max-age=9\nvary: x-device";
    let rules = CacheRules::default();
    let mut keyed = CacheRules::default();
    keyed.key.headers.push(http::HeaderName::from_static("x-device"));
    let good = Ok((LifetimeSource::MaxAge, 9));
    for (request, expect) in [
        ("x-device: 1", good),
        ("x_devices: 1", good),
        ("x_device: 1", Err(NotStored::Respelled)),
        ("x-device: 1\nx_device: 2", Err(NotStored::Respelled)),
    ] {
        check_by(&rules, request, 200, fresh, expect);
        check_by(&keyed, request, 200, "cache-control: max-age=9", expect);
        check_by(&rules, request, 200, "cache-control: max-age=9", good);
    }
}

#[test]
fn a_cookie_that_is_taken_out_by_name_does_not_hinder() {
    let mut rules =
        CacheRules { stripped_cookies: vec!["_ga*".into(), "tr.ck".into()], ..CacheRules::default() };
    let fresh = "cache-control: max-age=9\n";
    for (lines, expect) in [
        ("set-cookie: _ga=1; Path=/", Ok(Vec::new())),
        ("set-cookie: _ga_X=1\nset-cookie: tr.ck=2", Ok(Vec::new())),
        ("set-cookie:  _ga =1", Ok(Vec::new())),
        ("set-cookie: _ga", Ok(Vec::new())),
        ("set-cookie: _GA=1", Err(NotStored::SetCookie)),
        ("set-cookie: _ga=1\nset-cookie: session=2", Err(NotStored::SetCookie)),
        ("set-cookie: session=_ga=1", Err(NotStored::SetCookie)),
        ("set-cookie: a=1, _ga=2", Err(NotStored::SetCookie)),
    ] {
        check_cookies(&rules, &format!("{fresh}{lines}"), expect);
    }
    rules.set_cookie = crate::SetCookie::Store;
    check_cookies(&rules, &format!("{fresh}set-cookie: _ga=1\nset-cookie: b=2"), Ok(vec!["b=2"]));
    rules.key.cookies = vec!["_ga".into(), "b".into()];
    check_cookies(&rules, &format!("{fresh}set-cookie: _ga=1"), Ok(Vec::new()));
    check_cookies(&rules, &format!("{fresh}set-cookie: b=1"), Err(NotStored::SetKeyCookie));
}

fn check_cookies(rules: &CacheRules, lines: &str, expect: Result<Vec<&str>, NotStored>) {
    let stored = judged("", 200, lines, rules).map(crate::Storable::into_stored);
    let cookies = stored.as_ref().map(|stored| {
        let lines = stored.headers.get_all("set-cookie").iter();
        lines.map(|line| line.to_str().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(cookies.map_err(|reason| *reason), expect, "{lines}");
}

#[test]
fn what_a_route_ignores_is_stored_for_nobody_in_particular() {
    use IgnoredDirective::{NoCache, NoStore, Private};
    use LifetimeSource::{MaxAge, Override};
    let mut rules = CacheRules { ttl_override: plain(5), ..CacheRules::default() };
    rules.ignore.add(Statuses::Any, &[NoStore, Private, NoCache]);
    let php = "expires: Thu, 19 Nov 1981 08:52:00 GMT\ncache-control: no-store, no-cache, must-revalidate\n";
    let good = Ok((Override, 5));
    for said in ["no-store", "private", "no-cache", "no-store, private, no-cache, max-age=0"] {
        let said = format!("cache-control: {said}\n");
        check_by(&rules, "", 200, &said, good);
        // Nothing shows which client the response is for.
        check_by(&rules, "authorization: x", 200, &said, Err(NotStored::Authorization));
        check_by(&rules, "cookie: a=b", 200, &said, Err(NotStored::RequestCookie));
        check_by(&rules, "", 200, &format!("{said}set-cookie: a=b"), Err(NotStored::SetCookie));
    }
    check_by(&rules, "", 200, php, good);
    // What may not go out stale may where the route ignores that as well.
    let is_free = |rules: &CacheRules| {
        let stored = judged("", 200, php, rules).unwrap().into_stored();
        !stored.facts.flags.has(crate::StoredFlags::MUST_REVALIDATE)
    };
    let mut loose = rules.clone();
    loose.ignore = crate::Ignored::default();
    loose.ignore.add(Statuses::Any, &[NoStore, NoCache, IgnoredDirective::MustRevalidate]);
    assert_eq!((is_free(&rules), is_free(&loose)), (false, true));
    for shared in ["public, private", "s-maxage=9, no-store", "must-revalidate, no-cache"] {
        let said = format!("cache-control: {shared}");
        check_by(&rules, "authorization: x", 200, &said, Err(NotStored::Authorization));
    }
    for set_cookie in [SetCookie::Strip, SetCookie::Store] {
        let rules = CacheRules { set_cookie, ..rules.clone() };
        check_by(&rules, "", 200, "cache-control: private\nset-cookie: a=b", Err(NotStored::SetCookie));
    }
    let named = CacheRules { stripped_cookies: vec!["a*".into()], ..rules.clone() };
    check_by(&named, "", 200, "cache-control: private\nset-cookie: a=b", good);
    check_by(
        &named,
        "",
        200,
        "cache-control: private\nset-cookie: a=b\nset-cookie: c=d",
        Err(NotStored::SetCookie),
    );
    let withheld = "cache-control: no-store, private=\"set-cookie\"\nset-cookie: a=b";
    check_by(&rules, "", 200, withheld, Err(NotStored::SetCookie));
    let mut keyed = rules.clone();
    keyed.key.cookies = vec!["a".into()];
    check_by(&keyed, "cookie: a=b", 200, "cache-control: private", good);
    check_by(&keyed, "cookie: a=b; c=d", 200, "cache-control: private", Err(NotStored::RequestCookie));
    check_by(&keyed, "cookie: A=b", 200, "cache-control: private", Err(NotStored::Respelled));
    // Where there is nothing to ignore, all is as without.
    check_by(&rules, "cookie: a=b", 200, "cache-control: max-age=9", good);
    check_by(&rules, "authorization: x", 200, "cache-control: public", good);
    check_by(&rules, "cache-control: no-store", 200, "", Err(NotStored::RequestNoStore));
    check_by(&rules, "", 200, "cache-control: no-store\nvary: *", Err(NotStored::VaryAny));
    assert!(!NotStored::RequestCookie.is_of_response() && !NotStored::RequestCookie.may_be_shared());
    // By status, and each directive by itself.
    let mut some = CacheRules::default();
    some.ignore.add(Statuses::One(StatusCode::NOT_FOUND), &[NoStore]);
    check_by(&some, "", 404, "cache-control: no-store, max-age=9", Ok((MaxAge, 9)));
    check_by(&some, "", 200, "cache-control: no-store, max-age=9", Err(NotStored::NoStore));
    check_by(&some, "", 404, "cache-control: private, max-age=9", Err(NotStored::Private));
    check_by(&some, "", 404, "cache-control: no-store, private, max-age=9", Err(NotStored::Private));
    check_by(
        &some,
        "",
        404,
        "cache-control: max-age=9\ncdn-cache-control: no-store",
        Err(NotStored::NoFreshness),
    );
    let stored = judged("", 200, "cache-control: no-cache, max-age=9\netag: \"a\"", &rules).expect("stored");
    assert!(!stored.stored().facts.flags.has(StoredFlags::NO_CACHE));
    assert_eq!(stored.stored().headers["cache-control"], "no-cache, max-age=9", "others still read it");
}
