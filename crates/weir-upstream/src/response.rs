//! An origin's response: the head as received, the body as a stream, and its times for the log.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use weir_wire::Framing;

use crate::choice::pick::Picked;
use crate::client::body::OriginBody;
use crate::client::tunnel::Tunnel;
use crate::origin::Origin;
use crate::sessions::affinity::OriginId;

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
    pub(crate) fn of(framing: Framing) -> Length {
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

/// An origin's final response.
#[derive(Debug)]
pub struct OriginResponse {
    /// The status, 200 and above, or 101 when [`upgraded`](Self::upgraded) is there.
    pub status: StatusCode,
    /// The fields as received, hop-by-hop ones included.
    pub headers: HeaderMap,
    /// How long the body is.
    pub length: Length,
    /// The body; must be read to its end for the connection to be used again.
    pub body: OriginBody,
    /// The origin that answered.
    pub origin: Arc<Origin>,
    /// Why it was picked.
    pub picked: Option<Picked>,
    /// Its number in sessions.
    pub origin_id: OriginId,
    /// How long it took.
    pub times: Times,
    /// The connection, after a 101 that was asked for.
    pub upgraded: Option<Tunnel>,
}

/// How an exchange went, for the access log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Waiting for a connection and making one; zero when one was idle.
    pub connect: Duration,
    /// From the request's first byte sent to the end of the response head.
    pub first_byte: Duration,
    /// How often the request was retried.
    pub retries: u32,
}
