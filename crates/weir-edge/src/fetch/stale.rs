//! What is held, in place of what is waited for or has failed (RFC 5861 §4; RFC 9111 §4.2.4). It must not decide what may
//! go out: that is the policy's.

use std::sync::Arc;
use std::time::Instant;

use weir_policy::{Ask, Excuse, Failure, Reusable, error_reusable, matches};
use weir_store::{Generation, Retirement};

use crate::conn::After;
use crate::exchange::Exchange;
use crate::fill::Fill;
use crate::plan::Route;
use crate::told::Told;
use crate::{parts, serve};
use weir_clock as clock;

/// Why what is stale goes out: the origin failed, gave no answer at all, or has not answered within the route's `stale_after`.
const STALE_IF_ERROR: &str = "stale-if-error";
const STALE_IF_UNREACHABLE: &str = "stale-if-unreachable";
const STALE_AFTER: &str = "stale-after";

/// What goes out in place of an answer.
pub(crate) struct Instead {
    generation: Arc<Generation>,
    reusable: Reusable,
    /// Why, for `Cache-Status` and the log.
    why: &'static str,
}

/// The word for why what is held goes out because of a failure.
pub(crate) fn word(failure: Failure, excuse: Excuse) -> &'static str {
    match (failure, excuse) {
        (Failure::Slow, _) => STALE_AFTER,
        (_, Excuse::Error) => STALE_IF_ERROR,
        (_, Excuse::Unreachable) => STALE_IF_UNREACHABLE,
    }
}

/// What is held goes out stale where its window allows (RFC 5861 §4; RFC 9111 §4.2.4).
pub(super) async fn stale_instead(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    validating: Option<&Arc<Generation>>,
    failure: Failure,
    told: Told,
) -> Option<After> {
    let instead = usable(exchange, route, ask, validating, failure)?;
    Some(stale_out(exchange, route, ask, instead, told).await)
}

/// What is held and may go out because of this failure.
pub(super) fn usable(
    exchange: &Exchange<'_>,
    route: &Route,
    ask: &Ask,
    validating: Option<&Arc<Generation>>,
    failure: Failure,
) -> Option<Instead> {
    let is_good = |generation: &&Arc<Generation>| {
        // What is missing would have to come from the one that fails.
        (generation.is_whole() || parts::missing(exchange, ask, generation).is_none())
            && matches!(generation.retirement(), None | Some(Retirement::Evicted))
            && matches(&generation.head().stored.variant, &exchange.head.headers)
    };
    let generation = validating.filter(is_good)?;
    if !exchange.worker.plane.store.may_serve(generation) {
        return None;
    }
    let rules = &route.rules.stale;
    let (reusable, excuse) = error_reusable(ask, &generation.head().stored, failure, rules, clock::now())?;
    Some(Instead { generation: generation.clone(), reusable, why: word(failure, excuse) })
}

pub(crate) async fn stale_out(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    Instead { generation, reusable, why }: Instead,
    told: Told,
) -> After {
    let told = told.stale_because(why, reusable.freshness().left_s());
    serve::held(exchange, route, ask, generation, reusable, told).await
}

/// What is held, where the upstream gave no answer a moment ago and need not be waited for.
pub(crate) fn instead_of_asking(
    exchange: &Exchange<'_>,
    route: &Route,
    ask: &Ask,
    generation: &Arc<Generation>,
) -> Option<Instead> {
    let upstreams = &exchange.worker.plane.desk.upstreams;
    let failure = upstreams.outage(route.upstream.as_deref()?, exchange.now.mono)?;
    usable(exchange, route, ask, Some(generation), failure)
}

/// From when on what is held may go out in place of what is waited for; never, where nothing held may.
pub(super) fn slow_at(
    exchange: &Exchange<'_>,
    route: &Route,
    ask: &Ask,
    validating: Option<&Arc<Generation>>,
    fill: &Fill,
) -> Option<Instant> {
    usable(exchange, route, ask, validating, Failure::Slow)?;
    Some(fill.begun() + route.stale_after)
}
