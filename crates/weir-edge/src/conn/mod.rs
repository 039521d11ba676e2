//! Connections of clients: [`h1`] reads requests one after another and walks each; [`client`] is the
//! socket with its deadlines; [`body`] is a request's body. They must not know the cache.

pub(crate) mod body;
pub(crate) mod client;
pub(crate) mod h1;

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_wire::{RequestReader, Version};

use self::body::RequestBody;
use self::client::Client;
use crate::listen::Peer;
use crate::transform::Trust;

/// How long, how much and how slow a client may be. Each limit has its status in `docs/guide`.
#[derive(Clone, Debug)]
pub struct ClientLimits {
    /// Request line, head and fields.
    pub head: weir_wire::Limits,
    /// Bytes of a request body.
    pub body_bytes_max: u64,
    /// From the first byte of a head to its last: 408.
    pub head_time_max: Duration,
    /// Between two requests.
    pub idle_time_max: Duration,
    /// The least rate of a request body, in bytes a second, after the first ten seconds: 408.
    pub body_rate_min: u64,
    /// Without progress in sending.
    pub send_stall_max: Duration,
    /// From the end of the client's side to the end of the request under way, where the client takes nothing of it.
    pub half_close_max: Duration,
    /// Connections of all clients: beyond, the longest idle are closed.
    pub connections_max: usize,
    /// Connections of one client, or requests of one that a trusted proxy names: beyond, they are turned away.
    pub per_client_max: usize,
    /// Without a byte in either direction of a tunnel, or on an event stream.
    pub tunnel_idle_max: Duration,
}

impl Default for ClientLimits {
    fn default() -> ClientLimits {
        ClientLimits {
            head: weir_wire::Limits::default(),
            body_bytes_max: 10 << 30,
            head_time_max: Duration::from_secs(10),
            idle_time_max: Duration::from_secs(60),
            body_rate_min: 256,
            send_stall_max: Duration::from_secs(60),
            half_close_max: Duration::from_secs(2),
            connections_max: usize::MAX,
            per_client_max: usize::MAX,
            tunnel_idle_max: Duration::from_secs(3600),
        }
    }
}

/// What stays the same for all requests of a connection.
pub(crate) struct Conn {
    pub(crate) client: Client,
    pub(crate) reader: RequestReader,
    pub(crate) body: RequestBody,
    pub(crate) peer: Peer,
    pub(crate) trust: Trust,
    pub(crate) limits: Arc<ClientLimits>,
    /// `http`, until listeners speak TLS.
    pub(crate) scheme: &'static str,
    /// Since when no request is under way.
    pub(crate) free_since: Instant,
}

/// Whether another request may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The connection goes on.
    KeepAlive,
    /// It is closed; the client may still be sending.
    Close,
    /// It is closed at once, in the middle of a message; framing tells the client so.
    Cut,
    /// It is reset, so that what was sent is not taken for a whole message.
    Reset,
}

/// Prints the persistence field where the version's default is not meant (RFC 9112 §9.3).
pub(crate) fn print_persistence(out: &mut Vec<u8>, after: After, version: Version) {
    match (after, version) {
        (After::KeepAlive, Version::Http11) => {}
        (After::KeepAlive, Version::Http10) => out.extend_from_slice(b"connection: keep-alive\r\n"),
        _ => out.extend_from_slice(b"connection: close\r\n"),
    }
}
