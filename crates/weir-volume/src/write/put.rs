//! The handle by which an object is stored while it arrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// Why storing an object has ended before its time. The transfer itself goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// More waits to be written than may.
    #[error("the volume's queue is full")]
    QueueFull,
    /// There is no room, on the volume or on its file system.
    #[error("the volume is full")]
    Full,
    /// The drive has failed, or the volume has been taken out.
    #[error("the volume does not write")]
    Failed,
    /// Its key, its head or its table of extents is too long.
    #[error("the object is too large for the volume")]
    TooLarge,
    /// The day's write budget is used up.
    #[error("the volume's write budget is used up for today")]
    Spent,
    /// It was removed meanwhile.
    #[error("the object was removed")]
    Removed,
    /// Its owner may not have it there: the quota is 0, or less than the object.
    #[error("the quota does not allow it")]
    OverQuota,
}

/// How the storing of an object stands; shared between its handle and the writer.
#[derive(Debug, Default)]
pub struct Fate {
    ended: AtomicU8,
    bell: Arc<Notify>,
}

/// Wakes whoever waits for bytes of an object that is being stored.
#[derive(Debug, Clone)]
pub struct Writing(Arc<Notify>);

impl Writing {
    /// Completes once more can be read than when this was called, or nothing more comes. So call it, look,
    /// then wait.
    pub fn more(&self) -> OwnedNotified {
        Arc::clone(&self.0).notified_owned()
    }
}

const ENDINGS: [Ended; 7] = [
    Ended::QueueFull,
    Ended::Full,
    Ended::Failed,
    Ended::TooLarge,
    Ended::Removed,
    Ended::Spent,
    Ended::OverQuota,
];

impl Fate {
    pub(crate) fn new() -> Arc<Fate> {
        Arc::default()
    }

    /// Why it has ended, if it has.
    pub fn ended(&self) -> Option<Ended> {
        match self.ended.load(Ordering::Acquire) {
            0 => None,
            code => ENDINGS.get(usize::from(code - 1)).copied(),
        }
    }

    /// Ends it; the first reason stays.
    pub(crate) fn end(&self, why: Ended) {
        let code = ENDINGS.iter().position(|ending| *ending == why).unwrap_or(0) as u8 + 1;
        let _ = self.ended.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
        self.bell.notify_waiters();
    }

    /// Says that more of it can be read.
    pub(crate) fn note_written(&self) {
        self.bell.notify_waiters();
    }

    /// By which readers wait for more of it. Nobody who waits keeps it.
    pub fn writing(&self) -> Writing {
        Writing(Arc::clone(&self.bell))
    }
}

impl Drop for Fate {
    /// It is stored, or nobody stores it any more.
    fn drop(&mut self) {
        self.bell.notify_waiters();
    }
}
