//! The requests to origins under way, by the ledger's number when each was sent. Marks up to the smallest of
//! these concern nothing under way, and may be dropped without making anything dead.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Stamp;

/// The numbers, and how many requests have each.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Mutex<BTreeMap<u64, usize>>);

impl UnderWay {
    /// Holds the number that `stamp` returns. It is taken under the lock, so that a search for the smallest
    /// sees it.
    pub(super) fn hold(self: &Arc<Self>, stamp: impl FnOnce() -> Stamp) -> Asking {
        let mut held = self.0.lock();
        let stamp = stamp();
        *held.entry(stamp.0).or_default() += 1;
        Asking { stamp, under_way: Arc::clone(self) }
    }

    /// The smallest number held, but at most `most`.
    pub(super) fn smallest(&self, most: Stamp) -> Stamp {
        let held = self.0.lock();
        held.first_key_value().map_or(most, |(number, _)| Stamp(*number).min(most))
    }
}

/// A request under way, with its number; ends when dropped.
#[derive(Debug)]
pub struct Asking {
    stamp: Stamp,
    under_way: Arc<UnderWay>,
}

impl Asking {
    /// The number.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let mut held = self.under_way.0.lock();
        if let Some(count) = held.get_mut(&self.stamp.0) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.stamp.0);
            }
        }
    }
}
