//! What is being asked of origins, by the ledger's number when it was: marks up to the smallest of these
//! concern nothing that is under way, and may be dropped without making it dead.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Stamp;

/// The numbers, and how often each is held.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Mutex<BTreeMap<u64, usize>>);

impl UnderWay {
    /// Holds the number that `stamp` says; it is taken while nobody looks for the smallest.
    pub(super) fn hold(self: &Arc<Self>, stamp: impl FnOnce() -> Stamp) -> Asking {
        let mut held = self.0.lock();
        let stamp = stamp();
        *held.entry(stamp.0).or_default() += 1;
        Asking { stamp, under_way: Arc::clone(self) }
    }

    /// The smallest that is held, and not more than that.
    pub(super) fn smallest(&self, most: Stamp) -> Stamp {
        let held = self.0.lock();
        held.first_key_value().map_or(most, |(number, _)| Stamp(*number).min(most))
    }
}

/// Something is under way that was asked for at a number of the ledger; until this is dropped.
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
