//! Reports what a volume has evicted. The volume's writer reports it, so a listener must not wait.

use std::fmt::Debug;

/// Why an object was evicted from a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eviction {
    /// Room was needed: its segment was dropped.
    Room,
    /// Its site was above its quota.
    Quota,
}

/// Listens to the evictions of a volume.
pub trait EvictionListener: Debug + Send + Sync {
    /// Whether the listener wants to hear of evictions. The writer asks each time, since reporting costs a
    /// read.
    fn is_listening(&self) -> bool;

    /// An object was evicted: its key on the volume ([`crate::key::split`]), and the bytes of its body that
    /// were held. Must not wait.
    fn evicted(&self, on_volume: &[u8], bytes: u64, why: Eviction);

    /// `count` objects were evicted whose keys the volume could not read.
    fn missed(&self, count: u64);
}

/// A listener that hears nothing.
#[derive(Debug)]
pub(crate) struct Nobody;

impl EvictionListener for Nobody {
    fn is_listening(&self) -> bool {
        false
    }

    fn evicted(&self, _: &[u8], _: u64, _: Eviction) {}

    fn missed(&self, _: u64) {}
}
