//! Objects that are being stored: bodies gathered into extents, and heads that are published, refreshed and
//! removed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weir_policy::{Interval, Intervals};

use super::Engine;
use crate::BLOCK_BYTES;
use crate::format::record::{Description, ExtentRef, Header, Kind, Table, block_sums};
use crate::index::stocks::Counted;
use crate::read::reader::Record;
use crate::settings::{EXTENTS_MAX, HEAD_BYTES_MAX, KEY_BYTES_MAX};
use crate::write::intake::Waiting;
use crate::write::put::{PutError, PutStatus};
use crate::write::storing::{End, ObjectHead, Put, Run};

/// How often waiting bodies are looked at.
const FLUSH_INTERVAL: Duration = Duration::from_millis(50);
/// A head is written again when the body has grown by this many times the head's length: about 3 % of all
/// that is written.
const HEAD_PER_BODY: u64 = 32;
/// The most runs of one body that wait at a time.
const RUNS_MAX: usize = 16;

impl Engine {
    /// Begins an object. Its status says why it stops, if it does.
    pub(crate) fn begin(&mut self, object: u64, put: Put) {
        self.next_object = self.next_object.max(object + 1);
        if put.key.len() > KEY_BYTES_MAX || put.head.len() > HEAD_BYTES_MAX {
            put.status.fail(PutError::TooLarge);
            return;
        }
        // A head takes at most a quarter of a segment, so that its extents fit beside it.
        if put.head_record_bytes() > self.segment_bytes() / 4 {
            put.status.fail(PutError::TooLarge);
            return;
        }
        self.puts.insert(object, put);
    }

    /// Goes on with an object that is held in part.
    pub(crate) fn resume(&mut self, object: u64, digest: u128, status: Arc<PutStatus>) {
        if let Some(put) = self.puts.get(&object) {
            // Two transfers write into one object: the second pushes through the put of the first, or is not
            // stored.
            status.fail(put.status.error().unwrap_or(PutError::Failed));
            return;
        }
        let locations = self.shared.locate(digest, object);
        let mut records = locations.into_iter().filter_map(|at| self.shared.any_record(at).ok());
        let Some(record) = records.find(|record| record.number == object) else {
            status.fail(PutError::Removed);
            return;
        };
        let owner = (self.shared.owner_of)(&record.key);
        if self.shared.is_shut_out(owner, None) {
            status.fail(PutError::OverQuota);
            return;
        }
        let counted = Counted::new(&self.shared.segments, owner, record.segment(), &record.extents);
        let Record { key, head, stamp, length, extents, location, .. } = record;
        let mut put = Put::new(ObjectHead { digest, key, head, stamp, length }, status);
        (put.published, put.counted, put.extents) = (Some(location), counted, extents);
        self.prune(&mut put);
        self.puts.insert(object, put);
    }

    /// Removes from a put's table the extents whose segments are gone.
    fn prune(&self, put: &mut Put) {
        put.extents.retain(|extent| self.shared.segments.has(extent.place.segment));
        put.held = Intervals::new();
        for extent in &put.extents {
            put.held.insert(Interval { start: extent.offset, end: extent.end() });
        }
    }

    /// Adds bytes of a body. Bytes that are held already are not written again.
    pub(crate) fn body(&mut self, object: u64, offset: u64, bytes: &Bytes, charge: Waiting) {
        let Some(put) = self.puts.get_mut(&object) else { return };
        let wanted = Interval { start: offset, end: offset + bytes.len() as u64 };
        let gaps: Vec<Interval> = put.held.gaps(wanted).collect();
        let mut charge = Some(charge);
        for gap in gaps {
            let part = bytes.slice((gap.start - offset) as usize..(gap.end - offset) as usize);
            if self.add(object, gap.start, part, charge.take()).is_err() {
                return;
            }
        }
    }

    fn add(
        &mut self,
        object: u64,
        offset: u64,
        part: Bytes,
        charge: Option<Waiting>,
    ) -> Result<(), PutError> {
        let now = self.now;
        let most = self.extent_bytes_max();
        let is_full = |put: &Put| put.run_at(offset).is_none() && put.waiting.len() >= RUNS_MAX;
        if self.puts.get(&object).is_some_and(is_full) {
            self.flush(object, 0, u64::MAX)?;
        }
        let Some(put) = self.puts.get_mut(&object) else { return Err(PutError::Removed) };
        let at = put.run_at(offset).unwrap_or_else(|| {
            put.waiting.push(Run { offset, since: now, ..Run::default() });
            put.waiting.len() - 1
        });
        put.held.insert(Interval { start: offset, end: offset + part.len() as u64 });
        let run = &mut put.waiting[at];
        run.bytes += part.len() as u64;
        run.pieces.push(part);
        run.take(charge);
        // The last extent waits for the end: an object that is whole by then becomes one record.
        while self.puts.get(&object).and_then(|put| put.waiting.get(at)).is_some_and(|run| run.bytes > most) {
            self.flush(object, at, most)?;
        }
        Ok(())
    }

    /// Writes up to `bytes` of a waiting run, and a head if one is due.
    fn flush(&mut self, object: u64, run: usize, bytes: u64) -> Result<(), PutError> {
        self.write_waiting(object, run, bytes)?;
        let is_time = |put: &Put| put.unpublished_bytes >= HEAD_PER_BODY * put.head_record_bytes();
        if self.puts.get(&object).is_some_and(is_time) {
            self.publish(object)?;
        }
        Ok(())
    }

    /// Writes up to `bytes` of a run as extents. Removes the run once it is empty.
    fn write_waiting(&mut self, object: u64, run: usize, bytes: u64) -> Result<(), PutError> {
        let most = self.extent_bytes_max();
        let mut left = bytes;
        while let Some(put) = self.puts.get_mut(&object) {
            let count = put.waiting.get(run).map_or(0, |run| run.bytes).min(most).min(left);
            let Some((offset, pieces)) = put.split(run, count).filter(|_| count > 0) else { break };
            left -= count;
            if let Err(ended) = self.write_extent(object, offset, count, &pieces) {
                self.end_put(object, ended);
                return Err(ended);
            }
            if let Some(waiting) = self.puts.get_mut(&object).and_then(|put| put.waiting.get_mut(run)) {
                waiting.settle();
            }
        }
        if let Some(put) = self.puts.get_mut(&object)
            && put.waiting.get(run).is_some_and(|run| run.bytes == 0)
        {
            put.waiting.remove(run);
        }
        Ok(())
    }

    pub(super) fn write_extent(
        &mut self,
        object: u64,
        offset: u64,
        count: u64,
        pieces: &[Bytes],
    ) -> Result<(), PutError> {
        let Some(put) = self.puts.get(&object) else { return Err(PutError::Removed) };
        if put.extents.len() >= EXTENTS_MAX {
            return Err(PutError::TooLarge);
        }
        let sums = block_sums(pieces.iter().map(|piece| &piece[..]));
        let header = Header { span: offset, count: count as u32, ..put.header(object, Kind::Extent) };
        let place = self.append(header, &Description::of_blocks(&sums), pieces)?;
        let Some(put) = self.puts.get_mut(&object) else { return Err(PutError::Failed) };
        let at = put.extents.partition_point(|extent| extent.offset < offset);
        put.extents.insert(at, ExtentRef { offset, length: count as u32, place });
        put.unpublished_bytes += count;
        Ok(())
    }

    /// Writes an object's head with its extents, and indexes it.
    pub(super) fn publish(&mut self, object: u64) -> Result<(), PutError> {
        let Some(mut put) = self.puts.remove(&object) else { return Err(PutError::Removed) };
        let header = put.header(object, Kind::Head);
        let written = if put.head_record_bytes() > self.segment_bytes() / 2 {
            Err(PutError::TooLarge)
        } else {
            let table = put.extents.clone();
            let (key, head) = (put.key.clone(), put.head.clone());
            // The put stays in the table while its head is written, so that a failure in between finds it.
            self.puts.insert(object, put);
            let description = Description { key: &key, head: &head, table: Table::Extents(&table) };
            let written = self.append(header, &description, &[]);
            match self.puts.remove(&object) {
                Some(still) => put = still,
                None => return Err(PutError::Failed),
            }
            written
        };
        match written {
            Ok(place) => {
                // Making room for the head may have dropped some of the extents.
                let owner = (self.shared.owner_of)(&put.key);
                let counted = Counted::new(&self.shared.segments, owner, place.segment, &put.extents);
                let older = put.published.map(|location| (location, &put.counted));
                let location = self.index_record(put.hash(), place, older, &counted);
                put.published = Some(location);
                let written = || Record::written(header, (location, place), put.extents.clone());
                self.shared.readers.renew(object, written);
                for run in put.extents.chunk_by(|one, next| one.place.segment == next.place.segment) {
                    if let Some(segment) = self.shared.segments.segment(run[0].place.segment) {
                        segment.note_named();
                    }
                }
                put.counted = counted;
                put.unpublished_bytes = 0;
                put.status.step();
                self.puts.insert(object, put);
                Ok(())
            }
            Err(ended) => {
                put.status.fail(ended);
                Err(ended)
            }
        }
    }

    /// Writes the bodies that have waited long enough.
    pub(super) fn flush_due(&mut self, is_pressed: bool) {
        let now = self.now;
        if now.saturating_sub(self.flushed_at) < FLUSH_INTERVAL && !is_pressed {
            return;
        }
        self.flushed_at = now;
        let due: Vec<u64> = self
            .puts
            .iter()
            .filter(|(_, put)| put.is_due(now, is_pressed))
            .map(|(object, _)| *object)
            .collect();
        for object in due {
            // From the last run to the first, since an emptied run leaves the list.
            for at in (0..self.puts.get(&object).map_or(0, |put| put.waiting.len())).rev() {
                let Some(run) = self.puts.get_mut(&object).and_then(|put| put.waiting.get_mut(at)) else {
                    break;
                };
                run.since = now;
                let waits = run.bytes;
                let bytes = if is_pressed { waits } else { waits - waits % BLOCK_BYTES as u64 };
                // A failed flush has ended the put and told its owner.
                let _ = self.flush(object, at, bytes);
            }
        }
    }

    /// Ends the put of an object.
    pub(crate) fn end(&mut self, object: u64, digest: u128, end: End) {
        match end {
            End::Abandon => self.remove(object, digest),
            End::Whole(length) => {
                // A failure has told the owner. What was published before stays as a partial object.
                let _ = self.finish(object, Some(length));
                self.puts.remove(&object);
            }
            End::Rest => {
                let _ = self.finish(object, None);
                self.puts.remove(&object);
            }
        }
    }

    pub(super) fn finish(&mut self, object: u64, whole: Option<u64>) -> Result<(), PutError> {
        let Some(put) = self.puts.get_mut(&object) else { return Ok(()) };
        if whole.is_some() {
            put.length = whole;
        }
        let is_small = put.extents.is_empty() && put.published.is_none();
        let pieces = match put.waiting.as_slice() {
            [] if is_small && whole == Some(0) => Some(Vec::new()),
            [run] if is_small && run.offset == 0 && whole == Some(run.bytes) => {
                put.split(0, u64::MAX).map(|(_, pieces)| pieces)
            }
            _ => None,
        };
        if let Some(pieces) = pieces {
            return self.write_object(object, &pieces);
        }
        for at in (0..put.waiting.len()).rev() {
            self.write_waiting(object, at, u64::MAX)?;
        }
        let is_new = |put: &Put| put.published.is_none() || put.unpublished_bytes > 0 || whole.is_some();
        // A partial object without a byte is not kept.
        let is_worth = |put: &Put| is_new(put) && (whole.is_some() || !put.extents.is_empty());
        if self.puts.get(&object).is_some_and(is_worth) {
            self.publish(object)?;
        }
        Ok(())
    }

    /// Writes a small object whole, as one record.
    fn write_object(&mut self, object: u64, pieces: &[Bytes]) -> Result<(), PutError> {
        let Some(put) = self.puts.get(&object) else { return Err(PutError::Removed) };
        let count = put.length.unwrap_or(0);
        let sums = block_sums(pieces.iter().map(|piece| &piece[..]));
        let header = Header { span: count, count: count as u32, ..put.header(object, Kind::Object) };
        let (key, head, hash) = (put.key.clone(), put.head.clone(), put.hash());
        let description = Description { key: &key, head: &head, table: Table::Blocks(&sums) };
        match self.append(header, &description, pieces) {
            Ok(place) => {
                let whole = ExtentRef { offset: 0, length: count as u32, place };
                let counted = Counted::new(
                    &self.shared.segments,
                    (self.shared.owner_of)(&key),
                    place.segment,
                    &[whole],
                );
                let location = self.index_record(hash, place, None, &counted);
                let written = || Record::written(header, (location, place), vec![whole]);
                self.shared.readers.renew(object, written);
                if let Some(put) = self.puts.get_mut(&object) {
                    (put.published, put.counted) = (Some(location), counted);
                    put.status.step();
                }
                Ok(())
            }
            Err(ended) => {
                self.end_put(object, ended);
                Err(ended)
            }
        }
    }

    /// Gives an object another head, whatever it has.
    #[cfg(test)]
    pub(crate) fn refresh(&mut self, object: u64, digest: u128, head: Bytes, stamp: u64) {
        self.refresh_if((object, digest), None, head, stamp);
    }

    /// Gives an object another head (RFC 9111 §4.3.4); with `instead_of` only where it still has that one.
    /// Its body stays where it is.
    pub(crate) fn refresh_if(
        &mut self,
        (object, digest): (u64, u128),
        instead_of: Option<&Bytes>,
        head: Bytes,
        stamp: u64,
    ) {
        if head.len() > HEAD_BYTES_MAX {
            return;
        }
        let is_running = self.puts.contains_key(&object);
        if !is_running {
            let status = PutStatus::new();
            self.resume(object, digest, Arc::clone(&status));
            if status.error().is_some() {
                return;
            }
        }
        let Some(put) = self.puts.get_mut(&object) else { return };
        if instead_of.is_some_and(|seen| put.head != *seen) {
            if !is_running {
                self.puts.remove(&object);
            }
            return;
        }
        put.head = head;
        put.stamp = put.stamp.max(stamp);
        let has_nothing = put.extents.is_empty() && put.length != Some(0);
        if is_running && put.published.is_none() {
            return;
        }
        if is_running || !has_nothing {
            let _ = self.publish(object);
        }
        if !is_running {
            self.puts.remove(&object);
        }
    }

    /// Ends a put that has failed. What was published of it stays until its owner decides.
    pub(super) fn end_put(&mut self, object: u64, ended: PutError) {
        if let Some(put) = self.puts.remove(&object) {
            put.status.fail(ended);
        }
    }
}
