//! What the writer and the readers of a volume share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use weir_disk::Disk;

use crate::eviction::EvictionListener;
use crate::format::superblock::Superblock;
use crate::index::Index;
use crate::index::pending_removals::PendingRemovals;
use crate::index::segment::{Segments, Space};
use crate::index::stocks::Totals;
use crate::index::uses::Uses;
use crate::numbers::Durable;
use crate::read::first::FirstRead;
use crate::read::known::KnownReaders;
use crate::settings::VolumeSettings;
use crate::usage::{Counters, VolumeUsage};
use crate::write::budget::WriteBudget;

/// A volume as its threads see it. Only the writer changes index and segments.
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
    /// Records that have left the index and may be back after a crash.
    pub(crate) pending_removals: PendingRemovals,
    /// Which bodies have readers.
    pub(crate) readers: Arc<KnownReaders>,
    /// The largest stamp that a record has, or had.
    stamp_max: AtomicU64,
    /// How far the ledger was durable when the newest frame of the journal was written.
    ledger_found: Durable,
    /// The ledger that the volume is used with, and the number up to which it is durable.
    ledger: OnceLock<(u128, Arc<AtomicU64>)>,
    /// A sweep has judged every object that was requested before this number, by all marks up to it.
    pub(crate) swept: AtomicU64,
    /// The sweep under way judges every object that was requested before this number.
    pub(crate) floor: AtomicU64,
    /// How often objects were used since they were written.
    pub(crate) uses: Uses,
    /// How much is read first at a record's place.
    pub(crate) first_read: FirstRead,
    /// How many bytes of an owner may be held. An owner without an entry has no quota.
    pub(crate) quotas: ArcSwap<HashMap<u64, u64>>,
    /// Objects that were removed because their owner was over its quota.
    pub(crate) over_quota: AtomicU64,
    /// What is held of each owner.
    pub(crate) stocks: Totals,
    /// The owner of an object, by its key.
    pub(crate) owner_of: fn(&[u8]) -> u64,
    /// What may be written in a day.
    pub(crate) write_budget: WriteBudget,
    /// Hears of evictions.
    pub(crate) listener: Arc<dyn EvictionListener>,
}

/// What opening a volume has read before it reads the ends of segments.
pub(crate) struct Read {
    pub(crate) superblock: Superblock,
    pub(crate) index: Index,
    pub(crate) segments: Segments,
    pub(crate) space: Arc<Space>,
    pub(crate) swept: u64,
    pub(crate) stamp_max: u64,
    pub(crate) ledger: Durable,
}

impl Shared {
    pub(crate) fn new(disk: Arc<dyn Disk>, settings: &VolumeSettings, read: Read) -> Shared {
        let Read { superblock, index, segments, space, swept, stamp_max, ledger } = read;
        let counters = Counters::default();
        if disk.is_sealed() {
            counters.seal();
        }
        Shared {
            disk,
            superblock,
            size_bytes: AtomicU64::new(settings.size_bytes),
            index,
            segments,
            space,
            counters,
            pending_removals: PendingRemovals::default(),
            readers: Arc::default(),
            stamp_max: AtomicU64::new(stamp_max),
            ledger_found: ledger,
            ledger: OnceLock::new(),
            swept: AtomicU64::new(swept),
            floor: AtomicU64::new(0),
            uses: Uses::new(settings.size_bytes, superblock.shard_bits),
            first_read: FirstRead::default(),
            quotas: ArcSwap::default(),
            over_quota: AtomicU64::new(0),
            stocks: Totals::default(),
            owner_of: settings.owner_of,
            write_budget: WriteBudget::new(settings.write_budget_bytes),
            listener: Arc::clone(&settings.listener),
        }
    }

    /// Whether the quota forbids an object of that owner and length: the quota is 0, or less than the length.
    pub(crate) fn is_shut_out(&self, owner: u64, length: Option<u64>) -> bool {
        let quotas = self.quotas.load();
        quotas.get(&owner).is_some_and(|quota| *quota == 0 || length.is_some_and(|length| length > *quota))
    }

    /// The largest stamp that a record has, or had.
    pub(crate) fn stamp_max(&self) -> u64 {
        self.stamp_max.load(Ordering::Acquire)
    }

    /// The number up to which the ledger is durable: the ledger in use, or until it is known the one of the
    /// newest frame.
    pub(crate) fn ledger_durable(&self) -> Durable {
        let now = |(ledger, number): &(u128, Arc<AtomicU64>)| Durable {
            ledger: *ledger,
            number: number.load(Ordering::Acquire),
        };
        self.ledger.get().map_or(self.ledger_found, now)
    }

    /// Sets the ledger that the volume is used with, and where to read how far it is durable. Only the first
    /// call has an effect.
    pub(crate) fn follow(&self, ledger: u128, number: Arc<AtomicU64>) {
        let _ = self.ledger.set((ledger, number));
    }

    /// Notes the stamp of a new record.
    pub(crate) fn note_stamp(&self, stamp: u64) {
        self.stamp_max.fetch_max(stamp, Ordering::AcqRel);
    }

    /// Whether a sweep under way may be looking for an object with that stamp.
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
            over_quota: of(&self.over_quota),
            swept: of(&counters.swept),
            segments_freed: of(&counters.segments_freed),
            kept_bytes: self.segments.kept_bytes(),
            kept_no_longer: of(&counters.kept_no_longer),
            read_errors: of(&counters.read_errors),
            write_errors: of(&counters.write_errors),
            full: of(&counters.full),
            queue_full: of(&counters.queue_full),
            durable_epoch: of(&counters.durable_epoch),
            state: counters.state(),
        }
    }
}
