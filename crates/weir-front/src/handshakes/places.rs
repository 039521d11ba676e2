//! Places of connections that are not secured yet, on one core. A client has a share of them. Where that, or
//! all of them, are taken, the one that has waited for its client for the longest makes room for a new one.
//! It must not know what is waited for.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::task::{Context, Poll, Waker};

use weir_share::{ByClient, Client};

/// What one client may have of all places: so many parts of one.
const CLIENT_SHARE: usize = 8;

/// The places.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Those that are held, and those that had to make room and are not given back yet, by their number. A
    /// later one has a higher number.
    held: HashMap<u64, Held>,
    next: u64,
    /// Those that count.
    taken: usize,
    of_clients: ByClient<u64>,
    /// Those that wait for their client, in the order in which they were taken; and so for each client.
    waiting: BTreeSet<u64>,
    waiting_of_clients: BTreeSet<(Client, u64)>,
}

#[derive(Debug)]
struct Held {
    client: Option<Client>,
    waker: Option<Waker>,
    is_over: bool,
}

impl State {
    /// The place does not wait any more.
    fn works(&mut self, number: u64) {
        if self.waiting.remove(&number)
            && let Some(client) = self.held.get(&number).and_then(|held| held.client)
        {
            self.waiting_of_clients.remove(&(client, number));
        }
    }

    /// The place does not count any more.
    fn end(&mut self, number: u64) {
        self.works(number);
        let Some(held) = self.held.get_mut(&number).filter(|held| !held.is_over) else { return };
        held.is_over = true;
        if let Some(waker) = held.waker.take() {
            waker.wake();
        }
        self.taken -= 1;
        if let Some(client) = held.client {
            self.of_clients.change(client, |count| *count -= 1);
        }
    }

    /// The place of a client that has waited for the longest.
    fn longest_of(&self, client: Client) -> Option<u64> {
        self.waiting_of_clients.range((client, 0)..=(client, u64::MAX)).next().map(|(_, number)| *number)
    }
}

impl Places {
    pub(super) fn new(most: usize) -> Places {
        Places { most, state: RefCell::default() }
    }

    /// A place for a client, or for a connection that stands for many. `None` where it must not have one, and
    /// none of those that are taken waits.
    pub(super) fn take(&self, client: Option<Client>) -> Option<Place<'_>> {
        let mut state = self.state.borrow_mut();
        let share = (self.most / CLIENT_SHARE).max(1) as u64;
        match client.filter(|client| !state.of_clients.fits(*client, |count| *count, 1, share)) {
            Some(client) => {
                let longest = state.longest_of(client)?;
                state.end(longest);
            }
            None if state.taken >= self.most => {
                let longest = *state.waiting.first()?;
                state.end(longest);
            }
            None => {}
        }
        let number = state.next;
        state.next += 1;
        state.taken += 1;
        if let Some(client) = client {
            state.of_clients.change(client, |count| *count += 1);
        }
        state.held.insert(number, Held { client, waker: None, is_over: false });
        Some(Place { places: self, number })
    }
}

/// A place, given back when dropped.
#[derive(Debug)]
pub(super) struct Place<'p> {
    places: &'p Places,
    number: u64,
}

impl Place<'_> {
    /// Waits for the client. Ready once the place had to make room.
    pub(super) fn poll_over(&self, cx: &Context<'_>) -> Poll<()> {
        let state = &mut *self.places.state.borrow_mut();
        let Some(held) = state.held.get_mut(&self.number) else { return Poll::Ready(()) };
        if held.is_over {
            return Poll::Ready(());
        }
        if !held.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            held.waker = Some(cx.waker().clone());
        }
        if state.waiting.insert(self.number)
            && let Some(client) = held.client
        {
            state.waiting_of_clients.insert((client, self.number));
        }
        Poll::Pending
    }

    /// The client is not waited for any more: the place stays.
    pub(super) fn works(&self) {
        self.places.state.borrow_mut().works(self.number);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.places.state.borrow_mut();
        state.end(self.number);
        state.held.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::task::{Context, Waker};

    use super::{Client, Place, Places};

    fn client(number: u8) -> Option<Client> {
        Some(Client::of(IpAddr::from([192, 0, 2, number])))
    }

    fn waits(place: &Place<'_>) -> bool {
        place.poll_over(&Context::from_waker(Waker::noop())).is_pending()
    }

    /// Takes one that waits.
    fn silent(places: &Places, number: u8) -> Place<'_> {
        let place = places.take(client(number)).unwrap();
        assert!(waits(&place));
        place
    }

    #[test]
    fn the_longest_silent_one_of_a_client_makes_room_for_its_next() {
        let places = Places::new(32);
        let other = silent(&places, 2);
        let all: Vec<_> = (0..6).map(|_| silent(&places, 1)).collect();
        assert_eq!(all.iter().map(waits).collect::<Vec<_>>(), [false, false, true, true, true, true]);
        assert!(waits(&other) && places.state.borrow().taken == 5);
        drop((all, other));
        let state = places.state.borrow();
        assert!(state.held.is_empty() && state.of_clients.is_empty() && state.waiting_of_clients.is_empty());
        assert_eq!((state.taken, state.waiting.len()), (0, 0));
    }

    #[test]
    fn where_all_are_taken_the_longest_silent_one_makes_room() {
        let places = Places::new(8);
        let first = places.take(None).unwrap();
        let mut all: Vec<_> = (1..8).map(|number| silent(&places, number)).collect();
        all.push(silent(&places, 8));
        assert!(!waits(&all[0]) && all[1..].iter().all(waits));
        // One that works does not, and none is given where all work.
        all.iter().for_each(Place::works);
        assert!(waits(&all[1]));
        all[1].works();
        assert!(places.take(client(9)).is_none() && places.take(None).is_none());
        assert!(waits(&first));
        assert!(places.take(None).is_some() && !waits(&first));
    }

    #[test]
    fn a_client_whose_places_all_work_gets_no_other() {
        let places = Places::new(16);
        let all: Vec<_> = (0..2).map(|_| places.take(client(1)).unwrap()).collect();
        assert!(places.take(client(1)).is_none() && places.take(client(2)).is_some());
        assert!(waits(&all[1]) && places.take(client(1)).is_some() && !waits(&all[1]) && waits(&all[0]));
    }
}
