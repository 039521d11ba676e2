//! What is kept in memory at the moment: the index, the queues and the budget, and every change of a
//! generation's residence.
//!
//! One mutex guards the queues, all changes of the index, and residence. It is taken when something is begun,
//! published, retired or evicted, never on a hit, and no body is freed under it. Lock order: this one first,
//! then a body's. What lies below memory hears of it through [`LowerTier`].

mod ghost;
mod given_back;
mod index;
mod lower;
mod overhead;
mod queues;
mod reserve;
mod residence;
mod share;
mod sweep;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

pub use self::index::VARIANTS_MAX;
pub(crate) use self::lower::LowerTier;
pub(crate) use self::overhead::overhead_bytes;
pub(crate) use self::queues::Queues;
pub(crate) use self::reserve::cost_bytes;
pub use self::share::Lag;
pub(crate) use self::share::{Limits, Window};

use self::index::Index;
use self::queues::Load;
use self::share::Shares;
use crate::budget::{Budget, Charge};
use crate::generation::{Generation, Label, Retirement};
use crate::ledger::{Judged, Ledger, Stamp};
use crate::watch::Watched;

/// What begins to fill has a larger number than all that is loaded from a volume, which keeps the number that
/// it has there.
const SEQUENCE_MIN: u64 = 1 << 48;

/// What is in memory, and the ledger by which it is judged.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) limits: Limits,
    pub(crate) budget: Arc<Budget>,
    pub(crate) ledger: Ledger,
    pub(crate) index: Index,
    pub(crate) counts: Counts,
    pub(crate) watched: Watched,
    lower: Arc<dyn LowerTier>,
    sequence: AtomicU64,
    shares: Arc<Shares>,
    /// What other processes keep of the ceiling, those before this one.
    elsewhere: Mutex<Charge>,
    /// The line in which bodies wait for memory that are about to begin.
    pub(crate) turns: Arc<tokio::sync::Mutex<()>>,
    state: Mutex<State>,
}

/// What the lock guards.
#[derive(Debug)]
struct State {
    queues: Queues,
    sweep: Option<Sweep>,
    /// All that is at rest has this stamp at least.
    swept: Stamp,
    /// Marks were dropped up to this number.
    dropped: Stamp,
    /// Another process has taken over: nothing is kept here any more.
    is_given_back: bool,
}

/// A pass through memory: where it is, and the marks that it will have made superfluous.
#[derive(Debug, Clone, Copy)]
struct Sweep {
    cursor: usize,
    until: Stamp,
}

/// What has happened since the start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) evicted: AtomicU64,
    pub(crate) evicted_bytes: AtomicU64,
    pub(crate) outgrown: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl Memory {
    pub(crate) fn new(limits: Limits, ledger: Ledger, lower: Arc<dyn LowerTier>) -> Memory {
        let swept = ledger.current();
        let queues = Queues::new(limits.memory_bytes);
        let dropped = Stamp::of(0);
        let state = State { queues, sweep: None, swept, dropped, is_given_back: false };
        let budget = Budget::new(limits.memory_bytes);
        Memory {
            limits,
            elsewhere: Mutex::new(budget.nothing()),
            budget,
            ledger,
            index: Index::new(),
            counts: Counts::default(),
            watched: Watched::default(),
            lower,
            sequence: AtomicU64::new(SEQUENCE_MIN),
            shares: Arc::default(),
            turns: Arc::default(),
            state: Mutex::new(state),
        }
    }

    /// A number larger than all before.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
    }

    /// What the ledger's marks say of a generation: one atomic compare where none is newer than its stamp.
    pub(crate) fn judge(&self, label: &Label) -> Judged {
        let stamp = label.stamp();
        if self.ledger.is_settled(stamp) {
            return Judged::Alive;
        }
        self.ledger.judge(&label.key, &label.head.load().stored.tags, stamp)
    }

    /// Tells the watcher that a generation has left.
    fn tell(&self, generation: &Generation, why: Retirement) {
        if let Some(watcher) = self.watched.get().filter(|watcher| watcher.wants()) {
            watcher.left(generation, why);
        }
    }

    /// What is in the queues: count and bytes.
    pub(crate) fn load(&self) -> Load {
        self.state.lock().queues.load()
    }
}

#[cfg(test)]
mod tests;
