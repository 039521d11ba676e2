//! The tier below memory: a volume as the shelf uses it.
//!
//! What arrives is written down while it arrives ([`Stowing`]). What memory does not hold is looked for there
//! ([`Ask`]) and comes up into the index as a generation whose bytes stay where they are ([`Below`]) or,
//! where they are few, come along. Whatever fails here is a miss: nothing waits for the volume but who asked
//! it, and no byte comes up unchecked.

mod admit;
mod ask;
mod below;
mod expecting;
mod layout;
mod moving;
mod stocks;
mod stowing;
mod sweeper;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use weir_policy::{CacheKey, Now};

pub use self::ask::Ask;
pub(crate) use self::below::Below;
pub use self::below::{Gone, Place};
pub(crate) use self::expecting::{Expecting, Outdone};
pub(crate) use self::layout::Tiers;
pub use self::layout::Twice;
pub use self::moving::Emptied;
pub(crate) use self::moving::Emptying;
pub(crate) use self::stowing::{Keeper, SharedPut, Stowing};
pub use self::sweeper::SweepUsage;
pub(crate) use self::sweeper::start;
use crate::body::{BLOCK_BYTES, Body};
use crate::budget::{BLOCK_OVERHEAD_BYTES, Charge, block};
use crate::catalogue::{Catalogue, Recounted, Rows};
use crate::generation::{Generation, overhead_bytes};
use crate::head::{Head, detached, head_bytes};
use crate::ledger::{Judged, Ledger, Stamp};
use crate::shelf::Shelf;
use crate::volume::VolumeState;
use crate::volume::{
    Fate, Named, Put, ReadError, Record, Verified, Volume, VolumeUsage, Writing, codec, key,
};

/// Two heads of one object are written down at least so far apart.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);
/// How often, and how long apart, the rest of a body is offered to a volume that has no room for it.
pub(crate) const LATE_TRIES_MAX: u32 = 5000;
pub(crate) const LATE_PAUSE: Duration = Duration::from_millis(1);
/// The list of what is being written is looked through when it has doubled beyond this.
const GOING_DOWN_LOOKED_THROUGH: usize = 64;
/// Up to so many bytes a body comes up into memory with its head.
const SMALL_BYTES_MAX: u64 = BLOCK_BYTES as u64;

/// What a volume is told when it is attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seating {
    /// What people call it: the path of its folder.
    pub name: Arc<str>,
    /// Its share of the keys, beside the others' weights.
    pub weight: u64,
    /// What was asked for before this number of the ledger is asked about before it is used: the volume was
    /// away.
    pub trusted_from: Stamp,
    /// What was asked for before this number is gone: marks were dropped while the volume was away.
    pub dead_below: Stamp,
    /// It is not known here: what this ledger made dead before it came concerns others, and all that it holds
    /// is asked about.
    pub is_unknown: bool,
    /// What it takes of the memory beside its index, for its catalogue: set aside of what there is for
    /// responses. In bytes.
    pub memory_bytes: u64,
}

impl Seating {
    /// Of a volume that was never away.
    pub fn of(name: &str, weight: u64) -> Seating {
        Seating {
            name: name.into(),
            weight,
            trusted_from: Stamp::of(0),
            dead_below: Stamp::of(0),
            is_unknown: false,
            memory_bytes: 0,
        }
    }

    /// Says in an unknown volume that marks from before it came do not concern it. Where that cannot be
    /// written, they do.
    pub(crate) fn settle(&self, volume: &Volume) {
        if self.is_unknown {
            let _ = volume.set_swept(self.trusted_from.number());
        }
    }
}

/// A volume below the shelf.
#[derive(Debug)]
pub(crate) struct Tier {
    volume: Arc<Volume>,
    name: Arc<str>,
    weight: AtomicU64,
    trusted_from: AtomicU64,
    /// Something that was to be removed may be there still.
    is_doubted: AtomicBool,
    dead_below: AtomicU64,
    is_draining: AtomicBool,
    /// What memory has had newer versions of before this came.
    outdone: Outdone,
    /// What its catalogue takes of the memory.
    aside: Mutex<Option<Charge>>,
    /// It does not keep up.
    is_slow: AtomicBool,
    letting: admit::Counts,
    clock: fn() -> Now,
    /// Bodies whose rest waits for room.
    late: stowing::Line,
    /// Bodies that were not kept because the volume had no room for them in time.
    unkept: AtomicU64,
    /// Held by who judges a head and writes it down.
    gate: RwLock<()>,
    pub(crate) catalogue: Option<Catalogue>,
    sweeping: sweeper::Counts,
    pub(crate) thread: Arc<sweeper::Thread>,
    /// What is being written, by its number on the volume; what no longer is stays until it is looked
    /// through.
    going_down: Mutex<HashMap<u64, GoingDown>>,
}

/// Something that is being written, and its key's digest.
#[derive(Debug)]
struct GoingDown {
    digest: u128,
    fate: Weak<Fate>,
}

impl Tier {
    pub(crate) fn new(
        volume: Volume,
        rows: Option<Arc<dyn Rows>>,
        seating: Seating,
        outdone: Outdone,
        clock: fn() -> Now,
    ) -> Arc<Tier> {
        let volume = Arc::new(volume);
        let catalogue = rows.map(|rows| Catalogue::new(rows, Arc::clone(&volume)));
        Arc::new(Tier {
            volume,
            name: seating.name,
            weight: AtomicU64::new(seating.weight),
            trusted_from: AtomicU64::new(seating.trusted_from.number()),
            is_doubted: AtomicBool::new(false),
            dead_below: AtomicU64::new(seating.dead_below.number()),
            is_draining: AtomicBool::new(false),
            outdone,
            aside: Mutex::new(None),
            is_slow: AtomicBool::new(false),
            letting: admit::Counts::default(),
            clock,
            late: stowing::Line::default(),
            unkept: AtomicU64::new(0),
            gate: RwLock::new(()),
            catalogue,
            sweeping: sweeper::Counts::default(),
            thread: Arc::default(),
            going_down: Mutex::default(),
        })
    }

    pub(crate) fn usage(&self) -> VolumeUsage {
        let usage = self.volume.usage();
        VolumeUsage { queue_full: usage.queue_full + self.unkept.load(Ordering::Relaxed), ..usage }
    }

    fn note_unkept(&self) {
        self.unkept.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn verify(&self) -> Result<Verified, ReadError> {
        let verified = self.volume.verify()?;
        let Some(catalogue) = &self.catalogue else { return Ok(verified) };
        let Recounted { missing, superfluous } = catalogue.recount(self.now())?;
        Ok(Verified { rows_missing: missing, rows_superfluous: superfluous, ..verified })
    }

    pub(crate) fn volume(&self) -> &Volume {
        &self.volume
    }

    pub(crate) fn now(&self) -> Now {
        (self.clock)()
    }

    /// Whether a generation lies on the volume, too. May wait for the drive.
    pub(crate) fn holds(&self, generation: &Generation) -> bool {
        let (key, object) = (generation.key(), generation.object());
        object > 0 && self.volume.has_object(Named { digest: key::digest(&key.full, key.site), object })
    }

    /// Whether what marks have made dead can be taken out of the volume.
    pub(crate) fn can_sweep(&self) -> bool {
        self.volume.state().is_writable()
    }

    #[cfg(test)]
    pub(crate) fn sync_for_tests(&self) -> bool {
        self.volume.sync().is_some()
    }

    /// Blocks until what waits is written, what has no room yet included, and takes nothing more.
    pub(crate) fn close(&self) {
        self.thread.stop();
        for _ in 0..LATE_TRIES_MAX {
            if self.late.is_empty() {
                break;
            }
            std::thread::sleep(LATE_PAUSE);
        }
        self.volume.close();
        if let Some(catalogue) = &self.catalogue {
            catalogue.close();
        }
    }

    /// Takes out what memory has had newer versions of before the volume came, so that no later process finds
    /// it. May wait for the drive.
    pub(crate) fn drop_outdone(&self) {
        for digest in self.outdone.keys() {
            for candidate in self.volume.find(digest) {
                let found = self.volume.record_at((digest >> 64) as u64, candidate.place);
                if let Ok(Some(record)) = found
                    && self.outdone.has(record.digest, record.number)
                {
                    self.remove(Named { digest, object: record.number });
                }
            }
        }
    }

    /// How it stands.
    pub(crate) fn state(&self) -> VolumeState {
        match self.volume.state() {
            VolumeState::Ejected => VolumeState::Ejected,
            _ if self.is_slow.load(Ordering::Relaxed) => VolumeState::Slow,
            state => state,
        }
    }

    /// Keeps a part of the memory for as long as it is there.
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

    /// What was asked for before this number of the ledger is asked about before it is used.
    pub(crate) fn trusted_from(&self) -> Stamp {
        Stamp::of(self.trusted_from.load(Ordering::Acquire))
    }

    /// What was asked for before that is asked about before it is used.
    pub(crate) fn trust_from(&self, from: Stamp) {
        self.trusted_from.fetch_max(from.number(), Ordering::AcqRel);
    }

    /// It could not be told what was replaced: from here on all that it holds is asked about before it is
    /// used.
    pub(crate) fn doubt(&self, from: Stamp) {
        self.trust_from(from);
        self.is_doubted.store(true, Ordering::Release);
    }

    /// Whether something that was to be removed may be there still, or again after a restart.
    pub(crate) fn owes(&self) -> bool {
        self.is_doubted.load(Ordering::Acquire) || self.volume.owes()
    }

    /// What was asked for before this number of the ledger is gone from here.
    pub(crate) fn dead_below(&self) -> Stamp {
        Stamp::of(self.dead_below.load(Ordering::Acquire))
    }

    pub(crate) fn set_dead_below(&self, until: Stamp) {
        self.dead_below.fetch_max(until.number(), Ordering::AcqRel);
    }

    /// How many records there may be under a digest. Looks at memory alone.
    pub(crate) fn count_of(&self, digest: u128) -> usize {
        match self.state() {
            VolumeState::Ejected => 0,
            _ => self.volume.find(digest).len(),
        }
    }

    /// Whether there may be something under a digest, or come to be by what is being written; true where that
    /// is not known. What was to be removed and may be back after a restart is not. Looks at memory alone.
    pub(crate) fn may_hold(&self, digest: u128) -> bool {
        let is_going_down = || {
            let going_down = self.going_down.lock();
            going_down.values().any(|going| going.digest == digest && going.fate.strong_count() > 0)
        };
        self.state() == VolumeState::Ejected
            || self.owes()
            || is_going_down()
            || !self.volume.find(digest).is_empty()
    }

    /// Begins to write a generation down; `None` where the volume takes nothing.
    pub(crate) fn begin(self: &Arc<Tier>, generation: &Generation) -> Option<Stowing> {
        Some(Stowing::new(self.begin_put(generation)?, Arc::clone(self)))
    }

    fn begin_put(self: &Arc<Tier>, generation: &Generation) -> Option<Put> {
        let head = codec::encode(&generation.head().stored, (self.clock)());
        let (key, stamp) = (key::on_volume(generation.key()), generation.stamp().number());
        let put = self.volume.begin(&key, Bytes::from(head), stamp, generation.length()).ok()?;
        generation.set_home(put.number(), self);
        self.note_going_down(put.number(), key.digest, put.fate());
        Some(put)
    }

    fn note_going_down(&self, number: u64, digest: u128, fate: &Arc<Fate>) {
        let mut going_down = self.going_down.lock();
        going_down.insert(number, GoingDown { digest, fate: Arc::downgrade(fate) });
        if going_down.len() > GOING_DOWN_LOOKED_THROUGH && going_down.len().is_power_of_two() {
            going_down.retain(|_, going| going.fate.strong_count() > 0);
        }
    }

    /// Whether a generation is still being written, so that what is not found of it may be found in a moment.
    pub(crate) fn is_going_down(&self, generation: &Generation) -> bool {
        self.fate(generation).is_some_and(|fate| fate.ended().is_none())
    }

    /// A wait for more of a generation that is still being written.
    pub(crate) fn writing(&self, generation: &Generation) -> Option<Writing> {
        self.fate(generation)?.writing()
    }

    fn fate(&self, generation: &Generation) -> Option<Arc<Fate>> {
        self.going_down.lock().get(&generation.object())?.fate.upgrade()
    }

    /// Takes an object out.
    fn remove(&self, named: Named) {
        let _ = self.volume.remove(named.digest, named.object);
    }

    /// Writes a generation's new head down, at most every [`REFRESH_INTERVAL`]. Where it cannot be, the old
    /// one stays, and what comes up with it is asked about earlier.
    pub(crate) fn refresh(&self, generation: &Generation, ledger: &Ledger) {
        let now = (self.clock)();
        // A sweep waits for who is between these two: what it is to find dead must not move while it looks
        // for it.
        let _gate = self.gate.read();
        let (key, stored) = (generation.key(), &generation.head().stored);
        if ledger.judge(key, &stored.tags, generation.stamp()) != Judged::Alive {
            return;
        }
        if generation.object() == 0 || !generation.is_refresh_due(now.mono, REFRESH_INTERVAL) {
            return;
        }
        let head = codec::encode(&generation.head().stored, now);
        let (key, stamp) = (generation.key(), generation.stamp().number());
        let digest = key::digest(&key.full, key.site);
        let _ = self.volume.refresh(digest, generation.object(), Bytes::from(head), stamp);
    }

    /// Makes a generation of a record, in memory with its head, and with its body where that is small.
    fn raise(self: &Arc<Tier>, shelf: &Shelf, key: &CacheKey, record: Record) {
        let Some(length) = record.length else { return };
        let now = (self.clock)();
        let Ok(stored) = codec::decode(&record.head, now) else { return };
        let is_outdone = self.outdone.has(record.digest, record.number);
        if is_outdone || record.asked < self.dead_below().number() {
            self.remove(Named { digest: record.digest, object: record.number });
            return;
        }
        let mut stored = detached(stored);
        if record.asked < self.trusted_from().number() {
            stored.doubt(now.mono);
        }
        let charge = |bytes| shelf.charge(bytes);
        let small = self.small(shelf, &record, length);
        let (number, stamp) = (record.number, Stamp::of(record.stamp));
        let below = small.is_none().then(|| record_below(record));
        let below_bytes = below.as_ref().map_or(0, |(_, bytes)| *bytes);
        let Some((own, head)) = charge(overhead_bytes(key) + below_bytes).zip(charge(head_bytes(&stored)))
        else {
            return;
        };
        let body = small.unwrap_or_else(|| Body::elsewhere(length));
        let generation = Generation::new(key.clone(), number, stamp, Head::new(stored, head), body, own);
        generation.set_home(number, self);
        if let Some((record, _)) = below {
            generation.set_below(Below::new(Arc::clone(self), record));
        }
        shelf.adopt(&Arc::new(generation));
    }

    /// A small body that came along with its record.
    fn small(&self, shelf: &Shelf, record: &Record, length: u64) -> Option<Body> {
        if length == 0 {
            return Some(Body::small(Bytes::new()));
        }
        let bytes = record.body().filter(|_| length <= SMALL_BYTES_MAX)?.bytes();
        let charge = shelf.charge(length + BLOCK_OVERHEAD_BYTES)?;
        Some(Body::small(block(bytes.as_ref().into(), charge)))
    }
}

/// What a generation keeps of the record that its bytes are read by, and what that takes in memory.
fn record_below(record: Record) -> (Arc<Record>, u64) {
    let record = record.for_reading();
    let bytes = record.memory_bytes() + size_of::<Below>() as u64;
    (Arc::new(record), bytes)
}

#[cfg(test)]
mod tests;
