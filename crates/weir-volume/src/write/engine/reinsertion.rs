//! Writes again what is still wanted of the oldest segment before it is dropped: in small steps, while there
//! is room in the open segment, and as far as the write budget allows. [`super::super::reinsert`] decides
//! what.
//!
//! An object keeps its number. Of its records the last one counts, so that a crash at any moment leaves one
//! of the two. What lies in the segment without a record there (the middle of a long body, a body whose head
//! was refreshed) is dropped with it.

use std::sync::Arc;

use bytes::Bytes;

use super::Engine;
use crate::format::record::{Description, ExtentRef, Header, Kind, LENGTH_UNKNOWN, Table, block_sums};
use crate::index::stocks::Counted;
use crate::index::{KeyHash, Location};
use crate::read::reader::{Part, Position, Record, Wait};
use crate::read::verify::entries_of;
use crate::usage::Counters;
use crate::write::put::{PutError, PutStatus};
use crate::write::reinsert::{Wanted, allowance_bytes, choose, uses_after};
use crate::write::tasks::Reinsertion;

/// The most used objects of a segment that are looked at; those with the most uses come first.
const LOOKED_AT_MAX: usize = 4096;
/// How many of them one step looks at.
const LOOKED_AT_ONCE: usize = 64;
/// About what a record takes beside its body, in bytes.
const DESCRIPTION_BYTES: u64 = 512;
/// The bytes that one step writes, beside its last object.
const STEP_BYTES: u64 = 1 << 20;

impl Engine {
    /// Begins to write again what is wanted of a segment.
    pub(super) fn begin_reinsertion(&self, number: u64) -> Reinsertion {
        let mut used = Vec::new();
        for (shard, entry) in entries_of(&self.shared, number) {
            let hash = self.shared.index.hash_of(shard, entry);
            let uses = self.shared.uses.of(hash);
            if uses > 0 {
                used.push((uses, hash, Location::of(entry)));
            }
        }
        used.sort_unstable_by_key(|(uses, _, location)| (*uses, *location));
        let superfluous = used.len().saturating_sub(LOOKED_AT_MAX);
        used.drain(..superfluous).for_each(|(_, hash, _)| self.shared.uses.set(hash, 0));
        Reinsertion { number, used, found: Vec::new(), chosen: None }
    }

    /// Takes one step. True while there is more to do.
    pub(super) fn step_reinsertion(&mut self, reinsertion: &mut Reinsertion) -> bool {
        if let Some(chosen) = &mut reinsertion.chosen {
            let mut left = STEP_BYTES;
            while left > 0 {
                let Some((hash, location, wanted)) = chosen.pop() else { return false };
                left = left.saturating_sub(wanted.bytes);
                if !self.reinsert(hash, location, wanted) {
                    return false;
                }
            }
            return true;
        }
        for _ in 0..LOOKED_AT_ONCE {
            let Some((uses, hash, location)) = reinsertion.used.pop() else {
                reinsertion.chosen = Some(self.choose(std::mem::take(&mut reinsertion.found)));
                return true;
            };
            let Ok(counted) = self.shared.counted_at(location) else { continue };
            let bytes = counted.bytes_in(reinsertion.number) + DESCRIPTION_BYTES;
            reinsertion.found.push((hash, location, Wanted { uses, bytes }));
        }
        true
    }

    fn choose(&self, found: Vec<(KeyHash, Location, Wanted)>) -> Vec<(KeyHash, Location, Wanted)> {
        let wanted: Vec<Wanted> = found.iter().map(|(.., wanted)| *wanted).collect();
        let mut chosen = choose(&wanted, allowance_bytes(self.segment_bytes()));
        chosen.reverse();
        // The next object at the same count begins without uses.
        found.iter().for_each(|(hash, ..)| self.shared.uses.set(*hash, 0));
        chosen.into_iter().map(|at| found[at]).collect()
    }

    /// Writes an object again. False if nothing more may be written.
    fn reinsert(&mut self, hash: KeyHash, location: Location, wanted: Wanted) -> bool {
        if self.may_write().is_err() || !self.shared.has_left(wanted.bytes) {
            return false;
        }
        let Ok(record) = self.shared.any_record(location) else { return true };
        // A sweep under way judges old objects where they lie. It must not miss one because it has moved.
        let is_looked_for = self.shared.is_looked_for(record.stamp);
        if is_looked_for || self.puts.contains_key(&record.number) || !self.shared.index.has(hash, location) {
            return true;
        }
        // An object that does not fit would close the segment, and room for another might have to come from
        // this very one.
        let most = record.memory_bytes() + wanted.bytes + wanted.bytes / 64 + 1024;
        let room = self.open.as_ref().map_or(0, |open| self.segment_bytes() - open.segment.end());
        if most > room {
            return false;
        }
        match self.write_again(record) {
            Ok(true) => {
                self.shared.uses.set(hash, uses_after(wanted.uses));
                Counters::add(&self.shared.uses.reinserted, 1);
                Counters::add(&self.shared.uses.reinserted_bytes, wanted.bytes);
                true
            }
            // It is not what was stored: its next reader reports that.
            Ok(false) => true,
            Err(_) => false,
        }
    }

    /// Writes a record at the end of the log, with the bytes of its body that lie in the same segment. False
    /// if those cannot be read.
    fn write_again(&mut self, record: Record) -> Result<bool, PutError> {
        let location = record.location;
        if record.is_object() {
            let Some(body) = self.read_run(&record, 0, record.length.unwrap_or(0)) else { return Ok(false) };
            return self.write_object_again(&record, &body).map(|()| true);
        }
        let (object, digest) = (record.number, record.digest);
        let status = PutStatus::new();
        self.resume(object, digest, Arc::clone(&status));
        let is_own = self.puts.get(&object).is_some_and(|put| put.published == Some(location));
        if status.error().is_some() || !is_own {
            self.puts.remove(&object);
            return Ok(false);
        }
        let written = self.write_runs_again(&record);
        self.puts.remove(&object);
        written
    }

    /// Writes one run after another, so that only one is in memory. False if one cannot be read.
    fn write_runs_again(&mut self, record: &Record) -> Result<bool, PutError> {
        let (object, number) = (record.number, record.segment());
        if let Some(put) = self.puts.get_mut(&object) {
            put.extents.retain(|extent| extent.place.segment != number);
        }
        for extent in record.extents.iter().filter(|extent| extent.place.segment == number) {
            let count = u64::from(extent.length);
            // The runs that were written so far belong to no record, and are dropped with their segment.
            let Some(body) = self.read_run(record, extent.offset, count) else { return Ok(false) };
            self.write_extent(object, extent.offset, count, &body)?;
        }
        self.publish(object).map(|()| true)
    }

    fn write_object_again(&mut self, record: &Record, body: &[Bytes]) -> Result<(), PutError> {
        let sums = block_sums(body.iter().map(|part| &part[..]));
        let count = body.iter().map(|part| part.len() as u64).sum::<u64>() as u32;
        let header = Header {
            kind: Kind::Object,
            key_bytes: 0,
            number: record.number,
            stamp: record.stamp,
            digest: record.digest,
            span: record.length.unwrap_or(LENGTH_UNKNOWN),
            head_bytes: 0,
            count,
        };
        let description = Description { key: &record.key, head: &record.head, table: Table::Blocks(&sums) };
        let place = self.append(header, &description, body)?;
        let whole = ExtentRef { offset: 0, length: count, place };
        let owner = (self.shared.owner_of)(&record.key);
        let counted = Counted::new(&self.shared.segments, owner, place.segment, &[whole]);
        let older = Counted::new(&self.shared.segments, owner, record.segment(), &record.extents);
        let replaced = Some((record.location, &older));
        let location = self.index_record(KeyHash::of(record.digest), place, replaced, &counted);
        let written = || Record::written(header, (location, place), vec![whole]);
        self.shared.readers.renew(record.number, written);
        Ok(())
    }

    /// Reads a run of a body, checked; `None` if it is not what was stored.
    fn read_run(&self, record: &Record, start: u64, length: u64) -> Option<Vec<Bytes>> {
        let (mut parts, mut position, mut at) = (Vec::new(), Position::default(), start);
        let end = start + length;
        while at < end {
            let most = usize::try_from(end - at).unwrap_or(usize::MAX);
            match self.shared.read(record, &mut position, at, most, Wait::Device) {
                Ok(Part::Bytes(checked)) => {
                    at += checked.bytes().len() as u64;
                    parts.push(checked.into_bytes());
                }
                Ok(Part::End | Part::Gap) | Err(_) => return None,
            }
        }
        Some(parts)
    }
}
