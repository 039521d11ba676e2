//! Asks an origin for the rest of a body that is held in part (RFC 9110 §14.2, §13.1.5). It must never mix
//! two versions of a body: without a strong validator nothing is asked for, and what comes must be the same
//! version to its end.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_RANGE, COOKIE, ETAG, IF_RANGE, RANGE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use weir_observe::Purpose;
use weir_policy::Interval;
use weir_share::Client;
use weir_store::Generation;
use weir_upstream::Length;
use weir_upstream::{OriginBody, OriginRequest, OriginResponse, Picking, Share, Tally, Upstream};

use super::asks::{Asks, Cause};
use super::settings::Settings;
use super::witness::Witness;

/// How much is skipped where an origin sends more than the part that was asked for: 1 MiB, or as much as is
/// wanted.
const SKIP_BYTES_MAX: u64 = 1 << 20;

/// How to ask the origin again.
#[derive(Clone)]
pub struct Refetch {
    /// The upstream to ask.
    pub upstream: Arc<Upstream>,
    /// Path and query as sent.
    pub target: Bytes,
    /// The fill's request fields.
    pub headers: Arc<HeaderMap>,
    /// The site that traffic is charged to, on the core that asks.
    pub tally: Arc<dyn Tally>,
    /// The client that may have caused what the request meets.
    pub witness: Witness,
    /// The client whose share of the origin's connections is used.
    pub client: Option<Client>,
    /// What picks know of it: nothing of a client.
    pub picking: Picking,
    /// The client's request, where requests to origins have a log.
    pub cause: Option<Arc<Cause>>,
}

/// The rest of a body.
pub struct Remainder {
    /// The response's body, to be read to its end.
    pub body: OriginBody,
    /// So many bytes come before those that were asked for.
    pub skip_bytes: u64,
    /// The length of the whole body, in bytes, where it is known. Otherwise the rest says where it ends.
    pub length: Option<u64>,
}

impl Refetch {
    /// A GET with these fields.
    pub fn request(&self, headers: impl Into<Arc<HeaderMap>>) -> OriginRequest {
        let request = OriginRequest::new(Method::GET, self.target.clone(), headers);
        let (witness, client, share) = (Some(self.witness.number()), self.client, Share::Counted);
        let (tally, picking) = (Some(self.tally.clone()), self.picking.clone());
        OriginRequest { tally, witness, client, share, picking, ..request }
    }

    /// A task will soon send a transfer's first request: the log of requests to origins names it.
    pub(super) fn expect(&self, transfer: impl FnOnce() -> Arc<Asks>) {
        if let Some(cause) = &self.cause {
            let asks = transfer();
            asks.expect();
            cause.reads(&asks);
        }
    }

    /// The request, noted for the log of requests to origins as one of a transfer.
    pub fn noted(
        &self,
        request: OriginRequest,
        purpose: Purpose,
        transfer: impl FnOnce() -> Arc<Asks>,
    ) -> OriginRequest {
        let Some(cause) = &self.cause else { return request };
        let asks = transfer();
        cause.reads(&asks);
        let log = Some(asks.begin(cause, self.upstream.name(), purpose, &request));
        OriginRequest { log, ..request }
    }

    /// The bytes of this generation from `start` to its end, if the origin still has the same version. An
    /// origin that sends no parts sends what comes before as well.
    ///
    /// # Cancel safety
    /// Dropped, it closes its connection.
    pub async fn rest(
        &self,
        generation: &Generation,
        start: u64,
        transfer: impl FnOnce() -> Arc<Asks>,
    ) -> Option<Remainder> {
        let etag = strong(&generation.head().stored.headers)?.clone();
        let mut headers = HeaderMap::clone(&self.headers);
        headers.insert(IF_RANGE, etag.clone());
        headers.insert(RANGE, HeaderValue::try_from(format!("bytes={start}-")).ok()?);
        let request = self.noted(self.request(headers), Purpose::Rest, transfer);
        let answer = self.upstream.send(request, None).await.ok()?;
        let head = generation.head();
        let (said, stored) = (&answer.headers, &head.stored.headers);
        let (length, skip_bytes, is_alike) = match answer.status {
            StatusCode::PARTIAL_CONTENT => {
                (Some(to_the_end(only(said, &CONTENT_RANGE)?, start)?), 0, may_be_of(said, stored))
            }
            StatusCode::OK => (answer.length.bytes(), start, is_coded_alike(said, stored)),
            _ => return None,
        };
        let is_same = is_alike && strong(said) == Some(&etag);
        drop(head);
        let known = generation.length();
        let is_as_long =
            length.is_none_or(|length| start < length && known.is_none_or(|known| known == length));
        let length = length.or(known);
        // Otherwise a body that broke off would look whole.
        let is_end_seen = length.is_some() || answer.length != Length::UntilClose;
        (is_same && is_as_long && is_end_seen).then_some(Remainder { body: answer.body, skip_bytes, length })
    }
}

/// Drops what `bytes` has of the `skip_bytes` that come before those that were asked for.
pub(crate) fn skip(bytes: &mut Bytes, skip_bytes: &mut u64) {
    let before = bytes.len().min(usize::try_from(*skip_bytes).unwrap_or(usize::MAX));
    bytes.advance(before);
    *skip_bytes -= before as u64;
}

/// How a part is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchBy {
    /// By its range. Of an origin that sends more, a bounded number of bytes is skipped.
    Range,
    /// By the whole, of an origin whose parts are of no use: all that comes before is skipped, and all that
    /// follows is kept. For readers whose response head has been sent already.
    Whole,
}

/// A part of a body.
pub struct Part {
    /// Its body, to be read to the end.
    pub body: OriginBody,
    /// So many bytes come before those that were asked for.
    pub skip_bytes: u64,
    /// It ends here, perhaps earlier than was asked for.
    pub end: u64,
}

/// Why a part cannot be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartError {
    /// The origin has another version by now: its entity tag says so.
    Changed,
    /// The origin answers as if it had another version by now, or none. The request may be the reason.
    Unlike,
    /// The origin has the same version and does not send parts of it, or none that can be told to be of it.
    /// The request may be the reason.
    Unable,
    /// The origin refuses the request. Its version is not known.
    Refused,
    /// No answer that says anything of the version; the word for the log.
    Failed(&'static str),
}

impl PartError {
    /// Whether a request without the fields that a client has chosen may be answered differently.
    pub fn may_be_of_request(self) -> bool {
        matches!(self, PartError::Unlike | PartError::Unable | PartError::Refused)
    }
}

impl Refetch {
    /// The same without credentials, for bytes that others will read.
    pub fn anonymous(self: &Arc<Self>) -> Arc<Refetch> {
        let mut refetch = Arc::clone(self);
        if refetch.headers.contains_key(AUTHORIZATION) {
            Arc::make_mut(&mut Arc::make_mut(&mut refetch).headers).remove(AUTHORIZATION);
        }
        refetch
    }

    /// The same with none of a client's cookies but those on which the stored response depends.
    pub fn without_cookies(
        self: &Arc<Self>,
        generation: &Generation,
        settings: &dyn Settings,
    ) -> Arc<Refetch> {
        let mut refetch = Arc::clone(self);
        if refetch.headers.contains_key(COOKIE) {
            let kept = settings.anonymous_fields(&refetch.headers, generation);
            let headers = Arc::make_mut(&mut Arc::make_mut(&mut refetch).headers);
            headers.remove(COOKIE);
            for cookies in kept.get_all(COOKIE) {
                headers.append(COOKIE, cookies.clone());
            }
        }
        refetch
    }

    /// The same without the fields that a client has chosen, unless the stored response depends on them.
    pub fn without_client(&self, generation: &Generation, settings: &dyn Settings) -> Refetch {
        let headers = Arc::new(settings.anonymous_fields(&self.headers, generation));
        Refetch { headers, ..self.clone() }
    }

    /// The bytes `want` of a generation, if the origin still has the same version.
    ///
    /// # Errors
    /// Why they cannot be loaded.
    ///
    /// # Cancel safety
    /// Dropped, it closes its connection.
    pub async fn part(
        &self,
        generation: &Generation,
        want: Interval,
        by: FetchBy,
        transfer: impl FnOnce() -> Arc<Asks>,
    ) -> Result<Part, PartError> {
        let head = generation.head();
        let etag = strong(&head.stored.headers).ok_or(PartError::Failed("no-validator"))?.clone();
        drop(head);
        let length = generation.length().ok_or(PartError::Failed("no-length"))?;
        let range = format!("bytes={}-{}", want.start, want.end - 1);
        let mut headers = self.headers.clone();
        if by == FetchBy::Range {
            let headers = Arc::make_mut(&mut headers);
            headers.insert(IF_RANGE, etag.clone());
            headers.insert(RANGE, HeaderValue::try_from(range).map_err(|_| PartError::Failed("no-range"))?);
        }
        let mut request = self.noted(self.request(headers), Purpose::Gap, transfer);
        // Otherwise origins that have different versions would take turns.
        request.prefer = generation.origin().cloned();
        let sent = self.upstream.send(request, None).await;
        let answer = sent.map_err(|error| PartError::Failed(error.word()))?;
        generation.set_origin(answer.origin.name_shared());
        let head = generation.head();
        part_in(answer, &head.stored.headers, want, (length, by))
    }
}

/// The bytes `want` in an answer; `stored` are the fields of the stored response, `length` is that of its
/// whole body.
fn part_in(
    answer: Box<OriginResponse>,
    stored: &HeaderMap,
    want: Interval,
    (length, by): (u64, FetchBy),
) -> Result<Part, PartError> {
    let said = &answer.headers;
    let has_tag = strong(said).is_some() && strong(said) == strong(stored) && may_be_of(said, stored);
    let is_other = strong(said).is_some() && strong(said) != strong(stored);
    let other = if is_other { PartError::Changed } else { PartError::Unlike };
    // A whole response says what a part need not say.
    let is_as_whole =
        is_coded_alike(said, stored) && !matches!(answer.length, Length::Known(whole) if whole != length);
    match answer.status {
        StatusCode::PARTIAL_CONTENT => {
            let range = only(said, &CONTENT_RANGE).and_then(part_of);
            let (start, end, whole) = range.ok_or(PartError::Unable)?;
            if !has_tag || whole != length {
                return Err(other);
            }
            // More than was asked for will do, where skipping costs less than what is wanted.
            let skip_bytes = want.start.checked_sub(start).ok_or(PartError::Unable)?;
            let is_framed = !matches!(answer.length, Length::Known(bytes) if bytes != end - start);
            let is_it = is_framed && end > want.start && skip_bytes <= skip_bytes_max(want);
            let end = end.min(want.end);
            is_it.then_some(Part { body: answer.body, skip_bytes, end }).ok_or(PartError::Unable)
        }
        StatusCode::OK if !has_tag || !is_as_whole => Err(other),
        StatusCode::OK if by == FetchBy::Whole => {
            Ok(Part { body: answer.body, skip_bytes: want.start, end: length })
        }
        StatusCode::OK if want.start <= skip_bytes_max(want) => {
            Ok(Part { body: answer.body, skip_bytes: want.start, end: want.end })
        }
        StatusCode::OK => Err(PartError::Unable),
        StatusCode::NOT_FOUND
        | StatusCode::GONE
        | StatusCode::PRECONDITION_FAILED
        | StatusCode::RANGE_NOT_SATISFIABLE => Err(PartError::Unlike),
        status if status.is_server_error() => Err(PartError::Failed("origin-status")),
        _ => Err(PartError::Refused),
    }
}

fn skip_bytes_max(want: Interval) -> u64 {
    want.length().max(SKIP_BYTES_MAX)
}

/// The entity tag, where there is one and it is strong (RFC 9110 §8.8.1).
pub fn strong(headers: &HeaderMap) -> Option<&HeaderValue> {
    only(headers, &ETAG).filter(|etag| etag.as_bytes().starts_with(b"\""))
}

/// The value of a field that occurs once.
pub(super) fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

/// Whether a part may belong to the stored response: two codings of one content are two representations,
/// whatever their tags (RFC 9110 §8.8.3.3). A part need not say its coding (§15.3.7).
fn may_be_of(part: &HeaderMap, stored: &HeaderMap) -> bool {
    !part.contains_key(CONTENT_ENCODING) || is_coded_alike(part, stored)
}

pub(super) fn is_coded_alike(one: &HeaderMap, other: &HeaderMap) -> bool {
    one.get_all(CONTENT_ENCODING).iter().eq(other.get_all(CONTENT_ENCODING))
}

/// The whole length, where a `Content-Range` goes from `start` to the end (RFC 9110 §14.4).
fn to_the_end(range: &HeaderValue, start: u64) -> Option<u64> {
    let (first, end, length) = part_of(range)?;
    (first == start && end == length).then_some(length)
}

/// First byte, end (exclusive) and whole length of a valid `Content-Range`.
pub(super) fn part_of(range: &HeaderValue) -> Option<(u64, u64, u64)> {
    let (span, length) = range.to_str().ok()?.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = span.split_once('-')?;
    let (first, end, length) = (number(first)?, number(last)?.checked_add(1)?, number(length)?);
    (first < end && end <= length).then_some((first, end, length))
}

/// Digits and nothing else, not even a sign.
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
