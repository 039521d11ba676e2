//! Whether a client takes a response fast enough (`limits.read_rate`). It must not read a clock.

use std::time::{Duration, Instant};

/// How fast the client takes a response. Only the time counts during which the client is waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taking {
    waited: Duration,
    bytes: u64,
}

impl Taking {
    /// Begins to wait for the client. Returns until when at most.
    pub(crate) fn wait(&mut self, now: Instant, window: Duration) -> Instant {
        if self.waited.is_zero() {
            // The bytes that filled the kernel's buffer before do not count.
            self.bytes = 0;
        }
        now + window.saturating_sub(self.waited)
    }

    /// Notes bytes that the client has taken.
    pub(crate) fn took(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Adds a wait. True if the client was too slow over a whole window.
    pub(crate) fn waited(&mut self, waited: Duration, window: Duration, rate_min: u64) -> bool {
        self.waited += waited;
        if self.waited < window {
            return false;
        }
        let Taking { waited, bytes } = std::mem::take(self);
        (bytes as f64) < rate_min as f64 * waited.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use weir_clock as clock;

    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);

    /// Takes `bytes` after each of `waits` waits of ten seconds, and checks whether that was ever too slow at
    /// 256 B/s.
    fn check(bytes: u64, waits: usize, expect: bool) {
        let (mut taking, begun) = (Taking { bytes: 1 << 20, ..Taking::default() }, clock::mono());
        let is_too_slow = (0..waits).any(|_| {
            assert!(taking.wait(begun, WINDOW) <= begun + WINDOW);
            let is_too_slow = taking.waited(Duration::from_secs(10), WINDOW, 256);
            taking.bytes += bytes;
            is_too_slow
        });
        assert_eq!(is_too_slow, expect, "{bytes} bytes, {waits} waits");
    }

    #[test]
    fn a_rate_is_judged_after_a_whole_window_of_waiting() {
        check(0, 5, false);
        check(0, 6, true);
        check(2000, 12, true);
        // The bytes of the last wait come after it, so that a few more are needed.
        check(3100, 60, false);
    }
}
