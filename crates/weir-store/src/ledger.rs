//! The numbered list of purges and invalidations (RFC 9111 §4.4), and what each of them makes dead.
//!
//! Stamps are numbers, not times: a generation carries the ledger's number at the moment its origin request was sent,
//! and is dead iff that is smaller than the largest mark that concerns it. Responses in flight need no marking.
//! The marks of keys are limited: beyond the limit all of them become one mark of everything. The store's
//! sweeper sees to it beforehand that this hurts nobody: it goes through what is kept, stamps it anew, and drops marks.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::index::{DigestMap, digest_map};

/// How many marks of single keys are kept; about 64 bytes each.
pub const MARKS_MAX: usize = 16_384;

/// A number of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(u64);

impl Stamp {
    /// The stamp of that number.
    pub fn of(number: u64) -> Stamp {
        Stamp(number)
    }

    /// Its number.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// What a mark makes dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// Everything.
    All,
    /// All variants of one key, named by its digest.
    Key(u128),
}

/// The ledger: a counter and the marks made with it.
#[derive(Debug)]
pub struct Ledger {
    current: AtomicU64,
    /// The largest mark of everything.
    all: AtomicU64,
    /// The largest mark of any kind: a stamp that is not below it needs no look-up.
    newest: AtomicU64,
    /// The largest mark of each key that has one; read without a lock.
    keys: DigestMap<u64>,
    /// Held while a mark is made.
    marking: Mutex<()>,
    marks_max: usize,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger::new(MARKS_MAX)
    }
}

impl Ledger {
    /// An empty ledger that keeps at most `marks_max` marks of single keys.
    pub fn new(marks_max: usize) -> Ledger {
        Ledger {
            current: AtomicU64::new(1),
            all: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            keys: digest_map(),
            marking: Mutex::new(()),
            marks_max: marks_max.max(1),
        }
    }

    /// The number now. Take it before the origin request is sent.
    pub fn current(&self) -> Stamp {
        Stamp(self.current.load(Ordering::Acquire))
    }

    /// Makes everything in the scope that was asked for until now dead; returns the mark.
    pub fn mark(&self, scope: Scope) -> Stamp {
        let _marking = self.marking.lock();
        let keys = self.keys.pin();
        let number = self.current.load(Ordering::Acquire) + 1;
        match scope {
            Scope::All => {
                self.all.store(number, Ordering::Release);
                keys.clear();
            }
            Scope::Key(digest) => {
                if keys.len() >= self.marks_max && keys.get(&digest).is_none() {
                    self.all.store(number - 1, Ordering::Release);
                    keys.clear();
                }
                keys.insert(digest, number);
            }
        }
        self.newest.store(number, Ordering::Release);
        self.current.store(number, Ordering::Release);
        Stamp(number)
    }

    /// True when a mark has made a response of that key dead whose origin request was sent at `stamp`.
    pub fn is_dead(&self, digest: u128, stamp: Stamp) -> bool {
        if stamp.0 >= self.newest.load(Ordering::Acquire) {
            return false;
        }
        if stamp.0 < self.all.load(Ordering::Acquire) {
            return true;
        }
        let is_marked = self.keys.pin().get(&digest).is_some_and(|&mark| stamp.0 < mark);
        // A collapse between the two looks has moved the mark from `keys` to `all`.
        is_marked || stamp.0 < self.all.load(Ordering::Acquire)
    }

    /// True when half of the room for marks is taken: time to go through what is kept and drop marks.
    pub(crate) fn is_crowded(&self) -> bool {
        self.keys.len() * 2 >= self.marks_max
    }

    /// Drops the marks of keys up to a number. Whatever they made dead must be gone, and what shall live on must bear
    /// that number at least: it becomes a mark of everything.
    pub(crate) fn retire_marks(&self, until: Stamp) {
        let _marking = self.marking.lock();
        self.all.fetch_max(until.0, Ordering::AcqRel);
        self.keys.pin().retain(|_, &mark| mark > until.0);
    }

    /// How many marks of single keys are kept.
    pub fn marks(&self) -> usize {
        self.keys.len()
    }
}

#[cfg(test)]
mod tests;
