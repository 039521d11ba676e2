//! How often objects were used since they were written: a byte for each, about, by the bits of their hash that the index has.
//!
//! Objects of one place count together, and a restart forgets all: it is a hint for what to keep ([`super::reinsert`]).

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::index::KeyHash;
use super::reinsert::USES_MAX;

/// There is a count for so many bytes of the volume.
const BYTES_A_COUNT: u64 = 16 << 10;
/// The fewest counts, and the most: 16 MiB of memory.
const COUNTS: (u64, u64) = (1 << 12, 1 << 24);
/// The bits of a hash that an entry of the index has beside those that choose its shard.
const TAG_BITS: u32 = 24;

/// The counts.
#[derive(Debug)]
pub(crate) struct Uses {
    counts: Box<[AtomicU8]>,
    known_bits: u32,
    /// What the writer has made of it.
    pub(crate) reinserted: AtomicU64,
    pub(crate) reinserted_bytes: AtomicU64,
}

impl Uses {
    /// For a volume of that size, whose index has so many bits for the shard.
    pub(crate) fn new(size_bytes: u64, shard_bits: u32) -> Uses {
        let count = (size_bytes / BYTES_A_COUNT).clamp(COUNTS.0, COUNTS.1).next_power_of_two();
        Uses {
            counts: (0..count).map(|_| AtomicU8::new(0)).collect(),
            known_bits: shard_bits + TAG_BITS,
            reinserted: AtomicU64::new(0),
            reinserted_bytes: AtomicU64::new(0),
        }
    }

    fn count(&self, hash: KeyHash) -> &AtomicU8 {
        let known = hash.0 >> (64 - self.known_bits);
        let mixed = known.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - self.counts.len().trailing_zeros());
        &self.counts[mixed as usize]
    }

    /// Notes a use. Two at once may count as one.
    pub(crate) fn note(&self, hash: KeyHash) {
        let count = self.count(hash);
        let uses = count.load(Ordering::Relaxed);
        if uses < USES_MAX {
            count.store(uses + 1, Ordering::Relaxed);
        }
    }

    pub(crate) fn of(&self, hash: KeyHash) -> u8 {
        self.count(hash).load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, hash: KeyHash, uses: u8) {
        self.count(hash).store(uses, Ordering::Relaxed);
    }

    /// What it takes in memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.counts.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_index_knows_of_a_hash_is_enough() {
        let uses = Uses::new(1 << 30, 6);
        let hash = KeyHash(0x0123_4567_89ab_cdef);
        let as_in_the_index = KeyHash(hash.0 >> 34 << 34);
        (0..20).for_each(|_| uses.note(hash));
        assert_eq!((uses.of(as_in_the_index), uses.of(KeyHash(1 << 60))), (USES_MAX, 0));
        uses.set(as_in_the_index, 3);
        assert_eq!(uses.of(hash), 3);
    }

    #[test]
    fn it_grows_with_the_volume_up_to_a_limit() {
        assert_eq!(Uses::new(1 << 20, 6).memory_bytes(), 4096);
        assert_eq!(Uses::new(1 << 34, 12).memory_bytes(), 1 << 20);
        assert_eq!(Uses::new(1 << 45, 16).memory_bytes(), 1 << 24);
    }
}
