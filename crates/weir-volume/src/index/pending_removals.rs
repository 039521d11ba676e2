//! What has left the index in memory and may be back after a crash, since the journal does not say so yet.
//!
//! Whatever is kept beside the volume about a record (a catalogue's row) must stay as long as the record may
//! come back.

use std::collections::HashSet;

use parking_lot::Mutex;

use crate::index::Location;

/// Places and segments that are neither there for sure nor gone for sure. The writer fills and empties it.
#[derive(Debug, Default)]
pub(crate) struct PendingRemovals(Mutex<Removed>);

#[derive(Debug, Default)]
struct Removed {
    places: HashSet<Location>,
    segments: HashSet<u64>,
}

impl PendingRemovals {
    /// A record is about to leave the index.
    pub(crate) fn add(&self, location: Location) {
        self.0.lock().places.insert(location);
    }

    /// A segment is about to be dropped, with all that lies in it.
    pub(crate) fn add_segment(&self, number: u64) {
        self.0.lock().segments.insert(number);
    }

    /// Whether what lay in that place of that segment may come back.
    pub(crate) fn has(&self, segment: u64, location: Location) -> bool {
        let removed = self.0.lock();
        removed.segments.contains(&segment) || removed.places.contains(&location)
    }

    /// The journal is durable: all is gone but what was not said in it.
    pub(crate) fn settle(&self, places: impl Iterator<Item = Location>, segments: impl Iterator<Item = u64>) {
        let mut removed = self.0.lock();
        removed.places = places.collect();
        removed.segments = segments.collect();
    }
}
