//! Writing a generation down while it arrives, and what the volume has no room for a little later.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{LATE_PAUSE, LATE_TRIES_MAX, Tier};
use crate::body::{BLOCK_BYTES, Body, Piece, Read};
use crate::generation::Generation;
use crate::volume::Put;

/// How many bodies may wait for room.
const LATE_MAX: usize = 4096;
/// How many of them may hold their bytes in memory that nobody else wants there.
const LATE_HOLDING_MAX: usize = 2;

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

    /// The body has come whole. What the volume has had no room for waits in line, for a bounded time; `then` is called once
    /// all is handed over.
    pub(crate) fn finish(
        mut self,
        generation: &Arc<Generation>,
        length: u64,
        keeper: Keeper,
        then: impl FnOnce(&Generation) + Send + 'static,
    ) {
        match self.stage(&generation.body, length) {
            Stage::Ended => return,
            Stage::Handed => return self.conclude(generation, length, then),
            Stage::Waits => {}
        }
        let tier = Arc::clone(&self.tier);
        let held = match keeper {
            Keeper::Memory => Held::While(Arc::downgrade(generation)),
            Keeper::VolumeAlone => Held::Here(Arc::clone(generation)),
        };
        tier.wait_in_line(Offer { stowing: self, held, length, then: Box::new(then) });
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

/// Who has a body that has come whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeper {
    /// Memory, until it needs the room.
    Memory,
    /// Nobody but the volume will.
    VolumeAlone,
}

/// A body that waits for room.
struct Offer {
    stowing: Stowing,
    held: Held,
    length: u64,
    then: Box<dyn FnOnce(&Generation) + Send>,
}

/// How a waiting body is held.
enum Held {
    /// As long as memory has it: waiting takes no memory from others.
    While(Weak<Generation>),
    /// By the waiting itself.
    Here(Arc<Generation>),
}

/// Bodies whose rest waits for room, in the order in which they came. One job of the volume's threads hands them over.
#[derive(Default)]
pub(super) struct Line {
    offers: Mutex<Offers>,
}

#[derive(Default)]
struct Offers {
    waiting: VecDeque<Offer>,
    /// How many of them hold their body themselves.
    holding: usize,
    /// A job is at it.
    is_served: bool,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Line({})", self.offers.lock().waiting.len())
    }
}

impl Line {
    /// Whether nobody waits, and nothing is being handed over.
    pub(super) fn is_empty(&self) -> bool {
        !self.offers.lock().is_served
    }

    /// False where there are enough.
    fn enter(&self, offer: Offer) -> Option<Entered> {
        let mut offers = self.offers.lock();
        let is_holding = matches!(offer.held, Held::Here(_));
        if offers.waiting.len() == LATE_MAX || is_holding && offers.holding == LATE_HOLDING_MAX {
            return None;
        }
        offers.holding += usize::from(is_holding);
        offers.waiting.push_back(offer);
        let was_served = std::mem::replace(&mut offers.is_served, true);
        Some(if was_served { Entered::Behind } else { Entered::First })
    }

    /// The next one; with none the line is not served any more.
    fn next(&self) -> Option<Offer> {
        let mut offers = self.offers.lock();
        let next = offers.waiting.pop_front();
        offers.is_served = next.is_some();
        offers.holding -= usize::from(next.as_ref().is_some_and(|offer| matches!(offer.held, Held::Here(_))));
        next
    }
}

/// A place in the line.
enum Entered {
    /// Somebody is being served already.
    Behind,
    /// Nobody serves the line.
    First,
}

impl Tier {
    fn wait_in_line(self: &Arc<Tier>, offer: Offer) {
        match self.late.enter(offer) {
            None => self.note_unkept(),
            Some(Entered::Behind) => {}
            Some(Entered::First) => {
                let tier = Arc::clone(self);
                let serve = move || {
                    while let Some(offer) = tier.late.next() {
                        offer.hand_over();
                    }
                };
                if self.volume.on_reader(serve).is_err() {
                    while self.late.next().is_some() {
                        self.note_unkept();
                    }
                }
            }
        }
    }
}

impl Offer {
    /// Offers the rest until the volume has taken it, at most [`LATE_TRIES_MAX`] times.
    fn hand_over(mut self) {
        for _ in 0..LATE_TRIES_MAX {
            let generation = match &self.held {
                Held::While(generation) => generation.upgrade(),
                Held::Here(generation) => Some(Arc::clone(generation)),
            };
            // Memory has given it up meanwhile.
            let Some(generation) = generation else { break };
            match self.stowing.stage(&generation.body, self.length) {
                Stage::Ended => return,
                Stage::Handed => return self.stowing.conclude(&generation, self.length, self.then),
                Stage::Waits => {}
            }
            drop(generation);
            std::thread::sleep(LATE_PAUSE);
        }
        self.stowing.tier.note_unkept();
    }
}
