//! What is said at most once a minute, whatever peers send.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(60);

/// Something that is said seldom.
#[derive(Debug)]
pub struct Seldom {
    since: Instant,
    /// From when on it may be said again, in milliseconds.
    next_ms: AtomicU64,
}

impl Seldom {
    /// It may be said at once.
    pub fn new() -> Seldom {
        Seldom { since: crate::clock::now(), next_ms: AtomicU64::new(0) }
    }

    /// Whether it is to be said now. If so, it is not to be said again for a minute.
    pub fn is_due(&self) -> bool {
        self.is_due_at(crate::clock::now())
    }

    fn is_due_at(&self, now: Instant) -> bool {
        let now = now.saturating_duration_since(self.since).as_millis() as u64;
        let next = self.next_ms.load(Ordering::Relaxed);
        let after = now + EVERY.as_millis() as u64;
        let swap = || self.next_ms.compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed);
        now >= next && swap().is_ok()
    }
}

impl Default for Seldom {
    fn default() -> Seldom {
        Seldom::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_a_minute() {
        let seldom = Seldom::new();
        let begun = seldom.since;
        assert!(seldom.is_due_at(begun));
        assert!(!seldom.is_due_at(begun + EVERY - Duration::from_millis(1)));
        assert!(seldom.is_due_at(begun + EVERY) && !seldom.is_due_at(begun + EVERY));
    }
}
