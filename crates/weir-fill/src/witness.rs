//! Which clients have met a failure. A failure that a request may have caused counts against its key or its
//! origin only when several clients have met it, with no answer in between: otherwise one client could have
//! others refused. It must not look at what failed.

use std::time::{Duration, Instant};

use smallvec::SmallVec;
use weir_share::{Client, Network};

/// So many clients must have met a failure that a request may have caused.
pub const WITNESSES_MIN: usize = 3;
/// Failures are forgotten after this time without another one.
pub const WITNESSED_FOR: Duration = Duration::from_secs(10);

/// A client, as far as it can be told from others: by its IPv4 address, or by the /48 of its IPv6 address,
/// the most that one customer is given. All others count as one. It is no share: of a share all of a /48 have
/// several times what one client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// An IPv4 address.
    V4(u32),
    /// The upper 48 bits of an IPv6 address.
    V6(u64),
    /// Over a Unix socket, or unknown.
    Unnamed,
}

impl Witness {
    /// The client with that address; `None` is one over a Unix socket, or one that is not known.
    pub fn of(client: Option<Client>) -> Witness {
        match client.map(|client| (client, client.network())) {
            Some((Client::V4(address), _)) => Witness::V4(address),
            Some((_, Some(Network(network)))) => Witness::V6(network),
            Some((_, None)) | None => Witness::Unnamed,
        }
    }

    /// As a number, for crates that know no addresses. No IPv6 network in use has the number of an IPv4
    /// address.
    pub fn number(self) -> u64 {
        match self {
            Witness::V4(ip) => u64::from(ip),
            Witness::V6(network) => network,
            Witness::Unnamed => weir_upstream::UNNAMED,
        }
    }

    /// As bits that may be mixed with a digest.
    pub fn spread(self) -> u128 {
        u128::from(self.number()).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
    }
}

/// Different clients that have met a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witnesses {
    clients: SmallVec<[Witness; WITNESSES_MIN]>,
    until: Instant,
}

impl Witnesses {
    /// The first client.
    pub fn begin(client: Witness, now: Instant) -> Witnesses {
        let mut clients = SmallVec::new();
        clients.push(client);
        Witnesses { clients, until: now + WITNESSED_FOR }
    }

    /// Adds the client of one more failure.
    pub fn add(&mut self, client: Witness, now: Instant) {
        if now >= self.until {
            *self = Witnesses::begin(client, now);
        }
        // A client that cannot be told from others does not count beside them.
        let is_another = client != Witness::Unnamed && !self.clients.contains(&client);
        self.clients.retain(|known| *known != Witness::Unnamed || !is_another);
        if !self.are_enough() && is_another {
            self.clients.push(client);
        }
        self.until = now + WITNESSED_FOR;
    }

    /// Whether enough clients have met the failure.
    pub fn are_enough(&self) -> bool {
        self.clients.len() >= WITNESSES_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_clock as clock;

    fn client(address: &str) -> Witness {
        Witness::of(Some(Client::of(address.parse().unwrap())))
    }

    #[test]
    fn one_client_is_one_witness_however_many_addresses_it_has() {
        let now = clock::mono();
        let mut witnesses = Witnesses::begin(client("2001:db8::1"), now);
        for last in 2..200 {
            witnesses.add(client(&format!("2001:db8::{last}")), now);
            witnesses.add(client("192.0.2.1"), now);
        }
        witnesses.add(client("2001:db8:0:1::1"), now);
        assert!(!witnesses.are_enough());
        witnesses.add(client("2001:db8:1::1"), now);
        assert!(witnesses.are_enough());
    }

    #[test]
    fn clients_that_cannot_be_told_apart_are_one_witness() {
        let now = clock::mono();
        let mut witnesses = Witnesses::begin(Witness::of(None), now);
        witnesses.add(Witness::of(None), now);
        witnesses.add(client("192.0.2.1"), now);
        assert!(!witnesses.are_enough());
    }

    #[test]
    fn what_was_met_long_ago_does_not_count() {
        let now = clock::mono();
        let mut witnesses = Witnesses::begin(client("192.0.2.1"), now);
        witnesses.add(client("192.0.2.2"), now);
        witnesses.add(client("192.0.2.3"), now + WITNESSED_FOR);
        assert!(!witnesses.are_enough());
    }
}
