//! The bytes of a generation: blocks of 64 KiB with holes while they arrive, a plain list once they are
//! whole.
//!
//! States: *growing* (a map of slots under a mutex, held for a look-up; copying happens outside of it), then
//! *sealed* (a list that never changes, read without a lock). A sealed body never grows again. A body wakes
//! nobody: the caller of a [`crate::Writer`] wakes the readers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use smallvec::SmallVec;
use weir_policy::{Interval, Intervals};

use super::sealed::{Many, Sealed};
use super::slot::Slot;
use crate::budget::{BLOCK_OVERHEAD_BYTES, Charge, block};

pub use weir_volume::{BLOCK_BYTES, PIECE_BYTES_MAX};

const LENGTH_UNKNOWN: u64 = u64::MAX;

/// What is at an offset of a body.
#[derive(Debug)]
pub enum Read {
    /// Bytes from that offset on, at most [`PIECE_BYTES_MAX`].
    Piece(Bytes),
    /// Not here yet: a running [`crate::Writer`] will write it.
    NotYet,
    /// The offset is the end of the body, or beyond.
    End,
    /// Not here, and no running writer brings it: the fill was abandoned, or the window has moved past it.
    /// Plan again, or cut.
    Gone,
}

/// A running writer: its identity, where it writes next, where it will stop.
#[derive(Debug)]
struct Running {
    id: u32,
    at: u64,
    end: u64,
}

/// The state of a body that is not sealed.
#[derive(Debug)]
struct Growing {
    slots: BTreeMap<u64, Slot>,
    writers: SmallVec<[Running; 1]>,
    writers_begun: u32,
    held_bytes: u64,
    /// The charge for parts that are not joined yet, and for slots.
    loose: Charge,
    /// The window has dropped the bytes before this offset.
    window_start: u64,
}

/// The body of a generation.
#[derive(Debug)]
pub(crate) struct Body {
    length: AtomicU64,
    sealed: OnceLock<Sealed>,
    growing: Mutex<Option<Box<Growing>>>,
}

/// The result of adding bytes.
pub(crate) enum Added {
    /// They are readable.
    Done,
    /// They are readable, and this block is complete and should be joined.
    Complete(u64),
}

impl Body {
    /// An empty growing body. The empty `charge` fixes its budget.
    pub(crate) fn new(length: Option<u64>, charge: Charge) -> Body {
        Body {
            length: AtomicU64::new(length.unwrap_or(LENGTH_UNKNOWN)),
            sealed: OnceLock::new(),
            growing: Mutex::new(Some(Box::new(Growing::new(charge)))),
        }
    }

    /// Lets a body grow of which nothing is in memory. The empty `charge` fixes its budget.
    pub(crate) fn grow(&self, charge: Charge) {
        let mut growing = self.growing.lock();
        if growing.is_none() && !self.is_whole() {
            *growing = Some(Box::new(Growing::new(charge)));
        }
    }

    /// A body of which nothing is in memory.
    pub(crate) fn elsewhere(length: u64) -> Body {
        Body { length: AtomicU64::new(length), sealed: OnceLock::new(), growing: Mutex::new(None) }
    }

    /// A whole body of at most one block.
    pub(crate) fn small(bytes: Bytes) -> Body {
        let body = Body::elsewhere(bytes.len() as u64);
        let _ = body.sealed.set(Sealed::of_one(bytes));
        body
    }

    /// Adds the one block of a body that is on a volume. False where the body is whole already, or grows.
    pub(crate) fn load(&self, bytes: Bytes) -> bool {
        debug_assert_eq!(self.length(), Some(bytes.len() as u64));
        let growing = self.growing.lock();
        growing.is_none() && self.sealed.set(Sealed::of_one(bytes)).is_ok()
    }

    /// The total length, once it is known.
    pub(crate) fn length(&self) -> Option<u64> {
        let length = self.length.load(Ordering::Acquire);
        (length != LENGTH_UNKNOWN).then_some(length)
    }

    /// True once every byte is held and nothing can change.
    pub(crate) fn is_whole(&self) -> bool {
        self.sealed.get().is_some()
    }

    /// The bytes of a whole body.
    pub(crate) fn sealed(&self) -> Option<&Sealed> {
        self.sealed.get()
    }

    /// The bytes of a whole body that had several blocks.
    pub(crate) fn many(&self) -> Option<&Many> {
        self.sealed()?.many()
    }

    /// Reads at `offset`: at most `max` bytes.
    pub(crate) fn read(&self, offset: u64, max: usize) -> Read {
        if let Some(sealed) = self.sealed() {
            return sealed.read(offset, max);
        }
        let growing = self.growing.lock();
        if let Some(sealed) = self.sealed() {
            return sealed.read(offset, max);
        }
        // The length is read under the lock: the end of a transfer sets it before its writer leaves.
        if self.length().is_some_and(|length| offset >= length) {
            return Read::End;
        }
        let Some(growing) = &*growing else { return Read::Gone };
        growing.read(offset, max)
    }

    /// The intervals that can be read now.
    pub(crate) fn held(&self) -> Intervals {
        self.held_within(Interval { start: 0, end: u64::MAX })
    }

    /// The part of an interval that can be read now. Walks over the blocks of that interval only.
    pub(crate) fn held_within(&self, within: Interval) -> Intervals {
        if !self.is_whole()
            && let Some(growing) = &*self.growing.lock()
        {
            return growing.held_within(within);
        }
        let length = self.length().unwrap_or(0);
        let whole = Interval { start: 0, end: if self.is_whole() { length } else { 0 } };
        whole.intersection(within).map_or_else(Intervals::new, Intervals::of)
    }

    /// How many bytes can be read now.
    pub(crate) fn held_bytes(&self) -> u64 {
        match &*self.growing.lock() {
            Some(growing) => growing.held_bytes,
            None if self.is_whole() => self.length().unwrap_or(0),
            None => 0,
        }
    }

    /// The first byte that the window still holds.
    pub(crate) fn window_start(&self) -> u64 {
        self.growing.lock().as_ref().map_or(0, |growing| growing.window_start)
    }

    /// How many bytes a block has, as far as the length is known.
    fn block_bytes(&self, number: u64) -> usize {
        let start = number * BLOCK_BYTES as u64;
        let left = self.length().map_or(u64::MAX, |length| length.saturating_sub(start));
        left.min(BLOCK_BYTES as u64) as usize
    }

    /// Registers a writer that will bring `[at, end)`. `None` where the body is whole.
    pub(crate) fn join_writer(&self, at: u64, end: u64) -> Option<u32> {
        let mut growing = self.growing.lock();
        let growing = growing.as_mut()?;
        let id = growing.writers_begun;
        growing.writers_begun += 1;
        growing.writers.push(Running { id, at, end });
        Some(id)
    }

    /// Removes a writer; returns how many are left.
    pub(crate) fn leave_writer(&self, id: u32) -> usize {
        let mut growing = self.growing.lock();
        let Some(growing) = growing.as_mut() else { return 0 };
        growing.writers.retain(|writer| writer.id != id);
        growing.writers.len()
    }

    /// Adds bytes that lie within one block, for the writer `id`. The `charge` covers them and a block's
    /// overhead; the rest of it is given back.
    pub(crate) fn add(&self, id: u32, offset: u64, bytes: Bytes, mut charge: Charge) -> Added {
        let number = offset / BLOCK_BYTES as u64;
        let at = (offset % BLOCK_BYTES as u64) as usize;
        let length = bytes.len();
        debug_assert!(at + length <= BLOCK_BYTES);
        let block_bytes = self.block_bytes(number);
        let mut growing = self.growing.lock();
        // Invariant: a body is sealed only when its writers have left, so that a writer finds it growing.
        let Some(growing) = growing.as_mut() else { return Added::Done };
        let mut cost = 0;
        let slot = growing.slots.entry(number).or_insert_with(|| {
            cost = BLOCK_OVERHEAD_BYTES;
            Slot::empty()
        });
        let new = slot.add(at, bytes) as u64;
        let is_complete = new > 0 && slot.held_bytes() == block_bytes;
        cost += new;
        growing.held_bytes += new;
        growing.loose.join(charge.split(cost));
        if let Some(writer) = growing.writers.iter_mut().find(|writer| writer.id == id) {
            writer.at = offset + length as u64;
        }
        if is_complete { Added::Complete(number) } else { Added::Done }
    }

    /// Makes a complete block of its parts: of one that came in memory of the right size, else copied into
    /// one allocation, without holding the lock.
    pub(crate) fn join(&self, number: u64) {
        let (parts, budget) = {
            let mut lock = self.growing.lock();
            let Some(growing) = lock.as_mut() else { return };
            let Some(slot @ Slot::Loose(_)) = growing.slots.get_mut(&number) else { return };
            if let Some(whole) = slot.take_block() {
                let charge = growing.loose.split(whole.len() as u64 + BLOCK_OVERHEAD_BYTES);
                *slot = Slot::Block(block(whole, charge));
                return;
            }
            let Slot::Loose(parts) = slot else { return };
            (parts.clone(), Arc::clone(growing.loose.budget()))
        };
        let mut joined = budget.room(parts.iter().map(|part| part.bytes.len()).sum());
        for part in &parts {
            joined.extend_from_slice(&part.bytes);
        }
        self.install(number, joined.into_boxed_slice());
    }

    /// Replaces the parts by their joined block, if they are still there.
    fn install(&self, number: u64, joined: Box<[u8]>) {
        let mut lock = self.growing.lock();
        let Some(growing) = lock.as_mut() else { return };
        let Some(slot @ Slot::Loose(_)) = growing.slots.get_mut(&number) else { return };
        if slot.held_bytes() != joined.len() {
            return;
        }
        let charge = growing.loose.split(joined.len() as u64 + BLOCK_OVERHEAD_BYTES);
        let parts = std::mem::replace(slot, Slot::Block(block(joined, charge)));
        drop(lock);
        drop(parts);
    }

    /// Sets the length of a body whose end has come.
    pub(crate) fn end_at(&self, length: u64) {
        let _lock = self.growing.lock();
        let _ = self.length.compare_exchange(LENGTH_UNKNOWN, length, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Makes the body whole if every byte is held. True if it is whole now.
    pub(crate) fn seal(&self) -> bool {
        if self.is_whole() {
            return true;
        }
        let Some(length) = self.length() else { return false };
        if self.held_bytes() != length {
            return false;
        }
        let blocks = length.div_ceil(BLOCK_BYTES as u64);
        for number in (0..blocks).filter(|&number| !self.is_joined(number)) {
            self.join(number);
        }
        let mut growing = self.growing.lock();
        let Some(state) = growing.as_ref() else { return self.is_whole() };
        if !state.writers.is_empty() || state.held_bytes != length {
            return false;
        }
        let parts = state.slots.values().filter_map(|slot| slot.at(0));
        let sealed = match blocks {
            1 => parts.take(1).next().map(Sealed::of_one),
            _ => Some(Sealed::of_many(parts.collect())),
        };
        let Some(sealed) = sealed else { return false };
        assert_eq!(sealed.length(), length);
        let _ = self.sealed.set(sealed);
        let state = growing.take();
        drop(growing);
        drop(state);
        true
    }

    /// Drops the blocks whose bytes all lie in `elsewhere` too, except those that a writer writes.
    pub(crate) fn forget(&self, elsewhere: &Intervals) {
        let mut dropped = SmallVec::<[Slot; 4]>::new();
        let mut growing = self.growing.lock();
        let Some(state) = growing.as_mut() else { return };
        let is_elsewhere = |(number, slot): &(&u64, &Slot)| {
            let base = *number * BLOCK_BYTES as u64;
            let is_written = state.writers.iter().any(|writer| writer.at / BLOCK_BYTES as u64 == **number);
            let lies = |&(start, end): &(usize, usize)| {
                elsewhere.contains(Interval { start: base + start as u64, end: base + end as u64 })
            };
            !is_written && slot.runs().iter().all(lies)
        };
        let numbers: Vec<u64> = state.slots.iter().filter(is_elsewhere).map(|(number, _)| *number).collect();
        for number in numbers {
            if let Some(slot) = state.slots.remove(&number) {
                state.forget(&slot);
                dropped.push(slot);
            }
        }
        drop(growing);
    }

    fn is_joined(&self, number: u64) -> bool {
        let growing = self.growing.lock();
        growing.as_ref().is_none_or(|growing| matches!(growing.slots.get(&number), Some(Slot::Block(_))))
    }

    /// Drops whole blocks that end at or before `start`, the oldest first, until `bytes_max` were dropped.
    /// Returns how many bytes were dropped.
    pub(crate) fn slide(&self, start: u64, bytes_max: u64) -> u64 {
        let mut dropped = SmallVec::<[Slot; 4]>::new();
        let mut growing = self.growing.lock();
        let Some(state) = growing.as_mut() else { return 0 };
        let mut bytes = 0;
        while bytes < bytes_max {
            let Some(first) = state.slots.first_entry() else { break };
            let end = (first.key() + 1) * BLOCK_BYTES as u64;
            if end > start {
                break;
            }
            let slot = first.remove();
            bytes += state.forget(&slot);
            state.window_start = state.window_start.max(end);
            dropped.push(slot);
        }
        drop(growing);
        bytes
    }
}

impl Growing {
    fn new(charge: Charge) -> Growing {
        Growing {
            slots: BTreeMap::new(),
            writers: SmallVec::new(),
            writers_begun: 0,
            held_bytes: 0,
            loose: charge,
            window_start: 0,
        }
    }

    fn read(&self, offset: u64, max: usize) -> Read {
        let number = offset / BLOCK_BYTES as u64;
        let at = (offset % BLOCK_BYTES as u64) as usize;
        if let Some(bytes) = self.slots.get(&number).and_then(|slot| slot.at(at)) {
            return piece(bytes, max);
        }
        let is_coming = |writer: &Running| writer.at <= offset && offset < writer.end;
        if self.writers.iter().any(is_coming) { Read::NotYet } else { Read::Gone }
    }

    fn held_within(&self, within: Interval) -> Intervals {
        let mut held = Intervals::new();
        let blocks = within.start / BLOCK_BYTES as u64..within.end.div_ceil(BLOCK_BYTES as u64);
        for (number, slot) in self.slots.range(blocks) {
            let base = number * BLOCK_BYTES as u64;
            for (start, end) in slot.runs() {
                let run = Interval { start: base + start as u64, end: base + end as u64 };
                if let Some(run) = run.intersection(within) {
                    held.insert(run);
                }
            }
        }
        held
    }

    /// Takes a removed slot out of the sums; returns its bytes.
    fn forget(&mut self, slot: &Slot) -> u64 {
        let bytes = slot.held_bytes() as u64;
        self.held_bytes -= bytes;
        if let Slot::Loose(_) = slot {
            drop(self.loose.split(bytes + BLOCK_OVERHEAD_BYTES));
        }
        bytes
    }
}

fn piece(mut bytes: Bytes, max: usize) -> Read {
    bytes.truncate(max.min(PIECE_BYTES_MAX));
    Read::Piece(bytes)
}

#[cfg(test)]
mod tests;
