//! Which clients' requests an origin failed to answer, one after another. A failure that a request may have caused itself says
//! something of its key, or of its origin, only when several clients have met it and nobody has got an answer in between:
//! else one client could have others refused. It must not look at what failed.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

/// So many clients must have met a failure that a request may have caused.
pub(crate) const WITNESSES_MIN: usize = 3;
/// After this time without another failure those that were met are forgotten.
pub(crate) const WITNESSED_FOR: Duration = Duration::from_secs(10);

/// A client, as far as it can be told from others: by its IPv4 address, or by the /48 of its IPv6 address, the most that one customer
/// is given. All that cannot be told apart are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Witness {
    /// An address.
    V4(u32),
    /// A network.
    V6(u64),
    /// Over a Unix socket, or unknown.
    Unnamed,
}

impl Witness {
    /// The client of that address, or of that /64 of IPv6; none over a Unix socket, and where it is not known.
    pub(crate) fn of(client: Option<IpAddr>) -> Witness {
        match client {
            Some(IpAddr::V4(ip)) => Witness::V4(ip.to_bits()),
            // Invariant: what is left of 128 bits fits.
            Some(IpAddr::V6(ip)) => Witness::V6((ip.to_bits() >> 80) as u64),
            None => Witness::Unnamed,
        }
    }

    /// As a number, for who knows no addresses. Addresses share none with networks that are in use.
    pub(crate) fn number(self) -> u64 {
        match self {
            Witness::V4(ip) => u64::from(ip),
            Witness::V6(network) => network,
            Witness::Unnamed => weir_upstream::UNNAMED,
        }
    }

    /// As bits that may be mixed with a digest.
    pub(crate) fn spread(self) -> u128 {
        u128::from(self.number()).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
    }
}

/// Different clients that have met a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Witnesses {
    clients: SmallVec<[Witness; WITNESSES_MIN]>,
    until: Instant,
}

impl Witnesses {
    /// One, for now.
    pub(crate) fn begin(client: Witness, now: Instant) -> Witnesses {
        let mut clients = SmallVec::new();
        clients.push(client);
        Witnesses { clients, until: now + WITNESSED_FOR }
    }

    /// One more failure.
    pub(crate) fn add(&mut self, client: Witness, now: Instant) {
        if now >= self.until {
            *self = Witnesses::begin(client, now);
        }
        // Who cannot be told from others is no further one beside them.
        let is_another = client != Witness::Unnamed && !self.clients.contains(&client);
        self.clients.retain(|known| *known != Witness::Unnamed || !is_another);
        if !self.are_enough() && is_another {
            self.clients.push(client);
        }
        self.until = now + WITNESSED_FOR;
    }

    /// Whether the failure is not one client's alone.
    pub(crate) fn are_enough(&self) -> bool {
        self.clients.len() >= WITNESSES_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_clock as clock;

    fn client(address: &str) -> Witness {
        Witness::of(Some(address.parse().unwrap()))
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
    fn whoever_cannot_be_told_apart_is_one_witness() {
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
