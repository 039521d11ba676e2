//! A generation: one version of one variant, its head and its bytes.
//!
//! Residence: *filling* → *resident* → *retired*, and back to *resident* when a retired one is freshened. It
//! changes only under memory's lock (see `memory`) and may be read without it. The blocks of a retired
//! generation live as long as its readers hold it.

mod body;
mod head;
mod sealed;
mod sealed_file;
mod slot;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;
use smallvec::SmallVec;
use weir_policy::{CacheKey, Interval, Intervals};

use crate::budget::{Budget, Charge};
use crate::ledger::Stamp;
use crate::tier::{Gone, OnDiskBody, Place, SharedPuts, VolumeTier};

pub(crate) use self::body::{Added, Body};
pub use self::body::{BLOCK_BYTES, PIECE_BYTES_MAX, Read};
pub(crate) use self::head::{ALLOCATION_BYTES, detached, head_bytes};
pub use self::head::{Head, HeadRef};
pub use self::sealed::Blocks;
pub use self::sealed_file::SealedFile;
pub(crate) use self::sealed_file::{FILE_BYTES_MAX, FILE_BYTES_MIN, Files, NoFile};
pub use weir_sealed::Way;

/// The most uses that are counted of a generation (S3-FIFO, Yang et al., SOSP '23, §4).
pub(crate) const USES_MAX: u8 = 3;

/// The part of a generation that the index reads without touching the generation's reference count.
#[derive(Debug)]
pub(crate) struct Label {
    pub(crate) key: CacheKey,
    /// Grows with every generation of the store. Of two, the one with the larger number is preferred.
    pub(crate) sequence: u64,
    pub(crate) head: ArcSwap<Head>,
    stamp: AtomicU64,
    uses: AtomicU8,
    charge: Charge,
}

impl Label {
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp::of(self.stamp.load(Ordering::Acquire))
    }

    /// Raises the stamp; it never falls.
    pub(crate) fn raise_stamp(&self, stamp: Stamp) {
        self.stamp.fetch_max(stamp.number(), Ordering::AcqRel);
    }

    /// The bytes charged for everything but the head and the body.
    pub(crate) fn overhead_bytes(&self) -> u64 {
        self.charge.bytes()
    }

    pub(crate) fn uses(&self) -> u8 {
        self.uses.load(Ordering::Relaxed)
    }

    /// Counts a use. Once the most is reached it writes nothing and returns false.
    pub(crate) fn note_use(&self) -> bool {
        let uses = self.uses();
        if uses < USES_MAX {
            // Two uses at the same moment may count as one: the count is an estimate.
            self.uses.store(uses + 1, Ordering::Relaxed);
        }
        uses < USES_MAX
    }

    pub(crate) fn set_uses(&self, uses: u8) {
        self.uses.store(uses, Ordering::Relaxed);
    }
}

/// Where a generation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Residence {
    Filling,
    Resident,
    Retired(Retirement),
}

/// Why a generation is no longer found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retirement {
    /// Its memory was needed.
    Evicted,
    /// A newer generation of its variant is whole, or the key has too many variants.
    Replaced,
    /// A mark of the ledger concerns it, or it was removed by its key.
    Invalidated,
    /// It is too large to be kept, and continues as a window.
    Outgrown,
    /// Its transfer ended before its body was whole.
    Abandoned,
}

const RETIREMENTS: [Retirement; 5] = [
    Retirement::Evicted,
    Retirement::Replaced,
    Retirement::Invalidated,
    Retirement::Outgrown,
    Retirement::Abandoned,
];

impl Residence {
    fn to_code(self) -> u8 {
        match self {
            Residence::Filling => 0,
            Residence::Resident => 1,
            Residence::Retired(why) => 2 + why as u8,
        }
    }

    fn from_code(code: u8) -> Residence {
        match code {
            0 => Residence::Filling,
            1 => Residence::Resident,
            retired => Residence::Retired(RETIREMENTS[usize::from(retired - 2)]),
        }
    }
}

/// One version of one variant of an object: the unit that is found, read, freshened and retired.
#[derive(Debug)]
pub struct Generation {
    pub(crate) label: Arc<Label>,
    pub(crate) body: Body,
    residence: AtomicU8,
    /// Its place in the queues, under memory's lock.
    place: AtomicU32,
    /// Its number on a volume; 0 while it is on none.
    object: AtomicU64,
    /// The volume that it is on.
    home: Mutex<Weak<VolumeTier>>,
    /// Where its bytes lie on the volume, if it was loaded from there or found there later.
    on_disk: OnceLock<OnDiskBody>,
    /// When its head was last written to the volume.
    refreshed: Mutex<Option<Instant>>,
    /// Its transfer ended early, and the bytes that arrived are kept.
    is_rested: AtomicBool,
    /// What a reader found out about its bytes; 0 for nothing.
    finding: AtomicU64,
    /// It is a part that must not be combined with another.
    is_unvalidated_part: AtomicBool,
    /// Its completion has been reported.
    is_told: AtomicBool,
    /// The origin that made it, if known: the rest is asked for there.
    origin: OnceLock<Arc<str>>,
    /// The write that adds further parts of it to the volume, while there is one.
    shared_puts: SharedPuts,
    /// The same version as it lies on the volume, for all readers that read on from there.
    aside: Mutex<Weak<Generation>>,
    /// From which request to its key on it may be written to a volume.
    volume_uses_min: u8,
}

impl Generation {
    /// The budget of the memory that it is kept in, where a task waits for that.
    pub(crate) fn budget_if_waited_for(&self) -> Option<Arc<Budget>> {
        let budget = self.label.charge.budget();
        budget.is_waited_for().then(|| Arc::clone(budget))
    }

    /// The ceiling of the memory that it is kept in, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.label.charge.budget().limit_bytes()
    }

    /// The key under which it is stored.
    pub fn key(&self) -> &CacheKey {
        &self.label.key
    }

    /// The ledger's number when its origin request was sent, or the last conditional one.
    pub fn stamp(&self) -> Stamp {
        self.label.stamp()
    }

    /// The present head.
    pub fn head(&self) -> HeadRef {
        HeadRef(self.label.head.load())
    }

    /// The total length of the body in bytes, once it is known.
    pub fn length(&self) -> Option<u64> {
        self.body.length()
    }

    /// The intervals that memory holds now. While the body grows this walks over its blocks.
    pub fn held(&self) -> Intervals {
        self.body.held()
    }

    /// How many bytes memory holds now.
    pub fn held_bytes(&self) -> u64 {
        self.body.held_bytes()
    }

    /// True once every byte is held. It stays true: the bytes cannot change any more.
    pub fn is_whole(&self) -> bool {
        self.body.is_whole() || self.on_disk.get().is_some_and(OnDiskBody::is_whole)
    }

    /// True when it is at rest with bytes missing, which [`crate::Store::resume`] can add. False for a body
    /// whose first transfer is still running.
    pub fn is_part(&self) -> bool {
        !self.is_whole()
            && self.length().is_some()
            && match self.on_disk.get() {
                // A body that was found damaged is completed for its readers and stored again as a new
                // object.
                Some(body) => !body.is_damaged(),
                None => self.is_rested.load(Ordering::Acquire),
            }
    }

    /// Notes the origin that made it. Only the first call has an effect.
    pub fn set_origin(&self, name: &Arc<str>) {
        let _ = self.origin.set(Arc::clone(name));
    }

    /// The origin that made it, if this process knows.
    pub fn origin(&self) -> Option<&Arc<str>> {
        self.origin.get()
    }

    /// True for a part that is never completed.
    pub fn is_unvalidated_part(&self) -> bool {
        self.is_unvalidated_part.load(Ordering::Acquire)
    }

    pub(crate) fn set_unvalidated_part(&self) {
        self.is_unvalidated_part.store(true, Ordering::Release);
    }

    /// True for the first caller once: that caller reports that it is stored whole.
    pub fn begin_telling(&self) -> bool {
        !self.is_told.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn set_rested(&self) {
        self.is_rested.store(true, Ordering::Release);
    }

    /// True while a transfer writes into it.
    pub fn is_filling(&self) -> bool {
        self.residence() == Residence::Filling
    }

    /// The first interval within another that neither memory nor the volume holds.
    pub fn gap(&self, within: Interval) -> Option<Interval> {
        self.gaps(within, 1).first().copied()
    }

    /// The first `most` intervals within another that neither memory nor the volume holds, in order.
    pub fn gaps(&self, within: Interval, most: usize) -> SmallVec<[Interval; 4]> {
        if self.is_whole() {
            return SmallVec::new();
        }
        let mut held = self.body.held_within(within);
        if let Some(body) = self.on_disk.get() {
            for run in body.held().iter().filter_map(|run| run.intersection(within)) {
                held.insert(run);
            }
        }
        held.gaps(within).take(most).collect()
    }

    /// Looks up what has been written to the volume since the last look.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn look_on_disk(&self) {
        if let Some(body) = self.on_disk.get() {
            body.renew_waiting(self.key()).await;
        }
    }

    /// As [`Generation::look_on_disk`], at once. False where that would have to wait for the drive.
    pub fn look_on_disk_now(&self) -> bool {
        self.on_disk.get().is_none_or(|body| body.renew(self.key()))
    }

    /// Where its bytes lie on the volume, if it was loaded from there or found there later.
    pub(crate) fn on_disk(&self) -> Option<&OnDiskBody> {
        self.on_disk.get()
    }

    /// Whether its bytes on the volume were found damaged.
    pub(crate) fn is_damaged_on_disk(&self) -> bool {
        self.on_disk.get().is_some_and(OnDiskBody::is_damaged)
    }

    pub(crate) fn shared_puts(&self) -> &SharedPuts {
        &self.shared_puts
    }

    /// Drops from memory what the volume has as well.
    pub(crate) fn forget_on_disk(&self) {
        if let Some(body) = self.on_disk.get() {
            body.renew(self.key());
            self.body.forget(&body.held_for_all());
        }
    }

    /// True when its bytes lie on the volume and must be read from there: see [`Generation::fetch`].
    pub fn is_on_disk(&self) -> bool {
        self.on_disk.get().is_some() && !self.body.is_whole()
    }

    /// The same version as it lies whole on its volume, with nothing in memory but its head: for a reader
    /// that reads on slowly. `None` where it does not lie there whole, or the volume does not keep up. Its
    /// readers share it; no request finds it.
    pub fn on_volume_alone(&self) -> Option<Arc<Generation>> {
        let home = self.home().filter(|_| self.is_stored_on_disk())?;
        let mut aside = self.aside.lock();
        let is_whole = |shared: &Generation| shared.on_disk.get().is_some_and(OnDiskBody::is_whole);
        if let Some(shared) = aside.upgrade().filter(|shared| is_whole(shared)) {
            return Some(shared);
        }
        let body = home.on_disk_whole(self.key(), self.object())?;
        let on_disk = OnceLock::new();
        let _ = on_disk.set(body);
        let shared = Arc::new(Generation {
            label: Arc::clone(&self.label),
            body: Body::elsewhere(self.length()?),
            residence: AtomicU8::new(Residence::Retired(Retirement::Evicted).to_code()),
            place: AtomicU32::new(NO_PLACE),
            object: AtomicU64::new(self.object()),
            home: Mutex::new(Arc::downgrade(&home)),
            on_disk,
            refreshed: Mutex::new(None),
            is_rested: AtomicBool::new(false),
            finding: AtomicU64::new(self.finding()),
            is_unvalidated_part: AtomicBool::new(false),
            is_told: AtomicBool::new(true),
            origin: self.origin.clone(),
            shared_puts: SharedPuts::default(),
            aside: Mutex::default(),
            volume_uses_min: self.volume_uses_min,
        });
        *aside = Arc::downgrade(&shared);
        Some(shared)
    }

    /// Reads at `offset` from the volume: at most `max` bytes, and at most [`crate::PIECE_BYTES_MAX`], with
    /// the checksum compared. `None` at the end of the body. Pass the same `place` for all reads of one body.
    ///
    /// # Errors
    /// [`Gone`] where the bytes are missing or damaged.
    ///
    /// # Cancel safety
    /// Safe: nothing was consumed.
    pub async fn fetch(&self, place: &mut Place, offset: u64, max: usize) -> Result<Option<Bytes>, Gone> {
        match self.on_disk.get() {
            Some(body) => body.read(self.key(), place, offset, max).await,
            None => Err(Gone),
        }
    }

    /// Has the volume know that a client reads bytes `of` this body at that place, where it will need the
    /// volume for them: what leaves the volume meanwhile is kept for it (ADR 0105).
    pub fn note_reader(&self, place: &mut Place, client: impl FnOnce() -> u64, of: Interval) {
        let object = self.object();
        if object == 0 || place.is_of(object) || self.is_whole_in_memory() {
            return;
        }
        let is_short = |length: u64| length <= BLOCK_BYTES as u64;
        let on_disk = self.on_disk.get();
        if on_disk.is_none() && self.length().is_some_and(is_short) {
            return;
        }
        if let Some(home) = self.home() {
            let mut known = home.volume.begin_reading(object, client(), of);
            if let Some(body) = on_disk {
                known.tell(|| body.record());
            }
            place.set_known(known);
        }
    }

    /// Whether it was written to the volume, or its write was begun.
    pub fn is_stored_on_disk(&self) -> bool {
        self.object() > 0
    }

    /// The volume that it is on, or that it is being written to.
    pub fn volume(&self) -> Option<Arc<str>> {
        Some(self.home().filter(|_| self.is_stored_on_disk())?.name().clone())
    }

    /// What an earlier reader found out about its bytes; 0 for nothing.
    pub fn finding(&self) -> u64 {
        self.finding.load(Ordering::Relaxed)
    }

    /// Keeps what a reader found out about its bytes for the next reader. The number has a meaning for
    /// readers only. It is lost with the generation and never written to the volume.
    pub fn set_finding(&self, finding: u64) {
        self.finding.store(finding, Ordering::Relaxed);
    }

    /// Whether two are the same version of the same object, one of them loaded from the volume.
    pub fn is_same(&self, other: &Generation) -> bool {
        self.object() > 0 && self.object() == other.object()
    }

    /// Its number on the volume; 0 while it is on none.
    pub(crate) fn object(&self) -> u64 {
        self.object.load(Ordering::Acquire)
    }

    /// The volume that it is on, or was last.
    pub(crate) fn home(&self) -> Option<Arc<VolumeTier>> {
        self.home.lock().upgrade()
    }

    #[cfg(test)]
    pub(crate) fn set_object(&self, number: u64) {
        self.object.store(number, Ordering::Release);
    }

    /// Sets the volume that it is on, and its number there.
    pub(crate) fn set_home(&self, number: u64, tier: &Arc<VolumeTier>) {
        *self.home.lock() = Arc::downgrade(tier);
        self.object.store(number, Ordering::Release);
    }

    /// Whether `interval` has passed since this last returned true.
    pub(crate) fn is_refresh_due(&self, now: Instant, interval: Duration) -> bool {
        let mut refreshed = self.refreshed.lock();
        let is_due = refreshed.is_none_or(|last| now.saturating_duration_since(last) >= interval);
        if is_due {
            *refreshed = Some(now);
        }
        is_due
    }

    /// Sets where its bytes lie on the volume. Only the first call has an effect.
    pub(crate) fn set_on_disk(&self, body: OnDiskBody) {
        let _ = self.on_disk.set(body);
    }

    /// Reads at `offset` from memory: at most `max` bytes, and at most [`crate::PIECE_BYTES_MAX`]. Takes no
    /// lock once the body is whole.
    pub fn read(&self, offset: u64, max: usize) -> Read {
        self.body.read(offset, max)
    }

    /// True while memory has every byte, in blocks or in a file.
    pub fn is_whole_in_memory(&self) -> bool {
        self.body.is_whole()
    }

    /// The block of a whole body of at most one; no block where it is empty. It is borrowed, so that a hit
    /// sends it without touching a reference count.
    pub fn block(&self) -> Option<&[Bytes]> {
        self.body.sealed()?.one()
    }

    /// The blocks of a whole body that has several, while it is not in a file: see [`Generation::file`].
    pub fn blocks(&self) -> Option<Blocks> {
        self.body.many()?.blocks()
    }

    /// The file of a whole body that is in one. It stays there.
    pub fn file(&self) -> Option<&SealedFile> {
        self.body.many()?.file()
    }

    /// The first byte that a window still holds; 0 for a body that is no window.
    pub fn window_start(&self) -> u64 {
        self.body.window_start()
    }

    /// True when it is no longer found: replaced, evicted, dead, outgrown or abandoned. Its bytes stay
    /// readable.
    pub fn is_retired(&self) -> bool {
        self.retirement().is_some()
    }

    /// Why it is no longer found.
    pub fn retirement(&self) -> Option<Retirement> {
        match self.residence() {
            Residence::Retired(why) => Some(why),
            Residence::Filling | Residence::Resident => None,
        }
    }

    pub(crate) fn residence(&self) -> Residence {
        Residence::from_code(self.residence.load(Ordering::Acquire))
    }

    /// Called under memory's lock only.
    pub(crate) fn set_residence(&self, residence: Residence) {
        self.residence.store(residence.to_code(), Ordering::Release);
    }

    /// Its place in the queues, or [`NO_PLACE`]. Under memory's lock only.
    pub(crate) fn place(&self) -> u32 {
        self.place.load(Ordering::Relaxed)
    }

    /// Under memory's lock only.
    pub(crate) fn set_place(&self, place: u32) {
        self.place.store(place, Ordering::Relaxed);
    }

    /// The same, to be written to a volume from that request to its key on.
    #[must_use]
    pub(crate) fn for_volumes_from(self, volume_uses_min: u8) -> Generation {
        Generation { volume_uses_min, ..self }
    }

    pub(crate) fn volume_uses_min(&self) -> u8 {
        self.volume_uses_min
    }

    pub(crate) fn new(
        key: CacheKey,
        sequence: u64,
        stamp: Stamp,
        head: Head,
        body: Body,
        charge: Charge,
    ) -> Generation {
        let label = Label {
            key,
            sequence,
            head: ArcSwap::from_pointee(head),
            stamp: AtomicU64::new(stamp.number()),
            uses: AtomicU8::new(0),
            charge,
        };
        Generation {
            label: Arc::new(label),
            body,
            residence: AtomicU8::new(Residence::Filling.to_code()),
            place: AtomicU32::new(NO_PLACE),
            object: AtomicU64::new(0),
            home: Mutex::default(),
            on_disk: OnceLock::new(),
            refreshed: Mutex::new(None),
            is_rested: AtomicBool::new(false),
            finding: AtomicU64::new(0),
            is_unvalidated_part: AtomicBool::new(false),
            is_told: AtomicBool::new(false),
            origin: OnceLock::new(),
            shared_puts: SharedPuts::default(),
            aside: Mutex::default(),
            volume_uses_min: 1,
        }
    }
}

/// The place of a generation that is in no queue.
pub(crate) const NO_PLACE: u32 = u32::MAX;
