//! Ranges of what is not held, or not whole: what is wanted, what the origin is asked for, and serving what came of it
//! (RFC 9110 §14.2).

use std::sync::Arc;

use http::header::{IF_RANGE, RANGE};
use http::{HeaderMap, StatusCode};
use weir_policy::{Ask, Asked, CacheKey, Interval, matches, wanted_cold};
use weir_store::{BLOCK_BYTES, Generation};

use crate::conn::After;
use crate::exchange::Exchange;
use crate::fill::Seat;
use crate::fill::cold::Cold;
use crate::fill::desk;
use crate::fill::memory::Manner;
use crate::fill::task::Sharing;
use crate::parts::{self, Confirmed};
use crate::plan::Route;
use crate::told::Told;
use crate::{lookup, pass, serve};
use weir_clock as clock;

use super::sharing;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// All of a body.
const WHOLE: Interval = Interval { start: 0, end: u64::MAX };

/// The interval asked for; of a range that counts from the end, the end.
pub(super) fn want(exchange: &Exchange<'_>, ask: &Ask) -> Interval {
    let asked = Some(&exchange.head.headers).filter(|_| ask.is_range()).and_then(wanted_cold);
    match asked {
        None => WHOLE,
        Some(Asked::From(interval)) => interval,
        Some(Asked::Suffix(_)) => Interval::new(u64::MAX, u64::MAX),
    }
}

/// Whether a range of this key is not to be had by the cache for who asks for himself.
pub(super) fn is_past_the_cache(exchange: &Exchange<'_>, key: &CacheKey, want: Interval) -> bool {
    let memory = &exchange.worker.plane.desk.memory;
    let digest = Sharing::Alone.digest_of_ranges(key);
    want != WHOLE && memory.manner(digest, exchange.now.mono) == Some(Manner::Pass)
}

/// What the origin is asked for where a range is wanted: its chunks. Not where ranges of the key are handled otherwise, and not
/// where a whole of this variant is asked about, which a part does not take the place of.
pub(crate) fn cold(
    exchange: &Exchange<'_>,
    route: &Route,
    ask: &Ask,
    key: &CacheKey,
    validating: Option<&Arc<Generation>>,
) -> Option<Cold> {
    let headers = &exchange.head.headers;
    let asked = Some(headers).filter(|_| ask.is_range()).and_then(wanted_cold)?;
    let is_whole = |held: &Arc<Generation>| held.is_whole() && matches(&held.head().stored.variant, headers);
    let digest = sharing(ask).digest_of_ranges(key);
    let manner = exchange.worker.plane.desk.memory.manner(digest, exchange.now.mono);
    if manner.is_some() || validating.is_some_and(is_whole) || lookup::at_hand_is_whole(exchange, route) {
        return None;
    }
    Some(match route.range.keeps_alone {
        true => Cold::exact(asked),
        false => Cold::new(asked, chunk_bytes(headers, route, validating.map(|held| &**held))),
    })
}

/// What is asked for at a time of what is missing: a chunk, since who reads a range often reads on. Who wants several ranges at once
/// does not, nor is it known of who wants one short range far from all that is held: for each of them blocks, so that a few bytes here
/// and there do not cost the origin the whole.
pub(crate) fn chunk_bytes(headers: &HeaderMap, route: &Route, held: Option<&Generation>) -> u64 {
    let is_alone = || match wanted_cold(headers) {
        Some(Asked::From(wanted)) => {
            is_short(wanted) && !held.is_some_and(|held| reads_on(held, wanted.start))
        }
        Some(Asked::Suffix(_)) | None => false,
    };
    match is_set(headers) || is_alone() {
        true => BLOCK,
        false => route.range.chunk_bytes,
    }
}

/// Whether a range is so short that a chunk would be much more than is wanted.
fn is_short(wanted: Interval) -> bool {
    wanted.end.saturating_sub(wanted.start) < BLOCK
}

/// Whether a range that begins at `start` goes on with what is held: something is, of the block before that in which it begins. What
/// is held of this one may be what has come of the range itself.
fn reads_on(held: &Generation, start: u64) -> bool {
    let block = start - start % BLOCK;
    let before = Interval::new(block.saturating_sub(BLOCK), block);
    !before.is_empty() && held.gap(before) != Some(before)
}

/// Whether several ranges are asked for at once.
fn is_set(headers: &HeaderMap) -> bool {
    headers.get(RANGE).is_some_and(|range| range.as_bytes().contains(&b','))
}

/// Whether a response to a fill's range is no answer to the client: a part that begins elsewhere, or a refusal where the client
/// wants more than was asked for: another range as well, or the whole if its version has changed (RFC 9110 §13.1.5).
pub(super) fn is_for_nobody(exchange: &Exchange<'_>, status: StatusCode) -> bool {
    let headers = &exchange.head.headers;
    status == StatusCode::PARTIAL_CONTENT
        || (status == StatusCode::RANGE_NOT_SATISFIABLE
            && (is_set(headers) || headers.contains_key(IF_RANGE)))
}

/// Serves a generation of which a part is there or on its way, and has the rest of what is wanted brought.
pub(super) async fn in_part(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    generation: Arc<Generation>,
    seat: Seat,
    told: Told,
) -> After {
    match parts::confirm(exchange, route, ask, &generation).await {
        Confirmed::Held | Confirmed::Coming => {}
        Confirmed::Refused | Confirmed::Gone => return pass::pass(exchange, route, told).await,
        Confirmed::Left => return exchange.left(),
    }
    let freshness = weir_policy::freshness(&generation.head().stored, clock::now());
    let told = told.stored(freshness.left_s(), freshness.source.word());
    serve::in_part(exchange, route, ask, generation, seat, told).await
}

/// How a request that has joined a fill gets at what it is missing.
pub(super) enum Way {
    /// With the fill: it comes there soon, or nothing comes sooner.
    Fill,
    /// By a transfer of its own.
    Apart,
    /// Past the cache.
    Pass,
}

/// Whether a request waits for what a fill is bringing.
pub(super) fn way(exchange: &Exchange<'_>, ask: &Ask, generation: &Generation, seat: &Seat) -> Way {
    let now = clock::mono();
    let missing = parts::missing(exchange, ask, generation);
    if missing.is_none_or(|missing| seat.fill().comes_soon(missing.start, now)) {
        return Way::Fill;
    }
    match exchange.worker.plane.desk.memory.manner(generation.key().digest, now) {
        None if desk::is_partable(generation) => Way::Apart,
        Some(Manner::Whole) => Way::Fill,
        None | Some(Manner::Pass) => Way::Pass,
    }
}
