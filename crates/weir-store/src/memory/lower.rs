//! What memory tells the tier below it. This is all that memory knows of volumes.

use std::fmt::Debug;
use std::sync::Arc;

use crate::generation::Generation;
use crate::ledger::{Ledger, Stamp};

/// The tier below memory. No method waits for a drive.
pub(crate) trait LowerTier: Debug + Send + Sync {
    /// A newer generation has begun to arrive that replaces an older one. Called under the queues' lock.
    fn note_newer(&self, newer: &Generation, older: &Generation);

    /// A generation was replaced or invalidated, and must be removed from the volumes too. Called under the
    /// queues' lock.
    fn remove(&self, generation: &Generation);

    /// A whole generation is at rest in memory. Called under the queues' lock.
    fn note_settled(&self, generation: &Arc<Generation>, ledger: &Ledger);

    /// A generation that stays in memory has a new head.
    fn note_freshened(&self, generation: &Generation, ledger: &Ledger);

    /// Whether the lower tier drops marks of the ledger itself, once its volumes were swept by them.
    fn drops_marks(&self) -> bool;

    /// Drops the marks up to a number. False where they must be kept. May be called under the queues' lock.
    fn drop_marks(&self, until: Stamp, ledger: &Ledger) -> bool;
}
