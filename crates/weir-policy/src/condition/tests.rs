//! Preconditions in the order of RFC 9110 §13.2.2.

use super::{Outcome, evaluate, range_stands};
use crate::CacheRules;
use crate::tests::given::{DATE, DAY_BEFORE, HOUR_AFTER, fields, judged, stored};
use proptest::prelude::*;

const TAGGED: &str = "cache-control: max-age=9\netag: \"a\"";

fn check(response: &str, request: &str, expect: Outcome) {
    assert_eq!(evaluate(&fields(request), &stored(response)), expect, "{response} | {request}");
}

#[test]
fn if_none_match() {
    for (tag, request, expect) in [
        ("\"a\"", "\"a\"", Outcome::NotModified),
        ("\"a\"", "W/\"a\"", Outcome::NotModified),
        ("W/\"a\"", "\"a\"", Outcome::NotModified),
        ("\"a\"", "*", Outcome::NotModified),
        ("\"a\"", "\"b\"", Outcome::Hold),
        ("\"a\"", "\"b\", \"a\"", Outcome::NotModified),
        ("\"a\"", "\"b\",,\"a\" ", Outcome::NotModified),
        ("\"a,b\"", "\"a,b\"", Outcome::NotModified),
        ("\"a\"", "\"x,\"a\"", Outcome::Hold),
        ("\"a\"", "a", Outcome::Hold),
        ("a", "a", Outcome::NotModified),
        ("\"a\"", "w/\"a\"", Outcome::Hold),
    ] {
        let response = format!("cache-control: max-age=9\netag: {tag}");
        check(&response, &format!("if-none-match: {request}"), expect);
    }
    check(TAGGED, "if-none-match: \"b\"\nif-none-match: \"a\"", Outcome::NotModified);
    check("cache-control: max-age=9", "if-none-match: \"a\"", Outcome::Hold);
    check("cache-control: max-age=9", "if-none-match: *", Outcome::NotModified);
}

#[test]
fn if_modified_since() {
    let dated = format!("cache-control: max-age=9\nlast-modified: {DAY_BEFORE}");
    check(&dated, &format!("if-modified-since: {DAY_BEFORE}"), Outcome::NotModified);
    check(&dated, &format!("if-modified-since: {DATE}"), Outcome::NotModified);
    check(&dated, "if-modified-since: Monday, 13-Nov-23 22:13:20 GMT", Outcome::NotModified);
    check(&dated, "if-modified-since: Sun, 12 Nov 2023 22:13:20 GMT", Outcome::Hold);
    check(&dated, "if-modified-since: x", Outcome::Hold);
    check(&dated, &format!("if-modified-since: {DATE}\nif-modified-since: {DATE}"), Outcome::Hold);
    // Without Last-Modified the Date stands in (RFC 9111 §4.3.2).
    check(TAGGED, &format!("if-modified-since: {DATE}"), Outcome::NotModified);
    check(TAGGED, &format!("if-modified-since: {DAY_BEFORE}"), Outcome::Hold);
    // If-None-Match comes first.
    check(TAGGED, &format!("if-none-match: \"b\"\nif-modified-since: {HOUR_AFTER}"), Outcome::Hold);
}

#[test]
fn if_match() {
    check(TAGGED, "if-match: \"a\"", Outcome::Hold);
    check(TAGGED, "if-match: *", Outcome::Hold);
    check(TAGGED, "if-match: W/\"a\"", Outcome::Failed);
    check(TAGGED, "if-match: \"b\"", Outcome::Failed);
    check("cache-control: max-age=9\netag: W/\"a\"", "if-match: W/\"a\"", Outcome::Failed);
    check("cache-control: max-age=9", "if-match: \"a\"", Outcome::Failed);
    check(TAGGED, "if-match: \"a\"\nif-none-match: \"a\"", Outcome::NotModified);
    check(TAGGED, "if-match: \"b\"\nif-none-match: \"a\"", Outcome::Failed);
}

#[test]
fn if_unmodified_since() {
    let dated = format!("cache-control: max-age=9\nlast-modified: {DAY_BEFORE}\netag: \"a\"");
    check(&dated, &format!("if-unmodified-since: {DAY_BEFORE}"), Outcome::Hold);
    check(&dated, "if-unmodified-since: Sun, 12 Nov 2023 22:13:20 GMT", Outcome::Failed);
    check(&dated, "if-unmodified-since: x", Outcome::Hold);
    check(&dated, "if-match: \"a\"\nif-unmodified-since: Sun, 12 Nov 2023 22:13:20 GMT", Outcome::Hold);
    check(TAGGED, &format!("if-unmodified-since: {DAY_BEFORE}"), Outcome::Hold);
}

#[test]
fn only_successes_have_preconditions() {
    let rules = CacheRules::default();
    let missing = judged("", 404, TAGGED, &rules).unwrap().into_stored();
    assert_eq!(evaluate(&fields("if-none-match: \"a\""), &missing), Outcome::Hold);
    assert_eq!(evaluate(&fields("if-match: \"b\""), &missing), Outcome::Hold);
}

#[test]
fn if_range() {
    let old = format!("cache-control: max-age=9\nlast-modified: {DAY_BEFORE}");
    let new = format!("cache-control: max-age=9\nlast-modified: {DATE}");
    for (response, request, expect) in [
        (TAGGED, "", true),
        (TAGGED, "if-range: \"a\"", true),
        (TAGGED, "if-range: \"b\"", false),
        (TAGGED, "if-range: W/\"a\"", false),
        ("cache-control: max-age=9\netag: W/\"a\"", "if-range: W/\"a\"", false),
        (TAGGED, &*format!("if-range: {DATE}"), false),
        (&*old, &*format!("if-range: {DAY_BEFORE}"), true),
        (&*old, &*format!("if-range: {DATE}"), false),
        (&*old, "if-range: x", false),
        // It changed within the second in which it was sent: a weak validator.
        (&*new, &*format!("if-range: {DATE}"), false),
        (TAGGED, "if-range: \"a\"\nif-range: \"a\"", false),
        // One tag, no list and no `*` (RFC 9110 §13.1.5).
        (TAGGED, "if-range: \"b\", \"a\"", false),
        (TAGGED, "if-range: *", false),
        (TAGGED, "if-range: a", false),
        (TAGGED, "if-range: \"A\"", false),
        (TAGGED, "if-range:", false),
        ("cache-control: max-age=9\netag: W/\"a\"", "if-range: \"a\"", false),
        ("cache-control: max-age=9", "if-range: \"a\"", false),
        // Exactly the date, neither earlier nor later, however it is written.
        (&*old, "if-range: Monday, 13-Nov-23 22:13:20 GMT", true),
        (&*old, "if-range: Mon, 13 Nov 2023 22:13:19 GMT", false),
        (&*old, "if-range: Mon, 13 Nov 2023 22:13:21 GMT", false),
        (&*format!("{old}\netag: \"a\""), &*format!("if-range: {DAY_BEFORE}"), true),
        (&*format!("{old}\netag: \"a\""), "if-range: \"b\"", false),
    ] {
        assert_eq!(range_stands(&fields(request), &stored(response)), expect, "{response} | {request}");
    }
    // Without the origin's Date nobody knows how long before the response it changed.
    let undated = judged("", 200, &old, &CacheRules::default()).unwrap().into_stored();
    assert!(!range_stands(&fields(&format!("if-range: {DAY_BEFORE}")), &undated));
}

proptest! {
    #[test]
    fn never_panics(tags in "[\"a,W/* ]{0,30}") {
        let stored = stored(TAGGED);
        for name in ["if-match", "if-none-match", "if-range", "if-modified-since", "if-unmodified-since"] {
            let request = fields(&format!("{name}: {tags}"));
            let _ = (evaluate(&request, &stored), range_stands(&request, &stored));
        }
    }
}
