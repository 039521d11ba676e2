//! The simulation's table and the goals of the store.

use std::collections::HashSet;

use weir_store::AdmissionMode;

use super::policies::{Lru, Policy};
use super::traces::{self, Trace};
use super::{BUDGET_PART, SEED, real, weir};

fn lru(trace: &Trace) -> f64 {
    let mut lru = Lru::new(trace.cache_bytes);
    let hits = trace.requests.iter().filter(|(object, bytes)| lru.request(*object, *bytes)).count();
    hits as f64 / trace.requests.len() as f64
}

#[test]
fn a_seed_gives_one_trace() {
    let (one, other) = (traces::all(SEED), traces::all(SEED));
    assert!(one.iter().zip(&other).all(|(one, other)| one.requests == other.requests));
    assert!(traces::all(SEED + 1)[1].requests != one[1].requests);
}

#[test]
fn the_lab_trace_gives_lru_its_measured_ratio() {
    let ratio = lru(&traces::lab());
    assert!((0.352..=0.356).contains(&ratio), "{ratio}");
}

#[test]
fn auto_within_a_budget_keeps_most_of_its_hits() {
    let trace = traces::lab();
    let asked: u64 = trace.requests.iter().map(|(_, bytes)| bytes).sum();
    let outcome = weir(&trace, AdmissionMode::Auto, Some(asked / BUDGET_PART));
    assert!(
        outcome.written <= 0.15 && outcome.hit_ratio >= 0.33,
        "{} {}",
        outcome.written,
        outcome.hit_ratio
    );
}

#[test]
fn admission_second_writes_a_tenth_of_the_fetched_bytes() {
    let outcome = weir(&traces::lab(), AdmissionMode::Second, None);
    assert!(outcome.written <= 0.15 && outcome.hit_ratio > 0.31, "{} {}", outcome.written, outcome.hit_ratio);
}

#[test]
fn the_real_store_hits_every_repeated_request_while_there_is_room() {
    let mut trace = traces::lab();
    trace.requests.truncate(4000);
    let mut seen = HashSet::new();
    let again = trace.requests.iter().filter(|(object, _)| !seen.insert(*object)).count();
    let outcome = real::weir(&trace, AdmissionMode::Always, &std::env::temp_dir()).unwrap();
    assert_eq!(outcome.hit_ratio, again as f64 / 4000.0);
    // All bodies, and little else.
    assert!((1.0..1.1).contains(&outcome.written), "{}", outcome.written);
}

/// `cargo run -p xtask -- simulate origins 1` prints it.
#[test]
fn the_table_of_picks_is_current() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/ORIGINS.md");
    let page = std::fs::read_to_string(path).unwrap();
    let rows = super::origins::quick_rows(SEED);
    assert_eq!(rows.len(), 57);
    for row in rows {
        assert!(page.contains(&row), "bench/ORIGINS.md is not current: {row}");
    }
}
