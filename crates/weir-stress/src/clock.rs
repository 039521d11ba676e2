//! The only file of this crate that reads the time.

use std::time::{Duration, Instant};

/// Counts nanoseconds from its creation. Cheap to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the clock itself")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    #[expect(clippy::disallowed_methods, reason = "the clock itself")]
    pub(crate) fn nanoseconds(&self) -> u64 {
        Instant::now().duration_since(self.0).as_nanos() as u64
    }
}

/// Seconds as nanoseconds; absurd values become a year.
pub(crate) fn nanoseconds(seconds: f64) -> u64 {
    const YEAR_S: f64 = 365.0 * 86_400.0;
    Duration::from_secs_f64(if seconds.is_finite() { seconds.clamp(0.0, YEAR_S) } else { YEAR_S }).as_nanos()
        as u64
}

/// What no other run has: the time in hexadecimal digits.
pub(crate) fn stamp() -> String {
    let since = wall().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{:x}", since.as_nanos())
}

/// The wall clock, for `Date` and for names that are not used twice.
#[expect(clippy::disallowed_methods, reason = "the clock itself")]
pub(crate) fn wall() -> std::time::SystemTime {
    std::time::SystemTime::now()
}
