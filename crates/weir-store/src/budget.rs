//! The ceiling of memory: an atomic count of bytes against a limit, and charges that give their bytes back
//! when dropped.
//!
//! Every byte that the store keeps is charged before it is kept, so that the sum never passes the limit. A
//! block is a [`Bytes`] whose owner holds its charge: it stays counted until its last clone, in whichever
//! response, is dropped. Running transfers reserve what they need to go on. Other charges leave that free, so
//! that no transfer waits for another. Not counted are whole blocks in stock for reuse (with what is charged
//! at most the ceiling and a thirty-second, or 1 MiB), the pieces of a joined block that a reader still
//! holds (they belong to the reader's bytes in flight), and the block that each transfer is receiving.

mod stock;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use weir_volume::{BLOCK_BYTES, Freed, FreedWait};

use self::stock::Stock;

/// What allocator, reference count and slot of a block cost beside its bytes.
pub(crate) const BLOCK_OVERHEAD_BYTES: u64 = 128;

/// Freed blocks that wait for reuse may be this part of the ceiling, also if nobody asks for any.
const STOCK_PART: u64 = 32;
/// At least and at most so many.
const STOCK_BLOCKS: (usize, usize) = (16, 1024);

/// A ceiling in bytes and what is charged against it.
#[derive(Debug)]
pub struct Budget {
    /// It only falls, once another process has taken over.
    limit_bytes: AtomicU64,
    /// Freed blocks for reuse.
    stock: Stock,
    used_bytes: AtomicU64,
    /// Bytes that only the holders of reserves may charge.
    reserved_bytes: AtomicU64,
    /// Charged bytes that are lent of what is reserved.
    lent_bytes: AtomicU64,
    /// The tasks that wait until less is charged or reserved.
    freed: Arc<Freed>,
    /// Those that get it first.
    freed_first: Arc<Freed>,
}

impl Budget {
    /// A budget of `limit_bytes`, of which nothing is used.
    pub fn new(limit_bytes: u64) -> Arc<Budget> {
        let blocks = usize::try_from(limit_bytes / STOCK_PART / BLOCK_BYTES as u64).unwrap_or(usize::MAX);
        Arc::new(Budget {
            limit_bytes: AtomicU64::new(limit_bytes),
            stock: Stock::new(blocks.clamp(STOCK_BLOCKS.0, STOCK_BLOCKS.1)),
            used_bytes: AtomicU64::new(0),
            reserved_bytes: AtomicU64::new(0),
            lent_bytes: AtomicU64::new(0),
            freed: Arc::default(),
            freed_first: Arc::default(),
        })
    }

    /// The ceiling.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    /// Lowers the ceiling to what is charged and reserved, and `room_bytes` beside, and keeps no block for
    /// reuse. Returns the ceiling.
    pub(crate) fn lower(&self, room_bytes: u64) -> u64 {
        let wanted = self.used_bytes() + self.reserved_bytes() + room_bytes;
        let before = self.limit_bytes.fetch_min(wanted, Ordering::Relaxed);
        while self.stock.shrink() {}
        before.min(wanted)
    }

    /// What is charged now.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Takes `bytes`, if the ceiling and what is reserved allow it.
    pub(crate) fn charge(self: &Arc<Budget>, bytes: u64) -> Option<Charge> {
        let charge = self.charge_below(bytes, self.limit_bytes().saturating_sub(self.reserved_bytes()))?;
        // Where a reserve was made meanwhile, at least one of the two gives way.
        self.is_kept().then_some(charge)
    }

    /// Takes `bytes` that a reserve covers. Its holder must never have taken more than the reserve.
    pub(crate) fn charge_reserved(self: &Arc<Budget>, bytes: u64) -> Option<Charge> {
        self.charge_below(bytes, self.limit_bytes())
    }

    fn charge_below(self: &Arc<Budget>, bytes: u64, ceiling: u64) -> Option<Charge> {
        let fits = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= ceiling);
        self.used_bytes.fetch_update(Ordering::SeqCst, Ordering::Relaxed, fits).ok()?;
        while !self.has_room_for_stock() && self.stock.shrink() {}
        Some(Charge { budget: Arc::clone(self), bytes, is_lent: false })
    }

    /// Takes `bytes` of what is reserved, while it is free and no more than `most` is lent.
    pub(crate) fn lend(self: &Arc<Budget>, bytes: u64, most: u64) -> Option<Charge> {
        let fits = |lent: u64| lent.checked_add(bytes).filter(|&sum| sum <= most);
        self.lent_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        let Some(mut charge) = self.charge_reserved(bytes) else {
            self.lent_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        };
        charge.is_lent = true;
        Some(charge)
    }

    /// Keeps `bytes` free of the charges of others, if they are free now and all reserves together stay
    /// within half of the ceiling.
    pub(crate) fn reserve(self: &Arc<Budget>, bytes: u64) -> Option<Reserve> {
        if !self.may_reserve(bytes) {
            return None;
        }
        self.reserved_bytes.fetch_add(bytes, Ordering::SeqCst);
        let reserve = Reserve { budget: Arc::clone(self), bytes };
        (self.is_kept() && self.may_reserve(0)).then_some(reserve)
    }

    /// Keeps `bytes` of what is freed next from the charges of others, if all reserves together stay within
    /// half of the ceiling. Until so much is free, see [`Budget::is_kept`], it is not to be drawn.
    pub(crate) fn claim(self: &Arc<Budget>, bytes: u64) -> Option<Reserve> {
        if !self.may_reserve(bytes) {
            return None;
        }
        self.reserved_bytes.fetch_add(bytes, Ordering::SeqCst);
        Some(Reserve { budget: Arc::clone(self), bytes })
    }

    /// Whether another reserve fits, whatever is charged.
    pub(crate) fn may_reserve(&self, bytes: u64) -> bool {
        self.reserved_bytes().saturating_add(bytes) <= self.limit_bytes() / 2
    }

    /// What is reserved now.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes.load(Ordering::SeqCst)
    }

    /// How much less would have to be charged or reserved, for `bytes` more to fit.
    pub(crate) fn lacking_bytes(&self, bytes: u64) -> u64 {
        self.over_bytes(self.reserved_bytes().saturating_add(bytes))
    }

    /// How much less would have to be charged, for `bytes` more to fit whatever is reserved.
    pub(crate) fn over_bytes(&self, bytes: u64) -> u64 {
        self.used_bytes.load(Ordering::SeqCst).saturating_add(bytes).saturating_sub(self.limit_bytes())
    }

    /// Whether all that is reserved is free.
    pub(crate) fn is_kept(&self) -> bool {
        self.used_bytes.load(Ordering::SeqCst).saturating_add(self.reserved_bytes()) <= self.limit_bytes()
    }

    /// Room for a block of this size.
    pub(crate) fn room(&self, bytes: usize) -> Vec<u8> {
        if bytes == BLOCK_BYTES { self.stock.take() } else { Vec::with_capacity(bytes) }
    }

    /// Gives the allocator some of the freed blocks that nobody has asked for lately. True where more are
    /// left than may stay.
    pub(crate) fn settle(&self) -> bool {
        self.stock.settle()
    }

    /// Whether what is in stock fits beside what is charged.
    fn has_room_for_stock(&self) -> bool {
        let stock_bytes = self.stock.bytes();
        let most = self.limit_bytes().saturating_add(self.stock.least_bytes());
        stock_bytes == 0 || self.used_bytes().saturating_add(stock_bytes) <= most
    }

    /// Joins the tasks that wait for memory. Try to charge after this.
    pub(crate) fn wait(&self) -> FreedWait {
        self.freed.wait()
    }

    /// As [`Budget::wait`], before all that wait there.
    pub(crate) fn wait_first(&self) -> FreedWait {
        self.freed_first.wait()
    }

    /// Whether a task waits for memory.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.freed.is_waited_for() || self.freed_first.is_waited_for()
    }

    /// More can be evicted than before, or is free: wakes a task that waits for memory.
    pub(crate) fn wake(&self) {
        self.freed_first.wake();
        self.freed.wake();
    }

    /// A charge of nothing, to which others are added.
    pub(crate) fn nothing(self: &Arc<Budget>) -> Charge {
        Charge { budget: Arc::clone(self), bytes: 0, is_lent: false }
    }
}

/// Bytes taken from a budget; given back on drop.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    bytes: u64,
    is_lent: bool,
}

impl Charge {
    /// How many bytes it holds.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What it is taken from.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Splits `bytes` off as a charge of their own.
    pub(crate) fn split(&mut self, bytes: u64) -> Charge {
        assert!(bytes <= self.bytes, "a charge of {} bytes cannot give {bytes}", self.bytes);
        self.bytes -= bytes;
        Charge { budget: Arc::clone(&self.budget), bytes, is_lent: self.is_lent }
    }

    /// Adds another charge of the same budget to this one.
    pub(crate) fn join(&mut self, mut other: Charge) {
        debug_assert!(Arc::ptr_eq(&self.budget, &other.budget));
        self.own();
        other.own();
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// What was lent is charged as all else from now on.
    fn own(&mut self) {
        if std::mem::take(&mut self.is_lent) {
            self.budget.lent_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.own();
        if self.bytes > 0 {
            let before = self.budget.used_bytes.fetch_sub(self.bytes, Ordering::SeqCst);
            debug_assert!(before >= self.bytes);
            self.budget.wake();
        }
    }
}

/// Bytes that are kept free for one holder; given up on drop.
#[derive(Debug)]
pub(crate) struct Reserve {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Reserve {
    /// How many bytes it keeps free.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Keeps no more than `bytes` free from now on. Tasks that wait for memory are woken once it is dropped.
    pub(crate) fn shrink_to(&mut self, bytes: u64) {
        let given_up = self.bytes.saturating_sub(bytes);
        self.bytes -= given_up;
        self.budget.reserved_bytes.fetch_sub(given_up, Ordering::SeqCst);
    }

    /// Takes `bytes` of the budget for the holder, which has `taken` so many by now.
    pub(crate) fn charge(&self, taken: u64, bytes: u64) -> Option<Charge> {
        if taken + bytes > self.bytes { None } else { self.budget.charge_reserved(bytes) }
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        self.budget.reserved_bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        self.budget.wake();
    }
}

/// The owner of a block: its bytes and their charge.
struct Block {
    bytes: Box<[u8]>,
    charge: Charge,
}

impl Drop for Block {
    fn drop(&mut self) {
        let budget = &self.charge.budget;
        // Its own charge still counts.
        if self.bytes.len() == BLOCK_BYTES && budget.has_room_for_stock() {
            budget.stock.put(Vec::from(std::mem::take(&mut self.bytes)));
        }
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Makes a counted block of `bytes`, which the `charge` must cover.
pub(crate) fn block(bytes: Box<[u8]>, charge: Charge) -> Bytes {
    assert!(charge.bytes() >= bytes.len() as u64, "a block must be charged whole");
    Bytes::from_owner(Block { bytes, charge })
}

#[cfg(test)]
mod tests;
