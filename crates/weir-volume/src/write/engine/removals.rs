//! Removals by name: by an object's owner, or because a record is damaged.

use std::sync::atomic::Ordering;

use super::Engine;
use crate::format::journal::Change;
use crate::format::record::{Description, Header, Kind, Place};
use crate::index::{KeyHash, Location, Locations};
use crate::read::reader::Record;
use crate::usage::Counters;
use crate::write::put::PutError;
use crate::write::tasks::{Dropping, FailedRemoval};

impl Engine {
    /// As [`Engine::remove`], for an object that may be read. Of a long one, what has come by now is written
    /// first: memory may have let go of it.
    pub(crate) fn withdraw(&mut self, object: u64, digest: u128) {
        if self.puts.get(&object).is_some_and(|put| !put.extents.is_empty()) {
            let _ = self.finish(object, None);
        }
        self.remove(object, digest);
    }

    /// Where the index has the records of an object.
    fn locations_of(&self, object: u64, digest: u128) -> Locations {
        match self.puts.get(&object) {
            Some(put) => put.published.into_iter().collect(),
            None => self.shared.locate(digest, object),
        }
    }

    /// Tells an object's readers where it lies, since no index says so from here on.
    fn tell_readers(&self, object: u64, locations: &Locations) {
        if !self.shared.readers.has(object) {
            return;
        }
        let records = locations.iter().filter_map(|location| self.shared.any_record(*location).ok());
        if let Some(record) = records.max_by_key(Record::place) {
            self.shared.readers.renew(object, || record.for_reading());
        }
    }

    /// Removes an object for good: also if the index is lost.
    pub(crate) fn remove(&mut self, object: u64, digest: u128) {
        let locations = self.locations_of(object, digest);
        self.tell_readers(object, &locations);
        let running = self.puts.remove(&object);
        if let Some(put) = &running {
            put.status.fail(PutError::Removed);
            // Nothing of it was ever published.
            if put.published.is_none() {
                return;
            }
        }
        let hash = KeyHash::of(digest);
        if self.log_removal(object, digest).is_ok() {
            for location in locations {
                self.unindex(hash, location, running.as_ref().map(|put| &put.counted));
            }
            return;
        }
        // The log does not have the removal. The journal must not have it earlier, or an index that is made
        // again would bring the object back.
        let mut taken = Vec::new();
        for location in &locations {
            let counted = running.as_ref().map(|put| put.counted.clone());
            let counted = counted.or_else(|| self.shared.counted_at(*location).ok());
            self.shared.pending_removals.add(*location);
            let was = self.shared.index.remove(hash, *location);
            match counted {
                Some(counted) if was => {
                    self.books.uncount_in_memory(&self.shared, *location, &counted);
                    taken.push(counted);
                }
                None if was => self.want_recount(),
                _ => {}
            }
        }
        self.failed_removals.push(FailedRemoval { object, digest, locations, counted: taken });
        self.shared.counters.has_failed_removals.store(true, Ordering::Relaxed);
    }

    /// Writes an object's removal to the log.
    fn log_removal(&mut self, object: u64, digest: u128) -> Result<(), PutError> {
        let header = Header {
            kind: Kind::Gone,
            key_bytes: 0,
            number: object,
            stamp: 0,
            digest,
            span: 0,
            head_bytes: 0,
            count: 0,
        };
        self.append(header, &Description::of_blocks(&[]), &[])?;
        self.unsynced_removals.push((object, digest));
        Ok(())
    }

    /// Queues again the removals that were written since the last sync: the log may have lost them.
    pub(super) fn requeue_unsynced_removals(&mut self) {
        if self.unsynced_removals.is_empty() {
            return;
        }
        let unsynced = self.unsynced_removals.drain(..).map(|(object, digest)| FailedRemoval {
            object,
            digest,
            // These have left the index already, or are in the list of failed removals themselves.
            locations: Locations::new(),
            counted: Vec::new(),
        });
        self.failed_removals.extend(unsynced);
        self.shared.counters.has_failed_removals.store(true, Ordering::Relaxed);
    }

    /// Writes the removals that could not be written before. False while some of them still cannot.
    pub(super) fn retry_failed_removals(&mut self) -> bool {
        while let Some(removal) = self.failed_removals.pop() {
            if self.log_removal(removal.object, removal.digest).is_err() {
                self.failed_removals.push(removal);
                return false;
            }
            let hash = KeyHash::of(removal.digest);
            self.pending.extend(removal.locations.into_iter().map(|location| Change::Remove(hash, location)));
            for counted in &removal.counted {
                self.books.uncount_in_journal(&self.shared, counted);
            }
        }
        true
    }

    /// Leaves in the pending removals what the frame that was just written does not have.
    pub(super) fn settle_pending_removals(&self) {
        let failed = self.failed_removals.iter().flat_map(|removal| removal.locations.iter().copied());
        let dropping = self.dropping.as_ref().map(Dropping::number);
        self.shared.pending_removals.settle(failed, dropping.into_iter());
    }

    /// Removes a record that a reader has found to be damaged.
    pub(crate) fn drop_damaged(&mut self, hash: KeyHash, location: Location, place: Place) {
        let is_there = self.shared.segments.has(place.segment) && self.shared.index.has(hash, location);
        if is_there {
            self.unindex(hash, location, None);
            Counters::add(&self.shared.counters.damaged, 1);
            for put in self.puts.values_mut().filter(|put| put.published == Some(location)) {
                put.published = None;
            }
        }
    }
}
