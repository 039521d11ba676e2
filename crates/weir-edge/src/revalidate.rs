//! Asking the origin whether a stored response is still good: with the client waiting, or in the background.
//! RFC 9111 §4.3, RFC 5861 §3.

use std::sync::Arc;

use http::HeaderMap;
use weir_observe::trace::Step;
use weir_policy::{RevalidateReason, Revalidation};
use weir_store::Generation;

use crate::cache_status::CacheStatus;
use crate::exchange::{Asked, Exchange};
use crate::fetch;
use crate::job::Job;
use crate::lookup;
use crate::outgoing;
use crate::response::Response;
use weir_fill::inflight::{Plan, Wanted};
use weir_fill::task::{self, Sharing};

/// Asks before a response goes out.
pub(crate) async fn now(
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    generation: Arc<Generation>,
    revalidation: Revalidation,
) -> Response {
    job.cache_status = CacheStatus::revalidate(revalidation.why);
    if revalidation.why == RevalidateReason::Refresh {
        return fetch::fetch(exchange, job).await;
    }
    job.validating = Some(generation);
    if exchange.asked.warming.is_none()
        && let Some(instead) = fetch::stale::instead_of_asking(exchange.asked, exchange.chosen, job)
    {
        exchange.told.step(|| Step::Refreshing);
        in_background(exchange, job);
        return fetch::stale::stale_out(exchange, job, instead);
    }
    fetch::fetch(exchange, job).await
}

/// Asks in the background about the generation that the job may validate; the next request uses the result.
/// An upstream that gave no answer a moment ago is asked once in each backoff
/// ([`Upstreams::may_try`](weir_fill::upstreams::Upstreams::may_try)).
pub(crate) fn in_background(exchange: &Exchange<'_, '_>, job: &Job) {
    let (asked, chosen) = (exchange.asked, exchange.chosen);
    let Some(generation) = &job.validating else { return };
    let (core, ledger, now) = (asked.core, asked.core.shared.store.ledger(), asked.now.mono);
    let headers: &HeaderMap = &asked.request.headers;
    let wanted = Wanted { key: generation.key(), interval: Wanted::WHOLE, headers };
    let Plan::Lead(lead) = core.shared.inflight.plan(asked.asker(), ledger, wanted, now) else { return };
    let found = lookup::at_hand(asked, chosen).generation;
    if found.is_none_or(|found| !Arc::ptr_eq(&found, generation) || is_fresh(asked, &found)) {
        return;
    }
    let Some(refetch) = outgoing::refetch(asked, chosen, exchange.told) else { return };
    let Some(place) = outgoing::fill_permit(asked, &refetch) else { return };
    if !core.shared.inflight.upstreams.may_try(refetch.upstream.name(), now) {
        return;
    }
    let mut fill_request = outgoing::fill_request(asked, chosen, Sharing::Shared, (refetch, place));
    fill_request.validating = Some(generation.clone());
    if generation.is_part() {
        // If the origin has a new version, the wanted part of it is enough.
        fill_request.cold = fetch::cold(asked, chosen, job, generation.key());
    }
    if let Some(guard) = lead.begin() {
        task::start_in_background(fill_request, guard);
    }
}

fn is_fresh(asked: &Asked<'_>, generation: &Generation) -> bool {
    weir_policy::freshness(&generation.head().stored, asked.now).is_fresh()
}
