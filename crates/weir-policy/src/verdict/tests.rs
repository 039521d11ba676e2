//! Verdicts over time, and what may go out when the origin fails.

use super::{Failure, MissReason, RevalidateReason, StaleUse, Verdict, error_reusable, joined, verdict};
use crate::tests::given::{ask, at, at_ms, fields, request, stored};
use crate::{CacheRules, Consult, Triggers, consult};
use http::{Method, StatusCode};

/// The verdict as a word.
fn word(asked: &str, response: &str, seconds: u64) -> &'static str {
    let stored = stored(response);
    match verdict(&ask(asked), Some(&stored), at(seconds)) {
        Verdict::Hit(_) => "hit",
        Verdict::Stale(_, StaleUse::WhileRevalidate) => "stale-while-revalidate",
        Verdict::Stale(_, StaleUse::MaxStale) => "max-stale",
        Verdict::Revalidate(revalidation) => revalidation.why.word(),
        Verdict::Miss(reason) => reason.word(),
        Verdict::GatewayTimeout => "504",
    }
}

#[test]
fn judges_by_age() {
    let plain = "cache-control: max-age=10\netag: \"a\"";
    let swr = "cache-control: max-age=10, stale-while-revalidate=5";
    let sie = "cache-control: max-age=10, stale-if-error=5";
    for (asked, response, seconds, expect) in [
        ("", plain, 0, "hit"),
        ("", plain, 9, "hit"),
        ("", plain, 10, "stale"),
        ("", plain, 1_000_000, "stale"),
        ("", "cache-control: max-age=10\nage: 5", 5, "stale"),
        ("", "cache-control: no-cache, max-age=10\netag: \"a\"", 0, "no-cache"),
        ("", swr, 10, "stale-while-revalidate"),
        ("", swr, 14, "stale-while-revalidate"),
        ("", swr, 15, "stale"),
        ("", sie, 10, "stale"),
        ("", "cache-control: s-maxage=10, stale-while-revalidate=5", 12, "stale"),
        ("", "cache-control: max-age=10, must-revalidate, stale-while-revalidate=5", 12, "stale"),
        ("", "cdn-cache-control: max-age=10, stale-while-revalidate=5", 12, "stale-while-revalidate"),
    ] {
        assert_eq!(word(asked, response, seconds), expect, "{asked} | {response} | {seconds}");
    }
}

#[test]
fn listens_to_the_client() {
    let plain = "cache-control: max-age=10\netag: \"a\"";
    let bound = "cache-control: max-age=10, must-revalidate";
    let settled = "cache-control: max-age=10, immutable";
    for (asked, response, seconds, expect) in [
        ("no-cache", plain, 0, "request"),
        ("max-age=0", plain, 0, "hit"),
        ("max-age=0", plain, 1, "request"),
        ("max-age=5", plain, 5, "hit"),
        ("max-age=5", plain, 6, "request"),
        ("min-fresh=5", plain, 5, "hit"),
        ("min-fresh=5", plain, 6, "request"),
        ("max-stale", plain, 1000, "max-stale"),
        ("max-stale=5", plain, 15, "max-stale"),
        ("max-stale=5", plain, 16, "stale"),
        ("max-stale", bound, 11, "stale"),
        ("max-stale", "cache-control: s-maxage=10", 11, "stale"),
        ("max-stale, no-cache", plain, 11, "request"),
        ("only-if-cached", plain, 0, "hit"),
        ("only-if-cached", plain, 11, "504"),
        ("only-if-cached, max-stale", plain, 11, "max-stale"),
        ("only-if-cached, no-cache", plain, 0, "504"),
        ("max-age=0", settled, 5, "hit"),
        ("no-cache", settled, 5, "request"),
        ("max-age=0", settled, 10, "request"),
    ] {
        let asked = format!("cache-control: {asked}");
        assert_eq!(word(&asked, response, seconds), expect, "{asked} | {response} | {seconds}");
    }
}

#[test]
fn fractions_of_seconds_count() {
    let stored = stored("cache-control: max-age=1");
    assert!(matches!(verdict(&ask(""), Some(&stored), at_ms(999)), Verdict::Hit(_)));
    assert!(matches!(verdict(&ask(""), Some(&stored), at_ms(1000)), Verdict::Revalidate(_)));
    let Verdict::Revalidate(late) = verdict(&ask("cache-control: max-age=0"), Some(&stored), at_ms(1)) else {
        panic!("max-age=0 wants validation")
    };
    assert_eq!(late.why, RevalidateReason::Request);
}

#[test]
fn nothing_held() {
    assert_eq!(verdict(&ask(""), None, at(0)), Verdict::Miss(MissReason::Uri));
    assert_eq!(verdict(&ask("cache-control: only-if-cached"), None, at(0)), Verdict::GatewayTimeout);
}

#[test]
fn a_refresh_replaces() {
    let refresh = Triggers { paths: vec!["/a".to_owned()], ..Triggers::default() };
    let rules = CacheRules { refresh, ..CacheRules::default() };
    let headers = fields("");
    let Consult::Use(ask) = consult(&request(&Method::GET, "/a", &headers), &rules) else { panic!("passed") };
    let stored = stored("cache-control: max-age=10");
    let Verdict::Revalidate(found) = verdict(&ask, Some(&stored), at(0)) else { panic!("no refresh") };
    assert_eq!(found.why, RevalidateReason::Refresh);
}

#[test]
fn a_wall_clock_that_jumps_changes_nothing() {
    let stored = stored("cache-control: max-age=10");
    for wall in [at(0).wall, at(1_000_000).wall, std::time::SystemTime::UNIX_EPOCH] {
        let now = |seconds| crate::Now { wall, ..at(seconds) };
        assert!(matches!(verdict(&ask(""), Some(&stored), now(9)), Verdict::Hit(_)));
        assert!(matches!(verdict(&ask(""), Some(&stored), now(10)), Verdict::Revalidate(_)));
    }
}

#[test]
fn what_goes_out_on_failure() {
    let failing = Failure::Status(StatusCode::SERVICE_UNAVAILABLE);
    let not_found = Failure::Status(StatusCode::NOT_FOUND);
    let plain = "cache-control: max-age=10";
    let sie = "cache-control: max-age=10, stale-if-error=5";
    let swr = "cache-control: max-age=10, stale-while-revalidate=5";
    for (asked, response, failure, seconds, expect) in [
        ("", plain, Failure::NoAnswer, 10, false),
        ("", sie, Failure::NoAnswer, 14, true),
        ("", sie, Failure::NoAnswer, 15, false),
        ("", sie, failing, 14, true),
        ("", sie, not_found, 14, false),
        ("", sie, Failure::Slow, 14, true),
        ("", swr, Failure::Slow, 14, true),
        ("", swr, failing, 14, false),
        ("stale-if-error=9", plain, failing, 14, true),
        ("stale-if-error=9", "cache-control: max-age=10, must-revalidate", failing, 14, false),
        ("stale-if-error=9", "cache-control: s-maxage=10", failing, 14, false),
        ("no-cache", sie, failing, 14, false),
        ("no-cache", sie, failing, 0, false),
        ("max-age=1", sie, failing, 5, true),
        ("", "cache-control: no-cache, stale-if-error=9\netag: \"a\"", failing, 0, false),
    ] {
        let asked = format!("cache-control: {asked}");
        let found = error_reusable(&ask(&asked), &stored(response), failure, at(seconds));
        assert_eq!(found.is_some(), expect, "{asked} | {response} | {failure:?} | {seconds}");
    }
}

#[test]
fn tells_what_is_left() {
    let Verdict::Hit(reusable) = verdict(&ask(""), Some(&stored("cache-control: max-age=60")), at(2)) else {
        panic!("no hit")
    };
    assert_eq!((reusable.freshness().left_s(), reusable.freshness().age_s()), (58, 2));
    let stale = crate::freshness(&stored("cache-control: max-age=60\nage: 10"), at(70));
    assert_eq!((stale.left_s(), stale.age_s(), stale.staleness().as_secs()), (-20, 80, 20));
}

#[test]
fn who_may_read_a_fill() {
    let fresh = "cache-control: max-age=10";
    let short = "cache-control: max-age=0\netag: \"a\"";
    let bound = "cache-control: no-cache, max-age=10\netag: \"a\"";
    // The head came at 100.
    for (asked, response, arrived_s, now_s, expect) in [
        ("", fresh, 99, 100, true),
        ("", fresh, 105, 105, true),
        ("", fresh, 115, 115, false),
        ("", short, 99, 101, true),
        ("", short, 101, 101, false),
        ("", bound, 99, 100, false),
        ("no-cache", fresh, 99, 100, true),
        ("no-cache", fresh, 101, 101, false),
        ("max-age=1", fresh, 105, 105, false),
    ] {
        let mut stored = stored(response);
        stored.facts.received_mono = at(100).mono;
        let asked = ask(&format!("cache-control: {asked}"));
        let found = joined(&asked, &stored, at(arrived_s), at(now_s));
        assert_eq!(found.is_some(), expect, "{response} | {arrived_s} | {now_s}");
    }
}

#[test]
fn a_soft_purge_makes_stale_at_once_and_opens_the_windows() {
    let judged = |response: &str, purged_at: u64, seconds: u64| {
        let mut held = stored(response);
        held.outdate(at(purged_at).mono);
        match verdict(&ask(""), Some(&held), at(seconds)) {
            Verdict::Hit(_) => "hit",
            Verdict::Stale(..) => "swr",
            Verdict::Revalidate(revalidation) => revalidation.why.word(),
            Verdict::Miss(_) | Verdict::GatewayTimeout => "none",
        }
    };
    let plain = "cache-control: max-age=1000\netag: \"a\"";
    let swr = "cache-control: max-age=1000, stale-while-revalidate=5";
    let bound = "cache-control: max-age=1000, must-revalidate, stale-while-revalidate=5";
    for (response, purged_at, seconds, expect) in [
        (plain, 10, 10, "soft-purged"),
        (plain, 0, 0, "soft-purged"),
        (swr, 10, 14, "swr"),
        (swr, 10, 15, "soft-purged"),
        (bound, 10, 11, "soft-purged"),
        // Its own lifetime had ended before: the purge opens no window anew.
        ("cache-control: max-age=3, stale-while-revalidate=5", 10, 11, "soft-purged"),
        ("cache-control: max-age=1000, immutable\netag: \"a\"", 10, 11, "soft-purged"),
    ] {
        assert_eq!(judged(response, purged_at, seconds), expect, "{response} {purged_at} {seconds}");
    }
    let mut held = stored("cache-control: max-age=1000, stale-if-error=5");
    held.outdate(at(10).mono);
    assert!(error_reusable(&ask(""), &held, Failure::NoAnswer, at(14)).is_some());
    assert!(error_reusable(&ask(""), &held, Failure::NoAnswer, at(15)).is_none());
}
