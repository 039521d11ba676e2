//! A volume as the rest of the store sees it.

mod budget;
pub(crate) mod log;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::oneshot;
use weir_disk::Disk;
use weir_policy::{CacheKey, Intervals};

use crate::format::record::{Place, UNIT_BYTES};
use crate::index::KeyHash;
use crate::numbers::Reached;
use crate::read::reader::{Candidate, Part, Position, ReadError, Record, Wait};
use crate::read::verify::{Verified, verify, walk};
use crate::read::waits::{Answer, Waits};
use crate::recover::{OpenError, Recovered, open};
use crate::settings::{Clock, SIZE_BYTES_MAX, SIZE_BYTES_MIN, VolumeSettings};
use crate::shared::Shared;
use crate::state::VolumeState;
use crate::stock::Stock;
use crate::threads::{Busy, Readers, start_writer};
use crate::usage::{Counters, VolumeUsage};
use crate::write::intake::{Command, Intake};
use crate::write::put::{Ended, Fate};
use crate::write::running::{Named, Running};
use crate::write::storing::{End, Put as Started};

/// A volume, open. Dropping it writes what waits, and ends its threads.
#[derive(Debug)]
pub struct Volume {
    pub(super) shared: Arc<Shared>,
    intake: Arc<Intake>,
    next_object: Arc<AtomicU64>,
    pub(super) running: Running,
    pub(super) was_rebuilt: bool,
    /// How far it had come before anything was written.
    pub(super) found: Reached,
    readers: Mutex<Option<Readers>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    waits: Arc<Waits>,
    clock: Clock,
}

impl Volume {
    /// Opens the volume in a folder, or makes it; starts its threads. Blocks for as long as recovery takes.
    ///
    /// # Errors
    /// [`OpenError`]: the folder is as it was.
    pub fn open(disk: Arc<dyn Disk>, settings: &VolumeSettings) -> Result<(Volume, Recovered), OpenError> {
        let (shared, engine, recovered) = open(disk, settings)?;
        let intake = Arc::new(Intake::new(settings.queue_bytes));
        let next_object = Arc::clone(&settings.numbers);
        next_object.fetch_max(engine.next_object(), Ordering::AcqRel);
        let found = found(&shared);
        let failed = |source| OpenError::Drive { act: "starting a thread", source };
        let readers = Readers::start(settings.readers, &shared).map_err(failed)?;
        let writer = start_writer(engine, Arc::clone(&intake), settings.clock.clone()).map_err(failed)?;
        let volume = Volume {
            shared,
            intake,
            next_object,
            running: Running::default(),
            was_rebuilt: recovered.was_rebuilt,
            found,
            readers: Mutex::new(Some(readers)),
            writer: Mutex::new(Some(writer)),
            waits: Arc::default(),
            clock: settings.clock.clone(),
        };
        Ok((volume, recovered))
    }

    /// Where records of that digest may be, newest first. Looks at memory alone.
    pub fn find(&self, digest: u128) -> SmallVec<[Candidate; 4]> {
        self.shared.candidates(digest)
    }

    /// The record of a candidate, if its key is that one: the head, and a small object's body. May wait for
    /// the drive.
    ///
    /// # Errors
    /// [`ReadError::Gone`] where it is not what was stored, or was dropped meanwhile; [`ReadError::Device`].
    pub fn record(&self, candidate: Candidate, key: &CacheKey) -> Result<Option<Record>, ReadError> {
        self.look(candidate, key, Wait::Device)
    }

    /// As [`Volume::record`], from the page cache alone.
    ///
    /// # Errors
    /// [`ReadError::NotResident`] where it would have to wait; as [`Volume::record`].
    pub fn try_record(&self, candidate: Candidate, key: &CacheKey) -> Result<Option<Record>, ReadError> {
        self.look(candidate, key, Wait::Never)
    }

    fn look(&self, candidate: Candidate, key: &CacheKey, wait: Wait) -> Result<Option<Record>, ReadError> {
        let result = self.shared.record(candidate, &key.full, wait);
        if matches!(result, Err(ReadError::Gone | ReadError::Device(_))) {
            self.tell_damaged(KeyHash::of(key.digest), candidate);
        }
        result
    }

    /// What is at `offset` of a record's body: at most `max` bytes, and [`crate::PIECE_BYTES_MAX`]. May wait
    /// for the drive. `position` spares the next read of the same body looking its extent up again.
    ///
    /// # Errors
    /// As [`Volume::record`]; nothing that was read before was wrong.
    pub fn read(
        &self,
        record: &Record,
        position: &mut Position,
        offset: u64,
        max: usize,
    ) -> Result<Part, ReadError> {
        self.read_part(record, position, offset, max, Wait::Device)
    }

    /// As [`Volume::read`], from the page cache alone.
    ///
    /// # Errors
    /// [`ReadError::NotResident`] where it would have to wait; as [`Volume::read`].
    pub fn try_read(
        &self,
        record: &Record,
        position: &mut Position,
        offset: u64,
        max: usize,
    ) -> Result<Part, ReadError> {
        self.read_part(record, position, offset, max, Wait::Never)
    }

    fn read_part(
        &self,
        record: &Record,
        position: &mut Position,
        offset: u64,
        max: usize,
        wait: Wait,
    ) -> Result<Part, ReadError> {
        let result = self.shared.read(record, position, offset, max, wait);
        if matches!(result, Err(ReadError::Gone | ReadError::Device(_)))
            && let Some((_, place)) = self.shared.segments.at(record.location)
        {
            let candidate = Candidate { location: record.location, place };
            self.tell_damaged(KeyHash::of(record.digest), candidate);
        }
        result
    }

    /// Lets the writer take a record out of the index. Where the queue is full the next reader says it again.
    fn tell_damaged(&self, hash: KeyHash, candidate: Candidate) {
        let Candidate { location, place } = candidate;
        if self.shared.segments.has(place.segment) && self.shared.index.has(hash, location) {
            let _ = self.intake.send(Command::Damaged { hash, location, place });
        }
    }

    /// The intervals of a record's body that are held now.
    pub fn held(&self, record: &Record) -> Intervals {
        self.shared.held(record)
    }

    /// Runs something on a thread of the volume's that may wait for the drive.
    ///
    /// # Errors
    /// [`Busy`] where too much waits already: treat the object as absent.
    pub fn on_reader(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Busy> {
        self.readers.lock().as_ref().ok_or(Busy)?.run(Box::new(job))
    }

    /// Runs something on a thread of the volume's that may wait for the drive, and says what came of it;
    /// nothing where that takes longer than [`Volume::give_up`] allows, and no answer at all where too much
    /// waits already.
    ///
    /// # Cancel safety
    /// Safe: the job is done all the same.
    pub fn ask<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Option<Answer<T>> {
        let (say, said) = oneshot::channel();
        let (pending, answer) = self.waits.begin(self.clock.now(), said);
        let job = move || {
            let _ = say.send(job());
            drop(pending);
        };
        self.on_reader(job).ok().map(|()| answer)
    }

    /// Lets those go who have waited for its reading threads for longer than that; how many. They see a miss.
    pub fn give_up(&self, patience: Duration) -> usize {
        self.clock.now().checked_sub(patience).map_or(0, |moment| self.waits.give_up_before(moment))
    }

    /// For how long the oldest job has kept its thread, or waited for one; zero where there is none.
    pub fn stuck_for(&self) -> Duration {
        let since = |began| self.clock.now().saturating_sub(began);
        self.waits.oldest().map_or(Duration::ZERO, since)
    }

    /// Begins to store an object. `length` is that of its body, where it is known; `stamp` is kept with it.
    /// It is found once its first extent is written, in part, and otherwise when it is whole. Never waits.
    ///
    /// # Errors
    /// [`Ended`]: it is not stored.
    pub fn begin(
        self: &Arc<Volume>,
        key: &CacheKey,
        head: Bytes,
        stamp: u64,
        length: Option<u64>,
    ) -> Result<Put, Ended> {
        if self.shared.is_shut_out((self.shared.owner_of)(&key.full), length) {
            return Err(Ended::OverQuota);
        }
        if !self.may_spend(head.len() as u64 + length.unwrap_or(1)) {
            return Err(Ended::Spent);
        }
        let object = self.next_object.fetch_add(1, Ordering::Relaxed);
        self.begin_as(object, key, head, stamp, length)
    }

    /// As [`Volume::begin`], for an object that has its number from another volume of the house.
    pub fn begin_as(
        self: &Arc<Volume>,
        object: u64,
        key: &CacheKey,
        head: Bytes,
        stamp: u64,
        length: Option<u64>,
    ) -> Result<Put, Ended> {
        let fate = Fate::new();
        let put = Started::new(key.digest, key.full.clone(), head, stamp, length, Arc::clone(&fate));
        if !self.running.begin(Named { digest: key.digest, object }, stamp) {
            return Err(Ended::Removed);
        }
        let begun = self.send(Command::Begin { object, put: Box::new(put) });
        begun.inspect_err(|_| self.running.end(object))?;
        Ok(Put { volume: Arc::clone(self), object, digest: key.digest, fate, is_open: true })
    }

    /// Stores an object whose body is at hand.
    ///
    /// # Errors
    /// [`Ended`]: it is not stored.
    pub fn store(
        self: &Arc<Volume>,
        key: &CacheKey,
        head: Bytes,
        stamp: u64,
        body: &[Bytes],
    ) -> Result<u64, Ended> {
        let length = body.iter().map(|part| part.len() as u64).sum();
        let put = self.begin(key, head, stamp, Some(length))?;
        let mut offset = 0;
        for part in body {
            put.push(offset, part.clone())?;
            offset += part.len() as u64;
        }
        put.finish(length)
    }

    /// Goes on storing an object that is held in part and has that stamp; one [`Put`] at a time, by which
    /// several transfers may push.
    ///
    /// # Errors
    /// [`Ended`]: nothing is added, as while it is being stored by another [`Put`].
    pub fn resume(self: &Arc<Volume>, digest: u128, object: u64, stamp: u64) -> Result<Put, Ended> {
        if !self.may_spend(1) {
            return Err(Ended::Spent);
        }
        let fate = Fate::new();
        if !self.running.resume(Named { digest, object }, stamp) {
            return Err(Ended::Failed);
        }
        let resumed = self.send(Command::Resume { object, digest, fate: Arc::clone(&fate) });
        resumed.inspect_err(|_| self.running.end(object))?;
        Ok(Put { volume: Arc::clone(self), object, digest, fate, is_open: true })
    }

    /// Gives an object another head, after a 304; its body stays where it is. The stamp never falls.
    ///
    /// # Errors
    /// [`Ended`]: it keeps the old one.
    pub fn refresh(&self, digest: u128, object: u64, head: Bytes, stamp: u64) -> Result<(), Ended> {
        if !self.may_spend(head.len() as u64) {
            return Err(Ended::Spent);
        }
        self.send(Command::Refresh { object, digest, head, stamp })
    }

    /// Takes an object out, for good. Durable with the next epoch.
    ///
    /// # Errors
    /// [`Ended::QueueFull`] where not even this could be said: say it again.
    pub fn remove(&self, digest: u128, object: u64) -> Result<(), Ended> {
        self.say(Command::Remove { object, digest })
    }

    /// Asks for something to be stored.
    fn send(&self, command: Command) -> Result<(), Ended> {
        if !self.shared.counters.state().is_writable() {
            return Err(Ended::Failed);
        }
        self.say(command)
    }

    /// What ends or removes is said to a volume that stores no more as well.
    pub(super) fn say(&self, command: Command) -> Result<(), Ended> {
        self.intake.send(command).map_err(|_| {
            Counters::add(&self.shared.counters.queue_full, 1);
            Ended::QueueFull
        })
    }

    /// Makes durable what was asked for before, removals included; returns the epoch that is, `None` where it
    /// is not. Blocks.
    pub fn sync(&self) -> Option<u64> {
        let (done, wait) = crossbeam_channel::bounded(1);
        self.intake.send(Command::Sync(done)).ok()?;
        wait.recv().ok()?
    }

    /// Goes through all objects, checks every byte, and drops what is wrong. Blocks for as long as reading
    /// the volume takes.
    ///
    /// # Errors
    /// [`ReadError::Device`] where the drive fails.
    pub fn verify(&self) -> Result<Verified, ReadError> {
        let verified = verify(&self.shared, |hash, location, place| {
            // Where the queue is full it stays until it is read, or verified, again.
            let _ = self.intake.send(Command::Damaged { hash, location, place });
        })?;
        self.sync();
        Ok(Verified { stocks_wrong: self.recount().unwrap_or(0), ..verified })
    }

    /// Counts again what is held of each owner, from the records, while storing goes on; of how many that was
    /// not what was known, which is set right. `None` where the volume does not write. Blocks for as long as
    /// reading all heads takes.
    pub fn recount(&self) -> Option<u64> {
        let (done, wait) = crossbeam_channel::bounded(1);
        self.intake.send(Command::Recount(done)).ok()?;
        wait.recv().ok()
    }

    /// Goes through the records of all objects, segment by segment, in the order of their writing, until
    /// `each` breaks. Heads are checked, bodies are not. What comes or goes meanwhile may be met or not.
    /// Blocks for as long as reading the heads takes; returns how many there were.
    ///
    /// # Errors
    /// [`ReadError::Device`] where the drive fails.
    pub fn walk(&self, each: impl FnMut(&Record) -> ControlFlow<()>) -> Result<u64, ReadError> {
        walk(&self.shared, Place::BEGIN, each)
    }

    /// What it holds of each owner of keys (of each site): objects, partial ones included, and bytes of
    /// bodies. Exact at every moment; a copy of a small table.
    pub fn stocks(&self) -> Vec<(u64, Stock)> {
        let mut owners: Vec<(u64, Stock)> = self.shared.stocks.all().into_iter().collect();
        owners.sort_unstable_by_key(|(owner, _)| *owner);
        owners
    }

    /// Notes that what is stored under a digest was used: what was used is written again before its segment
    /// goes.
    pub fn note_use(&self, digest: u128) {
        self.shared.uses.note(KeyHash::of(digest));
    }

    /// Says how many bytes may be held of which owners; of others as many as there is room for. Beyond it an
    /// owner's own oldest content leaves, within a second or so; what is arriving is not looked at before it
    /// has ended.
    pub fn set_quotas(&self, quotas: HashMap<u64, u64>) {
        self.shared.quotas.store(Arc::new(quotas));
    }

    /// What it holds of one owner.
    pub fn stock_of(&self, owner: u64) -> Stock {
        self.shared.stocks.of(owner)
    }

    /// The numbers of the segments that are there, oldest first: what [`Record::segment`] is compared with.
    pub fn segments(&self) -> Vec<u64> {
        self.shared.segments.numbers()
    }

    /// What it holds, and what was done.
    pub fn usage(&self) -> VolumeUsage {
        VolumeUsage { queued_bytes: self.intake.waiting_bytes(), ..self.shared.usage() }
    }

    /// Changes the ceiling of all its files together, in bytes. A smaller one is reached as soon as the
    /// oldest has gone.
    pub fn resize(&self, size_bytes: u64) {
        let size_bytes = size_bytes.clamp(SIZE_BYTES_MIN, SIZE_BYTES_MAX);
        self.shared.size_bytes.store(size_bytes, Ordering::Release);
    }

    /// Lets a reading thread look whether the folder is still there; says what the last look has found. One
    /// look at a time, which is a read that [`Volume::stuck_for`] knows of.
    pub fn is_there(&self) -> bool {
        let counters = &self.shared.counters;
        if !counters.is_looked_for.swap(true, Ordering::AcqRel) {
            let shared = Arc::clone(&self.shared);
            let look = move || {
                let counters = &shared.counters;
                counters.is_gone.store(!shared.disk.is_there(), Ordering::Release);
                let is_unsealed = shared.disk.is_sealed() && shared.disk.is_writable();
                counters.is_unsealed.store(is_unsealed, Ordering::Release);
                counters.is_looked_for.store(false, Ordering::Release);
            };
            if self.ask(look).is_none() {
                counters.is_looked_for.store(false, Ordering::Release);
            }
        }
        !counters.is_gone.load(Ordering::Acquire)
    }

    /// Whether nothing could be written when it was opened, and now it could, as the last look of
    /// [`Volume::is_there`] has found: it stores again when it is opened again.
    pub fn is_unsealed(&self) -> bool {
        self.shared.counters.is_unsealed.load(Ordering::Acquire)
    }

    /// Lets the writer try again where too many writes had failed.
    pub fn write_again(&self) {
        self.shared.counters.write_again();
    }

    /// Whether removals could not be written yet, so that after a restart something may be back.
    pub fn owes(&self) -> bool {
        self.shared.counters.owes.load(Ordering::Relaxed)
    }

    /// What waits to be written, in bytes.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.intake.waiting_bytes()
    }

    /// The number that the next object gets.
    pub fn next_number(&self) -> u64 {
        self.next_object.load(Ordering::Relaxed)
    }

    /// Its state: up, full, read-only or ejected.
    pub fn state(&self) -> VolumeState {
        self.shared.counters.state()
    }

    /// Writes what waits, makes it durable, and ends the threads. Afterwards nothing is stored.
    pub fn close(&self) {
        if let Some(writer) = self.writer.lock().take() {
            let _ = self.intake.send(Command::Stop);
            // Its panic has ejected the volume.
            let _ = writer.join();
        }
        let readers = self.readers.lock().take();
        if let Some(readers) = readers {
            readers.stop();
            self.settle_budget();
            self.shared.disk.release();
        }
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        self.close();
    }
}

/// All that is there counts, durable or not.
fn found(shared: &Shared) -> Reached {
    let end = shared.segments.all().values().map(|segment| (segment.number, segment.end())).max();
    let (segment, end) = end.unwrap_or_default();
    let epoch = shared.counters.durable_epoch.load(Ordering::Relaxed);
    Reached { epoch, end: segment << u32::BITS | (end / UNIT_BYTES) }
}

/// An object that is being stored. Dropped without an end it is taken out again.
#[derive(Debug)]
pub struct Put {
    volume: Arc<Volume>,
    object: u64,
    digest: u128,
    fate: Arc<Fate>,
    is_open: bool,
}

impl Put {
    /// The object's number.
    pub fn number(&self) -> u64 {
        self.object
    }

    /// How it fares; shared with the volume for as long as it is being stored.
    pub fn fate(&self) -> &Arc<Fate> {
        &self.fate
    }

    /// Why storing has ended before its time, if it has.
    pub fn ended(&self) -> Option<Ended> {
        self.fate.ended()
    }

    /// Whether so many bytes may be pushed now: the queue has room for them, or storing has ended, which the
    /// push says.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.fate.ended().is_some() || self.volume.intake.has_room(bytes)
    }

    /// Adds bytes of the body at an offset. What is held there already is not written again. Never waits.
    ///
    /// # Errors
    /// [`Ended`]: nothing more is stored; end it as what was stored deserves.
    pub fn push(&self, offset: u64, bytes: Bytes) -> Result<(), Ended> {
        if let Some(ended) = self.fate.ended() {
            return Err(ended);
        }
        if bytes.is_empty() {
            return Ok(());
        }
        if !self.volume.may_spend(bytes.len() as u64) {
            self.fate.end(Ended::Spent);
            return Err(Ended::Spent);
        }
        let sent = self.volume.send(Command::Body { object: self.object, offset, bytes });
        sent.inspect_err(|ended| self.fate.end(*ended))
    }

    /// The body has come whole.
    ///
    /// # Errors
    /// [`Ended`]: it was not stored, or in part, and is taken out.
    pub fn finish(mut self, length: u64) -> Result<u64, Ended> {
        if let Some(ended) = self.fate.ended() {
            return Err(ended);
        }
        self.end(End::Whole(length)).map(|()| self.object)
    }

    /// Nothing more comes; what has come is kept as a partial object. Only where later bytes can be told to
    /// be of the same version.
    ///
    /// # Errors
    /// [`Ended::QueueFull`] where this could not be said: what was published stays until it is evicted.
    pub fn rest(mut self) -> Result<(), Ended> {
        self.end(End::Rest)
    }

    fn end(&mut self, end: End) -> Result<(), Ended> {
        self.is_open = false;
        let said = self.volume.say(Command::End { object: self.object, digest: self.digest, end });
        self.volume.running.end(self.object);
        said
    }
}

impl Drop for Put {
    fn drop(&mut self) {
        if self.is_open {
            // Where the queue is full beyond its reserve, a partial object stays until it is evicted.
            let _ = self.end(End::Abandon);
        }
    }
}
