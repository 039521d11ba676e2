//! What a generation costs in memory beside its head and its body.

use weir_policy::CacheKey;

use super::ghost::GHOST_BYTES;
use super::queues::NODE_BYTES;
use crate::generation::{ALLOCATION_BYTES, Generation, Label};

/// What a generation costs in memory beside its head and its body: itself, its key, its places in index and
/// queues.
pub(crate) fn overhead_bytes(key: &CacheKey) -> u64 {
    const INDEX_BYTES: u64 = 112;
    let own = size_of::<Generation>() + size_of::<Label>() + key.full.len() + 32;
    own as u64 + 4 * ALLOCATION_BYTES + INDEX_BYTES + NODE_BYTES + GHOST_BYTES
}
