//! Making durable: the open segment, then the journal's frame; and checkpoints, piece by piece.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Engine;
use crate::format::checkpoint;
use crate::format::checkpoint::{Preface, Step, Writing};
use crate::format::journal;
use crate::format::journal::{
    CHANGE_BYTES, Change, FRAME_HEADER_BYTES, Frame, JOURNAL_HEADER_BYTES, Journal,
};
use crate::format::record::UNIT_BYTES;
use crate::index::Location;
use crate::index::segment;
use crate::settings::{JOURNAL_BYTES_MAX, SYNC_INTERVAL};
use crate::usage::Counters;

/// The least time between the beginnings of two checkpoints, so that they do not keep a failing drive busy.
const CHECKPOINT_PAUSE: Duration = Duration::from_secs(2);

impl Engine {
    pub(super) fn sync_due(&mut self) {
        if self.now.saturating_sub(self.synced_at) >= SYNC_INTERVAL {
            self.sync();
        }
    }

    /// Makes durable all that was written before. False if that failed.
    pub(crate) fn sync(&mut self) -> bool {
        let is_durable = self.sync_all();
        if is_durable {
            // The log has every removal, durably.
            self.shared.counters.has_failed_removals.store(false, Ordering::Relaxed);
        }
        is_durable
    }

    fn sync_all(&mut self) -> bool {
        self.synced_at = self.now;
        if !self.shared.counters.state().is_writable() {
            return false;
        }
        self.unlink_stuck();
        let is_said = self.retry_failed_removals();
        let synced = self.sync_segment() && is_said;
        if self.are_names_new {
            // Segments that the journal names must exist, and those that it calls dropped must not come back.
            match self.shared.disk.sync_folder(segment::FOLDER) {
                Ok(()) => self.are_names_new = false,
                Err(error) => {
                    self.note(&error);
                    return false;
                }
            }
        }
        let is_told = self.shared.ledger_durable() == self.ledger_told;
        if self.pending.is_empty() && !self.books.is_dirty() && is_told {
            return synced;
        }
        let framed = self.write_frame();
        synced && framed
    }

    fn sync_segment(&mut self) -> bool {
        let Some(open) = &mut self.open else { return true };
        let end = open.segment.end();
        if end == open.synced {
            return true;
        }
        let mut result = open.segment.file.sync_data();
        if result.is_ok() && !open.is_named {
            result = self.shared.disk.sync_folder(segment::FOLDER);
        }
        if let Err(error) = result {
            self.fail_segment(&error);
            return false;
        }
        open.is_named = true;
        open.synced = end;
        self.unsynced_removals.clear();
        self.books.settle_fresh();
        let segment = open.segment.number;
        self.pending.push(Change::Durable { segment, unit: (end / UNIT_BYTES) as u32 });
        true
    }

    /// Writes what is pending as the next epoch's frame.
    fn write_frame(&mut self) -> bool {
        let places = self.pending.len() + 2 * self.books.dirty_len();
        let length = (FRAME_HEADER_BYTES + JOURNAL_HEADER_BYTES + places * CHANGE_BYTES) as u64;
        if self.room_for_index(length).is_err() {
            return false;
        }
        let number = match &self.journal {
            Some(journal) => journal.number,
            None => match self.begin_journal() {
                Some(number) => number,
                None => return false,
            },
        };
        let mut changes = std::mem::take(&mut self.pending);
        let pending = changes.len();
        let stock = |(segment, owner, stock)| Change::Stock { segment, owner, stock };
        changes.extend(self.books.dirty_cells().map(stock));
        let (stamp_max, ledger) = (self.shared.stamp_max(), self.shared.ledger_durable());
        let (epoch, next_object) = (self.epoch + 1, self.next_object);
        let mut frame = Frame { epoch, next_object, stamp_max, ledger, changes };
        let bytes = frame.to_bytes(&self.shared.superblock, number);
        self.shared.grant(bytes.len() as u64);
        let Some(journal) = &mut self.journal else { return false };
        if let Err(error) = journal.append(&bytes) {
            // The frame may have arrived or not. It is written again, whole, to another file.
            self.journal = None;
            frame.changes.truncate(pending);
            self.pending = frame.changes;
            self.note(&error);
            return false;
        }
        let total = journal.bytes;
        if let Some(charge) = self.journal_charges.get(&number) {
            charge.set(total);
        }
        Counters::add(&self.shared.counters.journal_bytes, bytes.len() as u64);
        self.epoch = frame.epoch;
        self.ledger_told = ledger;
        self.shared.counters.durable_epoch.store(self.epoch, Ordering::Relaxed);
        for change in frame.changes {
            match change {
                Change::Durable { segment, unit } => {
                    self.durable.insert(segment, unit);
                    if let Some(segment) = self.shared.segments.segment(segment) {
                        segment.set_durable(u64::from(unit) * UNIT_BYTES);
                    }
                }
                Change::Dropped { segment } => {
                    self.durable.remove(&segment);
                }
                Change::Add(..) | Change::Remove(..) | Change::Stock { .. } => {}
            }
        }
        self.books.settle_dirty(&self.shared);
        self.settle_pending_removals();
        true
    }

    /// Begins another journal file. Returns its number.
    fn begin_journal(&mut self) -> Option<u64> {
        let number = self.next_file;
        self.next_file += 1;
        let charge = self.shared.space.charge(JOURNAL_HEADER_BYTES as u64);
        self.journal_charges.insert(number, charge);
        self.shared.grant(JOURNAL_HEADER_BYTES as u64);
        match Journal::begin(&*self.shared.disk, &self.shared.superblock, number) {
            Ok(journal) => {
                Counters::add(&self.shared.counters.journal_bytes, journal.bytes);
                self.journal = Some(journal);
                Some(number)
            }
            Err(error) => {
                self.note(&error);
                None
            }
        }
    }

    /// Writes one part of a checkpoint, if one is due. True while there is more to write.
    pub(super) fn step_checkpoint(&mut self) -> bool {
        // A checkpoint would make removals durable that the log does not have.
        if self.may_write().is_err() || !self.failed_removals.is_empty() {
            self.give_up_checkpoint();
            return false;
        }
        if self.checkpoint.is_none() && !self.begin_checkpoint() {
            return false;
        }
        let part = self.checkpoint.as_ref().map_or(0, |writing| writing.next_bytes(&self.shared.index));
        if self.room_for_index(part).is_err() || self.is_ready_for_trailer() && !self.sync() {
            self.give_up_checkpoint();
            return false;
        }
        self.shared.grant(part);
        let Some(writing) = &mut self.checkpoint else { return false };
        let shared = &self.shared;
        let geometry = shared.segments.geometry;
        let is_durable = |segments: &BTreeMap<u64, u32>, location: Location| {
            let Some((segment, _)) = shared.segments.at(location) else { return false };
            segments.get(&segment.number).is_some_and(|unit| geometry.unit(location) < *unit)
        };
        let before = writing.bytes;
        let step = writing.step(&*shared.disk, &shared.superblock, &shared.index, is_durable);
        let bytes = writing.bytes;
        Counters::add(&shared.counters.checkpoint_bytes, bytes - before);
        let number = writing.preface.number;
        if let Some(charge) = self.checkpoint_charges.get(&number) {
            charge.set(bytes);
        }
        match step {
            Ok(Step::More) => true,
            Ok(Step::Done) => {
                self.end_checkpoint();
                false
            }
            Err(error) => {
                self.note(&error);
                self.give_up_checkpoint();
                false
            }
        }
    }

    fn is_ready_for_trailer(&self) -> bool {
        self.checkpoint.as_ref().is_some_and(|writing| writing.is_ready_for_trailer(&self.shared.index))
    }

    /// How long the journals may get before a checkpoint, in bytes: as long as a checkpoint, within limits.
    pub(super) fn journal_bytes_max(&self) -> u64 {
        self.journal_bytes_min.max(self.checkpoint_bytes().min(JOURNAL_BYTES_MAX))
    }

    pub(super) fn checkpoint_bytes(&self) -> u64 {
        let index = &self.shared.index;
        let (segments, cells) = (self.shared.segments.len(), self.books.rows.len());
        checkpoint::bytes_for(index.len(), index.shards(), segments, cells)
    }

    fn begin_checkpoint(&mut self) -> bool {
        let journals: u64 = self.journal_charges.values().map(crate::index::segment::Charge::bytes).sum();
        if self.now < self.checkpoint_after || !self.wants_checkpoint && journals < self.journal_bytes_max() {
            return false;
        }
        self.checkpoint_after = self.now + CHECKPOINT_PAUSE;
        // The journal that continues from here.
        if self.room_for_index(self.checkpoint_bytes()).is_err() {
            return false;
        }
        let Some(journal) = self.begin_journal() else { return false };
        let preface = Preface {
            number: self.next_file,
            journal,
            epoch: self.epoch,
            next_object: self.next_object,
            stamp_max: self.shared.stamp_max(),
            ledger: self.shared.ledger_durable(),
            shard_bits: self.shared.index.shard_bits(),
            segments: self.durable.clone(),
            stocks: self.books.rows.clone(),
        };
        self.next_file += 1;
        let number = preface.number;
        self.checkpoint_charges.insert(number, self.shared.space.charge(0));
        match Writing::begin(&*self.shared.disk, &self.shared.superblock, preface) {
            Ok(writing) => {
                Counters::add(&self.shared.counters.checkpoint_bytes, writing.bytes);
                if let Some(charge) = self.checkpoint_charges.get(&number) {
                    charge.set(writing.bytes);
                }
                self.checkpoint = Some(writing);
                true
            }
            Err(error) => {
                self.note(&error);
                self.unlink_index(&checkpoint::path(number));
                self.checkpoint_charges.remove(&number);
                false
            }
        }
    }

    /// The checkpoint is durable: the files before it are not needed any more.
    fn end_checkpoint(&mut self) {
        let Some(writing) = self.checkpoint.take() else { return };
        self.wants_checkpoint = false;
        let keep = writing.into_preface();
        let older: Vec<u64> =
            self.checkpoint_charges.range(..keep.number).map(|(number, _)| *number).collect();
        for number in older {
            self.unlink_index(&checkpoint::path(number));
            self.checkpoint_charges.remove(&number);
        }
        let older: Vec<u64> = self.journal_charges.range(..keep.journal).map(|(number, _)| *number).collect();
        for number in older {
            self.unlink_index(&journal::path(number));
            self.journal_charges.remove(&number);
        }
    }

    fn give_up_checkpoint(&mut self) {
        let Some(writing) = self.checkpoint.take() else { return };
        let number = writing.preface.number;
        drop(writing);
        self.unlink_index(&checkpoint::path(number));
        self.checkpoint_charges.remove(&number);
    }

    fn unlink_index(&mut self, path: &str) {
        if let Err(error) = self.shared.disk.unlink(path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            self.note(&error);
        }
    }
}
