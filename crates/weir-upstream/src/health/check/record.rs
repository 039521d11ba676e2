//! What is remembered of an origin's checks. It outlives reloads with its origin.

use std::time::{Duration, Instant};

use super::pace::Pace;
use super::state::State;
use crate::snapshot::{CheckSnapshot, LastCheck};

/// The checks of an origin.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) state: State,
    pub(crate) pace: Pace,
    last: Option<Last>,
    /// Why the last one that failed did.
    failure: String,
    passed: u64,
    failed: u64,
    took: Duration,
    /// How many took up to each of [`BOUNDS`] and longer than the one before.
    took_up_to: [u64; BOUNDS.len()],
}

/// Bounds to which the durations of checks are counted.
const BOUNDS: [Duration; 9] = [
    Duration::from_millis(1),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_millis(2500),
    Duration::from_secs(10),
];

/// A check that has ended.
#[derive(Debug)]
struct Last {
    ended: Instant,
    took: Duration,
    /// Why it failed.
    why: Option<String>,
}

impl Record {
    /// A check has ended: the states before and after.
    pub(crate) fn end(
        &mut self,
        now: Instant,
        why: Option<String>,
        rise_and_fall: (u32, u32),
    ) -> (State, State) {
        let took = self.pace.begun.map_or(Duration::ZERO, |begun| now.saturating_duration_since(begun));
        let before = self.state;
        self.state = before.after(why.is_none(), rise_and_fall);
        let counter = if why.is_none() { &mut self.passed } else { &mut self.failed };
        *counter += 1;
        self.took += took;
        if let Some(at) = BOUNDS.iter().position(|bound| took <= *bound) {
            self.took_up_to[at] += 1;
        }
        if let Some(why) = &why {
            self.failure.clone_from(why);
        }
        self.last = Some(Last { ended: now, took, why });
        (before, self.state)
    }

    /// Whether it takes no share only because it was not checked yet.
    pub(crate) fn is_awaited(&self) -> bool {
        self.state == State::New && self.last.is_none()
    }

    /// Why it is not up; empty where it is.
    pub(crate) fn why_down(&self) -> String {
        match (self.state, &self.last) {
            (State::New, None) => "not checked yet".to_owned(),
            (State::New | State::Down { .. }, _) => self.failure.clone(),
            _ => String::new(),
        }
    }

    /// How many checks took up to each bound.
    fn cumulative(&self) -> Vec<(Duration, u64)> {
        let mut so_far = 0;
        let up_to = self.took_up_to.iter().map(|count| {
            so_far += count;
            so_far
        });
        BOUNDS.into_iter().zip(up_to).collect()
    }

    /// For metrics and `weir status`.
    pub(crate) fn snapshot(&self, now: Instant) -> CheckSnapshot {
        CheckSnapshot {
            state: self.state.word(),
            passed: self.passed,
            failed: self.failed,
            took: self.took,
            took_up_to: self.cumulative(),
            last: self.last.as_ref().map(|last| LastCheck {
                ago: now.saturating_duration_since(last.ended),
                took: last.took,
                why: last.why.clone(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn durations_are_counted_up_to_each_bound() {
        let (mut record, begun) = (Record::default(), clock::now());
        for ms in [0, 1, 3, 90, 11_000] {
            record.pace.begun = Some(begun);
            record.end(begun + Duration::from_millis(ms), None, (1, 1));
        }
        let counts: Vec<u64> = record.cumulative().into_iter().map(|(_, count)| count).collect();
        assert_eq!(counts, [2, 3, 3, 3, 4, 4, 4, 4, 4]);
        let snapshot = record.snapshot(begun);
        assert_eq!((snapshot.passed, snapshot.took), (5, Duration::from_millis(11_094)));
    }
}
