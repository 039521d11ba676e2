//! What writer and readers of a volume share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::disk::Disk;
use super::index::Index;
use super::limbo::Limbo;
use super::segment::{Segments, Space};
use super::stocks::Totals;
use super::superblock::Superblock;
use super::usage::{Counters, VolumeUsage};

/// A volume as its threads see it. Index and segments are changed by the writer alone.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) superblock: Superblock,
    /// The ceiling of all files.
    pub(crate) size_bytes: AtomicU64,
    pub(crate) index: Index,
    pub(crate) segments: Segments,
    pub(crate) space: Arc<Space>,
    pub(crate) counters: Counters,
    /// What left the index, and may be back after a crash.
    pub(crate) limbo: Limbo,
    /// All that was asked for before this number of the ledger and is on the volume has been judged by the marks up to it.
    pub(crate) swept: AtomicU64,
    /// What is held of each owner.
    pub(crate) stocks: Totals,
    /// Whose an object is, by its key.
    pub(crate) owner_of: fn(&[u8]) -> u64,
}

impl Shared {
    /// The ceiling of all files, in bytes.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Acquire)
    }

    pub(crate) fn usage(&self) -> VolumeUsage {
        let counters = &self.counters;
        let of = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        VolumeUsage {
            size_bytes: of(&self.size_bytes),
            used_bytes: self.space.used_bytes(),
            objects: self.index.len(),
            segments: self.segments.len() as u64,
            index_memory_bytes: self.index.memory_bytes() + self.stocks.memory_bytes(),
            queued_bytes: 0,
            body_bytes: of(&counters.body_bytes),
            head_bytes: of(&counters.head_bytes),
            journal_bytes: of(&counters.journal_bytes),
            checkpoint_bytes: of(&counters.checkpoint_bytes),
            damaged: of(&counters.damaged),
            segments_dropped: of(&counters.segments_dropped),
            evicted: of(&counters.evicted),
            swept: of(&counters.swept),
            segments_freed: of(&counters.segments_freed),
            read_errors: of(&counters.read_errors),
            write_errors: of(&counters.write_errors),
            full: of(&counters.full),
            queue_full: of(&counters.queue_full),
            durable_epoch: of(&counters.durable_epoch),
            health: counters.health(),
        }
    }
}
