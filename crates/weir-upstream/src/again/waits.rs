//! How long the origins of an upstream took to answer lately: a percentile of it says when a second request
//! is worth sending. Counters without a lock; times are arguments, in milliseconds of the upstream's own
//! clock.
//!
//! Two windows of ten seconds, the one under way and the one before. A sample that is lost while a window
//! begins is not missed. A client fills a quarter of a window at most, once it has more samples than a few.

use std::array;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::choice::pick::mixed;

const WINDOW_MS: u32 = 10_000;
/// Nothing is said of fewer samples.
pub(crate) const SAMPLES_MIN: u32 = 100;
/// So many samples of a window may be one client's, however few there are.
const OF_CLIENT: u32 = 128;
/// Clients are told apart by so many places.
const CLIENTS: usize = 64;
/// A percentile holds for so long.
const HOLDS_MS: u32 = 100;
/// A doubling of time is divided into so many steps: a value is exact to an eighth. A power of two.
const STEPS: u32 = 8;
/// Enough for all numbers of 32 bits.
const BUCKETS: usize = 240;

/// The times of one upstream.
#[derive(Debug)]
pub(crate) struct Waits {
    windows: [Window; 2],
    /// The percentile asked for last, in microseconds (low half; 0: not known), and when (high half).
    found: AtomicU64,
    seed: u64,
}

#[derive(Debug)]
struct Window {
    /// Which one it is, from 1 on.
    number: AtomicU32,
    buckets: [AtomicU32; BUCKETS],
    count: AtomicU32,
    of_clients: [AtomicU32; CLIENTS],
}

impl Default for Waits {
    fn default() -> Waits {
        Waits {
            windows: array::from_fn(|_| Window::new()),
            found: AtomicU64::new(0),
            seed: fastrand::u64(..),
        }
    }
}

impl Waits {
    /// An origin took so long to answer a request of this client (its `witness`).
    pub(crate) fn add(&self, took: Duration, client: Option<u64>, now_ms: u32) {
        let us = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        let number = now_ms / WINDOW_MS + 1;
        let window = &self.windows[number as usize % 2];
        window.begin(number);
        if let Some(client) = client {
            let of_client = &window.of_clients[mixed(client ^ self.seed) as usize % CLIENTS];
            let most = OF_CLIENT.max(window.count.load(Ordering::Relaxed) / 4);
            if of_client.load(Ordering::Relaxed) >= most {
                return;
            }
            of_client.fetch_add(1, Ordering::Relaxed);
        }
        window.count.fetch_add(1, Ordering::Relaxed);
        window.buckets[bucket(us)].fetch_add(1, Ordering::Relaxed);
    }

    /// So many of a thousand answers came within this time; `None` where too few are known.
    pub(crate) fn percentile(&self, per_mille: u16, now_ms: u32) -> Option<Duration> {
        let found = self.found.load(Ordering::Relaxed);
        let us = match now_ms.wrapping_sub((found >> 32) as u32) < HOLDS_MS {
            true => found as u32,
            false => {
                let us = self.find(per_mille, now_ms);
                self.found.store(u64::from(now_ms) << 32 | u64::from(us), Ordering::Relaxed);
                us
            }
        };
        (us > 0).then(|| Duration::from_micros(us.into()))
    }

    fn find(&self, per_mille: u16, now_ms: u32) -> u32 {
        let number = now_ms / WINDOW_MS + 1;
        let is_recent = |window: &&Window| {
            let of = window.number.load(Ordering::Relaxed);
            of == number || of + 1 == number
        };
        let recent = || self.windows.iter().filter(is_recent);
        let of = |at: usize| -> u64 {
            recent().map(|window| u64::from(window.buckets[at].load(Ordering::Relaxed))).sum()
        };
        let all: u64 = (0..BUCKETS).map(of).sum();
        if all < u64::from(SAMPLES_MIN) {
            return 0;
        }
        let wanted = (all * u64::from(per_mille)).div_ceil(1000);
        let mut so_far = 0;
        let reaches = |at: &usize| {
            so_far += of(*at);
            so_far >= wanted
        };
        (0..BUCKETS).find(reaches).map_or(u32::MAX, longest)
    }
}

impl Window {
    fn new() -> Window {
        Window {
            number: AtomicU32::new(0),
            buckets: array::from_fn(|_| AtomicU32::new(0)),
            count: AtomicU32::new(0),
            of_clients: array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// Empties it, if another one was here.
    fn begin(&self, number: u32) {
        let seen = self.number.load(Ordering::Relaxed);
        if seen == number
            || self.number.compare_exchange(seen, number, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            return;
        }
        let all = self.buckets.iter().chain(&self.of_clients).chain([&self.count]);
        all.for_each(|count| count.store(0, Ordering::Relaxed));
    }
}

/// The bucket of a time.
fn bucket(us: u32) -> usize {
    if us < STEPS {
        return us as usize;
    }
    let doublings = us.ilog2() - STEPS.ilog2();
    let step = (us >> doublings) % STEPS;
    ((doublings + 1) * STEPS + step) as usize
}

/// The longest time of a bucket, 1 at least.
fn longest(bucket: usize) -> u32 {
    let bucket = bucket as u32;
    if bucket < STEPS {
        return bucket.max(1);
    }
    let (doublings, step) = (bucket / STEPS - 1, bucket % STEPS);
    ((u64::from(STEPS + step + 1) << doublings) - 1) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{CLIENTS, SAMPLES_MIN, WINDOW_MS, Waits, bucket, longest};
    use std::time::Duration;

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    proptest! {
        #[test]
        fn a_bucket_is_exact_to_an_eighth(us: u32) {
            let at = bucket(us);
            let most = u64::from(longest(at));
            prop_assert!(most >= u64::from(us) && most <= (u64::from(us) * 9 / 8).max(1), "{us} {at} {most}");
            prop_assert!(at == 0 || longest(at - 1) < us.max(2));
        }

        #[test]
        fn a_percentile_is_the_sample_of_that_rank(
            mut samples in prop::collection::vec(1u64..10_000_000, 100..400),
            per_mille in 500u16..=999,
        ) {
            let waits = Waits::default();
            samples.iter().for_each(|sample| waits.add(us(*sample), None, 500));
            samples.sort_unstable();
            let rank = (samples.len() as u64 * u64::from(per_mille)).div_ceil(1000) as usize;
            let found = waits.percentile(per_mille, 500).unwrap();
            prop_assert!(found >= us(samples[rank - 1]) && found <= us(samples[rank - 1] * 9 / 8 + 1));
        }
    }

    #[test]
    fn few_samples_say_nothing_and_old_ones_are_forgotten() {
        let waits = Waits::default();
        (1..SAMPLES_MIN).for_each(|_| waits.add(us(7), None, 1000));
        assert_eq!(waits.percentile(950, 1000), None);
        waits.add(us(7), None, 1000);
        assert_eq!(waits.percentile(950, 1050), None, "it holds for a while");
        assert_eq!(waits.percentile(950, 1100), Some(us(7)));
        assert_eq!(waits.percentile(950, WINDOW_MS * 2 - 1), Some(us(7)));
        assert_eq!(waits.percentile(950, WINDOW_MS * 2 + 100), None);
        (0..SAMPLES_MIN).for_each(|_| waits.add(us(5), None, WINDOW_MS * 2));
        assert_eq!(waits.percentile(999, WINDOW_MS * 2 + 200), Some(us(5)), "its window is emptied first");
    }

    #[test]
    fn one_client_does_not_fill_a_window() {
        let waits = Waits::default();
        (0..100_000).for_each(|_| waits.add(us(9_000_000), Some(1), 500));
        // Of a few clients one may share the place of the first.
        for client in 0..CLIENTS as u64 * 4 {
            (0..8).for_each(|_| waits.add(us(5), Some(client + 2), 500));
        }
        (0..100_000).for_each(|_| waits.add(us(9_000_000), Some(1), 500));
        assert_eq!(waits.percentile(700, 500), Some(us(5)));
    }
}
