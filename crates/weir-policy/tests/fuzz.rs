//! Runs the fuzz bodies of this crate over their seeds and over a bounded number of mixtures of their lines,
//! on any toolchain.
//!
//! `WEIR_FUZZ_SEED` sets the randomness (printed if something fails), `WEIR_FUZZ_ROUNDS` the number of
//! mixtures.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../../../fuzz/src/cookies.rs"]
mod cookies;
#[path = "../../../fuzz/src/policy.rs"]
mod policy;
#[path = "../../../fuzz/src/value.rs"]
mod value;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Words that mixtures insert, beside lines of the seeds.
const WORDS: &[&str] = &[
    "cache-control: no-store",
    "cache-control: private",
    "cache-control: no-cache",
    "cache-control: immutable, max-age=100",
    "cache-control: max-age=\"",
    "expires: 0",
    "age: abc",
    "vary: *",
    "vary: range",
    "range: bytes=0-0,-1",
    "range: bytes=500-,0-9,200-299",
    "\"",
    ",",
    ";q=",
    "=",
    "\\",
    "99999999999999999999",
    "-1",
    " ",
    "\n",
    "W/",
    "*",
    "(^|,)",
    "(,|$)",
    "\\b",
    "\\,",
    "((",
    "|",
    ")",
    ".*",
    "$",
    "^/",
    "{",
    "}",
    "{header.a}",
    "{query.b | lower}",
    " | json",
    " | default \"x\"",
    "\r",
    "%0d%0a",
    "\u{e9}",
];

/// SplitMix64 (Steele, Lea and Flood 2014): enough randomness for mixtures, and repeatable.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound.max(1) as u64).unwrap()
    }
}

fn environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

fn mix(data: &mut Vec<u8>, lines: &[Vec<u8>], random: &mut Random) {
    let at = random.below(data.len() + 1);
    let end = (at + random.below(12)).min(data.len());
    match random.below(5) {
        0 => drop(data.drain(at..end)),
        1 if at < data.len() => data[at] ^= 1 << random.below(8),
        2 => {
            let word = WORDS[random.below(WORDS.len())];
            data.splice(at..at, word.bytes());
        }
        3 => {
            let line = &lines[random.below(lines.len())];
            let after =
                data[at..].iter().position(|byte| *byte == b'\n').map_or(data.len(), |next| at + next + 1);
            data.splice(after..after, line.iter().copied().chain([b'\n']));
        }
        _ => {
            let copy = data[at..end].to_vec();
            data.splice(end..end, copy);
        }
    }
    data.truncate(4096);
}

/// The seeds of a target.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Runs a body over seeds and mixtures of them.
fn run(target: &str, body: impl Fn(&[u8])) {
    let seeds = seeds(target);
    let lines: Vec<Vec<u8>> =
        seeds.iter().flat_map(|seed| seed.split(|byte| *byte == b'\n')).map(<[u8]>::to_vec).collect();
    let seed = environment("WEIR_FUZZ_SEED", 1);
    let mut random = Random(seed);
    for begin in &seeds {
        let mut data = begin.clone();
        for round in 0..environment("WEIR_FUZZ_ROUNDS", 4000) {
            let result = catch_unwind(AssertUnwindSafe(|| body(&data)));
            assert!(result.is_ok(), "WEIR_FUZZ_SEED={seed} round {round}:\n{}", data.escape_ascii());
            if round % 40 == 0 {
                data.clone_from(&seeds[random.below(seeds.len())]);
            }
            mix(&mut data, &lines, &mut random);
        }
    }
}

#[test]
fn exchanges() {
    run("exchange", policy::exchange);
}

#[test]
fn patterns_of_purges() {
    run("purge_pattern", policy::purge_pattern);
}

#[test]
fn values() {
    run("value", value::value);
}

#[test]
fn cookies_by_name() {
    run("cookies", cookies::cookies);
}
