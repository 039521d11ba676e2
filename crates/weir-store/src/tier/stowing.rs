//! Writing a generation down while it arrives, and what the volume has no room for a little later.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{LATE_PAUSE, LATE_TRIES_MAX, Tier};
use crate::body::{BLOCK_BYTES, Body, Piece, Read};
use crate::generation::Generation;
use crate::volume::Put;

/// How many bodies may wait so.
const LATE_MAX: usize = 2;

/// A generation that is being written down. Dropped without an end it is taken out again.
#[derive(Debug)]
pub(crate) struct Stowing {
    put: Put,
    tier: Arc<Tier>,
    /// Up to here it was handed over.
    at: u64,
}

impl Stowing {
    pub(crate) fn new(put: Put, tier: Arc<Tier>) -> Stowing {
        Stowing { put, tier, at: 0 }
    }

    /// Up to here it was handed over.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Hands over what a body holds up to `end`, as far as the volume has room for it now; what it has not stays in memory
    /// for the next time. False where no more is taken: storing has ended, or what comes next is not held any more.
    pub(crate) fn push(&mut self, body: &Body, end: u64) -> bool {
        while self.at < end {
            let Read::Piece(Piece::Bytes(bytes)) = body.read(self.at, BLOCK_BYTES) else {
                self.tier.note_unkept();
                return false;
            };
            let count = bytes.len() as u64;
            if !self.put.has_room(count) {
                return true;
            }
            if self.put.push(self.at, bytes).is_err() {
                return false;
            }
            self.at += count;
        }
        true
    }

    /// The body has come whole. What the volume has had no room for is handed over by a thread of its own, for a bounded
    /// time; `then` is called once all is.
    pub(crate) fn finish(
        mut self,
        generation: Arc<Generation>,
        length: u64,
        then: impl FnOnce(&Generation) + Send + 'static,
    ) {
        match self.stage(&generation.body, length) {
            Stage::Ended => return,
            Stage::Handed => return self.conclude(&generation, length, then),
            Stage::Waits => {}
        }
        let tier = Arc::clone(&self.tier);
        let Some(late) = Late::begin(&tier) else { return tier.note_unkept() };
        let offer = move || {
            let _late = late;
            for _ in 0..LATE_TRIES_MAX {
                std::thread::sleep(LATE_PAUSE);
                match self.stage(&generation.body, length) {
                    Stage::Ended => return,
                    Stage::Handed => return self.conclude(&generation, length, then),
                    Stage::Waits => {}
                }
            }
            self.tier.note_unkept();
        };
        if tier.volume.on_reader(offer).is_err() {
            tier.note_unkept();
        }
    }

    fn stage(&mut self, body: &Body, length: u64) -> Stage {
        match self.push(body, length) {
            true if self.at == length => Stage::Handed,
            true => Stage::Waits,
            false => Stage::Ended,
        }
    }

    fn conclude(self, generation: &Generation, length: u64, then: impl FnOnce(&Generation)) {
        if self.put.finish(length).is_ok() {
            then(generation);
        }
    }
}

/// How far a body that has come whole has gone down.
enum Stage {
    /// All was handed over.
    Handed,
    /// The volume has no room for the rest now.
    Waits,
    /// It is not kept.
    Ended,
}

/// A place among those whose rest waits for room.
struct Late(Arc<Tier>);

impl Late {
    /// `None` where there are enough: they take threads that others want to read by.
    fn begin(tier: &Arc<Tier>) -> Option<Late> {
        let late = Late(Arc::clone(tier));
        (tier.late.fetch_add(1, Ordering::AcqRel) < LATE_MAX).then_some(late)
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        self.0.late.fetch_sub(1, Ordering::AcqRel);
    }
}
