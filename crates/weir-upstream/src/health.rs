//! Passive ejection: a pure machine fed with how exchanges end.
//!
//! States: `Up` counts failures in a row; `Ejected` stands outside until its spell is over; `Trial` has one request on
//! the way that decides. It never makes a request itself.

use std::time::{Duration, Instant};

use crate::settings::Ejection;

/// Whether an origin takes its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// Takes its share; `failures` in a row, the first at `since`.
    Up { failures: u32, since: Instant },
    /// Left out until then.
    Ejected { until: Instant, spell: Duration },
    /// One request is on the way since then. Its loss is not an answer: after another `spell` a new trial may begin.
    Trial { since: Instant, spell: Duration },
}

/// What happened at an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A response head came whole, its body not yet. It ends a trial, but does not undo earlier failures.
    Answered,
    /// A response came whole.
    Success,
    /// No connection, no response, or a response that broke off.
    Failure,
    /// A request was sent to find out.
    TrialBegun,
}

impl Health {
    /// A new origin is taken to be up.
    pub(crate) fn new(now: Instant) -> Self {
        Self::Up { failures: 0, since: now }
    }

    /// The next state.
    pub(crate) fn on(self, event: Event, now: Instant, rules: &Ejection) -> Self {
        match (self, event) {
            (_, Event::Success) => Self::new(now),
            (Self::Ejected { .. } | Self::Trial { .. }, Event::Answered) => Self::new(now),
            (Self::Up { failures, since }, Event::Failure) => {
                let stale = failures == 0 || now.saturating_duration_since(since) > rules.window;
                let (failures, since) = if stale { (1, now) } else { (failures + 1, since) };
                if rules.failures > 0 && failures >= rules.failures {
                    return Self::Ejected { until: now + rules.spell, spell: rules.spell };
                }
                Self::Up { failures, since }
            }
            (Self::Trial { spell, .. }, Event::Failure) => {
                let spell = (spell * 2).min(rules.spell_max.max(rules.spell));
                Self::Ejected { until: now + spell, spell }
            }
            (Self::Ejected { spell, .. } | Self::Trial { spell, .. }, Event::TrialBegun) => {
                Self::Trial { since: now, spell }
            }
            (state @ Self::Ejected { .. }, Event::Failure) => state,
            (state @ Self::Up { .. }, Event::TrialBegun | Event::Answered) => state,
        }
    }

    /// Whether it takes its share.
    pub(crate) fn is_up(self) -> bool {
        matches!(self, Self::Up { .. })
    }

    /// Whether a trial may begin now.
    pub(crate) fn is_due(self, now: Instant) -> bool {
        match self {
            Self::Up { .. } => false,
            Self::Ejected { until, .. } => now >= until,
            Self::Trial { since, spell } => now >= since + spell,
        }
    }

    /// When it may next be tried: the order of the least bad.
    pub(crate) fn due(self, now: Instant) -> Instant {
        match self {
            Self::Up { .. } => now,
            Self::Ejected { until, .. } => until,
            Self::Trial { since, spell } => since + spell,
        }
    }
}
