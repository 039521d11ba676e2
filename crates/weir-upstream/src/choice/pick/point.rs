//! What a pick by hash goes by: a part of the request, as the origin gets it, or its client. The same in all
//! processes and on all machines, so that several Weirs agree. It must not take from a request without a
//! client what only a client can have chosen.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName};
use xxhash_rust::xxh3::xxh3_64;

use super::{Pick, Picking, Whose};
use crate::sessions::named;

/// What a hash is of.
#[derive(Clone, Debug, PartialEq)]
pub enum HashOf {
    /// Path and query.
    Uri,
    /// The path.
    Path,
    /// The host that the client asked for.
    Host,
    /// A field's first value.
    Header(HeaderName),
    /// A cookie's first value.
    Cookie(String),
    /// The first value of a parameter of the query.
    Query(String),
}

/// What picks know of a request.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'r> {
    /// Whom it is for.
    pub picking: &'r Picking,
    /// The target as the origin gets it: path and query.
    pub target: &'r [u8],
    /// The fields as the origin gets them.
    pub headers: &'r HeaderMap,
}

impl Asked<'_> {
    /// What this pick goes by; `None` where the request lacks it, and for picks that go by no part of a
    /// request.
    pub(crate) fn point(&self, pick: &Pick) -> Option<u64> {
        match pick {
            Pick::ClientAddress => self.picking.client.map(of_client),
            Pick::Hash { of, .. } => self.point_of(of),
            _ => None,
        }
    }

    fn point_of(&self, of: &HashOf) -> Option<u64> {
        let of_client = || self.picking.whose == Whose::Client;
        let mut parts = self.target.splitn(2, |byte| *byte == b'?');
        let (path, query) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        match of {
            HashOf::Uri => Some(xxh3_64(self.target)),
            HashOf::Path => Some(xxh3_64(path)),
            HashOf::Host => self.picking.host,
            HashOf::Query(name) => first(named::values(query, b'&', name)),
            HashOf::Header(_) | HashOf::Cookie(_) if !of_client() => None,
            HashOf::Header(name) => first(self.headers.get(name).map(|value| value.as_bytes()).into_iter()),
            HashOf::Cookie(name) => first(named::cookies(self.headers, name)),
        }
    }
}

/// The number of the host that a client asked for, in Weir's spelling.
pub fn host_point(host: &str) -> u64 {
    xxh3_64(host.as_bytes())
}

/// The number of an origin by its name.
pub(crate) fn seed(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

/// As nginx's `ip_hash`: neighbours within an IPv4 /24 are one client, because many have changing addresses.
/// Of IPv6 one /64 is one client, as everywhere in Weir.
fn of_client(client: IpAddr) -> u64 {
    match client.to_canonical() {
        IpAddr::V4(address) => xxh3_64(&address.octets()[..3]),
        IpAddr::V6(address) => xxh3_64(&address.octets()[..8]),
    }
}

/// The number of the first value, if it is not empty.
fn first<'t>(mut values: impl Iterator<Item = &'t [u8]>) -> Option<u64> {
    values.next().filter(|value| !value.is_empty()).map(xxh3_64)
}
