//! What a store says of what it holds: by site, usable, or within the scopes of a purge.

use std::collections::HashMap;

use weir_policy::Now;

use crate::Store;
use crate::inside::{Live, SiteStocks, StocksSeen, count, count_in_memory, live};
use crate::inside::{share_quotas, stocks, stocks_lately};
use crate::ledger::Scope;
use crate::volume::{EachDone, ReadError, Stock};

impl Store {
    /// What is held of each site, by tier, in the order of their hashes ([`Store::is_unswept`]). Walks over
    /// the index; may block.
    pub fn stocks(&self) -> Vec<SiteStocks> {
        stocks(&self.inside)
    }

    /// The same for scrapes: never blocks for long. Where memory holds many objects, they were counted a
    /// while ago.
    pub fn stocks_lately(&self, clock: fn() -> Now) -> StocksSeen {
        stocks_lately(&self.inside, clock)
    }

    /// Sets how many bytes the volumes may hold of each site, by its hash. Other sites have no quota. Each
    /// volume has a share by its weight. Beyond its quota a site's oldest objects are evicted; with a quota
    /// of 0 nothing of it is stored on a volume. Memory does not count.
    pub fn set_quotas(&self, quotas: HashMap<u64, u64>) {
        *self.inside.volumes.quotas.lock() = quotas;
        share_quotas(&self.inside);
    }

    /// What is usable now: not purged, and fresh. Reads every head, and blocks for as long as that takes.
    ///
    /// # Errors
    /// The drive fails.
    pub fn live(&self, now: Now) -> Result<Live, ReadError> {
        live(&self.inside, now)
    }

    /// What a purge of these scopes would take, each object once. Reads every head, and blocks for as long as
    /// that takes; a break of `each` ends it early.
    ///
    /// # Errors
    /// The drive fails.
    pub fn count(&self, scopes: &[Scope], now: Now, each: EachDone<'_>) -> Result<Stock, ReadError> {
        count(&self.inside, scopes, now, each)
    }

    /// How many objects a purge of these scopes would take, where only memory holds objects and no more than
    /// `looked_max`; else `None`.
    pub fn count_in_memory(&self, scopes: &[Scope], looked_max: usize) -> Option<u64> {
        count_in_memory(&self.inside, scopes, looked_max)
    }
}
