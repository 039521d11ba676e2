//! Places for the connections of one server of the control plane. No connection waits for a place. Where all
//! are taken, the connection that has been idle for the longest is closed. Where none is idle, there are a
//! few more places, on which only health is answered.
//!
//! A connection is idle while none of its requests is being answered: before its first request is complete,
//! between two requests, and while its client is slow to take a response.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::unsent::Moves;

/// Connections whose requests are answered at a time.
pub(crate) const PLACES_MAX: usize = 64;
/// Connections of the admin listener that one token may have.
const OWN_MAX: usize = 16;
/// Connections beyond these, while all of them have requests under way.
const MORE_MAX: usize = 16;

/// The places of one server.
#[derive(Debug, Default)]
pub(crate) struct Places {
    taken: Mutex<Vec<Arc<Taken>>>,
    working: AtomicUsize,
    turns: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Taken {
    /// Its requests that are being answered.
    working: AtomicUsize,
    /// Whose it is, once that is known.
    owner: OnceLock<String>,
    /// Its long answer, and since when it is idle.
    moves: Arc<Moves>,
    closes: Notify,
    /// A stream has begun on it.
    streams: Notify,
    /// What is notified when that cannot be sent.
    stream: OnceLock<Arc<Notify>>,
}

/// A connection's place, given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    taken: Arc<Taken>,
}

/// A request that is being answered. Dropping it makes its connection idle.
#[derive(Debug)]
pub(crate) struct Work<'p> {
    place: &'p Place,
    /// Whether the place is for all requests, or for health alone.
    pub(crate) is_for_all: bool,
}

impl Places {
    /// A place; `None` where all connections have requests under way.
    pub(crate) fn take(self: &Arc<Places>) -> Option<Place> {
        let mut all = self.taken.lock();
        if all.len() >= PLACES_MAX {
            let idle = all.iter().filter(|taken| taken.working.load(Ordering::Acquire) == 0);
            match idle.min_by_key(|taken| taken.moves.since.load(Ordering::Acquire)) {
                Some(idlest) => {
                    let idlest = Arc::clone(idlest);
                    all.retain(|taken| !Arc::ptr_eq(taken, &idlest));
                    idlest.closes.notify_one();
                }
                None if all.len() >= PLACES_MAX + MORE_MAX => return None,
                None => {}
            }
        }
        let taken = Arc::new(Taken {
            working: AtomicUsize::new(0),
            owner: OnceLock::new(),
            moves: Arc::new(Moves::new(&self.turns)),
            closes: Notify::new(),
            streams: Notify::new(),
            stream: OnceLock::new(),
        });
        all.push(Arc::clone(&taken));
        Some(Place { places: Arc::clone(self), taken })
    }

    /// Whether no connection has a place.
    pub(crate) fn are_free(&self) -> bool {
        self.taken.lock().is_empty()
    }
}

impl Place {
    /// Notes whose connection it is. Whether that one has no more than its share.
    pub(crate) fn belongs_to(&self, identity: &str) -> bool {
        let all = self.places.taken.lock();
        let is_own = |taken: &&Arc<Taken>| taken.owner.get().is_some_and(|owner| owner == identity);
        let others = all.iter().filter(is_own).filter(|taken| !Arc::ptr_eq(taken, &self.taken)).count();
        let is_within = others < OWN_MAX;
        if is_within {
            // A connection that shows several tokens counts for the first.
            let _ = self.taken.owner.set(identity.to_owned());
        }
        is_within
    }

    /// What is known of its long answer, and of what arrives on it.
    pub(crate) fn moves(&self) -> &Arc<Moves> {
        &self.taken.moves
    }

    /// Notes that a request is being answered.
    pub(crate) fn work(&self) -> Work<'_> {
        self.taken.working.fetch_add(1, Ordering::AcqRel);
        let is_for_all = self.places.working.fetch_add(1, Ordering::AcqRel) < PLACES_MAX;
        Work { place: self, is_for_all }
    }

    /// Gives the place back while the connection goes on: a stream is sent on it. The connection is closed
    /// when that is cut.
    pub(crate) fn leave(&self, cut: Arc<Notify>) {
        self.places.taken.lock().retain(|taken| !Arc::ptr_eq(taken, &self.taken));
        // A connection has at most one stream, which ends it.
        let _ = self.taken.stream.set(cut);
        self.taken.streams.notify_one();
    }

    /// Ready when the connection is older than it may be. One with a stream may be of any age, until nothing
    /// can be sent on it.
    pub(crate) async fn overdue(&self, time: Duration) {
        let stream = async {
            self.taken.streams.notified().await;
            match self.taken.stream.get() {
                Some(cut) => cut.notified().await,
                None => std::future::pending().await,
            }
        };
        let age = async {
            tokio::time::sleep(time).await;
            if self.taken.stream.get().is_some() {
                std::future::pending().await
            }
        };
        tokio::select! {
            () = stream => {}
            () = age => {}
        }
    }

    /// Ready when the place is taken away.
    pub(crate) async fn closed(&self) {
        self.taken.closes.notified().await;
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        let Place { places, taken } = self.place;
        taken.moves.gets_on();
        taken.working.fetch_sub(1, Ordering::AcqRel);
        places.working.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken.lock().retain(|taken| !Arc::ptr_eq(taken, &self.taken));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_closed(place: &Place) -> bool {
        let mut closed = std::pin::pin!(place.closed());
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        closed.as_mut().poll(&mut cx).is_ready()
    }

    #[tokio::test]
    async fn the_longest_idle_gives_way() {
        let places = Arc::new(Places::default());
        let all: Vec<Place> = (0..PLACES_MAX).map(|_| places.take().unwrap()).collect();
        drop(all[0].work());
        let _busy = all[1].work();
        let next = places.take().unwrap();
        let closed: Vec<usize> = (0..all.len()).filter(|index| is_closed(&all[*index])).collect();
        assert_eq!(closed, [2], "not the one that has just been used, nor the one that works");
        assert!(next.work().is_for_all);
    }

    #[tokio::test]
    async fn one_token_has_a_share_of_the_places_and_stalled_uploads_give_way() {
        let places = Arc::new(Places::default());
        let own: Vec<Place> = (0..OWN_MAX + 4).map(|_| places.take().unwrap()).collect();
        let within = own.iter().filter(|place| place.belongs_to("a")).count();
        assert_eq!(within, OWN_MAX);
        assert!(own[0].belongs_to("a"), "one that is known stays");
        assert!(places.take().unwrap().belongs_to("b"));
        drop(own);
        // All places have an upload, one of which gets on.
        let all: Vec<Place> = (0..PLACES_MAX).map(|_| places.take().unwrap()).collect();
        all[0].moves().gets_on();
        let more: Vec<Place> = (0..20).map(|_| places.take().unwrap()).collect();
        assert!(more.iter().all(|place| place.work().is_for_all));
        let closed: Vec<usize> = (0..all.len()).filter(|index| is_closed(&all[*index])).collect();
        assert_eq!(closed, (1..=20).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_with_a_stream_grows_old_until_it_is_cut() {
        const TIME: Duration = Duration::from_secs(600);
        let places = Arc::new(Places::default());
        let is_overdue = async |place: &Place, seconds| {
            tokio::time::timeout(Duration::from_secs(seconds), place.overdue(TIME)).await.is_ok()
        };
        let plain = places.take().unwrap();
        assert!(!is_overdue(&plain, 599).await && is_overdue(&plain, 601).await);
        let (place, cut) = (places.take().unwrap(), Arc::new(Notify::new()));
        place.leave(cut.clone());
        assert!(!is_overdue(&place, 100_000).await);
        let place = places.take().unwrap();
        place.leave(cut.clone());
        cut.notify_one();
        assert!(is_overdue(&place, 1).await);
        drop(plain);
        assert!(places.are_free(), "a stream has no place");
    }

    #[tokio::test]
    async fn where_all_work_there_are_some_for_health_alone() {
        let places = Arc::new(Places::default());
        let all: Vec<Place> = (0..PLACES_MAX).map(|_| places.take().unwrap()).collect();
        let works: Vec<Work<'_>> = all.iter().map(Place::work).collect();
        assert!(works.iter().all(|work| work.is_for_all));
        let more: Vec<Place> = (0..MORE_MAX)
            .map(|_| {
                let place = places.take().unwrap();
                // For as long as the test goes on.
                std::mem::forget(place.work());
                place
            })
            .collect();
        assert!(more.iter().all(|place| !place.work().is_for_all));
        assert!(places.take().is_none());
        drop(works);
        assert!(more[0].work().is_for_all);
        drop((all, more));
        assert!(places.are_free());
    }
}
