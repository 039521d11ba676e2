//! Long objects that were removed lately. The reader of one knows of it what was written when it last looked,
//! and may look once more, though no request finds the object.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::format::record::Place;
use crate::index::Location;

/// The most objects that are remembered.
const REMOVED_MAX: usize = 1024;

/// Where the records of removed objects lie, the oldest removal first. A record goes with its segment.
#[derive(Debug, Default)]
pub(crate) struct Removed(Mutex<VecDeque<(u64, Location, Place)>>);

impl Removed {
    pub(crate) fn note(&self, object: u64, location: Location, place: Place) {
        let mut removed = self.0.lock();
        if removed.len() == REMOVED_MAX {
            removed.pop_front();
        }
        removed.push_back((object, location, place));
    }

    /// The record of an object, where it was removed lately.
    pub(crate) fn find(&self, object: u64) -> Option<(Location, Place)> {
        let removed = self.0.lock();
        removed
            .iter()
            .rev()
            .find(|(number, ..)| *number == object)
            .map(|(_, location, place)| (*location, *place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_removals_are_forgotten() {
        let removed = Removed::default();
        for object in 0..=REMOVED_MAX as u64 {
            removed.note(object, Location::of(object), Place { segment: 1, unit: object as u32 });
        }
        assert!(removed.find(0).is_none());
        assert_eq!(removed.find(1).map(|(_, place)| place.unit), Some(1));
    }
}
