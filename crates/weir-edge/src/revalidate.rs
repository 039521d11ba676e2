//! Asking the origin whether a stored response is still good: with the client waiting, or in the background.
//! RFC 9111 §4.3, RFC 5861 §3.

use std::sync::Arc;

use http::HeaderMap;
use weir_observe::trace::Step;
use weir_policy::{RevalidateReason, Revalidation};
use weir_store::Generation;

use crate::cache_status::CacheStatus;
use crate::exchange::Exchange;
use crate::fetch;
use crate::job::Job;
use crate::lookup;
use crate::outgoing;
use crate::response::Response;
use weir_fill::inflight::{Plan, Wanted};
use weir_fill::task::{self, Sharing};

/// Asks before a response goes out.
pub(crate) async fn now(
    job: &mut Job<'_, '_, '_>,
    generation: Arc<Generation>,
    revalidation: Revalidation,
) -> Response {
    job.cache_status = CacheStatus::revalidate(revalidation.why);
    if revalidation.why == RevalidateReason::Refresh {
        return fetch::fetch(job).await;
    }
    job.validating = Some(generation);
    if job.warming.is_none()
        && let Some(instead) = fetch::stale::instead_of_asking(job)
    {
        job.step(|| Step::Refreshing);
        in_background(job);
        return fetch::stale::stale_out(job, instead);
    }
    fetch::fetch(job).await
}

/// Asks in the background about the generation that the job may validate; the next request uses the result.
/// An upstream that gave no answer a moment ago is asked once in each backoff
/// ([`Upstreams::may_try`](weir_fill::upstreams::Upstreams::may_try)).
pub(crate) fn in_background(job: &Job<'_, '_, '_>) {
    let Some(generation) = &job.validating else { return };
    let (core, ledger, now) = (job.core, job.core.shared.store.ledger(), job.now.mono);
    let headers: &HeaderMap = &job.request.headers;
    let wanted = Wanted { key: generation.key(), interval: Wanted::WHOLE, headers };
    let Plan::Lead(lead) = core.shared.inflight.plan(job.asker(), ledger, wanted, now) else { return };
    let found = lookup::at_hand(job, job.route).generation;
    if found.is_none_or(|found| !Arc::ptr_eq(&found, generation) || is_fresh(job, &found)) {
        return;
    }
    let Some(refetch) = outgoing::refetch(job, job.route) else { return };
    let Some(place) = outgoing::fill_permit(job, &refetch) else { return };
    if !core.shared.inflight.upstreams.may_try(refetch.upstream.name(), now) {
        return;
    }
    let mut fill_request = outgoing::fill_request(job, job.route, Sharing::Shared, (refetch, place));
    fill_request.validating = Some(generation.clone());
    if generation.is_part() {
        // If the origin has a new version, the wanted part of it is enough.
        fill_request.cold = fetch::cold(job, generation.key());
    }
    if let Some(guard) = lead.begin() {
        task::start_in_background(fill_request, guard);
    }
}

fn is_fresh(exchange: &Exchange<'_, '_>, generation: &Generation) -> bool {
    weir_policy::freshness(&generation.head().stored, exchange.now).is_fresh()
}
