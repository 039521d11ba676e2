//! The last count of what memory holds of each site. A count reads each object of the index, so where there
//! are many, a thread of its own makes it from time to time, and nobody waits for it. It does not know how
//! to count.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use weir_policy::Now;

use crate::volume::Stock;

/// After a count the thread rests for so many times what it took: it uses a twentieth of a CPU at most.
const RESTS: u32 = 20;

/// What memory holds of a site.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct InMemory {
    pub(crate) own: Stock,
    /// What no volume has.
    pub(crate) beyond: Stock,
}

/// By the hash of the site, in order.
pub(crate) type BySite = Vec<(u64, InMemory)>;

/// The last count.
#[derive(Debug, Default)]
pub(crate) struct Lately(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<Counted>,
    is_counting: bool,
}

#[derive(Debug)]
struct Counted {
    sites: Arc<BySite>,
    at: Now,
    took: Duration,
}

impl Lately {
    /// What was counted last, and when. Has `count` called by a thread where that is old, or not yet counted.
    pub(crate) fn seen(
        self: &Arc<Lately>,
        clock: fn() -> Now,
        count: impl FnOnce() -> BySite + Send + 'static,
    ) -> Option<(Arc<BySite>, SystemTime)> {
        let mut state = self.0.lock();
        let rested = |last: &Counted| clock().since(last.at.mono) >= last.took * RESTS;
        if state.last.as_ref().is_none_or(rested) && !state.is_counting {
            state.is_counting = true;
            let counting = Counting(Arc::clone(self));
            let work = move || counting.count(clock, count);
            drop(state);
            // Without a thread the next scrape tries again.
            let _ = std::thread::Builder::new().name("weir-stocks".to_owned()).spawn(work);
            state = self.0.lock();
        }
        state.last.as_ref().map(|last| (Arc::clone(&last.sites), last.at.wall))
    }
}

/// A count that is under way. Another may begin once it is dropped.
struct Counting(Arc<Lately>);

impl Counting {
    fn count(self, clock: fn() -> Now, count: impl FnOnce() -> BySite) {
        let begun = clock();
        let sites = Arc::new(count());
        let at = clock();
        self.0.0.lock().last = Some(Counted { sites, at, took: at.since(begun.mono) });
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.0.0.lock().is_counting = false;
    }
}

#[cfg(test)]
mod tests;
