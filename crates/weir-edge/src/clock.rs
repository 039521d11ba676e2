//! The one room that reads the clocks. Everything else takes [`Now`] or a deadline as an argument.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use tokio::time::Sleep;
use weir_policy::Now;

/// Both clocks now.
#[allow(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn now() -> Now {
    Now { mono: Instant::now(), wall: SystemTime::now() }
}

/// The monotonic clock now.
#[allow(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn mono() -> Instant {
    Instant::now()
}

/// A deadline that moves with every request but touches the timer wheel only when it would fire:
/// moving it later is a store, and the timer looks at the clock when the older instant comes.
pub(crate) struct Deadline {
    at: Instant,
    armed: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl Deadline {
    /// A deadline `after` from now.
    pub(crate) fn after(after: Duration) -> Deadline {
        let at = mono() + after;
        Deadline { at, armed: at, sleep: Box::pin(tokio::time::sleep_until(at.into())) }
    }

    /// Moves the deadline.
    pub(crate) fn set(&mut self, at: Instant) {
        self.at = at;
    }

    /// Ready when the deadline has passed.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.at < self.armed {
                self.arm();
            }
            std::task::ready!(self.sleep.as_mut().poll(cx));
            if mono() >= self.at {
                return Poll::Ready(());
            }
            self.arm();
        }
    }

    fn arm(&mut self) {
        self.armed = self.at;
        self.sleep.as_mut().reset(self.at.into());
    }
}
