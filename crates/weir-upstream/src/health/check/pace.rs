//! When an origin is asked next. Pure.

use std::time::{Duration, Instant};

/// The times of what is done to an origin again and again.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When the last one began.
    pub(crate) begun: Option<Instant>,
    /// When the next one is due; `None` before the first.
    due: Option<Instant>,
    is_running: bool,
}

impl Pace {
    /// When the next one is due: at once where there was none. Not before `busy_until` while one runs.
    pub(crate) fn due(&self, now: Instant, busy_until: Instant) -> Instant {
        let due = self.due.unwrap_or(now);
        if self.is_running { due.max(busy_until) } else { due }
    }

    /// Whether one may begin.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        !self.is_running && self.due.is_none_or(|due| due <= now)
    }

    /// One begins. `share`, from 0 to 1, spreads those of many origins: the second one comes within the time
    /// between two, later ones a tenth earlier or later.
    pub(crate) fn begin(&mut self, now: Instant, every: Duration, share: f64) {
        let factor = if self.begun.is_none() { 0.1 + 0.9 * share } else { 0.9 + 0.2 * share };
        self.begun = Some(now);
        self.due = Some(now + every.mul_f64(factor));
        self.is_running = true;
    }

    /// It runs no longer, with or without a result.
    pub(crate) fn leave(&mut self) {
        self.is_running = false;
    }

    /// The time between two was changed: the next one is no later than that from the last one on.
    pub(crate) fn hasten(&mut self, every: Duration) {
        if let (Some(begun), Some(due)) = (self.begun, self.due) {
            self.due = Some(due.min(begun + every));
        }
    }
}
