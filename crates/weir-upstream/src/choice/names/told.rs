//! What the log is told of a name: a line of each kind at once, and no more than one in [`TELL_PAUSE`],
//! however often DNS changes its mind.

use std::time::{Duration, Instant};

use crate::choice::adjust::Found;
use crate::choice::dns::{Answer, FOUND_MAX};

/// The time between two lines of a kind.
const TELL_PAUSE: Duration = Duration::from_secs(10);

/// The last lines about a name.
#[derive(Debug, Default)]
pub(super) struct Told {
    failed: Last,
    too_many: Last,
    unfit: Last,
    changed: Last,
    /// Changes that the log was not told of yet.
    unsaid: u64,
}

/// When a line of a kind was written last.
#[derive(Debug, Default)]
struct Last(Option<Instant>);

impl Last {
    /// Whether a line may be written now; then it counts as written.
    fn may_tell(&mut self, now: Instant) -> bool {
        let is_due = self.0.is_none_or(|last| now.saturating_duration_since(last) >= TELL_PAUSE);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

impl Told {
    /// A lookup has failed; so many addresses are kept.
    pub(super) fn failed(&mut self, name: &str, (error, kept): (&str, usize), now: Instant) {
        if self.failed.may_tell(now) {
            tracing::warn!(origin = name, kept, error, "cannot look up the addresses of the origin's name");
        }
    }

    /// What of an answer cannot be used.
    pub(super) fn left_out(&mut self, name: &str, answer: &Answer, now: Instant) {
        let used = answer.found.len();
        if answer.left_out > 0 && self.too_many.may_tell(now) {
            let (left_out, most) = (answer.left_out, FOUND_MAX);
            tracing::warn!(origin = name, used, left_out, most, "the origin's name has too many addresses");
        }
        if let Some(first) = answer.unfit.first().filter(|_| self.unfit.may_tell(now)) {
            let left_out = answer.unfit.len();
            tracing::warn!(
                origin = name,
                used,
                left_out,
                %first,
                "the origin's name has addresses at which no origin can be"
            );
        }
    }

    /// An answer has changed what is known, or has not.
    pub(super) fn found(
        &mut self,
        name: &str,
        has_changed: bool,
        known: impl FnOnce() -> Vec<Found>,
        now: Instant,
    ) {
        self.unsaid += u64::from(has_changed);
        if self.unsaid == 0 || !self.changed.may_tell(now) {
            return;
        }
        let (changes, known) = (std::mem::take(&mut self.unsaid), known());
        let gone = known.iter().filter(|found| found.gone.is_some()).count();
        let named = known.len() - gone;
        tracing::info!(
            origin = name,
            named,
            gone,
            changes,
            "the addresses of the origin's name have changed"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn each_kind_of_line_comes_at_once_and_then_seldom() {
        let (mut last, now) = (Last::default(), clock::now());
        let lines = (0..100).filter(|s| last.may_tell(now + Duration::from_secs(*s))).count();
        assert_eq!(lines, 10);
    }

    #[test]
    fn changes_that_were_not_told_are_counted_and_told_later() {
        let (mut told, now) = (Told::default(), clock::now());
        for second in 0..9 {
            told.found("a", true, Vec::new, now + Duration::from_secs(second));
        }
        assert_eq!(told.unsaid, 8);
        told.found("a", false, Vec::new, now + TELL_PAUSE);
        assert_eq!(told.unsaid, 0);
    }
}
