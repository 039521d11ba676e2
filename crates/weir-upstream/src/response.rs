//! An origin's response: the head as received, the body as a stream, and its times for the log.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use weir_client::{Length, Tunnel};

use crate::body::OriginBody;
use crate::choice::pick::Picked;
use crate::origin::Origin;
use crate::sessions::affinity::OriginId;

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
