//! The ceiling: nothing is written before there is room for it.

use std::time::Duration;

use super::Engine;
use crate::settings::{FULL_PAUSE, spare_bytes};
use crate::usage::Counters;
use crate::write::put::Ended;

/// A reader has a dropped segment for the length of one read: it is waited for so often, and so long.
const LEAVING_TRIES: u32 = 20;
const LEAVING_PAUSE: Duration = Duration::from_millis(1);

impl Engine {
    /// Makes room for another segment, and for what the index grows by while it is filled.
    pub(super) fn room_for_segment(&mut self) -> Result<(), Ended> {
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
            // Others have filled the file system: this volume gets smaller.
            if !self.drop_oldest() {
                break;
            }
        }
        self.no_room()
    }

    /// What the index may grow by before this is asked again: a checkpoint beside the old one, and the
    /// journal.
    fn index_growth(&self) -> u64 {
        2 * self.checkpoint_bytes() + self.journal_bytes_max()
    }

    /// Makes room for something of the index.
    pub(super) fn room_for_index(&mut self, bytes: u64) -> Result<(), Ended> {
        self.make_room(bytes)
    }

    fn make_room(&mut self, bytes: u64) -> Result<(), Ended> {
        // What readers hold of a dropped segment counts until they let go: more than is needed is not dropped
        // for it.
        let mut tries = 0;
        loop {
            let lacking = (self.shared.space.used_bytes() + bytes).saturating_sub(self.shared.size_bytes());
            if lacking == 0 {
                return Ok(());
            }
            if self.leaving_bytes() >= lacking {
                if tries == LEAVING_TRIES {
                    // Storing goes on as soon as they let go: no pause.
                    Counters::add(&self.shared.counters.full, 1);
                    return Err(Ended::Full);
                }
                tries += 1;
                std::thread::sleep(LEAVING_PAUSE);
            } else if !self.drop_oldest() {
                return self.no_room();
            }
        }
    }

    fn no_room(&mut self) -> Result<(), Ended> {
        Counters::add(&self.shared.counters.full, 1);
        self.paused_until = self.now + FULL_PAUSE;
        Err(Ended::Full)
    }

    /// Whether the oldest segment should be on its way out, for the next one to find room.
    pub(super) fn is_crowded(&self) -> bool {
        let used = self.shared.space.used_bytes().saturating_sub(self.leaving_bytes());
        let half = self.segment_bytes() / 2;
        let is_half_full = self.open.as_ref().is_some_and(|open| open.segment.end() > half);
        let wanted = if is_half_full { self.segment_bytes() + self.index_growth() } else { 0 };
        used + wanted > self.shared.size_bytes()
    }
}
