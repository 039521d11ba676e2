//! Asking the origin whether a stored response is still good: with the client waiting, or in the background.
//! RFC 9111 §4.3, RFC 5861 §3.

use std::sync::Arc;

use http::HeaderMap;
use weir_policy::{Interval, RevalidateReason, Revalidation};
use weir_store::Generation;

use crate::exchange::Exchange;
use crate::fetch;
use crate::job::Job;
use crate::lookup;
use crate::outgoing;
use crate::response::Response;
use crate::told::Told;
use weir_fill::desk::Plan;
use weir_fill::task::{self, Sharing};

/// Asks before a response goes out.
pub(crate) async fn now(
    job: &mut Job<'_, '_, '_>,
    generation: Arc<Generation>,
    revalidation: Revalidation,
) -> Response {
    job.told = Told::revalidate(revalidation.why);
    if revalidation.why == RevalidateReason::Refresh {
        return fetch::fetch(job).await;
    }
    job.validating = Some(generation);
    if let Some(instead) = fetch::stale::instead_of_asking(job) {
        in_background(job);
        return fetch::stale::stale_out(job, instead);
    }
    fetch::fetch(job).await
}

/// Asks in the background about the generation that the job may validate; the next request uses the result.
/// An upstream that gave no answer a moment ago is asked once in a while
/// ([`Upstreams::may_try`](weir_fill::upstreams::Upstreams::may_try)).
pub(crate) fn in_background(job: &Job<'_, '_, '_>) {
    let Some(generation) = &job.validating else { return };
    let headers: &HeaderMap = &job.request.headers;
    let whole = Interval::new(0, u64::MAX);
    let (core, now) = (job.core, job.now.mono);
    let key = (generation.key(), core.shared.store.ledger());
    let who = (core.number, job.witness());
    let Plan::Lead(lead) = core.shared.desk.plan(who, key, whole, headers, now) else { return };
    let found = lookup::at_hand(job, job.route).generation;
    if found.is_none_or(|found| !Arc::ptr_eq(&found, generation) || is_fresh(job, &found)) {
        return;
    }
    let Some(again) = outgoing::again(job, job.route) else { return };
    let Some(place) = outgoing::place_among_fills(job, &again) else { return };
    if !core.shared.desk.upstreams.may_try(again.upstream.name(), now) {
        return;
    }
    let mut errand = outgoing::errand(job, job.route, Sharing::Shared, (again, place));
    errand.validating = Some(generation.clone());
    if generation.is_part() {
        // If the origin has a new version, the wanted part of it is enough.
        errand.cold = fetch::cold(job, generation.key());
    }
    if let Some(seat) = lead.begin() {
        task::start_in_background(errand, seat);
    }
}

fn is_fresh(exchange: &Exchange<'_, '_>, generation: &Generation) -> bool {
    weir_policy::freshness(&generation.head().stored, exchange.now).is_fresh()
}
