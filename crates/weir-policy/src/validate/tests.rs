//! Conditional requests, what a 304 changes, and what a HEAD says.

use super::{HeadEffect, can_be_validated, conditional, freshen, head_effect, may_freshen};
use crate::tests::given::{DATE, DAY_BEFORE, HOUR_AFTER, ask, at, fields, judged, stored, stored_for};
use crate::{
    CacheRules, IgnoredDirective, LifetimeSource, Now, ResponseView, SetCookie, Statuses, Stored,
    StoredFlags, Verdict, Windows, freshness, verdict,
};
use http::{HeaderMap, StatusCode};
use std::time::Duration;

fn sent(stored: Option<&Stored>, client: &str) -> HeaderMap {
    let mut headers = fields(client);
    conditional(stored, &mut headers);
    headers
}

#[test]
fn asks_about_what_is_selected() {
    let fresh = "cache-control: max-age=9\n";
    let dated = format!("{fresh}last-modified: {DAY_BEFORE}");
    for (held, tag, date) in [
        (format!("{dated}\netag: \"a\""), Some("\"a\""), Some(DAY_BEFORE)),
        (format!("{fresh}etag: W/\"b\""), Some("W/\"b\""), None),
        (dated, None, Some(DAY_BEFORE)),
        (fresh.to_owned(), None, None),
    ] {
        let asked = sent(Some(&stored(&held)), "if-none-match: \"x\"");
        let said = |name: &str| asked.get(name).map(|value| value.to_str().unwrap());
        assert_eq!((said("if-none-match"), said("if-modified-since")), (tag, date), "{held}");
    }
    let client = "if-none-match: \"x\"\nif-modified-since: x\nif-match: \"x\"\nif-unmodified-since: x\n\
    if-range: \"x\"\nx: y";
    assert_eq!(sent(None, client).keys().collect::<Vec<_>>(), ["x"]);
}

/// RFC 9110 §13.2.1: a condition counts only where the answer without it would be a success.
#[test]
fn asks_about_successes_alone() {
    let lines = format!("cache-control: max-age=9\nlast-modified: {DAY_BEFORE}\netag: \"a\"");
    for (status, is_asked) in [
        (200, true),
        (203, true),
        (300, false),
        (301, false),
        (302, false),
        (404, false),
        (410, false),
        (503, false),
    ] {
        let held = judged("", status, &format!("date: {DATE}\n{lines}"), &CacheRules::default());
        let held = held.expect("storable").into_stored();
        let asked = sent(Some(&held), "");
        for name in ["if-none-match", "if-modified-since"] {
            assert_eq!(asked.contains_key(name), is_asked, "{status} {name}");
        }
        assert_eq!(can_be_validated(&held), is_asked, "{status}");
    }
}

fn not_modified(headers: &HeaderMap, received: Now) -> ResponseView<'_> {
    ResponseView::new(StatusCode::NOT_MODIFIED, headers, received, received)
}

fn freshened(response: &str, news: &str, seconds: u64, rules: &CacheRules) -> Stored {
    freshen(&fields(""), &stored(response), &not_modified(&fields(news), at(seconds)), rules)
}

#[test]
fn a_304_replaces_fields() {
    let response = "cache-control: max-age=9\netag: \"a\"\na: 1\nb: 1\nb: 2\nc: 1\ncontent-encoding: gzip
        content-length: 5\ncontent-type: text/plain\nvary: foo";
    let news =
        "cache-control: max-age=99\netag: W/\"b\"\nb: 3\nc: 4\nc: 5\ncontent-encoding: br\ncontent-length: 0
        content-type: text/html\nset-cookie: x=y\nconnection: d\nd: 1\nvary: bar\nage: 3\ncontent-range: x";
    let fresh = freshened(response, news, 20, &CacheRules::default());
    for (name, expect) in [
        ("cache-control", vec!["max-age=99"]),
        ("etag", vec!["\"a\""]),
        ("a", vec!["1"]),
        ("b", vec!["3"]),
        ("c", vec!["4", "5"]),
        ("content-encoding", vec!["gzip"]),
        ("content-length", vec!["5"]),
        ("content-type", vec!["text/html"]),
        ("vary", vec!["foo", "Accept-Encoding"]),
        ("set-cookie", vec![]),
        ("connection", vec![]),
        ("d", vec![]),
        ("age", vec![]),
        ("content-range", vec![]),
        ("date", vec!["Tue, 14 Nov 2023 22:13:40 GMT"]),
    ] {
        let found: Vec<_> = fresh.headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect();
        assert_eq!(found, expect, "{name}");
    }
    let now = freshness(&fresh, at(25));
    assert_eq!((now.age.as_secs(), now.lifetime.as_secs()), (8, 99));
    let everybody = CacheRules { set_cookie: SetCookie::Store, ..CacheRules::default() };
    assert!(freshened(response, news, 20, &everybody).headers.contains_key("set-cookie"));
}

#[test]
fn a_304_starts_the_lifetime_again() {
    let rules = CacheRules::default();
    let response = format!("expires: {HOUR_AFTER}\netag: \"a\"");
    // The stored Expires lies before the new Date.
    let late = freshened(&response, "", 7200, &rules);
    assert_eq!((late.facts.source, late.facts.lifetime.as_secs()), (LifetimeSource::Expires, 0));
    let said = freshened(&response, "cache-control: max-age=5", 7200, &rules);
    assert!(matches!(verdict(&ask(""), Some(&said), at(7204)), Verdict::Hit(_)));
    let old = freshened(&response, "cache-control: max-age=5\nage: 5", 7200, &rules);
    assert!(matches!(verdict(&ask(""), Some(&old), at(7200)), Verdict::Revalidate(_)));
}

#[test]
fn a_304_that_forbids_storing_ends_reuse() {
    for word in ["no-store", "private", "no-cache"] {
        let news = format!("cache-control: {word}, max-age=99");
        let fresh = freshened("cache-control: max-age=9\netag: \"a\"", &news, 5, &CacheRules::default());
        assert!(matches!(verdict(&ask(""), Some(&fresh), at(5)), Verdict::Revalidate(_)), "{word}");
    }
}

#[test]
fn a_304_for_one_client_leaves_no_field() {
    for word in ["no-store", "private"] {
        let news = format!("cache-control: {word}\nx-user: alice");
        let held = "cache-control: max-age=9, stale-if-error=99\netag: \"a\"";
        let fresh = freshened(held, &news, 5, &CacheRules::default());
        assert!(!fresh.headers.contains_key("x-user"), "{word}");
        assert_eq!(fresh.facts.if_error.as_secs(), 0);
    }
    let targeted = "cdn-cache-control: max-age=9\ncache-control: private\netag: \"a\"";
    let fresh = freshened(targeted, "cache-control: private\nx: 1", 20, &CacheRules::default());
    assert!(matches!(verdict(&ask(""), Some(&fresh), at(20)), Verdict::Hit(_)));
}

#[test]
fn a_304_with_another_entity_tag_changes_only_the_age() {
    for (held, said, expect) in [
        ("\"a\"", "\"a\"", true),
        ("\"a\"", "\"b\"", false),
        ("W/\"a\"", "\"a\"", true),
        ("\"a\"", "W/\"b\"", true),
        ("\"a-gzip\"", "\"a\"", true),
        ("\"a\"", "\"a--br\"", true),
        ("\"a-gzip\"", "\"b-gzip\"", false),
    ] {
        let held_lines = format!("cache-control: max-age=9\netag: {held}");
        let fresh = freshened(&held_lines, &format!("etag: {said}\nx: 1"), 20, &CacheRules::default());
        assert_eq!(fresh.headers.contains_key("x"), expect, "{held} {said}");
        assert!(matches!(verdict(&ask(""), Some(&fresh), at(20)), Verdict::Hit(_)), "{held} {said}");
    }
}

#[test]
fn a_304_to_credentials_counts_for_all_if_sharing_is_allowed() {
    for (held, request, news, expect) in [
        ("max-age=9", "", "", true),
        ("max-age=9", "authorization: x", "", false),
        ("max-age=9", "authorization: x", "cache-control: max-age=9", false),
        ("max-age=9", "authorization: x", "cache-control: public", true),
        ("public, max-age=9", "authorization: x", "", true),
        ("public, max-age=9", "authorization: x", "cache-control: max-age=9", false),
    ] {
        let stored = stored(&format!("cache-control: {held}\netag: \"a\""));
        let found = may_freshen(
            &fields(request),
            &stored,
            &not_modified(&fields(news), at(5)),
            &CacheRules::default(),
        );
        assert_eq!(found, expect, "{held}, {request}, {news}");
    }
}

#[test]
fn a_304_leaves_the_variant() {
    let held = stored_for("foo: 1", "cache-control: max-age=9\netag: \"a\"\nvary: foo");
    let fresh = freshen(&fields(""), &held, &not_modified(&fields("vary: *"), at(1)), &CacheRules::default());
    assert_eq!(fresh.variant, held.variant);
}

#[test]
fn a_head_tells() {
    let held = stored("cache-control: max-age=9\netag: \"a\"\ncontent-length: 5");
    for (status, headers, expect) in [
        (200, "etag: \"a\"\ncontent-length: 5", "freshen"),
        (200, "cache-control: max-age=99", "freshen"),
        (200, "etag: \"b\"", "invalidate"),
        (200, "content-length: 6", "invalidate"),
        (200, &*format!("last-modified: {DAY_BEFORE}"), "invalidate"),
        (404, "", "invalidate"),
        (410, "", "invalidate"),
        (500, "etag: \"b\"", "none"),
        (200, "etag: \"a\"\ncache-control: private\nx-user: alice", "none"),
        (200, "etag: \"b\"\ncache-control: no-store", "none"),
        (304, "", "none"),
    ] {
        let status = StatusCode::from_u16(status).unwrap();
        let rules = CacheRules::default();
        let found = match head_effect(
            &held,
            Some(5),
            &ResponseView::new(status, &fields(headers), at(5), at(5)),
            &rules,
        ) {
            HeadEffect::None => "none",
            HeadEffect::Freshen(_) => "freshen",
            HeadEffect::Invalidate => "invalidate",
        };
        assert_eq!(found, expect, "{status} {headers}");
    }
}

#[test]
fn tags_follow_the_stored_fields() {
    let held = stored("cache-control: max-age=9\nsurrogate-key: a b");
    assert_eq!(held.tags, crate::Tags::read(&fields("surrogate-key: b a")));
    let news = |lines: &str| {
        let now = at(1);
        freshen(&fields(""), &held, &not_modified(&fields(lines), now), &CacheRules::default()).tags
    };
    assert_eq!(news("x: y"), held.tags);
    assert_eq!(news("surrogate-key: c"), crate::Tags::read(&fields("cache-tag: c")));
    assert_eq!(news("cache-tag: c"), crate::Tags::read(&fields("xkey: a b c")));
}

#[test]
fn a_304_in_spite_of_what_it_says_is_for_nobody_in_particular() {
    let mut rules = CacheRules::default();
    let all = [IgnoredDirective::NoStore, IgnoredDirective::Private, IgnoredDirective::NoCache];
    rules.ignore.add(Statuses::Any, &all);
    let held = stored("cache-control: max-age=9\netag: \"a\"");
    for said in ["private", "no-store, max-age=90", "no-cache"] {
        let news = fields(&format!("cache-control: {said}"));
        let view = not_modified(&news, at(20));
        let fresh = freshen(&fields(""), &held, &view, &rules);
        assert!(!fresh.facts.flags.has(StoredFlags::NO_CACHE), "{said}");
        assert!(may_freshen(&fields(""), &held, &view, &rules), "{said}");
        for asked in ["authorization: x", "cookie: a=b"] {
            assert!(!may_freshen(&fields(asked), &held, &view, &rules), "{said} {asked}");
        }
        let with_cookie = fields(&format!("cache-control: {said}\nset-cookie: a=b"));
        for set_cookie in [SetCookie::NoStore, SetCookie::Strip, SetCookie::Store] {
            let rules = CacheRules { set_cookie, ..rules.clone() };
            let bound = freshen(&fields(""), &held, &not_modified(&with_cookie, at(20)), &rules);
            assert!(bound.facts.flags.has(StoredFlags::NO_CACHE), "{said}");
            assert!(!bound.headers.contains_key("set-cookie"), "{said}");
        }
        let head = ResponseView::new(StatusCode::OK, &news, at(20), at(20));
        assert!(matches!(head_effect(&held, None, &head, &rules), HeadEffect::None), "{said}");
    }
    let plain = fields("cache-control: max-age=9");
    assert!(may_freshen(&fields("cookie: a=b"), &held, &not_modified(&plain, at(20)), &rules));
}

#[test]
fn a_head_that_finds_nothing_leaves_what_the_route_keeps() {
    let mut rules = CacheRules::default();
    let held = stored("cache-control: max-age=9");
    let none = HeaderMap::new();
    let gone = ResponseView::new(StatusCode::NOT_FOUND, &none, at(12), at(12));
    assert!(matches!(head_effect(&held, None, &gone, &rules), HeadEffect::Invalidate));
    rules.stale.if_status = Windows(vec![(Statuses::One(StatusCode::NOT_FOUND), Duration::from_secs(9))]);
    assert!(matches!(head_effect(&held, None, &gone, &rules), HeadEffect::None));
    let late = ResponseView::new(StatusCode::NOT_FOUND, &none, at(18), at(18));
    assert!(matches!(head_effect(&held, None, &late, &rules), HeadEffect::Invalidate));
}
