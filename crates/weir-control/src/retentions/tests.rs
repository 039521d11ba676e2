//! What is in force is read from the history: the newest order of a scope decides, and ends.

use std::path::PathBuf;

use serde_json::json;

use super::*;
use crate::data_plane::RetainedUntil;

/// A state folder with a history of these entries.
struct State(PathBuf);

impl State {
    fn with(name: &str, entries: &[Value]) -> State {
        let folder = std::env::temp_dir().join(format!("weir-retentions-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        // As the recorder parts them.
        for (name, is_own) in [("audit-sites", false), ("audit-purges", true)] {
            let own = entries.iter().filter(|entry| (entry["act"] == "purge") == is_own);
            let lines: Vec<String> = own.map(ToString::to_string).collect();
            std::fs::write(folder.join(name), lines.join("\n") + "\n").unwrap();
        }
        State(folder)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn entry(minute: u32, scope: &Value, lifetime_s: u64, sites: &[&str]) -> Value {
    json!({
        "time": format!("2026-11-26T20:{minute:02}:00.000Z"), "actor": "token:ops", "act": "ttl",
        "scope": { "scopes": [scope], "lifetime_s": lifetime_s }, "sites": sites, "result": "done",
        "mark": format!("{minute}"),
    })
}

fn at(text: &str) -> SystemTime {
    time(text).unwrap()
}

fn rows(found: &Retentions) -> Vec<(String, String, u64)> {
    let row =
        |row: &RetentionShown| (serde_json::to_string(&row.scope).unwrap(), row.until.clone(), row.left_s);
    found.retentions.iter().map(row).collect()
}

#[test]
fn the_newest_order_of_a_scope_decides_until_it_ends() {
    let (news, shop) = (json!({ "tags": ["news"] }), json!({ "site": "shop.test" }));
    let entries = [
        entry(1, &news, 7200, &[]),
        entry(2, &shop, 3600, &["shop.test"]),
        entry(3, &json!({ "url": "a/b" }), 60, &["a"]),
        entry(4, &news, 600, &[]),
        json!({ "time": "2026-11-26T20:04:30.000Z", "act": "reload", "result": "done" }),
    ];
    let state = State::with("newest", &entries);
    let (news, shop) = (news.to_string(), shop.to_string());
    let found = in_force(&state.0, at("2026-11-26T20:05:00Z"), None).unwrap();
    let of_news = (news, "2026-11-26T20:14:00Z".to_owned(), 540);
    let of_shop = (shop, "2026-11-26T21:02:00Z".to_owned(), 3420);
    assert_eq!(rows(&found), [of_news, of_shop.clone()]);
    assert_eq!((found.retentions[0].mark.as_deref(), found.more), (Some("4"), false));
    // The older one for two hours is not in force again once the newer one has ended.
    let later = in_force(&state.0, at("2026-11-26T20:15:00Z"), None).unwrap();
    assert_eq!(rows(&later), [(of_shop.0, of_shop.1, 2820)]);
    assert!(in_force(&state.0, at("2026-11-27T20:15:00Z"), None).unwrap().retentions.is_empty());
    let own = Own { sites: &["a".to_owned()], actor: "token:a".to_owned() };
    let state = State::with("newest-own", &entries[..3]);
    let seen = in_force(&state.0, at("2026-11-26T20:03:30Z"), Some(&own)).unwrap();
    assert_eq!(rows(&seen).len(), 1, "{seen:?}");
}

#[test]
fn what_was_refused_or_cut_is_not_listed_as_if_it_were_all() {
    let mut refused = entry(1, &json!({ "tags": ["a"] }), 600, &[]);
    refused["result"] = json!("failed");
    let mut cut = entry(2, &json!({ "url": "a/b" }), 600, &["a"]);
    cut["scope"]["scopes"].as_array_mut().unwrap().push(json!("… 900 in all"));
    let state = State::with("cut", &[refused, cut]);
    let found = in_force(&state.0, at("2026-11-26T20:03:00Z"), None).unwrap();
    assert_eq!((rows(&found).len(), found.more), (1, true));
    let nothing = State::with("nothing", &[]);
    assert_eq!(in_force(&nothing.0, at("2026-11-26T20:03:00Z"), None).unwrap(), Retentions::default());
}

#[test]
fn the_order_that_gave_a_lifetime_is_named() {
    let news = json!({ "tags": ["news"] });
    let entries = [entry(1, &news, 600, &[]), entry(2, &news, 540, &[]), entry(3, &news, 60, &[])];
    let state = State::with("told", &entries);
    let told = |until: &str, own: Option<&Own<'_>>, concerns: bool| {
        let retained = RetainedUntil { until: until.to_owned(), order: None };
        let mut variant = StoredVariant { retained: Some(retained), ..StoredVariant::default() };
        tell(&state.0, at("2026-11-26T20:04:00Z"), own, &mut variant, |_, _| concerns).unwrap();
        variant.retained.unwrap().order.and_then(|order| order.mark)
    };
    // Two of them end at that time; the newer one decides.
    assert_eq!(told("2026-11-26T20:10:59Z", None, true).as_deref(), Some("2"));
    assert_eq!(told("2026-11-26T20:04:00Z", None, true).as_deref(), Some("3"));
    assert_eq!(told("2026-11-26T20:10:59Z", None, false), None);
    assert_eq!(told("2026-11-26T20:30:00Z", None, true), None);
    let own = Own { sites: &["a".to_owned()], actor: "token:a".to_owned() };
    assert_eq!(told("2026-11-26T20:11:00Z", Some(&own), true), None, "it is of all sites");
}

#[test]
fn an_order_within_a_newer_one_is_not_listed() {
    let url = |url: &str| json!({ "url": url });
    let listed = |older: &[(Value, &[&str])], newer: &Value, sites: &[&str]| {
        let mut entries: Vec<Value> =
            older.iter().map(|(scope, sites)| entry(1, scope, 7200, sites)).collect();
        // It has ended, and has replaced what it concerned all the same.
        entries.push(entry(2, newer, 1, sites));
        let state = State::with("within", &entries);
        let found = in_force(&state.0, at("2026-11-26T20:05:00Z"), None).unwrap();
        rows(&found).into_iter().map(|(scope, ..)| scope).collect::<Vec<_>>()
    };
    let older = [
        (url("a.test/x/1"), &["a"][..]),
        (url("https://a.test/x/2?q"), &["a"]),
        (json!({ "prefix": "https://a.test/x/y/" }), &["a"]),
        (json!({ "tags": ["t"] }), &[]),
        (json!({ "site": "b.test" }), &["b"]),
    ];
    let names: Vec<String> = older.iter().rev().map(|(scope, _)| scope.to_string()).collect();
    let left_out = |newer: &Value, sites: &[&str]| {
        let left = listed(&older, newer, sites);
        names.iter().rev().map(|name| u8::from(!left.contains(name))).collect::<Vec<_>>()
    };
    assert_eq!(left_out(&json!("all"), &[]), [1, 1, 1, 1, 1]);
    assert_eq!(left_out(&json!({ "site": "a.test" }), &["a"]), [1, 1, 1, 0, 0]);
    // A query is not compared: its order may be another in the key.
    assert_eq!(left_out(&json!({ "prefix": "a.test/x/" }), &["a"]), [1, 0, 1, 0, 0]);
    assert_eq!(left_out(&json!({ "prefix": "https://a.test/x/" }), &["a"]), [0, 0, 1, 0, 0]);
    assert_eq!(left_out(&json!({ "prefix": "a.test" }), &["a"]), [0, 0, 0, 0, 0]);
    assert_eq!(left_out(&json!({ "tags": ["u", "t"] }), &[]), [0, 0, 0, 1, 0]);
    assert_eq!(left_out(&json!({ "tags": ["u"] }), &[]), [0, 0, 0, 0, 0]);
}

#[test]
fn what_was_purged_since_is_not_listed() {
    let (news, url, shop) =
        (json!({ "tags": ["news"] }), json!({ "url": "a.test/b" }), json!({ "site": "shop.test" }));
    let purge = |minute: u32, scope: Value, result: &str| {
        json!({
            "time": format!("2026-11-26T20:{minute:02}:00.000Z"), "actor": "token:ops", "act": "purge",
            "scope": scope, "sites": [], "result": result, "mark": format!("{minute}"),
        })
    };
    let listed = |purge: Value| {
        let entries = [
            entry(1, &news, 7200, &[]),
            entry(2, &url, 7200, &["a.test"]),
            entry(3, &shop, 7200, &["shop.test"]),
            purge,
        ];
        let state = State::with("purged", &entries);
        in_force(&state.0, at("2026-11-26T20:05:00Z"), None).unwrap().retentions.len()
    };
    assert_eq!(listed(purge(4, json!({ "scope": "all", "soft": false }), "done")), 0);
    assert_eq!(listed(purge(4, json!({ "scope": { "tags": ["news"] }, "soft": true }), "done")), 2);
    let several = json!({ "scopes": [{ "tags": ["x"] }, { "prefix": "a.test/" }, "\u{2026} 900 in all"] });
    assert_eq!(listed(purge(4, several, "done")), 2);
    assert_eq!(listed(purge(4, json!({ "scope": "all" }), "failed")), 3);
    // An order after it is listed.
    assert_eq!(listed(json!({ "act": "purge", "scope": {}, "result": "done", "time": "x" })), 3);
    let after = State::with(
        "purged-before",
        &[purge(1, json!({ "scope": "all" }), "done"), entry(2, &news, 600, &[])],
    );
    assert_eq!(in_force(&after.0, at("2026-11-26T20:05:00Z"), None).unwrap().retentions.len(), 1);
}

#[test]
fn a_clock_that_was_set_back_lengthens_nothing() {
    let (news, url) = (json!({ "tags": ["news"] }), json!({ "url": "a/b" }));
    let entries = [
        entry(1, &news, 600, &[]),
        entry(5, &url, 3600, &["a"]),
        json!({ "time": "2026-11-26T20:30:00.000Z", "act": "reload", "result": "done" }),
    ];
    let state = State::with("set-back", &entries);
    // The first had ended at half past, the second lies ahead: neither is told as if it were sure.
    let found = in_force(&state.0, at("2026-11-26T20:03:00Z"), None).unwrap();
    assert_eq!((rows(&found).len(), found.more), (0, true));
    let found = in_force(&state.0, at("2026-11-26T20:08:00Z"), None).unwrap();
    assert_eq!((rows(&found).len(), rows(&found)[0].2, found.more), (1, 3420, true));
    // Some seconds are no reason to hide one; it has not more left than was ordered.
    let found = in_force(&state.0, at("2026-11-26T20:04:30Z"), None).unwrap();
    assert_eq!((rows(&found).len(), rows(&found)[0].2), (1, 3600));
}

#[test]
fn the_order_is_found_after_the_clock_was_set_back() {
    let (news, url) = (json!({ "tags": ["news"] }), json!({ "url": "a/b" }));
    let entries = [entry(1, &news, 600, &[]), entry(2, &url, 600, &["a"])];
    let state = State::with("told-set-back", &entries);
    let told = |now: &str, own: Option<&Own<'_>>, concerns: &dyn Fn(&PurgeScope) -> bool| {
        let retained = RetainedUntil { until: "2026-11-26T19:09:00Z".to_owned(), order: None };
        let mut variant = StoredVariant { retained: Some(retained), ..StoredVariant::default() };
        tell(&state.0, at(now), own, &mut variant, |scope, _| concerns(scope)).unwrap();
        variant.retained.unwrap().order.and_then(|order| order.mark)
    };
    let is_tag = |scope: &PurgeScope| matches!(scope, PurgeScope::Tags(_));
    assert_eq!(told("2026-11-26T19:00:00Z", None, &|_| true).as_deref(), Some("2"));
    assert_eq!(told("2026-11-26T19:00:00Z", None, &is_tag).as_deref(), Some("1"));
    assert_eq!(told("2026-11-26T20:03:00Z", None, &|_| true), None, "the clock is as it was");
    // The newest that concerns it may not be seen by this one; then none is named.
    let own = Own { sites: &["b".to_owned()], actor: "token:b".to_owned() };
    assert_eq!(told("2026-11-26T19:00:00Z", Some(&own), &|_| true), None);
}
