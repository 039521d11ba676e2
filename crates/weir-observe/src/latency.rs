//! A histogram of durations: four buckets to a power of two, from 1 µs to 134 s, so a quantile is off by 12 %
//! at most.
//!
//! One worker writes; anyone may read a copy. The boundaries shown outside are powers of two of a
//! microsecond, where the counts are exact.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const STEPS: usize = 4;
const OCTAVES: usize = 28;
const BUCKETS: usize = STEPS * OCTAVES;

/// The upper bounds that `Latency::cumulative` counts to, in microseconds: 2^4 (16 µs) to 2^26 (67 s).
pub fn bounds_us() -> impl Iterator<Item = u64> {
    (4..=26).map(|power| 1u64 << power)
}

/// The writable histogram of one worker.
#[derive(Debug)]
pub(super) struct LatencyCells {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl LatencyCells {
    pub(super) fn new() -> Self {
        LatencyCells { buckets: [const { AtomicU64::new(0) }; BUCKETS], sum_us: AtomicU64::new(0) }
    }

    /// Counts one duration. Called by one thread only.
    pub(super) fn add(&self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        super::counts::bump(&self.buckets[bucket(us)], 1);
        super::counts::bump(&self.sum_us, us);
    }
}

/// A copy of a histogram, or the sum of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latency {
    buckets: Vec<u64>,
    /// The sum of all durations, in microseconds.
    pub sum_us: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Latency { buckets: vec![0; BUCKETS], sum_us: 0 }
    }
}

impl Latency {
    pub(super) fn merge(&mut self, cells: &LatencyCells) {
        for (sum, cell) in self.buckets.iter_mut().zip(&cells.buckets) {
            *sum += cell.load(Ordering::Relaxed);
        }
        self.sum_us = self.sum_us.wrapping_add(cells.sum_us.load(Ordering::Relaxed));
    }

    /// What was counted since an earlier copy of the same.
    pub(super) fn since(&self, before: &Latency) -> Latency {
        let pairs = self.buckets.iter().zip(&before.buckets);
        let buckets = pairs.map(|(now, before)| now.saturating_sub(*before)).collect();
        Latency { buckets, sum_us: self.sum_us.wrapping_sub(before.sum_us) }
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// How many durations lie below each of [`bounds_us`], in its order.
    pub fn cumulative(&self) -> Vec<u64> {
        bounds_us().map(|bound| self.buckets[..bucket(bound)].iter().sum()).collect()
    }

    /// The duration below which the share `quantile` (0 to 1) of all lies, in microseconds; `None` when
    /// nothing was counted.
    pub fn quantile_us(&self, quantile: f64) -> Option<u64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = ((count as f64 * quantile.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            seen += bucket;
            if seen >= rank {
                return Some(upper_us(index));
            }
        }
        None
    }
}

/// The bucket of a duration: its power of two and the next two bits.
fn bucket(us: u64) -> usize {
    let us = us.max(1);
    let octave = us.ilog2() as usize;
    if octave >= OCTAVES {
        return BUCKETS - 1;
    }
    let step = if octave >= 2 { (us >> (octave - 2)) & 3 } else { (us << (2 - octave)) & 3 };
    octave * STEPS + step as usize
}

/// The smallest duration above a bucket.
fn upper_us(index: usize) -> u64 {
    let (octave, step) = (index / STEPS, (index % STEPS) as u64);
    ((4 + step + 1) << octave).div_ceil(4)
}
