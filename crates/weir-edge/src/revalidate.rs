//! Asking the origin whether what is held is still good: now, with the client waiting, or in the
//! background, with nobody waiting. RFC 9111 §4.3, RFC 5861 §3.

use std::sync::Arc;

use http::HeaderMap;
use weir_policy::{Ask, Interval, RevalidateReason, Revalidation};
use weir_store::Generation;

use crate::conn::After;
use crate::exchange::Exchange;
use crate::fetch;
use crate::fill::desk::Plan;
use crate::fill::task::{self, Sharing};
use crate::fill::witness::Witness;
use crate::lookup;
use crate::plan::Route;
use crate::told::Told;

/// Asks before anything goes out.
pub(crate) async fn now(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    generation: Arc<Generation>,
    revalidation: Revalidation,
) -> After {
    let told = Told::revalidate(revalidation.why);
    if revalidation.why != RevalidateReason::Refresh
        && let Some(instead) = fetch::stale::instead_of_asking(exchange, route, ask, &generation)
    {
        in_background(exchange, route, ask, &generation);
        return fetch::stale::stale_out(exchange, route, ask, instead, told).await;
    }
    let validating = match revalidation.why {
        RevalidateReason::Refresh => None,
        _ => Some(generation),
    };
    fetch::fetch(exchange, route, ask, validating, told).await
}

/// Asks without a client: the next request finds what came. An upstream that gave no answer a moment ago is asked once a
/// spell ([`Upstreams::may_try`](crate::fill::upstreams::Upstreams::may_try)).
pub(crate) fn in_background(
    exchange: &Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    generation: &Arc<Generation>,
) {
    let headers: &HeaderMap = &exchange.head.headers;
    let whole = Interval::new(0, u64::MAX);
    let (worker, now) = (exchange.worker, exchange.now.mono);
    let key = (generation.key(), worker.plane.store.ledger());
    let who = (worker.core, Witness::of(exchange.client()));
    let Plan::Lead(lead) = worker.plane.desk.plan(who, key, whole, headers, now) else { return };
    let found = lookup::at_hand(exchange, route).generation;
    if found.is_none_or(|found| !Arc::ptr_eq(&found, generation) || is_fresh(exchange, &found)) {
        return;
    }
    let Some(again) = fetch::again(exchange, route) else { return };
    let Some(place) = fetch::place_among_fills(exchange, &again) else { return };
    if !worker.plane.desk.upstreams.may_try(again.upstream.name(), now) {
        return;
    }
    let mut errand = fetch::errand(exchange, route, Some(generation), Sharing::Shared, (again, place));
    if generation.is_part() {
        // Where it has changed, the part that is wanted of it is enough.
        errand.cold = fetch::cold(exchange, route, ask, generation.key(), Some(generation));
    }
    if let Some(seat) = lead.begin() {
        task::start_in_background(errand, seat);
    }
}

fn is_fresh(exchange: &Exchange<'_>, generation: &Generation) -> bool {
    weir_policy::freshness(&generation.head().stored, exchange.now).is_fresh()
}
