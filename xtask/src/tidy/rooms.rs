//! The direction of imports between the crates, from cargo's metadata.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::source::Offence;

/// The crates that each crate may import. One that is not in the list may import none.
const IMPORTS: &[(&str, &[&str])] = &[
    ("weir-wire", &[]),
    ("weir-policy", &[]),
    ("weir-config", &["weir-policy"]),
    ("weir-disk", &[]),
    ("weir-volume", &["weir-disk", "weir-policy"]),
    ("weir-sealed", &[]),
    ("weir-body", &["weir-sealed"]),
    ("weir-store", &["weir-sealed", "weir-body", "weir-policy", "weir-disk", "weir-volume"]),
    ("weir-yield", &[]),
    ("weir-share", &[]),
    ("weir-client", &["weir-wire", "weir-yield", "weir-share"]),
    ("weir-upstream", &["weir-client", "weir-wire", "weir-yield", "weir-share"]),
    ("weir-rocks", &["weir-volume"]),
    ("weir-script", &["weir-upstream", "weir-share"]),
    ("weir-accounts", &["weir-disk"]),
    ("weir-content", &["weir-disk"]),
    ("weir-acme", &["weir-disk"]),
    ("weir-warm", &["weir-clock", "weir-disk"]),
    ("weir-metrics", &["weir-config", "weir-upstream"]),
    ("weir-distributor", &["weir-upstream", "weir-share"]),
    ("weir-clock", &["weir-policy"]),
    ("weir-observe", &["weir-policy", "weir-clock", "weir-share"]),
    (
        "weir-front",
        &[
            "weir-sealed",
            "weir-body",
            "weir-wire",
            "weir-yield",
            "weir-share",
            "weir-clock",
            "weir-observe",
            "weir-tls",
        ],
    ),
    ("weir-files", &["weir-sealed", "weir-body", "weir-policy", "weir-clock", "weir-share"]),
    (
        "weir-fill",
        &[
            "weir-body",
            "weir-policy",
            "weir-store",
            "weir-upstream",
            "weir-clock",
            "weir-observe",
            "weir-share",
        ],
    ),
    (
        "weir-edge",
        &[
            "weir-body",
            "weir-wire",
            "weir-policy",
            "weir-config",
            "weir-store",
            "weir-upstream",
            "weir-clock",
            "weir-observe",
            "weir-files",
            "weir-content",
            "weir-fill",
            "weir-front",
            "weir-share",
        ],
    ),
    ("weir-control", &["weir-config", "weir-observe", "weir-tls", "weir-share"]),
    (
        "weir",
        &[
            "weir-wire",
            "weir-config",
            "weir-store",
            "weir-upstream",
            "weir-rocks",
            "weir-script",
            "weir-tls",
            "weir-accounts",
            "weir-content",
            "weir-files",
            "weir-acme",
            "weir-metrics",
            "weir-distributor",
            "weir-clock",
            "weir-observe",
            "weir-front",
            "weir-edge",
            "weir-control",
            "weir-warm",
        ],
    ),
    ("weir-testkit", &[]),
    ("weir-stress", &[]),
    // It simulates the store's decisions.
    ("xtask", &["weir-policy", "weir-store", "weir-upstream"]),
];

/// What the tests of every crate may import besides.
const FOR_TESTS: &[&str] = &["weir-testkit"];

/// Foreign crates that only these crates may name: the store of rows in one place, the engine of scripts in
/// one, and TLS in one for each direction, beside what tests and loads.
const ALONE: &[(&str, &str)] = &[
    ("rocksdb", "weir-rocks"),
    ("librocksdb-sys", "weir-rocks"),
    ("rhai", "weir-script"),
    ("rustls", "weir-tls"),
    ("rustls", "weir-client"),
    // The servers of its tests.
    ("rustls", "weir-upstream"),
    ("rustls", "weir-acme"),
    ("rustls", "weir-stress"),
    ("rustls", "weir-testkit"),
    ("aws-lc-rs", "weir-tls"),
    // The hashes of tokens.
    ("aws-lc-rs", "weir-control"),
    ("aws-lc-rs", "weir-upstream"),
    // The digests that scenarios compare bodies with.
    ("aws-lc-rs", "weir-stress"),
    // What signs questions and answers.
    ("aws-lc-rs", "weir-distributor"),
];

/// The import of a crate by another, or of a foreign crate that only some may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) from: String,
    pub(super) to: String,
    /// Cargo's kind: `normal`, `dev` or `build`.
    pub(super) kind: String,
}

/// Cargo's view of the workspace.
///
/// # Errors
/// Cargo cannot tell it.
pub(super) fn metadata(root: &Path) -> Result<Value> {
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    cargo.args(["metadata", "--no-deps", "--format-version", "1", "--offline"]).current_dir(root);
    let output = cargo.output().context("run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("read cargo's metadata")
}

pub(super) fn judge(metadata: &Value) -> Result<Vec<Offence>> {
    let imports = imports(metadata);
    ensure!(!imports.is_empty(), "cargo's metadata names no import between the rooms");
    let mut offences: Vec<Offence> = imports.iter().filter_map(offence).collect();
    offences.extend(idle_rows(IMPORTS, &imports));
    Ok(offences)
}

/// What a crate may import and does not.
pub(super) fn idle_rows(rows: &[(&str, &[&str])], imports: &[Import]) -> Vec<Offence> {
    let all = rows.iter().flat_map(|(from, allowed)| allowed.iter().map(move |to| (*from, *to)));
    let is_used = |(from, to): &(&str, &str)| imports.iter().any(|one| one.from == *from && one.to == *to);
    let idle = all.filter(|row| !is_used(row));
    idle.map(|(from, to)| Offence {
        path: "xtask/src/tidy/rooms.rs".to_owned(),
        line: 1,
        what: format!("{from} may import {to} and does not: take it out of the list"),
    })
    .collect()
}

fn imports(metadata: &Value) -> Vec<Import> {
    let list = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for package in list(metadata, "packages") {
        for dependency in list(&package, "dependencies") {
            let is_watched = ALONE.iter().any(|(name, _)| dependency["name"] == *name);
            if dependency["path"].is_string() || is_watched {
                let kind = dependency["kind"].as_str().unwrap_or("normal").to_owned();
                found.push(Import { from: text(&package["name"]), to: text(&dependency["name"]), kind });
            }
        }
    }
    found
}

pub(super) fn offence(import: &Import) -> Option<Offence> {
    if ALONE.contains(&(import.to.as_str(), import.from.as_str())) {
        return None;
    }
    let allowed = IMPORTS.iter().find(|(from, _)| *from == import.from).map_or(&[][..], |(_, to)| to);
    let for_tests = import.kind == "dev" && FOR_TESTS.contains(&import.to.as_str());
    if allowed.contains(&import.to.as_str()) || for_tests {
        return None;
    }
    let what = format!("{} must not import {} ({})", import.from, import.to, import.kind);
    Some(Offence { path: format!("{}/Cargo.toml", import.from), line: 1, what })
}
