//! The ceilings of a pool, which a reload may change while it is used. Each is read by itself,
//! without a lock.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::settings::Bounds;

/// Ceilings of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolBounds {
    /// Requests under way, and idle connections.
    pub open_max: usize,
    /// Requests that wait for one.
    pub waiting_max: usize,
    /// How long one waits.
    pub wait_max: Duration,
    /// Connections that have left the pool and go on.
    pub streams_max: usize,
    /// What one client may use of each of these, in percent.
    pub share_percent: usize,
}

impl PoolBounds {
    /// Those of these settings, where a request waits for so long.
    pub fn of(bounds: &Bounds, wait_max: Duration) -> PoolBounds {
        PoolBounds {
            open_max: bounds.connections_max,
            waiting_max: bounds.queue_max,
            wait_max,
            streams_max: bounds.streams_max,
            share_percent: bounds.client_share_percent,
        }
    }

    /// How many connections may be busy before what no client waits for begins no other one: a quarter is
    /// left, and one at least where there are several.
    pub(super) fn spare_from(&self) -> usize {
        (self.open_max - (self.open_max / 4).max(1)).max(1)
    }

    /// What one client may use of so many, at least one.
    pub(super) fn share_of(&self, all: usize) -> usize {
        (all.saturating_mul(self.share_percent) / 100).max(1)
    }
}

/// Ceilings that change.
#[derive(Debug)]
pub(super) struct SharedBounds {
    /// What holds now.
    open_max: AtomicUsize,
    /// What is configured.
    configured: AtomicUsize,
    /// What stands in place of that; 0 for nothing.
    limit: AtomicUsize,
    waiting_max: AtomicUsize,
    wait_max_ns: AtomicU64,
    streams_max: AtomicUsize,
    share_percent: AtomicUsize,
}

impl SharedBounds {
    pub(super) fn new(bounds: PoolBounds) -> SharedBounds {
        SharedBounds {
            open_max: bounds.open_max.into(),
            configured: bounds.open_max.into(),
            limit: 0.into(),
            waiting_max: bounds.waiting_max.into(),
            wait_max_ns: nanoseconds(bounds.wait_max).into(),
            streams_max: bounds.streams_max.into(),
            share_percent: bounds.share_percent.into(),
        }
    }

    pub(super) fn read(&self) -> PoolBounds {
        PoolBounds {
            open_max: self.open_max(),
            waiting_max: self.waiting_max.load(Ordering::Relaxed),
            wait_max: Duration::from_nanos(self.wait_max_ns.load(Ordering::Relaxed)),
            streams_max: self.streams_max.load(Ordering::Relaxed),
            share_percent: self.share_percent.load(Ordering::Relaxed),
        }
    }

    /// The most connections, which each pick reads.
    pub(super) fn open_max(&self) -> usize {
        self.open_max.load(Ordering::Relaxed)
    }

    /// Puts another number in place of the configured connections, or none. What held before, and holds now.
    pub(super) fn limit(&self, open_max: Option<usize>) -> (usize, usize) {
        let before = self.open_max();
        self.limit.store(open_max.map_or(0, |open_max| open_max.max(1)), Ordering::Relaxed);
        self.settle();
        (before, self.open_max())
    }

    /// Whether fewer connections are allowed than before a limit.
    pub(super) fn is_limited(&self) -> bool {
        self.limit.load(Ordering::Relaxed) > 0
    }

    fn settle(&self) {
        let limit = self.limit.load(Ordering::Relaxed);
        let open_max = if limit > 0 { limit } else { self.configured.load(Ordering::Relaxed) };
        self.open_max.store(open_max, Ordering::Relaxed);
    }

    pub(super) fn write(&self, bounds: PoolBounds) {
        self.configured.store(bounds.open_max, Ordering::Relaxed);
        self.settle();
        self.waiting_max.store(bounds.waiting_max, Ordering::Relaxed);
        self.wait_max_ns.store(nanoseconds(bounds.wait_max), Ordering::Relaxed);
        self.streams_max.store(bounds.streams_max, Ordering::Relaxed);
        self.share_percent.store(bounds.share_percent, Ordering::Relaxed);
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
