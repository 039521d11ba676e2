//! What writer and readers of a volume share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::disk::Disk;
use super::index::Index;
use super::limbo::Limbo;
use super::purse::Purse;
use super::segment::{Segments, Space};
use super::settings::VolumeSettings;
use super::stocks::Totals;
use super::superblock::Superblock;
use super::usage::{Counters, VolumeUsage};
use super::uses::Uses;

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
    /// A sweep that is under way judges all that was asked for before this number of the ledger.
    pub(crate) floor: AtomicU64,
    /// How often objects were used since they were written.
    pub(crate) uses: Uses,
    /// Whether so many bytes more may be written for what nobody waits for.
    pub(crate) write_budget: RwLock<Option<Arc<WriteBudget>>>,
    /// What is held of each owner.
    pub(crate) stocks: Totals,
    /// Whose an object is, by its key.
    pub(crate) owner_of: fn(&[u8]) -> u64,
    /// What may be written in a day.
    pub(crate) purse: Purse,
}

/// Says whether so many bytes may be written for the sake of what is held already; not asked on a request's way.
pub struct WriteBudget(pub Box<dyn Fn(u64) -> bool + Send + Sync>);

impl std::fmt::Debug for WriteBudget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WriteBudget")
    }
}

/// What opening a volume has read before its tails.
pub(crate) struct Read {
    pub(crate) superblock: Superblock,
    pub(crate) index: Index,
    pub(crate) segments: Segments,
    pub(crate) space: Arc<Space>,
    pub(crate) swept: u64,
}

impl Shared {
    pub(crate) fn new(disk: Arc<dyn Disk>, settings: &VolumeSettings, read: Read) -> Shared {
        let Read { superblock, index, segments, space, swept } = read;
        Shared {
            disk,
            superblock,
            size_bytes: AtomicU64::new(settings.size_bytes),
            index,
            segments,
            space,
            counters: Counters::default(),
            limbo: Limbo::default(),
            swept: AtomicU64::new(swept),
            floor: AtomicU64::new(0),
            uses: Uses::new(settings.size_bytes, superblock.shard_bits),
            write_budget: RwLock::default(),
            stocks: Totals::default(),
            owner_of: settings.owner_of,
            purse: Purse::new(settings.write_budget_bytes),
        }
    }

    /// Whether the budget of writes lets so many bytes be written anew.
    pub(crate) fn allows_reinsertion(&self, bytes: u64) -> bool {
        let budget = self.write_budget.read().clone();
        self.has_left(bytes) && budget.is_none_or(|budget| (budget.0)(bytes))
    }

    /// Whether a sweep that is under way may be looking for what has that stamp.
    pub(crate) fn is_looked_for(&self, stamp: u64) -> bool {
        let floor = self.floor.load(Ordering::Acquire);
        floor > self.swept.load(Ordering::Acquire) && stamp < floor
    }

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
            index_memory_bytes: self.index.memory_bytes()
                + self.stocks.memory_bytes()
                + self.uses.memory_bytes(),
            queued_bytes: 0,
            body_bytes: of(&counters.body_bytes),
            head_bytes: of(&counters.head_bytes),
            journal_bytes: of(&counters.journal_bytes),
            checkpoint_bytes: of(&counters.checkpoint_bytes),
            damaged: of(&counters.damaged),
            segments_dropped: of(&counters.segments_dropped),
            evicted: of(&counters.evicted),
            reinserted: of(&self.uses.reinserted),
            reinserted_bytes: of(&self.uses.reinserted_bytes),
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
