//! What a warming asks for, what comes of it, and how it gets to the workers. It must not walk anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use weir_upstream::{Hurry, Upstream};

/// URLs that are walked at a time, of all warmings.
const WALKS_MAX: usize = 64;

/// A URL to be warmed.
#[derive(Clone, Debug)]
pub struct Warm {
    /// An absolute URL of http or https.
    pub url: String,
    /// Fields of the request.
    pub headers: HeaderMap,
    /// Whether what is fresh is fetched as well.
    pub refresh: bool,
    /// What answers in place of the origin, and its path there.
    pub instead: Option<(Arc<Upstream>, String)>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warmed {
    /// It was fetched and is held.
    Stored,
    /// It was held, and the origin has confirmed it.
    Confirmed,
    /// It was held and fresh.
    Fresh,
    /// It is not stored: the reason's word.
    NotStored(&'static str),
    /// There was no response: the reason's word.
    Failed(&'static str),
    /// The origin failed: its status.
    Status(StatusCode),
    /// Clients go first: to be asked for again.
    GaveWay,
}

/// The content of a URL: pieces, and an error where it breaks off.
pub type Document = mpsc::Receiver<Result<Bytes, &'static str>>;

/// A walk that a worker is to do.
pub(crate) enum Wanted {
    Warm(Box<Warm>, Box<dyn FnOnce(Warmed) + Send>),
    Read(Box<Warm>, mpsc::Sender<Result<Bytes, &'static str>>, Box<dyn FnOnce(Warmed) + Send>),
}

/// What a walk without a client is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// That the response is held.
    Store,
    /// Its content, stored or not.
    Read,
}

/// What a walk without a client knows of its warming.
#[derive(Debug)]
pub(crate) struct Warming {
    pub(crate) aim: Aim,
    pub(crate) refresh: bool,
    pub(crate) instead: Option<(Arc<Upstream>, String)>,
    /// Told when a client joins its fill.
    pub(crate) hurry: Arc<Hurry>,
}

/// The walks of all workers.
#[derive(Default)]
pub(crate) struct Walks {
    /// One for each worker.
    pub(crate) workers: Mutex<Vec<mpsc::UnboundedSender<Wanted>>>,
    under_way: Arc<AtomicUsize>,
    turn: AtomicUsize,
    /// While an upgrade is under way none begins.
    stops: AtomicBool,
}

/// Counts a walk until it is dropped.
pub(crate) struct Walk(Arc<AtomicUsize>);

impl Drop for Walk {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Walks {
    /// Begins a walk; `None` where there are too many.
    pub(crate) fn begin(&self) -> Option<Walk> {
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let walk = Walk(self.under_way.clone());
        (before < WALKS_MAX && !self.stops.load(Ordering::Relaxed)).then_some(walk)
    }

    /// Lets none begin, or lets them begin again.
    pub(crate) fn stop(&self, stops: bool) {
        self.stops.store(stops, Ordering::Relaxed);
    }

    /// Gives a wish to the next worker; back where there is none.
    pub(crate) fn send(&self, wanted: Wanted) -> Result<(), Wanted> {
        let workers = self.workers.lock();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % workers.len().max(1);
        let Some(worker) = workers.get(turn) else { return Err(wanted) };
        worker.send(wanted).map_err(|unsent| unsent.0)
    }
}
