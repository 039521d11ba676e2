//! Freed blocks that wait for reuse. An allocator that gets them from one thread and gives them to another
//! keeps pages in which little lives, and has the system clear pages that were just given back to it.
//!
//! As many stay as were asked for lately, and some at least. Who keeps it has to see that they fit, and to
//! call [`Stock::settle`] now and then: time is counted in its calls.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use weir_volume::BLOCK_BYTES;

/// The most that one call gives up: the allocator takes its time, and others wait for the caller.
const GIVEN_UP_MAX: usize = 256;

/// Buffers of [`BLOCK_BYTES`], empty. The one that came last leaves first: its memory is warm.
#[derive(Debug)]
pub(super) struct Stock {
    rooms: Mutex<Rooms>,
    /// How many there are.
    count: AtomicUsize,
    /// How many may stay although nobody has asked for any.
    least: usize,
}

#[derive(Debug, Default)]
struct Rooms {
    free: Vec<Vec<u8>>,
    /// How many were asked for since the last call of [`Stock::settle`].
    asked: usize,
    /// And between that and the one before.
    asked_before: usize,
}

impl Stock {
    /// An empty one, of which `least` may stay in any case.
    pub(super) fn new(least: usize) -> Stock {
        Stock { rooms: Mutex::default(), count: AtomicUsize::new(0), least }
    }

    /// The memory of what is in it.
    pub(super) fn bytes(&self) -> u64 {
        (self.count.load(Ordering::Relaxed) * BLOCK_BYTES) as u64
    }

    /// The memory of what may stay in any case.
    pub(super) fn least_bytes(&self) -> u64 {
        (self.least * BLOCK_BYTES) as u64
    }

    /// An empty buffer for a whole block.
    pub(super) fn take(&self) -> Vec<u8> {
        let mut rooms = self.rooms.lock();
        rooms.asked = rooms.asked.saturating_add(1);
        let room = rooms.free.pop();
        self.count.store(rooms.free.len(), Ordering::Relaxed);
        drop(rooms);
        room.unwrap_or_else(|| Vec::with_capacity(BLOCK_BYTES))
    }

    /// Takes back a buffer for a whole block, unless there are enough.
    pub(super) fn put(&self, mut room: Vec<u8>) {
        room.clear();
        let mut rooms = self.rooms.lock();
        if rooms.free.len() < rooms.most(self.least) {
            rooms.free.push(room);
            self.count.store(rooms.free.len(), Ordering::Relaxed);
        }
    }

    /// Gives the allocator one, asked for or not. False where there is none.
    pub(super) fn shrink(&self) -> bool {
        let mut rooms = self.rooms.lock();
        let room = rooms.free.pop();
        self.count.store(rooms.free.len(), Ordering::Relaxed);
        drop(rooms);
        room.is_some()
    }

    /// Gives the allocator some of those that nobody has asked for since the call before the last. True where
    /// more are left than may stay in any case: then call it again after a while.
    pub(super) fn settle(&self) -> bool {
        let mut rooms = self.rooms.lock();
        let held = rooms.free.len();
        let left = rooms.most(self.least).max(held.saturating_sub(GIVEN_UP_MAX)).min(held);
        (rooms.asked_before, rooms.asked) = (rooms.asked, 0);
        let given_up = rooms.free.split_off(left);
        if given_up.len() > left {
            rooms.free.shrink_to(2 * left);
        }
        self.count.store(left, Ordering::Relaxed);
        drop(rooms);
        drop(given_up);
        left > self.least
    }
}

impl Rooms {
    /// The most that may stay.
    fn most(&self, least: usize) -> usize {
        least.max(self.asked.saturating_add(self.asked_before))
    }
}

#[cfg(test)]
mod tests;
