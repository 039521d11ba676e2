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
}

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
        if let Some(why) = &why {
            self.failure.clone_from(why);
        }
        self.last = Some(Last { ended: now, took, why });
        (before, self.state)
    }

    /// Why it is not up; empty where it is.
    pub(crate) fn why_down(&self) -> String {
        match (self.state, &self.last) {
            (State::New, None) => "not checked yet".to_owned(),
            (State::New | State::Down { .. }, _) => self.failure.clone(),
            _ => String::new(),
        }
    }

    /// For metrics and `weir status`.
    pub(crate) fn snapshot(&self, now: Instant) -> CheckSnapshot {
        CheckSnapshot {
            state: self.state.word(),
            passed: self.passed,
            failed: self.failed,
            took: self.took,
            last: self.last.as_ref().map(|last| LastCheck {
                ago: now.saturating_duration_since(last.ended),
                took: last.took,
                why: last.why.clone(),
            }),
        }
    }
}
