//! Maps whose keys are digests.

use std::hash::{BuildHasherDefault, Hasher};

use papaya::HashMap;

/// A map from digests, which need no second hash.
pub type DigestMap<V> = HashMap<u128, V, BuildHasherDefault<Folded>>;

pub(crate) fn digest_map<V>() -> DigestMap<V> {
    HashMap::with_hasher(BuildHasherDefault::default())
}

/// The lower half of a digest as its hash.
#[derive(Debug, Default)]
pub struct Folded(u64);

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, digest: u128) {
        self.0 = digest as u64;
    }

    fn write_u64(&mut self, half: u64) {
        self.0 = half;
    }
}
