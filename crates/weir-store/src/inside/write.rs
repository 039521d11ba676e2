//! Writing a generation to a volume while it arrives, and a little later what the volume has no room for.

use std::sync::{Arc, Weak};

use bytes::Bytes;

use super::layout::Tiers;
use crate::generation::{BLOCK_BYTES, Body, Generation, Read};
use crate::tier::{Entered, LATE_PAUSE, LateWrite, SharedPut, Stall, VolumeTier};
use crate::volume::{FreedWait, Put, PutError, Writing, codec, key};

/// Bodies that have arrived and wait for their volume take at most this part of the memory. Where they take
/// half of that, those that arrive go at the drive's pace, with readers or without.
const LATE_PART: u64 = 8;

/// A transfer that is being written to a volume: the one that began a generation, or a further one. Where the
/// first one is dropped without an end, the object is removed again.
#[derive(Debug)]
pub(crate) struct VolumeWrite {
    hand: Hand,
    tier: Arc<VolumeTier>,
    /// The bytes before this were handed over.
    at: u64,
}

/// Which write it is.
#[derive(Debug)]
enum Hand {
    /// That of the transfer that began the generation.
    Own(Put),
    /// That of all further ones together: the volume takes one at a time.
    Shared(SharedPut),
}

impl Hand {
    fn put(&self) -> Option<&Put> {
        match self {
            Hand::Own(put) => Some(put),
            Hand::Shared(shared) => shared.put(),
        }
    }
}

impl Tiers {
    /// Begins to write a generation to the volume of its key; `None` where none takes it.
    pub(crate) fn begin(&self, generation: &Generation) -> Option<VolumeWrite> {
        self.of(generation)?.begin(generation)
    }

    fn of(&self, generation: &Generation) -> Option<Arc<VolumeTier>> {
        let key = generation.key();
        self.home(key::digest(&key.full, key.site))
    }
}

impl VolumeTier {
    /// Begins to write a generation to this volume; `None` where it takes nothing.
    pub(crate) fn begin(self: &Arc<VolumeTier>, generation: &Generation) -> Option<VolumeWrite> {
        Some(VolumeWrite::new(self.begin_put(generation).ok()?, Arc::clone(self)))
    }

    fn begin_put(self: &Arc<VolumeTier>, generation: &Generation) -> Result<Put, PutError> {
        let head = codec::encode(&generation.head().stored, (self.clock)());
        let (key, stamp) = (key::on_volume(generation.key()), generation.stamp().number());
        let put = self.volume.begin(&key, Bytes::from(head), stamp, generation.length())?;
        generation.set_home(put.number(), self);
        self.note_being_written(put.number(), key.digest, put.status());
        Ok(put)
    }

    /// Goes on writing a generation from an offset on; `None` where it is not on the volume.
    pub(crate) fn resume(self: &Arc<VolumeTier>, generation: &Generation, at: u64) -> Option<VolumeWrite> {
        let object = Some(generation.object()).filter(|object| *object > 0)?;
        let resumed = generation.shared_puts().join(|| {
            let key = generation.key();
            let (digest, stamp) = (key::digest(&key.full, key.site), generation.stamp().number());
            self.volume.resume(digest, object, stamp)
        });
        Some(VolumeWrite { hand: Hand::Shared(resumed.ok()?), tier: Arc::clone(self), at })
    }

    /// Begins to write a generation that arrives in further transfers only. Keep the result until the first
    /// of them has resumed it. `None` where the volume takes nothing.
    pub(crate) fn begin_part(self: &Arc<VolumeTier>, generation: &Generation) -> Option<SharedPut> {
        generation.shared_puts().join(|| self.begin_put(generation)).ok()
    }
}

impl VolumeWrite {
    pub(crate) fn new(put: Put, tier: Arc<VolumeTier>) -> VolumeWrite {
        VolumeWrite { hand: Hand::Own(put), tier, at: 0 }
    }

    /// Ends the write early, and keeps what was written.
    pub(crate) fn rest(self) {
        if let Hand::Own(put) = self.hand {
            // Parts that were published stay in any case.
            let _ = put.rest();
        }
    }

    /// The bytes before this were handed over.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// How many bytes the volume has written since it was opened: whether its drive makes progress.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.tier.volume.written_bytes()
    }

    /// Whether much of memory waits for this volume, beside the bodies that arrive.
    pub(crate) fn is_crowded(&self, generation: &Generation) -> bool {
        self.tier.late.holding_bytes() > late_bytes_max(generation) / 2
    }

    /// Counts it as given up because its volume is too slow.
    pub(crate) fn note_given_up(&self) {
        self.tier.note_given_up();
    }

    /// Joins the tasks that wait for room in the volume's queue.
    pub(crate) fn wait_for_room(&self) -> Option<FreedWait> {
        self.hand.put().map(Put::wait_for_room)
    }

    /// A wait for more of the generation to be written, or for the end of that.
    pub(crate) fn writing(&self, generation: &Generation) -> Option<Writing> {
        self.tier.writing(generation)
    }

    /// Hands over what a body holds up to `end`, as far as the volume has room for it. The rest stays in
    /// memory for the next call. False where no more is taken: storing has ended, or the next bytes are no
    /// longer held.
    pub(crate) fn push(&mut self, body: &Body, end: u64) -> bool {
        let Some(put) = self.hand.put() else { return false };
        while self.at < end {
            let most = usize::try_from(end - self.at).map_or(BLOCK_BYTES, |left| left.min(BLOCK_BYTES));
            let Read::Piece(bytes) = body.read(self.at, most) else {
                self.tier.note_given_up();
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

    /// Ends a write of which all has arrived, up to `end`: the whole body, or this transfer's part. What the
    /// volume has no room for is handed over later. Until then it stays in memory, within bounds, as long as
    /// the drive makes progress. `then` is called once all is handed over.
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
        let held = Held::Here(Arc::clone(generation));
        let most_bytes = late_bytes_max(generation);
        tier.wait_in_line(
            Offer { volume_write: self, held, keeper, length: end, then: Box::new(then) },
            most_bytes,
        );
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

/// How many bytes of memory bodies may take that wait for their volume.
fn late_bytes_max(generation: &Generation) -> u64 {
    generation.memory_bytes() / LATE_PART
}

/// How far a body that has arrived was handed over.
enum Stage {
    /// All of it.
    Handed,
    /// The volume has no room for the rest now.
    Waits,
    /// It is given up.
    Ended,
}

/// Who keeps a body that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeper {
    /// Memory, until it needs the room.
    Memory,
    /// Only the volume will.
    VolumeAlone,
}

/// A body that waits for room.
struct Offer {
    volume_write: VolumeWrite,
    held: Held,
    keeper: Keeper,
    length: u64,
    then: Box<dyn FnOnce(&Generation) + Send>,
}

/// How a waiting body is held.
enum Held {
    /// As long as memory keeps it.
    While(Weak<Generation>),
    /// By this write.
    Here(Arc<Generation>),
}

impl VolumeTier {
    fn wait_in_line(self: &Arc<VolumeTier>, offer: Offer, most_bytes: u64) {
        match self.late.enter(Box::new(offer), most_bytes) {
            None => self.note_given_up(),
            Some(Entered::Behind) => {}
            Some(Entered::First) => {
                let tier = Arc::clone(self);
                if self.volume.on_reader(move || tier.serve_late()).is_err() {
                    self.give_up_late();
                }
            }
        }
    }

    /// Hands over what waits, and what comes meanwhile. What waits is given up where that panics: nobody
    /// would serve it again.
    pub(super) fn serve_late(&self) {
        let service = Service(self);
        let mut stall = Stall::default();
        while let Some(offer) = self.late.next() {
            offer.hand_over(&mut stall);
        }
        // From here on another job may serve what comes.
        std::mem::forget(service);
    }

    fn give_up_late(&self) {
        while self.late.next().is_some() {
            self.note_given_up();
        }
    }
}

/// A job that hands over what waits, and has not come to its end.
struct Service<'t>(&'t VolumeTier);

impl Drop for Service<'_> {
    fn drop(&mut self) {
        self.0.give_up_late();
    }
}

impl LateWrite for Offer {
    fn holding_bytes(&self) -> u64 {
        match &self.held {
            Held::Here(generation) => generation.held_bytes(),
            Held::While(_) => 0,
        }
    }

    fn release(&mut self) -> bool {
        if let (Held::Here(generation), Keeper::Memory) = (&self.held, self.keeper) {
            self.held = Held::While(Arc::downgrade(generation));
        }
        matches!(self.held, Held::While(_))
    }

    /// Offers the rest until the volume has taken it, or its drive makes no progress.
    fn hand_over(mut self: Box<Self>, stall: &mut Stall) {
        loop {
            let generation = match &self.held {
                Held::While(generation) => generation.upgrade(),
                Held::Here(generation) => Some(Arc::clone(generation)),
            };
            // Memory has evicted it meanwhile.
            let Some(generation) = generation else { break };
            match self.volume_write.stage(&generation.body, self.length) {
                Stage::Ended => return,
                Stage::Handed => return self.volume_write.conclude(&generation, self.length, self.then),
                Stage::Waits => {}
            }
            drop(generation);
            if stall.is_over(self.volume_write.written_bytes()) {
                break;
            }
            std::thread::sleep(LATE_PAUSE);
        }
        self.volume_write.note_given_up();
    }
}
