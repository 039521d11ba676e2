//! The table has each operation once, and the checked-in document is the table's: `WEIR_REWRITE=1 cargo test
//! -p weir-control` rewrites it.

use std::collections::HashSet;
use std::path::Path;

use serde_json::Value;

use super::*;
use crate::call::Role;

#[test]
fn each_operation_is_there_once_and_found() {
    let all: HashSet<(&str, &str)> = TABLE.iter().map(|row| (row.method.as_str(), row.path)).collect();
    assert_eq!(all.len(), TABLE.len());
    for row in TABLE {
        assert!(row.path.starts_with("/v1/") || row.path.starts_with("/cache/"), "{}", row.path);
        let path = row.path.replace("{id}", "x").replace("{name}", "x").replace("{uri}", "a/b.html");
        let found = find(&row.method, &path).map(|(found, _)| found.path).ok();
        assert_eq!(found, Some(row.path));
        assert!(row.method != Method::GET || row.input.is_none(), "a GET has no content: {}", row.path);
    }
}

#[test]
fn other_paths_and_methods_are_refused() {
    for path in [
        "/v1",
        "/v1/",
        "/v1/status/",
        "//v1/status",
        "/v1/../v1/status",
        "/v1/%73tatus",
        "/v1/nothing",
        "/V1/status",
    ] {
        assert_eq!(find(&Method::GET, path).map(|_| ()).unwrap_err().status, 404, "{path}");
    }
    let refusal = find(&Method::PUT, "/v1/status").map(|_| ()).unwrap_err();
    assert_eq!(refusal.status, 405);
    assert_eq!(refusal.field.unwrap().1, "GET");
    assert!(find(&Method::HEAD, "/v1/status").is_ok());
}

#[test]
fn metrics_are_pushed_with_post_and_put() {
    for method in [Method::POST, Method::PUT] {
        let (row, _) = find(&method, "/v1/origins/metrics").ok().unwrap();
        assert_eq!((row.role, row.input.is_some()), (Some(Role::Push), true));
        assert_eq!(crate::history::act_of(&method, row.path), "origin-metrics");
    }
}

#[test]
fn the_checked_in_document_is_that_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/openapi.json");
    let expect = document::text();
    if std::env::var_os("WEIR_REWRITE").is_some() {
        std::fs::write(&path, &expect).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expect, "openapi.json is not current: run WEIR_REWRITE=1 cargo test -p weir-control");
}

#[test]
fn every_reference_of_the_document_leads_somewhere() {
    let document: Value = serde_json::from_str(&document::text()).unwrap();
    let mut references = Vec::new();
    collect(&document, &mut references);
    assert!(references.len() > TABLE.len());
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|value| collect(value, found));
        }
        Value::Array(all) => all.iter().for_each(|value| collect(value, found)),
        _ => {}
    }
}

/// Where the time of an operation is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    /// On a thread beside the runtime, in a turn of its token.
    Turn,
    /// On the runtime, where it is short: `why`.
    Runtime(&'static str),
}

/// What bounds what a token of one site takes of others with an operation. Long answers are bounded where all
/// leave (`unsent`), connections where all come (`places`), and content of requests by its length.
struct Bound {
    method: Method,
    path: &'static str,
    time: Time,
}

const fn bound(method: Method, path: &'static str, time: Time) -> Bound {
    Bound { method, path, time }
}

const WAITS: &str = "it waits for lines or pieces, and handles one at a time";
const BEGINS: &str = "its work has a thread of its own, and its answer is written beside";
const BESIDE: &str = "what is long in it is done in a turn; then it waits for the disk";

/// A row for each operation that a token of some sites may use.
const BOUNDS: &[Bound] = &[
    bound(Method::GET, "/v1/openapi.json", Time::Turn),
    bound(Method::GET, "/v1/objects", Time::Runtime(BEGINS)),
    bound(Method::GET, "/v1/sites", Time::Turn),
    bound(Method::POST, "/v1/explain", Time::Turn),
    bound(Method::POST, "/v1/purge", Time::Runtime(BESIDE)),
    bound(Method::POST, "/v1/purge/dry-run", Time::Turn),
    bound(Method::POST, "/v1/ttl", Time::Runtime(BESIDE)),
    bound(Method::GET, "/v1/ttl", Time::Turn),
    bound(Method::POST, "/v1/warm", Time::Turn),
    bound(Method::POST, "/v1/warm/{id}", Time::Turn),
    bound(Method::GET, "/v1/jobs", Time::Turn),
    bound(Method::GET, "/v1/jobs/{id}", Time::Runtime(WAITS)),
    bound(Method::DELETE, "/v1/jobs/{id}", Time::Turn),
    bound(Method::GET, "/v1/events", Time::Runtime(WAITS)),
    bound(Method::GET, "/v1/log", Time::Runtime(WAITS)),
    bound(Method::GET, "/v1/log/past", Time::Turn),
    bound(Method::GET, "/v1/top", Time::Runtime(WAITS)),
    bound(Method::GET, "/v1/history", Time::Turn),
    bound(Method::GET, "/v1/content", Time::Turn),
    bound(Method::PUT, "/v1/content", Time::Runtime(WAITS)),
    bound(Method::DELETE, "/v1/content", Time::Turn),
    bound(Method::POST, "/cache/add/{uri}", Time::Runtime(WAITS)),
    bound(Method::POST, "/cache/reset/{uri}", Time::Turn),
    bound(Method::GET, "/cache/stats", Time::Turn),
];

#[test]
fn what_a_token_of_one_site_takes_of_others_is_bounded_for_each_operation() {
    let open = TABLE.iter().filter(|row| row.reach == Reach::OwnSites);
    for row in open.clone() {
        let name = format!("{} {}", row.method, row.path);
        let rows: Vec<&Bound> =
            BOUNDS.iter().filter(|bound| (&bound.method, bound.path) == (&row.method, row.path)).collect();
        let [bound] = rows.as_slice() else { panic!("{name} has {} rows", rows.len()) };
        let is_in_turn = matches!(row.act, Act::Shows(_) | Act::Blocks(_));
        assert_eq!(is_in_turn, bound.time == Time::Turn, "{name}: {:?}", bound.time);
        if let Time::Runtime(why) = bound.time {
            assert!(!why.is_empty(), "{name}");
        }
        // What is recorded as done is no GET, so that it counts in the rate of its token.
        let act = crate::history::act_of(&row.method, row.path);
        assert!(!row.method.is_safe() || act.contains('/'), "{name} is recorded, and has no rate");
    }
    assert_eq!(open.count(), BOUNDS.len());
}
