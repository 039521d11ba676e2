//! Reports what has left the index with a segment, before the segment's file goes: only its records have its
//! keys. They are read in the order of their places, in small steps, and only while a listener wants them.

use super::Engine;
use crate::eviction::Eviction;
use crate::index::Location;
use crate::read::reader::{ReadError, Wait};
use crate::write::tasks::Unreported;

/// How many records one step reads.
const HEADS_A_STEP: usize = if cfg!(test) { 5 } else { 64 };

impl Engine {
    /// Reports some more evictions. True while more are left.
    pub(super) fn report_some(&self, unreported: &mut Unreported) -> bool {
        let listener = &self.shared.listener;
        if unreported.0.is_empty() || !listener.is_listening() {
            // The listener has stopped listening.
            unreported.0.clear();
            return false;
        }
        for _ in 0..HEADS_A_STEP {
            let Some(location) = unreported.0.pop() else { break };
            match self.report_evicted(location) {
                Ok(()) => {}
                Err(ReadError::Gone | ReadError::NotResident) => listener.missed(1),
                // A failing drive is not asked for the rest. Each failed read may take long and brings the
                // volume nearer to its ejection.
                Err(ReadError::Device(_)) => listener.missed(1 + unreported.0.drain(..).count() as u64),
            }
        }
        !unreported.0.is_empty()
    }

    /// A store waits for the segment to go: evictions that cannot be read in a short time are not reported.
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
