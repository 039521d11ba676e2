//! The sweeper removes from a volume what marks have made dead, frees its space, and then drops the marks.
//!
//! A mark may be dropped when nothing that it concerns can be found any more, now or after a crash. A pass
//! takes the ledger's number as `until`. What was asked for before it is *old*. In this order:
//!
//! 1. *Barrier.* From here on no write of anything old begins (`Volume::raise_floor`). A thread that judges a
//!    head and then writes it has done so before, or judges by all marks up to `until` (`VolumeTier::gate`).
//!    The volume is synced, and the catalogue, if there is one, has covered the log up to there.
//! 2. *Search.* Each old object that a mark may concern is read and judged. A dead one is removed, one that a
//!    soft mark or a retention concerns gets a head that says so. Each batch is synced and then
//!    checked; the pass ends where something is not as it should be.
//! 3. *Wait* for old objects that are still arriving; each is judged when it has ended. Where marks become
//!    too many, these objects are cut.
//! 4. The number is written to the volume (`Volume::set_swept`): old objects there count as asked for at
//!    `until`.
//! 5. Memory is searched once more: what lives there is stamped with `until` at least.
//! 6. The marks up to `until` become one mark of everything. It concerns only what is old and neither on the
//!    volume nor in memory: what arrives after that was asked for before the barrier, and is not stored.
//!
//! With several volumes each does 1 to 4 on a thread of its own. 5 and 6 are done up to the smallest of their
//! numbers ([`Inside::retire_swept`]).
//!
//! A crash before 4 leaves the marks; after 4 the removals are durable. Removals are records of the log, so
//! that they also hold for an index that is made again. Where the log could not take one, the sync of step 2
//! fails.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use weir_policy::{CacheKey, Now, Stored, Tags};

use super::Inside;
use crate::catalogue::schema::{self, Named as By, Row};
use crate::catalogue::{Catalogue, Progress};
use crate::ledger::{Judged, Stamp};
use crate::tier::{SweeperThread, VolumeTier};
use crate::volume::{Named, Place, ReadError, Record, Volume, codec, key};

/// How often the sweeper looks for something to do.
const TICK: Duration = Duration::from_millis(500);
/// The time between a mark and its sweep: by then all that was asked for before has begun to arrive.
const DELAY: Duration = Duration::from_secs(5);
/// The pause after a failed pass.
const RETRY_AFTER: Duration = Duration::from_secs(10);
/// The pause between two passes, as a multiple of the last pass.
const REST_FACTOR: u32 = 3;
/// The most removals between two syncs.
const BATCH: usize = 1024;
/// How often a batch is checked until it is as it should be.
const ROUNDS_MAX: u32 = 4;
/// The most objects read between two pauses.
const LOOKED_AT_ONCE: usize = 512;
/// A pause is as long as the work before it, up to this.
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// Starts the thread that covers and sweeps a volume. It ends with the store, or when the volume is detached.
///
/// # Errors
/// The system has no thread to spare.
pub(crate) fn start(inside: &Arc<Inside>, tier: &Arc<VolumeTier>) -> std::io::Result<()> {
    let (weak, weak_tier, own) = (Arc::downgrade(inside), Arc::downgrade(tier), Arc::clone(&tier.thread));
    let work = move || run(&weak, &weak_tier, &own);
    let handle = std::thread::Builder::new().name("weir-catalogue".to_owned()).spawn(work)?;
    *tier.thread.handle.lock() = Some(handle);
    Ok(())
}

fn run(inside: &Weak<Inside>, tier: &Weak<VolumeTier>, thread: &SweeperThread) {
    let mut sweeper = Sweeper::default();
    while !thread.pause(TICK) {
        let Some((inside, tier)) = inside.upgrade().zip(tier.upgrade()) else { return };
        sweeper.tick(&inside, &tier);
    }
}

/// Why a pass cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stuck {
    /// The process is about to end.
    Stopped,
    /// The drive, or the catalogue, fails; or the volume takes nothing.
    Failed,
    /// The catalogue has not covered that much yet.
    Behind,
    /// Old objects are still arriving.
    Arriving,
}

/// The phase of a pass.
#[derive(Debug, Clone, Copy, Default)]
enum Phase {
    /// There is nothing to do.
    #[default]
    Idle,
    /// Marks were seen: their largest number, and when.
    Seen(Stamp, Now),
    /// The barrier stands, and where the log ended then.
    Barred(Stamp, Place),
    /// What was there is judged.
    Searched(Stamp),
}

#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    phase: Phase,
    /// Old objects that have ended and are not judged yet.
    ended: Vec<Named>,
    /// When the last pass ended, and the pause after it.
    rests: Option<(Now, Duration)>,
    begun: Option<Now>,
    /// When the marks that need no pass were last looked at.
    looked_at: Option<Now>,
}

impl Sweeper {
    /// Does what is due. Blocks for as long as that takes.
    pub(crate) fn tick(&mut self, inside: &Arc<Inside>, tier: &Arc<VolumeTier>) {
        let now = (tier.clock)();
        tier.cover_all();
        let volume = &tier.volume;
        let is_due = inside.memory.ledger.newest().max(tier.dead_before()).number() > volume.swept();
        tier.sweeping.is_due.store(is_due, Ordering::Relaxed);
        if !volume.state().is_writable() {
            self.phase = Phase::Idle;
            return;
        }
        if let (Phase::Idle, true) = (self.phase, is_due) {
            self.phase = Phase::Seen(inside.memory.ledger.current(), now);
        }
        let is_crowded = inside.memory.ledger.is_crowded();
        let rests = |(since, time): (Now, Duration)| now.since(since.mono) < time;
        match self.phase {
            Phase::Seen(_, at) if now.since(at.mono) < DELAY && !is_crowded => {}
            Phase::Seen(..) if self.rests.is_some_and(rests) && !is_crowded => {}
            Phase::Idle => self.retire_swept(inside, now),
            _ => self.go_on(inside, tier, now),
        }
    }

    /// Drops marks that every volume has been swept by: the process may have ended before they were, or a
    /// volume may have been away.
    fn retire_swept(&mut self, inside: &Inside, now: Now) {
        let is_due = self.looked_at.is_none_or(|at| now.since(at.mono) >= RETRY_AFTER);
        if is_due && inside.memory.ledger.marks() > 0 {
            self.looked_at = Some(now);
            inside.retire_swept();
        }
    }

    fn go_on(&mut self, inside: &Arc<Inside>, tier: &Arc<VolumeTier>, now: Now) {
        let begun = *self.begun.get_or_insert(now);
        let result = self.step(inside, tier);
        let ended = (tier.clock)();
        match result {
            Ok(()) => {
                tier.sweeping.passes.fetch_add(1, Ordering::Relaxed);
                self.rests = Some((ended, ended.since(begun.mono) * REST_FACTOR));
            }
            Err(Stuck::Arriving | Stuck::Behind | Stuck::Stopped) => return,
            Err(Stuck::Failed) => {
                tier.sweeping.failed.fetch_add(1, Ordering::Relaxed);
                self.rests = Some((ended, RETRY_AFTER));
            }
        }
        (self.phase, self.begun) = (Phase::Idle, None);
    }

    /// Goes on as far as possible now.
    pub(crate) fn step(&mut self, inside: &Arc<Inside>, tier: &Arc<VolumeTier>) -> Result<(), Stuck> {
        if let Phase::Seen(until, _) = self.phase {
            tier.raise_barrier(until)?;
            self.phase = Phase::Barred(until, tier.volume.durable_end());
        }
        if let Phase::Barred(until, end) = self.phase {
            tier.search(inside, end)?;
            self.phase = Phase::Searched(until);
        }
        if let Phase::Searched(until) = self.phase {
            self.conclude(inside, tier, until)?;
        }
        Ok(())
    }

    fn conclude(&mut self, inside: &Arc<Inside>, tier: &Arc<VolumeTier>, until: Stamp) -> Result<(), Stuck> {
        let volume = &tier.volume;
        let older = volume.older_running();
        self.ended.extend(volume.take_ended());
        if inside.memory.ledger.is_crowded() {
            // Their storing ends; their readers read on.
            for named in &older {
                let _ = volume.remove(named.digest, named.object);
            }
            self.ended.extend(older);
        } else if !older.is_empty() {
            return Err(Stuck::Arriving);
        }
        // The writer has been told of all that has ended.
        volume.sync().ok_or(Stuck::Failed)?;
        let mut pass = Pass::new(inside, tier);
        for named in &self.ended {
            for record in volume.records_of(*named) {
                pass.look(&record)?;
            }
        }
        pass.settle()?;
        self.ended.clear();
        volume.set_swept(until.number()).map_err(|_| Stuck::Failed)?;
        inside.retire_swept();
        volume.reclaim().map_err(|_| Stuck::Failed)?;
        Ok(())
    }

    /// A whole pass, for tests that drive it.
    #[cfg(test)]
    pub(crate) fn pass(&mut self, inside: &Arc<Inside>) -> Result<(), Stuck> {
        let layout = inside.volumes.tiers.all();
        layout.iter().next().map_or(Ok(()), |tier| self.pass_on(inside, tier))
    }

    /// As [`Sweeper::pass`], on one of several volumes.
    #[cfg(test)]
    pub(crate) fn pass_on(&mut self, inside: &Arc<Inside>, tier: &Arc<VolumeTier>) -> Result<(), Stuck> {
        if let Phase::Idle = self.phase {
            self.phase = Phase::Seen(inside.memory.ledger.current(), (tier.clock)());
        }
        let result = self.step(inside, tier);
        if !matches!(result, Err(Stuck::Arriving | Stuck::Behind)) {
            self.phase = Phase::Idle;
        }
        result
    }
}

impl VolumeTier {
    /// Lets the catalogue follow the log, with pauses as long as the work.
    pub(crate) fn cover_all(&self) {
        let Some(catalogue) = &self.catalogue else { return };
        loop {
            let begun = (self.clock)();
            match catalogue.cover(begun) {
                Ok(Progress::More) => {}
                // A failure is tried again, or the volume is walked instead.
                Ok(Progress::Done | Progress::NoRoom) | Err(_) => return,
            }
            if self.rest_since(begun) {
                return;
            }
        }
    }

    /// Pauses for as long as the work took. True where the process is about to end.
    pub(super) fn rest_since(&self, begun: Now) -> bool {
        let worked = (self.clock)().since(begun.mono);
        self.thread.pause(worked.min(PAUSE_MAX))
    }

    fn raise_barrier(&self, until: Stamp) -> Result<(), Stuck> {
        self.volume.raise_floor(until.number());
        // Threads that judged before have told the volume by now.
        drop(self.gate.write());
        self.volume.sync().ok_or(Stuck::Failed).map(drop)
    }

    /// Finds and judges what the marks since the last pass may concern.
    fn search(self: &Arc<VolumeTier>, inside: &Arc<Inside>, end: Place) -> Result<(), Stuck> {
        let mut pass = Pass::new(inside, self);
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
    inside: &'a Inside,
    tier: &'a VolumeTier,
    volume: &'a Arc<Volume>,
    acted: Vec<Named>,
    has_removed: bool,
    looked: usize,
    begun: Now,
}

impl Pass<'_> {
    fn new<'a>(inside: &'a Inside, tier: &'a VolumeTier) -> Pass<'a> {
        Pass {
            inside,
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
        let reach = self.inside.memory.ledger.reach(swept);
        if reach.is_all || self.tier.dead_before() > swept {
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

    /// Looks at all rows whose keys begin so, some at a time.
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
                    // It left meanwhile, or is damaged and will leave.
                    Ok(None) | Err(ReadError::Gone | ReadError::NotResident) => {}
                }
            }
            self.note_looked(seen)?;
            let Some(key) = last else { return Ok(()) };
            from = key;
            from.push(0);
        }
    }

    /// Whether marks may concern the object of a row. Rows by key know no tags, rows by tag no key.
    fn may_concern(&self, by: By<'_>, row: Row) -> bool {
        let stamp = Stamp::of(row.stamp.max(self.volume.swept()));
        match by {
            By::Key { site, full } => {
                let key = key::cache_key(site, full);
                Stamp::of(row.stamp) < self.tier.dead_before()
                    || self.inside.memory.ledger.judge(&key, &Tags::default(), stamp) != Judged::Alive
            }
            By::Tag(_) | By::ManyTags | By::Object => true,
        }
    }

    /// Counts what was read, and pauses after enough of it.
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

    /// Judges a record, and acts on that.
    fn look(&mut self, record: &Record) -> Result<(), Stuck> {
        self.note_looked(1)?;
        self.act(record)?;
        if self.acted.len() >= BATCH { self.settle() } else { Ok(()) }
    }

    fn act(&mut self, record: &Record) -> Result<(), Stuck> {
        let named = Named { digest: record.digest, object: record.number };
        // All marks up to this one are considered.
        let current = self.inside.memory.ledger.current().number();
        match self.judge(record) {
            Verdict::Stays => return Ok(()),
            // The head that has taken its place meanwhile is looked at, not this one.
            Verdict::Goes if self.volume.is_replaced(record) => {}
            Verdict::Goes => {
                self.has_removed = true;
                self.tell(|volume| volume.sweep_out(named))?;
            }
            Verdict::Changed(stored) => {
                let head = Bytes::from(codec::encode(&stored, (self.tier.clock)()));
                // A 304 that came meanwhile has written a newer head: that one is looked at again.
                let rewrite =
                    |volume: &Volume| volume.rewrite(named, &record.head, head.clone(), current).is_ok();
                self.tell(rewrite)?;
            }
        }
        self.acted.push(named);
        Ok(())
    }

    /// Tells the writer; where its queue is full, after a sync.
    fn tell(&self, tell: impl Fn(&Volume) -> bool) -> Result<(), Stuck> {
        if tell(self.volume) {
            return Ok(());
        }
        self.volume.sync().ok_or(Stuck::Failed)?;
        if tell(self.volume) { Ok(()) } else { Err(Stuck::Failed) }
    }

    /// Makes durable what was done, and checks it. More marks may have been made meanwhile.
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

    fn judge(&self, record: &Record) -> Verdict {
        let Some((site, full)) = key::split(&record.key) else { return Verdict::Stays };
        let key: CacheKey = key::cache_key(site, full);
        // A head that cannot be read cannot be used, except by another version of Weir; nor is it known which
        // marks concern it.
        let now = (self.tier.clock)();
        let Ok(mut stored) = codec::decode(&record.head, now) else { return Verdict::Goes };
        let facts = stored.facts;
        if record.asked < self.tier.dead_before().number() {
            return Verdict::Goes;
        }
        // The new head has a number that would be believed.
        if record.asked < self.tier.suspect_before().number() {
            stored.suspect(now.mono);
        }
        match self.inside.memory.ledger.judge(&key, &stored.tags, Stamp::of(record.stamp)) {
            Judged::Alive => Verdict::Stays,
            Judged::Dead => Verdict::Goes,
            Judged::Changed(change) => {
                change.apply(&mut stored.facts);
                if stored.facts == facts {
                    return Verdict::Stays;
                }
                Verdict::Changed(Box::new(stored))
            }
        }
    }
}

/// What becomes of a record.
enum Verdict {
    Stays,
    Goes,
    Changed(Box<Stored>),
}

#[cfg(test)]
mod tests;
