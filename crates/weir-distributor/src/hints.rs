//! What to look at where questions come to nothing: the cause, said once in a minute. Pure: time is an
//! argument.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::counts::{Count, Counts};

/// So many questions in a row came to nothing, each for the same cause.
const IN_ROW: u32 = 2;
/// So many were answered with nothing, and none otherwise since the start.
const NOTHING: u64 = 10;
/// A cause is said at most once in so long.
const SAY_EVERY: Duration = Duration::from_secs(60);
/// The causes.
const CAUSES: [Count; 4] = [Count::Malformed, Count::Forged, Count::Foreign, Count::NotAllowed];

/// What is known of causes.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    /// Questions without an answer of use since the last one.
    in_row: AtomicU32,
    /// Whether an answer has ever named an origin, or denied.
    was_of_use: AtomicBool,
    /// Whether it was said that all answers are nothing.
    has_said_nothing: AtomicBool,
    said: Mutex<Said>,
}

#[derive(Debug, Default)]
struct Said {
    at: Option<Instant>,
    /// The causes' counters at the last answer of use.
    before: [u64; CAUSES.len()],
}

impl Hints {
    /// A question has ended as this count says. The cause and how often it was one, where that is to be said.
    pub(crate) fn ended(&self, as_: Count, counts: &Counts, now: Instant) -> Option<(Count, u64)> {
        match as_ {
            Count::Unanswered => self.unanswered(counts, now),
            Count::Nothing => {
                self.heard(counts);
                self.nothing(counts)
            }
            _ => {
                if !self.was_of_use.load(Ordering::Relaxed) {
                    self.was_of_use.store(true, Ordering::Relaxed);
                }
                self.heard(counts);
                None
            }
        }
    }

    /// Written only where it changes, since all workers would write it.
    fn heard(&self, counts: &Counts) {
        if self.in_row.load(Ordering::Relaxed) != 0 {
            self.said.lock().before = CAUSES.map(|cause| counts.get(cause));
            self.in_row.store(0, Ordering::Relaxed);
        }
    }

    fn nothing(&self, counts: &Counts) -> Option<(Count, u64)> {
        let is_new = !self.was_of_use.load(Ordering::Relaxed) && counts.get(Count::Nothing) >= NOTHING;
        let is_first = is_new && !self.has_said_nothing.swap(true, Ordering::Relaxed);
        is_first.then(|| (Count::Nothing, counts.get(Count::Nothing)))
    }

    fn unanswered(&self, counts: &Counts, now: Instant) -> Option<(Count, u64)> {
        let in_row = self.in_row.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if in_row < IN_ROW {
            return None;
        }
        let mut said = self.said.lock();
        if said.at.is_some_and(|at| now.saturating_duration_since(at) < SAY_EVERY) {
            return None;
        }
        let since =
            CAUSES.iter().zip(said.before).map(|(cause, before)| (*cause, counts.get(*cause) - before));
        let (cause, times) = since.max_by_key(|(_, times)| *times)?;
        if times < u64::from(IN_ROW) {
            return None;
        }
        said.at = Some(now);
        Some((cause, times))
    }
}

/// What to look at, by the cause.
pub(crate) fn advice(cause: Count) -> &'static str {
    match cause {
        Count::Malformed => {
            "answers have not the form: do both sides have the same `form`, and is a plain answer an \
             address with its port?"
        }
        Count::Forged => "answers are signed by no key of `key_file`: do both sides have the same key?",
        Count::Foreign => {
            "answers come from another address than was asked: does it listen on all addresses?"
        }
        Count::NotAllowed => "answers name no origin of the upstream, and no address in `allow`",
        _ => "it has answered every question with nothing: is `policy` one of its policies?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(
        hints: &Hints,
        counts: &Counts,
        (as_, cause): (Count, Option<Count>),
        now: Instant,
    ) -> Vec<Count> {
        let one = || {
            cause.into_iter().for_each(|cause| counts.add(cause));
            counts.add(as_);
            hints.ended(as_, counts, now).map(|(cause, _)| cause)
        };
        (0..30).filter_map(|_| one()).collect()
    }

    #[test]
    fn each_cause_is_said_once_a_minute() {
        for cause in CAUSES {
            let (hints, counts, now) = (Hints::default(), Counts::default(), crate::clock::now());
            let malformed = (Count::Unanswered, Some(cause));
            assert_eq!(times(&hints, &counts, malformed, now), [cause]);
            assert_eq!(times(&hints, &counts, malformed, now + SAY_EVERY / 2), []);
            assert_eq!(times(&hints, &counts, malformed, now + SAY_EVERY), [cause]);
            assert!(advice(cause).contains("answers"));
        }
    }

    #[test]
    fn strangers_who_send_answers_say_nothing_while_right_ones_come() {
        let (hints, counts, now) = (Hints::default(), Counts::default(), crate::clock::now());
        assert_eq!(times(&hints, &counts, (Count::Addresses, Some(Count::Foreign)), now), []);
        assert_eq!(times(&hints, &counts, (Count::Unanswered, None), now), [Count::Foreign]);
    }

    #[test]
    fn answers_of_nothing_are_said_once_where_there_was_no_other() {
        let (hints, counts, now) = (Hints::default(), Counts::default(), crate::clock::now());
        assert_eq!(times(&hints, &counts, (Count::Nothing, None), now), [Count::Nothing]);
        assert_eq!(times(&hints, &counts, (Count::Nothing, None), now + SAY_EVERY), []);
        let (hints, counts) = (Hints::default(), Counts::default());
        hints.ended(Count::Denials, &counts, now);
        assert_eq!(times(&hints, &counts, (Count::Nothing, None), now), []);
    }
}
