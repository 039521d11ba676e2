//! The gates of the walk, in the order in which a request comes to them. Each lets it through, answers it, or
//! sends it past the cache; the first that does not let it through ends the walk. [`walk`](mod@crate::walk)
//! asks them, and `weir explain` says how far a request comes. A new gate is a row of these tables.

use weir_policy::{Ask, PassReason};

use crate::decide::Decision;

/// A gate of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Weir answers by itself, or the request asks for a purge.
    Itself,
    /// One that needs no look into the cache.
    Before(Before),
    /// Whether the cache may be asked.
    Cache,
    /// One that knows what is held.
    After(After),
}

/// A gate before the look into the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// What operators have laid over the URL.
    ByHand,
    /// A rule of `rewrite` fits a path that has a dot segment, or would have one.
    Rewrite,
    /// A file below the route's root.
    File,
}

/// A gate that knows what is held and what may be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// What is held goes out, fresh or stale.
    Held,
    /// A warming gives way to clients.
    Warming,
    /// A request that may have been replayed never becomes a fill (RFC 8470 §5.1).
    EarlyData,
    /// The client takes only what is held (RFC 9111 §5.2.1.7).
    OnlyIfCached,
    /// The client has logged in on its connection (RFC 4559).
    Login,
    /// The response may not be stored, so that no other request waits for it.
    NoStore,
    /// An origin is asked: for what is missing, whether what is held is good, or for all. It lets nothing
    /// through.
    Origin,
}

/// The gates in their order: each with its name, as `weir explain` and `Weir-Debug-Outcome` say it, and what
/// it asks. What is laid by hand covers all else; a file is looked for by the path as it is rewritten. What
/// need not be asked for goes out to any client; a request that may have been replayed goes on before it can
/// be refused.
pub(crate) const GATES: [(Gate, &str, &str); 12] = [
    (Gate::Itself, "itself", "does Weir answer by itself, as it refuses, redirects and purges?"),
    (Gate::Before(Before::ByHand), "by-hand", "is content laid over the URL by hand?"),
    (Gate::Before(Before::Rewrite), "rewrite", "would the path that is rewritten have a dot segment?"),
    (Gate::Before(Before::File), "file", "does the route's root answer, with a file or without?"),
    (Gate::Cache, "cache", "may the cache not be asked?"),
    (Gate::After(After::Held), "held", "may what is held go out?"),
    (Gate::After(After::Warming), "warming", "does a warming give way to clients?"),
    (Gate::After(After::EarlyData), "early-data", "may the request have been replayed?"),
    (Gate::After(After::OnlyIfCached), "only-if-cached", "does the client take only what is held?"),
    (Gate::After(After::Login), "login", "has the client logged in on its connection?"),
    (Gate::After(After::NoStore), "no-store", "may the response not be stored?"),
    (Gate::After(After::Origin), "origin", "is an origin asked? It always is."),
];

/// Those before the look into the cache, in that order.
pub(crate) const BEFORE: [Before; 3] = [Before::ByHand, Before::Rewrite, Before::File];

/// Those that know what is held, in that order.
const AFTER: [After; 7] = [
    After::Held,
    After::Warming,
    After::EarlyData,
    After::OnlyIfCached,
    After::Login,
    After::NoStore,
    After::Origin,
];

impl Gate {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        GATES.iter().find(|(gate, ..)| *gate == self).map_or("", |(_, name, _)| name)
    }
}

/// What gates ask of a request that neither its fields nor what is held say. A question says nothing of it.
pub(crate) trait Comer {
    /// Whether it is a warming, and clients leave it no room at its upstream.
    fn gives_way(&self) -> bool {
        false
    }

    /// Whether it may have been replayed, as a trusted proxy says.
    fn is_early(&self) -> bool {
        false
    }

    /// Whether its client has logged in on its connection.
    fn has_logged_in(&self) -> bool {
        false
    }
}

impl After {
    /// The gate at which a request ends whose cache was asked.
    pub(crate) fn of(comer: &impl Comer, ask: &Ask, decision: &Decision) -> After {
        for gate in AFTER {
            let ends = match gate {
                After::Held => matches!(decision, Decision::Serve(_)),
                After::Warming => comer.gives_way(),
                After::EarlyData => comer.is_early(),
                After::OnlyIfCached => matches!(decision, Decision::GatewayTimeout),
                After::Login => comer.has_logged_in(),
                After::NoStore => ask.is_no_store(),
                After::Origin => true,
            };
            if ends {
                return gate;
            }
        }
        After::Origin
    }

    /// Why a request goes past the cache that ends at this gate; `None` where it does not.
    pub(crate) fn past(self) -> Option<PassReason> {
        match self {
            After::EarlyData => Some(PassReason::EarlyData),
            After::Login => Some(PassReason::Login),
            After::NoStore => Some(PassReason::RouteNoStore),
            After::Held | After::Warming | After::OnlyIfCached | After::Origin => None,
        }
    }
}

#[cfg(test)]
mod tests;
