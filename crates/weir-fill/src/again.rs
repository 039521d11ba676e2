//! Asking an origin for the rest of a body that is here in part (RFC 9110 §14.2, §13.1.5). Two versions of a
//! body are never mixed: without a strong validator nothing is asked, and what comes must be the same version
//! to its end.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_RANGE, ETAG, IF_RANGE, RANGE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use weir_policy::Interval;
use weir_store::Generation;
use weir_upstream::Length;
use weir_upstream::{OriginBody, OriginRequest, OriginResponse, Share, Tally, Upstream};

use super::settings::Settings;
use super::witness::Witness;

/// What is read over of an origin that sends the whole where a part was asked for: 1 MiB, or as much as it
/// brings.
const SKIP_BYTES_MAX: u64 = 1 << 20;

/// How to ask the origin for the rest.
#[derive(Clone)]
pub struct Again {
    /// Whom to ask.
    pub upstream: Arc<Upstream>,
    /// Path and query as sent.
    pub target: String,
    /// The fill's request fields.
    pub headers: HeaderMap,
    /// For whom is counted what is sent and comes; of the core that asks.
    pub tally: Arc<dyn Tally>,
    /// Whose request it is: who may have caused what it meets.
    pub witness: Witness,
    /// The client whose share of the origin's connections it takes.
    pub client: Option<IpAddr>,
}

/// The rest of a body.
pub struct Rest {
    /// Its body, to be read to the end.
    pub body: OriginBody,
    /// The length of the whole.
    pub length: u64,
}

impl Again {
    /// A GET with these fields.
    pub fn request(&self, headers: HeaderMap) -> OriginRequest {
        let request = OriginRequest::new(Method::GET, self.target.clone(), headers);
        let (witness, client, share) = (Some(self.witness.number()), self.client, Share::Counted);
        OriginRequest { tally: Some(self.tally.clone()), witness, client, share, ..request }
    }

    /// The bytes of this generation from `start` to its end, if the origin still has the same version.
    ///
    /// # Cancel safety
    /// Dropped, it closes its connection.
    pub async fn rest(&self, generation: &Generation, start: u64) -> Option<Rest> {
        let etag = strong(&generation.head().stored.headers)?.clone();
        let mut headers = self.headers.clone();
        headers.insert(IF_RANGE, etag.clone());
        headers.insert(RANGE, HeaderValue::try_from(format!("bytes={start}-")).ok()?);
        let request = self.request(headers);
        let answer = self.upstream.send(request, None).await.ok()?;
        let is_same = answer.status == StatusCode::PARTIAL_CONTENT
            && strong(&answer.headers) == Some(&etag)
            && may_be_of(&answer.headers, &generation.head().stored.headers);
        let length = to_the_end(only(&answer.headers, &CONTENT_RANGE)?, start)?;
        let is_as_long = generation.length().is_none_or(|known| known == length);
        (is_same && is_as_long).then_some(Rest { body: answer.body, length })
    }
}

/// How a part is asked for, and how much is read over of an origin that sends the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOver {
    /// By its range; no more than is worth it.
    Little,
    /// By the whole, of an origin whose parts are of no use: all that comes before, and all that comes behind
    /// is kept. For readers whose head has gone out already.
    All,
}

/// A part of a body.
pub struct Part {
    /// Its body, to be read to the end.
    pub body: OriginBody,
    /// So many bytes come before those that were asked for: the origin knows no ranges.
    pub skip_bytes: u64,
    /// Up to here it goes, perhaps less far than was asked.
    pub end: u64,
}

/// Why a part is not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPart {
    /// The origin has another version by now: it has shown its entity tag.
    Changed,
    /// The origin answers as if it had another version by now, or none. This may be for the request that was
    /// sent.
    Unlike,
    /// The origin has the same version, and does not send parts of it, or not such that one can tell. This,
    /// too.
    Unable,
    /// The origin does not answer this request. Of the version nothing was learnt.
    Refused,
    /// Nothing was learnt of the version; the word for the log.
    Failed(&'static str),
}

impl NoPart {
    /// Whether a request without the fields that a client has chosen may be answered otherwise.
    pub fn may_be_of_request(self) -> bool {
        matches!(self, NoPart::Unlike | NoPart::Unable | NoPart::Refused)
    }
}

impl Again {
    /// The same for no client: with nobody's credentials, for what others will read.
    pub fn in_nobodys_name(self: &Arc<Self>) -> Arc<Again> {
        let mut again = Arc::clone(self);
        if again.headers.contains_key(AUTHORIZATION) {
            Arc::make_mut(&mut again).headers.remove(AUTHORIZATION);
        }
        again
    }

    /// The same without any field that a client has chosen, as far as what is stored does not depend on it.
    pub fn without_client(&self, generation: &Generation, settings: &dyn Settings) -> Again {
        let headers = settings.for_nobody(&self.headers, generation);
        Again { headers, ..self.clone() }
    }

    /// The bytes `want` of a generation, if the origin still has the same version.
    ///
    /// # Errors
    /// Why they are not to be had.
    ///
    /// # Cancel safety
    /// Dropped, it closes its connection.
    pub async fn part(
        &self,
        generation: &Generation,
        want: Interval,
        over: ReadOver,
    ) -> Result<Part, NoPart> {
        let head = generation.head();
        let etag = strong(&head.stored.headers).ok_or(NoPart::Failed("no-validator"))?.clone();
        drop(head);
        let length = generation.length().ok_or(NoPart::Failed("no-length"))?;
        let range = format!("bytes={}-{}", want.start, want.end - 1);
        let mut headers = self.headers.clone();
        if over == ReadOver::Little {
            headers.insert(IF_RANGE, etag.clone());
            headers.insert(RANGE, HeaderValue::try_from(range).map_err(|_| NoPart::Failed("no-range"))?);
        }
        let mut request = self.request(headers);
        // Origins that disagree on what they have would take turns otherwise.
        request.prefer = generation.origin().cloned();
        let sent = self.upstream.send(request, None).await;
        let answer = sent.map_err(|error| NoPart::Failed(error.word()))?;
        generation.set_origin(answer.origin.name_shared());
        let head = generation.head();
        part_in(answer, &head.stored.headers, want, (length, over))
    }
}

/// What an answer has of the bytes `want` of a whole of this length that is stored with these fields.
fn part_in(
    answer: OriginResponse,
    stored: &HeaderMap,
    want: Interval,
    (length, over): (u64, ReadOver),
) -> Result<Part, NoPart> {
    let said = &answer.headers;
    let has_tag = strong(said).is_some() && strong(said) == strong(stored) && may_be_of(said, stored);
    let is_other = strong(said).is_some() && strong(said) != strong(stored);
    let other = if is_other { NoPart::Changed } else { NoPart::Unlike };
    // The whole says of itself what a part need not say.
    let is_as_whole =
        is_coded_alike(said, stored) && !matches!(answer.length, Length::Known(whole) if whole != length);
    match answer.status {
        StatusCode::PARTIAL_CONTENT => {
            let range = only(said, &CONTENT_RANGE).and_then(part_of);
            let (start, end, whole) = range.ok_or(NoPart::Unable)?;
            if !has_tag || whole != length {
                return Err(other);
            }
            // More than was asked for is as good, where reading over it costs less than it brings.
            let skip_bytes = want.start.checked_sub(start).ok_or(NoPart::Unable)?;
            let is_framed = !matches!(answer.length, Length::Known(bytes) if bytes != end - start);
            let is_it = is_framed && end > want.start && skip_bytes <= skip_bytes_max(want);
            let end = end.min(want.end);
            is_it.then_some(Part { body: answer.body, skip_bytes, end }).ok_or(NoPart::Unable)
        }
        StatusCode::OK if !has_tag || !is_as_whole => Err(other),
        StatusCode::OK if over == ReadOver::All => {
            Ok(Part { body: answer.body, skip_bytes: want.start, end: length })
        }
        StatusCode::OK if want.start <= skip_bytes_max(want) => {
            Ok(Part { body: answer.body, skip_bytes: want.start, end: want.end })
        }
        StatusCode::OK => Err(NoPart::Unable),
        StatusCode::NOT_FOUND
        | StatusCode::GONE
        | StatusCode::PRECONDITION_FAILED
        | StatusCode::RANGE_NOT_SATISFIABLE => Err(NoPart::Unlike),
        status if status.is_server_error() => Err(NoPart::Failed("origin-status")),
        _ => Err(NoPart::Refused),
    }
}

fn skip_bytes_max(want: Interval) -> u64 {
    want.length().max(SKIP_BYTES_MAX)
}

/// The entity tag, where it is a strong one (RFC 9110 §8.8.1); of several none can be told to be it.
pub fn strong(headers: &HeaderMap) -> Option<&HeaderValue> {
    only(headers, &ETAG).filter(|etag| etag.as_bytes().starts_with(b"\""))
}

/// A field that is there once.
pub(super) fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

/// Whether a part may be of what is stored: two codings of one content are two representations, whatever
/// their tags (RFC 9110 §8.8.3.3). It need not say its coding (§15.3.7).
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

/// First byte, end and whole length of a `Content-Range` that makes sense.
pub(super) fn part_of(range: &HeaderValue) -> Option<(u64, u64, u64)> {
    let (span, length) = range.to_str().ok()?.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = span.split_once('-')?;
    let (first, end, length) = (number(first)?, number(last)?.checked_add(1)?, number(length)?);
    (first < end && end <= length).then_some((first, end, length))
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
