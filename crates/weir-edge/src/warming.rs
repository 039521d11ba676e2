//! What a warming asks for, what comes of it, and how it gets to the workers. It must not walk anything.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use weir_upstream::{Hurry, Upstream};

/// URLs that are walked at a time, of all warmings. One owner has at most half of what the others leave.
const WALKS_MAX: usize = 128;

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
    /// Whose warming it is: nobody's take the places of all others.
    pub owner: Arc<str>,
    /// Ends the walk once its sender is dropped.
    pub ends: watch::Receiver<()>,
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
    /// It is to be asked for again.
    GaveWay(GaveWay),
}

/// Why a URL gave way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GaveWay {
    /// Other warmings have the places, or an upgrade is under way.
    Places,
    /// Clients leave no room at this upstream.
    Clients(String),
    /// This upstream gives no answer.
    Down(String),
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
    /// How many each owner has.
    under_way: Arc<Mutex<HashMap<Arc<str>, usize>>>,
    turn: AtomicUsize,
    /// While an upgrade is under way none begins.
    stops: AtomicBool,
}

/// Counts a walk until it is dropped.
pub(crate) struct Walk {
    all: Arc<Mutex<HashMap<Arc<str>, usize>>>,
    owner: Arc<str>,
}

impl Drop for Walk {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if let Some(own) = all.get_mut(&self.owner) {
            *own -= 1;
            if *own == 0 {
                all.remove(&self.owner);
            }
        }
    }
}

impl Walks {
    /// Begins a walk. `None` where the owner has as many as are free: so some are left for the next owner.
    pub(crate) fn begin(&self, owner: &Arc<str>) -> Option<Walk> {
        let mut all = self.under_way.lock();
        let free = WALKS_MAX.saturating_sub(all.values().sum());
        let own = all.get(owner).copied().unwrap_or_default();
        if own >= free || self.stops() {
            return None;
        }
        all.insert(owner.clone(), own + 1);
        Some(Walk { all: self.under_way.clone(), owner: owner.clone() })
    }

    /// Lets none begin, or lets them begin again.
    pub(crate) fn stop(&self, stops: bool) {
        self.stops.store(stops, Ordering::Relaxed);
    }

    /// Whether none may begin.
    pub(crate) fn stops(&self) -> bool {
        self.stops.load(Ordering::Relaxed)
    }

    /// Gives a wish to the next worker; back where there is none.
    pub(crate) fn send(&self, wanted: Wanted) -> Result<(), Wanted> {
        let workers = self.workers.lock();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % workers.len().max(1);
        let Some(worker) = workers.get(turn) else { return Err(wanted) };
        worker.send(wanted).map_err(|unsent| unsent.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_owner_takes_the_walks_of_all_others() {
        let walks = Walks::default();
        let mut taken = Vec::new();
        let mut take = |owner: &str| {
            let owner: Arc<str> = owner.into();
            let before = taken.len();
            taken.extend(std::iter::from_fn(|| walks.begin(&owner)));
            taken.len() - before
        };
        let counts: Vec<usize> = ["a", "b", "c", "d", "e", "f", "g", "h"].map(&mut take).to_vec();
        assert_eq!(counts, [64, 32, 16, 8, 4, 2, 1, 1]);
        assert_eq!(take("a"), 0);
        taken.clear();
        assert!(walks.under_way.lock().is_empty());
        walks.stop(true);
        assert!(walks.begin(&"a".into()).is_none());
    }
}
