//! Seeded bodies: each byte follows from a key and its place, so that any piece can be made and compared
//! without the rest.
//!
//! The k-th word of 8 bytes is the finalizer of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom
//! number generators", OOPSLA 2014) on the key and k, little endian.

use xxhash_rust::xxh3::xxh3_64_with_seed;

const WORD: u64 = 8;
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The key of one version of what is at `path`.
pub(crate) fn key(seed: u64, path: &[u8], version: u64) -> u64 {
    mix(xxh3_64_with_seed(path, seed) ^ version.wrapping_mul(GOLDEN))
}

/// Writes the bytes from `offset` on into all of `out`.
pub(crate) fn fill(key: u64, offset: u64, out: &mut [u8]) {
    let mut skip = (offset % WORD) as usize;
    let mut word = offset / WORD;
    let mut rest = out;
    while !rest.is_empty() {
        let bytes = self::word(key, word);
        let taken = rest.len().min(bytes.len() - skip);
        rest[..taken].copy_from_slice(&bytes[skip..skip + taken]);
        rest = &mut rest[taken..];
        skip = 0;
        word += 1;
    }
}

/// The place of the first of `bytes` that is not what the body has from `offset` on.
pub(crate) fn difference(key: u64, offset: u64, bytes: &[u8]) -> Option<u64> {
    let mut expected = [0; 4096];
    let mut at = offset;
    for chunk in bytes.chunks(expected.len()) {
        let expected = &mut expected[..chunk.len()];
        fill(key, at, expected);
        if chunk != expected {
            let first = chunk.iter().zip(expected).position(|(got, want)| *got != *want);
            return Some(at + first.unwrap_or(0) as u64);
        }
        at += chunk.len() as u64;
    }
    None
}

fn word(key: u64, number: u64) -> [u8; WORD as usize] {
    mix(key.wrapping_add(number.wrapping_mul(GOLDEN))).to_le_bytes()
}

pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
