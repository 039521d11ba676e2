//! `cargo run -p xtask -- simulate [seed [folder]]` prints the hit ratios of policies on traces that follow
//! from a seed, as a table.
//!
//! The columns of Weir are [`weir_store::simulation`]: the store's own decisions. The others are small and
//! exact. With a folder the traces also go through the real store, whose volume lies in that folder.

pub(crate) mod origins;
mod policies;
mod real;
mod traces;

use std::fmt::Write as _;
use std::path::Path;

use weir_policy::Now;
use weir_store::AdmissionMode;
use weir_store::simulation::Model;

use policies::{Fifo, Lru, Policy, S3Fifo, Sieve, TinyLfu};
use traces::Trace;

/// The default seed.
pub(crate) const SEED: u64 = 1;
/// Weir's memory is this part of its volume's size.
const MEMORY_PART: u64 = 8;
/// A write budget is this part of the requested bytes: about 0.15 bytes for each fetched byte.
const BUDGET_PART: u64 = 10;

/// The result of a trace.
struct Outcome {
    hit_ratio: f64,
    /// Bytes written for each fetched byte.
    written: f64,
}

/// The table of all traces and policies, as Markdown.
pub(crate) fn table(seed: u64) -> String {
    let mut text = String::from(
        "| trace | LRU | FIFO | S3-FIFO | SIEVE | W-TinyLFU | Weir always | Weir auto | Weir second | Weir \
        auto, budget | written: always | auto | second | auto, budget |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for trace in traces::all(seed) {
        let size = trace.cache_bytes;
        let mut others: Vec<Box<dyn Policy>> = vec![
            Box::new(Lru::new(size)),
            Box::new(Fifo::new(size)),
            Box::new(S3Fifo::new(size)),
            Box::new(Sieve::new(size)),
            Box::new(TinyLfu::new(size)),
        ];
        let _ = write!(text, "| {}", trace.name);
        for policy in &mut others {
            let hits =
                trace.requests.iter().filter(|(object, bytes)| policy.request(*object, *bytes)).count();
            let _ = write!(text, " | {:.3}", hits as f64 / trace.requests.len() as f64);
        }
        let asked: u64 = trace.requests.iter().map(|(_, bytes)| bytes).sum();
        let manners = [
            (AdmissionMode::Always, None),
            (AdmissionMode::Auto, None),
            (AdmissionMode::Second, None),
            (AdmissionMode::Auto, Some(asked / BUDGET_PART)),
        ];
        let outcomes = manners.map(|(mode, budget)| weir(&trace, mode, budget));
        outcomes.iter().for_each(|outcome| {
            let _ = write!(text, " | {:.3}", outcome.hit_ratio);
        });
        outcomes.iter().for_each(|outcome| {
            let _ = write!(text, " | {:.2}", outcome.written);
        });
        text.push_str(" |\n");
    }
    text
}

/// The table of all traces through the real store, beside LRU and the model, as Markdown.
///
/// # Errors
/// The folder cannot be used, or a byte is not what was stored.
pub(crate) fn real_table(seed: u64, folder: &Path) -> anyhow::Result<String> {
    let modes = [AdmissionMode::Always, AdmissionMode::Auto, AdmissionMode::Second];
    let mut text = String::from(
        "| trace | LRU | always | auto | second | written: always | auto | second |\n\
        |---|---|---|---|---|---|---|---|\n",
    );
    for trace in traces::all(seed) {
        let mut lru = Lru::new(trace.cache_bytes);
        let hits = trace.requests.iter().filter(|(object, bytes)| lru.request(*object, *bytes)).count();
        let _ = write!(text, "| {} | {:.3}", trace.name, hits as f64 / trace.requests.len() as f64);
        let outcomes: Vec<Outcome> =
            modes.into_iter().map(|mode| real::weir(&trace, mode, folder)).collect::<anyhow::Result<_>>()?;
        outcomes.iter().for_each(|outcome| {
            let _ = write!(text, " | {:.3}", outcome.hit_ratio);
        });
        outcomes.iter().for_each(|outcome| {
            let _ = write!(text, " | {:.2}", outcome.written);
        });
        text.push_str(" |\n");
    }
    Ok(text)
}

fn weir(trace: &Trace, mode: AdmissionMode, budget_bytes: Option<u64>) -> Outcome {
    let mut model = Model::new(trace.cache_bytes / MEMORY_PART, trace.cache_bytes, mode, now());
    if let Some(bytes) = budget_bytes {
        model = model.within(bytes);
    }
    let (mut hits, mut fetched) = (0, 0);
    for (object, bytes) in &trace.requests {
        if model.request(*object, *bytes) {
            hits += 1;
        } else {
            fetched += bytes;
        }
    }
    let hit_ratio = f64::from(hits) / trace.requests.len() as f64;
    Outcome { hit_ratio, written: model.written_bytes() as f64 / fetched.max(1) as f64 }
}

/// Any moment: nothing in a simulation depends on it.
#[allow(clippy::disallowed_methods)]
fn now() -> Now {
    Now { mono: std::time::Instant::now(), wall: std::time::SystemTime::now() }
}

#[cfg(test)]
mod tests;
