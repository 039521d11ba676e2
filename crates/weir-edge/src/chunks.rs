//! How much of a body is asked for at a time where a range of it is missing. Pure.

use http::HeaderMap;
use http::header::RANGE;
use weir_policy::{Asked, Interval, wanted_cold};
use weir_store::{BLOCK_BYTES, Generation};

use crate::plan::Route;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// How many bytes one request to the origin asks for. A reader of one range often reads on, so it gets a
/// chunk. A request for several ranges does not read on, and a short range far from held bytes may not: these
/// get blocks, so that a few bytes here and there do not make the origin send the whole.
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

/// Whether a range is so short that a chunk would be much more than the client wants.
fn is_short(wanted: Interval) -> bool {
    wanted.end.saturating_sub(wanted.start) < BLOCK
}

/// Whether a range that begins at `start` continues what is held: some bytes of the block before its first
/// block are held. Bytes of the first block itself do not count, since the range itself may have brought
/// them.
fn reads_on(held: &Generation, start: u64) -> bool {
    let block = start - start % BLOCK;
    let before = Interval::new(block.saturating_sub(BLOCK), block);
    !before.is_empty() && held.gap(before) != Some(before)
}

/// Whether the request asks for several ranges at once.
pub(crate) fn is_set(headers: &HeaderMap) -> bool {
    headers.get(RANGE).is_some_and(|range| range.as_bytes().contains(&b','))
}
