//! How much of a body is asked for at a time where a range of it is missing. Pure.

use http::HeaderMap;
use http::header::RANGE;
use weir_policy::{Asked, Interval, wanted_cold};
use weir_store::{BLOCK_BYTES, Generation};

use crate::plan::Route;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// What is asked for at a time of what is missing: a chunk, since who reads a range often reads on. Who wants
/// several ranges at once does not, nor is it known of who wants one short range far from all that is held:
/// for each of them blocks, so that a few bytes here and there do not cost the origin the whole.
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

/// Whether a range that begins at `start` goes on with what is held: something is, of the block before that
/// in which it begins. What is held of this one may be what has come of the range itself.
fn reads_on(held: &Generation, start: u64) -> bool {
    let block = start - start % BLOCK;
    let before = Interval::new(block.saturating_sub(BLOCK), block);
    !before.is_empty() && held.gap(before) != Some(before)
}

/// Whether several ranges are asked for at once.
pub(crate) fn is_set(headers: &HeaderMap) -> bool {
    headers.get(RANGE).is_some_and(|range| range.as_bytes().contains(&b','))
}
