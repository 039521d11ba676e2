//! What an upstream has done and holds, as plain values for metrics and `weir status`.

use std::time::Duration;

use crate::standing::Standing;

/// An upstream at one moment.
#[derive(Clone, Debug)]
pub struct UpstreamSnapshot {
    /// The upstream's name.
    pub name: String,
    /// Its origins in the order of the config.
    pub origins: Vec<OriginSnapshot>,
}

/// An origin at one moment. Counts are since the start.
#[derive(Clone, Debug)]
pub struct OriginSnapshot {
    /// The origin as configured, e.g. `https://a.example:443`.
    pub name: String,
    /// Whether it takes a share.
    pub standing: Standing,
    /// Requests under way, those that wait for a connection included, tunnels left out.
    pub in_flight: u32,
    /// Requests sent, retries included.
    pub requests: u64,
    /// Requests that failed through the origin's fault, also while the body arrived.
    pub failures: u64,
    /// Requests retried after failing here.
    pub retries: u64,
    /// Connections made.
    pub connects: u64,
    /// Requests sent on a connection that had served before.
    pub reuses: u64,
    /// Requests turned away because all connections were in use.
    pub busy: u64,
    /// Times that it was ejected.
    pub ejections: u64,
    /// Connections open now, idle ones included.
    pub connections_open: usize,
    /// Connections idle now.
    pub connections_idle: usize,
    /// Requests waiting for a connection now.
    pub waiting: usize,
    /// Tunnels and event streams now, which are not among the connections.
    pub streams: usize,
    /// Addresses known now; 0 for a name that was never looked up.
    pub addresses: usize,
    /// How long it is still left out; `None` while it takes its share.
    pub ejected_for: Option<Duration>,
}
