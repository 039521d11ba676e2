//! What each client has of something, and each /48; and who gives way where all of it is taken. Pure.

use std::collections::HashMap;

use crate::client::{Client, NETWORK_SHARES, Network};

/// Counts by client, without clients that have nothing.
#[derive(Clone, Debug)]
pub struct ByClient<T> {
    clients: HashMap<Client, T>,
    networks: HashMap<Network, T>,
}

impl<T> Default for ByClient<T> {
    fn default() -> ByClient<T> {
        ByClient { clients: HashMap::new(), networks: HashMap::new() }
    }
}

impl<T: Copy + Default + PartialEq> ByClient<T> {
    /// What this client has.
    pub fn of(&self, client: Client) -> T {
        self.clients.get(&client).copied().unwrap_or_default()
    }

    /// Changes what a client has.
    pub fn change(&mut self, client: Client, by: impl Fn(&mut T)) {
        change(&mut self.clients, client, &by);
        if let Some(network) = client.network() {
            change(&mut self.networks, network, &by);
        }
    }

    /// How much of its share a client uses, `what` of the counts: what it has itself, or an eighth of what
    /// its /48 has, where that is more.
    pub fn used(&self, client: Client, what: impl Fn(&T) -> u64) -> u64 {
        self.after(client, what, 0)
    }

    /// The same once it has so much `more`.
    pub fn after(&self, client: Client, what: impl Fn(&T) -> u64, more: u64) -> u64 {
        let (own, all) = self.both(client, what);
        own.saturating_add(more).max(all.map_or(0, |all| all.saturating_add(more) / NETWORK_SHARES))
    }

    /// Whether a client may have so much `more` of it where one client may have `most`.
    pub fn fits(&self, client: Client, what: impl Fn(&T) -> u64, more: u64, most: u64) -> bool {
        let (own, all) = self.both(client, what);
        let most_of_network = most.saturating_mul(NETWORK_SHARES);
        own.saturating_add(more) <= most && all.is_none_or(|all| all.saturating_add(more) <= most_of_network)
    }

    /// What a client has, and what its /48 has, if it is in one.
    fn both(&self, client: Client, what: impl Fn(&T) -> u64) -> (u64, Option<u64>) {
        let own = self.clients.get(&client).map_or(0, &what);
        let of_network = |network: Network| self.networks.get(&network).map_or(0, &what);
        (own, client.network().map(of_network))
    }

    /// How many clients have something.
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    /// Whether no client has anything.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Whether this client has something.
    pub fn contains(&self, client: Client) -> bool {
        self.clients.contains_key(&client)
    }

    /// Nobody has anything any more.
    pub fn clear(&mut self) {
        self.clients.clear();
        self.networks.clear();
    }
}

fn change<K: Eq + std::hash::Hash, T: Default + PartialEq>(
    counts: &mut HashMap<K, T>,
    key: K,
    by: &impl Fn(&mut T),
) {
    match counts.get_mut(&key) {
        Some(count) => {
            by(count);
            if *count == T::default() {
                counts.remove(&key);
            }
        }
        None => {
            let mut count = T::default();
            by(&mut count);
            if count != T::default() {
                counts.insert(key, count);
            }
        }
    }
}

/// A client may have so much of all without a look at what is left: a sixteenth, and two at least.
const LIGHT_SHARE: u64 = 16;
const LIGHT_MIN: u64 = 2;

/// Whether a client that uses so much leaves some of it to others if it takes more, where it may have `most`
/// of `all`, of which so much is `free`. For what nobody gives back soon. One client alone gets its share;
/// with each further one that takes much, all of them get less: with half as the share no more than is left,
/// so that `n` clients leave a part in `n + 1`.
pub fn leaves_some(used: u64, (all, free): (u64, u64), most: u64) -> bool {
    let rest = all.saturating_sub(most);
    rest == 0
        || used < (all / LIGHT_SHARE).max(LIGHT_MIN)
        || used.saturating_mul(rest) < free.saturating_mul(most)
}

/// What gives way where all is taken, of a line with the latest first: the latest of the client that uses
/// most, as `used` says, where that is more than the newcomer would have ([`ByClient::after`]). So nobody
/// gains by coming again.
pub fn gives_way<K>(
    line: impl IntoIterator<Item = (K, Client)>,
    used: impl Fn(Client) -> u64,
    after: u64,
) -> Option<K> {
    let (mut most, mut found, mut last) = (after, None, None);
    for (key, client) in line {
        // What stands before it in the line is later.
        if last.replace(client) == Some(client) {
            continue;
        }
        let used = used(client);
        if used > most {
            (most, found) = (used, Some(key));
        }
    }
    found
}

#[cfg(test)]
mod tests;
