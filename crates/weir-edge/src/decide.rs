//! What happens to a request, as pure functions. The walk obeys them and `weir explain` puts them into words,
//! so that the two cannot drift apart. RFC 9111 §4.

use weir_policy::{
    Answer, Ask, AskKind, CacheRules, Consult, Interval, MissReason, Now, PassReason, RequestView, Reusable,
    RevalidateReason, Revalidation, StaleUse, Verdict, answer, consult, verdict,
};
use weir_store::Generation;
use weir_upstream::logs_in;

use crate::cache_status::CacheStatus;

/// Whether the cache is asked at all.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Consulted {
    /// The cache is asked.
    LookUp(Ask),
    /// The request bypasses the cache.
    Pass(PassReason),
    /// The request bypasses the cache, because the client asks for another protocol (RFC 9110 §7.8).
    Upgrade,
    /// The client declares more content than it may send.
    TooLarge,
}

/// Facts about a request that are not in its fields.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beside {
    /// The client declares more content than it may send.
    pub(crate) is_too_large: bool,
    /// The client asks for another protocol (RFC 9110 §7.8).
    pub(crate) is_upgrade: bool,
    /// The conditions of the route that hold by the client and by maps.
    pub(crate) fulfilled: Fulfilled,
}

/// Which conditions of a route hold by what the head of a request does not say itself: a set of bits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fulfilled(pub(crate) u8);

impl Fulfilled {
    /// `bypass`, by its client.
    pub(crate) const BYPASS: u8 = 1;
    pub(crate) const REFRESH: u8 = 2;
    pub(crate) const NO_STORE: u8 = 4;
    /// `bypass`, by a map.
    pub(crate) const BYPASS_MAP: u8 = 8;

    /// `affinity.bypass` of the upstream, or a session in the path.
    pub(crate) const SESSION: u8 = 16;

    fn has(self, condition: u8) -> bool {
        self.0 & condition != 0
    }

    /// Those of both.
    pub(crate) fn and(self, other: Fulfilled) -> Fulfilled {
        Fulfilled(self.0 | other.0)
    }
}

/// Whether the cache is asked.
pub(crate) fn consulted(view: &RequestView<'_>, rules: &CacheRules, beside: Beside) -> Consulted {
    if beside.is_too_large {
        return Consulted::TooLarge;
    }
    if beside.is_upgrade {
        return Consulted::Upgrade;
    }
    match consult(view, rules) {
        Consult::Use(_) if beside.fulfilled.has(Fulfilled::BYPASS) => {
            Consulted::Pass(PassReason::BypassClient)
        }
        Consult::Use(_) if beside.fulfilled.has(Fulfilled::BYPASS_MAP) => {
            Consulted::Pass(PassReason::BypassMap)
        }
        Consult::Use(_) if beside.fulfilled.has(Fulfilled::SESSION) => Consulted::Pass(PassReason::Session),
        Consult::Use(ask) if ask.is_authenticated() && logs_in(view.headers) => {
            Consulted::Pass(PassReason::Login)
        }
        Consult::Use(ask) => {
            let ask = if beside.fulfilled.has(Fulfilled::REFRESH) { ask.refreshing() } else { ask };
            Consulted::LookUp(if beside.fulfilled.has(Fulfilled::NO_STORE) { ask.unstoring() } else { ask })
        }
        Consult::Pass(reason) => Consulted::Pass(reason),
    }
}

/// What to do with a request that the cache may answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Decision {
    /// Serve the stored response.
    Serve(Reuse),
    /// Serve the stored part, once it is certain that the missing bytes can be had: those from the first
    /// missing byte that the request wants to the end of what it wants.
    Complete(Reuse, Interval),
    /// Ask the origin whether the stored response is still good.
    Revalidate(Revalidation),
    /// Fetch a response.
    Fetch(MissReason),
    /// 504: the client accepts only a stored response, and none can be used (RFC 9111 §5.2.1.7).
    GatewayTimeout,
}

impl Decision {
    /// Whether a fresh response is served, and nothing else has to be done.
    pub(crate) fn is_fresh(&self) -> bool {
        matches!(self, Decision::Serve(Reuse { stale: None, .. }))
    }
}

/// What a warming does in place of a client: it does not content itself with what is stale.
pub(crate) fn warmed(decision: Decision) -> Decision {
    match decision {
        Decision::Serve(Reuse { reusable, stale: Some(_), .. }) => {
            let freshness = reusable.freshness();
            Decision::Revalidate(Revalidation { why: RevalidateReason::Stale, freshness })
        }
        decision => decision,
    }
}

/// How the stored response is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reuse {
    /// Proves that the policy allows its use.
    pub(crate) reusable: Reusable,
    /// How the response comes about, for `Cache-Status`.
    pub(crate) cache_status: CacheStatus,
    /// Why it may be served stale, where it is.
    pub(crate) stale: Option<StaleUse>,
}

/// Decides about a request that selects `held`. Where it selects nothing, `has_siblings` says whether other
/// variants are held.
pub(crate) fn decide(
    view: &RequestView<'_>,
    ask: &Ask,
    held: Option<&Generation>,
    has_siblings: bool,
    now: Now,
) -> Decision {
    let head = held.map(|held| held.head());
    let verdict = verdict(ask, head.as_ref().map(|head| &head.stored), now);
    drop(head);
    let reuse = match (verdict, held) {
        (Verdict::Hit(reusable), Some(_)) => {
            Reuse { reusable, cache_status: CacheStatus::hit(&reusable), stale: None }
        }
        (Verdict::Stale(reusable, how), Some(_)) => {
            Reuse { reusable, cache_status: CacheStatus::stale(&reusable), stale: Some(how) }
        }
        (Verdict::Revalidate(revalidation), Some(_)) => return Decision::Revalidate(revalidation),
        (Verdict::GatewayTimeout, _) => return Decision::GatewayTimeout,
        (Verdict::Miss(reason), _) => {
            return Decision::Fetch(if has_siblings { MissReason::Vary } else { reason });
        }
        // The policy reaches a verdict about a stored response only where it was given one.
        (_, None) => return Decision::Fetch(MissReason::Gone),
    };
    match held.filter(|held| !held.is_whole()).and_then(|held| missing(view, ask, held)) {
        Some(_) if ask.directives.only_if_cached() => Decision::GatewayTimeout,
        Some(missing) => Decision::Complete(reuse, missing),
        None => Decision::Serve(reuse),
    }
}

/// The range from the first missing byte that the request wants to the end of what it wants. `None` where no
/// byte is missing, or no body is sent.
pub(crate) fn missing(view: &RequestView<'_>, ask: &Ask, generation: &Generation) -> Option<Interval> {
    if ask.kind == AskKind::Head {
        return None;
    }
    let length = generation.length()?;
    let within = |wanted: Interval| {
        let gap = generation.gap(wanted)?;
        Some(Interval::new(gap.start, wanted.end))
    };
    match answer(view, ask, &generation.head().stored, Some(length)) {
        Answer::Full => within(Interval::new(0, length)),
        Answer::Partial(interval, _) => within(interval),
        Answer::Parts(parts) => parts.iter().find_map(|(interval, _)| within(interval)),
        Answer::NotModified | Answer::PreconditionFailed | Answer::Unsatisfiable(_) => None,
    }
}
