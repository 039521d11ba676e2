//! Answers that are used again: `keep`. Bounded; pure: time is an argument.
//!
//! An answer is for the client or the session that it was given to, and for one upstream. For a fill it is
//! for the same target. Only addresses are kept: a denial is asked for each time.
//!
//! What an answer is kept by is hashed to 16 bytes with a secret of this process, so that an entry takes the
//! same room whatever a client sends. Each is charged to the client that it was given to, an IPv6 /64 being
//! one; those of fills are charged to nobody. A full shard forgets an answer of the client that has the most
//! in it, or of the /48 that has eight times as many, the one that was not used for longest: a client with
//! sessions without end pushes out its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_share::{Client, NETWORK_SHARES, Network};

/// How long answers are used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Not at all.
    #[default]
    Never,
    /// For all requests of a session, until none has come for half an hour.
    Session,
    /// For so long after the answer, for the same client, or for the same target of a fill.
    For(Duration),
}

/// Whom an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Whose<'a> {
    Client(IpAddr),
    Session(&'a str),
    /// Host and target of a fill.
    Target(&'a str, &'a [u8]),
}

/// Whom an answer is charged to. What a client has counts for its /48 as well, which has eight shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Owner {
    Nobody,
    Client(Client),
    Network(Network),
}

impl Owner {
    fn of(client: Option<IpAddr>) -> Owner {
        client.map_or(Owner::Nobody, |client| Owner::Client(Client::of(client)))
    }

    /// The owner, and the /48 that it is in.
    fn all(self) -> impl Iterator<Item = Owner> {
        let network = match self {
            Owner::Client(client) => client.network().map(Owner::Network),
            Owner::Nobody | Owner::Network(_) => None,
        };
        [Some(self), network].into_iter().flatten()
    }

    /// How much of a share so many answers are.
    fn used(self, answers: usize) -> usize {
        match self {
            Owner::Network(_) => answers / NETWORK_SHARES as usize,
            Owner::Nobody | Owner::Client(_) => answers,
        }
    }
}

/// What an answer is kept by: a hash of whom it is for, which site's route, and where it may go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    hash: u128,
    owner: Owner,
}

/// A session is forgotten after so long without a request.
const IDLE: Duration = Duration::from_secs(30 * 60);
const SHARDS: usize = 16;
/// Answers in a shard. Each takes some 300 bytes.
const SHARD_MAX: usize = 4096;

/// The answers that are kept.
#[derive(Debug)]
pub(crate) struct Kept {
    keep: Keep,
    /// Each gives a half of the hash.
    hashers: [RandomState; 2],
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Debug, Default)]
struct Shard {
    answers: HashMap<u128, Held>,
    /// The hashes in the order of their last use: the first one is the first to be out of date.
    order: BTreeMap<u64, u128>,
    /// The same for each owner.
    of_owner: BTreeMap<(Owner, u64), u128>,
    counts: HashMap<Owner, usize>,
    /// The owners, those that use most of a share last.
    largest: BTreeSet<(usize, Owner)>,
    number: u64,
}

#[derive(Debug)]
struct Held {
    address: SocketAddr,
    until: Instant,
    owner: Owner,
    /// Its place in the order.
    number: u64,
}

impl Kept {
    pub(crate) fn new(keep: Keep) -> Kept {
        Kept { keep, hashers: Default::default(), shards: Default::default() }
    }

    pub(crate) fn keep(&self) -> Keep {
        self.keep
    }

    /// The key of an answer. `place`: site, route and upstream. `client` is whom it is charged to.
    pub(crate) fn key(&self, whose: Whose<'_>, place: [&str; 3], client: Option<IpAddr>) -> Key {
        let [high, low] = [0, 1].map(|half: usize| self.hashers[half].hash_one((whose, place)));
        Key { hash: u128::from(high) << 64 | u128::from(low), owner: Owner::of(client) }
    }

    /// The answer that is kept.
    pub(crate) fn find(&self, key: &Key, now: Instant) -> Option<SocketAddr> {
        let mut shard = self.shard(key).lock();
        let address = shard.answers.get(&key.hash).filter(|held| now < held.until)?.address;
        if self.keep == Keep::Session {
            shard.renew(key.hash, now + IDLE);
        }
        Some(address)
    }

    /// Keeps an answer.
    pub(crate) fn put(&self, key: Key, address: SocketAddr, now: Instant) {
        let lasts = match self.keep {
            Keep::Never => return,
            Keep::Session => IDLE,
            Keep::For(lasts) => lasts,
        };
        let mut shard = self.shard(&key).lock();
        shard.remove(key.hash);
        shard.put(key, address, now + lasts);
        // More go than come, until none is out of date.
        (0..2).for_each(|_| shard.remove_old(now));
        if shard.answers.len() > SHARD_MAX {
            shard.make_room();
        }
    }

    /// Forgets an answer that is of no use any more.
    pub(crate) fn forget(&self, key: &Key) {
        self.shard(key).lock().remove(key.hash);
    }

    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        &self.shards[key.hash as usize % SHARDS]
    }
}

impl Shard {
    fn put(&mut self, Key { hash, owner }: Key, address: SocketAddr, until: Instant) {
        self.number += 1;
        let number = self.number;
        self.answers.insert(hash, Held { address, until, owner, number });
        self.order.insert(number, hash);
        for owner in owner.all() {
            self.of_owner.insert((owner, number), hash);
            self.recount(owner, |count| count + 1);
        }
    }

    fn remove(&mut self, hash: u128) {
        let Some(Held { owner, number, .. }) = self.answers.remove(&hash) else { return };
        self.order.remove(&number);
        for owner in owner.all() {
            self.of_owner.remove(&(owner, number));
            self.recount(owner, |count| count - 1);
        }
    }

    fn recount(&mut self, owner: Owner, change: fn(usize) -> usize) {
        let before = self.counts.get(&owner).copied().unwrap_or(0);
        let after = change(before);
        self.largest.remove(&(owner.used(before), owner));
        if after == 0 {
            self.counts.remove(&owner);
        } else {
            self.counts.insert(owner, after);
            self.largest.insert((owner.used(after), owner));
        }
    }

    /// An answer was used: it goes to the end of the order.
    fn renew(&mut self, hash: u128, until: Instant) {
        let Some(held) = self.answers.get_mut(&hash) else { return };
        self.number += 1;
        let (before, owner) = (held.number, held.owner);
        (held.until, held.number) = (until, self.number);
        self.order.remove(&before);
        self.order.insert(self.number, hash);
        for owner in owner.all() {
            self.of_owner.remove(&(owner, before));
            self.of_owner.insert((owner, self.number), hash);
        }
    }

    /// Removes the oldest one if it is out of date.
    fn remove_old(&mut self, now: Instant) {
        let Some((_, &hash)) = self.order.first_key_value() else { return };
        if self.answers.get(&hash).is_some_and(|held| held.until <= now) {
            self.remove(hash);
        }
    }

    /// Removes the oldest one of the owner that has the most; the oldest of all where each has one.
    fn make_room(&mut self) {
        let largest = self.largest.last().filter(|(count, _)| *count > 1);
        let oldest = match largest {
            Some((_, owner)) => self.of_owner.range((*owner, 0)..).next().map(|(_, hash)| *hash),
            None => self.order.first_key_value().map(|(_, hash)| *hash),
        };
        oldest.into_iter().for_each(|hash| self.remove(hash));
    }
}

#[cfg(test)]
mod tests;
