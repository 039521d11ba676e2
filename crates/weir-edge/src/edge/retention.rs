//! Retentions as they are ordered: how long what is held stays fresh. It must not search what is held.

use std::time::Duration;

use weir_store::{Acknowledge, Force, TooMany};

use super::Edge;
use crate::purge::{self, PurgeOrder, PurgeTarget};

/// Why a retention is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unretained {
    /// A target names something that cannot exist.
    #[error("{0}")]
    Unfit(String),
    /// The ledger has no room.
    #[error(transparent)]
    TooMany(#[from] TooMany),
}

impl Edge {
    /// Makes what the targets name fresh for `lifetime` from now on, longer or shorter than it was, including
    /// what is being fetched. The ledger's thread calls `acknowledge` with the number of the largest mark
    /// when that mark is durable. The cost does not depend on how much is held.
    ///
    /// # Errors
    /// [`Unretained`]. Then nothing has changed and `acknowledge` is not called.
    pub fn retain(
        &self,
        targets: Vec<PurgeTarget>,
        lifetime: Duration,
        acknowledge: Acknowledge,
    ) -> Result<(), Unretained> {
        let order = |target| PurgeOrder { target, force: Force::Lifetime(lifetime) };
        let orders: Vec<PurgeOrder> = targets.into_iter().map(order).collect();
        let marks = purge::marks_of(&self.plan(), &orders).map_err(Unretained::Unfit)?;
        self.shared.store.retain(&marks.all, weir_clock::now(), acknowledge)?;
        Ok(())
    }

    /// Whether an order of now for a target would concern what a site holds under a key with these tags.
    pub fn concerns(&self, target: &PurgeTarget, site: &str, key: &str, tags: &[String]) -> bool {
        purge::concerns(&self.plan(), target, (site, key), tags)
    }
}
