//! Runs this crate's fuzz body of a connection over its seeds and over a bounded number of mutations, on any
//! toolchain.
//!
//! `WEIR_FUZZ_SEED` sets the randomness (printed if something fails), `WEIR_FUZZ_ROUNDS` the mutations of
//! each seed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "../../../fuzz/src/http2.rs"]
mod http2;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use weir_testkit::Random;

/// What all connections one after another may leave behind, the allocator's pages among it.
const LEFT_BYTES_MAX: u64 = 48 << 20;

fn environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// Anonymous resident memory of this process.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) << 10
}

fn mutate(data: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let below = |random: &mut Random, most: usize| random.below(most.max(1) as u64) as usize;
    let at = below(random, data.len() + 1);
    let end = (at + below(random, 12)).min(data.len());
    match random.below(6) {
        0 | 1 if at < data.len() => data[at] = random.number() as u8,
        2 => drop(data.drain(at..end)),
        3 => {
            let copy = data[at..end].repeat(1 + below(random, 20));
            data.splice(at..at, copy);
        }
        4 => {
            let other = random.one_of(seeds);
            let from = below(random, other.len());
            data.splice(at..end, other[from..].iter().copied());
        }
        _ => drop(data.splice(at..at, (0..6).map(|_| random.number() as u8).collect::<Vec<_>>())),
    }
    data.truncate(3000);
}

#[test]
fn connections_of_http2_keep_their_promises() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/http2");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let seeds: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(!seeds.is_empty(), "no seeds");
    let start = environment("WEIR_FUZZ_SEED", 1);
    let mut random = Random::new(start);
    let mut before = 0;
    for (number, seed) in seeds.iter().enumerate() {
        let mut data = seed.clone();
        for round in 0..=environment("WEIR_FUZZ_ROUNDS", 150) {
            if catch_unwind(AssertUnwindSafe(|| http2::http2(&data))).is_err() {
                panic!("it fails with WEIR_FUZZ_SEED={start} on \"{}\"", data.escape_ascii());
            }
            if round % 12 == 0 {
                data.clone_from(seed);
            }
            mutate(&mut data, &seeds, &mut random);
        }
        if number == 0 {
            before = resident();
        }
    }
    let left = resident().saturating_sub(before);
    assert!(left < LEFT_BYTES_MAX, "{left} bytes more are resident");
}

/// Each seed reaches what it is for.
#[test]
fn seeds_are_answered() {
    const CASES: [(&str, u8, usize); 6] =
        [("hits", 0, 3), ("large", 0, 10), ("echo", 0, 1), ("resets", 7, 0), ("cut", 3, 1), ("bomb", 7, 1)];
    for (name, kind, least) in CASES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/http2").join(name);
        let sent = http2::answered(&std::fs::read(path).unwrap());
        let count = sent.iter().filter(|sent| **sent == kind).count();
        assert!(count >= least, "{name}: {count} frames of type {kind}: {sent:?}");
    }
}
