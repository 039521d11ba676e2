//! Random numbers that cannot be guessed: the standard library seeds its hashes from the system's random
//! source.

use std::hash::{BuildHasher, RandomState};

/// 64 random bits.
pub fn word() -> u64 {
    RandomState::new().hash_one(0)
}

/// 128 random bits.
pub fn identity() -> u128 {
    u128::from(word()) << 64 | u128::from(word())
}
