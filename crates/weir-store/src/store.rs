//! The store as the edge sees it: find, begin, freshen, retire, and the ledger.
//!
//! It knows what is held, not what it means: the caller's `select` says which generation answers a request.
//! No header is read here.

mod beside;
mod claim;
mod leave;
mod listing;
mod patience;
mod retention;
mod sent;
mod stocks;
mod visit;
mod writer;
mod written;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use smallvec::SmallVec;
use weir_policy::{CacheKey, Interval, Now, Storable, Stored};

pub use self::beside::Beside;
pub use self::claim::Claim;
pub use self::patience::{HELD_BACK_MAX, Reading, STALLED_MAX};
use self::writer::Kind;
pub use self::writer::{Full, Unsealed, Writer};
use crate::admission::{Admission, AdmissionSettings};
use crate::budget::Reserve;
#[cfg(test)]
use crate::catalogue::Progress;
use crate::catalogue::Rows;
use crate::generation::{BLOCK_BYTES, Body};
use crate::generation::{Generation, Retirement};
use crate::generation::{Head, detached, head_bytes};
use crate::inside::{Ask, Inside, VolumeWrite};
use crate::ledger::{Acknowledge, Force, Judged, Ledger, MARKS_MAX, Made, Mark, Scope, Stamp};
use crate::memory::{Limits, overhead_bytes};
use crate::tier::{Gone, Place, Seating};
#[cfg(test)]
use crate::tier::{Superseded, VolumeTier};
use crate::volume::{EvictionListener, Volume, key};
use crate::watch::{VolumeWatcher, Watcher};

/// The default of [`Settings::window_bytes`].
pub const WINDOW_BYTES: u64 = 8 << 20;

/// The limits of a store.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The ceiling of memory: bodies, heads, keys and everything else that an object costs.
    pub memory_bytes: u64,
    /// How many of its newest bytes a window keeps: a body that has outgrown the store.
    pub window_bytes: u64,
    /// What all windows may take together.
    pub windows_bytes_max: u64,
    /// The most marks of each kind that a ledger in memory keeps.
    pub marks_max: usize,
    /// What is admitted to the volumes.
    pub admission: AdmissionSettings,
}

impl Settings {
    /// The defaults for a ceiling: windows of 8 MiB, together at most a quarter of it.
    pub fn of(memory_bytes: u64) -> Settings {
        Settings {
            memory_bytes,
            window_bytes: WINDOW_BYTES,
            windows_bytes_max: memory_bytes / 4,
            marks_max: MARKS_MAX,
            admission: AdmissionSettings::default(),
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            memory_bytes: self.memory_bytes,
            window_bytes: self.window_bytes,
            windows_bytes_max: self.windows_bytes_max,
        }
    }
}

/// The answer of [`Store::find`].
#[derive(Debug)]
pub enum Found {
    /// Found at once: the newest generation that was selected, if there is one.
    Ready(Option<Arc<Generation>>),
    /// Nothing in memory was selected, but a volume may hold something under the key: ask it, then look
    /// again.
    Ask(Ask),
}

/// The store has no memory for another object: readers hold it. Stream the response without storing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the store has no memory for another object")]
pub struct NotAdmitted;

/// What the store holds, and what it has done since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// The ceiling.
    pub limit_bytes: u64,
    /// Charged now: all that is kept, and what readers hold of bodies that have left.
    pub used_bytes: u64,
    /// Generations at rest.
    pub generations: u64,
    /// What the generations at rest weigh, in bytes.
    pub resident_bytes: u64,
    /// Keys in the index.
    pub objects: u64,
    /// Windows: bodies that have outgrown the store and are still arriving.
    pub windows: u64,
    /// Bodies in files from which the kernel sends.
    pub files: u64,
    /// Their bytes.
    pub files_bytes: u64,
    /// Marks in the ledger.
    pub marks: u64,
    /// Generations evicted since the start.
    pub evicted: u64,
    /// Bytes of bodies evicted since the start.
    pub evicted_bytes: u64,
    /// Bodies that have outgrown the store since the start.
    pub outgrown: u64,
    /// Objects not admitted since the start.
    pub refused: u64,
}

/// The store. Cheap to clone: all clones are one store.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) inside: Arc<Inside>,
}

impl Store {
    /// An empty store with a ceiling of `memory_bytes`.
    pub fn new(memory_bytes: u64) -> Store {
        Store::with(Settings::of(memory_bytes))
    }

    /// An empty store with these limits and a ledger in memory.
    pub fn with(settings: Settings) -> Store {
        let ledger = Ledger::new(settings.marks_max);
        Store::with_ledger(settings, ledger)
    }

    /// An empty store with these limits and this ledger.
    pub fn with_ledger(settings: Settings, ledger: Ledger) -> Store {
        let admission = Admission::new(&settings.admission, settings.memory_bytes);
        Store { inside: Arc::new(Inside::new(settings.limits(), ledger, admission)) }
    }

    /// A store with these limits, this ledger and one volume below its memory. What the volume holds is found
    /// at once. `rows` are its catalogue, opened with [`catalogue::wanted`](crate::catalogue::wanted) of that
    /// volume; without rows a search walks over the volume.
    ///
    /// # Errors
    /// The sweeper's thread cannot be started.
    pub fn with_volume(
        settings: Settings,
        ledger: Ledger,
        volume: Volume,
        rows: Option<Arc<dyn Rows>>,
        clock: fn() -> Now,
    ) -> std::io::Result<Store> {
        let store = Store::with_ledger(settings, ledger);
        store.attach(volume, rows, Seating::of("volume", 1), clock).map_err(std::io::Error::other)?;
        Ok(store)
    }

    /// As [`Store::with_volume`], without the thread: tests drive the sweeper.
    #[cfg(test)]
    pub(crate) fn without_sweeper(
        settings: Settings,
        ledger: Ledger,
        volume: Volume,
        rows: Option<Arc<dyn Rows>>,
        clock: fn() -> Now,
    ) -> Store {
        let store = Store::with_ledger(settings, ledger);
        let tier = VolumeTier::new(volume, rows, Seating::of("volume", 1), Superseded::default(), clock);
        store.inside.volumes.tiers.attach(&tier).unwrap();
        store
    }

    /// Sets the listener for what leaves memory or is evicted from volumes. Only the first call has an
    /// effect.
    pub fn watch(&self, watcher: Arc<dyn Watcher>) {
        let _ = self.inside.memory.watched.set(watcher);
    }

    /// The listener that a volume of this name is opened with
    /// ([`VolumeSettings`](crate::volume::VolumeSettings)). It passes evictions on to the store's listener.
    pub fn volume_watcher(&self, name: &str) -> Arc<dyn EvictionListener> {
        Arc::new(VolumeWatcher::new(name, &self.inside.memory.watched))
    }

    /// The newest generation under a key that `select` accepts (RFC 9111 §4.1) and no mark has made dead. One
    /// that a soft mark or a retention concerns has that in its head. It may still be filling:
    /// see [`Generation::is_whole`]. Takes no lock, and writes no shared memory but one reference count (and
    /// the first uses).
    pub fn find(&self, digest: u128, full: &[u8], site: u64, select: &dyn Fn(&Stored) -> bool) -> Found {
        let is_changed = Cell::new(false);
        let found = self.inside.memory.index.find(digest, |label| {
            if label.key.full != full {
                return false;
            }
            let judged = self.inside.memory.judge(label);
            let is_wanted = judged != Judged::Dead && select(&label.head.load().stored);
            if is_wanted && judged != Judged::Alive {
                is_changed.set(true);
            }
            is_wanted
        });
        if let Some(generation) = &found {
            self.note_use(generation);
        }
        let found = found.filter(|generation| !is_changed.get() || self.inside.memory.absorb(generation));
        let loaded = || {
            let all = self.inside.memory.index.all(digest);
            all.iter().filter(|generation| generation.object() > 0).count()
        };
        if found.is_none() && self.inside.volumes.tiers.hold_more(full, site, loaded) {
            let key = CacheKey { digest, full: Bytes::copy_from_slice(full), site };
            return Found::Ask(Ask::new(&self.inside, key));
        }
        Found::Ready(found)
    }

    /// All generations under a key that no mark has made dead, newest first: for a conditional request.
    pub fn variants(&self, digest: u128, full: &[u8]) -> SmallVec<[Arc<Generation>; 2]> {
        let mut all = self.inside.memory.index.all(digest);
        all.retain(|generation| generation.key().full == full && self.may_serve(generation));
        all
    }

    /// How often a key was asked for lately, as far as that was noted: an estimate, at most 16. Requests that
    /// volumes are told of are noted, and those of [`Store::note_request`].
    pub fn uses(&self, key: &CacheKey) -> u32 {
        self.inside.volumes.admission.frequency(key::digest(&key.full, key.site))
    }

    /// Notes a request whose response is not stored.
    pub fn note_request(&self, key: &CacheKey) {
        let admission = &self.inside.volumes.admission;
        admission.note(key::digest(&key.full, key.site));
        // Without volumes no thread does it.
        admission.grow_old_if_due();
    }

    /// Whether no mark has made a generation dead meanwhile, for a caller that has held it for a while. What
    /// soft marks and retentions say is in its head then.
    pub fn may_serve(&self, generation: &Arc<Generation>) -> bool {
        match self.inside.memory.judge(&generation.label) {
            Judged::Alive => true,
            Judged::Changed(_) => self.inside.memory.absorb(generation),
            Judged::Dead => false,
        }
    }

    /// Checks a generation whose bytes lie on a volume, before its head is sent: its first block is read and
    /// checked, and a body of one block is loaded into memory. False where the bytes are gone: look again; it
    /// is a miss.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn prime(&self, generation: &Arc<Generation>) -> bool {
        if !generation.is_on_disk() {
            return true;
        }
        match generation.fetch(&mut Place::default(), 0, BLOCK_BYTES).await {
            Ok(Some(bytes)) => {
                if generation.length() == Some(bytes.len() as u64) {
                    self.inside.memory.load_body(generation, &bytes);
                }
                true
            }
            Ok(None) => true,
            Err(Gone) => false,
        }
    }

    /// Begins a generation whose body will be written in order from the start. It is found at once. Older
    /// ones of its variant stay until it is sealed. `stamp` is the ledger's number when the origin request
    /// was sent: where a mark has made it dead meanwhile, it serves its readers but is not found. A `length`
    /// of more than half of the memory makes a window from the start.
    ///
    /// # Errors
    /// [`NotAdmitted`] where not even the head can be kept.
    pub fn begin(
        &self,
        storable: Storable,
        key: CacheKey,
        stamp: Stamp,
        length: Option<u64>,
    ) -> Result<(Arc<Generation>, Writer), NotAdmitted> {
        let made = self.generation(storable, key, stamp, length)?;
        let volume_write = self.inside.volumes.begin(&made.0);
        Ok(self.begin_whole(made, length, volume_write))
    }

    /// As [`Store::begin`], for a body of known length of which the origin serves ranges. Where memory cannot
    /// keep it and a volume takes it, it begins as a part, as after [`Store::begin_part`], so that readers of
    /// other ranges add to the same generation: see [`Generation::is_part`]. Only for responses with a strong
    /// validator.
    ///
    /// # Errors
    /// [`NotAdmitted`] where not even the head can be kept.
    pub fn begin_partable(
        &self,
        storable: Storable,
        key: CacheKey,
        stamp: Stamp,
        length: u64,
    ) -> Result<(Arc<Generation>, Writer), NotAdmitted> {
        if length <= self.inside.memory.limits.object_bytes_max() {
            return self.begin(storable, key, stamp, Some(length));
        }
        let (generation, reserve) = self.generation(storable, key, stamp, Some(length))?;
        // A part does not replace a whole.
        if self.inside.memory.has_whole_of_variant(&generation) {
            let volume_write = self.inside.volumes.begin(&generation);
            return Ok(self.begin_whole((generation, reserve), Some(length), volume_write));
        }
        // Held until the writer has taken it over.
        let Some(_put) = self.inside.volumes.begin_part(&generation) else {
            return Ok(self.begin_whole((generation, reserve), Some(length), None));
        };
        self.inside.volumes.parts.add(&generation);
        generation.set_rested();
        self.inside.memory.begin(&generation);
        let writer = self
            .resume_with(&generation, Interval { start: 0, end: length }, Some(reserve))
            .ok_or(NotAdmitted)?;
        Ok((generation, writer))
    }

    fn begin_whole(
        &self,
        (generation, reserve): (Arc<Generation>, Reserve),
        length: Option<u64>,
        volume_write: Option<VolumeWrite>,
    ) -> (Arc<Generation>, Writer) {
        let inside = &self.inside;
        let end = length.unwrap_or(u64::MAX);
        // Invariant: a new body grows and takes writers.
        let id = generation.body.join_writer(0, end).unwrap_or_default();
        let mut writer = Writer::new(Arc::clone(inside), Arc::clone(&generation), id, (0, end), Kind::Whole);
        writer.hold(reserve);
        writer.write_to(volume_write);
        if length.is_some_and(|length| length > inside.memory.limits.object_bytes_max()) {
            writer.outgrow();
        } else {
            inside.memory.begin(&generation);
        }
        (generation, writer)
    }

    /// Begins a generation of `length` bytes that is a part from the start: it is found and used at once, and
    /// all its bytes arrive as those of any part do. The writer is for `interval`, the first that arrives.
    /// `stamp` as for [`Store::begin`]. Only for responses with a strong validator.
    ///
    /// # Errors
    /// [`NotAdmitted`] where not even the head can be kept.
    pub fn begin_part(
        &self,
        storable: Storable,
        key: CacheKey,
        stamp: Stamp,
        length: u64,
        interval: Interval,
    ) -> Result<(Arc<Generation>, Writer), NotAdmitted> {
        let (generation, reserve) = self.generation(storable, key, stamp, Some(length))?;
        generation.set_rested();
        // Held until the writer has taken it over.
        let put = self.inside.volumes.begin_part(&generation);
        if put.is_some() && length > self.inside.memory.limits.object_bytes_max() {
            self.inside.volumes.parts.add(&generation);
        }
        self.inside.memory.begin(&generation);
        let writer = self.resume_with(&generation, interval, Some(reserve)).ok_or(NotAdmitted)?;
        Ok((generation, writer))
    }

    /// Keeps a part that is never combined with another ([`Generation::is_unvalidated_part`]), only in
    /// memory. It answers requests for what lies in it. `stamp` as for [`Store::begin`].
    ///
    /// # Errors
    /// [`NotAdmitted`] where it cannot be kept.
    pub fn keep_unvalidated_part(
        &self,
        storable: Storable,
        key: CacheKey,
        stamp: Stamp,
        (length, start): (u64, u64),
        bytes: Bytes,
    ) -> Result<(), NotAdmitted> {
        let interval = Interval { start, end: start + bytes.len() as u64 };
        let (generation, reserve) = self.generation(storable, key, stamp, Some(length))?;
        generation.set_rested();
        generation.set_unvalidated_part();
        self.inside.memory.begin(&generation);
        let mut writer = self.resume_with(&generation, interval, Some(reserve)).ok_or(NotAdmitted)?;
        let kept = writer.push(bytes).map_err(|_| NotAdmitted);
        writer.rest();
        kept
    }

    fn generation(
        &self,
        storable: Storable,
        key: CacheKey,
        stamp: Stamp,
        length: Option<u64>,
    ) -> Result<(Arc<Generation>, Reserve), NotAdmitted> {
        let inside = &self.inside;
        inside.volumes.pending.note(|| key::digest(&key.full, key.site));
        let volume_uses_min = storable.volume_uses_min();
        let stored = detached(storable.into_stored());
        // Where readers hold so much that its body could not go on, it would wait for them.
        let charges = inside.memory.charge(overhead_bytes(&key)).and_then(|own| {
            Some((
                own,
                inside.memory.charge(head_bytes(&stored))?,
                inside.memory.reserve(length.unwrap_or(u64::MAX))?,
            ))
        });
        let Some((own, head, reserve)) = charges else {
            inside.memory.counts.refused.fetch_add(1, Ordering::Relaxed);
            return Err(NotAdmitted);
        };
        let head = Head::new(stored, head);
        let body = Body::new(length, inside.memory.budget.nothing());
        let generation = Generation::new(key, inside.memory.next_sequence(), stamp, head, body, own);
        Ok((Arc::new(generation.for_volumes_from(volume_uses_min)), reserve))
    }

    /// A further writer for an interval of a generation that is not whole. Bytes that are held already are
    /// not written again. `None` where nothing can be added: it is whole, or a window, or readers hold all
    /// memory.
    pub fn resume(&self, generation: &Arc<Generation>, interval: Interval) -> Option<Writer> {
        self.resume_with(generation, interval, None)
    }

    fn resume_with(
        &self,
        generation: &Arc<Generation>,
        interval: Interval,
        reserve: Option<Reserve>,
    ) -> Option<Writer> {
        let is_fixed = matches!(generation.retirement(), Some(Retirement::Outgrown | Retirement::Abandoned));
        if is_fixed || generation.length().is_some_and(|length| interval.end > length) {
            return None;
        }
        let reserve = reserve.or_else(|| self.inside.memory.reserve(interval.length()))?;
        self.inside.memory.refill(generation);
        generation.body.grow(self.inside.memory.budget.nothing());
        let Some(id) = generation.body.join_writer(interval.start, interval.end) else {
            self.inside.memory.publish(generation);
            return None;
        };
        let span = (interval.start, interval.end);
        let mut writer = Writer::new(Arc::clone(&self.inside), Arc::clone(generation), id, span, Kind::Gap);
        writer.hold(reserve);
        let volume_write = generation.home().and_then(|tier| {
            tier.attach(generation);
            tier.resume(generation, interval.start)
        });
        writer.write_to(volume_write);
        Some(writer)
    }

    /// Gives a generation the head that a 304 made of its old one (RFC 9111 §4.3.4). `stamp` is the ledger's
    /// number when the conditional request was sent. A whole one that was evicted or invalidated meanwhile
    /// comes back. True when it is in the store now. The caller may serve it in either case.
    pub fn freshen(&self, generation: &Arc<Generation>, stored: Stored, stamp: Stamp) -> bool {
        let stored = detached(stored);
        let Some(charge) = self.inside.memory.charge_loaded(head_bytes(&stored)) else {
            // Its new head is not charged while its readers hold it, so the generation must leave.
            self.inside.memory.retire(generation, Retirement::Evicted);
            generation.label.head.store(Arc::new(Head::new(stored, self.inside.memory.budget.nothing())));
            return false;
        };
        self.inside.memory.freshen(generation, Head::new(stored, charge), stamp)
    }

    /// Takes one generation out of the store. Its readers may finish.
    pub fn retire(&self, generation: &Arc<Generation>) {
        self.inside.memory.retire(generation, Retirement::Invalidated);
    }

    /// Makes everything in the scope dead, running transfers included. Returns the mark without waiting until
    /// it is durable. The cost does not depend on how much that is: [`Store::sweep`] frees the memory.
    pub fn invalidate(&self, scope: Scope, now: Now) -> Stamp {
        let mark = Mark::hard(scope);
        let stamp = self.inside.memory.ledger.mark(&[mark], now);
        self.marked(&[mark]);
        stamp
    }

    /// Whether something of a URL may be held in memory or on a volume, or is being written to one. `digest`
    /// and `url` are what [`write_url`](weir_policy::write_url) returns and writes; `site` is the site's
    /// hash. True where that is not known. Only for URLs whose keys nothing is added to. Requests to origins
    /// that are under way are not considered.
    pub fn may_hold(&self, digest: u128, url: &[u8], site: u64) -> bool {
        self.inside.may_hold(digest, url, site)
    }

    /// Makes what the marks concern dead or stale, at once, running transfers included. Returns the largest
    /// mark, and what went beyond them. The ledger's thread calls `acknowledge` once the marks are durable.
    pub fn purge(&self, marks: &[Mark], now: Now, acknowledge: Acknowledge) -> Made {
        let made = self.inside.memory.ledger.purge(marks, now, acknowledge);
        self.marked(marks);
        made
    }

    /// Frees what is found at once, and keeps the marks from becoming too many.
    fn marked(&self, marks: &[Mark]) {
        for mark in marks {
            if let Mark { scope: Scope::Url { digest, .. }, force: Force::Hard } = mark {
                self.inside.memory.retire_dead(*digest);
            }
        }
        if self.inside.memory.ledger.is_crowded() {
            self.inside.memory.sweep();
        }
    }

    /// Takes one bounded step of freeing what is dead. True while there is more to do.
    pub fn sweep(&self) -> bool {
        self.inside.memory.sweep()
    }

    /// The ledger: take [`Ledger::current`] before an origin request is sent.
    pub fn ledger(&self) -> &Ledger {
        &self.inside.memory.ledger
    }

    /// Gives the system some of the room of freed blocks that nobody has asked for lately. For quiet moments,
    /// seconds apart. True where there is more to give back after a while.
    pub fn settle(&self) -> bool {
        self.inside.memory.budget.settle()
    }

    /// The ceiling of memory, in bytes.
    pub fn limit_bytes(&self) -> u64 {
        self.inside.memory.budget.limit_bytes()
    }

    /// Counts and bytes. Takes memory's lock for a moment.
    pub fn usage(&self) -> Usage {
        let inside = &self.inside;
        let load = inside.memory.load();
        let (files, files_bytes) = inside.sealer.held();
        Usage {
            files,
            files_bytes,
            limit_bytes: inside.memory.budget.limit_bytes(),
            used_bytes: inside.memory.budget.used_bytes(),
            generations: load.count as u64,
            resident_bytes: load.bytes,
            objects: inside.memory.index.len() as u64,
            windows: inside.memory.windows(),
            marks: inside.memory.ledger.marks() as u64,
            evicted: inside.memory.counts.evicted.load(Ordering::Relaxed),
            evicted_bytes: inside.memory.counts.evicted_bytes.load(Ordering::Relaxed),
            outgrown: inside.memory.counts.outgrown.load(Ordering::Relaxed),
            refused: inside.memory.counts.refused.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests;
