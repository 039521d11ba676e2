//! Which volume a key belongs to: weighted rendezvous hashing, so that a volume that comes or goes moves only
//! its own share of keys.
//!
//! Each volume scores each key; the highest score has it. A score is `-weight / ln(u)` with `u` uniform in
//! (0, 1) by a hash of key and volume, so that a volume wins in proportion to its weight (C. Schindelhauer
//! and G. Schomaker, *Weighted Distributed Hash Tables*, SPAA 2005; D. Thaler and C. Ravishankar, *Using
//! Name-Based Mappings to Increase Hit Rates*, 1998). It is pure, and knows nothing of volumes but their
//! identities.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The bits of a hash that a double holds exactly.
const EXACT_BITS: u32 = 53;

/// A volume's identity and weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bidder {
    seed: u64,
    weight: f64,
}

impl Bidder {
    /// A bidder for the volume `id`. A weight of 0 never wins against another.
    pub fn new(id: u128, weight: u64) -> Bidder {
        Bidder { seed: xxh3_64(&id.to_le_bytes()), weight: weight as f64 }
    }

    /// The score for the key with that digest. The volume with the highest score has the key.
    pub fn score(&self, digest: u128) -> f64 {
        let hash = xxh3_64_with_seed(&digest.to_le_bytes(), self.seed);
        let unit = ((hash >> (u64::BITS - EXACT_BITS)) as f64 + 0.5) / (1u64 << EXACT_BITS) as f64;
        -self.weight / unit.ln()
    }
}

#[cfg(test)]
mod tests;
