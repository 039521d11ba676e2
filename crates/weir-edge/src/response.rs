//! A response as the rooms make it: a value that the connection sends.

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use weir_body::Ready;
use weir_front::Head;

use crate::core::Core;
use crate::deliver::source::Source;
use crate::late::Late;
use crate::limit::Pace;

/// A response to a request.
pub(crate) type Response = weir_front::Response<Core>;

/// A response without content, pace and what else there may be.
#[inline]
pub(crate) fn bare(head: Head, late: Late) -> Response {
    Response {
        head,
        late,
        length: None,
        body: Source::empty(),
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
    with_source(response, method, length, || Source::Ready(Ready(bytes)))
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
        response.body = source();
    }
    response
}

/// A response whose content goes out at this pace, where there is one.
#[inline]
pub(crate) fn paced(response: Response, pace: Option<Box<Pace>>) -> Response {
    Response { pace, ..response }
}
