//! What is remembered of an origin's checks. It outlives reloads with its origin.

use std::time::{Duration, Instant};

use super::state::State;
use crate::snapshot::{CheckSnapshot, LastCheck};

/// The checks of an origin.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) state: State,
    /// When the last one began.
    begun: Option<Instant>,
    /// When the next one is due; `None` before the first.
    due: Option<Instant>,
    is_running: bool,
    last: Option<Last>,
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
    /// When the next check is due: at once where there was none. Not before `busy_until` while one runs.
    pub(crate) fn due(&self, now: Instant, busy_until: Instant) -> Instant {
        let due = self.due.unwrap_or(now);
        if self.is_running { due.max(busy_until) } else { due }
    }

    /// Whether a check may begin.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        !self.is_running && self.due.is_none_or(|due| due <= now)
    }

    /// A check begins. `share`, from 0 to 1, spreads the checks of many origins: the second one comes within
    /// the time between two, later ones a tenth earlier or later.
    pub(crate) fn begin(&mut self, now: Instant, every: Duration, share: f64) {
        let factor = if self.begun.is_none() { 0.1 + 0.9 * share } else { 0.9 + 0.2 * share };
        self.begun = Some(now);
        self.due = Some(now + every.mul_f64(factor));
        self.is_running = true;
    }

    /// The check runs no longer, with or without a result.
    pub(crate) fn leave(&mut self) {
        self.is_running = false;
    }

    /// The time between two checks was changed: the next one is no later than that from the last one on.
    pub(crate) fn hasten(&mut self, every: Duration) {
        if let (Some(begun), Some(due)) = (self.begun, self.due) {
            self.due = Some(due.min(begun + every));
        }
    }

    /// A check has ended: the states before and after.
    pub(crate) fn end(
        &mut self,
        now: Instant,
        why: Option<String>,
        rise_and_fall: (u32, u32),
    ) -> (State, State) {
        let took = self.begun.map_or(Duration::ZERO, |begun| now.saturating_duration_since(begun));
        let before = self.state;
        self.state = before.after(why.is_none(), rise_and_fall);
        let counter = if why.is_none() { &mut self.passed } else { &mut self.failed };
        *counter += 1;
        self.took += took;
        self.last = Some(Last { ended: now, took, why });
        (before, self.state)
    }

    /// Why it is not up; empty where it is.
    pub(crate) fn why_down(&self) -> String {
        match (self.state, &self.last) {
            (State::New, None) => "not checked yet".to_owned(),
            (State::New | State::Down { .. }, Some(Last { why: Some(why), .. })) => why.clone(),
            (State::Down { .. }, _) => "passes its checks again, but not often enough yet".to_owned(),
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
