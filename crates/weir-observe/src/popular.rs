//! What is asked for most: lists of the URLs, clients, sites and origins with the most requests, misses and
//! bytes, and with what was not stored, of the last minute and the last hour.
//!
//! A worker chooses some of its requests (`sampler`) and puts them into a bounded queue; it never waits, and
//! a sample that finds no room is counted as lost. The thread `weir-top` takes them out once a second and
//! adds them to bounded lists (`lists`, each a `sketch`) of the present slice of time (`windows`). Readers of
//! the lists share a lock with that thread, and with no worker. All lists together have at most
//! [`LISTS_BYTES_MAX`] bytes, whatever is asked for by whomever.

mod lists;
mod reading;
mod sampler;
mod sketch;
mod windows;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use std::{io, thread};

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use self::lists::Sample;
pub use self::lists::{Seen, TopBy, TopOrder};
use self::reading::Reading;
pub use self::reading::Traffic;
use self::sampler::Sampler;
use self::windows::Windows;
pub use self::windows::{TopList, TopQuestion, TopRow, TopWindow};
use super::counters::Counters;
use super::record::Facts;
use super::site::SiteId;

/// Bytes that the lists have at most.
pub const LISTS_BYTES_MAX: usize = 12 << 20;
/// Samples in a second that all workers together aim at, for each stratum; each aims at one at least.
const SAMPLES_A_SECOND: u64 = 256;
/// Samples that may wait for the thread, for each worker.
const QUEUE_MAX: usize = 2048;
/// Between two looks at the queues.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The lists of this process.
#[derive(Debug)]
pub(super) struct Popular {
    workers: Vec<(Arc<Chooser>, Receiver<Box<Sample>>)>,
    counters: Vec<Arc<Counters>>,
    windows: Mutex<Windows>,
    begun: Instant,
}

/// A worker's way to the lists.
#[derive(Debug)]
pub(super) struct Chooser {
    sampler: Sampler,
    queue: Sender<Box<Sample>>,
    hashed: RandomState,
    /// Requests that lost samples stood for.
    lost: AtomicU64,
}

impl Chooser {
    /// Looks at a finished request more closely, if it is chosen. Never waits.
    #[inline]
    pub(super) fn finished(&self, facts: &Facts, ended: Instant, see: impl FnOnce() -> Seen) {
        if let Some(weight) = self.sampler.choose(facts, ended) {
            self.put(Sample::new(weight, facts, see(), &self.hashed));
        }
    }

    #[cold]
    fn put(&self, sample: Sample) {
        let weight = sample.weight;
        if self.queue.try_send(Box::new(sample)).is_err() {
            self.lost.fetch_add(weight, Ordering::Relaxed);
        }
    }
}

impl Popular {
    /// Lists of what these workers answer, and the thread that keeps them.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(counters: &[Arc<Counters>], begun: Instant) -> io::Result<Arc<Popular>> {
        let popular = Arc::new(Popular::new(counters, begun));
        let own = Arc::downgrade(&popular);
        thread::Builder::new().name("weir-top".to_owned()).spawn(move || look(&own))?;
        Ok(popular)
    }

    fn new(counters: &[Arc<Counters>], begun: Instant) -> Popular {
        let hashed = RandomState::new();
        let share = SAMPLES_A_SECOND / counters.len().max(1) as u64;
        let worker = |number: usize| {
            let (queue, samples) = bounded(QUEUE_MAX);
            let sampler = Sampler::new(begun, share, hashed.hash_one(number));
            let lost = AtomicU64::new(0);
            (Arc::new(Chooser { sampler, queue, hashed: hashed.clone(), lost }), samples)
        };
        let windows = Windows::new(hashed.clone(), &Reading::default());
        Popular {
            workers: (0..counters.len()).map(worker).collect(),
            counters: counters.to_vec(),
            windows: Mutex::new(windows),
            begun,
        }
    }

    /// The way of a worker to the lists.
    ///
    /// # Panics
    /// When there is no such worker.
    pub(super) fn chooser(&self, worker: usize) -> Arc<Chooser> {
        self.workers[worker].0.clone()
    }

    fn reading(&self, now: Instant) -> Reading {
        let at = now.saturating_duration_since(self.begun);
        Reading::of(at, self.counters.iter().map(|counters| &**counters))
    }

    /// Takes in what the workers have chosen.
    fn gather(&self, now: Instant) {
        let reading = self.reading(now);
        let mut windows = self.windows.lock();
        self.take_in(&mut windows);
        windows.turn(reading);
    }

    fn take_in(&self, windows: &mut Windows) {
        for (_, samples) in &self.workers {
            // Workers that are faster than this do not keep it from its end.
            samples.try_iter().take(QUEUE_MAX).for_each(|sample| windows.add(&sample));
        }
    }

    /// The answer to a question.
    pub(super) fn list(
        &self,
        asked: &TopQuestion,
        sites: Option<&[SiteId]>,
        name: &dyn Fn(SiteId) -> Option<Arc<str>>,
        now: Instant,
    ) -> TopList {
        let mut windows = self.windows.lock();
        self.take_in(&mut windows);
        let covered = windows.traffic(asked.window, &self.reading(now)).span;
        TopList { covered, ..windows.list(asked, sites, name) }
    }

    /// What was counted in a window, and in the last seconds.
    pub(super) fn traffic(&self, window: TopWindow, now: Instant) -> (Traffic, Traffic) {
        let reading = self.reading(now);
        let windows = self.windows.lock();
        (windows.traffic(window, &reading), windows.recent(&reading))
    }

    /// Requests that were chosen for, and did not come into the lists.
    pub(super) fn lost(&self) -> u64 {
        self.workers.iter().map(|(chooser, _)| chooser.lost.load(Ordering::Relaxed)).sum()
    }
}

/// Keeps the lists until they are dropped.
fn look(popular: &Weak<Popular>) {
    loop {
        thread::sleep(LOOK_EVERY);
        let Some(popular) = popular.upgrade() else { return };
        popular.gather(weir_clock::mono());
    }
}

#[cfg(test)]
mod tests;
