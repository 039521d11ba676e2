//! The clients that a trusted proxy names on one connection. One that resets too many streams gets no other
//! for a while, and the connection goes on for all others (RFC 9113 §10.5). Clients that the proxy does not
//! name cannot be told apart, and have no bound here. It must not know how a client is named.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Instant;

use weir_share::Client;

use super::floods::{Level, RESETS_MAX};

/// The most clients that are remembered. Beyond it the one is forgotten that has reset the least.
const CLIENTS_MAX: usize = 1024;

/// How much higher than its bound the level of a client is once it passes that: it is refused for a quarter
/// of a minute.
const PENALTY: f64 = RESETS_MAX / 4.0;

/// What is known of clients. Most have reset nothing of late, and nothing is known of them.
#[derive(Debug, Default)]
pub(super) struct Named {
    levels: RefCell<HashMap<Client, Level>>,
}

impl Named {
    /// Whether nothing is known of any.
    pub(super) fn is_empty(&self) -> bool {
        self.levels.borrow().is_empty()
    }

    /// Notes that a client has reset a stream, or had it reset. True if it has passed its bound with that.
    pub(super) fn reset(&self, client: Client, now: Instant) -> bool {
        let mut levels = self.levels.borrow_mut();
        if levels.len() >= CLIENTS_MAX && !levels.contains_key(&client) {
            make_room(&mut levels, now);
        }
        let level = levels.entry(client).or_insert_with(|| Level::new(RESETS_MAX, now));
        let passes = !level.is_passed(now) && level.raise(1.0, now);
        if passes {
            level.raise(PENALTY, now);
        }
        passes
    }

    /// Notes that a stream of a client ended whole.
    pub(super) fn finished(&self, client: Client) {
        if let Some(level) = self.levels.borrow_mut().get_mut(&client) {
            level.lower(1.0);
        }
    }

    /// Whether a client gets no other stream now.
    pub(super) fn refuses(&self, client: Client, now: Instant) -> bool {
        self.levels.borrow_mut().get_mut(&client).is_some_and(|level| level.is_passed(now))
    }
}

fn make_room(levels: &mut HashMap<Client, Level>, now: Instant) {
    levels.retain(|_, level| level.height(now) > 0.0);
    if levels.len() < CLIENTS_MAX {
        return;
    }
    let heights = levels.iter_mut().map(|(client, level)| (level.height(now), *client));
    let lowest = heights.min_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, client)| client);
    lowest.and_then(|client| levels.remove(&client));
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use super::{CLIENTS_MAX, Client, Named};

    fn client(number: u32) -> Client {
        Client::of(IpAddr::from(number.to_be_bytes()))
    }

    #[test]
    fn one_that_resets_much_is_refused_for_a_while_and_others_are_not() {
        let (named, now) = (Named::default(), weir_clock::mono());
        assert!((0..100).all(|_| !named.reset(client(1), now)) && !named.refuses(client(1), now));
        assert!(named.reset(client(1), now) && !named.reset(client(1), now), "it passes its bound once");
        assert!(named.refuses(client(1), now) && !named.refuses(client(2), now));
        let later = now + Duration::from_secs(20);
        assert!(!named.refuses(client(1), later));
        // What ends whole counts for it.
        (0..50).for_each(|_| named.finished(client(1)));
        assert!((0..50).all(|_| !named.reset(client(1), later)));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (named, now) = (Named::default(), weir_clock::mono());
        assert_eq!((0..101).filter(|_| named.reset(client(0), now)).count(), 1);
        for number in 1..2 * CLIENTS_MAX as u32 {
            named.reset(client(number), now);
        }
        assert!(named.levels.borrow().len() <= CLIENTS_MAX && named.refuses(client(0), now));
        named.reset(client(9999), now + Duration::from_secs(90));
        assert!(named.levels.borrow().len() < 3);
    }
}
