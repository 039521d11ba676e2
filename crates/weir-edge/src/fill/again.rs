//! Asking an origin for the rest of a body that is here in part (RFC 9110 §14.2, §13.1.5). Two versions of a body are
//! never mixed: without a strong validator nothing is asked, and what comes must be the same version to its end.

use std::sync::Arc;

use http::header::{CONTENT_RANGE, ETAG, IF_RANGE, RANGE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use weir_store::Generation;
use weir_upstream::{OriginBody, OriginRequest, Upstream};

/// How to ask the origin for the rest.
#[derive(Clone)]
pub(crate) struct Again {
    /// Whom to ask.
    pub(crate) upstream: Arc<Upstream>,
    /// Path and query as sent.
    pub(crate) target: String,
    /// The fill's request fields.
    pub(crate) headers: HeaderMap,
}

/// The rest of a body.
pub(crate) struct Rest {
    pub(crate) body: OriginBody,
    /// The length of the whole.
    pub(crate) length: u64,
}

impl Again {
    /// The bytes of this generation from `start` to its end, if the origin still has the same version.
    ///
    /// # Cancel safety
    /// Dropped, it closes its connection.
    pub(crate) async fn rest(&self, generation: &Generation, start: u64) -> Option<Rest> {
        let etag = strong(&generation.head().stored.headers)?.clone();
        let mut headers = self.headers.clone();
        headers.insert(IF_RANGE, etag.clone());
        headers.insert(RANGE, HeaderValue::try_from(format!("bytes={start}-")).ok()?);
        let request = OriginRequest::new(Method::GET, self.target.clone(), headers);
        let answer = self.upstream.send(request, None).await.ok()?;
        let is_same = answer.status == StatusCode::PARTIAL_CONTENT && answer.headers.get(ETAG) == Some(&etag);
        let length = to_the_end(answer.headers.get(CONTENT_RANGE)?, start)?;
        let is_as_long = generation.length().is_none_or(|known| known == length);
        (is_same && is_as_long).then_some(Rest { body: answer.body, length })
    }
}

/// The entity tag, where it is a strong one (RFC 9110 §8.8.1).
pub(crate) fn strong(headers: &HeaderMap) -> Option<&HeaderValue> {
    headers.get(ETAG).filter(|etag| etag.as_bytes().starts_with(b"\""))
}

/// The whole length, where a `Content-Range` goes from `start` to the end (RFC 9110 §14.4).
fn to_the_end(range: &HeaderValue, start: u64) -> Option<u64> {
    let (span, length) = range.to_str().ok()?.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = span.split_once('-')?;
    let (first, last, length) = (number(first)?, number(last)?, number(length)?);
    (first == start && first <= last && last.checked_add(1)? == length).then_some(length)
}

/// Digits and nothing else: a sign is none.
fn number(digits: &str) -> Option<u64> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(range: &'static str, expect: Option<u64>) {
        assert_eq!(to_the_end(&HeaderValue::from_static(range), 20), expect, "{range}");
    }

    #[test]
    fn only_a_range_from_there_to_the_end_is_the_rest() {
        check("bytes 20-99/100", Some(100));
        check("bytes 20-20/21", Some(21));
        check("bytes 20-98/100", None);
        check("bytes 20-19/20", None);
        check("bytes 19-99/100", None);
        check("bytes 21-99/100", None);
        check("bytes 20-99/*", None);
        check("bytes +20-99/100", None);
        check("bytes 20-18446744073709551615/18446744073709551616", None);
        check("bytes */100", None);
        check("items 20-99/100", None);
        check("bytes 20-99", None);
    }

    #[test]
    fn a_weak_tag_says_nothing_about_bytes() {
        let tagged = |tag| HeaderMap::from_iter([(ETAG, HeaderValue::from_static(tag))]);
        assert!(strong(&tagged("\"1\"")).is_some());
        assert!(strong(&tagged("W/\"1\"")).is_none() && strong(&HeaderMap::new()).is_none());
    }
}
