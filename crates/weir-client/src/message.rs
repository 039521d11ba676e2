//! A request as it is sent to an origin, and what comes back before its body, as plain values.
//!
//! Nothing is added here but what frames the body: `Content-Length` or `Transfer-Encoding`, and `Connection`
//! with `Upgrade` where one is asked for (RFC 9112 §6, RFC 9110 §7.8).

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::sync::mpsc;
use weir_wire::Framing;

/// The head of a request, as its caller has prepared it.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'r> {
    /// The method.
    pub method: &'r Method,
    /// The target in origin-form (`/path?query`), or `*` for `OPTIONS`; sent as it is.
    pub target: &'r [u8],
    /// End-to-end fields with `Host`. `Content-Length`, `Transfer-Encoding`, `Connection` and `Upgrade` are
    /// left out when sent: they follow from the body and `upgrade`.
    pub headers: &'r HeaderMap,
    /// The protocols to switch to, as the client named them (RFC 9110 §7.8).
    pub upgrade: Option<&'r HeaderValue>,
}

/// The body of a request.
#[derive(Debug)]
pub enum OutBody {
    /// No body. No framing field is sent.
    Empty,
    /// The whole body, which can be sent again. An empty one is sent as `Content-Length: 0`.
    Whole(Bytes),
    /// A body that is still arriving. The channel's capacity is the back-pressure.
    Stream {
        /// The parts. The channel ending without [`OutPart::End`] means that the body was broken off.
        parts: mpsc::Receiver<OutPart>,
        /// Its declared length in bytes; `None` sends it chunked.
        length: Option<u64>,
    },
}

impl OutBody {
    /// The body once more, where it is whole.
    pub fn again(&self) -> Option<OutBody> {
        match self {
            OutBody::Empty => Some(OutBody::Empty),
            OutBody::Whole(bytes) => Some(OutBody::Whole(bytes.clone())),
            OutBody::Stream { .. } => None,
        }
    }
}

/// A part of a streamed request body.
#[derive(Debug)]
pub enum OutPart {
    /// More bytes.
    Data(Bytes),
    /// The body is whole. Trailers are sent only with chunked coding.
    End(Option<HeaderMap>),
}

/// An interim response (RFC 9110 §15.2) for the client: 103, 102, or 100 where the request had `Expect`.
#[derive(Clone, Debug)]
pub struct Interim {
    /// The status, 100 to 199 without 101.
    pub status: StatusCode,
    /// Its fields as received.
    pub headers: HeaderMap,
}

/// Where interim responses go. It need not be bounded: at most [`crate::Bounds::interim_max`] are sent for a
/// response. Boxed, since a channel makes room for many at once and most requests get none.
pub type InterimSender = mpsc::UnboundedSender<Box<Interim>>;

/// How long an origin's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// There is no body.
    None,
    /// So many bytes.
    Known(u64),
    /// Not declared; the body says where it ends.
    Unknown,
    /// Until the connection ends, so that a body that broke off looks whole.
    UntilClose,
}

impl Length {
    /// What this framing says.
    pub fn of(framing: Framing) -> Length {
        match framing {
            Framing::None => Length::None,
            Framing::Length(bytes) => Length::Known(bytes),
            Framing::Chunked => Length::Unknown,
            Framing::Close => Length::UntilClose,
        }
    }

    /// The length in bytes, where it is declared.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Length::None => Some(0),
            Length::Known(bytes) => Some(bytes),
            Length::Unknown | Length::UntilClose => None,
        }
    }
}
