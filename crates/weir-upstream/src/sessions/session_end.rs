//! What became of sessions, and how often. It must not know an origin.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::snapshot::SessionsSnapshot;

/// What became of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// It began with this response.
    Created,
    /// It is where it was.
    Kept,
    /// Its origin is gone: it is elsewhere now.
    Moved,
}

impl SessionEnd {
    /// The word of the log and the metrics.
    pub fn word(self) -> &'static str {
        match self {
            SessionEnd::Created => "created",
            SessionEnd::Kept => "kept",
            SessionEnd::Moved => "moved",
        }
    }
}

/// Counts of sessions.
#[derive(Debug, Default)]
pub(crate) struct SessionCounts {
    pub(crate) created: AtomicU64,
    pub(crate) kept: AtomicU64,
    pub(crate) moved: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl SessionCounts {
    pub(crate) fn snapshot(&self) -> SessionsSnapshot {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SessionsSnapshot {
            created: of(&self.created),
            kept: of(&self.kept),
            moved: of(&self.moved),
            refused: of(&self.refused),
        }
    }
}
