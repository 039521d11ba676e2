//! Chooses the requests of one worker that are looked at more closely. It must not know what is done with
//! them.
//!
//! Each request is chosen with a probability of 1/n, independently of all others and of what it is. How many
//! are passed over is drawn once for each one chosen (Vitter, "Faster methods for random sampling", 1984;
//! here geometrically). A chosen one then stands for n, so the sums are unbiased. All are chosen (n = 1)
//! while there are few. Within a second n is multiplied by 4 whenever twice a second's share of samples is
//! used up; the next second begins with the n that the rate asks for. n depends only on what came before, so
//! no client can know which requests are looked at. Hits, other requests and large responses each have an n
//! of their own ([`Stratum`]), so that none of them hides the others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::record::{Facts, Outcome};

/// Bodies of this many bytes and more are sampled by themselves: few of them may be most of the bytes.
const LARGE_BYTES: u64 = 1 << 20;
/// What n is multiplied by when the samples of a second are used up early.
const STEP: u64 = 4;
/// The largest n.
const EVERY_MAX: u64 = 1 << 20;

/// Requests that are sampled together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stratum {
    Hits,
    Others,
    Large,
}

impl Stratum {
    fn of(facts: &Facts) -> Stratum {
        if facts.body_bytes >= LARGE_BYTES {
            Stratum::Large
        } else if facts.outcome == Outcome::Hit {
            Stratum::Hits
        } else {
            Stratum::Others
        }
    }
}

/// The sampler of one worker, which alone may choose.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Sampler {
    strata: [Cells; 3],
    begun: Instant,
    /// Samples in a second that are aimed at, for each stratum.
    share: u64,
    random: AtomicU64,
}

/// The state of a stratum: cells that one worker reads and writes.
#[derive(Debug)]
struct Cells {
    /// Requests to pass over before the next one is chosen.
    pass: AtomicU64,
    /// The second that this is about.
    second: AtomicU64,
    /// n.
    every: AtomicU64,
    /// Samples in this second, and how many requests they stand for.
    chosen: AtomicU64,
    stands_for: AtomicU64,
}

fn load(cell: &AtomicU64) -> u64 {
    cell.load(Ordering::Relaxed)
}

fn store(cell: &AtomicU64, value: u64) {
    cell.store(value, Ordering::Relaxed);
}

impl Sampler {
    /// A sampler that chooses about `share` requests of each stratum in a second.
    pub(super) fn new(begun: Instant, share: u64, seed: u64) -> Sampler {
        let cells = || Cells {
            pass: AtomicU64::new(0),
            second: AtomicU64::new(0),
            every: AtomicU64::new(1),
            chosen: AtomicU64::new(0),
            stands_for: AtomicU64::new(0),
        };
        let strata = [cells(), cells(), cells()];
        Sampler { strata, begun, share: share.max(1), random: AtomicU64::new(seed) }
    }

    /// How many requests this one stands for, which ended at `ended`; `None` where it is passed over.
    #[inline]
    pub(super) fn choose(&self, facts: &Facts, ended: Instant) -> Option<u64> {
        let cells = &self.strata[Stratum::of(facts) as usize];
        let second = ended.saturating_duration_since(self.begun).as_secs();
        let pass = load(&cells.pass);
        if second == load(&cells.second) && pass > 0 {
            store(&cells.pass, pass - 1);
            return None;
        }
        self.draw(cells, second)
    }

    #[cold]
    fn draw(&self, cells: &Cells, second: u64) -> Option<u64> {
        let before = load(&cells.second);
        if second != before {
            let requests = load(&cells.stands_for) / second.saturating_sub(before).max(1);
            store(&cells.every, (requests / self.share).clamp(1, EVERY_MAX));
            store(&cells.second, second);
            store(&cells.chosen, 0);
            store(&cells.stands_for, 0);
            // What was drawn for another n is drawn again: the trials are independent of each other.
            let pass = self.passed(load(&cells.every));
            store(&cells.pass, pass);
            if pass > 0 {
                store(&cells.pass, pass - 1);
                return None;
            }
        }
        let every = load(&cells.every);
        let chosen = load(&cells.chosen) + 1;
        store(&cells.chosen, chosen);
        store(&cells.stands_for, load(&cells.stands_for) + every);
        if chosen.is_multiple_of(2 * self.share) {
            store(&cells.every, (every * STEP).min(EVERY_MAX));
        }
        store(&cells.pass, self.passed(load(&cells.every)));
        Some(every)
    }

    /// How many requests are passed over before one is chosen.
    fn passed(&self, every: u64) -> u64 {
        if every <= 1 {
            return 0;
        }
        // 53 random bits, and never 0.
        let uniform = ((self.random() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        (uniform.ln() / (1.0 - 1.0 / every as f64).ln()) as u64
    }

    /// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
    fn random(&self) -> u64 {
        let state = load(&self.random).wrapping_add(0x9e37_79b9_7f4a_7c15);
        store(&self.random, state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
