//! How a volume is treated by what its drive does: when it is not waited for any more, when it is let go, and when it is tried
//! again. Pure: it is told what happened and when, and says what is to be done.
//!
//! Each way of failing has its own pause, which doubles when it fails again soon after it was tried, so that a drive that comes and
//! goes disturbs ever less.

use std::time::Duration;

/// A volume that did not keep up is not waited for so long, at first and at most; and after so long a calm, as at first again.
const SLOW: Pause = Pause::new(Duration::from_secs(1), Duration::from_secs(60), Duration::from_secs(120));
/// A volume that was let go is opened again after so long.
const EJECTED: Pause = Pause::new(Duration::from_secs(5), Duration::from_secs(600), Duration::from_secs(600));
/// Writing is tried again after so long where nothing could be written.
const UNWRITABLE: Pause =
    Pause::new(Duration::from_secs(10), Duration::from_secs(600), Duration::from_secs(600));
/// A read or a write that takes so long will not come back: the volume is let go.
pub const STUCK_MAX: Duration = Duration::from_secs(30);

/// A pause that doubles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pause {
    least: Duration,
    most: Duration,
    calm: Duration,
    /// How often it has doubled.
    doubled: u32,
    /// When it ends, or ended.
    until: Duration,
}

impl Pause {
    const fn new(least: Duration, most: Duration, calm: Duration) -> Pause {
        Pause { least, most, calm, doubled: 0, until: Duration::ZERO }
    }

    /// Begins a pause, twice as long as the last one unless that is long ago.
    fn begin(self, now: Duration) -> Pause {
        let is_first = self.until.is_zero() || now >= self.until + self.calm;
        let doubled = if is_first { 0 } else { self.doubled + 1 };
        let length = self.least.saturating_mul(1 << doubled.min(16)).min(self.most);
        Pause { doubled: doubled.min(16), until: now + length, ..self }
    }

    fn is_over(&self, now: Duration) -> bool {
        now >= self.until
    }
}

/// Where a volume is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It is being opened.
    Probing,
    /// It is attached, and waited for.
    Up,
    /// It is attached, and not waited for.
    Slow,
    /// It was let go.
    Ejected,
}

/// What happened to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
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
pub enum Act {
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

/// The state of a volume's treatment. Moments are those of a monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    phase: Phase,
    slow: Pause,
    ejected: Pause,
    unwritable: Pause,
    /// Nothing could be written when it was last tried.
    is_unwritable: bool,
}

impl Default for Life {
    fn default() -> Life {
        Life::new()
    }
}

impl Life {
    /// Of a volume that is being opened for the first time.
    pub fn new() -> Life {
        Life {
            phase: Phase::Probing,
            slow: SLOW,
            ejected: EJECTED,
            unwritable: UNWRITABLE,
            is_unwritable: false,
        }
    }

    /// Where it is.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// How long until it is tried again, where it is being left alone.
    pub fn rests_for(&self, now: Duration) -> Option<Duration> {
        let until = match self.phase {
            Phase::Slow => self.slow.until,
            Phase::Ejected => self.ejected.until,
            Phase::Up if self.is_unwritable => self.unwritable.until,
            Phase::Up | Phase::Probing => return None,
        };
        Some(until.saturating_sub(now))
    }

    /// What follows from an event.
    #[must_use]
    pub fn on(self, event: Event, now: Duration) -> (Life, Option<Act>) {
        match (self.phase, event) {
            (Phase::Probing, Event::Opened) => {
                (Life { phase: Phase::Up, is_unwritable: false, ..self }, Some(Act::Await))
            }
            (Phase::Probing, Event::NotOpened) => (self.eject(now), None),
            (Phase::Up | Phase::Slow, Event::Fails) => (self.eject(now), Some(Act::Eject)),
            (Phase::Up, Event::Lags) => {
                (Life { phase: Phase::Slow, slow: self.slow.begin(now), ..self }, Some(Act::Pass))
            }
            (Phase::Slow, Event::Lags) if self.slow.is_over(now) => {
                (Life { slow: self.slow.begin(now), ..self }, None)
            }
            (Phase::Slow, Event::Answers | Event::Unwritable) if self.slow.is_over(now) => {
                (Life { phase: Phase::Up, ..self }, Some(Act::Await))
            }
            (Phase::Up, Event::Unwritable) => self.on_unwritable(now),
            (Phase::Up, Event::Answers) => (Life { is_unwritable: false, ..self }, None),
            (Phase::Ejected, Event::Tick) if self.ejected.is_over(now) => {
                (Life { phase: Phase::Probing, ..self }, Some(Act::Open))
            }
            _ => (self, None),
        }
    }

    fn eject(self, now: Duration) -> Life {
        Life { phase: Phase::Ejected, ejected: self.ejected.begin(now), ..self }
    }

    fn on_unwritable(self, now: Duration) -> (Life, Option<Act>) {
        if !self.is_unwritable {
            let unwritable = self.unwritable.begin(now);
            return (Life { is_unwritable: true, unwritable, ..self }, None);
        }
        if self.unwritable.is_over(now) {
            return (Life { unwritable: self.unwritable.begin(now), ..self }, Some(Act::Write));
        }
        (self, None)
    }
}

#[cfg(test)]
mod tests;
