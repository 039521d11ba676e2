//! One lazily set timer a connection: to move a deadline away costs nothing. When the timer fires it looks at
//! the deadline again.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::time::Sleep;

/// A deadline that moves with almost every read, on a timer that is set about once for each time it runs
/// down.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timer {
    /// Ready once `deadline` has passed; pending, with a wake-up in time, before.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        let deadline = tokio::time::Instant::from_std(deadline);
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if sleep.deadline() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
    }

    /// Forgets the timer, which belongs to the runtime that it was set in.
    pub(crate) fn forget(&mut self) {
        self.sleep = None;
    }
}
