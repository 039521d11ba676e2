//! Records and segments that have left the index in memory and may be back after a crash: the journal does
//! not have their removal yet.
//!
//! What is kept beside the volume about a record (a catalogue's row) must stay for as long as the record may
//! come back.

use std::collections::HashSet;

use parking_lot::Mutex;

use crate::index::Location;

/// The places and segments whose removal is pending. The writer adds to it and empties it.
#[derive(Debug, Default)]
pub(crate) struct PendingRemovals(Mutex<Removed>);

#[derive(Debug, Default)]
struct Removed {
    places: HashSet<Location>,
    segments: HashSet<u64>,
}

impl PendingRemovals {
    /// Notes a record that is about to leave the index.
    pub(crate) fn add(&self, location: Location) {
        self.0.lock().places.insert(location);
    }

    /// Notes a segment that is about to be dropped with all its records.
    pub(crate) fn add_segment(&self, number: u64) {
        self.0.lock().segments.insert(number);
    }

    /// Whether a record at that place of that segment may come back.
    pub(crate) fn has(&self, segment: u64, location: Location) -> bool {
        let removed = self.0.lock();
        removed.segments.contains(&segment) || removed.places.contains(&location)
    }

    /// Keeps only what the journal still lacks, now that its frame is durable.
    pub(crate) fn settle(&self, places: impl Iterator<Item = Location>, segments: impl Iterator<Item = u64>) {
        let mut removed = self.0.lock();
        removed.places = places.collect();
        removed.segments = segments.collect();
    }
}
