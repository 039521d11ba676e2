//! The hand that writes a body: one transfer from an origin into a generation.
//!
//! What is pushed can be read at once. It wakes nobody: tell the readers after each push, and after the end.
//! States: *storing* → *windowed* (the body is too large, or no memory can be freed: the generation is
//! withdrawn from the store and keeps only its newest bytes), and from both *sealed*, *at rest* or
//! *abandoned*.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use weir_policy::{Interval, Intervals};

use crate::body::{Added, BLOCK_BYTES};
use crate::budget::{BLOCK_OVERHEAD_BYTES, Charge, Reserve};
use crate::generation::{Generation, Retirement};
use crate::ledger::Asking;
use crate::shelf::{Lag, Shelf, Window};
use crate::tier::{Keeper, Stowing};
use crate::wait::WriterWait;

/// Each time so many bytes of a gap have come, those that are on the volume by then leave memory: 4 MiB.
const GAP_HELD_BYTES: u64 = 4 << 20;
/// How long a transfer waits for a volume that is behind, within [`PATIENCE_BYTES`].
const PATIENCE: Duration = Duration::from_secs(1);
/// A drive that takes less than this in [`PATIENCE`] costs the storing, not the transfer: 16 MiB.
const PATIENCE_BYTES: u64 = 16 << 20;

/// No memory can be had at the moment: readers hold it. Wait until they have moved on, and push `rest` again;
/// that is the back-pressure.
#[derive(Debug, thiserror::Error)]
#[error("no memory for {} bytes of a body", rest.len())]
pub struct Full {
    /// What was not taken.
    pub rest: Bytes,
}

/// The body did not arrive whole; its generation is abandoned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a body of {declared} bytes ended after {arrived}")]
pub struct Unsealed {
    /// The length that was declared.
    pub declared: u64,
    /// How many bytes came.
    pub arrived: u64,
}

/// Writes bytes into a generation, in order. Dropped without an end it abandons the generation: readers then
/// get what has arrived, and [`crate::Read::Gone`] after it.
#[derive(Debug)]
pub struct Writer {
    shelf: Arc<Shelf>,
    generation: Arc<Generation>,
    /// Marks that concern it are kept meanwhile.
    _asking: Asking,
    /// This writer among those of the generation; `None` once it has left.
    id: Option<u32>,
    start: u64,
    at: u64,
    end: u64,
    arrived_end: u64,
    kind: Kind,
    window: Option<Window>,
    /// What it can go on with where nothing else can be had.
    reserve: Option<Reserve>,
    /// Where it goes on the volume as well.
    stowing: Option<Stowing>,
    /// How much longer it waits for the volume.
    patience: Duration,
    /// Where it was when all of that was left.
    patient_at: u64,
    /// What the foremost reader has read, once the caller has said so.
    read_to: u64,
}

/// What a writer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The transfer that began the generation.
    Whole,
    /// A further transfer that brings an interval.
    Gap,
}

impl Writer {
    pub(crate) fn new(
        shelf: Arc<Shelf>,
        generation: Arc<Generation>,
        id: u32,
        span: (u64, u64),
        kind: Kind,
    ) -> Writer {
        let (at, end) = span;
        Writer {
            _asking: shelf.ledger.hold(generation.stamp()),
            shelf,
            generation,
            id: Some(id),
            start: at,
            at,
            end,
            arrived_end: at,
            kind,
            window: None,
            reserve: None,
            stowing: None,
            patience: PATIENCE,
            patient_at: 0,
            read_to: u64::MAX,
        }
    }

    /// Keeps memory free for it.
    pub(crate) fn hold(&mut self, reserve: Reserve) {
        self.reserve = Some(reserve);
    }

    /// Writes it to the volume as well.
    pub(crate) fn stow(&mut self, stowing: Option<Stowing>) {
        self.stowing = stowing;
    }

    /// The generation that is written.
    pub fn generation(&self) -> &Arc<Generation> {
        &self.generation
    }

    /// Where the next byte goes.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// How many of the newest bytes are kept, where the body has outgrown the store. A reader farther behind
    /// [`Writer::position`] than that gets [`crate::Read::Gone`]: pace the origin by the readers.
    pub fn window_bytes(&self) -> Option<u64> {
        self.window.as_ref().map(Window::bytes)
    }

    /// What readers will hold of the body once it is whole, of whom the foremost has read up to `offset`:
    /// hold it for as long as they read. None where they have read it, or only a window of it is kept.
    pub fn lag(&self, offset: u64) -> Option<Lag> {
        let bytes = self.at.saturating_sub(offset);
        (bytes > 0 && self.window.is_none()).then(|| Lag::new(&self.shelf, bytes))
    }

    /// Whether readers hold so much memory that a transfer should be hardly ahead of its own.
    pub fn is_memory_scarce(&self) -> bool {
        self.shelf.is_scarce()
    }

    /// Whether the volume gets it as well.
    pub fn is_stowing(&self) -> bool {
        self.stowing.is_some()
    }

    /// Whether memory cannot keep the body that it brings a part of, and the volume gets that: it leaves
    /// memory as it goes down.
    pub fn is_sinking(&self) -> bool {
        self.is_stowing() && self.is_larger_than_memory()
    }

    fn is_larger_than_memory(&self) -> bool {
        let length = self.generation.length();
        self.kind == Kind::Gap && length > Some(self.shelf.settings.object_bytes_max())
    }

    /// Says that the foremost reader has read up to `offset`. Where the body has outgrown the store, what
    /// lies at or after it is then dropped only when memory is short, and never the newest
    /// [`Writer::window_bytes`] of it: a push rather answers [`Full`]. Without this a push may narrow the
    /// window down to the block that is being written.
    pub fn let_go(&mut self, offset: u64) {
        self.read_to = if self.read_to == u64::MAX { offset } else { self.read_to.max(offset) };
    }

    /// Adds bytes; they can be read at once. Bytes beyond the end are not kept, and [`Writer::seal`] will
    /// refuse.
    ///
    /// # Errors
    /// [`Full`] where no memory can be had: try again with its rest.
    pub fn push(&mut self, mut bytes: Bytes) -> Result<(), Full> {
        self.arrived_end += bytes.len() as u64;
        let room = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        bytes.truncate(room);
        while !bytes.is_empty() {
            let room = BLOCK_BYTES - (self.at % BLOCK_BYTES as u64) as usize;
            let part = bytes.slice(..room.min(bytes.len()));
            let count = part.len();
            let is_too_large = self.at + count as u64 > self.shelf.settings.object_bytes_max();
            let is_first = self.window.is_none() && self.kind == Kind::Whole;
            if is_first && (is_too_large || self.is_crowded_out()) {
                self.outgrow();
            }
            self.slide(count as u64);
            let Some(charge) = self.charge(count as u64 + BLOCK_OVERHEAD_BYTES) else {
                self.arrived_end -= bytes.len() as u64;
                return Err(Full { rest: bytes });
            };
            self.add(part, charge);
            bytes.advance(count);
        }
        Ok(())
    }

    /// Whether it is at the start of a block for which it should not take memory from others, having had its
    /// own.
    fn is_crowded_out(&self) -> bool {
        let own_bytes = self.reserve.as_ref().map_or(0, Reserve::bytes);
        self.at.is_multiple_of(BLOCK_BYTES as u64) && self.at >= own_bytes && self.shelf.is_scarce()
    }

    fn add(&mut self, part: Bytes, charge: Charge) {
        let Some(id) = self.id else { return };
        let count = part.len() as u64;
        if let Added::Complete(number) = self.generation.body.add(id, self.at, part, charge) {
            self.generation.body.join(number);
            self.stow_to(self.at + count);
        }
        self.at += count;
        if self.kind == Kind::Gap && self.at.is_multiple_of(GAP_HELD_BYTES) {
            self.forget_below();
        }
    }

    /// Hands what has arrived up to `end` to the volume; where it takes no more, storing ends and the
    /// transfer goes on.
    fn stow_to(&mut self, end: u64) {
        if let Some(stowing) = &mut self.stowing
            && !stowing.push(&self.generation.body, end)
        {
            self.stowing = None;
        }
    }

    /// Hands the volume what it has room for. Where the volume is still behind with a body that it alone can
    /// keep: how long to wait for it at most ([`Writer::wait_for_volume`]) before more is pushed. `waited` is
    /// for how long the caller has waited since it was last told so. For each 16 MiB a volume is waited for at
    /// most a second: after that it costs the storing, and not the transfer.
    pub fn volume_is_behind(&mut self, waited: Duration) -> Option<Duration> {
        let sinking_bytes = self.is_sinking().then_some(self.shelf.settings.window_bytes);
        let window_bytes = self.window_bytes().or(sinking_bytes)?;
        self.patience = self.patience.saturating_sub(waited);
        if self.patience.is_zero() {
            self.stowing = None;
        }
        self.stow_to(self.at);
        let is_behind = |stowing: &Stowing| self.at - stowing.at() > window_bytes / 2;
        let is_behind = self.stowing.as_ref().is_some_and(is_behind);
        if self.at - self.patient_at >= PATIENCE_BYTES {
            (self.patient_at, self.patience) = (self.at, PATIENCE);
        }
        is_behind.then_some(self.patience)
    }

    /// A wait for the volume that is behind.
    pub fn wait_for_volume(&self) -> WriterWait {
        WriterWait::new(None, self.stowing.as_ref().and_then(Stowing::wait_for_room))
    }

    /// A wait for memory, after [`Full`].
    pub fn wait_for_memory(&self) -> WriterWait {
        let memory = self.shelf.budget.wait();
        WriterWait::new(Some(memory), self.stowing.as_ref().and_then(Stowing::wait_for_room))
    }

    /// From here on such a wait misses nothing: try again after this, then wait.
    pub fn arm(&self, wait: &mut WriterWait) {
        wait.arm(self.stowing.as_ref().and_then(|stowing| stowing.writing(&self.generation)));
    }

    /// Takes memory: by evicting others, else of what is reserved for it, else by narrowing the window, or
    /// becoming one.
    fn charge(&mut self, bytes: u64) -> Option<Charge> {
        let charge = self.shelf.charge(bytes);
        let charge = charge.or_else(|| self.charge_reserved(bytes));
        charge.or_else(|| self.charge_narrowed(bytes)).or_else(|| self.charge_reserved(bytes))
    }

    fn charge_reserved(&self, bytes: u64) -> Option<Charge> {
        let body = &self.generation.body;
        let taken = match self.kind {
            Kind::Whole => body.held_bytes(),
            Kind::Gap => body.held_within(Interval { start: self.start, end: self.at }).length(),
        };
        self.reserve.as_ref()?.charge(taken, bytes)
    }

    fn charge_narrowed(&mut self, bytes: u64) -> Option<Charge> {
        if self.kind == Kind::Gap {
            // What the volume had no room for is offered again: what it has can leave memory.
            self.stow_to(self.at);
            self.forget_below();
            return self.shelf.charge(bytes).or_else(|| {
                self.forget_read();
                self.shelf.charge(bytes)
            });
        }
        if self.window.is_none() {
            self.outgrow();
        }
        loop {
            if let Some(charge) = self.shelf.charge(bytes) {
                return Some(charge);
            }
            if self.generation.body.slide(self.expendable(), bytes) == 0 {
                return None;
            }
        }
    }

    /// Drops what the volume has. What has begun a moment ago may have become readable there only now.
    fn forget_below(&self) {
        if let Some(tier) = self.generation.home().filter(|_| self.is_stowing()) {
            tier.attach(&self.generation);
        }
        self.generation.forget_below();
    }

    /// Drops what has been read of what no volume gets. Who comes later has it brought again.
    fn forget_read(&self) {
        let end = self.read_to.min(self.at);
        if self.stowing.is_none() && self.read_to != u64::MAX && self.start < end {
            self.generation.body.forget(&Intervals::of(Interval { start: self.start, end }));
        }
    }

    /// Up to where bytes may be dropped when memory is short: what was read, and what is behind the window.
    fn expendable(&self) -> u64 {
        let window_bytes = self.window.as_ref().map_or(0, Window::bytes);
        self.read_to.max(self.at.saturating_sub(window_bytes)).min(self.at).min(self.gone_down())
    }

    /// Up to where the volume has it, or has it in its queue; the end where it does not go there.
    fn gone_down(&self) -> u64 {
        self.stowing.as_ref().map_or(u64::MAX, Stowing::at)
    }

    /// Leaves the store: from now on only the newest bytes are kept.
    pub(crate) fn outgrow(&mut self) {
        self.shelf.retire(&self.generation, Retirement::Outgrown);
        self.shelf.counts.outgrown.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.window = Some(self.shelf.open_window());
    }

    /// Drops what the window has left behind: at most two bytes for each that comes, so that readers who were
    /// far behind when the body outgrew the store are not all cut at once.
    fn slide(&mut self, coming: u64) {
        if let Some(window) = &self.window {
            let start = (self.at + coming).saturating_sub(window.bytes());
            let start = start.min(self.read_to).min(self.gone_down());
            self.generation.body.slide(start, coming.saturating_mul(2));
        }
    }

    /// The transfer has ended as it should: the generation is whole and published, older ones of its variant
    /// are replaced. A body of unknown length ends here. A window ends, and is not published.
    ///
    /// # Errors
    /// [`Unsealed`] where fewer or more bytes came than were declared.
    pub fn seal(mut self) -> Result<(), Unsealed> {
        let body = &self.generation.body;
        let declared = body.length().unwrap_or(self.at);
        if self.arrived_end != declared {
            return Err(Unsealed { declared, arrived: self.arrived_end });
        }
        body.end_at(declared);
        self.leave();
        if let Some(stowing) = self.stowing.take() {
            let (shelf, is_window) = (Arc::clone(&self.shelf), self.window.is_some());
            let outdo = move |newest: &Generation| {
                if is_window {
                    shelf.outdo(newest)
                }
            };
            let keeper = if is_window { Keeper::VolumeAlone } else { Keeper::Memory };
            stowing.finish(&self.generation, declared, keeper, outdo);
        }
        Ok(())
    }

    /// The transfer is over, and what has arrived is kept: the generation is published as far as it goes, as
    /// a partial object or, if nothing is missing any more, as a whole one. Only for bytes of one version of
    /// the object: where the generation has a strong validator, or this is still its first transfer.
    pub fn rest(mut self) {
        if self.kind == Kind::Whole {
            self.generation.set_rested();
        }
        let is_sinking = self.is_sinking();
        self.leave();
        let stowing = self.stowing.take();
        if self.kind == Kind::Gap && self.generation.body.is_whole() && self.generation.is_damaged_below() {
            return self.store_anew();
        }
        let Some(mut stowing) = stowing else { return };
        match self.kind {
            Kind::Gap => {
                let keeper = if is_sinking { Keeper::VolumeAlone } else { Keeper::Memory };
                stowing.finish(&self.generation, self.at, keeper, |_| {});
            }
            Kind::Whole => {
                stowing.push(&self.generation.body, self.at);
                stowing.rest();
            }
        }
    }

    /// Writes a body down that is whole in memory, and is damaged, hence no more, on the volume.
    fn store_anew(&self) {
        // What has been replaced must not come back as what is newest on the volume.
        if self.generation.is_retired() {
            return;
        }
        let stowing = self.shelf.tiers.begin(&self.generation);
        if let (Some(stowing), Some(length)) = (stowing, self.generation.length()) {
            stowing.finish(&self.generation, length, Keeper::Memory, |_| {});
        }
    }

    /// The transfer has failed: the generation is withdrawn. Its readers get what has arrived, then
    /// [`crate::Read::Gone`].
    pub fn abandon(self) {
        drop(self);
    }

    /// Leaves the body; the last one to leave seals it if it can, and publishes it.
    fn leave(&mut self) {
        let Some(id) = self.id.take() else { return };
        let left = self.generation.body.leave_writer(id);
        if left == 0 && self.generation.body.window_start() == 0 {
            self.generation.body.seal();
        }
        if left == 0 {
            self.shelf.publish(&self.generation);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let left = self.generation.body.leave_writer(id);
            match self.kind {
                Kind::Whole => self.shelf.retire(&self.generation, Retirement::Abandoned),
                Kind::Gap if left == 0 => {
                    self.generation.body.seal();
                    self.shelf.publish(&self.generation);
                }
                Kind::Gap => {}
            }
        }
        // What it has published can be evicted.
        self.shelf.budget.wake();
    }
}
