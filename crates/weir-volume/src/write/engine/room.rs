//! The ceiling: nothing is written before there is room for it.

use std::time::Duration;

use super::Engine;
use crate::settings::{FULL_PAUSE, spare_bytes};
use crate::usage::Counters;
use crate::write::put::PutError;

/// How often, and how long, to wait for readers of dropped segments, which have them open for one read.
const LEAVING_TRIES: u32 = 20;
const LEAVING_PAUSE: Duration = Duration::from_millis(1);

impl Engine {
    /// Makes room for another segment, and for the growth of the index while it is filled.
    pub(super) fn room_for_segment(&mut self) -> Result<(), PutError> {
        let wanted = self.segment_bytes() + self.index_growth();
        self.make_room(wanted)?;
        for _ in 0..2 {
            match self.shared.disk.room() {
                Ok(room) => {
                    let spare = spare_bytes(room.total_bytes);
                    if room.free_bytes >= spare.saturating_add(self.segment_bytes()) {
                        return Ok(());
                    }
                }
                Err(error) => return Err(self.note(&error)),
            }
            // Others have filled the file system: this volume shrinks, and keeps nothing for readers.
            if !self.release_all() {
                if !self.drop_oldest() {
                    break;
                }
                self.release_all();
            }
        }
        self.no_room()
    }

    /// How much the index may grow before this is asked again: by a checkpoint beside the old one, and by the
    /// journal.
    fn index_growth(&self) -> u64 {
        2 * self.checkpoint_bytes() + self.journal_bytes_max()
    }

    /// Makes room for bytes of the index.
    pub(super) fn room_for_index(&mut self, bytes: u64) -> Result<(), PutError> {
        self.make_room(bytes)
    }

    fn make_room(&mut self, bytes: u64) -> Result<(), PutError> {
        // A dropped segment counts while readers have it open. That is no reason to drop more than is needed.
        let mut tries = 0;
        loop {
            let lacking = (self.shared.space.used_bytes() + bytes).saturating_sub(self.shared.size_bytes());
            if lacking == 0 {
                return Ok(());
            }
            if self.dropped_bytes() >= lacking {
                if tries == LEAVING_TRIES {
                    // Storing goes on as soon as the readers are done, without a pause.
                    Counters::add(&self.shared.counters.full, 1);
                    return Err(PutError::Full);
                }
                tries += 1;
                std::thread::sleep(LEAVING_PAUSE);
            } else if !self.drop_oldest() && !self.release_for_room() {
                return self.no_room();
            }
        }
    }

    fn no_room(&mut self) -> Result<(), PutError> {
        Counters::add(&self.shared.counters.full, 1);
        self.paused_until = self.now + FULL_PAUSE;
        Err(PutError::Full)
    }

    /// Whether the oldest segment should be dropped for the next one to find room.
    pub(super) fn is_crowded(&self) -> bool {
        let used = self.shared.space.used_bytes().saturating_sub(self.dropped_bytes());
        let half = self.segment_bytes() / 2;
        let is_half_full = self.open.as_ref().is_some_and(|open| open.segment.end() > half);
        let wanted = if is_half_full { self.segment_bytes() + self.index_growth() } else { 0 };
        used + wanted > self.shared.size_bytes()
    }
}
