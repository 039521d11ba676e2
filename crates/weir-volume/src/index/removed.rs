//! Long objects that were removed lately. Who reads one knows of it what was written when it last looked. It
//! may look once more, though no request finds the object.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::read::reader::Candidate;

/// The most objects that are remembered.
const REMOVED_MAX: usize = 1024;

/// Where the records of removed objects lie, the oldest removal first. A record goes with its segment.
#[derive(Debug, Default)]
pub(crate) struct Removed(Mutex<VecDeque<(u64, Candidate)>>);

impl Removed {
    pub(crate) fn note(&self, object: u64, candidate: Candidate) {
        let mut removed = self.0.lock();
        if removed.len() == REMOVED_MAX {
            removed.pop_front();
        }
        removed.push_back((object, candidate));
    }

    /// The record of an object, where it was removed lately.
    pub(crate) fn find(&self, object: u64) -> Option<Candidate> {
        let removed = self.0.lock();
        removed.iter().rev().find(|(number, _)| *number == object).map(|(_, candidate)| *candidate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::Place;
    use crate::index::Location;

    #[test]
    fn the_oldest_removals_are_forgotten() {
        let removed = Removed::default();
        let candidate =
            |unit| Candidate { location: Location::of(u64::from(unit)), place: Place { segment: 1, unit } };
        for object in 0..=REMOVED_MAX as u64 {
            removed.note(object, candidate(object as u32));
        }
        assert!(removed.find(0).is_none());
        assert_eq!(removed.find(1).map(|found| found.place.unit), Some(1));
    }
}
