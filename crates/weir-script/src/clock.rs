//! The crate's two sources of time: the time of day's passing, and what this thread has computed.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The current time.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// How long this thread has computed. Unlike time it does not pass while other programs run.
pub(crate) fn computed() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}
