//! Where a catalogue keeps its rows: a sorted map of bytes to bytes, on a drive or in memory.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

/// One change to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// The row is there from now on, in place of one with the same key.
    Put {
        /// By which rows are ordered.
        key: &'a [u8],
        /// What is said of it.
        value: &'a [u8],
    },
    /// The row is no more; that it was there is not demanded.
    Remove {
        /// The row's key.
        key: &'a [u8],
    },
}

/// Whether a row (key, value) is still wanted. Asked by threads that tidy up, at any time and any number of
/// times; what it says no to may go, at once, later or never.
pub type Wanted = Arc<dyn Fn(&[u8], &[u8]) -> bool + Send + Sync>;

/// What is called with each row, key and value, and says whether to go on.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// The rows cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the catalogue cannot {act}: {why}")]
pub struct RowsError {
    /// What was tried, as a verb.
    pub act: &'static str,
    /// What was said.
    pub why: String,
}

/// What rows take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowsUsage {
    /// Bytes on the drive.
    pub disk_bytes: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes written to the drive since it was opened, those of tidying up included.
    pub written_bytes: u64,
}

/// A sorted map of bytes to bytes. All methods may block; they are called by threads that may.
///
/// After a crash there is a prefix of what was applied: each [`Rows::apply`] whole or not at all, none
/// without those before it, and all that came before the last [`Rows::sync`] that returned `Ok`.
pub trait Rows: Send + Sync + fmt::Debug {
    /// Makes changes, in their order, all at once.
    ///
    /// # Errors
    /// Nothing was changed.
    fn apply(&self, changes: &[Change<'_>]) -> Result<(), RowsError>;

    /// Visits rows in the order of their keys, from the first that is not before `from`, until `visit` breaks
    /// or all were visited. What is applied meanwhile may be seen or not.
    ///
    /// # Errors
    /// Rows that were visited before are as they were said.
    fn scan(&self, from: &[u8], visit: &mut Visit<'_>) -> Result<(), RowsError>;

    /// Makes durable what was applied before.
    ///
    /// # Errors
    /// It is not known what of it is.
    fn sync(&self) -> Result<(), RowsError>;

    /// What the rows take now.
    fn usage(&self) -> RowsUsage;

    /// Lets another open them, though somebody may still hold these: everything fails from now on.
    fn close(&self) {}
}
