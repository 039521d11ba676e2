//! Waiting until bytes of something bounded are freed: a queue's, or a memory budget's. Waiters are woken one
//! after another, so that a thousand of them do not all look at each block that is freed. It must not know
//! what is freed, nor how much.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// Wakes tasks that wait for bytes to be freed. Costs one load where none waits.
#[derive(Debug, Default)]
pub struct Freed {
    waiting: AtomicUsize,
    notify: Arc<Notify>,
}

impl Freed {
    /// Bytes were freed: wakes the waiter that has waited longest. Called after the count of what is used was
    /// lowered, with [`Ordering::SeqCst`]: either the waiter sees the lower count, or it is woken.
    pub fn wake(&self) {
        if self.is_waited_for() {
            self.notify.notify_one();
        }
    }

    /// Whether a task waits.
    pub fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Joins the waiters.
    pub fn wait(self: &Arc<Freed>) -> FreedWait {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut wait = FreedWait {
            freed: Arc::clone(self),
            notified: Box::pin(Arc::clone(&self.notify).notified_owned()),
            was_woken: false,
        };
        wait.register();
        wait
    }
}

/// A place among the waiters. One that leaves wakes the next: what was freed may be enough for both.
#[derive(Debug)]
pub struct FreedWait {
    freed: Arc<Freed>,
    notified: Pin<Box<OwnedNotified>>,
    was_woken: bool,
}

impl FreedWait {
    /// From here on nothing that is freed is missed: look whether there is room after this, then wait.
    pub fn arm(&mut self) {
        if std::mem::take(&mut self.was_woken) {
            self.notified.set(Arc::clone(&self.freed.notify).notified_owned());
            self.register();
        }
    }

    fn register(&mut self) {
        self.notified.as_mut().enable();
        // Pairs with the load in `wake`.
        fence(Ordering::SeqCst);
    }

    /// Waits until bytes are freed that others have not been woken for.
    ///
    /// # Cancel safety
    /// Safe: the place is kept.
    pub async fn woken(&mut self) {
        if !self.was_woken {
            self.notified.as_mut().await;
            self.was_woken = true;
        }
    }
}

impl Drop for FreedWait {
    fn drop(&mut self) {
        if self.freed.waiting.fetch_sub(1, Ordering::SeqCst) > 1 {
            self.freed.notify.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_woken(wait: &mut FreedWait) -> bool {
        pin!(wait.woken()).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn one_waiter_is_woken_for_what_is_freed_and_wakes_the_next_when_it_leaves() {
        let freed = Arc::new(Freed::default());
        freed.wake();
        let (mut first, mut second, mut third) = (freed.wait(), freed.wait(), freed.wait());
        assert!(!is_woken(&mut first) && !is_woken(&mut second), "what was freed before is no news");
        freed.wake();
        assert!(is_woken(&mut first) && !is_woken(&mut second) && !is_woken(&mut third));
        drop(first);
        assert!(is_woken(&mut second) && !is_woken(&mut third));
        // It found too little, and waits again behind the third.
        second.arm();
        assert!(!is_woken(&mut second) && !is_woken(&mut third));
        freed.wake();
        assert!(is_woken(&mut third) && !is_woken(&mut second));
    }

    #[test]
    fn what_is_freed_between_the_look_and_the_wait_is_not_missed() {
        let freed = Arc::new(Freed::default());
        let mut wait = freed.wait();
        freed.wake();
        assert!(is_woken(&mut wait));
        wait.arm();
        freed.wake();
        assert!(is_woken(&mut wait));
        // One that was woken and leaves without a look passes it on.
        let mut other = freed.wait();
        wait.arm();
        freed.wake();
        drop(wait);
        assert!(is_woken(&mut other));
    }
}
