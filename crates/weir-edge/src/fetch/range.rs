//! Ranges of what is not held, or held in part: what the client wants, what the origin is asked for, and how
//! the result is served (RFC 9110 §14.2).

use std::sync::Arc;

use http::StatusCode;
use http::header::IF_RANGE;
use weir_policy::{AskKind, Asked as Range, CacheKey, Interval, matches, wanted_cold};
use weir_store::Generation;

use crate::chunks::{chunk_bytes, is_set};
use crate::exchange::{Asked, Chosen, Exchange};
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
pub(super) fn want(asked: &Asked<'_>, job: &Job) -> Interval {
    match Some(&asked.request.headers).filter(|_| is_ranged(job)).and_then(wanted_cold) {
        None => WHOLE,
        Some(Range::From(interval)) => interval,
        Some(Range::Suffix(_)) => Interval::new(u64::MAX, u64::MAX),
    }
}

/// Whether the client asks for a range, which has a meaning for GET alone (RFC 9110 §14.2).
fn is_ranged(job: &Job) -> bool {
    job.ask.is_range() && job.ask.kind == AskKind::Get
}

/// Whether a range of this key bypasses the cache, for a request that would ask for itself.
pub(super) fn is_past_the_cache(asked: &Asked<'_>, key: &CacheKey, want: Interval) -> bool {
    let recent = &asked.core.shared.inflight.recent;
    let digest = Sharing::Unshared.digest_of_ranges(key);
    want != WHOLE && recent.range_fetch(digest, asked.now.mono) == Some(RangeFetch::Pass)
}

/// The chunks that the origin is asked for where the client wants a range. `None` where the key's ranges are
/// handled otherwise, and where a whole of this variant is being validated: a part does not replace it.
pub(crate) fn cold(asked: &Asked<'_>, chosen: &Chosen<'_>, job: &Job, key: &CacheKey) -> Option<Cold> {
    let headers = &asked.request.headers;
    let range = Some(headers).filter(|_| is_ranged(job)).and_then(wanted_cold)?;
    let selecting = chosen.selecting(asked);
    let is_whole =
        |held: &Arc<Generation>| held.is_whole() && matches(&held.head().stored.variant, selecting);
    let digest = Sharing::of(&job.ask).digest_of_ranges(key);
    let range_fetch = asked.core.shared.inflight.recent.range_fetch(digest, asked.now.mono);
    if range_fetch.is_some()
        || job.validating.as_ref().is_some_and(is_whole)
        || lookup::at_hand_is_whole(asked, chosen)
    {
        return None;
    }
    Some(match chosen.route.range.keeps_unvalidated_parts {
        true => Cold::exact(range),
        false => Cold::new(range, chunk_bytes(headers, chosen.route, job.validating.as_deref())),
    })
}

/// Whether a response to a fill's range does not answer the client. It may be a part that begins elsewhere.
/// It may be a refusal while the client wants more than the fill asked for: another range as well, or the
/// whole if its version has changed (RFC 9110 §13.1.5).
pub(super) fn is_for_nobody(asked: &Asked<'_>, status: StatusCode) -> bool {
    let headers = &asked.request.headers;
    status == StatusCode::PARTIAL_CONTENT
        || (status == StatusCode::RANGE_NOT_SATISFIABLE
            && (is_set(headers) || headers.contains_key(IF_RANGE)))
}

/// Serves a generation of which a part is held or on its way, and has the rest of the wanted range brought.
pub(super) async fn in_part(
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    generation: Arc<Generation>,
    guard: ReaderGuard,
) -> Response {
    match parts::confirm(exchange, job, &generation).await {
        Confirmed::Held | Confirmed::Coming => {}
        Confirmed::Refused | Confirmed::Gone => {
            return pass::pass(exchange, job.cache_status).await;
        }
        Confirmed::Left => return exchange.left(),
    }
    super::note_stored(job, &generation);
    serve::in_part(exchange, job, generation, guard)
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
pub(super) fn way(asked: &Asked<'_>, job: &Job, generation: &Generation, guard: &ReaderGuard) -> Way {
    let now = clock::mono();
    let missing = parts::missing(asked, &job.ask, generation);
    if missing.is_none_or(|missing| guard.fill().comes_soon(missing.start, now)) {
        return Way::Fill;
    }
    match asked.core.shared.inflight.recent.range_fetch(generation.key().digest, now) {
        None if inflight::is_partable(generation) => Way::Separate,
        Some(RangeFetch::Whole) => Way::Fill,
        None | Some(RangeFetch::Pass) => Way::Pass,
    }
}
