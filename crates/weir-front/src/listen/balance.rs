//! Spreading connections: each worker counts those it holds, and one that would be
//! clearly above the mean gives what it has just accepted to the least loaded.
//!
//! The counts are one cache line each, read by others only when a connection is
//! accepted. The inboxes are bounded: a full one means that the connection stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

use super::Peer;

/// Connections that may wait in a worker's inbox.
const INBOX_MAX: usize = 1024;

/// How many connections each worker holds, the waiting ones included.
#[derive(Debug)]
struct Loads(Vec<Load>);

/// Alone on its cache lines (two: neighbours are fetched in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Load(AtomicUsize);

/// All the counts together.
#[derive(Debug)]
pub struct Table(Arc<Loads>);

impl Table {
    /// Connections that any worker holds, those included that are on their way between two workers or to
    /// another process.
    pub fn held(&self) -> usize {
        self.0.0.iter().map(|load| load.0.load(Ordering::Acquire)).sum()
    }
}

/// A connection on its way to another worker's runtime.
#[derive(Debug)]
pub(super) struct Moved {
    pub(super) stream: MovedStream,
    pub(super) tried: usize,
    pub(super) peer: Peer,
    pub(super) listener: usize,
    pub(super) held: Held,
}

#[derive(Debug)]
pub(super) enum MovedStream {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

/// One worker's place at the table: its own count, its inbox, and all the others'.
#[derive(Debug)]
pub struct Seat {
    worker: usize,
    loads: Arc<Loads>,
    inboxes: Vec<mpsc::Sender<Moved>>,
    inbox: mpsc::Receiver<Moved>,
}

/// Counts one connection for its worker until dropped: keep it as long as the connection.
#[derive(Debug)]
pub struct Held {
    loads: Arc<Loads>,
    worker: usize,
}

/// One seat for each of `workers` workers.
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

    /// Connections this worker holds now.
    pub fn held(&self) -> usize {
        self.loads.0[self.worker].0.load(Ordering::Relaxed)
    }

    /// Connections that all workers hold now.
    pub fn held_by_all(&self) -> usize {
        self.loads.0.iter().map(|load| load.0.load(Ordering::Relaxed)).sum()
    }

    /// The worker after this one; none where it is the only one.
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

    /// Whose the next accepted connection should be.
    pub(super) fn choose(&self) -> usize {
        choose(self.worker, self.loads.0.iter().map(|load| load.0.load(Ordering::Relaxed)))
    }

    /// Counts one connection for `worker`.
    pub fn hold(&self, worker: usize) -> Held {
        self.loads.0[worker].0.fetch_add(1, Ordering::Relaxed);
        Held { loads: self.loads.clone(), worker }
    }

    /// Gives a connection to the worker it is counted for; a full inbox gives it back.
    pub(super) fn give(&self, moved: Moved) -> Result<(), Moved> {
        self.inboxes[moved.held.worker].try_send(moved).map_err(|error| error.into_inner())
    }

    /// Waits for a connection given by another worker.
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

/// `own` keeps a new connection unless it would stand a whole connection and an eighth
/// above the mean; then the least loaded worker gets it.
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
