//! Spreads connections: each worker counts its own, and one that would be clearly above the mean gives a new
//! connection to the least loaded.
//!
//! Each count has a cache line of its own. Others read it only when they accept a connection. The inboxes are
//! bounded: if one is full, the connection stays where it is.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

use super::{Family, Peer};

/// The most connections that wait in a worker's inbox.
const INBOX_MAX: usize = 1024;

/// The number of connections of each worker, waiting ones included.
#[derive(Debug)]
struct Loads(Vec<Load>);

/// Alone on its cache lines (two of them: neighbours are fetched in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Load(AtomicUsize);

/// The counts of all workers.
#[derive(Debug)]
pub struct Table(Arc<Loads>);

impl Table {
    /// The connections of all workers, those included that are on their way to another worker or to another
    /// process.
    pub fn held(&self) -> usize {
        self.0.0.iter().map(|load| load.0.load(Ordering::Acquire)).sum()
    }
}

/// A connection on its way to another worker's runtime.
#[derive(Debug)]
pub(super) struct Moved {
    pub(super) socket: OwnedFd,
    pub(super) family: Family,
    pub(super) tried: usize,
    pub(super) peer: Peer,
    pub(super) listener: usize,
    pub(super) held: Held,
}

/// A worker's own count, its inbox, and the counts of the others.
#[derive(Debug)]
pub struct Seat {
    worker: usize,
    loads: Arc<Loads>,
    inboxes: Vec<mpsc::Sender<Moved>>,
    inbox: mpsc::Receiver<Moved>,
}

/// Counts a connection for its worker until it is dropped: keep it as long as the connection.
#[derive(Debug)]
pub struct Held {
    loads: Arc<Loads>,
    worker: usize,
}

/// Seats for `workers` workers.
pub fn seats(workers: usize) -> Vec<Seat> {
    let loads = Arc::new(Loads((0..workers).map(|_| Load::default()).collect()));
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..workers).map(|_| mpsc::channel(INBOX_MAX)).unzip();
    let seat = |(worker, inbox)| Seat { worker, loads: loads.clone(), inboxes: senders.clone(), inbox };
    receivers.into_iter().enumerate().map(seat).collect()
}

impl Seat {
    /// The worker's number, from 0.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// The connections of this worker now.
    pub fn held(&self) -> usize {
        self.loads.0[self.worker].0.load(Ordering::Relaxed)
    }

    /// The connections of all workers now.
    pub fn held_by_all(&self) -> usize {
        self.loads.0.iter().map(|load| load.0.load(Ordering::Relaxed)).sum()
    }

    /// The worker after this one; `None` if it is the only one.
    pub(super) fn next_worker(&self) -> Option<usize> {
        let workers = self.loads.0.len();
        (workers > 1).then(|| (self.worker + 1) % workers)
    }

    /// How many workers there are.
    pub(super) fn workers(&self) -> usize {
        self.loads.0.len()
    }

    /// All the counts.
    pub fn table(&self) -> Table {
        Table(self.loads.clone())
    }

    /// The worker that should get the next accepted connection.
    pub(super) fn choose(&self) -> usize {
        choose(self.worker, self.loads.0.iter().map(|load| load.0.load(Ordering::Relaxed)))
    }

    /// Counts one connection for `worker`.
    pub fn hold(&self, worker: usize) -> Held {
        self.loads.0[worker].0.fetch_add(1, Ordering::Relaxed);
        Held { loads: self.loads.clone(), worker }
    }

    /// Sends a connection to the worker that it is counted for. A full inbox returns it.
    pub(super) fn give(&self, moved: Moved) -> Result<(), Moved> {
        self.inboxes[moved.held.worker].try_send(moved).map_err(|error| error.into_inner())
    }

    /// Waits for a connection from another worker.
    pub(super) async fn receive(&mut self) -> Moved {
        match self.inbox.recv().await {
            Some(moved) => moved,
            // Invariant: this seat owns a sender of its own inbox, so it never closes.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.loads.0[self.worker].0.fetch_sub(1, Ordering::Release);
    }
}

/// The worker that gets a new connection: `own`, unless that would exceed the mean by a whole connection and
/// an eighth; then the least loaded.
fn choose(own: usize, loads: impl Iterator<Item = usize>) -> usize {
    let (mut total, mut workers, mut mine, mut least) = (1, 0, 1, (usize::MAX, own));
    for (worker, load) in loads.enumerate() {
        total += load;
        workers += 1;
        if worker == own {
            mine += load;
        }
        if load < least.0 {
            least = (load, worker);
        }
    }
    // mine >= mean + max(1, mean / 8), in whole numbers.
    let margin = workers.max(total / 8);
    if mine * workers >= total + margin { least.1 } else { own }
}

#[cfg(test)]
pub(super) fn choose_among(own: usize, loads: &[usize]) -> usize {
    choose(own, loads.iter().copied())
}
