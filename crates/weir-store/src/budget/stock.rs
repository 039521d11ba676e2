//! Freed blocks that wait for reuse. An allocator that gets them from one thread and gives them to another
//! keeps pages in which little lives, and has the system clear pages that were just given back to it.
//!
//! As many stay as were asked for lately, and some at least. Who keeps it has to see that they fit.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_volume::BLOCK_BYTES;

/// What is asked for is counted for so long, and remembered as long again.
const PERIOD: Duration = Duration::from_secs(1);
/// The most surplus blocks that are given up where one is put back.
const GIVEN_UP: usize = 2;

/// Buffers of [`BLOCK_BYTES`], empty. The one that came last leaves first: its memory is warm.
#[derive(Debug)]
pub(super) struct Stock {
    rooms: Mutex<Rooms>,
    /// How many there are.
    count: AtomicUsize,
    /// How many may stay although nobody has asked for any.
    least: usize,
}

#[derive(Debug)]
struct Rooms {
    free: Vec<Vec<u8>>,
    since: Instant,
    asked: usize,
    asked_before: usize,
}

impl Stock {
    /// An empty one, of which `least` may stay in any case.
    pub(super) fn new(least: usize) -> Stock {
        let rooms = Rooms { free: Vec::new(), since: Instant::now(), asked: 0, asked_before: 0 };
        Stock { rooms: Mutex::new(rooms), count: AtomicUsize::new(0), least }
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
        rooms.turn(Instant::now());
        rooms.asked += 1;
        let room = rooms.free.pop();
        self.count.store(rooms.free.len(), Ordering::Relaxed);
        drop(rooms);
        room.unwrap_or_else(|| Vec::with_capacity(BLOCK_BYTES))
    }

    /// Takes back a buffer for a whole block, unless there are enough.
    pub(super) fn put(&self, mut room: Vec<u8>) {
        room.clear();
        let mut rooms = self.rooms.lock();
        rooms.turn(Instant::now());
        let most = rooms.most(self.least);
        if rooms.free.len() < most {
            rooms.free.push(room);
            self.count.store(rooms.free.len(), Ordering::Relaxed);
        } else {
            self.give_up(rooms, GIVEN_UP);
        }
    }

    /// Gives the allocator what has not been asked for lately.
    pub(super) fn settle(&self) {
        let mut rooms = self.rooms.lock();
        rooms.turn(Instant::now());
        self.give_up(rooms, usize::MAX);
    }

    /// Gives the allocator one, whoever asks for it.
    pub(super) fn shrink(&self) {
        let mut rooms = self.rooms.lock();
        let room = rooms.free.pop();
        self.count.store(rooms.free.len(), Ordering::Relaxed);
        drop(rooms);
        drop(room);
    }

    /// Gives the allocator up to `count` of those that are too many, without holding the lock.
    fn give_up(&self, mut rooms: parking_lot::MutexGuard<'_, Rooms>, count: usize) {
        let held = rooms.free.len();
        let left = rooms.most(self.least).max(held.saturating_sub(count)).min(held);
        let given_up = rooms.free.split_off(left);
        if rooms.free.is_empty() {
            rooms.free = Vec::new();
        }
        self.count.store(rooms.free.len(), Ordering::Relaxed);
        drop(rooms);
        drop(given_up);
    }
}

impl Rooms {
    /// Begins a new period when one is over.
    fn turn(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.since);
        if passed >= PERIOD {
            self.asked_before = if passed < 2 * PERIOD { self.asked } else { 0 };
            (self.asked, self.since) = (0, now);
        }
    }

    /// The most that may stay.
    fn most(&self, least: usize) -> usize {
        least.max(self.asked + self.asked_before)
    }
}

#[cfg(test)]
mod tests;
