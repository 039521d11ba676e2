//! An upgrade, as memory sees it: the old process gives back all that no reader holds, and keeps to a ceiling
//! that only falls; the new one leaves free what the old ones hold. So all together stay within the ceiling.

use std::sync::Arc;

use super::residence::LEAVING_AT_ONCE;
use super::{Memory, Queues};
use crate::generation::{Generation, Residence, Retirement};

/// This part of the memory is left to a process that has given it back, for what it still has to fetch.
const ROOM_PART: u64 = 32;
/// At least so much, a few reserves of bodies that arrive; but no more than a larger part.
const ROOM_BYTES_MIN: u64 = 1 << 20;
const ROOM_PART_MIN: u64 = 8;
/// What is left free for others is taken in pieces of this part of it, so that much of it is found where not
/// all is.
const PIECE_PART: u64 = 64;
/// And of at least so many bytes.
const PIECE_BYTES_MIN: u64 = 64 << 10;

impl Memory {
    /// Forgets all that is at rest, and keeps nothing from now on. What readers hold stays charged until they
    /// let it go.
    pub(crate) fn give_back(&self) {
        self.change().state.is_given_back = true;
        let mut at_rest: Vec<Arc<Generation>> = Vec::new();
        self.index.each(|generation| {
            if generation.residence() == Residence::Resident {
                at_rest.push(Arc::clone(generation));
            }
        });
        for some in at_rest.chunks(LEAVING_AT_ONCE) {
            let mut change = self.change();
            // Nobody is told: the next process may have it all.
            for generation in some.iter().filter(|one| one.residence() == Residence::Resident) {
                generation.set_residence(Residence::Retired(Retirement::Evicted));
                self.index.remove(&generation.label);
                let owner = change.state.queues.unlink(generation);
                change.retired.extend(owner);
            }
        }
        drop(at_rest);
        let mut change = self.change();
        if change.state.queues.load().count == 0 {
            change.state.queues = Queues::new(0);
        }
    }

    /// Lowers the ceiling to what readers and transfers hold, with a little room. Returns it, in bytes.
    pub(crate) fn lower_ceiling(&self) -> u64 {
        let all = self.limits.memory_bytes;
        self.budget.lower((all / ROOM_PART).max(ROOM_BYTES_MIN).min(all / ROOM_PART_MIN))
    }

    /// Leaves `bytes` free for other processes, evicting as needed, in place of what was left free for them
    /// before. Returns how many it could: readers may hold the rest.
    pub(crate) fn leave_to_others(&self, bytes: u64) -> u64 {
        let mut elsewhere = self.elsewhere.lock();
        if elsewhere.bytes() > bytes {
            let more = elsewhere.bytes() - bytes;
            drop(elsewhere.split(more));
        }
        let piece = ((bytes - elsewhere.bytes()) / PIECE_PART).max(PIECE_BYTES_MIN);
        while elsewhere.bytes() < bytes {
            match self.charge(piece.min(bytes - elsewhere.bytes())) {
                Some(charge) => elsewhere.join(charge),
                None => break,
            }
        }
        elsewhere.bytes()
    }
}
