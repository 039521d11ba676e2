//! Telling what has left the index with a segment, before the segment's file goes: its keys lie in its
//! records alone. They are read in the order of their places and in small steps, and only while somebody
//! listens.

use super::Engine;
use crate::eviction::Eviction;
use crate::index::Location;
use crate::read::reader::{ReadError, Wait};
use crate::write::tasks::Untold;

/// How many records one step reads.
const HEADS_A_STEP: usize = if cfg!(test) { 5 } else { 64 };

impl Engine {
    /// Tells some more of it. True while there is more.
    pub(super) fn tell_some(&self, untold: &mut Untold) -> bool {
        let watcher = &self.shared.watcher;
        if untold.0.is_empty() || !watcher.is_listening() {
            // Who listens no more is told no more.
            untold.0.clear();
            return false;
        }
        for _ in 0..HEADS_A_STEP {
            let Some(location) = untold.0.pop() else { break };
            match self.tell_evicted(location) {
                Ok(()) => {}
                Err(ReadError::Gone | ReadError::NotResident) => watcher.miss(1),
                // A drive that fails is not asked for the rest: each failure may take long, and brings its
                // end nearer.
                Err(ReadError::Device(_)) => watcher.miss(1 + untold.0.drain(..).count() as u64),
            }
        }
        !untold.0.is_empty()
    }

    /// Whoever stores waits for a segment to go: what cannot be read in a short time is not told.
    pub(super) fn hurry(&self, untold: &mut Untold) {
        self.shared.watcher.miss(untold.shorten());
    }

    fn tell_evicted(&self, location: Location) -> Result<(), ReadError> {
        let shared = &self.shared;
        let (segment, place) = shared.segments.at(location).ok_or(ReadError::Gone)?;
        let told = shared.described(&segment, place, Wait::Device, |described, _| {
            let counted = shared.counted(described, place)?;
            shared.watcher.tell(described.key, counted.bytes(), Eviction::Room);
            Some(())
        })?;
        told.ok_or(ReadError::Gone)
    }
}
