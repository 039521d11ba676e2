//! Telling what a volume had to let go. The volume's writer tells it, so that a listener must not wait.

use std::fmt::Debug;

/// Why something had to leave a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eviction {
    /// Room was needed: its segment was dropped.
    Room,
    /// Its site had more than its quota.
    Quota,
}

/// Listens to what leaves a volume because something had to.
pub trait EvictionListener: Debug + Send + Sync {
    /// Whether it wants to be told; asked each time, since telling costs a read.
    fn is_listening(&self) -> bool;

    /// What lay under that key of the volume's ([`crate::key::split`]) has left, with so many bytes of its
    /// body. Must not wait.
    fn evicted(&self, on_volume: &[u8], bytes: u64, why: Eviction);

    /// So many have left of which the volume cannot tell what they were.
    fn missed(&self, count: u64);
}

/// Nobody listens.
#[derive(Debug)]
pub(crate) struct Nobody;

impl EvictionListener for Nobody {
    fn is_listening(&self) -> bool {
        false
    }

    fn evicted(&self, _: &[u8], _: u64, _: Eviction) {}

    fn missed(&self, _: u64) {}
}
