//! How a volume is treated by what its drive does: when it is not waited for any more, when it is let go, and
//! when it is tried again. Pure: it is told what happened and when, and says what is to be done.
//!
//! Each way of failing has its own pause, which doubles when it fails again soon after it was tried, so that
//! a drive that comes and goes disturbs ever less.

use std::time::Duration;

use crate::volume::VolumeState;

/// A volume that did not keep up is not waited for so long, at first and at most; and after so long a calm,
/// as at first again.
const SLOW: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60), Duration::from_secs(120));
/// A volume that was let go is opened again after so long.
const EJECTED: Backoff =
    Backoff::new(Duration::from_secs(5), Duration::from_secs(600), Duration::from_secs(600));
/// Writing is tried again after so long where nothing could be written.
const UNWRITABLE: Backoff =
    Backoff::new(Duration::from_secs(10), Duration::from_secs(600), Duration::from_secs(600));
/// A read or a write that takes so long will not come back: the volume is let go.
pub(super) const STUCK_MAX: Duration = Duration::from_secs(30);

/// A pause that doubles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Backoff {
    least: Duration,
    most: Duration,
    calm: Duration,
    /// How often it has doubled.
    doubled: u32,
    /// When it ends, or ended.
    until: Duration,
}

impl Backoff {
    const fn new(least: Duration, most: Duration, calm: Duration) -> Backoff {
        Backoff { least, most, calm, doubled: 0, until: Duration::ZERO }
    }

    /// Begins a pause, twice as long as the last one unless that is long ago.
    fn begin(self, now: Duration) -> Backoff {
        let is_first = self.until.is_zero() || now >= self.until + self.calm;
        let doubled = if is_first { 0 } else { self.doubled + 1 };
        let length = self.least.saturating_mul(1 << doubled.min(16)).min(self.most);
        Backoff { doubled: doubled.min(16), until: now + length, ..self }
    }

    fn is_over(&self, now: Duration) -> bool {
        now >= self.until
    }
}

/// What happened to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// It was opened.
    Opened,
    /// It could not be opened.
    NotOpened,
    /// A look at it: everything was answered in time.
    Answers,
    /// A look at it: something took longer than is waited for.
    Lags,
    /// A look at it: nothing can be written.
    Unwritable,
    /// It fails altogether.
    Fails,
    /// Time has passed.
    Tick,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Nobody is to wait for it.
    Pass,
    /// It is waited for again.
    Await,
    /// Let it go.
    Eject,
    /// Open it.
    Open,
    /// Try whether it can be written now.
    Write,
}

/// The circuit breaker of a volume: probing, up, slow or ejected. Moments are those of a monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CircuitBreaker {
    state: VolumeState,
    slow: Backoff,
    ejected: Backoff,
    unwritable: Backoff,
    /// Nothing could be written when it was last tried.
    is_unwritable: bool,
}

impl Default for CircuitBreaker {
    fn default() -> CircuitBreaker {
        CircuitBreaker::new()
    }
}

impl CircuitBreaker {
    /// Of a volume that is being opened for the first time.
    pub(super) fn new() -> CircuitBreaker {
        CircuitBreaker {
            state: VolumeState::Probing,
            slow: SLOW,
            ejected: EJECTED,
            unwritable: UNWRITABLE,
            is_unwritable: false,
        }
    }

    /// Where it is.
    pub(super) fn state(&self) -> VolumeState {
        self.state
    }

    /// How long until it is tried again, where it is being left alone.
    pub(super) fn rests_for(&self, now: Duration) -> Option<Duration> {
        let until = match self.state {
            VolumeState::Slow => self.slow.until,
            VolumeState::Ejected => self.ejected.until,
            VolumeState::Up if self.is_unwritable => self.unwritable.until,
            VolumeState::Up | VolumeState::Probing | VolumeState::Full | VolumeState::ReadOnly => {
                return None;
            }
        };
        Some(until.saturating_sub(now))
    }

    /// What follows from an event.
    #[must_use]
    pub(super) fn on(self, event: Event, now: Duration) -> (CircuitBreaker, Option<Act>) {
        match (self.state, event) {
            (VolumeState::Probing, Event::Opened) => {
                (CircuitBreaker { state: VolumeState::Up, is_unwritable: false, ..self }, Some(Act::Await))
            }
            (VolumeState::Probing, Event::NotOpened) => (self.eject(now), None),
            (VolumeState::Up | VolumeState::Slow, Event::Fails) => (self.eject(now), Some(Act::Eject)),
            (VolumeState::Up, Event::Lags) => (
                CircuitBreaker { state: VolumeState::Slow, slow: self.slow.begin(now), ..self },
                Some(Act::Pass),
            ),
            (VolumeState::Slow, Event::Lags) if self.slow.is_over(now) => {
                (CircuitBreaker { slow: self.slow.begin(now), ..self }, None)
            }
            (VolumeState::Slow, Event::Answers | Event::Unwritable) if self.slow.is_over(now) => {
                (CircuitBreaker { state: VolumeState::Up, ..self }, Some(Act::Await))
            }
            (VolumeState::Up, Event::Unwritable) => self.on_unwritable(now),
            (VolumeState::Up, Event::Answers) => (CircuitBreaker { is_unwritable: false, ..self }, None),
            (VolumeState::Ejected, Event::Tick) if self.ejected.is_over(now) => {
                (CircuitBreaker { state: VolumeState::Probing, ..self }, Some(Act::Open))
            }
            _ => (self, None),
        }
    }

    fn eject(self, now: Duration) -> CircuitBreaker {
        CircuitBreaker { state: VolumeState::Ejected, ejected: self.ejected.begin(now), ..self }
    }

    fn on_unwritable(self, now: Duration) -> (CircuitBreaker, Option<Act>) {
        if !self.is_unwritable {
            let unwritable = self.unwritable.begin(now);
            return (CircuitBreaker { is_unwritable: true, unwritable, ..self }, None);
        }
        if self.unwritable.is_over(now) {
            return (CircuitBreaker { unwritable: self.unwritable.begin(now), ..self }, Some(Act::Write));
        }
        (self, None)
    }
}

#[cfg(test)]
mod tests;
