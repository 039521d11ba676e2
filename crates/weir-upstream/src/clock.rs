//! The room's one source of time, so that tests can hold it still: tokio's clock, as a plain `Instant`.

use std::time::Instant;

/// Now, by tokio's clock.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
