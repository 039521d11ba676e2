//! What is held, in place of what is waited for or has failed (RFC 5861 §4; RFC 9111 §4.2.4). It must not
//! decide what may go out: that is the policy's.

use std::sync::Arc;
use std::time::Instant;

use weir_policy::{Excuse, Failure, Reusable, error_reusable, matches};
use weir_store::{Generation, Retirement};

use crate::job::Job;
use crate::response::Response;
use crate::{parts, serve};
use weir_clock as clock;
use weir_fill::Fill;

/// Why what is stale goes out: the origin failed, gave no answer at all, or has not answered within the
/// route's `revalidation_wait`.
const STALE_IF_ERROR: &str = "stale-if-error";
const STALE_IF_UNREACHABLE: &str = "stale-if-unreachable";
const REVALIDATION_WAIT: &str = "revalidation-wait";

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
        (Failure::Slow, _) => REVALIDATION_WAIT,
        (_, Excuse::Error) => STALE_IF_ERROR,
        (_, Excuse::Unreachable) => STALE_IF_UNREACHABLE,
    }
}

/// What is held goes out stale where its window allows (RFC 5861 §4; RFC 9111 §4.2.4).
pub(super) fn stale_instead(job: &mut Job<'_, '_, '_>, failure: Failure) -> Option<Response> {
    let instead = usable(job, failure)?;
    Some(stale_out(job, instead))
}

/// What is held and may go out because of this failure.
pub(super) fn usable(job: &Job<'_, '_, '_>, failure: Failure) -> Option<Instead> {
    let is_good = |generation: &&Arc<Generation>| {
        // What is missing would have to come from the one that fails.
        (generation.is_whole() || parts::missing(job.exchange, &job.ask, generation).is_none())
            && matches!(generation.retirement(), None | Some(Retirement::Evicted))
            && matches(&generation.head().stored.variant, &job.request.headers)
    };
    let generation = job.validating.as_ref().filter(is_good)?;
    if !job.core.shared.store.may_serve(generation) {
        return None;
    }
    let rules = &job.route.rules.stale;
    let (reusable, excuse) =
        error_reusable(&job.ask, &generation.head().stored, failure, rules, clock::now())?;
    Some(Instead { generation: generation.clone(), reusable, why: word(failure, excuse) })
}

pub(crate) fn stale_out(
    job: &mut Job<'_, '_, '_>,
    Instead { generation, reusable, why }: Instead,
) -> Response {
    job.cache_status = job.cache_status.stale_because(why, reusable.freshness().left_s());
    serve::held(job, generation, reusable)
}

/// What is held, where the upstream gave no answer a moment ago and need not be waited for.
pub(crate) fn instead_of_asking(job: &Job<'_, '_, '_>) -> Option<Instead> {
    let upstreams = &job.core.shared.inflight.upstreams;
    let failure = upstreams.outage(job.route.upstream.as_deref()?, job.now.mono)?;
    usable(job, failure)
}

/// From when on what is held may go out in place of what is waited for; never, where nothing held may.
pub(super) fn slow_at(job: &Job<'_, '_, '_>, fill: &Fill) -> Option<Instant> {
    usable(job, Failure::Slow)?;
    Some(fill.begun() + job.route.revalidation_wait)
}
