//! How far a job is, and whether it is to end: what the thread that does it shares with its readers.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use parking_lot::Mutex;

/// The progress of a job under way, and whether it is to end.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    /// How much of it earlier processes have done.
    before: AtomicU64,
    /// What it waits for, if it does.
    waits: Mutex<Option<String>>,
    /// 0 where it is not known.
    total: AtomicU64,
    /// Why it is to end, as [`Ends`]; 0 while it goes on.
    ends: AtomicU8,
}

/// Why a job is to end early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Ends {
    Cancelled = 1,
    Interrupted = 2,
}

impl Progress {
    /// Says how much there is.
    pub fn expect(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }

    /// Says that earlier processes have done so much.
    pub fn resume(&self, done: u64) {
        self.before.store(done, Ordering::Relaxed);
        self.done.fetch_add(done, Ordering::Relaxed);
    }

    /// Says what it waits for; `None`: it goes on.
    pub fn wait_for(&self, what: Option<&str>) {
        let mut waits = self.waits.lock();
        if waits.as_deref() != what {
            *waits = what.map(str::to_owned);
        }
    }

    /// What it waits for, if it does.
    pub(crate) fn waits(&self) -> Option<String> {
        self.waits.lock().clone()
    }

    /// How much earlier processes have done.
    pub(crate) fn before(&self) -> u64 {
        self.before.load(Ordering::Relaxed)
    }

    /// Says that one more is done. A break asks the job to end.
    pub fn step(&self) -> ControlFlow<()> {
        self.done.fetch_add(1, Ordering::Relaxed);
        match self.ends() {
            None => ControlFlow::Continue(()),
            Some(_) => ControlFlow::Break(()),
        }
    }

    /// Whether it is to end.
    pub fn is_over(&self) -> bool {
        self.ends().is_some()
    }

    /// Whether it is to end because another process takes over.
    pub fn is_interrupted(&self) -> bool {
        self.ends() == Some(Ends::Interrupted)
    }

    /// How much is done, and how much there is, if that is known.
    pub(crate) fn now(&self) -> (u64, Option<u64>) {
        let total = self.total.load(Ordering::Relaxed);
        (self.done.load(Ordering::Relaxed), Some(total).filter(|total| *total > 0))
    }

    /// Asks it to end. The first reason counts.
    pub(crate) fn end(&self, why: Ends) {
        let _ = self.ends.compare_exchange(0, why as u8, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Why it is to end.
    pub(crate) fn ends(&self) -> Option<Ends> {
        [Ends::Cancelled, Ends::Interrupted]
            .into_iter()
            .find(|ends| *ends as u8 == self.ends.load(Ordering::Relaxed))
    }
}
