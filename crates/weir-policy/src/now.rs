//! The moment of a decision: monotonic and wall time together. It must not read a clock itself.

use std::time::{Duration, Instant, SystemTime};

/// A moment, as the caller's clock gave it.
///
/// Ages are counted on `mono`, so that a wall clock that jumps changes no object's freshness. `wall` is only
/// compared with dates from an origin or a client (RFC 9111 §4.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Monotonic time.
    pub mono: Instant,
    /// Wall time.
    pub wall: SystemTime,
}

impl Now {
    /// The time since `earlier` on the monotonic clock; zero if `earlier` lies ahead.
    pub fn since(&self, earlier: Instant) -> Duration {
        self.mono.saturating_duration_since(earlier)
    }
}
