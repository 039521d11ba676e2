//! The store's inside: memory and volumes joined.
//!
//! A body is written to a volume while it arrives ([`VolumeWrite`]) or later ([`Inside::write_later`]). A
//! look-up that memory cannot answer asks the volumes ([`Ask`]), and loads what they hold into the index:
//! small bodies with their head, others as a place to read from. Whatever fails on a volume is a miss.

mod background;
mod emptying;
mod held;
mod layout;
mod listing;
mod load;
mod marks;
mod parts;
mod sealer;
mod stocks;
mod sweeper;
mod volumes;
mod write;

pub(crate) use self::background::start as start_background;
pub use self::emptying::Emptied;
pub(crate) use self::emptying::Emptying;
pub use self::layout::Twice;
pub(crate) use self::listing::list;
pub use self::listing::{
    Extent, Form, Freshness, LISTED_BYTES_MAX, LISTED_MAX, Listed, Listing, MediaRange, Order, Page, PlaceOf,
    Sum, Unlisted, UrlMatch, Wanted,
};
pub use self::load::{Ask, Visitor};
pub use self::stocks::{Live, SiteStocks, StocksSeen};
pub(crate) use self::stocks::{
    count, count_in_memory, is_unswept, live, share_quotas, stocks, stocks_lately,
};
pub(crate) use self::sweeper::start as start_sweeper;
pub(crate) use self::volumes::Volumes;
pub(crate) use self::write::{Keeper, VolumeWrite};

use std::sync::Arc;

use self::sealer::Sealer;
use self::stocks::Lately;
use crate::admission::Admission;
use crate::ledger::Ledger;
use crate::memory::{Limits, Memory};

/// What all handles of a store share.
#[derive(Debug)]
pub(crate) struct Inside {
    pub(crate) memory: Memory,
    pub(crate) volumes: Arc<Volumes>,
    pub(crate) sealer: Sealer,
    lately: Arc<Lately>,
}

impl Inside {
    pub(crate) fn new(limits: Limits, ledger: Ledger, admission: Admission) -> Inside {
        let volumes = Arc::new(Volumes::new(admission));
        let memory = Memory::new(limits, ledger, Arc::clone(&volumes) as _);
        Inside { memory, volumes, sealer: Sealer::new(limits.memory_bytes), lately: Arc::default() }
    }
}

#[cfg(test)]
mod tests;
