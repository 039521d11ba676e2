//! The handle by which an object is stored while it arrives.

use std::sync::atomic::{AtomicU8, Ordering, fence};
use std::sync::{Arc, OnceLock};

use tokio::sync::watch;

/// Why storing an object stopped before its end. The transfer itself goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PutError {
    /// More waits to be written than may wait.
    #[error("the volume's queue is full")]
    QueueFull,
    /// There is no room, on the volume or on its file system.
    #[error("the volume is full")]
    Full,
    /// The drive has failed, or the volume was detached.
    #[error("the volume does not write")]
    Failed,
    /// Its key, its head or its table of extents is too long.
    #[error("the object is too large for the volume")]
    TooLarge,
    /// The day's write budget is used up.
    #[error("the volume's write budget is used up for today")]
    Spent,
    /// The object was removed in the meantime.
    #[error("the object was removed")]
    Removed,
    /// Its owner may not store it: the quota is 0, or less than the object.
    #[error("the quota does not allow it")]
    OverQuota,
}

/// How the storing of an object goes. Its handle and the writer share it.
#[derive(Debug, Default)]
pub struct PutStatus {
    /// 0, or one more than the index of the error.
    code: AtomicU8,
    /// Wakes the readers when more of the object can be read. The first reader that waits makes it.
    steps: OnceLock<watch::Sender<()>>,
}

/// A reader's wait for an object that is being written to a volume.
#[derive(Debug)]
pub struct Writing(watch::Receiver<()>);

impl Writing {
    /// Waits until more of the object can be read from the volume, or until nothing more of it is written. A
    /// reader that took this before it looked at the volume misses nothing.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn moved(mut self) {
        // An error says that the object is written.
        let _ = self.0.changed().await;
    }
}

const PUT_ERRORS: [PutError; 7] = [
    PutError::QueueFull,
    PutError::Full,
    PutError::Failed,
    PutError::TooLarge,
    PutError::Removed,
    PutError::Spent,
    PutError::OverQuota,
];

impl PutStatus {
    pub(crate) fn new() -> Arc<PutStatus> {
        Arc::default()
    }

    /// Why storing stopped, if it did.
    pub fn error(&self) -> Option<PutError> {
        match self.code.load(Ordering::Acquire) {
            0 => None,
            code => PUT_ERRORS.get(usize::from(code - 1)).copied(),
        }
    }

    /// Stops storing. The first reason stays.
    pub(crate) fn fail(&self, why: PutError) {
        let code = PUT_ERRORS.iter().position(|error| *error == why).unwrap_or(0) as u8 + 1;
        let _ = self.code.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
        self.step();
    }

    /// Wakes the readers: more of the object can be read, or nothing more is written.
    pub(crate) fn step(&self) {
        // Pairs with the fence in `writing`: either the reader sees what was written before this, or it is
        // woken.
        fence(Ordering::SeqCst);
        if let Some(steps) = self.steps.get() {
            steps.send_replace(());
        }
    }

    /// A wait for the next step after this call; `None` if storing has stopped.
    pub fn writing(&self) -> Option<Writing> {
        let steps = self.steps.get_or_init(|| watch::channel(()).0).subscribe();
        fence(Ordering::SeqCst);
        self.error().is_none().then_some(Writing(steps))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_ready(writing: &mut (impl Future<Output = ()> + Unpin)) -> bool {
        pin!(writing).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn a_reader_is_woken_by_each_step_and_by_the_end() {
        let status = PutStatus::new();
        status.step();
        let mut waits = Box::pin(status.writing().unwrap().moved());
        assert!(!is_ready(&mut waits), "what was written before is no news");
        status.step();
        assert!(is_ready(&mut waits));
        let missed = status.writing().unwrap();
        status.step();
        assert!(is_ready(&mut Box::pin(missed.moved())), "a step between the look and the wait is not lost");
        let mut waits = Box::pin(status.writing().unwrap().moved());
        status.fail(PutError::Full);
        assert!(is_ready(&mut waits) && status.writing().is_none());
    }

    #[test]
    fn a_reader_is_woken_when_all_is_written() {
        let status = PutStatus::new();
        let mut waits = Box::pin(status.writing().unwrap().moved());
        assert!(!is_ready(&mut waits));
        drop(status);
        assert!(is_ready(&mut waits));
    }
}
