//! Verdicts over time, and what may go out when the origin fails.

use super::{
    Excuse, Failure, MissReason, RevalidateReason, StaleUse, Verdict, against_stale, error_reusable, joined,
    unreachable_window, verdict,
};
use crate::tests::given::{DATE, ask, at, at_ms, fields, judged, request, stored};
use crate::{
    CacheRules, Consult, IgnoredDirective, ResponseView, StaleRules, Statuses, Stored, StoredFlags, Triggers,
    Windows, consult, freshen,
};
use http::{Method, StatusCode};
use proptest::prelude::*;
use std::time::Duration;

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
        ("", "cache-control: s-maxage=10", 12, "stale"),
        ("", "cache-control: s-maxage=10, stale-while-revalidate=5", 12, "stale-while-revalidate"),
        ("", "cache-control: s-maxage=10, stale-while-revalidate=5", 15, "stale"),
        ("", "cache-control: s-maxage=10, proxy-revalidate, stale-while-revalidate=5", 12, "stale"),
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
        ("", plain, failing, 10, false),
        ("", plain, Failure::Unusable, 10, false),
        ("", plain, Failure::Slow, 10, false),
        ("", sie, Failure::NoAnswer, 14, true),
        ("", sie, Failure::NoAnswer, 15, false),
        ("", sie, Failure::Unusable, 14, true),
        ("", sie, Failure::Unusable, 15, false),
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
        let found =
            error_reusable(&ask(&asked), &stored(response), failure, &StaleRules::default(), at(seconds));
        assert_eq!(found.is_some(), expect, "{asked} | {response} | {failure:?} | {seconds}");
    }
}

/// A route with these windows.
fn rules(if_error_s: Option<u64>, if_unreachable_s: Option<u64>) -> StaleRules {
    let seconds = |window: Option<u64>| window.map(Duration::from_secs);
    StaleRules {
        while_revalidate: None,
        if_error: seconds(if_error_s),
        if_unreachable: seconds(if_unreachable_s),
        ..StaleRules::default()
    }
}

/// A response that such a route stored.
fn stored_by(stale: StaleRules, response: &str) -> Stored {
    let lines = format!("date: {DATE}\n{response}");
    judged("", 200, &lines, &CacheRules { stale, ..CacheRules::default() }).unwrap().into_stored()
}

#[test]
fn without_an_answer_a_stale_response_is_sent_for_a_bounded_time() {
    let plain = "cache-control: max-age=10";
    let sie = "cache-control: max-age=10, stale-if-error=100";
    let (none, named) = (&rules(None, None), &rules(None, Some(50)));
    for (rules, response, window_s) in [
        (none, plain, 3600),
        (named, plain, 50),
        (&rules(None, Some(0)), plain, 0),
        // The origin's limit counts, unless the route has one.
        (none, sie, 100),
        (none, "cache-control: max-age=10, stale-if-error=0", 0),
        (none, "cdn-cache-control: max-age=10, stale-if-error=100", 100),
        (named, sie, 100),
        (&rules(None, Some(200)), sie, 200),
        // A window for errors includes this error, and shortens no other window.
        (&rules(Some(7), None), plain, 3600),
        (&rules(Some(7), None), sie, 3600),
        (&rules(Some(7200), None), plain, 7200),
        (&rules(Some(70), Some(50)), plain, 70),
        // Directives that forbid it.
        (none, "cache-control: max-age=10, must-revalidate", 0),
        (none, "cache-control: max-age=10, proxy-revalidate", 0),
        (none, "cache-control: s-maxage=10", 0),
        (none, "cache-control: max-age=10, no-cache\netag: \"a\"", 0),
        (&rules(Some(70), Some(50)), "cache-control: max-age=10, must-revalidate", 0),
        // s-maxage leaves what the route or the origin names.
        (named, "cache-control: s-maxage=10", 50),
        (none, "cache-control: s-maxage=10, stale-if-error=100", 100),
        (&rules(Some(70), None), "cache-control: s-maxage=10", 70),
        (none, "cdn-cache-control: max-age=10, must-revalidate", 0),
    ] {
        let held = stored_by(rules.clone(), response);
        assert_eq!(unreachable_window(&held, rules).as_secs(), window_s, "{rules:?} {response}");
        let goes = |seconds| error_reusable(&ask(""), &held, Failure::NoAnswer, rules, at(seconds)).is_some();
        assert_eq!(goes(10), window_s > 0, "{rules:?} {response}");
        assert!(window_s == 0 || goes(9 + window_s), "{rules:?} {response}");
        assert!(!goes(10 + window_s), "{rules:?} {response}");
    }
}

#[test]
fn without_an_answer_no_cache_still_demands_validation() {
    let held = stored("cache-control: max-age=10");
    let goes = |asked: &str, held: &Stored| {
        error_reusable(&ask(asked), held, Failure::NoAnswer, &StaleRules::default(), at(20))
            .map(|(_, why)| why)
    };
    assert_eq!(goes("", &held), Some(Excuse::Unreachable));
    assert_eq!(goes("cache-control: max-age=0", &held), Some(Excuse::Unreachable));
    assert_eq!(goes("cache-control: no-cache", &held), None);
    assert_eq!(goes("pragma: no-cache", &held), None);
    assert_eq!(goes("", &stored("cache-control: max-age=10, stale-if-error=60")), Some(Excuse::Error));
    let mut suspect = held.clone();
    suspect.suspect(at(0).mono);
    assert_eq!(goes("", &suspect), None);
    let mut purged = stored("cache-control: max-age=1000");
    purged.outdate(at(15).mono);
    assert_eq!(goes("", &purged), Some(Excuse::Unreachable));
}

proptest! {
    /// No window and no failure ever overrules a directive that forbids stale responses.
    #[test]
    fn a_directive_against_stale_is_never_overruled(
        bond in prop::sample::select(vec!["must-revalidate", "proxy-revalidate", "no-cache"]),
        if_error in prop::option::of(0_u64..10_000),
        if_unreachable in prop::option::of(0_u64..10_000),
        said in prop::option::of(0_u64..10_000),
        seconds in 10_u64..20_000,
        failure in prop::sample::select(vec![
            Failure::NoAnswer, Failure::Unusable, Failure::Slow, Failure::Status(StatusCode::BAD_GATEWAY),
        ]),
    ) {
        let rules = rules(if_error, if_unreachable);
        let said = said.map(|said| format!(", stale-if-error={said}")).unwrap_or_default();
        let held = stored_by(rules.clone(), &format!("etag: \"a\"\ncache-control: max-age=10, {bond}{said}"));
        prop_assert!(error_reusable(&ask(""), &held, failure, &rules, at(seconds)).is_none());
    }

    /// s-maxage leaves the windows that its origin or the route names, and no other: neither the default nor
    /// a client opens one. A response that was stored for a request with credentials because of it, or may
    /// have been, is never stale, however often it is renewed. A route that ignores must-revalidate treats
    /// s-maxage as max-age.
    #[test]
    fn s_maxage_leaves_what_is_named(
        if_error in prop::option::of(0_u64..5_000),
        if_unreachable in prop::option::of(0_u64..5_000),
        said in prop::option::of(0_u64..5_000),
        said_swr in prop::option::of(0_u64..5_000),
        by_client in prop::option::of(0_u64..9_000),
        staleness in 0_u64..9_000,
        how in prop::sample::select(vec!["plain", "credentials", "of-before", "public"]),
        ignores in any::<bool>(),
        renewals in prop::collection::vec(any::<bool>(), 0..3),
    ) {
        let mut rules = CacheRules { stale: rules(if_error, if_unreachable), ..CacheRules::default() };
        if ignores {
            rules.ignore.add(Statuses::Any, &[IgnoredDirective::MustRevalidate]);
        }
        let mut lines = format!("date: {DATE}\netag: \"a\"\ncache-control: s-maxage=10");
        for (name, window) in [("stale-if-error", said), ("stale-while-revalidate", said_swr)] {
            lines += &window.map(|window| format!(", {name}={window}")).unwrap_or_default();
        }
        let is_public = how == "public";
        lines += if is_public { ", public" } else { "" };
        let is_authenticated = matches!(how, "credentials" | "public");
        let asked = if is_authenticated { "authorization: x" } else { "" };
        let mut held = judged(asked, 200, &lines, &rules).unwrap().into_stored();
        let mut is_bound = matches!(how, "credentials" | "of-before");
        if how == "of-before" {
            // As version 1 of a head has it.
            held.facts.flags.remove(StoredFlags::S_MAXAGE);
            held.facts.flags.insert(StoredFlags::MUST_REVALIDATE);
            (held.facts.if_error, held.facts.while_revalidate) = Default::default();
        }
        for has_credentials in renewals {
            let asked = fields(if has_credentials { "authorization: x" } else { "" });
            let news = fields("x: y");
            let view = ResponseView::new(StatusCode::NOT_MODIFIED, &news, at(0), at(0));
            held = freshen(&asked, &held, &view, &rules);
            is_bound |= has_credentials && !is_public;
        }
        let now = at(10 + staleness);
        let error = if_error.or(said).unwrap_or(0);
        let swr = said_swr.unwrap_or(0);
        let is_named = if_error.is_none() && said.is_some();
        let default = if ignores && !is_named { 3600 } else { 0 };
        let client = by_client.filter(|_| ignores).unwrap_or(0);
        let asked = by_client.map(|window| format!("cache-control: stale-if-error={window}"));
        let asked = asked.unwrap_or_default();
        let goes = |failure| error_reusable(&ask(&asked), &held, failure, &rules.stale, now).is_some();
        for (failure, window) in [
            (Failure::NoAnswer, error.max(client).max(if_unreachable.unwrap_or(default))),
            (Failure::Status(StatusCode::BAD_GATEWAY), error.max(client)),
            (Failure::Unusable, error.max(client)),
            (Failure::Slow, error.max(client).max(swr)),
        ] {
            prop_assert_eq!(goes(failure), !is_bound && staleness < window, "{:?} {:?}", failure, held.facts);
        }
        let (plain, taken) = (ask(""), ask("cache-control: max-stale"));
        let goes = |ask| matches!(verdict(ask, Some(&held), now), Verdict::Stale(..));
        prop_assert_eq!(goes(&plain), !is_bound && staleness < swr);
        prop_assert_eq!(goes(&taken), !is_bound && (ignores || staleness < swr));
        let expect = match (is_bound, ignores) {
            (true, _) => Some("s-maxage-authorization"),
            (false, true) => None,
            (false, false) => Some("s-maxage"),
        };
        prop_assert_eq!(against_stale(&held), expect);
    }

    /// No response is sent past all its windows. Within its own window, no answer always allows it. What a
    /// status or a slow origin allows does not depend on the window for no answer.
    #[test]
    fn a_window_is_for_what_it_names(
        if_error in prop::option::of(0_u64..5_000),
        if_unreachable in prop::option::of(0_u64..5_000),
        said in prop::option::of(0_u64..5_000),
        staleness in 0_u64..9_000,
    ) {
        let stale = rules(if_error, if_unreachable);
        let said_text = said.map(|said| format!(", stale-if-error={said}")).unwrap_or_default();
        let held = stored_by(stale.clone(), &format!("etag: \"a\"\ncache-control: max-age=10{said_text}"));
        let goes = |failure, rules: &StaleRules| {
            error_reusable(&ask(""), &held, failure, rules, at(10 + staleness)).is_some()
        };
        let error = if_error.or(said).unwrap_or(0);
        let default = if if_error.is_none() && said.is_some() { 0 } else { 3600 };
        let window = error.max(if_unreachable.unwrap_or(default));
        prop_assert_eq!(goes(Failure::NoAnswer, &stale), staleness < window);
        for failure in [Failure::Status(StatusCode::SERVICE_UNAVAILABLE), Failure::Unusable, Failure::Slow] {
            prop_assert_eq!(goes(failure, &stale), staleness < error);
            prop_assert_eq!(goes(failure, &rules(if_error, Some(9_000))), staleness < error);
        }
    }
}

#[test]
fn a_status_of_the_origin_has_the_window_that_the_route_gives_it() {
    let one = |code| Statuses::One(StatusCode::from_u16(code).unwrap());
    let if_status =
        Windows(vec![(one(404), Duration::from_secs(30)), (Statuses::Class(4), Duration::from_secs(5))]);
    let stale = StaleRules { if_status, ..rules(Some(10), None) };
    let plain = "cache-control: max-age=10";
    let held = stored_by(stale.clone(), plain);
    let why = |held: &Stored, asked: &str, code: u16, seconds: u64| {
        let failure = Failure::Status(StatusCode::from_u16(code).unwrap());
        error_reusable(&ask(asked), held, failure, &stale, at(seconds)).map(|(_, excuse)| excuse)
    };
    for (code, seconds, expect) in [
        (404, 5, Some(Excuse::Status)),
        (404, 39, Some(Excuse::Status)),
        (404, 40, None),
        (403, 14, Some(Excuse::Status)),
        (403, 15, None),
        (429, 14, Some(Excuse::Status)),
        (503, 19, Some(Excuse::Error)),
        (503, 20, None),
        (501, 5, None),
        (200, 5, None),
        (302, 5, None),
    ] {
        assert_eq!(why(&held, "", code, seconds), expect, "{code} {seconds}");
        let status = StatusCode::from_u16(code).unwrap();
        assert_eq!(super::outlasts(&held, status, &stale, at(seconds)), expect.is_some(), "{code} {seconds}");
    }
    // A stored failure is renewed, and does not stand for another.
    let lines = format!("date: {DATE}\n{plain}");
    let by = CacheRules { stale: stale.clone(), ..CacheRules::default() };
    for (own, code) in [(404, 404), (403, 404), (503, 503), (404, 503)] {
        let failed = judged("", own, &lines, &by).unwrap().into_stored();
        let status = StatusCode::from_u16(code).unwrap();
        assert!(!super::outlasts(&failed, status, &stale, at(12)), "{own} {code}");
        assert!(code == 503 || why(&failed, "", code, 12).is_none(), "{own} {code}");
    }
    // A client's own window is for errors, and its no-cache for everything.
    assert_eq!(why(&held, "cache-control: stale-if-error=1000", 404, 40), None);
    assert_eq!(why(&held, "cache-control: no-cache", 404, 12), None);
    let of_cdn = stored_by(stale.clone(), "cache-control: s-maxage=10");
    assert_eq!(why(&of_cdn, "", 404, 12), Some(Excuse::Status), "the route names a window");
    for bond in ["must-revalidate", "proxy-revalidate", "no-cache"] {
        let bound = stored_by(stale.clone(), &format!("etag: \"a\"\n{plain}, {bond}"));
        assert_eq!(why(&bound, "", 404, 12), None, "{bond}");
    }
    let mut suspect = held;
    suspect.suspect(at(0).mono);
    assert_eq!(why(&suspect, "", 404, 12), None);
}

#[test]
fn the_origins_limit_is_stored() {
    let named = StoredFlags::NAMES_IF_ERROR;
    assert!(stored("cache-control: max-age=10, stale-if-error=0").facts.flags.has(named));
    assert!(!stored("cache-control: max-age=10").facts.flags.has(named));
    assert!(
        !stored_by(rules(Some(1), None), "cache-control: max-age=10, stale-if-error=9")
            .facts
            .flags
            .has(named)
    );
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
fn a_soft_purge_makes_stale_at_once() {
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
        // Its own lifetime had ended before, so the purge opens no new window.
        ("cache-control: max-age=3, stale-while-revalidate=5", 10, 11, "soft-purged"),
        ("cache-control: max-age=1000, immutable\netag: \"a\"", 10, 11, "soft-purged"),
    ] {
        assert_eq!(judged(response, purged_at, seconds), expect, "{response} {purged_at} {seconds}");
    }
    let mut held = stored("cache-control: max-age=1000, stale-if-error=5");
    held.outdate(at(10).mono);
    let goes =
        |seconds| error_reusable(&ask(""), &held, Failure::NoAnswer, &StaleRules::default(), at(seconds));
    assert!(goes(14).is_some());
    assert!(goes(15).is_none());
}
