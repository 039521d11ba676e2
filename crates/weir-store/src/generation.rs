//! A generation: one version of one variant, its head and its bytes.
//!
//! Residence: *filling* → *resident* → *retired*, and back to *resident* when a retired one is freshened. It
//! changes only under the shelf's lock (see `shelf`); everyone may look. A retired generation is whole for
//! those who hold it: its blocks live by reference count.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;
use smallvec::SmallVec;
use weir_policy::{CacheKey, Interval, Intervals};

use crate::body::{Body, Piece, Read};
use crate::budget::{Budget, Charge};
use crate::ghost::GHOST_BYTES;
use crate::head::{ALLOCATION_BYTES, Head, HeadRef};
use crate::ledger::Stamp;
use crate::queues::NODE_BYTES;
use crate::tier::{Below, Gone, Place, SharedPut, Tier};

/// How often a generation was used lately, at most (S3-FIFO, Yang et al., SOSP '23, §4).
pub(crate) const USES_MAX: u8 = 3;

/// What the index looks at without touching the generation's reference count.
#[derive(Debug)]
pub(crate) struct Label {
    pub(crate) key: CacheKey,
    /// Grows with every generation of the store: the newer one of two is preferred.
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

    /// What is charged for everything but the head and the body.
    pub(crate) fn overhead_bytes(&self) -> u64 {
        self.charge.bytes()
    }

    pub(crate) fn uses(&self) -> u8 {
        self.uses.load(Ordering::Relaxed)
    }

    /// Notes a use; writes nothing, and says false, once the most is reached.
    pub(crate) fn note_use(&self) -> bool {
        let uses = self.uses();
        if uses < USES_MAX {
            // Two uses at once may count as one: it is an estimate.
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

/// Why a generation is found no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retirement {
    /// Its space was needed.
    Evicted,
    /// A newer generation of its variant is whole, or the key has too many variants.
    Replaced,
    /// A mark of the ledger concerns it, or it was removed by name.
    Invalidated,
    /// It is too large to be kept: it lives on as a window.
    Outgrown,
    /// Its fill ended before its body.
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
    /// Its place in the queues; read and written under the shelf's lock.
    place: AtomicU32,
    /// Its number on a volume; 0 while it is on none.
    object: AtomicU64,
    /// The volume that it is on.
    home: Mutex<Weak<Tier>>,
    /// Where its bytes are, if it came up from the volume.
    below: OnceLock<Below>,
    /// When its head was last written down anew.
    refreshed: Mutex<Option<Instant>>,
    /// Its transfer ended before its body, and what has come is kept.
    is_rested: AtomicBool,
    /// What a reader found out about its bytes; 0 while nobody did.
    finding: AtomicU64,
    /// It is a part that must not be put together with another.
    is_unvalidated_part: AtomicBool,
    /// That it is stored whole has been told.
    is_told: AtomicBool,
    /// Who made it, where that is known: whom to ask for the rest.
    origin: OnceLock<Arc<str>>,
    /// What brings further parts of it down to the volume, while something does.
    shared_put: Mutex<Weak<SharedPut>>,
}

impl Generation {
    /// The budget of the memory that it is kept in, where somebody waits for that.
    pub(crate) fn budget_if_waited_for(&self) -> Option<Arc<Budget>> {
        let budget = self.label.charge.budget();
        budget.is_waited_for().then(|| Arc::clone(budget))
    }

    /// The key under which it is stored.
    pub fn key(&self) -> &CacheKey {
        &self.label.key
    }

    /// The ledger's number when its (last conditional) origin request was sent.
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

    /// The intervals that can be read now from memory. Costs a walk over the blocks while the body grows.
    pub fn held(&self) -> Intervals {
        self.body.held()
    }

    /// How many bytes can be read now from memory.
    pub fn held_bytes(&self) -> u64 {
        self.body.held_bytes()
    }

    /// True once every byte is held. It stays so: nothing about the bytes can change any more.
    pub fn is_whole(&self) -> bool {
        self.body.is_whole() || self.below.get().is_some_and(Below::is_whole)
    }

    /// True when it is at rest in part: what is missing can be brought by [`crate::Store::resume`]. Of a body
    /// that begins to arrive that is not said.
    pub fn is_part(&self) -> bool {
        !self.is_whole()
            && self.length().is_some()
            && match self.below.get() {
                // What was found wrong is completed for those who read it, and stored anew for the next.
                Some(below) => !below.is_damaged(),
                None => self.is_rested.load(Ordering::Acquire),
            }
    }

    /// Notes who made it, once.
    pub fn set_origin(&self, name: &Arc<str>) {
        let _ = self.origin.set(Arc::clone(name));
    }

    /// Who made it, as far as is known since this process holds it.
    pub fn origin(&self) -> Option<&Arc<str>> {
        self.origin.get()
    }

    /// True when it is a part that stays as it came: what is missing of it is never brought.
    pub fn is_unvalidated_part(&self) -> bool {
        self.is_unvalidated_part.load(Ordering::Acquire)
    }

    pub(crate) fn set_unvalidated_part(&self) {
        self.is_unvalidated_part.store(true, Ordering::Release);
    }

    /// Whether it is now to be told that it is stored whole: to the first who asks.
    pub fn begin_telling(&self) -> bool {
        !self.is_told.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn set_rested(&self) {
        self.is_rested.store(true, Ordering::Release);
    }

    /// True while something writes into it.
    pub fn is_filling(&self) -> bool {
        self.residence() == Residence::Filling
    }

    /// The first part of an interval that is held neither in memory nor on the volume.
    pub fn gap(&self, within: Interval) -> Option<Interval> {
        self.gaps(within, 1).first().copied()
    }

    /// The first `most` parts of an interval that are held neither in memory nor on the volume, in order.
    pub fn gaps(&self, within: Interval, most: usize) -> SmallVec<[Interval; 4]> {
        if self.is_whole() {
            return SmallVec::new();
        }
        let mut held = self.body.held_within(within);
        if let Some(below) = self.below.get() {
            for run in below.held().iter().filter_map(|run| run.intersection(within)) {
                held.insert(run);
            }
        }
        held.gaps(within).take(most).collect()
    }

    /// Learns what has come to the volume since.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn look_below(&self) {
        if let Some(below) = self.below.get() {
            below.renew_waiting(self.key()).await;
        }
    }

    /// As [`Generation::look_below`], at once: false where that would need waiting for the drive.
    pub fn look_below_now(&self) -> bool {
        self.below.get().is_none_or(|below| below.renew(self.key()))
    }

    /// Where it lies on the volume, if it came up from there or was found there since.
    pub(crate) fn below(&self) -> Option<&Below> {
        self.below.get()
    }

    /// Whether it was found on the volume not to be what was stored.
    pub(crate) fn is_damaged_below(&self) -> bool {
        self.below.get().is_some_and(Below::is_damaged)
    }

    pub(crate) fn shared_put(&self) -> &Mutex<Weak<SharedPut>> {
        &self.shared_put
    }

    /// Drops what is in memory and on the volume as well.
    pub(crate) fn forget_below(&self) {
        if let Some(below) = self.below.get() {
            below.renew(self.key());
            self.body.forget(&below.held());
        }
    }

    /// True when its bytes are on the volume and must be asked for: see [`Generation::fetch`].
    pub fn is_below(&self) -> bool {
        self.below.get().is_some() && !self.body.is_whole()
    }

    /// What is at `offset` of a body on the volume, at most `max` bytes (and at most
    /// [`crate::PIECE_BYTES_MAX`]), checked against what was stored; `None` at its end. `place` is kept
    /// between two reads of one body.
    ///
    /// # Errors
    /// [`Gone`] where the bytes are there no more, or are not what was stored.
    ///
    /// # Cancel safety
    /// Safe: nothing was taken.
    pub async fn fetch(&self, place: &mut Place, offset: u64, max: usize) -> Result<Option<Piece>, Gone> {
        match self.below.get() {
            Some(below) => below.read(self.key(), place, offset, max).await,
            None => Err(Gone),
        }
    }

    /// Whether it was written to the volume, or was begun to be.
    pub fn is_stored_below(&self) -> bool {
        self.object() > 0
    }

    /// What a reader found out about its bytes and left for the next one; 0 while nobody did.
    pub fn finding(&self) -> u64 {
        self.finding.load(Ordering::Relaxed)
    }

    /// Leaves for the next reader what was found out about its bytes: a number that means something to
    /// readers alone. It is forgotten with the generation, and not written to the volume.
    pub fn set_finding(&self, finding: u64) {
        self.finding.store(finding, Ordering::Relaxed);
    }

    /// Whether two are the same version of the same object, one of them come up from the volume.
    pub fn is_same(&self, other: &Generation) -> bool {
        self.object() > 0 && self.object() == other.object()
    }

    /// Its number on the volume; 0 while it is not there.
    pub(crate) fn object(&self) -> u64 {
        self.object.load(Ordering::Acquire)
    }

    /// The volume that it is on, or was last.
    pub(crate) fn home(&self) -> Option<Arc<Tier>> {
        self.home.lock().upgrade()
    }

    #[cfg(test)]
    pub(crate) fn set_object(&self, number: u64) {
        self.object.store(number, Ordering::Release);
    }

    /// Says on which volume it is, by which number.
    pub(crate) fn set_home(&self, number: u64, tier: &Arc<Tier>) {
        *self.home.lock() = Arc::downgrade(tier);
        self.object.store(number, Ordering::Release);
    }

    /// Whether so much time has passed since this was last so.
    pub(crate) fn is_refresh_due(&self, now: Instant, interval: Duration) -> bool {
        let mut refreshed = self.refreshed.lock();
        let is_due = refreshed.is_none_or(|last| now.saturating_duration_since(last) >= interval);
        if is_due {
            *refreshed = Some(now);
        }
        is_due
    }

    /// Says where its bytes are.
    pub(crate) fn set_below(&self, below: Below) {
        let _ = self.below.set(below);
    }

    /// What is at `offset`, at most `max` bytes (and at most [`crate::PIECE_BYTES_MAX`]).
    /// Takes no lock once the body is whole.
    pub fn read(&self, offset: u64, max: usize) -> Read {
        self.body.read(offset, max)
    }

    /// The blocks of a whole body: each of [`crate::BLOCK_BYTES`] but the last. Borrowed, so that a hit
    /// writes them out without touching a reference count.
    pub fn blocks(&self) -> Option<&[Bytes]> {
        self.body.blocks()
    }

    /// The first byte that is still held of a body that has outgrown the store; else 0.
    pub fn window_start(&self) -> u64 {
        self.body.window_start()
    }

    /// True when it is found no more: replaced, evicted, dead, outgrown or abandoned. Its bytes stay
    /// readable.
    pub fn is_retired(&self) -> bool {
        self.retirement().is_some()
    }

    /// Why it is found no more.
    pub fn retirement(&self) -> Option<Retirement> {
        match self.residence() {
            Residence::Retired(why) => Some(why),
            Residence::Filling | Residence::Resident => None,
        }
    }

    pub(crate) fn residence(&self) -> Residence {
        Residence::from_code(self.residence.load(Ordering::Acquire))
    }

    /// Called under the shelf's lock only.
    pub(crate) fn set_residence(&self, residence: Residence) {
        self.residence.store(residence.to_code(), Ordering::Release);
    }

    /// Its place in the queues, or [`NO_PLACE`]. Under the shelf's lock only.
    pub(crate) fn place(&self) -> u32 {
        self.place.load(Ordering::Relaxed)
    }

    /// Under the shelf's lock only.
    pub(crate) fn set_place(&self, place: u32) {
        self.place.store(place, Ordering::Relaxed);
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
            below: OnceLock::new(),
            refreshed: Mutex::new(None),
            is_rested: AtomicBool::new(false),
            finding: AtomicU64::new(0),
            is_unvalidated_part: AtomicBool::new(false),
            is_told: AtomicBool::new(false),
            origin: OnceLock::new(),
            shared_put: Mutex::default(),
        }
    }
}

/// What a generation costs in memory beside its head and its body: itself, its key, its places in index and
/// queues.
pub(crate) fn overhead_bytes(key: &CacheKey) -> u64 {
    const INDEX_BYTES: u64 = 112;
    let own = size_of::<Generation>() + size_of::<Label>() + key.full.len() + 32;
    own as u64 + 4 * ALLOCATION_BYTES + INDEX_BYTES + NODE_BYTES + GHOST_BYTES
}

/// The place of what is in no queue.
pub(crate) const NO_PLACE: u32 = u32::MAX;
