//! Answers that are used again: `keep`. Bounded; pure: time is an argument.
//!
//! An answer is for the client or the session that it was given to, and for one upstream. For a fill it is
//! for the same target. Only addresses are kept: a denial is asked for each time.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Whose {
    Client(IpAddr),
    Session(Box<str>),
    /// Host and target of a fill.
    Target(Box<[u8]>),
}

/// What an answer is kept by: whom it is for, which site's route, and where it may go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) whose: Whose,
    pub(crate) site: Arc<str>,
    pub(crate) route: Arc<str>,
    pub(crate) upstream: Box<str>,
}

/// A session is forgotten after so long without a request.
const IDLE: Duration = Duration::from_secs(30 * 60);
const SHARDS: usize = 16;
/// Answers in a shard; the oldest goes first.
const SHARD_MAX: usize = 4096;

/// The answers that are kept.
#[derive(Debug)]
pub(crate) struct Kept {
    keep: Keep,
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Debug, Default)]
struct Shard {
    answers: HashMap<Key, Held>,
    /// The keys in the order in which they came, each with the number of its answer.
    order: VecDeque<(Key, u64)>,
    number: u64,
}

#[derive(Debug)]
struct Held {
    address: SocketAddr,
    until: Instant,
    number: u64,
}

impl Kept {
    pub(crate) fn new(keep: Keep) -> Kept {
        Kept { keep, hasher: RandomState::new(), shards: Default::default() }
    }

    pub(crate) fn keep(&self) -> Keep {
        self.keep
    }

    /// The answer that is kept.
    pub(crate) fn find(&self, key: &Key, now: Instant) -> Option<SocketAddr> {
        let mut shard = self.shard(key).lock();
        let held = shard.answers.get_mut(key).filter(|held| now < held.until)?;
        if self.keep == Keep::Session {
            held.until = now + IDLE;
        }
        Some(held.address)
    }

    /// Keeps an answer.
    pub(crate) fn put(&self, key: Key, address: SocketAddr, now: Instant) {
        let lasts = match self.keep {
            Keep::Never => return,
            Keep::Session => IDLE,
            Keep::For(lasts) => lasts,
        };
        let mut shard = self.shard(&key).lock();
        shard.number += 1;
        let number = shard.number;
        shard.answers.insert(key.clone(), Held { address, until: now + lasts, number });
        shard.order.push_back((key, number));
        while shard.order.len() > SHARD_MAX {
            let Some((oldest, number)) = shard.order.pop_front() else { break };
            if shard.answers.get(&oldest).is_some_and(|held| held.number == number) {
                shard.answers.remove(&oldest);
            }
        }
    }

    /// Forgets an answer that is of no use any more.
    pub(crate) fn forget(&self, key: &Key) {
        self.shard(key).lock().answers.remove(key);
    }

    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(whose: Whose, route: &str) -> Key {
        Key { whose, site: "shop".into(), route: route.into(), upstream: "u".into() }
    }

    fn of(last: u8) -> Whose {
        Whose::Client(IpAddr::from([192, 0, 2, last]))
    }

    #[test]
    fn an_answer_is_for_one_client_one_route_and_a_time() {
        let (kept, now) = (Kept::new(Keep::For(Duration::from_secs(5))), crate::clock::now());
        let there = "10.0.0.1:80".parse().unwrap();
        kept.put(key(of(1), "a"), there, now);
        assert_eq!(kept.find(&key(of(1), "a"), now + Duration::from_millis(4999)), Some(there));
        assert_eq!(kept.find(&key(of(1), "a"), now + Duration::from_secs(5)), None);
        assert_eq!(kept.find(&key(of(2), "a"), now), None);
        assert_eq!(kept.find(&key(of(1), "b"), now), None);
        let session = Whose::Session("192.0.2.1".into());
        assert_eq!(kept.find(&key(session, "a"), now), None);
        kept.forget(&key(of(1), "a"));
        assert_eq!(kept.find(&key(of(1), "a"), now), None);
    }

    #[test]
    fn a_session_is_kept_while_it_is_used() {
        let (kept, mut now) = (Kept::new(Keep::Session), crate::clock::now());
        let session = key(Whose::Session("s".into()), "a");
        kept.put(session.clone(), "10.0.0.1:80".parse().unwrap(), now);
        for _ in 0..10 {
            now += IDLE - Duration::from_secs(1);
            assert!(kept.find(&session, now).is_some());
        }
        assert_eq!(kept.find(&session, now + IDLE), None);
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_newest_stays() {
        let (kept, now) = (Kept::new(Keep::Session), crate::clock::now());
        let session = |at: u32| key(Whose::Session(at.to_string().into()), "a");
        for at in 0..100_000 {
            kept.put(session(at), "10.0.0.1:80".parse().unwrap(), now);
        }
        let held: usize = kept.shards.iter().map(|shard| shard.lock().answers.len()).sum();
        assert!(held <= SHARDS * SHARD_MAX, "{held}");
        assert!(kept.find(&session(99_999), now).is_some());
        assert_eq!(kept.find(&session(0), now), None);
    }

    #[test]
    fn an_answer_that_came_again_outlives_its_first_place_in_the_order() {
        let (kept, now) = (Kept::new(Keep::Session), crate::clock::now());
        let session = |at: u32| key(Whose::Session(at.to_string().into()), "a");
        (0..40_000).for_each(|at| kept.put(session(at), "10.0.0.1:80".parse().unwrap(), now));
        kept.put(session(0), "10.0.0.2:80".parse().unwrap(), now);
        (40_000..70_000).for_each(|at| kept.put(session(at), "10.0.0.1:80".parse().unwrap(), now));
        assert_eq!(kept.find(&session(0), now), Some("10.0.0.2:80".parse().unwrap()));
    }
}
