//! When operators are warned of an origin: once when it is gone, with the error, and once when it is back.
//! Pure: it decides, and the origin logs.
//!
//! States: `Quiet` (no warning, or one that it is back), `Gone` (warned that it is gone). An origin that
//! comes and goes is reported once in [`NOTICE_INTERVAL`].

use std::time::{Duration, Instant};

/// The time between two warnings that an origin is gone.
const NOTICE_INTERVAL: Duration = Duration::from_secs(10);

/// The last warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// None, or that it is back. `told`: when the last warning was given that it was gone.
    Quiet { told: Option<Instant> },
    /// That it is gone, given at `told`.
    Gone { told: Instant },
}

impl Notice {
    /// No warning yet.
    pub(crate) const NONE: Notice = Notice::Quiet { told: None };

    /// Whether it was last said that the origin is gone.
    pub(crate) fn is_gone(self) -> bool {
        matches!(self, Notice::Gone { .. })
    }

    /// The origin cannot be used. The next state, and whether to warn.
    pub(crate) fn gone(self, now: Instant) -> (Notice, bool) {
        match self {
            Notice::Gone { .. } => (self, false),
            Notice::Quiet { told: Some(told) } if now < told + NOTICE_INTERVAL => (self, false),
            Notice::Quiet { .. } => (Notice::Gone { told: now }, true),
        }
    }

    /// The origin answered. The next state, and for how long it was gone if that is to be reported.
    pub(crate) fn answered(self, now: Instant) -> (Notice, Option<Duration>) {
        match self {
            Notice::Quiet { .. } => (self, None),
            Notice::Gone { told } => {
                (Notice::Quiet { told: Some(told) }, Some(now.saturating_duration_since(told)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outage_is_told_once_at_its_begin_and_once_at_its_end() {
        let now = crate::clock::now();
        assert_eq!(Notice::NONE.answered(now), (Notice::NONE, None));
        let (gone, says) = Notice::NONE.gone(now);
        assert!(says);
        assert_eq!(gone.gone(now + NOTICE_INTERVAL), (gone, false));
        let (back, lasted) = gone.answered(now + 2 * NOTICE_INTERVAL);
        assert_eq!(lasted, Some(2 * NOTICE_INTERVAL));
        assert_eq!(back.answered(now + 2 * NOTICE_INTERVAL), (back, None));
        assert!(back.gone(now + 2 * NOTICE_INTERVAL).1);
    }

    #[test]
    fn one_that_comes_and_goes_is_told_once_in_a_while_and_never_forgotten() {
        let now = crate::clock::now();
        let (back, _) = Notice::NONE.gone(now).0.answered(now);
        assert_eq!(back.gone(now + NOTICE_INTERVAL / 2), (back, false));
        assert!(back.gone(now + NOTICE_INTERVAL).1, "it is still gone later");
    }
}
