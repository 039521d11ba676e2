//! What is held, in place of what is waited for or has failed (RFC 5861 §4).

use std::sync::Arc;
use std::time::Instant;

use weir_policy::{Ask, Failure, Reusable, error_reusable, matches};
use weir_store::{Generation, Retirement};

use crate::conn::After;
use crate::exchange::Exchange;
use crate::fill::Fill;
use crate::plan::Route;
use crate::told::Told;
use crate::{parts, serve};
use weir_clock as clock;

/// Why what is stale goes out: the origin failed, or it has not answered within the route's `stale_after`.
pub(crate) const STALE_IF_ERROR: &str = "stale-if-error";
pub(super) const STALE_AFTER: &str = "stale-after";

/// What is held goes out stale where its window allows (RFC 5861 §4).
pub(super) async fn stale_instead(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    validating: Option<&Arc<Generation>>,
    failure: Failure,
    told: Told,
) -> Option<After> {
    let stale = usable(exchange, ask, validating, failure)?;
    let why = match failure {
        Failure::Slow => STALE_AFTER,
        Failure::NoAnswer | Failure::Status(_) => STALE_IF_ERROR,
    };
    Some(stale_out(exchange, route, ask, stale, why, told).await)
}

/// What is held and may go out because of this failure.
pub(super) fn usable(
    exchange: &Exchange<'_>,
    ask: &Ask,
    validating: Option<&Arc<Generation>>,
    failure: Failure,
) -> Option<(Arc<Generation>, Reusable)> {
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
    let reusable = error_reusable(ask, &generation.head().stored, failure, clock::now())?;
    Some((generation.clone(), reusable))
}

pub(crate) async fn stale_out(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    (generation, reusable): (Arc<Generation>, Reusable),
    why: &'static str,
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
) -> Option<Reusable> {
    let upstreams = &exchange.worker.plane.desk.upstreams;
    if !upstreams.is_down(route.upstream.as_deref()?, exchange.now.mono) {
        return None;
    }
    let stale = usable(exchange, ask, Some(generation), Failure::NoAnswer)?;
    Some(stale.1)
}

/// From when on what is held may go out in place of what is waited for; never, where nothing held may.
pub(super) fn slow_at(
    exchange: &Exchange<'_>,
    route: &Route,
    ask: &Ask,
    validating: Option<&Arc<Generation>>,
    fill: &Fill,
) -> Option<Instant> {
    usable(exchange, ask, validating, Failure::Slow)?;
    Some(fill.begun() + route.stale_after)
}
