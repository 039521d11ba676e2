//! The store as the edge sees it: find, begin, freshen, retire, and the ledger.
//!
//! It knows what is held, not what it means: which generation answers a request is the caller's to say
//! (`select`), and no header is ever read here.

mod below;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use smallvec::SmallVec;
use weir_policy::{CacheKey, Interval, Now, Storable, Stored};

use crate::admission::AdmissionSettings;
use crate::body::{BLOCK_BYTES, Body, Piece};
use crate::budget::Reserve;
#[cfg(test)]
use crate::catalogue::Progress;
use crate::catalogue::Rows;
use crate::generation::{Generation, Retirement, overhead_bytes};
use crate::head::{Head, detached, head_bytes};
use crate::ledger::{Acknowledge, Force, Judged, Ledger, MARKS_MAX, Mark, Scope, Stamp};
use crate::listing::{Listing, Page, Unlisted, list};
use crate::shelf::Shelf;
use crate::stocks::{Live, SiteStocks, live, share_quotas, stocks};
use crate::tier::{Ask, Gone, Place, Seating, Stowing};
#[cfg(test)]
use crate::tier::{Outdone, Tier};
use crate::volume::{EvictionListener, ReadError, Volume, key};
use crate::watch::{VolumeWatcher, Watcher};
use crate::writer::{Kind, Writer};

/// How many of its newest bytes a body keeps that has outgrown the store.
pub const WINDOW_BYTES: u64 = 8 << 20;

/// The limits of a store.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The ceiling of memory: bodies, heads, keys and everything else that an object costs.
    pub memory_bytes: u64,
    /// How many of its newest bytes a body keeps that has outgrown the store.
    pub window_bytes: u64,
    /// What all such windows may take together.
    pub windows_bytes_max: u64,
    /// How many marks of each kind a ledger in memory keeps.
    pub marks_max: usize,
    /// What may go down to the volumes.
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

    /// The largest body that is kept: half of the memory.
    pub(crate) fn object_bytes_max(&self) -> u64 {
        self.memory_bytes / 2
    }
}

/// The answer of [`Store::find`].
#[derive(Debug)]
pub enum Found {
    /// At once: the newest generation that was selected, if there is one.
    Ready(Option<Arc<Generation>>),
    /// Nothing in memory was selected, but the volume may hold something under the key: ask it, then look
    /// again.
    Ask(Ask),
}

/// The store takes nothing at the moment: all memory is in use by readers. Stream the response without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the store has no memory for another object")]
pub struct NotAdmitted;

/// What the store holds and what has happened to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// The ceiling.
    pub limit_bytes: u64,
    /// Charged now: everything that is kept, and what readers hold of what is kept no more.
    pub used_bytes: u64,
    /// Generations at rest, and what they weigh.
    pub generations: u64,
    /// What the generations at rest weigh.
    pub resident_bytes: u64,
    /// Keys in the index.
    pub objects: u64,
    /// Bodies that have outgrown the store and are still being transferred.
    pub windows: u64,
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

/// The house's objects. Cheap to clone: all clones are one store.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) shelf: Arc<Shelf>,
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

    /// An empty store with these limits and that ledger.
    pub fn with_ledger(settings: Settings, ledger: Ledger) -> Store {
        Store { shelf: Arc::new(Shelf::new(settings, ledger)) }
    }

    /// A store with these limits, that ledger and a volume below its memory. What the volume holds is found
    /// at once; what is searched on it is found by `rows`, where there are some, else by walking over it.
    /// `rows` were opened with [`catalogue::wanted`](crate::catalogue::wanted) of that volume.
    ///
    /// # Errors
    /// The thread that sweeps cannot be started.
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
        let tier = Tier::new(volume, rows, Seating::of("volume", 1), Outdone::default(), clock);
        store.shelf.tiers.attach(&tier).unwrap();
        store
    }

    /// Who is told when something leaves memory, or has to leave a volume; the first counts.
    pub fn watch(&self, watcher: Arc<dyn Watcher>) {
        let _ = self.shelf.watched.set(watcher);
    }

    /// What a volume of that name is opened with ([`VolumeSettings`](crate::volume::VolumeSettings)), for
    /// whoever watches the store to be told of it.
    pub fn volume_watcher(&self, name: &str) -> Arc<dyn EvictionListener> {
        Arc::new(VolumeWatcher::new(name, &self.shelf.watched))
    }

    /// What is held of each site, by tier, in the order of their hashes ([`Store::is_unswept`]). Looks
    /// through the index; may block.
    pub fn stocks(&self) -> Vec<SiteStocks> {
        stocks(&self.shelf)
    }

    /// Says how many bytes the volumes may hold of which sites, by their hashes; of others as many as there
    /// is room for. Each volume has its share by weight. Beyond it a site's own oldest content leaves; at 0
    /// nothing of it is stored on a volume. What is in memory is not counted.
    pub fn set_quotas(&self, quotas: HashMap<u64, u64>) {
        *self.shelf.quotas.lock() = quotas;
        share_quotas(&self.shelf);
    }

    /// What of it is of use at this moment: not purged, and fresh. Reads every head, and blocks for as long
    /// as that takes.
    ///
    /// # Errors
    /// The drive fails.
    pub fn live(&self, now: Now) -> Result<Live, ReadError> {
        live(&self.shelf, now)
    }

    /// A page of what is cached. Looks through the memory's index, and at a bounded number of records of the
    /// volume. Blocks for as long as reading those takes.
    ///
    /// # Errors
    /// [`Unlisted`].
    pub fn list(&self, listing: &Listing, now: Now) -> Result<Page, Unlisted> {
        list(&self.shelf, listing, now)
    }

    /// The newest generation under a key that `select` accepts (RFC 9111 §4.1) and no mark has made dead;
    /// what a soft mark concerns has been made stale. It may still be filling: see [`Generation::is_whole`].
    /// Takes no lock, and writes no shared memory but one reference count (and, the first times, the use).
    pub fn find(&self, digest: u128, full: &[u8], site: u64, select: &dyn Fn(&Stored) -> bool) -> Found {
        let is_soft = Cell::new(false);
        let found = self.shelf.index.find(digest, |label| {
            if label.key.full != full {
                return false;
            }
            let judged = self.shelf.judge(label);
            let is_wanted = judged != Judged::Dead && select(&label.head.load().stored);
            if is_wanted && judged != Judged::Alive {
                is_soft.set(true);
            }
            is_wanted
        });
        if let Some(generation) = found.as_ref().filter(|generation| generation.label.note_use()) {
            self.shelf.note_use(generation);
            // The volume is told as seldom as the label is written.
            if let Some(home) = generation.home() {
                home.note_use(generation);
            }
        }
        let found = found.filter(|generation| !is_soft.get() || self.shelf.soften(generation));
        if found.is_none() && self.shelf.tiers.hold_more(digest, full, site, &self.shelf.index) {
            let key = CacheKey { digest, full: Bytes::copy_from_slice(full), site };
            return Found::Ask(Ask::new(&self.shelf, key));
        }
        Found::Ready(found)
    }

    /// All generations under a key that no mark has made dead, newest first: for a conditional request.
    pub fn variants(&self, digest: u128, full: &[u8]) -> SmallVec<[Arc<Generation>; 2]> {
        let mut all = self.shelf.index.all(digest);
        all.retain(|generation| generation.key().full == full && self.may_serve(generation));
        all
    }

    /// Whether no mark has made a generation dead meanwhile: for who has held it for a while. What a soft
    /// mark concerns has been made stale then.
    pub fn may_serve(&self, generation: &Arc<Generation>) -> bool {
        match self.shelf.judge(&generation.label) {
            Judged::Alive => true,
            Judged::Stale(_) => self.shelf.soften(generation),
            Judged::Dead => false,
        }
    }

    /// Makes sure of a generation whose bytes lie on the volume, before its head goes out: its first block is
    /// read and checked, and a body of one block comes up into memory. False where it is gone: look again, it
    /// is a miss.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn prime(&self, generation: &Arc<Generation>) -> bool {
        if !generation.is_below() {
            return true;
        }
        match generation.fetch(&mut Place::default(), 0, BLOCK_BYTES).await {
            Ok(Some(Piece::Bytes(bytes))) => {
                if generation.length() == Some(bytes.len() as u64) {
                    self.shelf.lift(generation, &bytes);
                }
                true
            }
            Ok(None) => true,
            Err(Gone) => false,
        }
    }

    /// Begins a generation whose body will be written in order from the start. It is found at once; older
    /// ones of its variant stay until it is sealed. `stamp` is the ledger's number when the origin request
    /// was sent: if a mark has made it dead meanwhile, it serves its readers but is not found. A `length` of
    /// more than half of the memory makes a window from the start.
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
        let stowing = self.shelf.begin_below(&made.0);
        Ok(self.begin_whole(made, length, stowing))
    }

    /// As [`Store::begin`], for a body of known length of which parts can be asked for by themselves. Where
    /// memory cannot keep it and a volume takes it, it is at rest in part from the start, as after
    /// [`Store::begin_part`], so that who wants another part of it has that brought to the very same
    /// generation: [`Generation::is_part`] tells. Only for what has a strong validator.
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
        if length <= self.shelf.settings.object_bytes_max() {
            return self.begin(storable, key, stamp, Some(length));
        }
        let (generation, reserve) = self.generation(storable, key, stamp, Some(length))?;
        // A part does not take the place of a whole.
        if self.shelf.has_whole_of_variant(&generation) {
            let stowing = self.shelf.begin_below(&generation);
            return Ok(self.begin_whole((generation, reserve), Some(length), stowing));
        }
        // Held until the writer has taken it over.
        let Some(_put) = self.shelf.begin_part_below(&generation) else {
            return Ok(self.begin_whole((generation, reserve), Some(length), None));
        };
        generation.set_rested();
        self.shelf.begin(&generation);
        let writer = self
            .resume_with(&generation, Interval { start: 0, end: length }, Some(reserve))
            .ok_or(NotAdmitted)?;
        Ok((generation, writer))
    }

    fn begin_whole(
        &self,
        (generation, reserve): (Arc<Generation>, Reserve),
        length: Option<u64>,
        stowing: Option<Stowing>,
    ) -> (Arc<Generation>, Writer) {
        let shelf = &self.shelf;
        let end = length.unwrap_or(u64::MAX);
        // Invariant: a new body grows and takes writers.
        let id = generation.body.join_writer(0, end).unwrap_or_default();
        let mut writer = Writer::new(Arc::clone(shelf), Arc::clone(&generation), id, (0, end), Kind::Whole);
        writer.hold(reserve);
        writer.stow(stowing);
        if length.is_some_and(|length| length > shelf.settings.object_bytes_max()) {
            writer.outgrow();
        } else {
            shelf.begin(&generation);
        }
        (generation, writer)
    }

    /// Begins a generation of `length` bytes that is at rest in part from the start: it is found and used at
    /// once, and its bytes come as the further ones of any part do. The writer is for the first `interval`
    /// that comes. `stamp` as for [`Store::begin`]. Only for what has a strong validator.
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
        let _put = self.shelf.begin_part_below(&generation);
        self.shelf.begin(&generation);
        let writer = self.resume_with(&generation, interval, Some(reserve)).ok_or(NotAdmitted)?;
        Ok((generation, writer))
    }

    /// Keeps a part by itself, in memory alone: it answers what lies in it, and is never put together with
    /// another ([`Generation::is_unvalidated_part`]). `stamp` as for [`Store::begin`].
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
        self.shelf.begin(&generation);
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
        let shelf = &self.shelf;
        shelf.expecting.note(|| key::digest(&key.full, key.site));
        let stored = detached(storable.into_stored());
        // Where readers hold so much that its body could not go on whatever they do, it would wait for them.
        let charges = shelf.charge(overhead_bytes(&key)).and_then(|own| {
            Some((own, shelf.charge(head_bytes(&stored))?, shelf.reserve(length.unwrap_or(u64::MAX))?))
        });
        let Some((own, head, reserve)) = charges else {
            shelf.counts.refused.fetch_add(1, Ordering::Relaxed);
            return Err(NotAdmitted);
        };
        let head = Head::new(stored, head);
        let body = Body::new(length, shelf.budget.nothing());
        Ok((Arc::new(Generation::new(key, shelf.next_sequence(), stamp, head, body, own)), reserve))
    }

    /// A further writer for an interval of a generation that is not whole. What is held already is not
    /// written again. `None` where nothing can be added: it is whole, or lives on as a window only, or
    /// readers hold all memory.
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
        let reserve = reserve.or_else(|| self.shelf.reserve(interval.length()))?;
        self.shelf.refill(generation);
        generation.body.grow(self.shelf.budget.nothing());
        let Some(id) = generation.body.join_writer(interval.start, interval.end) else {
            self.shelf.publish(generation);
            return None;
        };
        let span = (interval.start, interval.end);
        let mut writer = Writer::new(Arc::clone(&self.shelf), Arc::clone(generation), id, span, Kind::Gap);
        writer.hold(reserve);
        let stowing = generation.home().and_then(|tier| {
            tier.attach(generation);
            tier.resume(generation, interval.start)
        });
        writer.stow(stowing);
        Some(writer)
    }

    /// Gives a generation the head that a 304 made of its old one (RFC 9111 §4.3.4); `stamp` is the ledger's
    /// number when the conditional request was sent. A whole one that was evicted or invalidated meanwhile
    /// comes back. True when it is in the store now; whoever holds it may serve it in either case.
    pub fn freshen(&self, generation: &Arc<Generation>, stored: Stored, stamp: Stamp) -> bool {
        let stored = detached(stored);
        let Some(charge) = self.shelf.charge(head_bytes(&stored)) else {
            // Its head is uncounted for as long as its readers hold it, so it must not stay.
            self.shelf.retire(generation, Retirement::Evicted);
            generation.label.head.store(Arc::new(Head::new(stored, self.shelf.budget.nothing())));
            return false;
        };
        self.shelf.freshen(generation, Head::new(stored, charge), stamp)
    }

    /// Takes one generation out of the store. Its readers finish.
    pub fn retire(&self, generation: &Arc<Generation>) {
        self.shelf.retire(generation, Retirement::Invalidated);
    }

    /// Makes everything in the scope dead, what is in flight included; returns the mark. Nobody waits until
    /// it is durable. Independent of how much that is: space is given back by [`Store::sweep`].
    pub fn invalidate(&self, scope: Scope, now: Now) -> Stamp {
        let mark = Mark::hard(scope);
        let stamp = self.shelf.ledger.mark(&[mark], now);
        self.marked(&[mark]);
        stamp
    }

    /// Whether something of a URL may be held, in memory or on a volume, or be on its way down, by the digest
    /// that [`write_url`](weir_policy::write_url) returns and the text that it writes; `site` is the site's
    /// hash. True where that cannot be told. Only for URLs whose keys nothing is added to. What is being
    /// asked of an origin is not known here.
    pub fn may_hold(&self, digest: u128, url: &[u8], site: u64) -> bool {
        self.shelf.may_hold(digest, url, site)
    }

    /// Makes what the marks concern dead or stale, at once, what is in flight included; returns the largest
    /// mark. `acknowledge` is called once they are durable, by the ledger's thread.
    pub fn purge(&self, marks: &[Mark], now: Now, acknowledge: Acknowledge) -> Stamp {
        let stamp = self.shelf.ledger.purge(marks, now, acknowledge);
        self.marked(marks);
        stamp
    }

    /// Gives back at once what is found at once, and sees to it that marks do not become too many.
    fn marked(&self, marks: &[Mark]) {
        for mark in marks {
            if let Mark { scope: Scope::Url { digest, .. }, force: Force::Hard } = mark {
                self.shelf.retire_dead(*digest);
            }
        }
        if self.shelf.ledger.is_crowded() {
            self.shelf.sweep();
        }
    }

    /// One bounded step of giving back the space of what is dead. True while there is more to do.
    pub fn sweep(&self) -> bool {
        self.shelf.sweep()
    }

    /// The ledger: take [`Ledger::current`] before an origin request is sent.
    pub fn ledger(&self) -> &Ledger {
        &self.shelf.ledger
    }

    /// Counts and bytes. Takes the shelf's lock for a moment.
    pub fn usage(&self) -> Usage {
        let shelf = &self.shelf;
        let load = shelf.load();
        Usage {
            limit_bytes: shelf.budget.limit_bytes(),
            used_bytes: shelf.budget.used_bytes(),
            generations: load.count as u64,
            resident_bytes: load.bytes,
            objects: shelf.index.len() as u64,
            windows: shelf.windows(),
            marks: shelf.ledger.marks() as u64,
            evicted: shelf.counts.evicted.load(Ordering::Relaxed),
            evicted_bytes: shelf.counts.evicted_bytes.load(Ordering::Relaxed),
            outgrown: shelf.counts.outgrown.load(Ordering::Relaxed),
            refused: shelf.counts.refused.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests;
