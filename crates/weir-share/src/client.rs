//! A client, as shares count it. It must not be made in another way than from an address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How many times the share of one client all clients of a [`Network`] have together.
pub const NETWORK_SHARES: u64 = 8;

/// An IPv4 address, or a /64 of IPv6. An IPv4-mapped address of IPv6 is the IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Client {
    /// The address.
    V4(u32),
    /// The upper 64 bits.
    V6(u64),
}

/// A /48 of IPv6, the most that a customer is given: its upper 48 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network(pub u64);

impl Client {
    /// The client with this address.
    pub fn of(address: IpAddr) -> Client {
        match address.to_canonical() {
            IpAddr::V4(address) => Client::V4(address.to_bits()),
            // Invariant: half of 128 bits fit.
            IpAddr::V6(address) => Client::V6((address.to_bits() >> 64) as u64),
        }
    }

    /// Its address; the first one of a /64.
    pub fn address(self) -> IpAddr {
        match self {
            Client::V4(bits) => IpAddr::V4(Ipv4Addr::from_bits(bits)),
            Client::V6(bits) => IpAddr::V6(Ipv6Addr::from_bits(u128::from(bits) << 64)),
        }
    }

    /// The client as a witness of what others are to believe: all of a /48 are one.
    pub fn witness(self) -> Client {
        match self {
            Client::V4(_) => self,
            Client::V6(bits) => Client::V6(bits >> 16 << 16),
        }
    }

    /// The /48 that it is in; `None` for IPv4.
    pub fn network(self) -> Option<Network> {
        match self {
            Client::V4(_) => None,
            Client::V6(bits) => Some(Network(bits >> 16)),
        }
    }
}

impl From<IpAddr> for Client {
    fn from(address: IpAddr) -> Client {
        Client::of(address)
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Client::V4(_) => self.address().fmt(f),
            Client::V6(_) => write!(f, "{}/64", self.address()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn client(address: &str) -> Client {
        Client::of(address.parse().unwrap())
    }

    #[test]
    fn a_client_is_shown_with_what_it_stands_for() {
        assert_eq!(client("192.0.2.1").to_string(), "192.0.2.1");
        assert_eq!(client("2001:db8:0:1::2").to_string(), "2001:db8:0:1::/64");
        assert_eq!(client("192.0.2.1").network(), None);
        assert_eq!(client("2001:db8:0:1::2").network(), client("2001:db8:0:ffff::").network());
        assert_ne!(client("2001:db8::").network(), client("2001:db8:1::").network());
    }

    proptest! {
        #[test]
        fn addresses_of_one_network_of_64_bits_are_one_client(upper: u64, one: u64, other: u64) {
            // Those of IPv4 lie in ::/64.
            prop_assume!(upper != 0);
            let address = |lower: u64| IpAddr::V6((u128::from(upper) << 64 | u128::from(lower)).into());
            let of = Client::of(address(one));
            prop_assert_eq!(of, Client::of(address(other)));
            prop_assert_eq!(of, Client::of(of.address()));
            prop_assert_eq!(of.network(), Some(Network(upper >> 16)));
            let next = IpAddr::V6((u128::from(upper ^ 1) << 64 | u128::from(one)).into());
            prop_assert_ne!(of, Client::of(next));
            prop_assert_eq!(of.network(), Client::of(next).network());
            prop_assert_eq!(of.witness(), Client::of(next).witness());
        }

        #[test]
        fn an_address_of_ipv4_is_one_client_however_it_is_written(bits: u32, other: u32) {
            let v4 = Ipv4Addr::from_bits(bits);
            let of = Client::of(v4.into());
            prop_assert_eq!(of, Client::of(v4.to_ipv6_mapped().into()));
            prop_assert_eq!(of.address(), IpAddr::V4(v4));
            prop_assert_eq!(of == Client::of(Ipv4Addr::from_bits(other).into()), bits == other);
        }
    }
}
