//! What is under way at origins and how fast they answer: the counters that picks read. Those of one upstream
//! lie side by side, so that a pick that looks at a thousand origins reads little memory. They are atomic;
//! nothing here waits. Times are arguments, in milliseconds of the upstream's own clock.

use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use weir_client::Meter;

/// How many origins share a shelf. A power of two.
const SHELF: usize = 64;
/// How much slower one response makes an origin at most.
const RISE_MAX: u32 = 2;
/// The time after which a latency that was not measured again counts half. A power of two.
const HALF_LIFE_MS: u32 = 8192;

/// The counters of some origins.
#[derive(Debug)]
struct Shelf {
    /// Requests under way, from the pick to the end of the response, without tunnels.
    requests: [AtomicU32; SHELF],
    /// How many there may be without one waiting.
    room: [AtomicU32; SHELF],
    /// The latency in microseconds (low half) and when it was measured (high half).
    latency: [AtomicU64; SHELF],
    /// Bytes sent and received.
    bytes: [AtomicU64; SHELF],
}

/// The counters of all origins of an upstream.
#[derive(Debug, Default)]
pub(crate) struct Board {
    /// The shelf that is not full yet, and how many places of it are taken.
    filling: Mutex<Option<(Arc<Shelf>, usize)>>,
}

impl Board {
    /// The counters of another origin, which has room for so many requests.
    pub(crate) fn add(&self, room: usize) -> Load {
        let mut filling = self.filling.lock();
        let (shelf, at) = match filling.take() {
            Some((shelf, at)) if at < SHELF => (shelf, at),
            _ => (Arc::new(Shelf::new()), 0),
        };
        *filling = Some((shelf.clone(), at + 1));
        let load = Load { shelf, at };
        load.set_room(room);
        load
    }
}

impl Shelf {
    fn new() -> Shelf {
        Shelf {
            requests: array::from_fn(|_| AtomicU32::new(0)),
            room: array::from_fn(|_| AtomicU32::new(0)),
            latency: array::from_fn(|_| AtomicU64::new(0)),
            bytes: array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

/// The counters of one origin.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    shelf: Arc<Shelf>,
    at: usize,
}

impl Load {
    /// Requests under way.
    pub(crate) fn requests(&self) -> u32 {
        self.shelf.requests[self.at % SHELF].load(Ordering::Relaxed)
    }

    /// A request begins.
    pub(crate) fn begin(&self) {
        self.shelf.requests[self.at % SHELF].fetch_add(1, Ordering::Relaxed);
    }

    /// A request ends.
    pub(crate) fn end(&self) {
        // In one order with who begins to wait ([`crate::again::moves`]).
        self.shelf.requests[self.at % SHELF].fetch_sub(1, Ordering::SeqCst);
    }

    /// Changes how many requests there may be without one waiting.
    pub(crate) fn set_room(&self, room: usize) {
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        self.shelf.room[self.at % SHELF].store(room, Ordering::Relaxed);
    }

    /// Whether a request would get a connection without waiting.
    pub(crate) fn has_room(&self) -> bool {
        self.requests() < self.shelf.room[self.at % SHELF].load(Ordering::Relaxed)
    }

    /// What a pick sees of it.
    pub(crate) fn sight(&self) -> Sight<'_> {
        let Shelf { requests, room, latency, bytes } = &*self.shelf;
        let at = self.at % SHELF;
        let (requests, room) = (requests[at].load(Ordering::Relaxed), room[at].load(Ordering::Relaxed));
        Sight { requests, room, latency: &latency[at], bytes: &bytes[at] }
    }

    /// Bytes sent and received.
    pub(crate) fn bytes(&self) -> u64 {
        self.shelf.bytes[self.at % SHELF].load(Ordering::Relaxed)
    }

    /// So many bytes were sent or received.
    pub(crate) fn add_bytes(&self, bytes: u64) {
        self.shelf.bytes[self.at % SHELF].fetch_add(bytes, Ordering::Relaxed);
    }

    /// The time to the first byte, in microseconds: its moving average, raised at once by each peak. It fades
    /// while nothing is measured, so that a slow origin is asked again. 0 where nothing is known.
    pub(crate) fn latency_us(&self, now_ms: u32) -> u32 {
        latency_us(&self.shelf.latency[self.at % SHELF], now_ms)
    }

    /// A response's first byte came after this time. A slower one raises the average at once, at most to
    /// twice of what it was.
    pub(crate) fn measure(&self, us: u32, now_ms: u32) {
        self.shift(now_ms, |known, age_ms| {
            let us = us.max(1);
            if us >= known {
                // One answer alone may be that of a slow URL, which a client chose.
                return if known == 0 { us } else { us.min(known.saturating_mul(RISE_MAX)) };
            }
            // What is left of the old value where nothing was faster.
            us + faded(known - us, age_ms)
        });
    }

    /// A request got no response in this time: the origin is no faster than that.
    pub(crate) fn measure_failure(&self, us: u32, now_ms: u32) {
        self.shift(now_ms, |known, age_ms| {
            let us = if known == 0 { us } else { us.min(known.saturating_mul(RISE_MAX)) };
            us.max(faded(known, age_ms))
        });
    }

    fn shift(&self, now_ms: u32, next: impl Fn(u32, u32) -> u32) {
        let place = &self.shelf.latency[self.at % SHELF];
        let packed = place.load(Ordering::Relaxed);
        let us = next(packed as u32, now_ms.wrapping_sub((packed >> 32) as u32));
        // A measurement that is lost to another one at the same time is not missed.
        place.store(u64::from(now_ms) << 32 | u64::from(us), Ordering::Relaxed);
    }
}

impl Meter for Load {
    fn moved(&self, bytes: u64) {
        self.add_bytes(bytes);
    }
}

/// Counters that lie side by side.
#[derive(Debug)]
pub(crate) struct Run {
    shelf: Arc<Shelf>,
    from: usize,
    len: usize,
}

/// What a pick sees of an origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight<'s> {
    /// Requests under way.
    pub(crate) requests: u32,
    room: u32,
    latency: &'s AtomicU64,
    bytes: &'s AtomicU64,
}

impl Run {
    /// The runs of these counters, in their order.
    pub(crate) fn all(loads: &[Load]) -> Vec<Run> {
        let is_next = |one: &Load, next: &Load| Arc::ptr_eq(&one.shelf, &next.shelf) && one.at + 1 == next.at;
        let runs = loads.chunk_by(is_next);
        runs.map(|run| Run { shelf: run[0].shelf.clone(), from: run[0].at, len: run.len() }).collect()
    }

    /// What a pick sees of each.
    pub(crate) fn sights(&self) -> impl Iterator<Item = Sight<'_>> {
        let Shelf { requests, room, latency, bytes } = &*self.shelf;
        let these = self.from..self.from + self.len;
        let counts = requests[these.clone()].iter().zip(&room[these.clone()]);
        counts.zip(latency[these.clone()].iter().zip(&bytes[these])).map(
            |((requests, room), (latency, bytes))| {
                let (requests, room) = (requests.load(Ordering::Relaxed), room.load(Ordering::Relaxed));
                Sight { requests, room, latency, bytes }
            },
        )
    }
}

impl Sight<'_> {
    /// As [`Load::has_room`].
    pub(crate) fn has_room(&self) -> bool {
        self.requests < self.room
    }

    /// As [`Load::latency_us`].
    pub(crate) fn latency_us(&self, now_ms: u32) -> u32 {
        latency_us(self.latency, now_ms)
    }

    /// As [`Load::bytes`].
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

fn latency_us(place: &AtomicU64, now_ms: u32) -> u32 {
    let packed = place.load(Ordering::Relaxed);
    faded(packed as u32, now_ms.wrapping_sub((packed >> 32) as u32))
}

/// A value after this time, by halves and straight lines between them.
fn faded(value: u32, age_ms: u32) -> u32 {
    // A clock of another core may be behind.
    let age_ms = if age_ms > u32::MAX / 2 { 0 } else { age_ms };
    let (halves, rest) = (age_ms / HALF_LIFE_MS, age_ms % HALF_LIFE_MS);
    let left = u64::from(value.checked_shr(halves).unwrap_or(0)) * u64::from(2 * HALF_LIFE_MS - rest);
    (left / u64::from(2 * HALF_LIFE_MS)) as u32
}
