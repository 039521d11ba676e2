//! Ranges of what is not held, or held in part: what the client wants, what the origin is asked for, and how
//! the result is served (RFC 9110 §14.2).

use std::sync::Arc;

use http::StatusCode;
use http::header::IF_RANGE;
use weir_policy::{AskKind, Asked, CacheKey, Interval, matches, wanted_cold};
use weir_store::Generation;

use crate::chunks::{chunk_bytes, is_set};
use crate::exchange::Exchange;
use crate::job::Job;
use crate::parts::{self, Confirmed};
use crate::response::Response;
use crate::{lookup, pass, serve};
use weir_clock as clock;
use weir_fill::ReaderGuard;
use weir_fill::cold::Cold;
use weir_fill::inflight;
use weir_fill::recent::RangeFetch;
use weir_fill::task::Sharing;

/// All of a body.
const WHOLE: Interval = Interval { start: 0, end: u64::MAX };

/// The interval asked for. For a range that counts from the end: the end.
pub(super) fn want(job: &Job<'_, '_, '_>) -> Interval {
    let asked = Some(&job.request.headers).filter(|_| is_ranged(job)).and_then(wanted_cold);
    match asked {
        None => WHOLE,
        Some(Asked::From(interval)) => interval,
        Some(Asked::Suffix(_)) => Interval::new(u64::MAX, u64::MAX),
    }
}

/// Whether the client asks for a range, which has a meaning for GET alone (RFC 9110 §14.2).
fn is_ranged(job: &Job<'_, '_, '_>) -> bool {
    job.ask.is_range() && job.ask.kind == AskKind::Get
}

/// Whether a range of this key bypasses the cache, for a request that would ask for itself.
pub(super) fn is_past_the_cache(exchange: &Exchange<'_, '_>, key: &CacheKey, want: Interval) -> bool {
    let recent = &exchange.core.shared.inflight.recent;
    let digest = Sharing::Unshared.digest_of_ranges(key);
    want != WHOLE && recent.range_fetch(digest, exchange.now.mono) == Some(RangeFetch::Pass)
}

/// The chunks that the origin is asked for where the client wants a range. `None` where the key's ranges are
/// handled otherwise, and where a whole of this variant is being validated: a part does not replace it.
pub(crate) fn cold(job: &Job<'_, '_, '_>, key: &CacheKey) -> Option<Cold> {
    let headers = &job.request.headers;
    let asked = Some(headers).filter(|_| is_ranged(job)).and_then(wanted_cold)?;
    let selecting = job.selecting(job.route);
    let is_whole =
        |held: &Arc<Generation>| held.is_whole() && matches(&held.head().stored.variant, selecting);
    let digest = Sharing::of(&job.ask).digest_of_ranges(key);
    let range_fetch = job.core.shared.inflight.recent.range_fetch(digest, job.now.mono);
    if range_fetch.is_some()
        || job.validating.as_ref().is_some_and(is_whole)
        || lookup::at_hand_is_whole(job.exchange, job.route)
    {
        return None;
    }
    Some(match job.route.range.keeps_unvalidated_parts {
        true => Cold::exact(asked),
        false => Cold::new(asked, chunk_bytes(headers, job.route, job.validating.as_deref())),
    })
}

/// Whether a response to a fill's range does not answer the client. It may be a part that begins elsewhere.
/// It may be a refusal while the client wants more than the fill asked for: another range as well, or the
/// whole if its version has changed (RFC 9110 §13.1.5).
pub(super) fn is_for_nobody(exchange: &Exchange<'_, '_>, status: StatusCode) -> bool {
    let headers = &exchange.request.headers;
    status == StatusCode::PARTIAL_CONTENT
        || (status == StatusCode::RANGE_NOT_SATISFIABLE
            && (is_set(headers) || headers.contains_key(IF_RANGE)))
}

/// Serves a generation of which a part is held or on its way, and has the rest of the wanted range brought.
pub(super) async fn in_part(
    job: &mut Job<'_, '_, '_>,
    generation: Arc<Generation>,
    guard: ReaderGuard,
) -> Response {
    match parts::confirm(job.exchange, job.route, &job.ask, &generation).await {
        Confirmed::Held | Confirmed::Coming => {}
        Confirmed::Refused | Confirmed::Gone => {
            return pass::pass(job.exchange, job.route, job.cache_status).await;
        }
        Confirmed::Left => return job.left(),
    }
    super::note_stored(job, &generation);
    serve::in_part(job, generation, guard)
}

/// How a request that joined a fill gets the bytes that it is missing.
pub(super) enum Way {
    /// From the fill: it comes to them soon, or nothing else brings them sooner.
    Fill,
    /// By a transfer of its own.
    Separate,
    /// By bypassing the cache.
    Pass,
}

/// Whether a request waits for the bytes that a fill brings.
pub(super) fn way(job: &Job<'_, '_, '_>, generation: &Generation, guard: &ReaderGuard) -> Way {
    let now = clock::mono();
    let missing = parts::missing(job.exchange, &job.ask, generation);
    if missing.is_none_or(|missing| guard.fill().comes_soon(missing.start, now)) {
        return Way::Fill;
    }
    match job.core.shared.inflight.recent.range_fetch(generation.key().digest, now) {
        None if inflight::is_partable(generation) => Way::Separate,
        Some(RangeFetch::Whole) => Way::Fill,
        None | Some(RangeFetch::Pass) => Way::Pass,
    }
}
