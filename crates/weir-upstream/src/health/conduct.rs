//! How an origin has answered of late, by client and by URL, and whether that is bad enough to leave it out.
//!
//! Each client counts once for each URL, however many requests it sends. An origin is bad if no two clients
//! together with two URLs can be the reason for what was seen. So neither a client that chooses its requests
//! nor a broken page has an origin ejected for all. Requests that no client is the cause of count as those
//! of one client: a client may have chosen their URLs and their time.
//!
//! Counting takes no lock. Judging is done by the task that tends the upstream, never by a request.

use std::array;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::choice::pick::mixed;
use crate::health::ejection::{SUSPECTS_MIN, Suspect};

/// Clients, and URLs, are told apart by so many places. Which of them share one nobody can know or choose.
pub(crate) const PLACES: usize = 16;
/// One place for each pair of a client and a URL.
const PAIRS: usize = PLACES * PLACES;
/// So many URLs say nothing about an origin, as two clients do.
const LEFT_OUT: usize = SUSPECTS_MIN - 1;
/// The most origins that one is compared with.
const COMPARED_MAX: usize = 64;
/// An origin that answers within this time is not slow, however fast the others are.
const FAST_US: f64 = 10_000.0;
/// Stands for requests that no client is the cause of.
const NOBODY: u64 = u64::MAX - 1;
/// What makes the places of clients others than those of URLs.
const OF_CLIENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// What an exchange has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Met {
    /// A response whose status is no failure, after so many microseconds.
    Answer(u32),
    /// A failure; with its time where that says how slow the origin is.
    Failure(Option<u32>),
    /// The body of an answer has broken off.
    Break,
}

/// What was counted at one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) answers: u64,
    pub(crate) failures: u64,
    /// How many of the answers took how long.
    pub(crate) timed: u64,
    pub(crate) us: u64,
}

/// What was counted of an origin: a row for each place of clients, with a column for each place of URLs.
#[derive(Clone, Debug)]
pub(crate) struct Counted(pub(crate) Vec<Seen>);

/// Which extreme is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    Highest,
    Lowest,
}

impl Counted {
    /// Whether so many percent of the requests have failed, of `least` or more.
    pub(crate) fn is_failing(&self, percent: u8, least: u32) -> bool {
        let all: u64 = self.0.iter().map(|seen| seen.answers).sum();
        let of = |seen: &Seen| (seen.failures as f64 / seen.answers as f64).min(1.0);
        let shares: Vec<_> = self.0.iter().map(|seen| (seen.answers > 0).then(|| of(seen))).collect();
        let is_beyond = |pair| {
            let columns = columns(&shares, pair, Without::Highest);
            let mean = columns.iter().sum::<f64>() / columns.len().max(1) as f64;
            !columns.is_empty() && mean * 100.0 >= f64::from(percent)
        };
        all >= u64::from(least) && pairs().all(is_beyond)
    }

    /// The mean times at the places, where there were `least` answers or more.
    fn times(&self, least: u32) -> Option<Vec<Option<f64>>> {
        let all: u64 = self.0.iter().map(|seen| seen.timed).sum();
        let of = |seen: &Seen| (seen.timed > 0).then(|| seen.us as f64 / seen.timed as f64);
        (all >= u64::from(least)).then(|| self.0.iter().map(of).collect())
    }

    /// The origin takes so many microseconds to the first byte, or more, whatever two clients and two URLs
    /// have done.
    pub(crate) fn at_least_us(&self, least: u32) -> Option<f64> {
        let times = self.times(least)?;
        let of = |pair| {
            let columns = columns(&times, pair, Without::Highest);
            columns.get(columns.len().saturating_sub(1) / 2).copied()
        };
        pairs().map(of).try_fold(f64::INFINITY, |least, us| Some(least.min(us?)))
    }

    /// So many, or fewer.
    pub(crate) fn at_most_us(&self, least: u32) -> Option<f64> {
        let times = self.times(least)?;
        let of = |pair| {
            let columns = columns(&times, pair, Without::Lowest);
            columns.get(columns.len() / 2).copied()
        };
        pairs().map(of).try_fold(0.0, |most: f64, us| Some(most.max(us?)))
    }

    /// The same without a thought of who may have caused it: for a first look.
    fn about_us(&self, least: u32) -> Option<f64> {
        let times = self.times(least)?;
        let mut known: Vec<f64> = times.into_iter().flatten().collect();
        known.sort_by(f64::total_cmp);
        known.get(known.len() / 2).copied()
    }
}

/// Two clients' places, in all ways.
fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..PLACES).flat_map(|one| (one + 1..PLACES).map(move |other| (one, other)))
}

/// The mean at each URL over its clients but these two, without the URLs where it is highest, or lowest;
/// ascending.
fn columns(cells: &[Option<f64>], (one, other): (usize, usize), without: Without) -> Vec<f64> {
    let (mut sums, mut counts) = ([0.0; PLACES], [0_u32; PLACES]);
    for (number, row) in cells.chunks(PLACES).enumerate() {
        if number == one || number == other {
            continue;
        }
        for (at, value) in row.iter().enumerate() {
            if let Some(value) = value {
                sums[at] += value;
                counts[at] += 1;
            }
        }
    }
    let known = sums.iter().zip(counts).filter(|(_, count)| *count > 0);
    let mut means: Vec<f64> = known.map(|(sum, count)| sum / f64::from(count)).collect();
    means.sort_by(f64::total_cmp);
    match without {
        Without::Highest => means.truncate(means.len().saturating_sub(LEFT_OUT)),
        Without::Lowest => drop(means.drain(..LEFT_OUT.min(means.len()))),
    }
    means
}

/// Which of these origins take so many times as long as the others' median.
pub(crate) fn slow(all: &[Counted], factor: f64, least: u32) -> Vec<bool> {
    let about: Vec<_> = all.iter().map(|counted| counted.about_us(least)).collect();
    let of_others = |at: usize, known: &dyn Fn(usize) -> Option<f64>| {
        let others = (0..all.len()).filter(|other| *other != at);
        let mut times: Vec<f64> = others.filter_map(known).take(COMPARED_MAX).collect();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied()
    };
    let is_beyond = |own: Option<f64>, others: Option<f64>| {
        own.zip(others).is_some_and(|(own, others)| own > FAST_US && own > factor * others)
    };
    let is_slow = |at: usize| {
        about[at].is_some_and(|own| own > FAST_US)
            && is_beyond(about[at], of_others(at, &|other| about[other]))
            && is_beyond(all[at].at_least_us(least), of_others(at, &|other| all[other].at_most_us(least)))
    };
    (0..all.len()).map(is_slow).collect()
}

/// The counters of one origin: two halves of the window, which take turns.
#[derive(Debug)]
pub(crate) struct Conduct {
    /// Chooses the places, so that nobody can choose them.
    seed: u64,
    since: Instant,
    /// The number of the half that is counted in.
    turn: AtomicU64,
    halves: [Half; 2],
}

#[derive(Debug)]
struct Half([Place; PAIRS]);

#[derive(Debug, Default)]
struct Place {
    answers: AtomicU32,
    failures: AtomicU32,
    timed: AtomicU32,
    us: AtomicU64,
}

impl Conduct {
    /// Nothing is known.
    pub(crate) fn new(now: Instant) -> Conduct {
        Conduct {
            seed: fastrand::u64(..),
            since: now,
            turn: AtomicU64::new(0),
            halves: array::from_fn(|_| Half(array::from_fn(|_| Place::default()))),
        }
    }

    /// Counts what an exchange has shown.
    pub(crate) fn note(&self, met: Met, suspect: Suspect, window: Duration, now: Instant) {
        let half = &self.halves[self.turn(window, now) as usize % 2];
        let client = mixed(suspect.client.unwrap_or(NOBODY) ^ OF_CLIENT ^ self.seed) as usize % PLACES;
        let url = mixed(suspect.url ^ self.seed) as usize % PLACES;
        half.0[client * PLACES + url].note(met);
    }

    /// What was counted within the window, or its later half.
    pub(crate) fn counted(&self, window: Duration, now: Instant) -> Counted {
        self.turn(window, now);
        let [one, other] = &self.halves;
        Counted(one.0.iter().zip(&other.0).map(|(one, other)| one.seen().with(other.seen())).collect())
    }

    /// Forgets everything.
    pub(crate) fn forget(&self) {
        self.halves.iter().for_each(Half::clear);
    }

    /// The number of the half of now; what is too old is forgotten by the first who comes.
    fn turn(&self, window: Duration, now: Instant) -> u64 {
        let half_ms = (window.as_millis() as u64 / 2).max(1);
        let turn = now.saturating_duration_since(self.since).as_millis() as u64 / half_ms;
        let known = self.turn.load(Ordering::Relaxed);
        // A clock of another core may be behind.
        if turn == known || turn + 1 == known {
            return known;
        }
        if self.turn.compare_exchange(known, turn, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            match turn == known + 1 {
                true => self.halves[turn as usize % 2].clear(),
                false => self.forget(),
            }
        }
        turn
    }
}

impl Half {
    fn clear(&self) {
        for place in &self.0 {
            for count in [&place.answers, &place.failures, &place.timed] {
                count.store(0, Ordering::Relaxed);
            }
            place.us.store(0, Ordering::Relaxed);
        }
    }
}

impl Place {
    fn note(&self, met: Met) {
        let add = |count: &AtomicU32| count.fetch_add(1, Ordering::Relaxed);
        let us = match met {
            Met::Answer(us) => {
                add(&self.answers);
                Some(us)
            }
            Met::Failure(us) => {
                add(&self.answers);
                add(&self.failures);
                us
            }
            Met::Break => {
                add(&self.failures);
                None
            }
        };
        if let Some(us) = us {
            add(&self.timed);
            self.us.fetch_add(us.into(), Ordering::Relaxed);
        }
    }

    fn seen(&self) -> Seen {
        let of = |count: &AtomicU32| u64::from(count.load(Ordering::Relaxed));
        Seen {
            answers: of(&self.answers),
            failures: of(&self.failures),
            timed: of(&self.timed),
            us: self.us.load(Ordering::Relaxed),
        }
    }
}

impl Seen {
    fn with(self, other: Seen) -> Seen {
        Seen {
            answers: self.answers + other.answers,
            failures: self.failures + other.failures,
            timed: self.timed + other.timed,
            us: self.us + other.us,
        }
    }
}
