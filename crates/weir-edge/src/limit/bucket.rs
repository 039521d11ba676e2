//! A token bucket: it allows a burst, then a rate. Pure; time is an argument.

use std::time::{Duration, Instant};

use weir_front::Turn;

/// Units of the level per byte, chosen so that a nanosecond at any rate is a whole number.
const UNITS_PER_BYTE: u128 = 1_000_000_000;
/// How much of a second's bytes a late writer may catch up with, on top of the burst.
const LATE_SHARE: u64 = 10;
/// The size of one write once the burst is used up: this share of a second's bytes, at most
/// [`STEP_BYTES_MAX`].
const STEP_SHARE: u64 = 20;
const STEP_BYTES_MAX: u64 = 256 << 10;

/// Bytes that may go out. `rate` bytes are added each second, up to the burst and 100 ms of the rate. Since
/// the bucket was made, at most the burst and the rate's share of the time go out. In any other window it is
/// at most 100 ms of the rate more.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Bytes a second; not 0.
    rate: u64,
    /// In units.
    capacity: u128,
    /// In units, as of `at`.
    level: u128,
    at: Instant,
    /// The fewest bytes that are worth a write.
    step: u64,
}

impl Bucket {
    /// A bucket that holds `burst` bytes and gets `rate` more each second. A rate of 0 counts as 1.
    pub(crate) fn new(rate: u64, burst: u64, now: Instant) -> Bucket {
        let rate = rate.max(1);
        let late = (rate / LATE_SHARE).max(1);
        Bucket {
            rate,
            capacity: (u128::from(burst) + u128::from(late)) * UNITS_PER_BYTE,
            level: u128::from(burst) * UNITS_PER_BYTE,
            at: now,
            step: (rate / STEP_SHARE).clamp(1, STEP_BYTES_MAX),
        }
    }

    /// How many of `wanted` bytes may go out now: all, or at least as many as are worth a write. Else the
    /// time when so many may.
    pub(crate) fn turn(&mut self, now: Instant, wanted: u64) -> Turn {
        self.refill(now);
        let least = u128::from(wanted.min(self.step)) * UNITS_PER_BYTE;
        if self.level >= least {
            let held = u64::try_from(self.level / UNITS_PER_BYTE).unwrap_or(u64::MAX);
            return Turn::Go(held.min(wanted));
        }
        let wait = (least - self.level).div_ceil(u128::from(self.rate));
        Turn::Wait(now + Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    /// Notes that so many bytes went out. More bytes than the level empty the bucket.
    pub(crate) fn take(&mut self, bytes: u64) {
        self.level = self.level.saturating_sub(u128::from(bytes) * UNITS_PER_BYTE);
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_nanos();
        let more = passed.saturating_mul(u128::from(self.rate));
        self.level = self.level.saturating_add(more).min(self.capacity);
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests;
