//! How many requests of an upstream may be sent a second time: a share of the requests of the last ten
//! seconds, so that retries and hedges cannot amplify an overload. A client gets at most half of what the
//! others have left, so that one whose requests always fail leaves something to them.
//!
//! Counters by the second, without a lock. Under a race a few more may be let through than the share says,
//! one for each worker at most.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::choice::pick::mixed;
use crate::clock;

/// So many seconds count, this one included.
const SECONDS: u32 = 10;
/// So many may be sent again in that time however few requests there were.
pub(crate) const FLOOR: u64 = 30;
/// More than [`SECONDS`], a power of two.
const CELLS: usize = 16;
/// Clients are told apart by so many places. Which of them share one nobody can know or choose.
const CLIENTS: usize = 64;
/// Stands for requests that no client is the cause of: together they are one.
const NOBODY: u64 = u64::MAX - 1;

/// What was sent, and what was sent again.
#[derive(Debug)]
pub(crate) struct Budget {
    start: Instant,
    requests: Seconds,
    again: Seconds,
    /// What was sent again of each client.
    of_clients: Box<[Seconds]>,
    seed: u64,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new(clock::now())
    }
}

impl Budget {
    pub(crate) fn new(start: Instant) -> Budget {
        Budget {
            start,
            requests: Seconds::default(),
            again: Seconds::default(),
            of_clients: (0..CLIENTS).map(|_| Seconds::default()).collect(),
            seed: fastrand::u64(..),
        }
    }

    fn second(&self, now: Instant) -> u32 {
        // The first second has a number that no empty cell has.
        let since = now.saturating_duration_since(self.start).as_secs();
        u32::try_from(since).unwrap_or(u32::MAX - 1) + 1
    }

    /// A request begins.
    pub(crate) fn asked(&self, now: Instant) {
        self.requests.add(self.second(now));
    }

    /// Takes one second sending for a client (the request's `witness`), if there is any left of that share.
    pub(crate) fn take(&self, percent: u8, client: Option<u64>, now: Instant) -> bool {
        let second = self.second(now);
        let share = self.requests.sum(second) * u64::from(percent) / 100;
        let of_client =
            &self.of_clients[mixed(client.unwrap_or(NOBODY) ^ self.seed) as usize % self.of_clients.len()];
        let (all, own) = (self.again.sum(second), of_client.sum(second));
        let left_by_others = share.max(FLOOR).saturating_sub(all.saturating_sub(own));
        let is_left = all < share.max(FLOOR) && own < left_by_others.div_ceil(2);
        if is_left {
            self.again.add(second);
            of_client.add(second);
        }
        is_left
    }
}

/// A count for each of the last seconds: the second in the upper half, the count in the lower.
#[derive(Debug, Default)]
struct Seconds([AtomicU64; CELLS]);

impl Seconds {
    fn add(&self, second: u32) {
        let cell = &self.0[second as usize % CELLS];
        let mut seen = cell.load(Ordering::Relaxed);
        loop {
            let next = match seen >> 32 {
                of if of < u64::from(second) => (u64::from(second) << 32) | 1,
                _ => seen + 1,
            };
            match cell.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    fn sum(&self, second: u32) -> u64 {
        let of = |cell: &AtomicU64| {
            let seen = cell.load(Ordering::Relaxed);
            let is_recent = (seen >> 32) + u64::from(SECONDS) > u64::from(second);
            if is_recent { seen & u64::from(u32::MAX) } else { 0 }
        };
        self.0.iter().map(of).sum()
    }
}
