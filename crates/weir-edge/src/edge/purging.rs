//! Purges as they are ordered. It must not search what is held, but to count it.

use weir_store::volume::{EachDone, Stock};
use weir_store::{Acknowledge, Scope};

use super::Edge;
use crate::purge::beyond::Words;
use crate::purge::{self, PurgeOrder};

/// What a purge takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purging {
    /// So many objects; `None` where finding that out would take a search.
    pub held: Option<u64>,
    /// How the URLs begin that go in place of fewer, which cannot be told apart; the names of sites that go
    /// as wholes, since the ledger has no room for so many marks of less.
    pub wider: Vec<String>,
}

impl Edge {
    /// Purges at once what the orders name, including what is being fetched. The ledger's thread calls
    /// `acknowledge` with the number of the largest mark when that mark is durable. The cost does not depend
    /// on how much is held.
    ///
    /// # Errors
    /// A sentence, where an order names something that cannot exist. Then nothing is purged and
    /// `acknowledge` is not called.
    pub fn purge(&self, orders: &[PurgeOrder], acknowledge: Acknowledge) -> Result<Purging, String> {
        let plan = self.plan();
        let mut marks = purge::marks_of(&plan, orders)?;
        let held = purge::held_of(&self.shared.store, &plan, orders, &marks.all);
        let made = self.shared.store.purge(&marks.all, weir_clock::now(), acknowledge);
        let whole = Words::of(&marks.all).beyond(&plan, &made);
        let held = held.filter(|_| whole.is_empty());
        marks.wider.extend(whole);
        Ok(Purging { held, wider: marks.wider })
    }

    /// Refuses orders that make no sense.
    ///
    /// # Errors
    /// A sentence: an order names something that cannot exist.
    pub fn check_purge(&self, orders: &[PurgeOrder]) -> Result<(), String> {
        purge::marks_of(&self.plan(), orders).map(|_| ())
    }

    /// What the orders would take, each object once: how many and their bytes. Reads every head, and blocks
    /// for as long as that takes; a break of `each` ends it early.
    ///
    /// # Errors
    /// A sentence: an order names something that cannot exist, or a drive fails.
    pub fn count_purged(&self, orders: &[PurgeOrder], each: EachDone<'_>) -> Result<Stock, String> {
        let marks = purge::marks_of(&self.plan(), orders)?.all;
        let scopes: Vec<Scope> = marks.iter().map(|mark| mark.scope).collect();
        let counted = self.shared.store.count(&scopes, weir_clock::now(), each);
        counted.map_err(|error| format!("a volume cannot be read: {error}"))
    }
}
