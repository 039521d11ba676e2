//! Telling what has left the index with a segment, before the segment's file goes: its keys lie in its
//! records alone. They are read in the order of their places and in small steps, and only while somebody
//! listens.

use super::Engine;
use crate::eviction::Eviction;
use crate::index::Location;
use crate::read::reader::{ReadError, Wait};
use crate::write::tasks::Unreported;

/// How many records one step reads.
const HEADS_A_STEP: usize = if cfg!(test) { 5 } else { 64 };

impl Engine {
    /// Tells some more of it. True while there is more.
    pub(super) fn report_some(&self, unreported: &mut Unreported) -> bool {
        let listener = &self.shared.listener;
        if unreported.0.is_empty() || !listener.is_listening() {
            // Who listens no more is told no more.
            unreported.0.clear();
            return false;
        }
        for _ in 0..HEADS_A_STEP {
            let Some(location) = unreported.0.pop() else { break };
            match self.report_evicted(location) {
                Ok(()) => {}
                Err(ReadError::Gone | ReadError::NotResident) => listener.missed(1),
                // A drive that fails is not asked for the rest: each failure may take long, and brings its
                // end nearer.
                Err(ReadError::Device(_)) => listener.missed(1 + unreported.0.drain(..).count() as u64),
            }
        }
        !unreported.0.is_empty()
    }

    /// Whoever stores waits for a segment to go: what cannot be read in a short time is not told.
    pub(super) fn hurry(&self, unreported: &mut Unreported) {
        self.shared.listener.missed(unreported.shorten());
    }

    fn report_evicted(&self, location: Location) -> Result<(), ReadError> {
        let shared = &self.shared;
        let (segment, place) = shared.segments.at(location).ok_or(ReadError::Gone)?;
        let told = shared.described(&segment, place, Wait::Device, |described, _| {
            let counted = shared.counted(described, place)?;
            shared.listener.evicted(described.key, counted.bytes(), Eviction::Room);
            Some(())
        })?;
        told.ok_or(ReadError::Gone)
    }
}
