//! Wrong tokens by client: ten in a minute, then no answer tells whether another one was right. A right
//! token is taken at any time, so that nobody can keep others out. All clients of a /48 have eight times as
//! many.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_share::{Client, NETWORK_SHARES, Network};

/// Wrong tokens of a client in a minute.
pub(crate) const GUESSES_MAX: u32 = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// Clients and networks that are known at a time.
const KNOWN_MAX: usize = 4096;

/// The wrong tokens of this minute.
#[derive(Debug, Default)]
pub(crate) struct Guesses(Mutex<HashMap<Whose, Guessed>>);

/// Who has guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Whose {
    /// All who come over a unix socket.
    Unix,
    Client(Client),
    Network(Network),
}

impl Whose {
    /// Wrong tokens in a minute.
    fn most(self) -> u32 {
        match self {
            Whose::Unix | Whose::Client(_) => GUESSES_MAX,
            Whose::Network(_) => GUESSES_MAX * NETWORK_SHARES as u32,
        }
    }
}

#[derive(Debug)]
struct Guessed {
    since: Instant,
    count: u32,
}

impl Guesses {
    /// Notes a wrong token of an address; `None` stands for all who come over a unix socket. Returns for how
    /// long the client has had its share, if it has.
    pub(crate) fn note(&self, address: Option<IpAddr>, now: Instant) -> Option<Duration> {
        let mut all = self.0.lock();
        let client = address.map(Client::of);
        let own = count(&mut all, client.map_or(Whose::Unix, Whose::Client), now);
        let network = client.and_then(Client::network).map(Whose::Network);
        // What one client of a network is refused counts against no other one.
        own.or_else(|| count(&mut all, network?, now))
    }
}

/// Counts a wrong token, as [`Guesses::note`].
fn count(all: &mut HashMap<Whose, Guessed>, whose: Whose, now: Instant) -> Option<Duration> {
    if !all.contains_key(&whose) && all.len() >= KNOWN_MAX {
        make_room(all, now);
    }
    let guessed = all.entry(whose).or_insert(Guessed { since: now, count: 0 });
    if now.saturating_duration_since(guessed.since) >= MINUTE {
        *guessed = Guessed { since: now, count: 0 };
    }
    guessed.count = guessed.count.saturating_add(1);
    let left = MINUTE.saturating_sub(now.saturating_duration_since(guessed.since));
    (guessed.count > whose.most()).then_some(left)
}

/// Forgets those whose minute is over; if there are none, the oldest.
fn make_room(all: &mut HashMap<Whose, Guessed>, now: Instant) {
    all.retain(|_, guessed| now.saturating_duration_since(guessed.since) < MINUTE);
    if all.len() >= KNOWN_MAX
        && let Some(oldest) = all.iter().min_by_key(|(_, guessed)| guessed.since).map(|(whose, _)| *whose)
    {
        all.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_in_a_minute_from_an_address() {
        let (guesses, begun) = (Guesses::default(), crate::clock::mono());
        let (one, other) = (Some("192.0.2.1".parse().unwrap()), Some("192.0.2.2".parse().unwrap()));
        for _ in 0..GUESSES_MAX {
            assert_eq!(guesses.note(one, begun), None);
        }
        let left = guesses.note(one, begun + Duration::from_secs(20));
        assert_eq!(left, Some(Duration::from_secs(40)));
        assert_eq!(guesses.note(other, begun), None);
        assert_eq!(guesses.note(one, begun + MINUTE), None);
    }

    #[test]
    fn a_network_of_ipv6_is_one_client_and_the_table_is_bounded() {
        let (guesses, now) = (Guesses::default(), crate::clock::mono());
        let at = |text: &str| Some(text.parse().unwrap());
        for host in 0..GUESSES_MAX {
            assert_eq!(guesses.note(at(&format!("2001:db8::{host:x}")), now), None);
        }
        assert!(guesses.note(at("2001:db8::ffff"), now).is_some());
        assert_eq!(guesses.note(at("2001:db8:0:1::1"), now), None);
        for host in 0..2 * KNOWN_MAX as u32 {
            guesses.note(Some(IpAddr::V4(host.into())), now);
        }
        assert!(guesses.0.lock().len() <= KNOWN_MAX);
    }

    #[test]
    fn a_network_of_48_bits_has_eight_shares() {
        let (guesses, now) = (Guesses::default(), crate::clock::mono());
        let at = |network: u32| format!("2001:db8:0:{network:x}::1").parse().ok();
        let taken = (0..200).filter(|network| guesses.note(at(*network), now).is_none()).count();
        assert_eq!(taken, 80);
        assert_eq!(guesses.note("2001:db8:1::1".parse().ok(), now), None, "another one");
    }
}
