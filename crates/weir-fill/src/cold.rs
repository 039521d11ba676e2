//! A cold range: a range of a body of which nothing is held (RFC 9110 §14.2), how it is asked for, and what
//! of the answer is kept. It must not load a body.

use http::header::{CONTENT_RANGE, RANGE};
use http::{HeaderMap, HeaderValue};
use weir_policy::{Asked, Interval};
use weir_store::BLOCK_BYTES;
use weir_upstream::Length;
use weir_upstream::OriginResponse;

use super::refetch::{only, part_of};

const BLOCK: u64 = BLOCK_BYTES as u64;
/// The most that is asked for at a time, beside the rest of a chunk: 16 MiB.
pub const ASK_BYTES_MAX: u64 = 16 << 20;

/// The range that is wanted, and how the origin is asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cold {
    wanted: Asked,
    chunk_bytes: u64,
    /// The origin is asked for exactly what is wanted.
    is_exact: bool,
}

/// What of a 206 is to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The bytes that are kept.
    pub interval: Interval,
    /// So many come before them.
    pub skip_bytes: u64,
    /// The length of the whole.
    pub length: u64,
}

impl Cold {
    /// Asks for the chunks of what is wanted.
    pub fn new(wanted: Asked, chunk_bytes: u64) -> Cold {
        Cold { wanted, chunk_bytes, is_exact: false }
    }

    /// Asks for it as the client does.
    pub fn exact(wanted: Asked) -> Cold {
        Cold { wanted, chunk_bytes: 1, is_exact: true }
    }

    /// Sets `Range`: from the block in which the wanted range begins to the end of the chunk in which it
    /// ends. Of a suffix one block more is asked for, so that a block begins before it.
    pub fn ask(self, headers: &mut HeaderMap) {
        let range = match self.wanted {
            Asked::Suffix(bytes) if self.is_exact => format!("bytes=-{bytes}"),
            Asked::From(wanted) if self.is_exact && wanted.end < u64::MAX => {
                format!("bytes={}-{}", wanted.start, wanted.end - 1)
            }
            Asked::From(wanted) if self.is_exact => format!("bytes={}-", wanted.start),
            Asked::Suffix(bytes) => format!("bytes=-{}", bytes.saturating_add(BLOCK)),
            Asked::From(wanted) => {
                let start = wanted.start - wanted.start % BLOCK;
                match ask_end(wanted, ASK_BYTES_MAX, self.chunk_bytes) {
                    Some(end) => format!("bytes={start}-{}", end - 1),
                    None => format!("bytes={start}-"),
                }
            }
        };
        if let Ok(range) = HeaderValue::try_from(range) {
            headers.insert(RANGE, range);
        }
    }

    /// What is to be kept of a 206 that says what it is and has the first wanted byte. It is kept from the
    /// start of a block where that loses nothing of what is wanted.
    pub fn read(self, response: &OriginResponse) -> Option<Kept> {
        let (start, end, length) = part_of(only(&response.headers, &CONTENT_RANGE)?)?;
        if matches!(response.length, Length::Known(bytes) if bytes != end - start) {
            return None;
        }
        self.kept(start, end, length)
    }

    /// What is to be kept of the bytes from `start` to `end`.
    fn kept(self, start: u64, end: u64, length: u64) -> Option<Kept> {
        let wanted = match self.wanted {
            Asked::From(wanted) => wanted.start,
            Asked::Suffix(bytes) => length.saturating_sub(bytes),
        };
        if wanted < start || wanted >= end {
            return None;
        }
        // There is none near `u64::MAX`.
        let aligned = start.checked_next_multiple_of(BLOCK);
        let kept = aligned.filter(|aligned| *aligned <= wanted).unwrap_or(start);
        Some(Kept { interval: Interval::new(kept, end), skip_bytes: kept - start, length })
    }
}

/// Where the `bytes` of an unvalidated part begin in the whole, and how long the whole is. Where
/// `Content-Range` and framing disagree, the first byte is as the field says and the length as it came; a
/// part that the field puts at the end is at the end.
pub fn place_of_unvalidated_part(headers: &HeaderMap, bytes: u64) -> Option<(u64, u64)> {
    let (start, end, length) = part_of(only(headers, &CONTENT_RANGE)?)?;
    let came = start.checked_add(bytes)?;
    let whole = if end == length { came } else { length };
    (bytes > 0 && came <= whole).then_some((start, whole))
}

/// Where a request for a range ends: with the chunk in which the range ends, but at most `ask_bytes_max` and
/// the rest of a chunk ahead, so that a reader that leaves soon has not asked for everything.
pub fn ask_end(wanted: Interval, ask_bytes_max: u64, chunk_bytes: u64) -> Option<u64> {
    chunk_end(wanted.end.min(wanted.start.saturating_add(ask_bytes_max)), chunk_bytes)
}

/// The end of the chunk that has the byte before `end`. None where `end` is open.
pub fn chunk_end(end: u64, chunk_bytes: u64) -> Option<u64> {
    if end == u64::MAX { None } else { end.checked_next_multiple_of(chunk_bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(wanted: Asked) -> String {
        let mut headers = HeaderMap::new();
        Cold::new(wanted, 1 << 20).ask(&mut headers);
        headers[RANGE].to_str().unwrap().to_owned()
    }

    fn from(start: u64, end: u64) -> Asked {
        Asked::From(Interval::new(start, end))
    }

    #[test]
    fn what_is_kept_by_itself_lies_where_it_begins() {
        let placed = |range: &'static str, bytes| {
            place_of_unvalidated_part(
                &HeaderMap::from_iter([(CONTENT_RANGE, HeaderValue::from_static(range))]),
                bytes,
            )
        };
        assert_eq!(placed("bytes 4-8/10", 5), Some((4, 10)));
        assert_eq!(placed("bytes 4-9/10", 6), Some((4, 10)));
        assert_eq!(placed("bytes 4-9/10", 5), Some((4, 9)));
        assert_eq!(placed("bytes 4-8/10", 7), None);
        assert_eq!(placed("bytes 4-8/*", 5), None);
        assert_eq!(placed("bytes 4-8/10", 0), None);
    }

    #[test]
    fn a_range_is_asked_for_from_its_block_to_the_end_of_its_chunk() {
        assert_eq!(asked(from(0, 1)), "bytes=0-1048575");
        assert_eq!(asked(from(5_000_000, 5_000_010)), "bytes=4980736-5242879");
        assert_eq!(asked(from(65_536, 1 << 20)), "bytes=65536-1048575");
        assert_eq!(asked(from(65_535, (1 << 20) + 1)), "bytes=0-2097151");
        assert_eq!(asked(from(70_000, u64::MAX)), "bytes=65536-17825791");
        assert_eq!(asked(from(0, u64::MAX - 1)), "bytes=0-16777215");
        assert_eq!(asked(from(u64::MAX - 65_536, u64::MAX - 1)), "bytes=18446744073709420544-");
        let mut headers = HeaderMap::new();
        Cold::exact(Asked::Suffix(5)).ask(&mut headers);
        assert_eq!(headers[RANGE], "bytes=-5");
        Cold::exact(from(10, 20)).ask(&mut headers);
        assert_eq!(headers[RANGE], "bytes=10-19");
        assert_eq!(asked(Asked::Suffix(10)), "bytes=-65546");
        assert_eq!(asked(Asked::Suffix(u64::MAX)), "bytes=-18446744073709551615");
    }

    fn kept(wanted: Asked, (start, end, length): (u64, u64, u64)) -> Option<(u64, u64, u64)> {
        let kept = Cold::new(wanted, 1 << 20).kept(start, end, length)?;
        Some((kept.interval.start, kept.interval.end, kept.skip_bytes))
    }

    #[test]
    fn what_is_kept_begins_with_a_block_where_that_costs_nothing() {
        assert_eq!(kept(from(70_000, 70_010), (65_536, 131_072, 200_000)), Some((65_536, 131_072, 0)));
        assert_eq!(kept(Asked::Suffix(10), (100, 70_000, 70_000)), Some((65_536, 70_000, 65_436)));
        assert_eq!(kept(Asked::Suffix(10), (65_537, 70_000, 70_000)), Some((65_537, 70_000, 0)));
        assert_eq!(kept(from(5, 9), (6, 100, 100)), None);
        assert_eq!(kept(from(100, 109), (0, 100, 200)), None);
    }

    #[test]
    fn an_origin_that_claims_to_be_endless_overflows_nothing() {
        let last = u64::MAX - 1;
        assert_eq!(kept(from(last - 9, last), (last - 9, last, last)), Some((last - 9, last, 0)));
    }
}
