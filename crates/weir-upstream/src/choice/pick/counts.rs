//! How often an origin was picked, by pick and reason.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{PickWord, Picked, Reason};

const PICKS: usize = PickWord::ALL.len();
const REASONS: usize = Reason::ALL.len();

/// A counter for each pick and reason.
#[derive(Debug)]
pub(crate) struct PickCounts([[AtomicU64; REASONS]; PICKS]);

impl Default for PickCounts {
    fn default() -> PickCounts {
        PickCounts(array::from_fn(|_| array::from_fn(|_| AtomicU64::new(0))))
    }
}

impl PickCounts {
    /// The origin was picked.
    pub(crate) fn count(&self, picked: Picked) {
        self.0[picked.pick as usize][picked.reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// What was counted, without what never happened.
    pub(crate) fn counted(&self) -> Vec<(PickWord, Reason, u64)> {
        let of = |pick: PickWord| {
            Reason::ALL
                .map(|reason| (pick, reason, self.0[pick as usize][reason as usize].load(Ordering::Relaxed)))
        };
        PickWord::ALL.into_iter().flat_map(of).filter(|(_, _, count)| *count > 0).collect()
    }
}
