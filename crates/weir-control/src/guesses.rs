//! Wrong tokens by address: ten in a minute, then no answer tells whether another one was right. A right
//! token is taken at any time, so that nobody can keep others out.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Wrong tokens of an address in a minute.
pub(crate) const GUESSES_MAX: u32 = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// Addresses that are known at a time.
const ADDRESSES_MAX: usize = 4096;

/// The wrong tokens of this minute.
#[derive(Debug, Default)]
pub(crate) struct Guesses(Mutex<HashMap<Option<IpAddr>, Guessed>>);

#[derive(Debug)]
struct Guessed {
    since: Instant,
    count: u32,
}

impl Guesses {
    /// Notes a wrong token of an address; `None` stands for all who come over a unix socket. Returns for how
    /// long the address has had its share, if it has.
    pub(crate) fn note(&self, address: Option<IpAddr>, now: Instant) -> Option<Duration> {
        let mut all = self.0.lock();
        let address = address.map(network);
        if !all.contains_key(&address) && all.len() >= ADDRESSES_MAX {
            make_room(&mut all, now);
        }
        let guessed = all.entry(address).or_insert(Guessed { since: now, count: 0 });
        if now.saturating_duration_since(guessed.since) >= MINUTE {
            *guessed = Guessed { since: now, count: 0 };
        }
        guessed.count = guessed.count.saturating_add(1);
        let left = MINUTE.saturating_sub(now.saturating_duration_since(guessed.since));
        (guessed.count > GUESSES_MAX).then_some(left)
    }
}

/// Forgets those whose minute is over; if there are none, the oldest.
fn make_room(all: &mut HashMap<Option<IpAddr>, Guessed>, now: Instant) {
    all.retain(|_, guessed| now.saturating_duration_since(guessed.since) < MINUTE);
    if all.len() >= ADDRESSES_MAX
        && let Some(oldest) = all.iter().min_by_key(|(_, guessed)| guessed.since).map(|(address, _)| *address)
    {
        all.remove(&oldest);
    }
}

/// One client has a /64 of IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        v4 => v4,
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
        for host in 0..2 * ADDRESSES_MAX as u32 {
            guesses.note(Some(IpAddr::V4(host.into())), now);
        }
        assert!(guesses.0.lock().len() <= ADDRESSES_MAX);
    }
}
