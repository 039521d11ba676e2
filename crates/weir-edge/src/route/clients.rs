//! Which clients a route answers, and which of its conditions hold for them. It must not know what a
//! condition leads to.

use weir_config::value::TrustedProxy;
use weir_config::{ResolvedAccess, ResolvedClients};
use weir_front::listen::{Peer, Trusted};

use crate::decide::Fulfilled;

/// Compiles networks.
type Peers = fn(&[TrustedProxy]) -> Trusted;

/// Which clients get an answer.
#[derive(Debug)]
pub(crate) struct Access {
    /// The only clients; none: all.
    allow: Option<Trusted>,
    deny: Trusted,
}

impl Access {
    /// None where every client gets an answer.
    pub(super) fn compile(resolved: &ResolvedAccess, peers: Peers) -> Option<Access> {
        if resolved.allow.is_none() && resolved.deny.is_empty() {
            return None;
        }
        Some(Access { allow: resolved.allow.as_deref().map(peers), deny: peers(&resolved.deny) })
    }

    /// Whether a client gets an answer. One that cannot be known does not: else it could hide its address.
    pub(crate) fn admits(&self, client: Option<Peer>) -> bool {
        let Some(client) = client else { return false };
        self.allow.as_ref().is_none_or(|allow| allow.contains(&client)) && !self.deny.contains(&client)
    }
}

/// The clients for which conditions hold.
#[derive(Debug)]
pub(crate) struct Clients {
    bypass: Trusted,
    refresh: Trusted,
    no_store: Trusted,
    /// Their networks as they are written, for people: `bypass`, `refresh`, `no_store`.
    pub(crate) said: [Vec<TrustedProxy>; 3],
    /// The conditions that hold for a client that cannot be known: those by which nothing is stored for it.
    unknown: Fulfilled,
}

impl Clients {
    /// None where no condition names a client.
    pub(super) fn compile(resolved: &ResolvedClients, peers: Peers) -> Option<Box<Clients>> {
        let ResolvedClients { bypass, refresh, no_store } = resolved;
        if bypass.is_empty() && refresh.is_empty() && no_store.is_empty() {
            return None;
        }
        let of = |list: &[_], condition| if list.is_empty() { 0 } else { condition };
        let unknown = Fulfilled(of(bypass, Fulfilled::BYPASS) | of(no_store, Fulfilled::NO_STORE));
        let said = [bypass, refresh, no_store].map(Clone::clone);
        let (bypass, refresh, no_store) = (peers(bypass), peers(refresh), peers(no_store));
        Some(Box::new(Clients { bypass, refresh, no_store, said, unknown }))
    }

    /// The conditions that hold for a client.
    pub(crate) fn hold(&self, client: Option<Peer>) -> Fulfilled {
        let Some(client) = client else { return self.unknown };
        let of = |list: &Trusted, condition| if list.contains(&client) { condition } else { 0 };
        Fulfilled(
            of(&self.bypass, Fulfilled::BYPASS)
                | of(&self.refresh, Fulfilled::REFRESH)
                | of(&self.no_store, Fulfilled::NO_STORE),
        )
    }
}
