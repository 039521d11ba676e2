//! One volume as a second tier: its state, what is asked of it, and what is being written there.
//!
//! It knows keys, numbers, heads and bytes, and no generation. Whatever fails here is a miss: only the
//! request that asked the volume waits for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};
use weir_policy::{CacheKey, Now, Variant};

use super::late::{LATE_PAUSE, LateWrites};
use super::pending::Superseded;
use super::seating::Seating;
use super::sweeping::{SweepCounts, SweepUsage, SweeperThread};
use crate::budget::Charge;
use crate::catalogue::{Catalogue, Recounted, Rows};
use crate::ledger::Stamp;
use crate::volume::{
    EachDone, Named, PutStatus, ReadError, Verified, Volume, VolumeState, VolumeUsage, codec, key,
};

/// How long closing waits for bodies that wait for room, in steps of [`LATE_PAUSE`].
const LATE_STEPS_MAX: u32 = 5000;
/// The list of objects being written is cleaned up when it has doubled beyond this.
const BEING_WRITTEN_LOOKED_THROUGH: usize = 64;

/// A volume below memory.
#[derive(Debug)]
pub(crate) struct VolumeTier {
    pub(crate) volume: Arc<Volume>,
    name: Arc<str>,
    weight: AtomicU64,
    suspect_before: AtomicU64,
    /// A removal may not have reached the volume.
    has_missed_removal: AtomicBool,
    dead_before: AtomicU64,
    is_draining: AtomicBool,
    /// What memory has had newer versions of before this volume came.
    superseded: Superseded,
    /// The memory that its catalogue takes.
    aside: Mutex<Option<Charge>>,
    /// It does not keep up.
    is_slow: AtomicBool,
    written: Written,
    pub(crate) clock: fn() -> Now,
    /// Bodies whose rest waits for room.
    pub(crate) late: LateWrites,
    /// Bodies that were given up because the volume had no room for them in time.
    given_up: AtomicU64,
    /// Held while a head is judged and then written.
    pub(crate) gate: RwLock<()>,
    pub(crate) catalogue: Option<Catalogue>,
    pub(crate) sweeping: SweepCounts,
    pub(crate) thread: Arc<SweeperThread>,
    /// Objects being written, by their number on the volume. Finished ones stay until the list is cleaned up.
    being_written: Mutex<HashMap<u64, BeingWritten>>,
}

/// An object being written, and its key's digest.
#[derive(Debug)]
struct BeingWritten {
    digest: u128,
    status: Weak<PutStatus>,
}

/// How many bodies were written since the volume was attached.
#[derive(Debug, Default)]
struct Written {
    admitted: AtomicU64,
    written_later: AtomicU64,
}

impl VolumeTier {
    pub(crate) fn new(
        volume: Volume,
        rows: Option<Arc<dyn Rows>>,
        seating: Seating,
        superseded: Superseded,
        clock: fn() -> Now,
    ) -> Arc<VolumeTier> {
        let volume = Arc::new(volume);
        let catalogue = rows.map(|rows| Catalogue::new(rows, Arc::clone(&volume)));
        Arc::new(VolumeTier {
            volume,
            name: seating.name,
            weight: AtomicU64::new(seating.weight),
            suspect_before: AtomicU64::new(seating.suspect_before.number()),
            has_missed_removal: AtomicBool::new(false),
            dead_before: AtomicU64::new(seating.dead_before.number()),
            is_draining: AtomicBool::new(false),
            superseded,
            aside: Mutex::new(None),
            is_slow: AtomicBool::new(false),
            written: Written::default(),
            clock,
            late: LateWrites::default(),
            given_up: AtomicU64::new(0),
            gate: RwLock::new(()),
            catalogue,
            sweeping: SweepCounts::default(),
            thread: Arc::default(),
            being_written: Mutex::default(),
        })
    }

    /// What the sweeper has done.
    pub(crate) fn sweep_usage(&self) -> SweepUsage {
        self.sweeping.usage()
    }

    pub(crate) fn usage(&self) -> VolumeUsage {
        let usage = self.volume.usage();
        VolumeUsage { queue_full: usage.queue_full + self.given_up.load(Ordering::Relaxed), ..usage }
    }

    pub(crate) fn note_given_up(&self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn verify(&self, each: EachDone<'_>) -> Result<Verified, ReadError> {
        let verified = self.volume.verify(each)?;
        let Some(catalogue) = self.catalogue.as_ref().filter(|_| !verified.is_cut) else {
            return Ok(verified);
        };
        let Recounted { missing, superfluous } = catalogue.recount(self.now())?;
        Ok(Verified { rows_missing: missing, rows_superfluous: superfluous, ..verified })
    }

    pub(crate) fn volume(&self) -> &Volume {
        &self.volume
    }

    pub(crate) fn now(&self) -> Now {
        (self.clock)()
    }

    /// Whether dead objects can be removed from the volume.
    pub(crate) fn can_sweep(&self) -> bool {
        self.volume.state().is_writable()
    }

    #[cfg(test)]
    pub(crate) fn sync_for_tests(&self) -> bool {
        self.volume.sync().is_some()
    }

    /// Waits until all that was accepted is written, late bodies included, and accepts nothing more. Blocks.
    pub(crate) fn close(&self) {
        self.finish_writing();
        self.volume.close();
        self.close_rows();
    }

    /// As [`VolumeTier::close`], for another process: readers of what lies here go on, see
    /// [`Volume::hand_over`]. Blocks.
    pub(crate) fn hand_over(&self) {
        self.finish_writing();
        self.volume.hand_over();
        self.close_rows();
        self.set_aside(None);
    }

    fn finish_writing(&self) {
        self.thread.stop();
        for _ in 0..LATE_STEPS_MAX {
            if self.late.is_empty() {
                break;
            }
            std::thread::sleep(LATE_PAUSE);
        }
    }

    fn close_rows(&self) {
        if let Some(catalogue) = &self.catalogue {
            catalogue.close();
        }
    }

    /// Whether memory has had a newer version of an object before the volume came.
    pub(crate) fn is_superseded(&self, digest: u128, number: u64) -> bool {
        self.superseded.has(digest, number)
    }

    /// Removes the objects that memory has had newer versions of, so that no later process finds them. May
    /// wait for the drive.
    pub(crate) fn drop_superseded(&self) {
        for digest in self.superseded.keys() {
            for candidate in self.volume.find(digest) {
                let found = self.volume.record_at((digest >> 64) as u64, candidate.place);
                if let Ok(Some(record)) = found
                    && self.superseded.has(record.digest, record.number)
                {
                    self.remove(Named { digest, object: record.number });
                }
            }
        }
    }

    /// The state of the volume.
    pub(crate) fn state(&self) -> VolumeState {
        match self.volume.state() {
            VolumeState::Ejected => VolumeState::Ejected,
            _ if self.is_slow.load(Ordering::Relaxed) => VolumeState::Slow,
            state => state,
        }
    }

    /// Keeps a charge of memory for as long as the volume is attached.
    pub(crate) fn set_aside(&self, charge: Option<Charge>) {
        *self.aside.lock() = charge;
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn weight(&self) -> u64 {
        self.weight.load(Ordering::Relaxed)
    }

    pub(crate) fn set_weight(&self, weight: u64) {
        self.weight.store(weight, Ordering::Relaxed);
    }

    /// Whether it is being emptied: it serves, and stores nothing more.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    pub(crate) fn set_draining(&self, is_draining: bool) {
        self.is_draining.store(is_draining, Ordering::Relaxed);
    }

    pub(crate) fn set_slow(&self, is_slow: bool) {
        self.is_slow.store(is_slow, Ordering::Relaxed);
    }

    /// What was asked for before this number of the ledger is revalidated before it is used.
    pub(crate) fn suspect_before(&self) -> Stamp {
        Stamp::of(self.suspect_before.load(Ordering::Acquire))
    }

    /// What was asked for before that number is revalidated before it is used.
    pub(crate) fn suspect(&self, before: Stamp) {
        self.suspect_before.fetch_max(before.number(), Ordering::AcqRel);
    }

    /// Notes that the volume could not be told of a removal. All that it holds and was asked for before that
    /// number is revalidated before it is used.
    pub(crate) fn note_failed_removal(&self, before: Stamp) {
        self.suspect(before);
        self.has_missed_removal.store(true, Ordering::Release);
    }

    /// Whether something that was to be removed may be there still, or again after a restart.
    pub(crate) fn has_failed_removals(&self) -> bool {
        self.has_missed_removal.load(Ordering::Acquire) || self.volume.has_failed_removals()
    }

    /// What was asked for before this number of the ledger is dead on this volume.
    pub(crate) fn dead_before(&self) -> Stamp {
        Stamp::of(self.dead_before.load(Ordering::Acquire))
    }

    pub(crate) fn set_dead_before(&self, until: Stamp) {
        self.dead_before.fetch_max(until.number(), Ordering::AcqRel);
    }

    /// How many records there may be under a digest. Reads memory only.
    pub(crate) fn count_of(&self, digest: u128) -> usize {
        match self.state() {
            VolumeState::Ejected => 0,
            _ => self.volume.find(digest).len(),
        }
    }

    /// Whether the volume may hold something under a digest, or is writing it. True where that is not known,
    /// and where a removed object may be back after a restart. Reads memory only.
    pub(crate) fn may_hold(&self, digest: u128) -> bool {
        let is_being_written = || {
            let being_written = self.being_written.lock();
            being_written.values().any(|going| going.digest == digest && going.status.strong_count() > 0)
        };
        self.state() == VolumeState::Ejected
            || self.has_failed_removals()
            || is_being_written()
            || !self.volume.find(digest).is_empty()
    }

    /// Notes that an object is being written.
    pub(crate) fn note_being_written(&self, number: u64, digest: u128, status: &Arc<PutStatus>) {
        let mut being_written = self.being_written.lock();
        being_written.insert(number, BeingWritten { digest, status: Arc::downgrade(status) });
        if being_written.len() > BEING_WRITTEN_LOOKED_THROUGH && being_written.len().is_power_of_two() {
            being_written.retain(|_, going| going.status.strong_count() > 0);
        }
    }

    /// The status of an object's write; `None` where none is running.
    pub(crate) fn status(&self, object: u64) -> Option<Arc<PutStatus>> {
        self.being_written.lock().get(&object)?.status.upgrade()
    }

    /// Removes an object.
    pub(crate) fn remove(&self, named: Named) {
        let _ = self.volume.remove(named.digest, named.object);
    }

    /// Counts a body that is written while it arrives.
    pub(crate) fn count_admitted(&self) {
        self.written.admitted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_written_later(&self) {
        self.written.written_later.fetch_add(1, Ordering::Relaxed);
    }

    /// Bodies that were written while they arrived.
    pub(crate) fn admitted(&self) -> u64 {
        self.written.admitted.load(Ordering::Relaxed)
    }

    /// Bodies that were written from memory later.
    pub(crate) fn written_later(&self) -> u64 {
        self.written.written_later.load(Ordering::Relaxed)
    }

    /// Removes older objects that a generation in memory has replaced: of its key and of variants that it
    /// covers, with a number below that one. May wait for the drive.
    pub(crate) fn remove_replaced(&self, key: &CacheKey, variant: &Variant, number_below: u64) {
        let key = key::on_volume(key);
        for candidate in self.volume.find(key.digest) {
            let Ok(Some(record)) = self.volume.record(candidate, &key) else { continue };
            let Ok(stored) = codec::decode(&record.head, self.now()) else { continue };
            if record.number < number_below && variant.covers(&stored.variant) {
                self.remove(Named { digest: key.digest, object: record.number });
            }
        }
    }
}
