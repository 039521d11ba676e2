//! What each client has at once: connections, or requests under way for clients that a trusted proxy names.
//! It is touched when a connection begins and ends, not by the requests on it.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::by_client::ByClient;
use crate::client::Client;

const SHARDS: usize = 64;

/// The counts of all clients that have any.
#[derive(Debug)]
pub struct Clients {
    /// The clients of a /48 are in one.
    shards: Box<[Mutex<ByClient<u64>>]>,
    /// A random hasher, so that an outsider cannot choose shards.
    hasher: RandomState,
}

impl Default for Clients {
    fn default() -> Clients {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Clients { shards, hasher: RandomState::new() }
    }
}

impl Clients {
    fn shard(&self, client: Client) -> &Mutex<ByClient<u64>> {
        let hash = match client.network() {
            Some(network) => self.hasher.hash_one(network),
            None => self.hasher.hash_one(client),
        };
        &self.shards[hash as usize % SHARDS]
    }

    /// Counts one more for a client; none if it has `most` already, or its /48 eight times as many.
    pub fn count(self: &Arc<Self>, client: Client, most: usize) -> Option<Counted> {
        let mut shard = self.shard(client).lock();
        if !shard.fits(client, |count| *count, 1, most as u64) {
            return None;
        }
        shard.change(client, |count| *count += 1);
        Some(Counted { clients: self.clone(), client })
    }
}

/// A client has as many as it may have.
#[derive(Debug)]
pub struct TooMany;

/// One that is counted for a client until it is dropped.
#[derive(Debug)]
pub struct Counted {
    clients: Arc<Clients>,
    client: Client,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.clients.shard(self.client).lock().change(self.client, |count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_limit_does_not_concern_others() {
        let clients = Arc::new(Clients::default());
        let [one, other] = [Client::V4(1), Client::V4(2)];
        let held: Vec<_> = (0..3).map(|_| clients.count(one, 3)).collect();
        assert!(held.iter().all(Option::is_some) && clients.count(one, 3).is_none());
        assert!(clients.count(other, 3).is_some());
        drop(held);
        assert!(clients.count(one, 1).is_some());
        assert!(clients.shards.iter().all(|shard| shard.lock().is_empty()));
    }

    #[test]
    fn a_network_of_48_bits_has_eight_shares() {
        let clients = Arc::new(Clients::default());
        let held: Vec<_> = (0..100).filter_map(|at| clients.count(Client::V6(at), 3)).collect();
        assert_eq!(held.len(), 24);
        assert!(clients.count(Client::V6(1 << 16), 3).is_some(), "another one");
    }
}
