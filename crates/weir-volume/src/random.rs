//! Numbers that nobody guesses. The standard library's hash seeds come from the system's random source.

use std::hash::{BuildHasher, RandomState};

/// 64 bits.
pub fn word() -> u64 {
    RandomState::new().hash_one(0)
}

/// 128 bits.
pub fn identity() -> u128 {
    u128::from(word()) << 64 | u128::from(word())
}
