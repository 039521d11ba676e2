//! A response as the rooms make it: a value that the connection sends.

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use weir_front::{Body, Cut, Head, SealedPart};

use crate::core::Core;
use crate::deliver::Body as _;
use crate::deliver::source::Source;
use crate::late::Late;
use crate::limit::Pace;

/// A response to a request.
pub(crate) type Response = weir_front::Response<Core>;

/// A response's content.
pub(crate) struct Content(Source);

/// A response without content, pace and what else there may be.
#[inline]
pub(crate) fn bare(head: Head, late: Late) -> Response {
    Response {
        head,
        late,
        length: None,
        body: Content(Source::Empty),
        pace: None,
        upload: None,
        switch: None,
        must_close: false,
    }
}

/// No response: the client has left.
#[inline]
pub(crate) fn none() -> Response {
    bare(Head::None, Late::default())
}

/// A head that belongs to this response alone.
#[inline]
pub(crate) fn made(status: StatusCode, fields: HeaderMap, late: Late) -> Response {
    bare(Head::Made(status, Box::new(fields)), late)
}

/// A response with these bytes as content, where method and status allow content.
#[inline]
pub(crate) fn with_bytes(response: Response, method: &Method, bytes: Bytes) -> Response {
    let length = Some(bytes.len() as u64);
    with_source(response, method, length, || Source::Bytes(bytes))
}

/// A response with content of `length` bytes, where the length is known. `source` is called only where method
/// and status allow content.
#[inline]
pub(crate) fn with_source(
    mut response: Response,
    method: &Method,
    length: Option<u64>,
    source: impl FnOnce() -> Source,
) -> Response {
    response.length = length;
    let status = response.head.status().unwrap_or_default();
    let has_none = method == Method::HEAD
        || status.is_informational()
        || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if !has_none {
        response.body = Content(source());
    }
    response
}

/// A response whose content goes out at this pace, where there is one.
#[inline]
pub(crate) fn paced(response: Response, pace: Option<Box<Pace>>) -> Response {
    Response { pace, ..response }
}

impl Body for Content {
    fn at_hand(&self) -> Option<(&[Bytes], usize, u64)> {
        match &self.0 {
            Source::Whole(whole) => whole.at_hand(),
            Source::Held(held) => held.blocks(),
            Source::File(reading) => reading.at_hand(),
            Source::Empty | Source::Bytes(_) | Source::List(_) | Source::Parts(_) | Source::Origin(..) => {
                None
            }
        }
    }

    fn advance(&mut self, bytes: u64) {
        match &mut self.0 {
            Source::Whole(whole) => whole.advance(bytes),
            Source::Held(held) => held.advance(bytes),
            Source::File(reading) => reading.advance(bytes),
            Source::Empty | Source::Bytes(_) | Source::List(_) | Source::Parts(_) | Source::Origin(_) => {}
        }
    }

    fn sealed(&self) -> Option<SealedPart<'_>> {
        match &self.0 {
            Source::Whole(whole) => whole.sealed(),
            Source::File(reading) => reading.sealed(),
            Source::Empty
            | Source::Bytes(_)
            | Source::Held(_)
            | Source::List(_)
            | Source::Parts(_)
            | Source::Origin(_) => None,
        }
    }

    async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, Cut> {
        self.0.next(bytes_max).await.map_err(|cut| Cut { word: cut.word })
    }

    fn holds_origin(&self) -> bool {
        self.0.holds_origin()
    }

    fn let_go(&mut self, unsent: Bytes) -> Option<Bytes> {
        let kept = self.0.let_go(unsent);
        if kept.is_none() && self.0.is_sent() {
            self.0 = Source::Empty;
        }
        kept
    }

    fn may_let_go(&self) -> bool {
        self.0.may_let_go()
    }

    fn trailers(&mut self) -> Option<HeaderMap> {
        let Source::Origin(passed) = &mut self.0 else { return None };
        let mut trailers = passed.body.trailers()?;
        passed.route.strip_response(&mut trailers);
        Some(trailers)
    }
}
