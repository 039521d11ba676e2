//! What operators are told of an origin, in the diagnostics: one warning when it goes, with what was seen,
//! and one when it is back. Pure: it decides when to speak, and the origin speaks.
//!
//! States: `Quiet` (nothing to tell, or told that it is back), `Gone` (told that it went). An origin that
//! comes and goes all the time is spoken of once in [`APART`].

use std::time::{Duration, Instant};

/// How long after a warning that an origin went the next one may come.
const APART: Duration = Duration::from_secs(10);

/// What was told last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Not that it is gone; when that was told last.
    Quiet { told: Option<Instant> },
    /// That it is gone, at this moment.
    Gone { told: Instant },
}

impl Notice {
    /// Nothing was told.
    pub(crate) const NONE: Notice = Notice::Quiet { told: None };

    /// The origin cannot be used. The next state, and whether to say so.
    pub(crate) fn gone(self, now: Instant) -> (Notice, bool) {
        match self {
            Notice::Gone { .. } => (self, false),
            Notice::Quiet { told: Some(told) } if now < told + APART => (self, false),
            Notice::Quiet { .. } => (Notice::Gone { told: now }, true),
        }
    }

    /// The origin answered. The next state, and for how long it was gone if that is to be said.
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
        assert_eq!(gone.gone(now + APART), (gone, false));
        let (back, lasted) = gone.answered(now + 2 * APART);
        assert_eq!(lasted, Some(2 * APART));
        assert_eq!(back.answered(now + 2 * APART), (back, None));
        assert!(back.gone(now + 2 * APART).1);
    }

    #[test]
    fn one_that_comes_and_goes_is_told_once_in_a_while_and_never_forgotten() {
        let now = crate::clock::now();
        let (back, _) = Notice::NONE.gone(now).0.answered(now);
        assert_eq!(back.gone(now + APART / 2), (back, false));
        assert!(back.gone(now + APART).1, "it is still gone later");
    }
}
