//! What is held, in place of what is waited for or has failed (RFC 5861 §4).

use std::sync::Arc;
use std::time::Instant;

use weir_policy::{Failure, Reusable, error_reusable, matches};
use weir_store::{Generation, Retirement};

use crate::fill::Fill;
use crate::job::Job;
use crate::response::Response;
use crate::{parts, serve};
use weir_clock as clock;

/// Why what is stale goes out: the origin failed, or it has not answered within the route's `stale_after`.
pub(crate) const STALE_IF_ERROR: &str = "stale-if-error";
pub(super) const STALE_AFTER: &str = "stale-after";

/// What is held goes out stale where its window allows (RFC 5861 §4).
pub(super) fn stale_instead(job: &mut Job<'_, '_, '_>, failure: Failure) -> Option<Response> {
    let stale = usable(job, failure)?;
    let why = match failure {
        Failure::Slow => STALE_AFTER,
        Failure::NoAnswer | Failure::Status(_) => STALE_IF_ERROR,
    };
    Some(stale_out(job, stale, why))
}

/// What is held and may go out because of this failure.
pub(super) fn usable(job: &Job<'_, '_, '_>, failure: Failure) -> Option<(Arc<Generation>, Reusable)> {
    let is_good = |generation: &&Arc<Generation>| {
        // What is missing would have to come from the one that fails.
        (generation.is_whole() || parts::missing(job.exchange, &job.ask, generation).is_none())
            && matches!(generation.retirement(), None | Some(Retirement::Evicted))
            && matches(&generation.head().stored.variant, &job.request.headers)
    };
    let generation = job.validating.as_ref().filter(is_good)?;
    if !job.core.plane.store.may_serve(generation) {
        return None;
    }
    let reusable = error_reusable(&job.ask, &generation.head().stored, failure, clock::now())?;
    Some((generation.clone(), reusable))
}

pub(crate) fn stale_out(
    job: &mut Job<'_, '_, '_>,
    (generation, reusable): (Arc<Generation>, Reusable),
    why: &'static str,
) -> Response {
    job.told = job.told.stale_because(why, reusable.freshness().left_s());
    serve::held(job, generation, reusable)
}

/// What is held, where the upstream gave no answer a moment ago and need not be waited for.
pub(crate) fn instead_of_asking(job: &Job<'_, '_, '_>) -> Option<(Arc<Generation>, Reusable)> {
    let upstreams = &job.core.plane.desk.upstreams;
    if !upstreams.is_down(job.route.upstream.as_deref()?, job.now.mono) {
        return None;
    }
    usable(job, Failure::NoAnswer)
}

/// From when on what is held may go out in place of what is waited for; never, where nothing held may.
pub(super) fn slow_at(job: &Job<'_, '_, '_>, fill: &Fill) -> Option<Instant> {
    usable(job, Failure::Slow)?;
    Some(fill.begun() + job.route.stale_after)
}
