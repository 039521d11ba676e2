//! Whether a client can tell where the bytes of a 206 belong (RFC 9110 §14.4, §15.3.7). It judges parts that
//! pass through; stored parts are judged where they are put together.

use http::header::{CONTENT_RANGE, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};

use crate::range::ranges_of_bytes;

/// Whether a response to a request with these fields is not a 206, or is one that says truly where its bytes
/// belong. `length` is the length of its body, if it is known. Units other than bytes, and parts that nobody
/// requested, are left to the origin and its client.
pub fn is_placed(request: &HeaderMap, status: StatusCode, response: &HeaderMap, length: Option<u64>) -> bool {
    let Some(ranges) = ranges_of_bytes(request).filter(|_| status == StatusCode::PARTIAL_CONTENT) else {
        return true;
    };
    let kind = response.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_multipart = kind.get(..20).is_some_and(|kind| kind.eq_ignore_ascii_case("multipart/byteranges"));
    // RFC 9110 §15.3.7.2: several parts do not answer a single range, and have no Content-Range of their own.
    if is_multipart && !response.contains_key(CONTENT_RANGE) {
        return ranges > 1;
    }
    let mut places = response.get_all(CONTENT_RANGE).iter();
    let (Some(place), None) = (places.next(), places.next()) else { return false };
    let span = place.to_str().ok().and_then(bytes_of);
    span.is_some_and(|bytes| length.is_none_or(|length| length == bytes))
}

/// The number of bytes that a Content-Range names; `None` if it makes no sense.
fn bytes_of(place: &str) -> Option<u64> {
    let (unit, place) = place.split_once(' ')?;
    let (span, total) = place.split_once('/')?;
    let (first, last) = span.split_once('-')?;
    let (first, last) = (number(first)?, number(last)?);
    let fits = total == "*" || last < number(total)?;
    (unit.eq_ignore_ascii_case("bytes") && first <= last && fits).then(|| (last - first).checked_add(1))?
}

/// A number of digits alone, without a sign.
fn number(digits: &str) -> Option<u64> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::RANGE;

    use super::*;

    fn check(range: &'static str, fields: &[(http::HeaderName, &'static str)], expect: bool) {
        let request =
            HeaderMap::from_iter((!range.is_empty()).then_some((RANGE, HeaderValue::from_static(range))));
        let fields = fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
        let response: HeaderMap = fields.collect();
        let found = is_placed(&request, StatusCode::PARTIAL_CONTENT, &response, Some(10));
        assert_eq!(found, expect, "{range}: {response:?}");
        assert!(is_placed(&request, StatusCode::OK, &response, Some(10)));
    }

    #[test]
    fn a_part_says_where_its_bytes_belong() {
        for (place, expect) in [
            ("bytes 0-9/10", true),
            ("bytes 5-14/*", true),
            ("bytes 5-14/15", true),
            ("bytes 5-14/14", false),
            ("bytes 5-15/20", false),
            ("bytes 9-0/20", false),
            ("bytes */20", false),
            ("bytes 0-18446744073709551615/*", false),
            ("items 0-9/10", false),
            ("0-9/10", false),
        ] {
            check("bytes=0-9", &[(CONTENT_RANGE, place)], expect);
        }
        check("bytes=0-9", &[], false);
        check("bytes=0-9", &[(CONTENT_RANGE, "bytes 0-9/10"), (CONTENT_RANGE, "bytes 0-9/10")], false);
    }

    #[test]
    fn several_parts_answer_several_ranges_alone() {
        let kind = (CONTENT_TYPE, "Multipart/ByteRanges; boundary=x");
        check("bytes=0-3,5-9", std::slice::from_ref(&kind), true);
        check("bytes=0-9", &[kind], false);
        check("bytes=0-3,5-9", &[(CONTENT_RANGE, "bytes 0-9/10")], true);
    }

    #[test]
    fn other_units_and_unrequested_parts_are_left_alone() {
        check("items=0-9", &[(CONTENT_RANGE, "items 0-9/10")], true);
        check("", &[(CONTENT_RANGE, "0-9/10")], true);
        check("", &[], true);
    }
}
