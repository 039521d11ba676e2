//! The sweeper: takes out of the volume what marks have made dead, gives the space back, and then drops the
//! marks.
//!
//! A mark may be dropped when nothing that it concerns can be found any more, now or after a crash. The
//! number `until` of the ledger is noted; all that was asked for before it is *old*. In this order:
//!
//! 1. *Barrier.* From here on nothing old begins to be written down (`Volume::raise_floor`), and who judges a
//!    head and writes it anew has done so before or judges by all marks up to `until` (`Tier::gate`). What
//!    was begun is said to the writer: the volume is synced, and the catalogue, if there is one, has covered
//!    the log up to there.
//! 2. *Search.* Each old object that a mark may concern is read and judged. What is dead is removed, what a
//!    soft mark concerns is given a head that says so. Each batch is synced, and looked at once more: what is
//!    not as it should be ends the pass.
//! 3. *Wait* for old objects that are still arriving; each is judged when it has ended. Where marks become
//!    too many they are cut.
//! 4. The number is written to the volume (`Volume::set_swept`): what lies there and is old counts as asked
//!    for at `until`.
//! 5. Memory is gone through once more: what lives there is stamped with `until` at least.
//! 6. The marks up to `until` become one of everything. It concerns only what is old and neither on the
//!    volume nor in memory: what comes after that was asked for before the barrier, and is not stored.
//!
//! Of several volumes each does 1 to 4 for itself, on a thread of its own; 5 and 6 are done up to the least
//! of their numbers ([`Shelf::retire_swept`]).
//!
//! After a crash before 4 the marks are there; after it, the removals are durable. Removals are records of
//! the log, so that they hold for an index made anew as well; where the log could not take one, the sync of
//! step 2 fails.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use weir_policy::{CacheKey, Now, Stored, Tags};

use super::Tier;
use crate::catalogue::schema::{self, Named as By, Row};
use crate::catalogue::{Catalogue, Progress};
use crate::ledger::{Judged, Stamp};
use crate::shelf::Shelf;
use crate::volume::{Named, Place, ReadError, Record, Volume, codec, key};

/// How often it is looked whether there is something to do.
const TICK: Duration = Duration::from_millis(500);
/// How long after marks were seen they are swept: what was asked for before has begun to arrive by then.
const DELAY: Duration = Duration::from_secs(5);
/// After a pass that failed, the next one begins so much later.
const RETRY_AFTER: Duration = Duration::from_secs(10);
/// Between two passes is so many times the time that the last one took.
const REST_FACTOR: u32 = 3;
/// Removed at once, between two syncs.
const BATCH: usize = 1024;
/// What was done is looked at so often until it is as it should be.
const ROUNDS_MAX: u32 = 4;
/// Looked at between two pauses.
const LOOKED_AT_ONCE: usize = 512;
/// A pause is as long as the work before it, up to this.
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// What the sweeper has done since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SweepUsage {
    /// Passes that ended with marks dropped.
    pub passes: u64,
    /// Passes that could not go on.
    pub failed: u64,
    /// Whether marks are newer than the last pass.
    pub is_due: bool,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    passes: AtomicU64,
    failed: AtomicU64,
    is_due: AtomicBool,
}

/// The sweeper's thread; stopped before the volume is closed.
#[derive(Debug, Default)]
pub(crate) struct Thread {
    is_stopped: Mutex<bool>,
    bell: Condvar,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl Thread {
    /// Waits; true where the thread is to end.
    fn pause(&self, time: Duration) -> bool {
        let mut is_stopped = self.is_stopped.lock();
        if !*is_stopped && !time.is_zero() {
            self.bell.wait_for(&mut is_stopped, time);
        }
        *is_stopped
    }

    /// Lets it end, and waits for it.
    pub(crate) fn stop(&self) {
        *self.is_stopped.lock() = true;
        self.bell.notify_all();
        let handle = self.handle.lock().take();
        if let Some(handle) = handle.filter(|handle| handle.thread().id() != std::thread::current().id()) {
            // A panic of its has been said already; the marks stay.
            let _ = handle.join();
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Starts the thread that covers and sweeps a volume. It ends with the shelf, or when the volume is let go.
///
/// # Errors
/// The system has no thread to spare.
pub(crate) fn start(shelf: &Arc<Shelf>, tier: &Arc<Tier>) -> std::io::Result<()> {
    let (weak, below, own) = (Arc::downgrade(shelf), Arc::downgrade(tier), Arc::clone(&tier.thread));
    let work = move || run(&weak, &below, &own);
    let handle = std::thread::Builder::new().name("weir-catalogue".to_owned()).spawn(work)?;
    *tier.thread.handle.lock() = Some(handle);
    Ok(())
}

fn run(shelf: &Weak<Shelf>, tier: &Weak<Tier>, thread: &Thread) {
    let mut sweeper = Sweeper::default();
    while !thread.pause(TICK) {
        let Some((shelf, tier)) = shelf.upgrade().zip(tier.upgrade()) else { return };
        sweeper.tick(&shelf, &tier);
    }
}

/// Why a pass does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stuck {
    /// The process is about to end.
    Stopped,
    /// The drive, or the catalogue, fails; or the volume takes nothing.
    Failed,
    /// The catalogue is not that far.
    Behind,
    /// What is old is still arriving.
    Arriving,
}

/// Where the sweeper is.
#[derive(Debug, Clone, Copy, Default)]
enum Course {
    /// Nothing is to be done.
    #[default]
    Idle,
    /// Marks were seen; when, and up to which number.
    Seen(Stamp, Now),
    /// The barrier stands; the log had that end.
    Barred(Stamp, Place),
    /// What was there is judged.
    Searched(Stamp),
}

#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    course: Course,
    /// Old objects that have ended and were not judged yet.
    ended: Vec<Named>,
    /// No pass begins before.
    rests: Option<(Now, Duration)>,
    begun: Option<Now>,
    /// When marks were last looked at that need no pass.
    looked_at: Option<Now>,
}

impl Sweeper {
    /// What is due. Blocks for as long as that takes.
    pub(crate) fn tick(&mut self, shelf: &Arc<Shelf>, tier: &Arc<Tier>) {
        let now = (tier.clock)();
        tier.cover_all();
        let volume = &tier.volume;
        let is_due = shelf.ledger.newest().max(tier.dead_below()).number() > volume.swept();
        tier.sweeping.is_due.store(is_due, Ordering::Relaxed);
        if !volume.state().is_writable() {
            self.course = Course::Idle;
            return;
        }
        if let (Course::Idle, true) = (self.course, is_due) {
            self.course = Course::Seen(shelf.ledger.current(), now);
        }
        let is_crowded = shelf.ledger.is_crowded();
        let rests = |(since, time): (Now, Duration)| now.since(since.mono) < time;
        match self.course {
            Course::Seen(_, at) if now.since(at.mono) < DELAY && !is_crowded => {}
            Course::Seen(..) if self.rests.is_some_and(rests) && !is_crowded => {}
            Course::Idle => self.retire_swept(shelf, now),
            _ => self.go_on(shelf, tier, now),
        }
    }

    /// Drops marks that all has been swept by already: the process may have ended, or a volume have been
    /// away, before they were.
    fn retire_swept(&mut self, shelf: &Shelf, now: Now) {
        let is_due = self.looked_at.is_none_or(|at| now.since(at.mono) >= RETRY_AFTER);
        if is_due && shelf.ledger.marks() > 0 {
            self.looked_at = Some(now);
            shelf.retire_swept();
        }
    }

    fn go_on(&mut self, shelf: &Arc<Shelf>, tier: &Arc<Tier>, now: Now) {
        let begun = *self.begun.get_or_insert(now);
        let result = self.step(shelf, tier);
        let ended = (tier.clock)();
        match result {
            Ok(()) => {
                Counts::add(&tier.sweeping.passes);
                self.rests = Some((ended, ended.since(begun.mono) * REST_FACTOR));
            }
            Err(Stuck::Arriving | Stuck::Behind | Stuck::Stopped) => return,
            Err(Stuck::Failed) => {
                Counts::add(&tier.sweeping.failed);
                self.rests = Some((ended, RETRY_AFTER));
            }
        }
        (self.course, self.begun) = (Course::Idle, None);
    }

    /// As far as it goes at once.
    pub(crate) fn step(&mut self, shelf: &Arc<Shelf>, tier: &Arc<Tier>) -> Result<(), Stuck> {
        if let Course::Seen(until, _) = self.course {
            tier.raise_barrier(until)?;
            self.course = Course::Barred(until, tier.volume.durable_end());
        }
        if let Course::Barred(until, end) = self.course {
            tier.search(shelf, end)?;
            self.course = Course::Searched(until);
        }
        if let Course::Searched(until) = self.course {
            self.conclude(shelf, tier, until)?;
        }
        Ok(())
    }

    fn conclude(&mut self, shelf: &Arc<Shelf>, tier: &Arc<Tier>, until: Stamp) -> Result<(), Stuck> {
        let volume = &tier.volume;
        let older = volume.older_running();
        self.ended.extend(volume.take_ended());
        if shelf.ledger.is_crowded() {
            // Storing them ends; who reads them reads on.
            for named in &older {
                let _ = volume.remove(named.digest, named.object);
            }
            self.ended.extend(older);
        } else if !older.is_empty() {
            return Err(Stuck::Arriving);
        }
        // What has ended is said to the writer by now.
        volume.sync().ok_or(Stuck::Failed)?;
        let mut pass = Pass::new(shelf, tier);
        for named in &self.ended {
            for record in volume.records_of(*named) {
                pass.look(&record)?;
            }
        }
        pass.settle()?;
        self.ended.clear();
        volume.set_swept(until.number()).map_err(|_| Stuck::Failed)?;
        shelf.retire_swept();
        volume.reclaim().map_err(|_| Stuck::Failed)?;
        Ok(())
    }

    /// A whole pass now, for tests that drive it.
    #[cfg(test)]
    pub(crate) fn pass(&mut self, shelf: &Arc<Shelf>) -> Result<(), Stuck> {
        let layout = shelf.tiers.all();
        layout.iter().next().map_or(Ok(()), |tier| self.pass_on(shelf, tier))
    }

    /// As [`Sweeper::pass`], on one of several volumes.
    #[cfg(test)]
    pub(crate) fn pass_on(&mut self, shelf: &Arc<Shelf>, tier: &Arc<Tier>) -> Result<(), Stuck> {
        if let Course::Idle = self.course {
            self.course = Course::Seen(shelf.ledger.current(), (tier.clock)());
        }
        let result = self.step(shelf, tier);
        if !matches!(result, Err(Stuck::Arriving | Stuck::Behind)) {
            self.course = Course::Idle;
        }
        result
    }
}

impl Counts {
    fn add(count: &AtomicU64) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Tier {
    /// What the sweeper has done.
    pub(crate) fn sweep_usage(&self) -> SweepUsage {
        SweepUsage {
            passes: self.sweeping.passes.load(Ordering::Relaxed),
            failed: self.sweeping.failed.load(Ordering::Relaxed),
            is_due: self.sweeping.is_due.load(Ordering::Relaxed),
        }
    }

    /// Lets the catalogue follow the log, with pauses as long as the work.
    pub(crate) fn cover_all(&self) {
        let Some(catalogue) = &self.catalogue else { return };
        loop {
            let begun = (self.clock)();
            match catalogue.cover(begun) {
                Ok(Progress::More) => {}
                // What fails is tried again, or the volume is walked.
                Ok(Progress::Done | Progress::NoRoom) | Err(_) => return,
            }
            if self.rest_since(begun) {
                return;
            }
        }
    }

    /// Pauses for as long as was worked; true where the process is about to end.
    pub(super) fn rest_since(&self, begun: Now) -> bool {
        let worked = (self.clock)().since(begun.mono);
        self.thread.pause(worked.min(PAUSE_MAX))
    }

    fn raise_barrier(&self, until: Stamp) -> Result<(), Stuck> {
        self.volume.raise_floor(until.number());
        // Who judged before is done with what it says to the volume.
        drop(self.gate.write());
        self.volume.sync().ok_or(Stuck::Failed).map(drop)
    }

    /// Finds and judges what marks may concern that were made since the last pass.
    fn search(self: &Arc<Tier>, shelf: &Arc<Shelf>, end: Place) -> Result<(), Stuck> {
        let mut pass = Pass::new(shelf, self);
        match &self.catalogue {
            Some(catalogue) if !catalogue.is_broken() => {
                // The segment in which the log ended may have gone since.
                if !catalogue.has_covered(end.min(self.volume.durable_end())) {
                    return Err(Stuck::Behind);
                }
                pass.by_rows(catalogue)?;
            }
            _ => pass.by_walking()?,
        }
        pass.settle()?;
        if pass.has_removed {
            self.volume.reclaim().map_err(|_| Stuck::Failed)?;
        }
        Ok(())
    }
}

/// One search, and what it has done since the last sync.
struct Pass<'a> {
    shelf: &'a Shelf,
    tier: &'a Tier,
    volume: &'a Arc<Volume>,
    acted: Vec<Named>,
    has_removed: bool,
    looked: usize,
    begun: Now,
}

impl Pass<'_> {
    fn new<'a>(shelf: &'a Shelf, tier: &'a Tier) -> Pass<'a> {
        Pass {
            shelf,
            tier,
            volume: &tier.volume,
            acted: Vec::new(),
            has_removed: false,
            looked: 0,
            begun: (tier.clock)(),
        }
    }

    fn by_walking(&mut self) -> Result<(), Stuck> {
        let mut result = Ok(());
        let walked = self.volume.clone().walk(|record| {
            result = self.look(record);
            if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        walked.map_err(|_| Stuck::Failed)?;
        result
    }

    fn by_rows(&mut self, catalogue: &Catalogue) -> Result<(), Stuck> {
        let swept = Stamp::of(self.volume.swept());
        let reach = self.shelf.ledger.reach(swept);
        if reach.is_all || self.tier.dead_below() > swept {
            self.by_prefix(catalogue, schema::KEYS)?;
        } else {
            for site in &reach.sites {
                self.by_prefix(catalogue, &schema::of_site(*site, b""))?;
            }
        }
        for tag in &reach.tags {
            self.by_prefix(catalogue, &schema::of_tag(*tag))?;
        }
        if !reach.tags.is_empty() {
            self.by_prefix(catalogue, schema::MANY)?;
        }
        Ok(())
    }

    /// All rows whose keys begin so, some at a time.
    fn by_prefix(&mut self, catalogue: &Catalogue, prefix: &[u8]) -> Result<(), Stuck> {
        let mut from = prefix.to_vec();
        loop {
            let mut found: Vec<Row> = Vec::new();
            let (mut seen, mut last) = (0, None);
            let searched = catalogue.search(prefix, &from, &mut |key, by, _, row| {
                seen += 1;
                if self.may_concern(by, row) {
                    found.push(row);
                }
                if seen < LOOKED_AT_ONCE {
                    return ControlFlow::Continue(());
                }
                last = Some(key.to_vec());
                ControlFlow::Break(())
            });
            searched.map_err(|_| Stuck::Failed)?;
            for row in &found {
                match self.volume.record_at(row.hash, row.place) {
                    Ok(Some(record)) => self.look(&record)?,
                    Err(ReadError::Device(_)) => return Err(Stuck::Failed),
                    // It went meanwhile, or is damaged and will.
                    Ok(None) | Err(ReadError::Gone | ReadError::NotResident) => {}
                }
            }
            self.note_looked(seen)?;
            let Some(key) = last else { return Ok(()) };
            from = key;
            from.push(0);
        }
    }

    /// Whether marks may concern what a row names: rows by key know no tags, rows by tag no key.
    fn may_concern(&self, by: By<'_>, row: Row) -> bool {
        let stamp = Stamp::of(row.stamp.max(self.volume.swept()));
        match by {
            By::Key { site, full } => {
                let key = key::cache_key(site, full);
                Stamp::of(row.stamp) < self.tier.dead_below()
                    || self.shelf.ledger.judge(&key, &Tags::default(), stamp) != Judged::Alive
            }
            By::Tag(_) | By::ManyTags => true,
        }
    }

    /// Pauses now and then.
    fn note_looked(&mut self, count: usize) -> Result<(), Stuck> {
        self.looked += count;
        if self.looked >= LOOKED_AT_ONCE {
            self.looked = 0;
            if self.tier.rest_since(self.begun) {
                return Err(Stuck::Stopped);
            }
            self.begun = (self.tier.clock)();
        }
        Ok(())
    }

    /// Judges a record, and does what follows from that.
    fn look(&mut self, record: &Record) -> Result<(), Stuck> {
        self.note_looked(1)?;
        self.act(record)?;
        if self.acted.len() >= BATCH { self.settle() } else { Ok(()) }
    }

    fn act(&mut self, record: &Record) -> Result<(), Stuck> {
        let named = Named { digest: record.digest, object: record.number };
        // All marks up to this one are judged by.
        let current = self.shelf.ledger.current().number();
        match self.judge(record) {
            Fate::Stays => return Ok(()),
            Fate::Goes => {
                self.has_removed = true;
                self.say(|volume| volume.sweep_out(named))?;
            }
            Fate::Outdated(stored) => {
                let head = Bytes::from(codec::encode(&stored, (self.tier.clock)()));
                let refresh = |volume: &Volume| {
                    volume.refresh(named.digest, named.object, head.clone(), current).is_ok()
                };
                self.say(refresh)?;
            }
        }
        self.acted.push(named);
        Ok(())
    }

    /// Says something to the writer; where its queue is full, once it has written.
    fn say(&self, say: impl Fn(&Volume) -> bool) -> Result<(), Stuck> {
        if say(self.volume) {
            return Ok(());
        }
        self.volume.sync().ok_or(Stuck::Failed)?;
        if say(self.volume) { Ok(()) } else { Err(Stuck::Failed) }
    }

    /// Makes durable what was done, and looks whether it was; more marks may have been made meanwhile.
    fn settle(&mut self) -> Result<(), Stuck> {
        for _ in 0..ROUNDS_MAX {
            if self.acted.is_empty() {
                return Ok(());
            }
            self.volume.sync().ok_or(Stuck::Failed)?;
            for named in std::mem::take(&mut self.acted) {
                for record in self.volume.records_of(named) {
                    self.act(&record)?;
                }
            }
        }
        if self.acted.is_empty() { Ok(()) } else { Err(Stuck::Failed) }
    }

    fn judge(&self, record: &Record) -> Fate {
        let Some((site, full)) = key::split(&record.key) else { return Fate::Stays };
        let key: CacheKey = key::cache_key(site, full);
        // What cannot be read cannot be used, but perhaps by another version; nor can it be told what
        // concerns it.
        let now = (self.tier.clock)();
        let Ok(mut stored) = codec::decode(&record.head, now) else { return Fate::Goes };
        if record.asked < self.tier.dead_below().number() {
            return Fate::Goes;
        }
        // What is written anew bears a number that would be trusted.
        if record.asked < self.tier.trusted_from().number() {
            stored.doubt(now.mono);
        }
        match self.shelf.ledger.judge(&key, &stored.tags, Stamp::of(record.stamp)) {
            Judged::Alive => Fate::Stays,
            Judged::Dead => Fate::Goes,
            Judged::Stale(since) => {
                stored.outdate(since);
                Fate::Outdated(Box::new(stored))
            }
        }
    }
}

/// What becomes of a record.
enum Fate {
    Stays,
    Goes,
    Outdated(Box<Stored>),
}

#[cfg(test)]
mod tests;
