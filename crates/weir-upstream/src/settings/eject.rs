//! When an origin is left out for what it does with requests.

use std::ops::RangeInclusive;
use std::time::Duration;

use http::StatusCode;

/// When a failing origin is left out, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Ejection {
    /// Failures in a row, all within `window`, that eject an origin; 0 switches this off.
    pub failures: u32,
    /// A failure older than this does not count.
    pub window: Duration,
    /// How long an origin is left out at first; each further time in a row doubles it.
    pub backoff: Duration,
    /// The longest that it is left out.
    pub backoff_max: Duration,
    /// Responses with these statuses are failures.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// The share of failures among `least` answers, in percent, that ejects an origin.
    pub share_percent: Option<u8>,
    /// So many answers within `window` are judged at a time.
    pub least: u32,
    /// So many times the others' median time to first byte ejects an origin.
    pub slow: Option<f64>,
    /// The most of an upstream's origins that are left out, in percent. Where more would be, all are used.
    pub at_most_percent: u8,
    /// How long an origin takes to its whole share once it takes one again; zero: at once.
    pub slow_start: Duration,
}

impl Default for Ejection {
    fn default() -> Self {
        Self {
            failures: 5,
            window: Duration::from_secs(10),
            backoff: Duration::from_secs(1),
            backoff_max: Duration::from_secs(30),
            statuses: Vec::new(),
            share_percent: None,
            least: 20,
            slow: None,
            at_most_percent: 50,
            slow_start: Duration::ZERO,
        }
    }
}

impl Ejection {
    /// Whether a response with this status is a failure.
    pub(crate) fn is_failure(&self, status: StatusCode) -> bool {
        self.statuses.iter().any(|range| range.contains(&status.as_u16()))
    }

    /// Whether what an origin has answered is counted by client and URL.
    pub(crate) fn is_by_conduct(&self) -> bool {
        self.share_percent.is_some() || self.slow.is_some()
    }

    /// How many of so many origins may be left out: the share, but one in any case.
    pub(crate) fn left_out_max(&self, origins: usize) -> usize {
        (origins * usize::from(self.at_most_percent) / 100).max(1)
    }
}
