//! Counts again what is held of each owner, entry by entry, between other work: after an entry has left of
//! which it is not known what it counted for, and when somebody asks whether the books are right.

use crossbeam_channel::Sender;

use super::Engine;
use crate::format::record::Place;
use crate::index::Location;
use crate::read::reader::ReadError;
use crate::read::verify::entries_of;
use crate::state::VolumeState;
use crate::write::tasks::Recounting;

/// How many records one step looks at: some hundreds of microseconds where they lie in the page cache.
const RECORDS_A_STEP: usize = if cfg!(test) { 4 } else { 64 };

impl Engine {
    /// Asks for a recount: an entry left the index of which it is not known what it counted for.
    pub(super) fn want_recount(&mut self) {
        self.recounting.is_repair = true;
        self.begin_recount();
    }

    /// Recounts, and sends the result to `done`.
    pub(crate) fn recount_for(&mut self, done: Sender<u64>) {
        self.recounting.asked.push(done);
        if self.books.recounted_to().is_none() {
            self.begin_recount();
        }
    }

    fn begin_recount(&mut self) {
        self.recounting.batch.clear();
        self.books.begin_recount();
    }

    /// Takes some steps of a recount. True while there is more to do at once.
    pub(super) fn step_recount(&mut self) -> bool {
        let Some(mut cursor) = self.books.recounted_to() else { return false };
        for _ in 0..RECORDS_A_STEP {
            let Some((shard, entry)) = self.recounting.batch.pop_front() else {
                match self.next_batch(cursor) {
                    Some(next) => {
                        cursor = next;
                        self.books.recounted(None, cursor);
                        continue;
                    }
                    None => return self.end_recount(),
                }
            };
            let location = Location::of(entry);
            let unit = self.shared.segments.geometry.unit(location);
            cursor = Place { segment: cursor.segment, unit: unit + 1 };
            let is_there =
                self.shared.segments.has(cursor.segment) && self.shared.index.has_entry(shard, entry);
            match is_there.then(|| self.shared.counted_at(location)) {
                Some(Err(ReadError::Device(_))) => return self.recount_again(),
                Some(Ok(counted)) => self.books.recounted(Some(&counted), cursor),
                // A damaged record is not held.
                Some(Err(ReadError::Gone | ReadError::NotResident)) | None => {
                    self.books.recounted(None, cursor);
                }
            }
        }
        true
    }

    /// The drive has failed, and what could not be read is held all the same. After some failures the volume
    /// is ejected, and nobody asks any more.
    fn recount_again(&mut self) -> bool {
        if self.shared.counters.state() == VolumeState::Ejected {
            self.books.give_up_recount();
            self.recounting = Recounting::default();
            return false;
        }
        self.begin_recount();
        true
    }

    /// Lists the first segment from a place on that has entries, and returns where it begins. `None` at the
    /// end.
    fn next_batch(&mut self, cursor: Place) -> Option<Place> {
        let numbers = self.shared.segments.numbers();
        for number in numbers.into_iter().filter(|number| *number >= cursor.segment) {
            let first = if number == cursor.segment { cursor.unit } else { 0 };
            let mut entries = entries_of(&self.shared, number);
            entries.retain(|(_, entry)| self.shared.segments.geometry.unit(Location::of(*entry)) >= first);
            if !entries.is_empty() {
                self.recounting.batch = entries.into();
                return Some(Place { segment: number, unit: first });
            }
        }
        None
    }

    /// Ends the count once no segment is being dropped.
    fn end_recount(&mut self) -> bool {
        if self.dropping.is_some() {
            return true;
        }
        let failed = self.failed_removals.iter().flat_map(|removal| &removal.counted);
        let differing = self.books.end_recount(&self.shared, failed);
        if std::mem::take(&mut self.recounting.is_repair) {
            // Callers want only the differences that have no known cause: count once more for them.
            if !self.recounting.asked.is_empty() {
                self.begin_recount();
                return true;
            }
            return false;
        }
        for asked in self.recounting.asked.drain(..) {
            // The caller may have gone.
            let _ = asked.send(differing);
        }
        false
    }
}

#[cfg(test)]
impl Engine {
    /// Whether counts may be wrong at the moment.
    pub(crate) fn is_repairing(&self) -> bool {
        self.recounting.is_repair
    }
}
