//! What the rules see of a response from an origin. It borrows; it must not own or change anything.

use http::{HeaderMap, StatusCode};

use crate::now::Now;

/// How the body of a response ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// By its length, by its chunked coding, or because there is no body: one can tell whether it arrived
    /// whole.
    Framed,
    /// With the connection.
    Close,
}

/// A response as the rules see it: its head as the origin sent it, and when it came.
#[derive(Clone, Copy, Debug)]
pub struct ResponseView<'a> {
    /// The status.
    pub status: StatusCode,
    /// The origin's fields.
    pub headers: &'a HeaderMap,
    /// How its body ends.
    pub body_end: BodyEnd,
    /// When the request was sent to the origin.
    pub requested: Now,
    /// When the head of the response came.
    pub received: Now,
}

impl<'a> ResponseView<'a> {
    /// A response whose body, if there is one, is framed.
    pub fn new(
        status: StatusCode,
        headers: &'a HeaderMap,
        requested: Now,
        received: Now,
    ) -> ResponseView<'a> {
        ResponseView { status, headers, body_end: BodyEnd::Framed, requested, received }
    }
}
