//! The inventory: what is cached, page by page, the first of an order, or summed up.
//!
//! What memory has and what the rows of the volumes say is read in one order and merged: that of sites and
//! keys, or of numbers where a tag is searched (`streams`). So each object is met once, wherever it lies. A
//! volume without rows that are up to date is walked afterwards, in the order of writing (`lister`). What is
//! met is compared with what is wanted (`wanted`) and taken into the answer (`taken`).
//!
//! The caller may have more to list, which the store does not know: it comes first.
//!
//! A page is full unless it is the last one. An object that comes or goes while pages are asked for may be
//! listed or not. None is listed twice. On a walked volume one whose head is written between two pages may be
//! listed twice, and one whose head is written ahead of the walk may be missed. What a purge has made dead is
//! not listed. Rows carry all that is asked of them; a head is read from the drive where the rows do not know
//! of it yet, or have no room for what it says.

mod listed;
mod lister;
mod streams;
mod taken;
mod token;
mod wanted;

pub use self::listed::{Form, Listed, Order, Page, Sum, Unlisted};
pub(crate) use self::lister::list;
pub use self::taken::LISTED_BYTES_MAX;
pub use self::wanted::{Extent, Freshness, LISTED_MAX, Listing, MediaRange, PlaceOf, UrlMatch, Wanted};

#[cfg(test)]
mod tests;
