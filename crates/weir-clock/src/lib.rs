//! The only crate that reads the clocks. All others take [`Now`] or a deadline as an argument.
//!
//! Monotonic time is the runtime's, so that a test on virtual time moves the whole data plane. Wall time is
//! the system's. A thread may replace it with one that follows the monotonic clock and jumps when told to.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use tokio::time::Sleep;
pub use weir_policy::Now;

thread_local! {
    /// This thread's wall clock, if it is not the system's.
    static WALL: Cell<Option<Wall>> = const { Cell::new(None) };
}

/// A wall clock that follows the monotonic one.
#[derive(Clone, Copy, Debug)]
struct Wall {
    since: Instant,
    was: SystemTime,
}

/// Both clocks now.
pub fn now() -> Now {
    let mono = mono();
    Now { mono, wall: wall(mono) }
}

/// The monotonic clock now.
pub fn mono() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[allow(clippy::disallowed_methods, reason = "this is the clock")]
fn wall(mono: Instant) -> SystemTime {
    match WALL.get() {
        None => SystemTime::now(),
        Some(wall) => wall.was + mono.saturating_duration_since(wall.since),
    }
}

/// Sets this thread's wall clock, which follows its monotonic clock from now on. Call it again to let it
/// jump.
pub fn set_wall(to: SystemTime) {
    WALL.set(Some(Wall { since: mono(), was: to }));
}

/// A deadline that moves with every request but touches the timer wheel only when it would fire. Moving it to
/// a later time is a store; when the timer fires, it looks at the clock.
pub struct Deadline {
    at: Instant,
    armed: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl Deadline {
    /// A deadline `after` from now.
    pub fn after(after: Duration) -> Deadline {
        let at = mono() + after;
        Deadline { at, armed: at, sleep: Box::pin(tokio::time::sleep_until(at.into())) }
    }

    /// Moves the deadline.
    pub fn set(&mut self, at: Instant) {
        self.at = at;
    }

    /// Ready when the deadline has passed.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wall_clock_that_was_set_follows_the_runtimes_clock() {
        let begun = now();
        let day = Duration::from_secs(86_400);
        set_wall(SystemTime::UNIX_EPOCH + day);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let later = now();
        assert_eq!(later.wall, SystemTime::UNIX_EPOCH + day + later.since(begun.mono));
        assert!(later.since(begun.mono) >= Duration::from_secs(5));
        set_wall(SystemTime::UNIX_EPOCH);
        assert!(now().since(begun.mono) < Duration::from_secs(6));
        assert_eq!(now().wall, SystemTime::UNIX_EPOCH);
    }
}
