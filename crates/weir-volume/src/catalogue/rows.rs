//! Where a catalogue keeps its rows: a sorted map of bytes to bytes, on a drive or in memory.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

/// One change to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// Writes the row, in place of one with the same key.
    Put {
        /// The key, by which rows are ordered.
        key: &'a [u8],
        /// The row's value.
        value: &'a [u8],
    },
    /// Removes the row, if it exists.
    Remove {
        /// The row's key.
        key: &'a [u8],
    },
}

/// Whether a row (key, value) is still wanted. Compaction threads ask it at any time and any number of times.
/// An unwanted row may be removed at once, later or never.
pub type Wanted = Arc<dyn Fn(&[u8], &[u8]) -> bool + Send + Sync>;

/// Called for each row with key and value. Returns whether to go on.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// The rows cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the catalogue cannot {act}: {why}")]
pub struct RowsError {
    /// What was tried, as a verb.
    pub act: &'static str,
    /// The reason.
    pub why: String,
}

/// What rows take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowsUsage {
    /// Bytes on the drive.
    pub disk_bytes: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes written to the drive since it was opened, compaction included.
    pub written_bytes: u64,
}

/// A sorted map of bytes to bytes. All methods may block; only threads that may block call them.
///
/// After a crash the map has a prefix of what was applied: each [`Rows::apply`] whole or not at all, none
/// without those before it, and all before the last [`Rows::sync`] that returned `Ok`.
pub trait Rows: Send + Sync + fmt::Debug {
    /// Applies changes in their order, all or none.
    ///
    /// # Errors
    /// Nothing was changed.
    fn apply(&self, changes: &[Change<'_>]) -> Result<(), RowsError>;

    /// Visits rows in the order of their keys, beginning with the first that is not before `from`, until
    /// `visit` breaks or all were visited. Rows that are applied in the meantime may be seen or not.
    ///
    /// # Errors
    /// Rows that were visited before are right.
    fn scan(&self, from: &[u8], visit: &mut Visit<'_>) -> Result<(), RowsError>;

    /// Visits the rows that have exactly these keys, which are in order, until `visit` breaks.
    ///
    /// # Errors
    /// As [`Rows::scan`].
    fn find(&self, keys: &[Vec<u8>], visit: &mut Visit<'_>) -> Result<(), RowsError> {
        let mut flow = ControlFlow::Continue(());
        for key in keys {
            self.scan(key, &mut |own, value| {
                if own == key {
                    flow = visit(own, value);
                }
                ControlFlow::Break(())
            })?;
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Makes durable what was applied before.
    ///
    /// # Errors
    /// It is not known how much of it is durable.
    fn sync(&self) -> Result<(), RowsError>;

    /// What the rows take now.
    fn usage(&self) -> RowsUsage;

    /// Lets another open them, though somebody may still hold these: everything fails from now on.
    fn close(&self) {}
}
