//! A volume as the rest of the store sees it.

mod budget;
mod end;
pub(crate) mod log;
mod patience;
mod readers;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use bytes::Bytes;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::oneshot;
use weir_disk::Disk;
use weir_policy::{CacheKey, Intervals};

use crate::format::record::{Place, UNIT_BYTES};
use crate::freed::FreedWait;
use crate::index::KeyHash;
use crate::numbers::Reached;
use crate::read::reader::{Candidate, Part, Position, ReadError, Record, Wait};
use crate::read::verify::{EachDone, Verified, verify, walk};
use crate::read::waits::{Answer, Waits};
use crate::recover::{OpenError, Recovered, open};
use crate::settings::{Clock, SIZE_BYTES_MAX, SIZE_BYTES_MIN, VolumeSettings};
use crate::shared::Shared;
use crate::state::VolumeState;
use crate::stock::Stock;
use crate::threads::{Busy, Readers, start_writer};
use crate::usage::{Counters, VolumeUsage};
use crate::write::intake::{Command, Intake};
use crate::write::put::{PutError, PutStatus};
use crate::write::running::{Named, Running};
use crate::write::storing::{End, ObjectHead, Put as Started};

/// An open volume. Dropping it writes what waits and ends its threads.
#[derive(Debug)]
pub struct Volume {
    pub(super) shared: Arc<Shared>,
    intake: Arc<Intake>,
    next_object: Arc<AtomicU64>,
    pub(super) running: Running,
    pub(super) was_rebuilt: bool,
    /// How far the log had come before anything was written.
    pub(super) found: Reached,
    readers: Mutex<Option<Readers>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    waits: Arc<Waits>,
    clock: Clock,
}

impl Volume {
    /// Opens the volume in a folder, or makes one there, and starts its threads. Blocks for as long as
    /// recovery takes.
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

    /// The places where records of that digest may be, newest first. Reads memory alone.
    pub fn find(&self, digest: u128) -> SmallVec<[Candidate; 4]> {
        self.shared.candidates(digest)
    }

    /// The record of a candidate, if its key is `key`: the head, and a small object's body. May wait for the
    /// drive.
    ///
    /// # Errors
    /// [`ReadError::Gone`] if it is not what was stored, or was dropped in the meantime;
    /// [`ReadError::Device`] if the drive fails.
    pub fn record(&self, candidate: Candidate, key: &CacheKey) -> Result<Option<Record>, ReadError> {
        self.look(candidate, key, Wait::Device)
    }

    /// As [`Volume::record`], but from the page cache alone.
    ///
    /// # Errors
    /// [`ReadError::NotResident`] if it would have to wait; otherwise as [`Volume::record`].
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

    /// Reads a record's body at `offset`: at most `max` bytes, and at most [`crate::PIECE_BYTES_MAX`]. May
    /// wait for the drive. `position` remembers the extent for the next read of the same body.
    ///
    /// # Errors
    /// As [`Volume::record`]. Bytes that were read before stay valid.
    pub fn read(
        &self,
        record: &Record,
        position: &mut Position,
        offset: u64,
        max: usize,
    ) -> Result<Part, ReadError> {
        self.read_part(record, position, offset, max, Wait::Device)
    }

    /// As [`Volume::read`], but from the page cache alone.
    ///
    /// # Errors
    /// [`ReadError::NotResident`] if it would have to wait; otherwise as [`Volume::read`].
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

    /// Asks the writer to remove a record from the index. If the queue is full, the next reader asks again.
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

    /// Runs a job on one of the volume's threads, which may wait for the drive.
    ///
    /// # Errors
    /// [`Busy`] if too many jobs wait already: treat the object as absent.
    pub fn on_reader(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Busy> {
        self.readers.lock().as_ref().ok_or(Busy)?.run(Box::new(job))
    }

    /// Runs a job on one of the volume's threads, which may wait for the drive. The [`Answer`] resolves to
    /// its result, or to nothing if it takes longer than [`Volume::give_up`] allows. Returns `None` if too
    /// many jobs wait already.
    ///
    /// # Cancel safety
    /// Safe: the job runs to its end all the same.
    pub fn ask<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Option<Answer<T>> {
        let (say, said) = oneshot::channel();
        let (pending, answer) = self.waits.begin(self.clock.now(), said);
        let job = move || {
            let _ = say.send(job());
            drop(pending);
        };
        self.on_reader(job).ok().map(|()| answer)
    }

    /// Begins to store an object. `length` is that of its body, if it is known; `stamp` is stored with it.
    /// Readers find it in part once its first extent is written, or else when it is whole. Never waits.
    ///
    /// # Errors
    /// [`PutError`]: it is not stored.
    pub fn begin(
        self: &Arc<Volume>,
        key: &CacheKey,
        head: Bytes,
        stamp: u64,
        length: Option<u64>,
    ) -> Result<Put, PutError> {
        if self.shared.is_shut_out((self.shared.owner_of)(&key.full), length) {
            return Err(PutError::OverQuota);
        }
        if !self.may_spend(head.len() as u64 + length.unwrap_or(1)) {
            return Err(PutError::Spent);
        }
        let object = self.next_object.fetch_add(1, Ordering::Relaxed);
        self.begin_as(object, key, head, stamp, length)
    }

    /// As [`Volume::begin`], for an object that has its number from another volume.
    pub fn begin_as(
        self: &Arc<Volume>,
        object: u64,
        key: &CacheKey,
        head: Bytes,
        stamp: u64,
        length: Option<u64>,
    ) -> Result<Put, PutError> {
        let status = PutStatus::new();
        let described = ObjectHead { digest: key.digest, key: key.full.clone(), head, stamp, length };
        let put = Started::new(described, Arc::clone(&status));
        if !self.running.begin(Named { digest: key.digest, object }, stamp) {
            return Err(PutError::Removed);
        }
        let begun = self.send(Command::Begin { object, put: Box::new(put) });
        begun.inspect_err(|_| self.running.end(object))?;
        Ok(Put { volume: Arc::clone(self), object, digest: key.digest, status, is_open: true })
    }

    /// Stores an object whose body is at hand.
    ///
    /// # Errors
    /// [`PutError`]: it is not stored.
    pub fn store(
        self: &Arc<Volume>,
        key: &CacheKey,
        head: Bytes,
        stamp: u64,
        body: &[Bytes],
    ) -> Result<u64, PutError> {
        let length = body.iter().map(|part| part.len() as u64).sum();
        let put = self.begin(key, head, stamp, Some(length))?;
        let mut offset = 0;
        for part in body {
            put.push(offset, part.clone())?;
            offset += part.len() as u64;
        }
        put.finish(length)
    }

    /// Goes on storing an object that is held in part and has that stamp. Only one [`Put`] of an object is
    /// open at a time; several transfers may push to it.
    ///
    /// # Errors
    /// [`PutError`]: nothing is added. So while another [`Put`] of the object is open.
    pub fn resume(self: &Arc<Volume>, digest: u128, object: u64, stamp: u64) -> Result<Put, PutError> {
        if !self.may_spend(1) {
            return Err(PutError::Spent);
        }
        let status = PutStatus::new();
        if !self.running.resume(Named { digest, object }, stamp) {
            return Err(PutError::Failed);
        }
        let resumed = self.send(Command::Resume { object, digest, status: Arc::clone(&status) });
        resumed.inspect_err(|_| self.running.end(object))?;
        Ok(Put { volume: Arc::clone(self), object, digest, status, is_open: true })
    }

    /// Gives an object another head, after a 304. Its body stays where it is, and its stamp never falls.
    ///
    /// # Errors
    /// [`PutError`]: the object keeps the old head.
    pub fn refresh(&self, digest: u128, object: u64, head: Bytes, stamp: u64) -> Result<(), PutError> {
        if !self.may_spend(head.len() as u64) {
            return Err(PutError::Spent);
        }
        self.send(Command::Refresh { object, digest, head, stamp, instead_of: None })
    }

    /// As [`Volume::refresh`], but only where the object still has the head `seen` when its turn comes. It
    /// does not say whether it had.
    ///
    /// # Errors
    /// As there.
    pub fn rewrite(&self, named: Named, seen: &Bytes, head: Bytes, stamp: u64) -> Result<(), PutError> {
        if !self.may_spend(head.len() as u64) {
            return Err(PutError::Spent);
        }
        let Named { digest, object } = named;
        self.send(Command::Refresh { object, digest, head, stamp, instead_of: Some(seen.clone()) })
    }

    /// Removes an object for good. The removal is durable with the next epoch.
    ///
    /// # Errors
    /// [`PutError::QueueFull`] if even the queue's reserve is full: call again.
    pub fn remove(&self, digest: u128, object: u64) -> Result<(), PutError> {
        self.say(Command::Remove { object, digest })
    }

    /// Sends a command that stores something.
    fn send(&self, command: Command) -> Result<(), PutError> {
        if !self.shared.counters.state().is_writable() {
            return Err(PutError::Failed);
        }
        self.say(command)
    }

    /// Sends any command. Ends and removals also go to a volume that stores no more.
    pub(super) fn say(&self, command: Command) -> Result<(), PutError> {
        self.intake.send(command).map_err(|_| {
            Counters::add(&self.shared.counters.queue_full, 1);
            PutError::QueueFull
        })
    }

    /// Makes durable all that was sent before, removals included. Returns the durable epoch, or `None` if
    /// that failed. Blocks.
    pub fn sync(&self) -> Option<u64> {
        let (done, wait) = crossbeam_channel::bounded(1);
        self.intake.send(Command::Sync(done)).ok()?;
        wait.recv().ok()?
    }

    /// Reads all objects, checks every byte, and drops what is damaged. Blocks for as long as reading the
    /// volume takes; a break of `each` ends it early.
    ///
    /// # Errors
    /// [`ReadError::Device`] if the drive fails.
    pub fn verify(&self, each: EachDone<'_>) -> Result<Verified, ReadError> {
        let verified = verify(&self.shared, each, |hash, location, place| {
            // If the queue is full, the record stays until it is read or verified again.
            let _ = self.intake.send(Command::Damaged { hash, location, place });
        })?;
        self.sync();
        if verified.is_cut {
            return Ok(verified);
        }
        Ok(Verified { stocks_wrong: self.recount().unwrap_or(0), ..verified })
    }

    /// Counts again from the records what is held of each owner, while storing goes on, and corrects what
    /// differs. Returns the number of owners whose count was wrong; `None` if the volume does not write.
    /// Blocks for as long as reading all heads takes.
    pub fn recount(&self) -> Option<u64> {
        let (done, wait) = crossbeam_channel::bounded(1);
        self.intake.send(Command::Recount(done)).ok()?;
        wait.recv().ok()
    }

    /// Visits the records of all objects, segment by segment, in the order in which they were written, until
    /// `each` breaks. Checks heads, not bodies. Records that come or go in the meantime may be visited or
    /// not. Blocks for as long as reading the heads takes. Returns how many records were visited.
    ///
    /// # Errors
    /// [`ReadError::Device`] if the drive fails.
    pub fn walk(&self, each: impl FnMut(&Record) -> ControlFlow<()>) -> Result<u64, ReadError> {
        walk(&self.shared, Place::BEGIN, each)
    }

    /// What the volume holds of each owner of keys (of each site): objects, partial ones included, and bytes
    /// of bodies. Exact at every moment. Copies a small table.
    pub fn stocks(&self) -> Vec<(u64, Stock)> {
        let mut owners: Vec<(u64, Stock)> = self.shared.stocks.all().into_iter().collect();
        owners.sort_unstable_by_key(|(owner, _)| *owner);
        owners
    }

    /// Notes a use of the object under a digest. Used objects are written again before their segment is
    /// dropped.
    pub fn note_use(&self, digest: u128) {
        self.shared.uses.note(KeyHash::of(digest));
    }

    /// Sets how many bytes of each owner may be held; other owners have no quota. Above its quota, an owner's
    /// oldest content is removed within a second or so. Content that is still arriving is looked at once it
    /// has ended.
    pub fn set_quotas(&self, quotas: HashMap<u64, u64>) {
        self.shared.quotas.store(Arc::new(quotas));
    }

    /// What the volume holds of one owner.
    pub fn stock_of(&self, owner: u64) -> Stock {
        self.shared.stocks.of(owner)
    }

    /// The numbers of the segments that exist, oldest first, to compare with [`Record::segment`].
    pub fn segments(&self) -> Vec<u64> {
        self.shared.segments.numbers()
    }

    /// What the volume holds, and what it has done.
    pub fn usage(&self) -> VolumeUsage {
        VolumeUsage { queued_bytes: self.intake.waiting_bytes(), ..self.shared.usage() }
    }

    /// Changes the ceiling of all files together, in bytes. A smaller one is reached once the oldest segments
    /// are dropped.
    pub fn resize(&self, size_bytes: u64) {
        let size_bytes = size_bytes.clamp(SIZE_BYTES_MIN, SIZE_BYTES_MAX);
        self.shared.size_bytes.store(size_bytes, Ordering::Release);
    }

    /// Starts a check on a reading thread whether the folder is still there, and returns the result of the
    /// last check. One check runs at a time; it is a read that [`Volume::stuck_for`] counts.
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

    /// Whether the volume was read-only when it was opened and could be written at the last check of
    /// [`Volume::is_there`]. It stores again once it is opened again.
    pub fn is_unsealed(&self) -> bool {
        self.shared.counters.is_unsealed.load(Ordering::Acquire)
    }

    /// Lets the writer try again after too many writes have failed.
    pub fn write_again(&self) {
        self.shared.counters.write_again();
    }

    /// Whether some removals could not be written, so that their objects may be back after a restart.
    pub fn has_failed_removals(&self) -> bool {
        self.shared.counters.has_failed_removals.load(Ordering::Relaxed)
    }

    /// Bytes that wait to be written.
    pub fn waiting_bytes(&self) -> u64 {
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
}

/// All records that exist count, durable or not.
fn found(shared: &Shared) -> Reached {
    let end = shared.segments.all().values().map(|segment| (segment.number, segment.end())).max();
    let (segment, end) = end.unwrap_or_default();
    let epoch = shared.counters.durable_epoch.load(Ordering::Relaxed);
    Reached { epoch, end: segment << u32::BITS | (end / UNIT_BYTES) }
}

/// An object that is being stored. Dropped before its end, it is removed again.
#[derive(Debug)]
pub struct Put {
    volume: Arc<Volume>,
    object: u64,
    digest: u128,
    status: Arc<PutStatus>,
    is_open: bool,
}

impl Put {
    /// The object's number.
    pub fn number(&self) -> u64 {
        self.object
    }

    /// The status of the put, which the volume shares for as long as the object is being stored.
    pub fn status(&self) -> &Arc<PutStatus> {
        &self.status
    }

    /// Why storing stopped before its end, if it did.
    pub fn error(&self) -> Option<PutError> {
        self.status.error()
    }

    /// Whether `bytes` may be pushed now. Also true if storing has stopped, since [`Put::push`] then says
    /// why.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.status.error().is_some() || self.volume.intake.has_room(bytes)
    }

    /// Joins the tasks that wait for room in the queue. Look with [`Put::has_room`] after this.
    pub fn wait_for_room(&self) -> FreedWait {
        self.volume.intake.wait_for_room()
    }

    /// Adds bytes of the body at an offset. Bytes that are held already are not written again. Never waits.
    ///
    /// # Errors
    /// [`PutError`]: nothing more is stored. End the put according to what was stored.
    pub fn push(&self, offset: u64, bytes: Bytes) -> Result<(), PutError> {
        if let Some(error) = self.status.error() {
            return Err(error);
        }
        if bytes.is_empty() {
            return Ok(());
        }
        if !self.volume.may_spend(bytes.len() as u64) {
            self.status.fail(PutError::Spent);
            return Err(PutError::Spent);
        }
        let sent = self.volume.send(Command::Body { object: self.object, offset, bytes });
        sent.inspect_err(|error| self.status.fail(*error))
    }

    /// Ends the put: the body is whole.
    ///
    /// # Errors
    /// [`PutError`]: the object was not stored, or only in part, and is removed.
    pub fn finish(mut self, length: u64) -> Result<u64, PutError> {
        if let Some(error) = self.status.error() {
            return Err(error);
        }
        self.end(End::Whole(length)).map(|()| self.object)
    }

    /// Ends the put: nothing more comes, and what has come is kept as a partial object. Call this only where
    /// later bytes can be known to be of the same version.
    ///
    /// # Errors
    /// [`PutError::QueueFull`] if the queue is full: what was published stays until it is evicted.
    pub fn rest(mut self) -> Result<(), PutError> {
        self.end(End::Rest)
    }

    fn end(&mut self, end: End) -> Result<(), PutError> {
        self.is_open = false;
        let said = self.volume.say(Command::End { object: self.object, digest: self.digest, end });
        self.volume.running.end(self.object);
        said
    }
}

impl Drop for Put {
    fn drop(&mut self) {
        if self.is_open {
            // If the queue is full beyond its reserve, a partial object stays until it is evicted.
            let _ = self.end(End::Abandon);
        }
    }
}
