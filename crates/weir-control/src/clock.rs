//! The control plane's clocks: the one file of this room that reads them.

use std::time::{Instant, SystemTime};

/// The monotonic clock.
#[allow(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn mono() -> Instant {
    Instant::now()
}

/// The wall clock.
#[allow(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}
