//! Who is told what goes to origins and comes from them, while it does.

use std::fmt::Debug;

/// An account of what origins are asked for and send. It is told on the runtime that uses the connection,
/// must not wait, and learns of what TLS carries, not of TLS.
pub trait Tally: Debug + Send + Sync {
    /// A request has begun to go out, on one connection: each retry anew.
    fn sent(&self);

    /// So many bytes of a response were read: its heads, its framing, its body, or what comes through a
    /// tunnel.
    fn received(&self, bytes: u64);
}
