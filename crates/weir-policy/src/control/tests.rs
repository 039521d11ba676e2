//! Cache-Control as it is sent, and as it should not be.

use super::{DELTA_SECONDS_MAX, Directives, MaxStale, RequestDirectives, ResponseControl};
use crate::tests::given::{fields, request};
use crate::{CacheRules, ClientDirectives};
use http::{HeaderMap, HeaderValue, Method, header};
use proptest::prelude::*;

fn read(lines: &str) -> ResponseControl {
    ResponseControl::read(&fields(lines))
}

#[test]
fn reads_lifetimes() {
    for (given, max_age_s, s_maxage_s) in [
        ("max-age=60", Some(60), None),
        ("MaX-aGe=60", Some(60), None),
        ("max-age=\"60\"", Some(60), None),
        ("max-age=0060", Some(60), None),
        ("max-age=2147483648", Some(DELTA_SECONDS_MAX), None),
        ("max-age=99999999999999999999", Some(DELTA_SECONDS_MAX), None),
        ("max-age=60, s-maxage=5", Some(60), Some(5)),
        ("s-maxage=5,max-age=60", Some(60), Some(5)),
        ("foo, max-age=60", Some(60), None),
        ("foo=\"a, b\", max-age=60", Some(60), None),
        ("foo=\"max-age=3600\", max-age=1", Some(1), None),
        ("max-age=1, foo=\"max-age=3600\"", Some(1), None),
        ("foo=\"a\\\", max-age=9\", max-age=1", Some(1), None),
        ("max-age=60, max-age=30", Some(30), None),
        ("max-age=30, max-age=60", Some(30), None),
        // A value that is not a number counts as zero.
        ("max-age", Some(0), None),
        ("max-age=", Some(0), None),
        ("max-age=-5", Some(0), None),
        ("max-age=+5", Some(0), None),
        ("max-age=5.0", Some(0), None),
        ("max-age=a5", Some(0), None),
        ("max-age='5'", Some(0), None),
        ("max-age =5", Some(0), None),
        ("max-age= 5", Some(0), None),
        ("max-age=abc, max-age=60", Some(0), None),
        // A quote without an end hides nothing.
        ("foo=\"bar, max-age=1", Some(1), None),
        ("foo=\"bar, s-maxage=2, max-age=1", Some(1), Some(2)),
        ("", None, None),
        (",, ,", None, None),
        ("=5", None, None),
    ] {
        let control = read(&format!("cache-control: {given}"));
        assert_eq!((control.max_age_s, control.s_maxage_s), (max_age_s, s_maxage_s), "{given}");
    }
}

#[test]
fn reads_words() {
    for (given, expect) in [
        ("no-store", Directives::NO_STORE),
        ("No-StOrE", Directives::NO_STORE),
        ("foo=\"x, no-store", Directives::NO_STORE),
        ("no-store=yes", Directives::NO_STORE),
        ("private", Directives::PRIVATE),
        ("private=\"\"", Directives::PRIVATE),
        ("private=\"a b\"", Directives::PRIVATE),
        ("private=\"a\", private", Directives::PRIVATE),
        ("no-cache", Directives::NO_CACHE),
        ("no-cache=\", ,\"", Directives::NO_CACHE),
        ("public", Directives::PUBLIC),
        ("must-revalidate", Directives::MUST_REVALIDATE),
        ("proxy-revalidate", Directives::PROXY_REVALIDATE),
        ("must-understand", Directives::MUST_UNDERSTAND),
        ("immutable", Directives::IMMUTABLE),
    ] {
        assert!(read(&format!("cache-control: {given}")).has(expect), "{given}");
    }
    for given in ["x-no-store", "foo=\"no-store\"", "foo=\"a, no-store, b\"", "no-store-remote", "no store"] {
        assert!(!read(&format!("cache-control: {given}")).has(Directives::NO_STORE), "{given}");
    }
}

#[test]
fn reads_withheld_fields() {
    for (given, expect) in [
        ("no-cache=\"a, B\"", vec!["a", "b"]),
        ("no-cache=set-cookie", vec!["set-cookie"]),
        ("private=\"x-user\", no-cache=\"a\"", vec!["x-user", "a"]),
        ("private", vec![]),
    ] {
        let control = read(&format!("cache-control: {given}"));
        let names: Vec<&str> = control.withheld.iter().map(|name| name.as_str()).collect();
        assert_eq!(names, expect, "{given}");
    }
    assert!(!read("cache-control: no-cache=\"a\"").has(Directives::NO_CACHE));
    assert!(read("cache-control: no-cache=\"a\"\ncache-control: no-cache").has(Directives::NO_CACHE));
}

fn asked(lines: &str) -> RequestDirectives {
    let headers = fields(lines);
    RequestDirectives::read(&request(&Method::GET, "/", &headers), &CacheRules::default())
}

#[test]
fn reads_requests() {
    assert!(asked("cache-control: no-cache").no_cache());
    assert!(asked("pragma: No-Cache").no_cache());
    assert!(asked("pragma: x, no-cache").no_cache());
    assert!(!asked("pragma: no-cache\ncache-control: max-age=5").no_cache());
    assert!(asked("cache-control: no-store").no_store());
    assert!(asked("cache-control: only-if-cached").only_if_cached());
    assert_eq!(asked("cache-control: max-age=0").max_age_s, Some(0));
    assert_eq!(asked("cache-control: max-age=x").max_age_s, Some(0));
    assert_eq!(asked("cache-control: min-fresh=5, min-fresh=7").min_fresh_s, Some(7));
    assert_eq!(asked("cache-control: min-fresh").min_fresh_s, Some(DELTA_SECONDS_MAX));
    assert_eq!(asked("cache-control: max-stale").max_stale, Some(MaxStale::Any));
    assert_eq!(asked("cache-control: max-stale=7").max_stale, Some(MaxStale::Seconds(7)));
    assert_eq!(asked("cache-control: max-stale=7, max-stale").max_stale, Some(MaxStale::Seconds(7)));
    assert_eq!(asked("cache-control: max-stale, max-stale=7").max_stale, Some(MaxStale::Seconds(7)));
    assert_eq!(asked("cache-control: max-stale=x").max_stale, None);
    assert_eq!(asked("cache-control: stale-if-error=9").if_error_s, Some(9));
    assert_eq!(asked("cache-control: stale-if-error=x").if_error_s, None);
}

#[test]
fn listens_to_the_clients_that_the_route_names() {
    let headers = fields("cache-control: no-cache");
    for (client_directives, is_trusted, expect) in [
        (ClientDirectives::Honour, false, true),
        (ClientDirectives::Trusted, false, false),
        (ClientDirectives::Trusted, true, true),
        (ClientDirectives::Ignore, true, false),
    ] {
        let rules = CacheRules { client_directives, ..CacheRules::default() };
        let view = crate::RequestView { is_trusted, ..request(&Method::GET, "/", &headers) };
        assert_eq!(RequestDirectives::read(&view, &rules).no_cache(), expect, "{client_directives:?}");
    }
}

/// If each directive looked at the whole rest, this would take minutes.
#[test]
fn long_lines_take_no_longer_a_byte() {
    for piece in ["\\\",", "\"a,", "a,\"b,", "\"", "a=\"\\\","] {
        let line = HeaderValue::from_str(&format!("\"{}", piece.repeat(100_000))).expect("a value");
        let mut count = 0;
        super::each_directive(line.as_bytes(), |_, _| count += 1);
        assert!(count <= 200_001, "{piece}");
    }
}

proptest! {
    #[test]
    fn never_panics(line in proptest::collection::vec(any::<u8>().prop_filter("a field byte", |byte| {
        *byte >= 32 && *byte != 127 || *byte == 9
    }), 0..80)) {
        let mut headers = HeaderMap::new();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_bytes(&line).expect("a value"));
        let _ = ResponseControl::read(&headers);
        let _ = RequestDirectives::read(&request(&Method::GET, "/", &headers), &CacheRules::default());
    }

    /// A no-store on a line of its own counts, whatever stands around it.
    #[test]
    fn no_store_is_never_hidden(before in "[a-z=\", ;0-9\\\\]{0,30}", after in "[a-z=\", ;0-9]{0,30}") {
        let headers = fields(&format!("cache-control: {before}x\ncache-control: no-store\n\
        cache-control: x{after}"));
        prop_assert!(ResponseControl::read(&headers).has(Directives::NO_STORE));
    }
}
