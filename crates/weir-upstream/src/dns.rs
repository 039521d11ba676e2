//! Which names DNS is asked for, and what an answer is; `ask` asks, in a build with the feature `dns`. It must
//! not decide what becomes of an answer.

#[cfg(feature = "dns")]
mod ask;
#[cfg(not(feature = "dns"))]
#[path = "dns/not_built.rs"]
mod ask;

pub(crate) use ask::look_up;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::address;
use crate::adjust::Found;

/// The most addresses of one name.
pub(crate) const FOUND_MAX: usize = 1000;

/// What DNS says of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Each address once, in order.
    pub(crate) found: Vec<Found>,
    /// How many more there were.
    pub(crate) left_out: usize,
    /// Addresses that name no single machine, the first of them.
    pub(crate) unfit: Vec<IpAddr>,
    /// How long that is good.
    pub(crate) ttl: Option<Duration>,
    /// Whether the addresses of each family are known: IPv4, IPv6. Those of the other may still be there.
    pub(crate) is_known: (bool, bool),
}

/// Whether it is the name of a service (RFC 2782), whose addresses are in SRV records.
pub(crate) fn is_service(host: &str) -> bool {
    let mut labels = host.split('.');
    let is_marked =
        |label: Option<&str>| label.is_some_and(|label| label.len() > 1 && label.starts_with('_'));
    is_marked(labels.next()) && is_marked(labels.next())
}

/// The name that a service belongs to, for TLS (RFC 6125 §6.2.1).
pub(crate) fn domain_of(host: &str) -> &str {
    if !is_service(host) {
        return host;
    }
    host.splitn(3, '.').nth(2).unwrap_or(host)
}

/// A resolver for names of which no address is known yet.
pub(crate) fn by_servers(nameservers: &[SocketAddr], patience: Duration) -> address::Resolver {
    let nameservers: Arc<[SocketAddr]> = nameservers.into();
    Arc::new(move |host, port| {
        let nameservers = nameservers.clone();
        Box::pin(async move {
            let answer = look_up(&host, port, &nameservers, patience).await.map_err(io::Error::other)?;
            Ok(answer.found.into_iter().map(|found| found.at).collect())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_known_by_their_names() {
        assert!(
            is_service("_http._tcp.app.test") && !is_service("_http.app.test") && !is_service("app.test")
        );
        assert_eq!((domain_of("_http._tcp.app.test"), domain_of("app.test")), ("app.test", "app.test"));
    }
}
