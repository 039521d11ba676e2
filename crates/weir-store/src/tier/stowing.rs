//! Writing a generation down while it arrives, and what the volume has no room for a little later.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{LATE_PAUSE, LATE_TRIES_MAX, Tier, Tiers};
use crate::body::{BLOCK_BYTES, Body, Piece, Read};
use crate::generation::Generation;
use crate::volume::{FreedWait, Put, Writing, key};

/// How many bodies may wait for room.
const LATE_MAX: usize = 4096;
/// How many of them may hold their bytes in memory that nobody else wants there.
const LATE_HOLDING_MAX: usize = 2;

/// A transfer that is being written down: the one that began a generation, which is taken out again when it
/// is dropped without an end, or a further one.
#[derive(Debug)]
pub(crate) struct Stowing {
    hand: Hand,
    tier: Arc<Tier>,
    /// Up to here it was handed over.
    at: u64,
}

/// By whose hand it goes down.
#[derive(Debug)]
enum Hand {
    /// Of the transfer that began the generation.
    Own(Put),
    /// Of all further ones together: the volume takes one at a time.
    Shared(Arc<SharedPut>),
}

/// Brings further parts of a generation down; what has come is kept when the last one lets go.
#[derive(Debug)]
pub(crate) struct SharedPut(Option<Put>);

impl Drop for SharedPut {
    fn drop(&mut self) {
        if let Some(put) = self.0.take() {
            // What was published stays all the same.
            let _ = put.rest();
        }
    }
}

impl Hand {
    fn put(&self) -> Option<&Put> {
        match self {
            Hand::Own(put) => Some(put),
            Hand::Shared(shared) => shared.0.as_ref(),
        }
    }
}

impl Tiers {
    /// Begins to write a generation down where it belongs; `None` where nothing is taken.
    pub(crate) fn begin(&self, generation: &Generation) -> Option<Stowing> {
        self.of(generation)?.begin(generation)
    }

    fn of(&self, generation: &Generation) -> Option<Arc<Tier>> {
        let key = generation.key();
        self.home(key::digest(&key.full, key.site))
    }
}

impl Tier {
    /// Goes on writing a generation down, from an offset on; `None` where it is not on the volume.
    pub(crate) fn resume(self: &Arc<Tier>, generation: &Generation, at: u64) -> Option<Stowing> {
        let object = Some(generation.object()).filter(|object| *object > 0)?;
        let mut shared = generation.shared_put().lock();
        let hand = match shared.upgrade() {
            Some(put) => put,
            None => {
                let key = generation.key();
                let (digest, stamp) = (key::digest(&key.full, key.site), generation.stamp().number());
                let put = self.volume.resume(digest, object, stamp).ok()?;
                let put = Arc::new(SharedPut(Some(put)));
                *shared = Arc::downgrade(&put);
                put
            }
        };
        Some(Stowing { hand: Hand::Shared(hand), tier: Arc::clone(self), at })
    }

    /// Begins to write a generation down whose transfers all are further ones; what is returned is to be held
    /// until the first has resumed it. `None` where the volume takes nothing.
    pub(crate) fn begin_part(self: &Arc<Tier>, generation: &Generation) -> Option<Arc<SharedPut>> {
        let put = Arc::new(SharedPut(Some(self.begin_put(generation)?)));
        *generation.shared_put().lock() = Arc::downgrade(&put);
        Some(put)
    }
}

impl Stowing {
    pub(crate) fn new(put: Put, tier: Arc<Tier>) -> Stowing {
        Stowing { hand: Hand::Own(put), tier, at: 0 }
    }

    /// Nothing more comes; what has come is kept.
    pub(crate) fn rest(self) {
        if let Hand::Own(put) = self.hand {
            // Where it cannot be said what was published stays all the same.
            let _ = put.rest();
        }
    }

    /// Up to here it was handed over.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Joins those who wait for room in the volume's queue.
    pub(crate) fn wait_for_room(&self) -> Option<FreedWait> {
        self.hand.put().map(Put::wait_for_room)
    }

    /// A wait for more of the generation to be written, or for the end of that.
    pub(crate) fn writing(&self, generation: &Generation) -> Option<Writing> {
        self.tier.writing(generation)
    }

    /// Hands over what a body holds up to `end`, as far as the volume has room for it now; what it has not
    /// stays in memory for the next time. False where no more is taken: storing has ended, or what comes next
    /// is not held any more.
    pub(crate) fn push(&mut self, body: &Body, end: u64) -> bool {
        let Some(put) = self.hand.put() else { return false };
        while self.at < end {
            let most = usize::try_from(end - self.at).map_or(BLOCK_BYTES, |left| left.min(BLOCK_BYTES));
            let Read::Piece(Piece::Bytes(bytes)) = body.read(self.at, most) else {
                self.tier.note_unkept();
                return false;
            };
            let count = bytes.len() as u64;
            if !put.has_room(count) {
                return true;
            }
            if put.push(self.at, bytes).is_err() {
                return false;
            }
            self.at += count;
        }
        true
    }

    /// All has come, up to `end`: the body, whole, or this transfer's part of it. What the volume has had no
    /// room for waits in line, for a bounded time; `then` is called once all is handed over.
    pub(crate) fn finish(
        mut self,
        generation: &Arc<Generation>,
        end: u64,
        keeper: Keeper,
        then: impl FnOnce(&Generation) + Send + 'static,
    ) {
        match self.stage(&generation.body, end) {
            Stage::Ended => return,
            Stage::Handed => return self.conclude(generation, end, then),
            Stage::Waits => {}
        }
        let tier = Arc::clone(&self.tier);
        let held = match keeper {
            Keeper::Memory => Held::While(Arc::downgrade(generation)),
            Keeper::VolumeAlone => Held::Here(Arc::clone(generation)),
        };
        tier.wait_in_line(Offer { stowing: self, held, length: end, then: Box::new(then) });
    }

    fn stage(&mut self, body: &Body, end: u64) -> Stage {
        match self.push(body, end) {
            true if self.at >= end => Stage::Handed,
            true => Stage::Waits,
            false => Stage::Ended,
        }
    }

    fn conclude(self, generation: &Generation, end: u64, then: impl FnOnce(&Generation)) {
        if let Hand::Own(put) = self.hand
            && put.finish(end).is_ok()
        {
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

/// Bodies whose rest waits for room, in the order in which they came. One job of the volume's threads hands
/// them over.
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
