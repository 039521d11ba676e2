//! What compactions may cost: they leave out unwanted rows, and their thread rests so that it takes only a
//! share of a core.
//!
//! RocksDB's rate limiter counts written bytes. A compaction that drops what it reads writes little and would
//! take a whole core. So the filter, which sees every row, watches its thread's clock as well.

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::sleep;
use std::time::Duration;

use rocksdb::CompactionDecision;
use rocksdb::compaction_filter::CompactionFilter;
use rocksdb::compaction_filter_factory::{CompactionFilterContext, CompactionFilterFactory};
use rustix::time::{ClockId, clock_gettime};
use weir_volume::catalogue::Wanted;

/// Rows between two looks at the clocks: some hundred microseconds of work.
const ROWS_A_LOOK: u32 = 256;
/// The longest rest at a time, so that closing never waits long.
const REST_MAX: Duration = Duration::from_millis(50);

/// Makes a [`Sieve`] for each compaction.
pub(crate) struct Sieves {
    pub(crate) wanted: Wanted,
    /// Thousandths of a core that a compaction may take.
    pub(crate) permille: u32,
}

impl CompactionFilterFactory for Sieves {
    type Filter = Sieve;

    fn create(&mut self, _: CompactionFilterContext) -> Sieve {
        Sieve { wanted: self.wanted.clone(), pace: Pace::new(self.permille), rows: 0 }
    }

    fn name(&self) -> &CStr {
        c"weir"
    }
}

/// Leaves out unwanted rows.
pub(crate) struct Sieve {
    wanted: Wanted,
    pace: Pace,
    /// Rows since the last look at the clocks.
    rows: u32,
}

impl CompactionFilter for Sieve {
    fn filter(&mut self, _level: u32, key: &[u8], value: &[u8]) -> CompactionDecision {
        self.rows += 1;
        if self.rows == ROWS_A_LOOK {
            self.rows = 0;
            sleep(self.pace.rest(now(ClockId::Monotonic), now(ClockId::ThreadCPUTime)));
        }
        // The caller is C++, and a panic cannot pass through it. A row in doubt stays.
        match catch_unwind(AssertUnwindSafe(|| (self.wanted)(key, value))) {
            Ok(false) => CompactionDecision::Remove,
            Ok(true) | Err(_) => CompactionDecision::Keep,
        }
    }

    fn name(&self) -> &CStr {
        c"weir"
    }
}

/// How long a thread rests so that its share of a core stays below a bound.
struct Pace {
    permille: u32,
    /// The clocks at the last look: the wall's and the thread's.
    last: Option<(Duration, Duration)>,
}

impl Pace {
    fn new(permille: u32) -> Self {
        Self { permille, last: None }
    }

    /// How long to rest now, from the wall's clock and the thread's own. Idle time is not saved up.
    fn rest(&mut self, wall: Duration, own: Duration) -> Duration {
        let rest = self.last.map_or(Duration::ZERO, |(wall_before, own_before)| {
            let worked = own.saturating_sub(own_before);
            let due = worked * 1000 / self.permille.max(1);
            due.saturating_sub(wall.saturating_sub(wall_before)).min(REST_MAX)
        });
        self.last = Some((wall + rest, own));
        rest
    }
}

/// The reading of a clock.
pub(crate) fn now(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    // Neither clock is ever negative.
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests;
