//! Fuzz bodies over their seeds and over bounded mutations of them, on any toolchain.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::Random;

/// The most bytes of an input.
const BYTES_MAX: usize = 4096;

/// Runs a fuzz body over the seeds of `target` in `fuzz/seeds`, and over mutations of them. These insert
/// `words`, beside bytes of other seeds.
///
/// `WEIR_FUZZ_SEED` sets the randomness (a failure prints it), `WEIR_FUZZ_ROUNDS` the mutations of each seed.
///
/// # Panics
/// The body has panicked, or there are no seeds.
pub fn fuzz(target: &str, words: &[&[u8]], body: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let seeds: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(!seeds.is_empty(), "no seeds for {target}");
    let start = environment("WEIR_FUZZ_SEED", 1);
    let mut random = Random::new(start);
    for seed in &seeds {
        let mut data = seed.clone();
        for round in 0..=environment("WEIR_FUZZ_ROUNDS", 3000) {
            if catch_unwind(AssertUnwindSafe(|| body(&data))).is_err() {
                panic!("{target} fails with WEIR_FUZZ_SEED={start} on \"{}\"", data.escape_ascii());
            }
            if round % 8 == 0 {
                data.clone_from(seed);
            }
            mutate(&mut data, &seeds, words, &mut random);
        }
    }
}

fn environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

fn mutate(data: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&[u8]], random: &mut Random) {
    let mut below = |bound: usize| usize::try_from(random.below(bound.max(1) as u64)).unwrap();
    let at = below(data.len() + 1);
    let end = (at + below(16)).min(data.len());
    match below(6) {
        0 if at < data.len() => data[at] = below(256) as u8,
        1 if at < data.len() => data[at] ^= 1 << below(8),
        2 => drop(data.drain(at..end)),
        3 => {
            let copy = data[at..end].to_vec();
            data.splice(at..at, copy);
        }
        4 => {
            let other = &seeds[below(seeds.len())];
            let from = below(other.len() + 1);
            data.splice(at..end, other[from..].iter().copied());
        }
        _ => drop(data.splice(at..at, words[below(words.len())].iter().copied())),
    }
    data.truncate(BYTES_MAX);
}
