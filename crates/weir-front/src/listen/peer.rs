//! The other end of a connection, and whether it is trusted to name the client it speaks for (PROXY protocol,
//! `X-Forwarded-*`).

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;
use weir_share::Client;

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peer {
    /// Over TCP, or as a trusted PROXY header says. IPv4-mapped addresses are written as IPv4.
    Ip(SocketAddr),
    /// Over a Unix socket: a program on this machine that the file's mode admits.
    Unix,
    /// Weir itself, which asks for nobody. It is trusted for nothing, whatever is configured.
    Itself,
}

impl Peer {
    /// The peer at an address. An IPv4-mapped IPv6 address becomes IPv4.
    pub fn at(at: SocketAddr) -> Self {
        Self::Ip(SocketAddr::new(at.ip().to_canonical(), at.port()))
    }

    /// Its IP address; `None` where it has none.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Ip(at) => Some(at.ip()),
            Self::Unix | Self::Itself => None,
        }
    }

    /// Its address with the port, which is 0 where a proxy named it without one; `None` where it has none.
    pub fn socket(&self) -> Option<SocketAddr> {
        match self {
            Self::Ip(at) => Some(*at),
            Self::Unix | Self::Itself => None,
        }
    }

    /// The client that shares count it as. `None` over a Unix socket, which speaks for many clients.
    pub fn sharer(&self) -> Option<Client> {
        self.ip().map(Client::of)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(at) => at.ip().fmt(f),
            Self::Unix => f.write_str("unix"),
            Self::Itself => f.write_str("weir"),
        }
    }
}

/// The peers that are trusted to name clients (`trusted_proxies`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trusted {
    networks: Vec<IpNet>,
    unix: UnixPeers,
}

/// Whether programs on this machine that a Unix socket's mode admits are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnixPeers {
    /// They are.
    Trusted,
    /// They are clients like any other.
    Untrusted,
}

impl Trusted {
    /// Trusts these networks, and Unix peers as `unix` says.
    pub fn new(networks: Vec<IpNet>, unix: UnixPeers) -> Self {
        Self { networks, unix }
    }

    /// Whether a peer is trusted.
    pub fn contains(&self, peer: &Peer) -> bool {
        match peer {
            Peer::Unix => self.unix == UnixPeers::Trusted,
            Peer::Itself => false,
            Peer::Ip(at) => self.networks.iter().any(|network| network.contains(&at.ip())),
        }
    }
}

impl Default for Trusted {
    /// Trusts loopback of both families, and Unix peers.
    fn default() -> Self {
        let v4 = IpNet::new_assert(IpAddr::from([127, 0, 0, 0]), 8);
        let v6 = IpNet::new_assert(IpAddr::from(Ipv6Addr::LOCALHOST), 128);
        Self::new(vec![v4, v6], UnixPeers::Trusted)
    }
}
