//! Threads for what may wait for a device: opening and reading. They are started when they are needed, and
//! end when they are not.
//!
//! Each device has a lane of its own: its threads, its queue, and its time. A device that hangs keeps nothing
//! waiting but what needs it, and that for a bounded time; from then on its lane refuses at once, but for a
//! probe now and then, until something comes back. Who has left is not worked for. Where the queue of a lane
//! is full, the latest job of the client that has most in it gives way to one of a client that has fewer.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;
use weir_clock as clock;
use weir_share::{ByClient, Client, gives_way};

/// The threads of a lane that work at a time.
const WORKING_MAX: usize = 8;
/// The same with those that do not come back.
const LANE_THREADS_MAX: usize = 2 * WORKING_MAX;
/// The threads of all lanes. Beyond it a lane has one.
const THREADS_MAX: usize = 128;
/// The most jobs that wait in a lane.
const QUEUE_MAX: usize = 512;
/// From so many lanes on those without a thread are forgotten.
const LANES_MAX: usize = 256;
/// A thread without work for so long ends.
const IDLE_TIME: Duration = Duration::from_secs(30);

/// What a job may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum On {
    /// No device.
    Nothing,
    /// The device with this number.
    Device(u64),
    /// That of the root with this number, which is not known yet.
    Root(u64),
}

/// Why a job gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// The device does not answer.
    Hangs,
    /// Too many jobs wait for it.
    Crowded,
    /// The job has panicked.
    Panicked,
    /// There is no thread.
    NoThread,
}

/// When a device is taken to hang.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// Nothing has come back for so long.
    pub(crate) hang: Duration,
    /// Until the first probe of a device that hangs; each later one comes after twice as long.
    pub(crate) probe: Duration,
}

impl Default for Times {
    fn default() -> Times {
        Times { hang: Duration::from_secs(10), probe: Duration::from_secs(5) }
    }
}

/// The lanes.
#[derive(Clone, Debug)]
pub(crate) struct Pool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    times: Times,
    begun: Instant,
    lanes: Mutex<HashMap<On, Arc<Lane>>>,
    threads: AtomicUsize,
}

/// When a job last got on.
#[derive(Clone, Debug)]
pub(crate) struct Pulse {
    begun: Instant,
    /// In milliseconds since then.
    last_ms: Arc<AtomicU64>,
}

impl Pulse {
    fn new(begun: Instant) -> Pulse {
        let pulse = Pulse { begun, last_ms: Arc::default() };
        pulse.beat();
        pulse
    }

    fn now_ms(&self) -> u64 {
        ms(clock::mono().saturating_duration_since(self.begun))
    }

    /// Says that a job which takes long gets on.
    pub(crate) fn beat(&self) {
        self.last_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    fn is_late(&self, hang: Duration) -> bool {
        self.now_ms().saturating_sub(self.last_ms.load(Ordering::Relaxed)) >= ms(hang)
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Tells the caller what has come of its job.
type Tell = Box<dyn FnOnce() + Send>;

struct Job {
    work: Box<dyn FnOnce(&Pulse) -> Tell + Send>,
    pulse: Pulse,
    client: Option<Client>,
    /// Whether it has given way. Gone where nobody waits any more.
    waited_for: Weak<AtomicBool>,
}

#[derive(Debug)]
struct Lane {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    /// The jobs that threads are at, and when each began.
    running: Vec<(Pulse, Instant)>,
    threads: usize,
    idle: usize,
    /// When a job last came back.
    answered: Option<Instant>,
    /// The probes since then, and when the last one began.
    probes: (u32, Option<Instant>),
}

impl std::fmt::Debug for State {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (queued, running) = (self.queue.len(), self.running.len());
        out.debug_struct("State").field("queued", &queued).field("running", &running).finish_non_exhaustive()
    }
}

impl Default for Pool {
    fn default() -> Pool {
        Pool::new(Times::default())
    }
}

impl Pool {
    pub(crate) fn new(times: Times) -> Pool {
        Pool(Arc::new(Inner {
            times,
            begun: clock::mono(),
            lanes: Mutex::default(),
            threads: AtomicUsize::new(0),
        }))
    }

    /// Does `job` on a thread of the lane of what it may wait for, for no client. One that takes long says by
    /// its pulse that it gets on.
    ///
    /// # Errors
    /// See [`Unanswered`]. A job that was begun may still be done.
    ///
    /// # Cancel safety
    /// Safe: a job that was begun is done, and its result dropped.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        on: On,
        job: impl FnOnce(&Pulse) -> T + Send + 'static,
    ) -> Result<T, Unanswered> {
        self.run_for((on, None), job).await
    }

    /// As [`Pool::run`], for a client.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As there.
    pub(crate) async fn run_for<T: Send + 'static>(
        &self,
        (on, client): (On, Option<Client>),
        job: impl FnOnce(&Pulse) -> T + Send + 'static,
    ) -> Result<T, Unanswered> {
        let (say, mut said) = oneshot::channel();
        let (pulse, gave_way) = (Pulse::new(self.0.begun), Arc::new(AtomicBool::new(false)));
        let work = Box::new(move |pulse: &Pulse| {
            let done = job(pulse);
            Box::new(move || drop(say.send(done))) as Tell
        });
        let job = Job { work, pulse: pulse.clone(), client, waited_for: Arc::downgrade(&gave_way) };
        let lane = self.0.lane(on);
        self.0.enter(&lane, job)?;
        loop {
            match tokio::time::timeout(self.0.times.hang, &mut said).await {
                Ok(Err(_)) if gave_way.load(Ordering::Acquire) => return Err(Unanswered::Crowded),
                Ok(done) => return done.map_err(|_| Unanswered::Panicked),
                Err(_) if pulse.is_late(self.0.times.hang) => return Err(Unanswered::Hangs),
                Err(_) => {}
            }
        }
    }
}

impl Inner {
    fn lane(&self, on: On) -> Arc<Lane> {
        let mut lanes = self.lanes.lock();
        if lanes.len() >= LANES_MAX && !lanes.contains_key(&on) {
            // Those of roots that are no more.
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
        }
        let lane = || Arc::new(Lane { state: Mutex::default(), news: Condvar::new() });
        Arc::clone(lanes.entry(on).or_insert_with(lane))
    }

    fn enter(self: &Arc<Inner>, lane: &Arc<Lane>, job: Job) -> Result<(), Unanswered> {
        let (now, hang) = (clock::mono(), self.times.hang);
        // Dropped once the lock is free: that wakes what waits for it.
        let _gone;
        let mut state = lane.state.lock();
        if state.hangs(hang) {
            let (count, last) = state.probes;
            let pause = self.times.probe.saturating_mul(1 << count.min(16));
            let is_due = last.is_none_or(|last| now.saturating_duration_since(last) >= pause);
            if !is_due || !state.may_grow(hang) {
                return Err(Unanswered::Hangs);
            }
            state.probes = (count + 1, Some(now));
        }
        if state.queue.len() >= QUEUE_MAX {
            state.queue.retain(|job| job.waited_for.strong_count() > 0);
        }
        if state.queue.len() >= QUEUE_MAX {
            _gone = state.give_way(job.client).ok_or(Unanswered::Crowded)?;
        }
        state.queue.push_back(job);
        if state.idle < state.queue.len() && state.may_grow(hang) {
            self.grow(lane, &mut state);
        }
        lane.news.notify_one();
        // Those that hang do not count: the job is queued for the first that comes back.
        if state.threads == 0 {
            state.queue.pop_back();
            return Err(Unanswered::NoThread);
        }
        Ok(())
    }

    /// Starts one more thread of a lane, where there may be one more.
    fn grow(self: &Arc<Inner>, lane: &Arc<Lane>, state: &mut State) {
        let number = self.threads.fetch_add(1, Ordering::AcqRel);
        let is_allowed = number < THREADS_MAX || state.threads == 0;
        let (inner, own) = (Arc::clone(self), Arc::clone(lane));
        let thread = std::thread::Builder::new().name(format!("weir-file-{number}"));
        if is_allowed && thread.spawn(move || inner.work(&own)).is_ok() {
            state.threads += 1;
        } else {
            self.threads.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// A thread.
    fn work(&self, lane: &Lane) {
        let mut state = lane.state.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                // Nobody waits for what is not wanted any more.
                if job.waited_for.strong_count() > 0 {
                    job.pulse.beat();
                    state.running.push((job.pulse.clone(), clock::mono()));
                    drop(state);
                    // The caller hears of a panic: its channel closes.
                    let done = catch_unwind(AssertUnwindSafe(|| (job.work)(&job.pulse)));
                    state = lane.state.lock();
                    state.running.retain(|(pulse, _)| !Arc::ptr_eq(&pulse.last_ms, &job.pulse.last_ms));
                    (state.answered, state.probes) = (Some(clock::mono()), (0, None));
                    // Who hears of it asks again, and must find that something has come back.
                    drop(state);
                    done.into_iter().for_each(|tell| tell());
                    state = lane.state.lock();
                }
                continue;
            }
            state.idle += 1;
            let is_over = lane.news.wait_for(&mut state, IDLE_TIME).timed_out();
            state.idle -= 1;
            if is_over && state.queue.is_empty() {
                state.threads -= 1;
                self.threads.fetch_sub(1, Ordering::AcqRel);
                return;
            }
        }
    }
}

impl State {
    /// Whether something has been waited for too long that began after the last answer. What began before it
    /// is lost, and says nothing of what comes now.
    fn hangs(&self, hang: Duration) -> bool {
        let is_after = |begun: &Instant| self.answered.is_none_or(|last| *begun > last);
        self.running.iter().any(|(pulse, begun)| is_after(begun) && pulse.is_late(hang))
    }

    /// Takes out the job that gives way to one of this client.
    fn give_way(&mut self, client: Option<Client>) -> Option<Job> {
        let mut counts = ByClient::<u64>::default();
        let clients = self.queue.iter().filter_map(|job| job.client);
        clients.for_each(|client| counts.change(client, |count| *count += 1));
        let after = client.map_or(1, |client| counts.after(client, |count| *count, 1));
        let of = |(at, job): (usize, &Job)| job.client.map(|client| (at, client));
        let latest_first = self.queue.iter().enumerate().rev().filter_map(of);
        let at = gives_way(latest_first, |client| counts.used(client, |count| *count), after)?;
        let job = self.queue.remove(at)?;
        job.waited_for.upgrade().into_iter().for_each(|gave_way| gave_way.store(true, Ordering::Release));
        Some(job)
    }

    fn late(&self, hang: Duration) -> usize {
        self.running.iter().filter(|(pulse, _)| pulse.is_late(hang)).count()
    }

    fn may_grow(&self, hang: Duration) -> bool {
        self.threads < LANE_THREADS_MAX && self.threads - self.late(hang).min(self.threads) < WORKING_MAX
    }
}

#[cfg(test)]
mod tests;
