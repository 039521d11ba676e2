//! Which upstreams were written. Must not know what they are.

use std::collections::BTreeSet;

/// The names of the upstreams that were written.
pub(crate) struct Upstreams {
    pub names: BTreeSet<String>,
    /// Whether all files could be read.
    pub is_complete: bool,
}
