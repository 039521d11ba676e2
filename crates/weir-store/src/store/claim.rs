//! A claim on memory: a body that is about to begin gets what is freed next, before those that are under way.
//!
//! Without it those take all that volumes free, and one that comes late finds no room for as long as they
//! arrive. Claims stand in line: only the first one keeps anything from others, and no more than one body
//! needs to begin.

use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;
use weir_policy::{CacheKey, Storable};
use weir_volume::FreedWait;

use super::Store;
use crate::budget::Reserve;
use crate::generation::head_bytes;
use crate::inside::Inside;
use crate::memory::overhead_bytes;

/// The first claim in line. [`Claim::give`] it to the body that begins, without a wait between.
#[derive(Debug)]
pub struct Claim {
    inside: Arc<Inside>,
    bytes: u64,
    /// None while reserves take all that they may.
    reserve: Option<Reserve>,
    freed: FreedWait,
    _turn: OwnedMutexGuard<()>,
}

impl Store {
    /// How much memory a body of `length` bytes needs to begin.
    pub fn needed_bytes(&self, key: &CacheKey, storable: &Storable, length: u64) -> u64 {
        overhead_bytes(key) + head_bytes(storable.stored()) + self.inside.memory.reserve_bytes(length)
    }

    /// Whether so much is free. What can leave memory for it leaves.
    pub fn has_room(&self, needed_bytes: u64) -> bool {
        let memory = &self.inside.memory;
        let is_free =
            memory.budget.may_reserve(needed_bytes) && memory.budget.lacking_bytes(needed_bytes) == 0;
        is_free || memory.reserve_exactly(needed_bytes).is_some()
    }

    /// Has memory drop what volumes have of the bodies that go to volumes alone. They do so themselves as
    /// they arrive; one whose origin pauses does not.
    pub fn forget_written(&self) {
        self.inside.volumes.parts.forget_written();
    }

    /// Waits in line, then claims so much of what is freed next.
    ///
    /// # Cancel safety
    /// Safe: the place in line is lost.
    pub async fn claim(&self, needed_bytes: u64) -> Claim {
        let memory = &self.inside.memory;
        let turn = Arc::clone(&memory.turns).lock_owned().await;
        let freed = memory.budget.wait_first();
        Claim { inside: Arc::clone(&self.inside), bytes: needed_bytes, reserve: None, freed, _turn: turn }
    }
}

impl Claim {
    /// Gives what it claims to the body that begins now. Keep it until that has begun: until then no other
    /// claim is met, and nobody is woken for what this one gives.
    pub fn give(&mut self) {
        if let Some(reserve) = &mut self.reserve {
            reserve.shrink_to(0);
        }
    }

    /// Whether what it claims is free now. What can leave memory for it leaves.
    pub fn is_met(&mut self) -> bool {
        self.freed.arm();
        let memory = &self.inside.memory;
        if self.reserve.is_none() {
            self.reserve = memory.budget.claim(self.bytes);
        }
        self.reserve.is_some() && memory.meets_reserves()
    }

    /// Whether it keeps anything from others by now. False while reserves take all that they may.
    pub fn is_standing(&self) -> bool {
        self.reserve.is_some()
    }

    /// Whether as much waits for the volumes as it lacks: it may be met once they have written that.
    pub fn may_be_met(&self) -> bool {
        let unclaimed = if self.reserve.is_some() { 0 } else { self.bytes };
        self.inside.volumes.waiting_bytes() >= self.inside.memory.budget.lacking_bytes(unclaimed)
    }

    /// Waits until something was freed since [`Claim::is_met`] said no.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn freed(&mut self) {
        self.freed.woken().await;
    }
}

#[cfg(test)]
mod tests;
