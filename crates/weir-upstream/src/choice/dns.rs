//! What DNS says of a name; `ask` asks it, in a build with the feature `dns`. It must not decide what becomes
//! of an answer.

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

use weir_client::Resolver;

use crate::choice::adjust::Found;

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

/// A resolver for names of which no address is known yet.
pub(crate) fn by_servers(nameservers: &[SocketAddr], patience: Duration) -> Resolver {
    let nameservers: Arc<[SocketAddr]> = nameservers.into();
    Arc::new(move |host, port| {
        let nameservers = nameservers.clone();
        Box::pin(async move {
            let answer = look_up(&host, port, &nameservers, patience).await.map_err(io::Error::other)?;
            Ok(answer.found.into_iter().map(|found| found.at).collect())
        })
    })
}
