//! Runs the fuzz bodies of this crate over their seeds and over a bounded number of mutations, on any
//! toolchain.
//!
//! `WEIR_FUZZ_SEED` sets the randomness (printed if something fails), `WEIR_FUZZ_ROUNDS` the mutations of
//! each seed.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../../../fuzz/src/wire.rs"]
mod wire;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Words that mutations insert, beside bytes of other seeds.
const WORDS: &[&[u8]] = &[
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\t",
    b":",
    b";",
    b",",
    b"\0",
    b"0",
    b"5",
    b"f",
    b"-",
    b"+",
    b"\"",
    b"#",
    b"@",
    b"\x7f",
    b"\xff",
    b"Host: a\r\n",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"chunked",
    b"HTTP/1.1",
    b"HTTP/1.0",
    b"http://a",
    b"GET ",
    b"0\r\n\r\n",
];

/// SplitMix64 (Steele, Lea and Flood 2014): enough randomness for mutations, and repeatable.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap()
    }
}

fn environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

fn mutate(data: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let at = random.below(data.len() + 1);
    let end = (at + random.below(16)).min(data.len());
    match random.below(6) {
        0 if at < data.len() => data[at] = random.next().to_le_bytes()[0],
        1 if at < data.len() => data[at] ^= 1 << random.below(8),
        2 => drop(data.drain(at..end)),
        3 => {
            let copy = data[at..end].to_vec();
            data.splice(at..at, copy);
        }
        4 => {
            let other = &seeds[random.below(seeds.len())];
            let from = random.below(other.len() + 1);
            data.splice(at..end, other[from..].iter().copied());
        }
        _ => drop(data.splice(at..at, WORDS[random.below(WORDS.len())].iter().copied())),
    }
    data.truncate(4096);
}

fn run(target: &str, body: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let seeds: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(!seeds.is_empty(), "no seeds for {target}");
    let start = environment("WEIR_FUZZ_SEED", 1);
    let mut random = Random(start);
    for seed in &seeds {
        let mut data = seed.clone();
        for round in 0..=environment("WEIR_FUZZ_ROUNDS", 3000) {
            if catch_unwind(AssertUnwindSafe(|| body(&data))).is_err() {
                panic!("{target} fails with WEIR_FUZZ_SEED={start} on \"{}\"", data.escape_ascii());
            }
            if round % 8 == 0 {
                data.clone_from(seed);
            }
            mutate(&mut data, &seeds, &mut random);
        }
    }
}

#[test]
fn request_heads_keep_their_promises() {
    run("request_head", wire::request_head);
}

#[test]
fn response_heads_keep_their_promises() {
    run("response_head", wire::response_head);
}

#[test]
fn chunked_bodies_keep_their_promises() {
    run("chunked_body", wire::chunked_body);
}

#[test]
fn trailers_keep_their_promises() {
    run("trailers", wire::trailers);
}
