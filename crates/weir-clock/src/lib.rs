//! The clock of the data plane. What uses it takes [`Now`] or a deadline as an argument.
//!
//! Monotonic time is the runtime's, so that a test on virtual time moves the whole data plane. Wall time is
//! the system's. A thread may replace it with one that follows the monotonic clock and jumps when told to.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

use tokio::time::Sleep;
pub use weir_policy::Now;

thread_local! {
    /// This thread's wall clock, if it is not the system's.
    static WALL: Cell<Option<Wall>> = const { Cell::new(None) };
    /// A timer of this thread's runtime that fires soon, and when it does.
    static NEAR: RefCell<Option<(Instant, Pin<Box<Sleep>>)>> = const { RefCell::new(None) };
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

/// How soon the near timer fires.
const NEAR_AFTER: Duration = Duration::from_millis(500);

/// Has the runtime wake before `at` anyway. It wakes itself, by a system call, for each timer that is due
/// before all others; most such timers of connections never fire. So one of its own comes before them: a busy
/// thread makes that call twice a second, and an idle one never.
fn be_near(at: Instant) {
    NEAR.with_borrow_mut(|near| {
        let now = mono();
        if at < now + NEAR_AFTER || near.as_ref().is_some_and(|(fires, _)| now < *fires && *fires <= at) {
            return;
        }
        let fires = now + NEAR_AFTER;
        // A new one each time: the thread may have another runtime than before.
        let mut sleep = Box::pin(tokio::time::sleep_until(fires.into()));
        let _ = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        *near = Some((fires, sleep));
    });
}

/// A deadline that moves with every request but touches the timer wheel only when it would fire. Moving it to
/// a later time is a store; when the timer fires, it looks at the clock.
pub struct Deadline {
    at: Instant,
    /// The timer, and when it fires. There is none before the deadline is waited for.
    timer: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Deadline {
    /// A deadline `after` from now.
    pub fn after(after: Duration) -> Deadline {
        Deadline { at: mono() + after, timer: None }
    }

    /// Moves the deadline.
    pub fn set(&mut self, at: Instant) {
        self.at = at;
    }

    /// Ready when the deadline has passed.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let at = self.at;
            let (fires, sleep) = self.timer.get_or_insert_with(|| {
                be_near(at);
                (at, Box::pin(tokio::time::sleep_until(at.into())))
            });
            if at < *fires {
                rearm(fires, sleep, at);
            }
            std::task::ready!(sleep.as_mut().poll(cx));
            if mono() >= at {
                return Poll::Ready(());
            }
            rearm(fires, sleep, at);
        }
    }
}

fn rearm(fires: &mut Instant, sleep: &mut Pin<Box<Sleep>>, at: Instant) {
    *fires = at;
    be_near(at);
    sleep.as_mut().reset(at.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_near_timer_stands_before_many_deadlines() {
        let fires = || NEAR.with_borrow(|near| near.as_ref().map(|(fires, _)| *fires));
        let mut deadlines: Vec<Deadline> = (0..3).map(|_| Deadline::after(Duration::from_secs(60))).collect();
        let begun = mono();
        let mut cx = Context::from_waker(Waker::noop());
        for deadline in &mut deadlines {
            deadline.set(begun + Duration::from_secs(2));
            assert!(deadline.poll(&mut cx).is_pending());
        }
        let first = fires().unwrap();
        assert_eq!(first, begun + NEAR_AFTER, "one for all of them");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(fires(), Some(first), "an idle thread has no other");
        let mut late = Deadline::after(Duration::from_secs(60));
        late.set(mono() + Duration::from_secs(2));
        assert!(late.poll(&mut cx).is_pending());
        assert!(fires().unwrap() > first);
        std::future::poll_fn(|cx| deadlines[0].poll(cx)).await;
        assert!(mono() >= begun + Duration::from_secs(2));
    }

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
