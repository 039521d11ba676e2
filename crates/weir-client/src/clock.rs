//! The crate's one source of time: tokio's clock, which tests can pause, as a plain `Instant`.

use std::time::Instant;

/// The current time, by tokio's clock.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
