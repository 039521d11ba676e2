//! How far a response's content goes, by method, status and length (RFC 9110 §6.4). It must not know how a
//! version tells that to its client.

use http::StatusCode;

/// How far a response's content goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// There is none, by method or status. The length that a GET would have had may be named.
    Nothing(Option<u64>),
    /// So many bytes.
    Length(u64),
    /// Until it ends.
    Open,
}

impl Extent {
    /// That of a response with a body of `length` bytes, if that is known.
    pub(crate) fn choose(is_head: bool, status: StatusCode, length: Option<u64>) -> Extent {
        if status == StatusCode::NO_CONTENT || status.is_informational() {
            return Extent::Nothing(None);
        }
        if is_head || status == StatusCode::NOT_MODIFIED {
            return Extent::Nothing(length);
        }
        length.map_or(Extent::Open, Extent::Length)
    }

    /// The length that the head names.
    pub(crate) fn declared(self) -> Option<u64> {
        match self {
            Extent::Nothing(length) => length,
            Extent::Length(length) => Some(length),
            Extent::Open => None,
        }
    }
}
