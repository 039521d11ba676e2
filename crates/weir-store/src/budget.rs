//! The ceiling of memory: an atomic count of bytes against a limit, and charges that give their bytes back when dropped.
//!
//! Every byte that the store keeps is charged before it is kept, so that the sum never passes the limit. A block is a
//! [`Bytes`] whose owner holds its charge: it stays counted until the last clone, in whichever response, has dropped.
//! Not counted: the pieces of an unfinished block that a reader still holds after they were joined (they belong to
//! the reader's bytes in flight), and the block under construction in each writing thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

/// What the allocator, the reference count and the slot of a block cost beside its bytes.
pub(crate) const BLOCK_OVERHEAD_BYTES: u64 = 128;

/// A ceiling in bytes and what is charged against it.
#[derive(Debug)]
pub struct Budget {
    limit_bytes: u64,
    used_bytes: AtomicU64,
}

impl Budget {
    /// A budget of `limit_bytes`, of which nothing is used.
    pub fn new(limit_bytes: u64) -> Arc<Budget> {
        Arc::new(Budget { limit_bytes, used_bytes: AtomicU64::new(0) })
    }

    /// The ceiling.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// What is charged now.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Takes `bytes`, if the ceiling allows it.
    pub(crate) fn charge(self: &Arc<Budget>, bytes: u64) -> Option<Charge> {
        self.used_bytes
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|&sum| sum <= self.limit_bytes)
            })
            .ok()?;
        Some(Charge { budget: Arc::clone(self), bytes })
    }

    /// A charge of nothing, to which others are added.
    pub(crate) fn nothing(self: &Arc<Budget>) -> Charge {
        Charge { budget: Arc::clone(self), bytes: 0 }
    }
}

/// Bytes taken from a budget; given back on drop.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Charge {
    /// How many bytes it holds.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes `bytes` of this charge out as one of its own.
    pub(crate) fn split(&mut self, bytes: u64) -> Charge {
        assert!(bytes <= self.bytes, "a charge of {} bytes cannot give {bytes}", self.bytes);
        self.bytes -= bytes;
        Charge { budget: Arc::clone(&self.budget), bytes }
    }

    /// Adds another charge of the same budget to this one.
    pub(crate) fn join(&mut self, mut other: Charge) {
        debug_assert!(Arc::ptr_eq(&self.budget, &other.budget));
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let before = self.budget.used_bytes.fetch_sub(self.bytes, Ordering::AcqRel);
            debug_assert!(before >= self.bytes);
        }
    }
}

/// The owner of a block: its bytes and their charge.
struct Block {
    bytes: Box<[u8]>,
    _charge: Charge,
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Makes a counted block of `bytes`, which the `charge` must cover.
pub(crate) fn block(bytes: Box<[u8]>, charge: Charge) -> Bytes {
    assert!(charge.bytes() >= bytes.len() as u64, "a block must be charged whole");
    Bytes::from_owner(Block { bytes, _charge: charge })
}

#[cfg(test)]
mod tests;
