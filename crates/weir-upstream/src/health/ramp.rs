//! Slow start: how an origin that takes a share again comes to the whole of it. It begins with a tenth, and
//! the rest follows in even steps. Pure.

use std::time::{Duration, Instant};

/// What it begins with, in percent.
const BEGIN_PERCENT: u32 = 10;
/// What each step adds, in percent.
const STEP_PERCENT: u32 = 5;
const STEPS: u32 = (100 - BEGIN_PERCENT) / STEP_PERCENT;

/// How far an origin is with its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ramp {
    /// It has its whole share, whenever it takes one.
    Whole,
    /// It takes no share.
    Out,
    /// It takes a share since then.
    Since(Instant),
}

impl Ramp {
    /// The next state of an origin that takes a share now, or does not.
    pub(crate) fn on(self, takes_share: bool, now: Instant, over: Duration) -> Ramp {
        match self {
            _ if !takes_share => Ramp::Out,
            Ramp::Whole => Ramp::Whole,
            Ramp::Out if over.is_zero() => Ramp::Whole,
            Ramp::Out => Ramp::Since(now),
            Ramp::Since(since) if now.saturating_duration_since(since) >= over => Ramp::Whole,
            Ramp::Since(since) => Ramp::Since(since),
        }
    }

    /// What it takes of its share, in percent.
    pub(crate) fn percent(self, now: Instant, over: Duration) -> u32 {
        let Ramp::Since(since) = self else { return 100 };
        let step =
            u128::from(STEPS) * now.saturating_duration_since(since).as_nanos() / over.as_nanos().max(1);
        let step = u32::try_from(step).unwrap_or(STEPS).min(STEPS);
        BEGIN_PERCENT + STEP_PERCENT * step
    }

    /// When it takes more.
    pub(crate) fn next(self, now: Instant, over: Duration) -> Option<Instant> {
        let Ramp::Since(since) = self else { return None };
        let step = (self.percent(now, over) - BEGIN_PERCENT) / STEP_PERCENT + 1;
        // Not before it: the division has cut something off.
        Some(since + over * step.min(STEPS) / STEPS + Duration::from_millis(1))
    }
}
