//! What leaves by name: removed by its owner, or found not to be what was stored.

use std::sync::atomic::Ordering;

use super::Engine;
use crate::format::journal::Change;
use crate::format::record::{Header, Kind, Place, Table};
use crate::index::{KeyHash, Location, Locations};
use crate::usage::Counters;
use crate::write::put::Ended;
use crate::write::tasks::{Dropping, Owed};

impl Engine {
    /// Takes an object out, for good: also when the index is lost.
    pub(crate) fn remove(&mut self, object: u64, digest: u128) {
        let running = self.puts.remove(&object);
        if let Some(put) = &running {
            put.fate.end(Ended::Removed);
        }
        let locations = match &running {
            // Nothing of it was ever found.
            Some(put) if put.published.is_none() => return,
            Some(put) => put.published.into_iter().collect(),
            None => self.shared.locate(digest, object),
        };
        let hash = KeyHash::of(digest);
        if self.say_gone(object, digest).is_ok() {
            for location in locations {
                self.unindex(hash, location, running.as_ref().map(|put| &put.counted));
            }
            return;
        }
        // The log does not have it: until it has, the journal must not either, or an index made again would
        // bring it back.
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
        self.owed.push(Owed { object, digest, locations, counted: taken });
        self.shared.counters.owes.store(true, Ordering::Relaxed);
    }

    /// Writes into the log that an object is no more.
    fn say_gone(&mut self, object: u64, digest: u128) -> Result<(), Ended> {
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
        self.append(header, &[], &[], Table::Blocks(&[]), &[])?;
        self.said.push((object, digest));
        Ok(())
    }

    /// What was said since the last sync may be lost: it is owed again.
    pub(super) fn unsay(&mut self) {
        if self.said.is_empty() {
            return;
        }
        let again = self.said.drain(..).map(|(object, digest)| Owed {
            object,
            digest,
            // Those are out of the index, or owed themselves.
            locations: Locations::new(),
            counted: Vec::new(),
        });
        self.owed.extend(again);
        self.shared.counters.owes.store(true, Ordering::Relaxed);
    }

    /// Writes the removals that could not be written before. False while some cannot.
    pub(super) fn pay_owed(&mut self) -> bool {
        while let Some(owed) = self.owed.pop() {
            if self.say_gone(owed.object, owed.digest).is_err() {
                self.owed.push(owed);
                return false;
            }
            let hash = KeyHash::of(owed.digest);
            self.pending.extend(owed.locations.into_iter().map(|location| Change::Remove(hash, location)));
            for counted in &owed.counted {
                self.books.uncount_in_journal(&self.shared, counted);
            }
        }
        true
    }

    /// What is neither in the index nor said to be gone, after a frame that has said the rest.
    pub(super) fn settle_pending_removals(&self) {
        let owed = self.owed.iter().flat_map(|owed| owed.locations.iter().copied());
        let dropping = self.dropping.as_ref().map(Dropping::number);
        self.shared.pending_removals.settle(owed, dropping.into_iter());
    }

    /// A reader has found that a record is not what was stored.
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
