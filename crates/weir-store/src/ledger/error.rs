//! Why a ledger cannot be opened.

use super::record::Unreadable;

/// The ledger cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its file is no ledger that this version reads.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// Its file cannot be read.
    #[error("the file `ledger` in the state folder cannot be read: {0}")]
    Unread(#[source] std::io::Error),
    /// Its thread cannot be started.
    #[error("cannot start the ledger's thread: {0}")]
    Thread(#[source] std::io::Error),
}
