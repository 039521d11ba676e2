//! The ghosts of S3-FIFO: digests of what left the small queue unused. What comes back goes to the main
//! queue.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use crate::digest::Folded;

/// What a ghost costs in memory, roughly: its place in the list and in the table.
pub(crate) const GHOST_BYTES: u64 = 40;

/// A bounded first-in first-out set of digests.
#[derive(Debug, Default)]
pub(crate) struct Ghosts {
    order: VecDeque<(u64, u32)>,
    /// Digest → the number of its latest entry in `order`. Older entries of it there count for nothing.
    numbers: HashMap<u64, u32, BuildHasherDefault<Folded>>,
    next: u32,
}

impl Ghosts {
    /// Remembers a digest; keeps at most `count_max`.
    pub(crate) fn add(&mut self, digest: u128, count_max: usize) {
        let digest = digest as u64;
        self.numbers.insert(digest, self.next);
        self.order.push_back((digest, self.next));
        self.next = self.next.wrapping_add(1);
        while self.order.len() > count_max {
            if let Some((oldest, number)) = self.order.pop_front()
                && self.numbers.get(&oldest) == Some(&number)
            {
                self.numbers.remove(&oldest);
            }
        }
    }

    /// Whether a digest is remembered.
    pub(crate) fn has(&self, digest: u128) -> bool {
        self.numbers.contains_key(&(digest as u64))
    }

    /// Forgets a digest; true if it was there.
    pub(crate) fn take(&mut self, digest: u128) -> bool {
        self.numbers.remove(&(digest as u64)).is_some()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }
}

#[cfg(test)]
mod tests;
