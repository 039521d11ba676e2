//! Charging traffic with origins to somebody while it happens. It must not wait.

use std::fmt::Debug;

/// Counts requests to origins and bytes of their responses. Called on the runtime that uses the connection;
/// it must not wait. Bytes are counted inside TLS.
pub trait Tally: Debug + Send + Sync {
    /// The first byte of a request was sent. Each retry counts.
    fn sent(&self);

    /// So many bytes were read: heads, framing and body of a response, or what comes through a tunnel.
    fn received(&self, bytes: u64);
}
