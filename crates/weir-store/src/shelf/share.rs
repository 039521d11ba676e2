//! Shares of the memory for bodies on their way: what each can go on with whatever others hold, and how much
//! they may hold together for readers who take their time. It must not drop what a reader has not read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Shelf;
use crate::body::BLOCK_BYTES;
use crate::budget::{BLOCK_OVERHEAD_BYTES, Reserve};
use crate::store::Settings;

/// One block as it is charged.
const BLOCK_CHARGE_BYTES: u64 = BLOCK_BYTES as u64 + BLOCK_OVERHEAD_BYTES;
/// What a body can go on with: twice what comes in one piece, the blocks at both ends, and the one that a
/// reader holds.
const RESERVE_BLOCKS: u64 = 5;
/// What is reserved for one body is at most so much of the memory, and a block at least.
const RESERVES_MIN: u64 = 32;
/// The fewest bytes that a window is narrowed to when there are many.
const WINDOW_BYTES_MIN: u64 = 4 * BLOCK_BYTES as u64;

impl Settings {
    fn window_bytes_min(&self) -> u64 {
        WINDOW_BYTES_MIN.min(self.window_bytes)
    }
}

impl Shelf {
    /// Keeps memory free for a body of which so many bytes are to come, evicting as needed. `None` where
    /// readers and other bodies on their way hold too much: what cannot be had now is not waited for.
    pub(crate) fn reserve(&self, coming_bytes: u64) -> Option<Reserve> {
        let most = self.settings.memory_bytes / RESERVES_MIN;
        let most = most.clamp(BLOCK_CHARGE_BYTES, RESERVE_BLOCKS * BLOCK_CHARGE_BYTES);
        let bytes = match coming_bytes {
            0 => 0,
            _ => most.min(
                coming_bytes.saturating_add(coming_bytes.div_ceil(BLOCK_BYTES as u64) * BLOCK_OVERHEAD_BYTES),
            ),
        };
        loop {
            if let Some(reserve) = self.budget.reserve(bytes) {
                return Some(reserve);
            }
            if !self.budget.may_reserve(bytes) || !self.evict(bytes) {
                return None;
            }
        }
    }

    /// Whether bodies on their way, what their readers have not read of them by the time they were whole,
    /// what is reserved for them, and what readers hold of those that have left, take more than five eighths
    /// of the memory: one body of half of it has room beside a few others, and the rest is left for who
    /// comes.
    pub(crate) fn is_scarce(&self) -> bool {
        let most = self.settings.memory_bytes / 8 * 5;
        let used = self.budget.used_bytes() + self.budget.reserved_bytes();
        let lagging = self.lagging_bytes.load(Ordering::Relaxed);
        used + lagging > most && used.saturating_sub(self.load().bytes) + lagging > most
    }

    /// A place among the windows.
    pub(crate) fn open_window(self: &Arc<Shelf>) -> Window {
        self.windows.fetch_add(1, Ordering::Relaxed);
        Window { shelf: Arc::clone(self) }
    }

    /// How many windows there are.
    pub(crate) fn windows(&self) -> u64 {
        self.windows.load(Ordering::Relaxed)
    }
}

/// A share of the memory for windows; given back on drop.
#[derive(Debug)]
pub(crate) struct Window {
    shelf: Arc<Shelf>,
}

impl Window {
    /// How many bytes this window may keep: all windows share what is set aside for them, and have the fewest
    /// where memory is scarce.
    pub(crate) fn bytes(&self) -> u64 {
        let settings = &self.shelf.settings;
        if self.shelf.is_scarce() {
            return settings.window_bytes_min();
        }
        let share = settings.windows_bytes_max / self.shelf.windows().max(1);
        share.clamp(settings.window_bytes_min(), settings.window_bytes)
    }
}

/// What readers have not read of a body that has come whole and is at rest: eviction frees nothing of it.
/// Forgotten on drop.
#[derive(Debug)]
pub struct Lag {
    shelf: Arc<Shelf>,
    bytes: u64,
}

impl Lag {
    pub(crate) fn new(shelf: &Arc<Shelf>, bytes: u64) -> Lag {
        shelf.lagging_bytes.fetch_add(bytes, Ordering::Relaxed);
        Lag { shelf: Arc::clone(shelf), bytes }
    }
}

impl Drop for Lag {
    fn drop(&mut self) {
        self.shelf.lagging_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.shelf.windows.fetch_sub(1, Ordering::Relaxed);
    }
}
