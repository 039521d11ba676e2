//! The wall clock of this room: the one file here that reads it. Everything else gets the time as a value.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A point in time, in seconds since 1970 (UTC). Certificates count in seconds.
pub type Seconds = u64;

/// Tells the time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Seconds + Send + Sync>);

impl Clock {
    /// The machine's wall clock.
    #[allow(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn wall() -> Clock {
        Clock(Arc::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.map_or(0, |since| since.as_secs())
        }))
    }

    /// A clock that a test moves.
    pub fn of(read: impl Fn() -> Seconds + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(read))
    }

    /// The time.
    pub fn now(&self) -> Seconds {
        (self.0)()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Clock").field(&self.now()).finish()
    }
}
