//! An amount that all clients share, of which one client may have a part. What finds no room goes on without
//! it, or ends; nothing that has room gives way.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::by_client::ByClient;
use crate::client::Client;

/// The amount.
#[derive(Debug)]
pub struct Room {
    all_max: u64,
    client_max: u64,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    all: u64,
    clients: ByClient<u64>,
}

/// A part of it, given back when dropped.
#[derive(Debug)]
pub struct Taken {
    room: Arc<Room>,
    client: Option<Client>,
    amount: u64,
}

impl Room {
    /// So much for all, and so much of it for one client at most.
    pub fn new(all_max: u64, client_max: u64) -> Arc<Room> {
        Arc::new(Room { all_max, client_max, used: Mutex::default() })
    }

    /// Takes so much for a client; what is for no client in particular has no bound but that of all. `None`
    /// where there is not so much left, for all or for this client.
    pub fn take(self: &Arc<Self>, client: Option<Client>, amount: u64) -> Option<Taken> {
        let mut used = self.used.lock();
        let fits = |client| used.clients.fits(client, |count| *count, amount, self.client_max);
        if used.all.saturating_add(amount) > self.all_max || !client.is_none_or(fits) {
            return None;
        }
        used.all += amount;
        client.into_iter().for_each(|client| used.clients.change(client, |count| *count += amount));
        Some(Taken { room: self.clone(), client, amount })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut used = self.room.used.lock();
        used.all -= self.amount;
        if let Some(client) = self.client {
            used.clients.change(client, |count| *count -= self.amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_has_a_ceiling() {
        let room = Room::new(100, 100);
        let places: Vec<_> = (0..3).map(|_| room.take(None, 40)).collect();
        assert_eq!(places.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
        assert!(room.take(None, 20).is_some() && room.take(None, 21).is_none());
        drop(places);
        assert!(room.take(None, 100).is_some() && room.take(None, u64::MAX / 2).is_none());
        assert!(room.used.lock().clients.is_empty());
    }

    #[test]
    fn one_client_leaves_room_for_others() {
        let room = Room::new(100, 30);
        let [one, other] = [Client::V4(1), Client::V4(2)];
        let held = [room.take(Some(one), 20), room.take(Some(one), 10)];
        assert!(held.iter().all(Option::is_some) && room.take(Some(one), 1).is_none());
        assert!(room.take(Some(other), 30).is_some());
        drop(held);
        assert!(room.take(Some(one), 30).is_some());
        assert!(room.used.lock().clients.is_empty());
    }

    #[test]
    fn a_network_of_48_bits_has_eight_shares() {
        let room = Room::new(u64::MAX, 30);
        let held: Vec<_> = (0..100).filter_map(|at| room.take(Some(Client::V6(at)), 10)).collect();
        assert_eq!(held.len(), 24);
    }
}
