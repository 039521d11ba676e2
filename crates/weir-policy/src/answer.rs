//! What is sent of a stored response: all of it, some ranges, or only the news that it is unchanged (RFC 9110
//! §13.2.2, §14).

use crate::condition::{Outcome, evaluate, range_stands};
use crate::consult::{Ask, AskKind};
use crate::intervals::Interval;
use crate::range::{Wanted, wanted};
use crate::request::RequestView;
use crate::stored::Stored;
use http::{HeaderValue, StatusCode};

/// The answer to a request from a stored response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The stored response, whole.
    Full,
    /// 304.
    NotModified,
    /// 412.
    PreconditionFailed,
    /// 206 with these bytes.
    Partial(Interval, ContentRange),
    /// 206 with several parts, as `multipart/byteranges` (RFC 9110 §14.6, §15.3.7.2).
    Parts(Parts),
    /// 416. The value gives the length of the body.
    Unsatisfiable(ContentRange),
}

/// Several parts of a body, in the order in which they are sent: at least two, none empty, none beyond the
/// end, and no two that overlap or touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    parts: Vec<Interval>,
    length: u64,
}

impl Parts {
    /// Each part with its Content-Range.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Interval, ContentRange)> + ExactSizeIterator + '_ {
        let length = self.length;
        self.parts.iter().map(move |part| (*part, ContentRange { part: Some(*part), length }))
    }
}

/// The field Content-Range (RFC 9110 §14.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentRange {
    part: Option<Interval>,
    length: u64,
}

impl ContentRange {
    /// The field's value: `bytes 0-4/10`, or `bytes */10` if nothing is sent.
    pub fn value(&self) -> HeaderValue {
        let text = self.to_string();
        // Invariant: digits and these marks are legal in a field value.
        HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("bytes */0"))
    }
}

impl std::fmt::Display for ContentRange {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.part {
            Some(part) => write!(out, "bytes {}-{}/{}", part.start, part.end - 1, self.length),
            None => write!(out, "bytes */{}", self.length),
        }
    }
}

/// What to send of `stored`, whose body has `length` bytes (`None`: not known yet, so ranges are not
/// answered). Of its fields, [`is_in_304`](crate::is_in_304) says which go into a 304.
pub fn answer(request: &RequestView<'_>, ask: &Ask, stored: &Stored, length: Option<u64>) -> Answer {
    if ask.is_conditional() {
        match evaluate(request.headers, stored) {
            Outcome::Hold => {}
            Outcome::NotModified => return Answer::NotModified,
            Outcome::Failed => return Answer::PreconditionFailed,
        }
    }
    let is_ranged = ask.is_range() && ask.kind == AskKind::Get && stored.status == StatusCode::OK;
    let Some(length) = length.filter(|_| is_ranged) else {
        return Answer::Full;
    };
    if !range_stands(request.headers, stored) {
        return Answer::Full;
    }
    match wanted(request.headers, length) {
        Wanted::All => Answer::Full,
        Wanted::Part(part) => Answer::Partial(part, ContentRange { part: Some(part), length }),
        Wanted::Parts(parts) => Answer::Parts(Parts { parts, length }),
        Wanted::Nothing => Answer::Unsatisfiable(ContentRange { part: None, length }),
    }
}

#[cfg(test)]
mod tests;
