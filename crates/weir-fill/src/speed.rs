//! How soon a running transfer reaches an offset: the distance over its speed so far. It must not wait.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use weir_store::BLOCK_BYTES;

/// A reader waits for a running transfer that arrives at most so much later than its own request would.
const PATIENCE: Duration = Duration::from_millis(50);
/// A transfer's speed is known after this time.
const SHOWN_AFTER: Duration = Duration::from_millis(20);
/// Until then it is assumed to come this far in time.
const BLIND_BYTES: u64 = 1 << 20;

/// The speed of one transfer.
#[derive(Debug)]
pub struct Speed {
    asked: Instant,
    headed: OnceLock<Instant>,
}

impl Speed {
    /// Of one whose request is being sent.
    pub fn new(asked: Instant) -> Speed {
        Speed { asked, headed: OnceLock::new() }
    }

    /// The head has come.
    pub fn head(&self, now: Instant) {
        let _ = self.headed.set(now);
    }

    /// Whether a transfer that has loaded `brought` bytes loads `ahead` more within a round trip and
    /// [`PATIENCE`]. The block that it is about to write counts as there.
    pub fn comes_soon(&self, brought: u64, ahead: u64, now: Instant) -> bool {
        let Some(headed) = self.headed.get() else { return ahead <= BLIND_BYTES };
        if ahead < BLOCK_BYTES as u64 {
            return true;
        }
        let round_trip = headed.saturating_duration_since(self.asked);
        let gone = now.saturating_duration_since(*headed);
        if gone < SHOWN_AFTER {
            return ahead <= BLIND_BYTES;
        }
        // In 128 bits nothing overflows: bytes times nanoseconds of some years.
        let needs = u128::from(ahead) * gone.as_nanos();
        let has = u128::from(brought) * (round_trip + PATIENCE).as_nanos();
        brought > 0 && needs <= has
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_is_waited_for_as_long_as_asking_would_take() {
        let asked = weir_clock::mono();
        let at = |ms| asked + Duration::from_millis(ms);
        let speed = Speed::new(asked);
        assert!(speed.comes_soon(0, BLIND_BYTES, at(0)) && !speed.comes_soon(0, BLIND_BYTES + 1, at(0)));
        speed.head(at(10));
        assert!(speed.comes_soon(0, BLIND_BYTES, at(29)) && !speed.comes_soon(0, BLIND_BYTES, at(30)));
        // A megabyte in a second: in 60 ms it brings 60,000 bytes, and one block is as good as there.
        assert!(!speed.comes_soon(1_000_000, 70_000, at(1010)));
        assert!(speed.comes_soon(1_000_000, 65_535, at(1010)));
        // Ten times as fast.
        assert!(speed.comes_soon(10_000_000, 600_000, at(1010)));
        assert!(!speed.comes_soon(10_000_000, 600_001, at(1010)));
        assert!(!speed.comes_soon(0, 65_536, at(1010)));
    }
}
