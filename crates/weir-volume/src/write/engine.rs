//! The writing half of a volume: everything that changes index, segments and journal, on one thread and in
//! one order.
//!
//! The engine has no thread and no clock of its own. `Volume` drives it with commands and moments; tests
//! drive it step by step. Every 500 ms it syncs the open segment, then writes and syncs the journal's frame;
//! from then on that epoch is durable. A segment that has failed is closed at its last synced byte, and what
//! came after is forgotten: after a failed sync, a later one proves nothing.

mod evict;
mod evictions;
pub(crate) mod kept;
mod puts;
mod quota;
mod recount;
mod reinsertion;
mod removals;
mod room;
mod sync;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;

use crate::format::checkpoint::Writing;
use crate::format::journal::{Change, Journal};
use crate::format::record::preamble;
use crate::format::record::preamble::SEGMENT_HEADER_BYTES;
use crate::format::record::{Description, Header, Place, UNIT_BYTES, describe};
use crate::index::segment::{Charge, Segment, path};
use crate::index::stocks::Counted;
use crate::index::{KeyHash, Location};
use crate::numbers::Durable;
use crate::settings::{EXTENT_BYTES_MAX, FULL_PAUSE};
use crate::shared::Shared;
use crate::usage::Counters;
use crate::write::books::Books;
use crate::write::engine::kept::Kept;
use crate::write::intake::{Command, Waiting};
use crate::write::put::PutError;
use crate::write::storing::Put;
use crate::write::tasks::{Dropping, FailedRemoval, Lists, Recounting, Reinsertion};

static PADDING: [u8; UNIT_BYTES as usize] = [0; UNIT_BYTES as usize];

/// The open segment: the one that is being written.
#[derive(Debug)]
pub(crate) struct Open {
    segment: Arc<Segment>,
    /// The bytes of it that are on the device.
    synced: u64,
    /// Whether its name is on the device.
    is_named: bool,
}

/// The engine.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) shared: Arc<Shared>,
    open: Option<Open>,
    next_segment: u64,
    /// Numbers of objects below this are in use.
    next_object: u64,
    journal: Option<Journal>,
    /// The number of the next journal or checkpoint.
    next_file: u64,
    /// The bytes of the index files.
    journal_charges: BTreeMap<u64, Charge>,
    checkpoint_charges: BTreeMap<u64, Charge>,
    /// The changes since the last frame.
    pending: Vec<Change>,
    /// The unit up to which the journal has each segment.
    durable: BTreeMap<u64, u32>,
    epoch: u64,
    /// How far the ledger was durable when the last frame was written.
    ledger_told: Durable,
    /// The counts of each owner.
    pub(crate) books: Books,
    recounting: Recounting,
    checkpoint: Option<Writing>,
    /// A checkpoint is wanted, however short the journal is.
    wants_checkpoint: bool,
    checkpoint_after: Duration,
    journal_bytes_min: u64,
    puts: HashMap<u64, Put>,
    dropping: Option<Dropping>,
    /// The oldest objects of the owners that are at their quota.
    oldest_of: Lists,
    /// What is wanted of the segment that is dropped next.
    reinsertion: Option<Reinsertion>,
    /// Removals that could not be written to the log. They are tried again before anything else is made
    /// durable.
    failed_removals: Vec<FailedRemoval>,
    /// Removals that the log has but not durably, by object and digest.
    unsynced_removals: Vec<(u64, u128)>,
    /// Files to unlink again, since that failed.
    stuck: Vec<Arc<Segment>>,
    /// Dropped segments that readers may still have open.
    dropped: Vec<Weak<Segment>>,
    /// Dropped segments that are kept for readers.
    kept: Kept,
    /// Segments were created or unlinked since their folder was synced.
    are_names_new: bool,
    /// Nothing is stored until then: there was no room.
    paused_until: Duration,
    now: Duration,
    synced_at: Duration,
    flushed_at: Duration,
}

/// What recovery hands to the engine.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) next_segment: u64,
    pub(crate) next_object: u64,
    pub(crate) next_file: u64,
    pub(crate) journal_charges: BTreeMap<u64, Charge>,
    pub(crate) checkpoint_charges: BTreeMap<u64, Charge>,
    pub(crate) pending: Vec<Change>,
    pub(crate) durable: BTreeMap<u64, u32>,
    pub(crate) epoch: u64,
    pub(crate) books: Books,
    /// The index has entries that the books do not know of.
    pub(crate) wants_recount: bool,
    pub(crate) wants_checkpoint: bool,
    pub(crate) are_names_new: bool,
    pub(crate) journal_bytes_min: u64,
}

impl Engine {
    pub(crate) fn new(shared: Arc<Shared>, start: Start, now: Duration) -> Engine {
        let (wants_recount, ledger_told) = (start.wants_recount, shared.ledger_durable());
        let mut engine = Engine {
            shared,
            open: None,
            next_segment: start.next_segment,
            next_object: start.next_object,
            journal: None,
            next_file: start.next_file,
            journal_charges: start.journal_charges,
            checkpoint_charges: start.checkpoint_charges,
            pending: start.pending,
            durable: start.durable,
            epoch: start.epoch,
            ledger_told,
            books: start.books,
            recounting: Recounting::default(),
            checkpoint: None,
            wants_checkpoint: start.wants_checkpoint,
            checkpoint_after: Duration::ZERO,
            journal_bytes_min: start.journal_bytes_min,
            puts: HashMap::new(),
            dropping: None,
            reinsertion: None,
            oldest_of: Lists::new(),
            failed_removals: Vec::new(),
            unsynced_removals: Vec::new(),
            stuck: Vec::new(),
            dropped: Vec::new(),
            kept: Kept::default(),
            are_names_new: start.are_names_new,
            paused_until: Duration::ZERO,
            now,
            synced_at: now,
            flushed_at: now,
        };
        if wants_recount {
            engine.want_recount();
        }
        engine
    }

    /// The number that the next object gets.
    pub(crate) fn next_object(&self) -> u64 {
        self.next_object
    }

    fn segment_bytes(&self) -> u64 {
        self.shared.segments.geometry.segment_bytes
    }

    /// The longest extent in bytes: at most a quarter of a segment.
    fn extent_bytes_max(&self) -> u64 {
        EXTENT_BYTES_MAX.min(self.segment_bytes() / 4)
    }

    /// Whether the volume may write.
    fn may_write(&self) -> Result<(), PutError> {
        match self.shared.counters.state().is_writable() {
            true if self.now < self.paused_until => Err(PutError::Full),
            true => Ok(()),
            false => Err(PutError::Failed),
        }
    }

    /// Writes a record at the end of the open segment.
    fn append(
        &mut self,
        header: Header,
        description: &Description<'_>,
        body: &[Bytes],
    ) -> Result<Place, PutError> {
        self.may_write()?;
        let length = header.fit(description).record_bytes();
        if length > self.segment_bytes() - SEGMENT_HEADER_BYTES as u64 {
            return Err(PutError::TooLarge);
        }
        let is_room =
            self.open.as_ref().is_some_and(|open| open.segment.end() + length <= self.segment_bytes());
        if !is_room {
            self.open_next()?;
        }
        let Some(open) = &self.open else { return Err(PutError::Failed) };
        self.shared.note_stamp(header.stamp);
        let end = open.segment.end();
        let place = Place { segment: open.segment.number, unit: (end / UNIT_BYTES) as u32 };
        let described = describe(header, description, self.shared.superblock.secret, place);
        let body_bytes: u64 = body.iter().map(|part| part.len() as u64).sum();
        let padding = length - described.len() as u64 - body_bytes;
        let mut parts: Vec<&[u8]> = Vec::with_capacity(body.len() + 2);
        parts.push(&described);
        parts.extend(body.iter().map(|part| &part[..]));
        parts.push(&PADDING[..padding as usize]);
        self.shared.grant(length);
        if let Err(error) = open.segment.file.write_all_at(&parts, end) {
            return Err(self.fail_segment(&error));
        }
        open.segment.set_end(end + length);
        Counters::add(&self.shared.counters.body_bytes, body_bytes);
        Counters::add(&self.shared.counters.head_bytes, length - body_bytes);
        Ok(place)
    }

    /// Closes the open segment and creates the next.
    fn open_next(&mut self) -> Result<(), PutError> {
        self.close_segment()?;
        self.room_for_segment()?;
        let mut number = self.next_segment;
        while !self.shared.segments.is_free(number) {
            number += 1;
        }
        self.next_segment = number + 1;
        let header = preamble::to_bytes(&self.shared.superblock, number);
        self.shared.grant(header.len() as u64);
        let created = self.shared.disk.create(&path(number)).and_then(|file| {
            file.write_all_at(&[&header], 0)?;
            Ok(file)
        });
        let file = match created {
            Ok(file) => file,
            Err(error) => {
                let _ = self.shared.disk.unlink(&path(number));
                return Err(self.note(&error));
            }
        };
        Counters::add(&self.shared.counters.head_bytes, header.len() as u64);
        let charge = self.shared.space.charge(self.segment_bytes());
        let segment = Arc::new(Segment::new(number, file, header.len() as u64, charge));
        self.shared.segments.add(Arc::clone(&segment));
        self.open = Some(Open { segment, synced: 0, is_named: false });
        Ok(())
    }

    /// Makes the open segment durable and closes it.
    fn close_segment(&mut self) -> Result<(), PutError> {
        if self.open.is_none() {
            return Ok(());
        }
        self.sync();
        match self.open.take() {
            Some(open) => {
                open.segment.settle();
                Ok(())
            }
            None => Err(PutError::Failed),
        }
    }

    /// Counts a write error. After one that says "full", storing pauses for a while.
    fn note(&mut self, error: &std::io::Error) -> PutError {
        if self.shared.counters.note_write(error) {
            self.release_all();
            self.paused_until = self.now + FULL_PAUSE;
            return PutError::Full;
        }
        PutError::Failed
    }

    /// Closes the open segment after an error: it ends where it was last synced, and what came after is lost.
    fn fail_segment(&mut self, error: &std::io::Error) -> PutError {
        let ended = self.note(error);
        let Some(open) = self.open.take() else { return ended };
        let number = open.segment.number;
        let end = open.synced;
        self.requeue_unsynced_removals();
        self.forget_from(number, end);
        let lost: BTreeSet<u64> = self
            .puts
            .iter()
            .filter(|(_, put)| {
                put.extents.iter().any(|e| e.place.segment == number && e.place.offset() >= end)
            })
            .map(|(object, _)| *object)
            .collect();
        for object in lost {
            self.end_put(object, ended);
        }
        open.segment.set_end(end);
        if end <= SEGMENT_HEADER_BYTES as u64 {
            self.discard(&open.segment);
        } else {
            let _ = open.segment.file.truncate(end);
            open.segment.settle();
        }
        ended
    }

    /// Removes from the index, and from the pending changes, what lies in a segment from byte `end` on.
    fn forget_from(&mut self, number: u64, end: u64) {
        let geometry = self.shared.segments.geometry;
        let is_lost = |location: Location| {
            geometry.slot(location) == geometry.slot_of(number)
                && u64::from(geometry.unit(location)) * UNIT_BYTES >= end
        };
        for shard in 0..self.shared.index.shards() {
            self.shared.index.retain(shard, |location| !is_lost(location));
        }
        self.books.forget(&self.shared, is_lost);
        self.pending.retain(|change| match change {
            Change::Add(_, location) | Change::Remove(_, location) => !is_lost(*location),
            Change::Durable { .. } | Change::Dropped { .. } | Change::Stock { .. } => true,
        });
        for put in self.puts.values_mut() {
            put.published = put.published.filter(|location| !is_lost(*location));
        }
    }

    /// Indexes a record, in place of an older one of the same object.
    fn index_record(
        &mut self,
        hash: KeyHash,
        place: Place,
        older: Option<(Location, &Counted)>,
        counted: &Counted,
    ) -> Location {
        let location = self.shared.segments.geometry.location(place);
        // A reader that looks in between finds the object twice, and never not at all.
        if self.shared.index.insert(hash, location) {
            self.pending.push(Change::Add(hash, location));
            self.books.count(&self.shared, location, counted);
        }
        if let Some((older, counted)) = older {
            self.unindex(hash, older, Some(counted));
        }
        location
    }

    /// Removes a record from the index. Reads what it counted for if that is not known.
    fn unindex(&mut self, hash: KeyHash, location: Location, counted: Option<&Counted>) {
        let counted = match counted {
            Some(counted) => Some(counted.clone()),
            None => self.shared.counted_at(location).ok(),
        };
        self.shared.pending_removals.add(location);
        let was = self.shared.index.remove(hash, location);
        // The journal has a dropping segment's entries until the segment is gone.
        let segment = self.shared.segments.place(location).map(|place| place.segment);
        if !was && !segment.is_some_and(|segment| self.books.is_dropping(segment)) {
            return;
        }
        self.pending.push(Change::Remove(hash, location));
        match counted {
            Some(counted) => self.books.uncount(&self.shared, location, &counted),
            None => self.want_recount(),
        }
    }

    /// Does what is due: writes waiting bodies, syncs, and takes a step of a checkpoint and of dropping a
    /// segment. True while there is more to do at once.
    pub(crate) fn step(&mut self, now: Duration, is_pressed: bool) -> bool {
        self.now = now;
        self.shared.counters.is_full.store(now < self.paused_until, Ordering::Relaxed);
        self.flush_due(is_pressed);
        self.sync_due();
        self.step_kept();
        let more = self.step_dropping() | self.step_recount() | self.step_quota();
        self.step_checkpoint() || more
    }
}

impl Engine {
    /// Applies a command. False after the last one.
    pub(crate) fn apply(&mut self, command: Command, waiting: Waiting) -> bool {
        match command {
            Command::Begin { object, put } => self.begin(object, *put),
            Command::Resume { object, digest, status } => self.resume(object, digest, status),
            Command::Body { object, offset, bytes } => self.body(object, offset, &bytes, waiting),
            Command::End { object, digest, end } => self.end(object, digest, end),
            Command::Refresh { object, digest, head, stamp, instead_of } => {
                self.refresh_if((object, digest), instead_of.as_ref(), head, stamp);
            }
            Command::Remove { object, digest } => self.withdraw(object, digest),
            Command::Damaged { hash, location, place } => self.drop_damaged(hash, location, place),
            Command::Free { segment, seen, has_gone } => self.free(segment, seen, has_gone),
            Command::Sync(done) => {
                if !self.shared.disk.is_sealed() {
                    self.finish_dropping();
                }
                let is_durable = self.sync();
                // The caller may have gone.
                let _ = done.send(is_durable.then_some(self.epoch));
            }
            Command::Recount(done) => self.recount_for(done),
            Command::Stop => {
                self.sync();
                self.release_all();
                return false;
            }
        }
        true
    }

    /// Whether nothing waits to be written or made durable.
    pub(crate) fn is_idle(&self) -> bool {
        let is_synced = self.open.as_ref().is_none_or(|open| open.synced == open.segment.end());
        let has_said = self.pending.is_empty() && !self.books.is_dirty();
        self.puts.is_empty() && has_said && is_synced && self.stuck.is_empty()
    }
}

#[cfg(test)]
impl Engine {
    pub(crate) fn drop_oldest_for_tests(&mut self) -> bool {
        self.drop_oldest()
    }

    pub(crate) fn dropping_for_tests(&self) -> Option<u64> {
        self.dropping.as_ref().map(Dropping::number)
    }

    pub(crate) fn skip_segments_for_tests(&mut self, next: u64) {
        self.next_segment = next;
    }
}
