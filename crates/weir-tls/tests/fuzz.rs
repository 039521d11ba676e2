//! Runs the fuzz bodies of this crate over their seeds and over a bounded number of mutations, on any
//! toolchain.
//!
//! `WEIR_FUZZ_SEED` sets the randomness (printed if something fails), `WEIR_FUZZ_ROUNDS` the mutations of
//! each seed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "../../../fuzz/src/tls.rs"]
mod tls;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Words that mutations insert, beside bytes of other seeds.
const WORDS: &[&[u8]] = &[
    b"-----BEGIN CERTIFICATE-----\n",
    b"-----END CERTIFICATE-----\n",
    b"-----BEGIN PRIVATE KEY-----\n",
    b"-----END PRIVATE KEY-----\n",
    b"-----BEGIN EC PRIVATE KEY-----\n",
    b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n",
    b"Proc-Type: 4,ENCRYPTED\n",
    b"\n",
    b"=",
    b"MII",
    b"\0",
    b"\xff",
    b"\x16\x03\x01",
    b"\x16\x03\x03",
    b"\x14\x03\x03\x00\x01\x01",
    b"\x15\x03\x03\x00\x02\x02\x28",
    b"\x01\x00",
    b"\x00\x00",
    b"\x00\x0a",
    b"\x00\x0d",
    b"\x00\x10",
    b"\x00\x2b",
    b"\x00\x33",
    b"\x00\x29",
    b"a.example",
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
        for round in 0..=environment("WEIR_FUZZ_ROUNDS", 2000) {
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
fn pem_files_keep_their_promises() {
    run("pem_files", tls::pem_files);
}

#[test]
fn client_hellos_keep_their_promises() {
    run("client_hello", tls::client_hello);
}

/// Files as openssl writes them, in each form of a key.
#[test]
fn the_seeds_of_pem_files_are_what_their_names_say() {
    use std::sync::Arc;
    use weir_tls::{PairError, Pem, Ring, Source, Template};
    let now = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_800_000_000);
    let template = Template::new(&Arc::new(Ring::new(now)), &[]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/pem_files");
    let of = |name: &str| {
        let text = std::fs::read(folder.join(name)).unwrap();
        template.identity(Pem { chain: &text, key: &text }, Source::Acme, now)
    };
    for name in ["ecdsa", "sec1-key-first", "rsa", "rsa-pkcs1", "ed25519"] {
        assert!(of(name).is_ok(), "{name}: {:?}", of(name));
    }
    for name in ["encrypted", "encrypted-sec1"] {
        assert_eq!(of(name).unwrap_err(), PairError::Encrypted, "{name}");
    }
    assert_eq!(of("ecdsa").unwrap().names.to_string(), "a.example, *.a.example, 192.0.2.1");
}
