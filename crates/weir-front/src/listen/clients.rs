//! What each client has at once: connections, or requests under way for clients that a trusted proxy names.
//! It is touched when a connection begins and ends, not by the requests on it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

const SHARDS: usize = 64;

/// The counts of all clients that have any.
#[derive(Debug)]
pub struct Clients {
    shards: Box<[Mutex<HashMap<IpAddr, usize>>]>,
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
    fn shard(&self, client: IpAddr) -> &Mutex<HashMap<IpAddr, usize>> {
        &self.shards[self.hasher.hash_one(client) as usize % SHARDS]
    }

    /// Counts one more for a client; an error if it has `most` already.
    pub fn count(self: &Arc<Self>, client: IpAddr, most: usize) -> Option<Counted> {
        let mut shard = self.shard(client).lock();
        let count = shard.entry(client).or_insert(0);
        if *count >= most {
            return None;
        }
        *count += 1;
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
    client: IpAddr,
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = self.clients.shard(self.client).lock().entry(self.client) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_limit_does_not_concern_others() {
        let clients = Arc::new(Clients::default());
        let [one, other] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
        let held: Vec<_> = (0..3).map(|_| clients.count(one, 3)).collect();
        assert!(held.iter().all(Option::is_some) && clients.count(one, 3).is_none());
        assert!(clients.count(other, 3).is_some());
        drop(held);
        assert!(clients.count(one, 1).is_some());
        assert!(clients.shards.iter().all(|shard| shard.lock().is_empty()));
    }
}
