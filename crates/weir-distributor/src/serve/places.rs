//! The places of connections. A new one always gets a place: where all are taken, one of the address that has
//! the most goes, the one without a good question for longest. So no address keeps the others out.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_share::{ByClient, Client};

/// Connections of one thread and one kind, at most.
const CONNECTIONS_MAX: usize = 1024;

/// The connections of one thread and one kind: TCP or unix sockets.
#[derive(Debug, Default)]
pub(super) struct Places {
    seats: Mutex<Vec<Arc<Seat>>>,
    /// Goes up with each use.
    uses: AtomicU64,
}

#[derive(Debug)]
struct Seat {
    from: Client,
    used: AtomicU64,
    wanted: Notify,
}

/// One of them. Dropped, it is free.
pub(super) struct Place {
    places: Arc<Places>,
    seat: Arc<Seat>,
}

impl Places {
    pub(super) fn shared() -> Arc<Places> {
        Arc::default()
    }

    /// A place for a connection from there.
    pub(super) fn take(self: &Arc<Self>, from: IpAddr) -> Place {
        let from = Client::of(from);
        let seat = Seat { from, used: AtomicU64::new(self.next()), wanted: Notify::new() };
        let place = Place { places: self.clone(), seat: Arc::new(seat) };
        let mut seats = self.seats.lock();
        if seats.len() >= CONNECTIONS_MAX
            && let Some(at) = idlest_of_largest(&seats)
        {
            seats.swap_remove(at).wanted.notify_one();
        }
        seats.push(place.seat.clone());
        place
    }

    fn next(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }
}

fn idlest_of_largest(seats: &[Arc<Seat>]) -> Option<usize> {
    let mut counts = ByClient::<u64>::default();
    seats.iter().for_each(|seat| counts.change(seat.from, |count| *count += 1));
    let used: Vec<u64> = seats.iter().map(|seat| counts.used(seat.from, |count| *count)).collect();
    let most = used.iter().max().copied()?;
    let of_largest = (0..seats.len()).filter(|at| used[*at] == most);
    of_largest.min_by_key(|at| seats[*at].used.load(Ordering::Relaxed))
}

impl Place {
    /// A good question has come over it.
    pub(super) fn used(&self) {
        self.seat.used.store(self.places.next(), Ordering::Relaxed);
    }

    /// Waits until another connection gets this place.
    pub(super) async fn is_wanted(&self) {
        self.seat.wanted.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.seats.lock().retain(|seat| !Arc::ptr_eq(seat, &self.seat));
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn is_gone(place: &Place) -> bool {
        pin!(place.is_wanted()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn an_address_with_idle_connections_keeps_no_other_one_out() {
        let places = Places::shared();
        let [hog, other] = [1, 2].map(|last| IpAddr::from([127, 0, 0, last]));
        let first = places.take(other);
        let idle: Vec<Place> = (0..2600).map(|_| places.take(hog)).collect();
        assert_eq!(places.seats.lock().len(), CONNECTIONS_MAX);
        let used = &idle[2600 - CONNECTIONS_MAX + 1];
        used.used();
        let second = places.take(other);
        assert!(!is_gone(&first) && !is_gone(&second) && !is_gone(used));
        assert_eq!(idle.iter().filter(|place| is_gone(place)).count(), 2600 - (CONNECTIONS_MAX - 2));
        drop((first, second, idle));
        assert!(places.seats.lock().is_empty());
    }
}
