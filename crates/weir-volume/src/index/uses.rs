//! How often objects were used since they were written: about four bits for each object, by the bits of its
//! hash that the index has.
//!
//! Objects that share a count are counted together, and a restart forgets all counts: they are a hint for
//! what to keep ([`super::reinsert`]). There are several counts for each small object. Where two objects
//! share a count, the first that leaves takes the other's uses with it. With a count for each 16 KiB that
//! cost 0.005 of the hit ratio on the first trace of `bench/HITRATIO.md`.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::index::KeyHash;
use crate::write::reinsert::USES_MAX;

/// There is one count for this many bytes of the volume.
const BYTES_A_COUNT: u64 = 2 << 10;
/// The fewest counts, and the most: 16 MiB of memory.
const COUNTS: (u64, u64) = (1 << 12, 1 << 25);
/// The bits of a hash that an index entry has beside those that choose its shard.
const TAG_BITS: u32 = 24;

/// The counts.
#[derive(Debug)]
pub struct Uses {
    /// Two counts each.
    counts: Box<[AtomicU8]>,
    known_bits: u32,
    /// What the writer has written again because of the counts.
    pub(crate) reinserted: AtomicU64,
    pub(crate) reinserted_bytes: AtomicU64,
}

impl Uses {
    /// Counts for a volume of that size. `shard_bits` of a hash choose a shard of its index.
    pub fn new(size_bytes: u64, shard_bits: u32) -> Uses {
        let count = (size_bytes / BYTES_A_COUNT).clamp(COUNTS.0, COUNTS.1).next_power_of_two();
        Uses {
            counts: (0..count / 2).map(|_| AtomicU8::new(0)).collect(),
            known_bits: shard_bits + TAG_BITS,
            reinserted: AtomicU64::new(0),
            reinserted_bytes: AtomicU64::new(0),
        }
    }

    /// The byte that holds a hash's count, and the shift of the count in it.
    fn count(&self, hash: KeyHash) -> (&AtomicU8, u32) {
        let known = hash.0 >> (64 - self.known_bits);
        let bits = self.counts.len().trailing_zeros() + 1;
        let mixed = (known.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize;
        (&self.counts[mixed / 2], (mixed % 2) as u32 * 4)
    }

    /// Notes a use.
    pub fn note(&self, hash: KeyHash) {
        let (pair, shift) = self.count(hash);
        let _ = pair.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |pair| {
            ((pair >> shift) & USES_MAX < USES_MAX).then(|| pair + (1 << shift))
        });
    }

    /// How often a hash was used, as far as it was counted.
    pub fn of(&self, hash: KeyHash) -> u8 {
        let (pair, shift) = self.count(hash);
        (pair.load(Ordering::Relaxed) >> shift) & USES_MAX
    }

    /// Sets the count of a hash, to [`USES_MAX`] at most.
    pub fn set(&self, hash: KeyHash, uses: u8) {
        let (pair, shift) = self.count(hash);
        let _ = pair.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |pair| {
            Some(pair & !(USES_MAX << shift) | (uses.min(USES_MAX) << shift))
        });
    }

    /// Its memory in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.counts.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_that_the_index_has_of_a_hash_are_enough() {
        let uses = Uses::new(1 << 30, 6);
        let hash = KeyHash(0x0123_4567_89ab_cdef);
        let as_in_the_index = KeyHash(hash.0 >> 34 << 34);
        (0..20).for_each(|_| uses.note(hash));
        assert_eq!((uses.of(as_in_the_index), uses.of(KeyHash(1 << 60))), (USES_MAX, 0));
        uses.set(as_in_the_index, 3);
        assert_eq!(uses.of(hash), 3);
    }

    #[test]
    fn two_counts_in_one_byte_are_apart() {
        let uses = Uses::new(1 << 20, 6);
        let hashes: Vec<KeyHash> = (0..20_000u64).map(|n| KeyHash(n << 34)).collect();
        let place = |hash: KeyHash| {
            let (pair, shift) = uses.count(hash);
            (std::ptr::from_ref(pair).addr(), shift)
        };
        let (first, shift) = place(hashes[0]);
        let beside = hashes.iter().find(|hash| place(**hash) == (first, 4 - shift)).unwrap();
        (0..20).for_each(|_| uses.note(hashes[0]));
        assert_eq!((uses.of(hashes[0]), uses.of(*beside)), (USES_MAX, 0));
        uses.set(*beside, 9);
        uses.note(*beside);
        uses.set(hashes[0], 1);
        assert_eq!((uses.of(hashes[0]), uses.of(*beside)), (1, 10));
    }

    #[test]
    fn it_grows_with_the_volume_up_to_a_limit() {
        assert_eq!(Uses::new(1 << 20, 6).memory_bytes(), 2048);
        assert_eq!(Uses::new(1 << 34, 12).memory_bytes(), 4 << 20);
        assert_eq!(Uses::new(1 << 45, 16).memory_bytes(), 1 << 24);
    }
}
