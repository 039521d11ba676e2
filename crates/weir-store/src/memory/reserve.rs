//! How memory is shared out: what is charged, what is evicted for it, and what is kept free for bodies that
//! arrive.

use std::sync::atomic::Ordering;

use super::Memory;
use super::share::{Lag, Window};
use crate::budget::{BLOCK_OVERHEAD_BYTES, Charge, Reserve};
use crate::generation::{BLOCK_BYTES, Residence, Retirement};

/// One block as it is charged.
const BLOCK_CHARGE_BYTES: u64 = BLOCK_BYTES as u64 + BLOCK_OVERHEAD_BYTES;
/// How much a body needs to go on: twice what arrives in one piece, the blocks at both ends, and the one that
/// a reader holds.
const RESERVE_BLOCKS: u64 = 5;
/// With so little it goes on as well, a piece at a time: the block that is read, the one that is written, and
/// the next, into which a piece may reach.
const RESERVE_BLOCKS_MIN: u64 = 3;
/// A reserve is at most this part of the memory, and at least a block.
const RESERVES_MIN: u64 = 32;
/// This part of the memory is lent to what requests need of volumes, although reserves keep it free.
const LENT_PART: u64 = 16;

/// What so many bytes of a body are charged with.
pub(crate) fn cost_bytes(bytes: u64) -> u64 {
    bytes.saturating_add(bytes.div_ceil(BLOCK_BYTES as u64) * BLOCK_OVERHEAD_BYTES)
}

impl Memory {
    /// Takes bytes of the budget, evicting as needed. `None` when nothing more can leave.
    pub(crate) fn charge(&self, bytes: u64) -> Option<Charge> {
        loop {
            if let Some(charge) = self.budget.charge(bytes) {
                return Some(charge);
            }
            if bytes > self.budget.limit_bytes() || !self.evict(|| self.budget.lacking_bytes(bytes)) {
                return None;
            }
        }
    }

    /// As [`Memory::charge`], for what a request needs of a volume. A part of the memory is lent for that
    /// though reserves keep it free: it leaves for their holders. So hits go on where many bodies arrive.
    pub(crate) fn charge_loaded(&self, bytes: u64) -> Option<Charge> {
        let lend = || self.budget.lend(bytes, self.limits.memory_bytes / LENT_PART);
        self.budget.charge(bytes).or_else(lend).or_else(|| self.charge(bytes))
    }

    /// Whether so many bytes that a request has of a volume stay when it is done: while there is room, and
    /// else those of what was asked for a while ago as well. What is asked for once pushes nothing out.
    pub(crate) fn keeps_loaded(&self, digest: u128, bytes: u64) -> bool {
        let most = self.limits.memory_bytes - self.limits.memory_bytes / LENT_PART;
        let used = self.budget.used_bytes() + self.budget.reserved_bytes();
        used + bytes <= most || self.state.lock().queues.is_returning(digest)
    }

    /// Takes bytes that a reserve covers, for its holder, which has `taken` so many by now. Evicts what was
    /// loaded meanwhile. `None` where the reserve has less left, or all that was loaded is being read.
    pub(crate) fn draw(&self, reserve: &Reserve, taken: u64, bytes: u64) -> Option<Charge> {
        loop {
            if let Some(charge) = reserve.charge(taken, bytes) {
                return Some(charge);
            }
            if taken + bytes > reserve.bytes() || !self.evict(|| self.budget.over_bytes(bytes)) {
                return None;
            }
        }
    }

    /// Evicts generations of as many bytes as are lacking. False where less is at rest: then none is evicted.
    /// Nothing may be lacking any more once it is its turn.
    fn evict(&self, lacking_bytes: impl Fn() -> u64) -> bool {
        let victims = {
            let mut state = self.state.lock();
            let bytes = lacking_bytes();
            if bytes == 0 {
                return true;
            }
            let victims = state.queues.pick(bytes);
            for victim in &victims {
                victim.set_residence(Residence::Retired(Retirement::Evicted));
                self.index.remove(&victim.label);
            }
            victims
        };
        victims.iter().for_each(|victim| self.tell(victim, Retirement::Evicted));
        self.counts.evicted.fetch_add(victims.len() as u64, Ordering::Relaxed);
        let bytes: u64 = victims.iter().map(|victim| victim.held_bytes()).sum();
        self.counts.evicted_bytes.fetch_add(bytes, Ordering::Relaxed);
        !victims.is_empty()
    }

    /// Keeps memory free for a body with so many bytes to come, evicting as needed. `None` where readers and
    /// other arriving bodies hold too much. It never waits.
    pub(crate) fn reserve(&self, coming_bytes: u64) -> Option<Reserve> {
        self.reserve_exactly(self.reserve_bytes(coming_bytes))
    }

    /// How much is kept free for a body with so many bytes to come.
    pub(crate) fn reserve_bytes(&self, coming_bytes: u64) -> u64 {
        let most = self.limits.memory_bytes / RESERVES_MIN;
        // Where many bodies arrive, there is room for some more of them.
        let are_many = self.budget.reserved_bytes() > self.limits.memory_bytes / 8;
        let blocks = if are_many { RESERVE_BLOCKS_MIN } else { RESERVE_BLOCKS };
        let most = most.clamp(BLOCK_CHARGE_BYTES, blocks * BLOCK_CHARGE_BYTES);
        most.min(cost_bytes(coming_bytes))
    }

    /// As [`Memory::reserve`], for all that is to come: such a body never has to become a window. Three
    /// quarters of what may be reserved go to such bodies, so that there is room for others to begin.
    pub(crate) fn reserve_whole(&self, coming_bytes: u64) -> Option<Reserve> {
        let bytes = cost_bytes(coming_bytes);
        if self.budget.reserved_bytes().saturating_add(bytes) > self.limits.memory_bytes / 8 * 3 {
            return None;
        }
        self.reserve_exactly(bytes)
    }

    /// Keeps so much free, evicting as needed.
    pub(crate) fn reserve_exactly(&self, bytes: u64) -> Option<Reserve> {
        loop {
            if let Some(reserve) = self.budget.reserve(bytes) {
                return Some(reserve);
            }
            if !self.budget.may_reserve(bytes) || !self.evict(|| self.budget.lacking_bytes(bytes)) {
                return None;
            }
        }
    }

    /// Evicts until all that is reserved is free. False where no more can leave.
    pub(crate) fn meets_reserves(&self) -> bool {
        while !self.budget.is_kept() {
            if !self.evict(|| self.budget.lacking_bytes(0)) {
                return false;
            }
        }
        true
    }

    /// Whether more than five eighths of the memory are taken by arriving bodies, by what their readers had
    /// not read when they were whole, by reserves, and by what readers hold of bodies that have left. So a
    /// body of half of the memory has room beside a few others, and the rest is left for the next ones.
    pub(crate) fn is_scarce(&self) -> bool {
        let most = self.limits.memory_bytes / 8 * 5;
        let used = self.budget.used_bytes() + self.budget.reserved_bytes();
        let lagging = self.shares.lagging_bytes.load(Ordering::Relaxed);
        used + lagging > most && used.saturating_sub(self.load().bytes) + lagging > most
    }

    /// Opens one more window.
    pub(crate) fn open_window(&self) -> Window {
        Window::open(&self.shares)
    }

    /// How many windows there are.
    pub(crate) fn windows(&self) -> u64 {
        self.shares.windows.load(Ordering::Relaxed)
    }

    /// How many bytes a window may keep: all windows share what is set aside for them, and have the fewest
    /// where memory is scarce.
    pub(crate) fn window_bytes(&self) -> u64 {
        if self.is_scarce() {
            return self.limits.window_bytes_min();
        }
        let share = self.limits.windows_bytes_max / self.windows().max(1);
        share.clamp(self.limits.window_bytes_min(), self.limits.window_bytes)
    }

    /// Counts bytes of a whole body that readers have not read yet.
    pub(crate) fn lag(&self, bytes: u64) -> Lag {
        Lag::new(&self.shares, bytes)
    }
}
