//! Passive ejection of origins (elsewhere: *outlier detection*), as a pure state machine that is told how
//! exchanges end.
//!
//! A failure that a request may have caused counts against an origin only when several clients have met it:
//! otherwise one client could have an origin ejected for all.
//!
//! States: `Up` counts failures in a row; `Ejected` gets no requests until its backoff is over; `Trial` has
//! one request under way, which decides. It must not make a request itself.

use std::time::{Duration, Instant};

use crate::request::UNNAMED;
use crate::settings::Ejection;

/// Whether an origin takes its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// Takes its share. `failures` in a row, the first at `since`.
    Up { failures: u32, since: Instant, against: Against },
    /// Left out until then.
    Ejected { until: Instant, backoff: Duration },
    /// One request is under way since then. It may be lost: after another `backoff` a new trial may begin.
    Trial { since: Instant, backoff: Duration },
}

/// So many clients must have met such failures.
pub(crate) const CLIENTS_MIN: usize = 3;

/// What the failures in a row say about the origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Against {
    /// How many no request can have caused.
    sure: u32,
    /// The clients that met the others.
    clients: [Option<u64>; CLIENTS_MIN],
}

impl Against {
    fn with(mut self, client: Option<u64>) -> Against {
        let Some(client) = client else {
            self.sure += 1;
            return self;
        };
        if client != UNNAMED
            && !self.clients.contains(&Some(client))
            && let Some(place) = self.clients.iter_mut().find(|place| place.is_none())
        {
            *place = Some(client);
        }
        self
    }

    /// Whether so many failures are enough.
    fn is_enough(&self, failures: u32, failures_min: u32) -> bool {
        let met = self.clients.iter().flatten().count() + self.sure as usize;
        self.sure >= failures_min || (failures >= failures_min && met >= CLIENTS_MIN)
    }
}

/// What happened at an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A response head came whole, its body not yet. It ends a trial, but does not undo earlier failures.
    Answered,
    /// A response came whole.
    Success,
    /// No connection, no response, or a response that broke off. With the client, where its request may be
    /// the cause.
    Failure(Option<u64>),
    /// A request was sent to try an ejected origin.
    TrialBegun,
}

impl Health {
    /// A new origin counts as up.
    pub(crate) fn new(now: Instant) -> Self {
        Self::Up { failures: 0, since: now, against: Against::default() }
    }

    /// The next state.
    pub(crate) fn on(self, event: Event, now: Instant, rules: &Ejection) -> Self {
        match (self, event) {
            (_, Event::Success) => Self::new(now),
            (Self::Ejected { .. } | Self::Trial { .. }, Event::Answered) => Self::new(now),
            (Self::Up { failures, since, against }, Event::Failure(client)) => {
                let stale = failures == 0 || now.saturating_duration_since(since) > rules.window;
                let before = if stale { (0, now, Against::default()) } else { (failures, since, against) };
                let (failures, since, against) = (before.0 + 1, before.1, before.2.with(client));
                if rules.failures > 0 && against.is_enough(failures, rules.failures) {
                    return Self::Ejected { until: now + rules.backoff, backoff: rules.backoff };
                }
                Self::Up { failures, since, against }
            }
            (Self::Trial { backoff, .. }, Event::Failure(_)) => {
                let backoff = (backoff * 2).min(rules.backoff_max.max(rules.backoff));
                Self::Ejected { until: now + backoff, backoff }
            }
            (Self::Ejected { backoff, .. } | Self::Trial { backoff, .. }, Event::TrialBegun) => {
                Self::Trial { since: now, backoff }
            }
            (state @ Self::Ejected { .. }, Event::Failure(_)) => state,
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
            Self::Trial { since, backoff } => now >= since + backoff,
        }
    }

    /// When it may be tried next, by which the least bad origin is chosen.
    pub(crate) fn due(self, now: Instant) -> Instant {
        match self {
            Self::Up { .. } => now,
            Self::Ejected { until, .. } => until,
            Self::Trial { since, backoff } => since + backoff,
        }
    }
}
