//! What a volume's sweeper counts, and how its thread is stopped.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// What the sweeper has done since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SweepUsage {
    /// Passes that ended with marks dropped.
    pub passes: u64,
    /// Passes that failed.
    pub failed: u64,
    /// Whether there are marks newer than the last pass.
    pub is_due: bool,
}

#[derive(Debug, Default)]
pub(crate) struct SweepCounts {
    pub(crate) passes: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) is_due: AtomicBool,
}

/// The sweeper's thread. It ends before the volume is closed.
#[derive(Debug, Default)]
pub(crate) struct SweeperThread {
    is_stopped: Mutex<bool>,
    bell: Condvar,
    pub(crate) handle: Mutex<Option<JoinHandle<()>>>,
}

impl SweeperThread {
    /// Waits. True where the thread must end.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let mut is_stopped = self.is_stopped.lock();
        if !*is_stopped && !time.is_zero() {
            self.bell.wait_for(&mut is_stopped, time);
        }
        *is_stopped
    }

    /// Lets the thread end, and waits for that.
    pub(crate) fn stop(&self) {
        *self.is_stopped.lock() = true;
        self.bell.notify_all();
        let handle = self.handle.lock().take();
        if let Some(handle) = handle.filter(|handle| handle.thread().id() != std::thread::current().id()) {
            // Its panic was reported already; the marks stay.
            let _ = handle.join();
        }
    }
}

impl Drop for SweeperThread {
    fn drop(&mut self) {
        self.stop();
    }
}

impl SweepCounts {
    pub(crate) fn usage(&self) -> SweepUsage {
        SweepUsage {
            passes: self.passes.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            is_due: self.is_due.load(Ordering::Relaxed),
        }
    }
}
