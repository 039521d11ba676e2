//! Serving a stored response in place of one that is awaited or has failed (RFC 5861 §4; RFC 9111 §4.2.4). It
//! must not decide what may be served stale: that is the policy's decision.

use std::sync::Arc;
use std::time::Instant;

use weir_policy::{Excuse, Failure, Reusable, error_reusable, matches};
use weir_store::{Generation, Retirement};

use crate::exchange::{Asked, Chosen, Exchange};
use crate::job::Job;
use crate::response::Response;
use crate::{parts, serve};
use weir_clock as clock;
use weir_fill::Fill;

/// Why a stale response is served: the origin failed, gave no answer at all, answered with a status that the
/// route names, or has not answered within the route's `revalidation_wait`.
const STALE_IF_ERROR: &str = "stale-if-error";
const STALE_IF_UNREACHABLE: &str = "stale-if-unreachable";
const STALE_IF_STATUS: &str = "stale-if-status";
const REVALIDATION_WAIT: &str = "revalidation-wait";

/// The response that is served in place of an answer.
pub(crate) struct Instead {
    generation: Arc<Generation>,
    reusable: Reusable,
    /// Why, for `Cache-Status` and the log.
    why: &'static str,
}

/// The word for why a stored response is served after a failure.
pub(crate) fn word(failure: Failure, excuse: Excuse) -> &'static str {
    match (failure, excuse) {
        (Failure::Slow, _) => REVALIDATION_WAIT,
        (_, Excuse::Error) => STALE_IF_ERROR,
        (_, Excuse::Unreachable) => STALE_IF_UNREACHABLE,
        (_, Excuse::Status) => STALE_IF_STATUS,
    }
}

/// Serves a stored response stale, where its window allows it (RFC 5861 §4; RFC 9111 §4.2.4).
pub(super) fn stale_instead(
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    failure: Failure,
) -> Option<Response> {
    let instead = usable(exchange.asked, exchange.chosen, job, failure)?;
    Some(stale_out(exchange, job, instead))
}

/// The stored response that may be served because of this failure.
pub(super) fn usable(asked: &Asked<'_>, chosen: &Chosen<'_>, job: &Job, failure: Failure) -> Option<Instead> {
    let is_good = |generation: &&Arc<Generation>| {
        // The failing origin would have to send the missing bytes.
        (generation.is_whole() || parts::missing(asked, &job.ask, generation).is_none())
            && matches!(generation.retirement(), None | Some(Retirement::Evicted))
            && matches(&generation.head().stored.variant, chosen.selecting(asked))
    };
    let generation = job.validating.as_ref().filter(is_good)?;
    if !asked.core.shared.store.may_serve(generation) {
        return None;
    }
    let rules = &chosen.route.rules.stale;
    let (reusable, excuse) =
        error_reusable(&job.ask, &generation.head().stored, failure, rules, clock::now())?;
    Some(Instead { generation: generation.clone(), reusable, why: word(failure, excuse) })
}

pub(crate) fn stale_out(
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    Instead { generation, reusable, why }: Instead,
) -> Response {
    job.cache_status = job.cache_status.stale_because(why, reusable.freshness().left_s());
    serve::held(exchange, job, generation, reusable)
}

/// The stored response, where the upstream gave no answer a moment ago and need not be waited for.
pub(crate) fn instead_of_asking(asked: &Asked<'_>, chosen: &Chosen<'_>, job: &Job) -> Option<Instead> {
    let upstreams = &asked.core.shared.inflight.upstreams;
    let failure = upstreams.outage(chosen.route.upstream.as_deref()?, asked.now.mono)?;
    usable(asked, chosen, job, failure)
}

/// When the stored response may be served in place of the awaited one; never, where it may not.
pub(super) fn slow_at(asked: &Asked<'_>, chosen: &Chosen<'_>, job: &Job, fill: &Fill) -> Option<Instant> {
    // A warming waits.
    usable(asked, chosen, job, Failure::Slow).filter(|_| asked.warming.is_none())?;
    Some(fill.begun() + chosen.route.revalidation_wait)
}
