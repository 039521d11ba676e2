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
