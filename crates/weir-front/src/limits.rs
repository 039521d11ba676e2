//! What clients may, and when they are cut off.

use std::time::Duration;

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
    /// The least rate at which a response is taken that holds an origin's connection, in bytes a second.
    pub read_rate_min: u64,
    /// Of a request's body so much is held back before an origin's connection is taken.
    pub body_hold_bytes: usize,
    /// From the end of the client's side to the end of the request under way, where the client takes nothing
    /// of it.
    pub half_close_max: Duration,
    /// Connections of all clients: beyond, the longest idle are closed.
    pub connections_max: usize,
    /// Connections of one client, or requests of one that a trusted proxy names: beyond, they are turned
    /// away.
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
            read_rate_min: 256,
            body_hold_bytes: 64 << 10,
            half_close_max: Duration::from_secs(2),
            connections_max: usize::MAX,
            per_client_max: usize::MAX,
            tunnel_idle_max: Duration::from_secs(3600),
        }
    }
}
