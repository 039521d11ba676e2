//! A writer: one transfer from an origin into a generation.
//!
//! What is pushed can be read at once. A writer wakes nobody: the caller tells the readers after each push
//! and at the end. States: *storing* → *windowed* (the body is too large, or no memory can be freed: the
//! generation is withdrawn from the store and keeps only its newest bytes), and from both *sealed*, *at rest*
//! or *abandoned*.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use weir_policy::{Interval, Intervals};

use crate::budget::{BLOCK_OVERHEAD_BYTES, Charge, Reserve};
use crate::generation::{Added, BLOCK_BYTES};
use crate::generation::{Generation, Retirement};
use crate::inside::{Inside, Keeper, VolumeWrite};
use crate::ledger::Asking;
use crate::memory::{Lag, Window, cost_bytes};
use crate::store::patience::{Patience, Reading};
use crate::wait::WriterWait;

/// Each time so many bytes of a gap have arrived, memory drops those that the volume has: 4 MiB.
const GAP_HELD_BYTES: u64 = 4 << 20;

/// No memory can be had: readers hold it. Wait until they have moved on, and push `rest` again. This is the
/// back-pressure.
#[derive(Debug, thiserror::Error)]
#[error("no memory for {} bytes of a body", rest.len())]
pub struct Full {
    /// What was not taken.
    pub rest: Bytes,
}

/// The body did not arrive whole. Its generation is abandoned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a body of {declared} bytes ended after {arrived}")]
pub struct Unsealed {
    /// The declared length.
    pub declared: u64,
    /// How many bytes arrived.
    pub arrived: u64,
}

/// Writes bytes into a generation, in order. Dropped without an end it abandons the generation: readers get
/// what has arrived, then [`crate::Read::Gone`].
#[derive(Debug)]
pub struct Writer {
    inside: Arc<Inside>,
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
    /// Memory that it can use where no other can be had.
    reserve: Option<Reserve>,
    /// The reserve is for all that is to come, and shrinks as that comes.
    is_all_reserved: bool,
    /// Its write to a volume.
    volume_write: Option<VolumeWrite>,
    /// How long it has waited for the volume.
    patience: Patience,
    /// Up to where the foremost reader has read, if the caller says so.
    read_to: u64,
}

/// What a writer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The transfer that began the generation.
    Whole,
    /// A further transfer that adds an interval.
    Gap,
}

impl Writer {
    pub(crate) fn new(
        inside: Arc<Inside>,
        generation: Arc<Generation>,
        id: u32,
        span: (u64, u64),
        kind: Kind,
    ) -> Writer {
        let (at, end) = span;
        Writer {
            _asking: inside.memory.ledger.hold(generation.stamp()),
            inside,
            generation,
            id: Some(id),
            start: at,
            at,
            end,
            arrived_end: at,
            kind,
            window: None,
            reserve: None,
            is_all_reserved: false,
            volume_write: None,
            patience: Patience::default(),
            read_to: u64::MAX,
        }
    }

    /// Keeps memory free for it.
    pub(crate) fn hold(&mut self, reserve: Reserve) {
        self.reserve = Some(reserve);
    }

    /// Keeps memory free for all of a body of known length, evicting as needed, so that it never becomes a
    /// window. False where the length is not known, or where arriving bodies and readers hold too much.
    pub fn reserve_all(&mut self) -> bool {
        let Some(length) = self.generation.length() else { return false };
        if self.window.is_none() && self.kind == Kind::Whole && !self.is_all_reserved {
            let reserve = self.inside.memory.reserve_whole(length.saturating_sub(self.at));
            self.is_all_reserved = reserve.is_some();
            self.reserve = reserve.or(self.reserve.take());
        }
        self.is_all_reserved
    }

    /// Sets its write to a volume.
    pub(crate) fn write_to(&mut self, volume_write: Option<VolumeWrite>) {
        self.volume_write = volume_write;
    }

    /// The generation that is written.
    pub fn generation(&self) -> &Arc<Generation> {
        &self.generation
    }

    /// Where the next byte goes.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// How many of the newest bytes a window keeps; `None` for a body that is no window. A reader farther
    /// behind [`Writer::position`] gets [`crate::Read::Gone`]: let the readers pace the origin.
    pub fn window_bytes(&self) -> Option<u64> {
        self.window.as_ref().map(|_| self.inside.memory.window_bytes())
    }

    /// Counts what the readers have yet to read of the body, of which the foremost has read up to `offset`.
    /// Keep it for as long as they read. `None` where they have read all, or where the body is a window.
    pub fn lag(&self, offset: u64) -> Option<Lag> {
        let bytes = self.at.saturating_sub(offset);
        (bytes > 0 && self.window.is_none()).then(|| self.inside.memory.lag(bytes))
    }

    /// Whether memory is scarce: then keep the transfer hardly ahead of its readers.
    pub fn is_memory_scarce(&self) -> bool {
        self.inside.memory.is_scarce()
    }

    /// Whether it is written to a volume as well.
    pub fn is_writing_to_volume(&self) -> bool {
        self.volume_write.is_some()
    }

    /// Whether it adds a part of a body that memory cannot keep and a volume takes: the bytes leave memory as
    /// they are written.
    pub fn is_on_disk_only(&self) -> bool {
        self.is_writing_to_volume() && self.is_larger_than_memory()
    }

    fn is_larger_than_memory(&self) -> bool {
        let length = self.generation.length();
        self.kind == Kind::Gap && length > Some(self.inside.memory.limits.object_bytes_max())
    }

    /// Says up to where the foremost reader has read. A window then drops nothing that this reader has yet to
    /// read; a push answers [`Full`] instead. What it has read is dropped when memory is short, and behind
    /// [`Writer::window_bytes`].
    /// Without this call a push may narrow the window down to the block that is being written.
    pub fn let_go(&mut self, offset: u64) {
        self.read_to = if self.read_to == u64::MAX { offset } else { self.read_to.max(offset) };
    }

    /// Whether a window holds bytes that its foremost reader has yet to read: where a push answers [`Full`],
    /// it is that reader who has to move on.
    pub fn is_ahead_of_readers(&self) -> bool {
        self.window.is_some() && self.read_to < self.at
    }

    /// Adds bytes. They can be read at once. Bytes beyond the end are not kept, and [`Writer::seal`] will
    /// refuse.
    ///
    /// # Errors
    /// [`Full`] where no memory can be had: push its rest again.
    pub fn push(&mut self, mut bytes: Bytes) -> Result<(), Full> {
        self.arrived_end += bytes.len() as u64;
        let room = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        bytes.truncate(room);
        while !bytes.is_empty() {
            let count = self.to_block_end().min(bytes.len());
            let is_too_large = self.at + count as u64 > self.inside.memory.limits.object_bytes_max();
            let is_first = self.window.is_none() && self.kind == Kind::Whole;
            if is_first && (is_too_large || self.is_crowded_out()) {
                self.outgrow();
            }
            self.slide(count as u64);
            let Some(charge) = self.charge(count as u64 + BLOCK_OVERHEAD_BYTES) else {
                self.arrived_end -= bytes.len() as u64;
                return Err(Full { rest: bytes });
            };
            // The last part is all that is left: so a block that came by itself has one owner.
            let part = if count == bytes.len() { std::mem::take(&mut bytes) } else { bytes.split_to(count) };
            self.add(part, charge);
        }
        Ok(())
    }

    /// How many bytes there are from [`Writer::position`] to the end of the block.
    pub fn to_block_end(&self) -> usize {
        BLOCK_BYTES - (self.at % BLOCK_BYTES as u64) as usize
    }

    /// An empty buffer with room for so much. A whole block that is received into it, and pushed as one
    /// piece, stays where it lies.
    pub fn room(&self) -> BytesMut {
        BytesMut::from(Bytes::from(self.inside.memory.budget.room(self.to_block_end())))
    }

    /// Whether it is at the start of a block and has used its reserve, so that it should not take memory from
    /// others.
    fn is_crowded_out(&self) -> bool {
        if self.is_all_reserved {
            return false;
        }
        let own_bytes = self.reserve.as_ref().map_or(0, Reserve::bytes);
        self.at.is_multiple_of(BLOCK_BYTES as u64) && self.at >= own_bytes && self.inside.memory.is_scarce()
    }

    fn add(&mut self, part: Bytes, charge: Charge) {
        let Some(id) = self.id else { return };
        let count = part.len() as u64;
        if let Added::Complete(number) = self.generation.body.add(id, self.at, part, charge) {
            self.generation.body.join(number);
            self.hand_over(self.at + count);
        }
        self.at += count;
        if let Some(reserve) = self.reserve.as_mut().filter(|_| self.is_all_reserved) {
            reserve.shrink_to(cost_bytes(self.end.saturating_sub(self.at)));
        }
        if self.kind == Kind::Gap && self.at.is_multiple_of(GAP_HELD_BYTES) {
            self.forget_on_disk();
        }
    }

    /// Hands what has arrived up to `end` to the volume. Where the volume takes no more, storing ends and the
    /// transfer goes on.
    fn hand_over(&mut self, end: u64) {
        if let Some(volume_write) = &mut self.volume_write
            && !volume_write.push(&self.generation.body, end)
        {
            self.volume_write = None;
        }
    }

    /// Nothing more will come of a body of unknown length: the volume gets its last block, and is waited for
    /// as at the end of any other body ([`Writer::volume_is_behind`]).
    pub fn end_here(&mut self) {
        if self.generation.length().is_none() {
            self.end = self.at;
        }
    }

    /// Hands the volume what it has room for. Where the volume is still behind, says how long to wait for it
    /// at most ([`Writer::wait_for_volume`]) before the next push. `waited` is how long the caller has waited
    /// since the last such answer, and `reading` what the readers do by now. Without readers a transfer goes
    /// at the drive's pace; with readers it is a window ahead. Where the drive holds the foremost reader back
    /// for too long ([`HELD_BACK_MAX`](crate::HELD_BACK_MAX)), or does nothing
    /// ([`STALLED_MAX`](crate::STALLED_MAX)), the transfer goes on. The storing ends then, unless memory
    /// holds what the drive has yet to take.
    pub fn volume_is_behind(&mut self, waited: Duration, reading: Reading) -> Option<Duration> {
        let settled_to = self.settled_to();
        self.hand_over(settled_to);
        let volume_write = self.volume_write.as_ref()?;
        // Once all has arrived nobody is held back, unless the length, and so the end, is news to readers.
        let is_end_known = self.at == self.end && self.generation.length().is_some();
        let reading = if is_end_known { Reading::Nobody } else { reading };
        let longest = self.patience.count(waited, reading, volume_write.written_bytes());
        let behind = settled_to.saturating_sub(volume_write.at());
        if behind == 0 || behind <= self.ahead_bytes_max(volume_write, reading) {
            return None;
        }
        // A reader that has something to read would have to wait for what comes next.
        let is_over = longest.is_zero() || (reading != Reading::Nobody && self.patience.is_spent());
        if is_over && self.can_wait_in_memory() {
            return None;
        }
        if longest.is_zero() {
            volume_write.note_given_up();
            self.volume_write = None;
            return None;
        }
        Some(longest)
    }

    /// Whether a drive that is too slow for readers may take the body later: memory holds all of it, and has
    /// room for others.
    fn can_wait_in_memory(&self) -> bool {
        let is_held = self.window.is_none() && self.kind == Kind::Whole;
        is_held && !self.patience.is_stalled() && !self.inside.memory.is_scarce()
    }

    /// Up to where the volume gets what has arrived: whole blocks, and the end.
    fn settled_to(&self) -> u64 {
        if self.at == self.end { self.at } else { self.at - self.at % BLOCK_BYTES as u64 }
    }

    /// How far the volume may be behind.
    fn ahead_bytes_max(&self, volume_write: &VolumeWrite, reading: Reading) -> u64 {
        // Its readers have nothing but the volume, which must not give up the end of it.
        let is_all_there = self.at == self.end;
        if self.window.is_some() || self.is_on_disk_only() {
            return if is_all_there { 0 } else { self.inside.memory.window_bytes() / 2 };
        }
        match reading {
            _ if volume_write.is_crowded(&self.generation) => 0,
            // The rest of a body that has arrived is kept until the volume takes it.
            _ if is_all_there => u64::MAX,
            Reading::Nobody => 0,
            Reading::Behind | Reading::HeldBack => self.inside.memory.window_bytes(),
        }
    }

    /// A wait for the volume that is behind.
    pub fn wait_for_volume(&self) -> WriterWait {
        WriterWait::new(None, self.volume_write.as_ref().and_then(VolumeWrite::wait_for_room))
    }

    /// A wait for memory, after [`Full`].
    pub fn wait_for_memory(&self) -> WriterWait {
        let memory = self.inside.memory.budget.wait();
        WriterWait::new(Some(memory), self.volume_write.as_ref().and_then(VolumeWrite::wait_for_room))
    }

    /// From here on such a wait misses nothing: try again after this, then wait.
    pub fn arm(&self, wait: &mut WriterWait) {
        wait.arm(self.volume_write.as_ref().and_then(|write| write.writing(&self.generation)));
    }

    /// Takes memory: by evicting others, else from its reserve, else by narrowing the window or becoming one.
    fn charge(&mut self, bytes: u64) -> Option<Charge> {
        if self.is_all_reserved
            && let Some(charge) = self.charge_reserved(bytes)
        {
            return Some(charge);
        }
        let charge = self.inside.memory.charge(bytes);
        let charge = charge.or_else(|| self.charge_reserved(bytes));
        if charge.is_none() && self.has_reserved(bytes) {
            // What was loaded meanwhile is being read. It leaves soon, and the body stays what it is.
            return None;
        }
        charge.or_else(|| self.charge_narrowed(bytes)).or_else(|| self.charge_reserved(bytes))
    }

    fn charge_reserved(&self, bytes: u64) -> Option<Charge> {
        self.inside.memory.draw(self.reserve.as_ref()?, self.drawn_bytes(), bytes)
    }

    /// Whether the reserve covers so many bytes more.
    fn has_reserved(&self, bytes: u64) -> bool {
        self.reserve.as_ref().is_some_and(|reserve| self.drawn_bytes() + bytes <= reserve.bytes())
    }

    /// What was taken of the reserve. One for all of the body has shrunk by that.
    fn drawn_bytes(&self) -> u64 {
        let body = &self.generation.body;
        match self.kind {
            _ if self.is_all_reserved => 0,
            Kind::Whole => body.held_bytes(),
            Kind::Gap => body.held_within(Interval { start: self.start, end: self.at }).length(),
        }
    }

    fn charge_narrowed(&mut self, bytes: u64) -> Option<Charge> {
        if self.kind == Kind::Gap {
            // Offer the volume again what it had no room for: memory can drop what it takes.
            self.hand_over(self.at);
            self.forget_on_disk();
            return self.inside.memory.charge(bytes).or_else(|| {
                self.forget_read();
                self.inside.memory.charge(bytes)
            });
        }
        if self.window.is_none() {
            self.outgrow();
        }
        loop {
            if let Some(charge) = self.inside.memory.charge(bytes) {
                return Some(charge);
            }
            if self.generation.body.slide(self.expendable(), bytes) == 0 {
                return None;
            }
        }
    }

    /// Drops from memory what the volume has. What was begun a moment ago may have become readable only now.
    fn forget_on_disk(&self) {
        if let Some(tier) = self.generation.home().filter(|_| self.is_writing_to_volume()) {
            tier.attach(&self.generation);
        }
        self.generation.forget_on_disk();
    }

    /// Drops what readers have read and no volume gets. A later reader has it fetched again.
    fn forget_read(&self) {
        let end = self.read_to.min(self.at);
        if self.volume_write.is_none() && self.read_to != u64::MAX && self.start < end {
            self.generation.body.forget(&Intervals::of(Interval { start: self.start, end }));
        }
    }

    /// Up to where bytes may be dropped when memory is short: those that the foremost reader has read. It
    /// could not have the others again where their version has no name.
    fn expendable(&self) -> u64 {
        self.read_to.min(self.at).min(self.written_to())
    }

    /// Up to where the volume has taken the body; `u64::MAX` where it gets none.
    fn written_to(&self) -> u64 {
        self.volume_write.as_ref().map_or(u64::MAX, VolumeWrite::at)
    }

    /// Withdraws the generation from the store: from now on only the newest bytes are kept.
    pub(crate) fn outgrow(&mut self) {
        self.inside.memory.retire(&self.generation, Retirement::Outgrown);
        self.inside.memory.counts.outgrown.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.window = Some(self.inside.memory.open_window());
    }

    /// Drops what lies behind the window: at most two bytes for each that arrives, so that readers far behind
    /// are not all cut at once when the body outgrows the store.
    fn slide(&mut self, coming: u64) {
        if let Some(window_bytes) = self.window_bytes() {
            let start = (self.at + coming).saturating_sub(window_bytes);
            let start = start.min(self.read_to).min(self.written_to());
            self.generation.body.slide(start, coming.saturating_mul(2));
        }
    }

    /// Ends a transfer that is complete: the generation is whole and published, and replaces older ones of
    /// its variant. A body of unknown length ends here. A window ends without being published.
    ///
    /// # Errors
    /// [`Unsealed`] where fewer or more bytes arrived than were declared.
    pub fn seal(mut self) -> Result<(), Unsealed> {
        let body = &self.generation.body;
        let declared = body.length().unwrap_or(self.at);
        if self.arrived_end != declared {
            return Err(Unsealed { declared, arrived: self.arrived_end });
        }
        body.end_at(declared);
        self.leave();
        if let Some(volume_write) = self.volume_write.take() {
            let (inside, is_window) = (Arc::clone(&self.inside), self.window.is_some());
            let replace_older = move |newest: &Generation| {
                if is_window {
                    inside.memory.replace_older(newest)
                }
            };
            let keeper = if is_window { Keeper::VolumeAlone } else { Keeper::Memory };
            volume_write.finish(&self.generation, declared, keeper, replace_older);
        }
        Ok(())
    }

    /// Ends a transfer and keeps what has arrived: the generation is published as a part or, if nothing is
    /// missing, as a whole. Only for bytes of one version: the generation has a strong validator, or this is
    /// its first transfer.
    pub fn rest(mut self) {
        if self.kind == Kind::Whole {
            self.generation.set_rested();
        }
        let is_on_disk_only = self.is_on_disk_only();
        self.leave();
        let volume_write = self.volume_write.take();
        if self.kind == Kind::Gap && self.generation.body.is_whole() && self.generation.is_damaged_on_disk() {
            return self.store_again();
        }
        let Some(mut volume_write) = volume_write else { return };
        match self.kind {
            Kind::Gap => {
                let keeper = if is_on_disk_only { Keeper::VolumeAlone } else { Keeper::Memory };
                volume_write.finish(&self.generation, self.at, keeper, |_| {});
            }
            Kind::Whole => {
                volume_write.push(&self.generation.body, self.at);
                volume_write.rest();
            }
        }
    }

    /// Writes a body again that is whole in memory and was damaged on the volume.
    fn store_again(&self) {
        // A replaced one must not come back as the newest on the volume.
        if self.generation.is_retired() {
            return;
        }
        let volume_write = self.inside.volumes.tiers.begin(&self.generation);
        if let (Some(volume_write), Some(length)) = (volume_write, self.generation.length()) {
            volume_write.finish(&self.generation, length, Keeper::Memory, |_| {});
        }
    }

    /// Abandons the transfer: the generation is withdrawn. Its readers get what has arrived, then
    /// [`crate::Read::Gone`].
    pub fn abandon(self) {
        drop(self);
    }

    /// Leaves the body. The last writer seals it if it can, and publishes it.
    fn leave(&mut self) {
        let Some(id) = self.id.take() else { return };
        let left = self.generation.body.leave_writer(id);
        if left == 0 && self.generation.body.window_start() == 0 {
            self.generation.body.seal();
        }
        if left == 0 {
            self.inside.memory.publish(&self.generation);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let left = self.generation.body.leave_writer(id);
            match self.kind {
                Kind::Whole => self.inside.memory.retire(&self.generation, Retirement::Abandoned),
                Kind::Gap if left == 0 => {
                    self.generation.body.seal();
                    self.inside.memory.publish(&self.generation);
                }
                Kind::Gap => {}
            }
        }
        // What it has published can be evicted.
        self.inside.memory.budget.wake();
    }
}
