//! Generations and their bytes.
//!
//! The store keeps responses in memory and on volumes, and finds them again: an index by key, bodies of 64
//! KiB blocks that are readable while they arrive, a ceiling of memory that is never passed, and a ledger of
//! purges. It makes no HTTP decision: it carries heads and never reads one.
//!
//! A fill calls [`Store::begin`] with the proof that the response may be stored, [`Writer::push`] for each
//! piece from the origin, then [`Writer::seal`]. A reader calls [`Store::find`], then [`Generation::blocks`]
//! or [`Generation::read`].

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod admission;
mod budget;
mod digest;
pub mod drives;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
mod generation;
mod in_use;
mod inside;
mod ledger;
mod memory;
mod register;
#[cfg(test)]
mod samples;
#[cfg(any(test, feature = "testing"))]
pub mod simulation;
mod store;
mod tier;
mod volumes;
mod wait;
mod watch;

pub use weir_disk::{Disk, OsDisk};
pub use weir_volume as volume;
pub use weir_volume::catalogue;
pub use weir_volume::{
    Bears, Durable, Eviction, EvictionListener, Opening, Reached, Stock, VolumeState, Writing,
};

pub use admission::{AdmissionMode, AdmissionSettings, AdmissionUsage};
pub use budget::Budget;
pub use digest::{DigestMap, Folded};
pub use generation::{
    BLOCK_BYTES, Blocks, Generation, Head, HeadRef, PIECE_BYTES_MAX, Read, Retirement, SealedFile, Way,
};
pub use in_use::InUse;
pub use inside::{
    Ask, Extent, Form, Freshness, LISTED_BYTES_MAX, LISTED_MAX, Listed, Listing, Live, MediaRange, Order,
    Page, PlaceOf, SiteStocks, StocksSeen, Sum, Twice, Unlisted, UrlMatch, Visitor, Wanted,
};
pub use ledger::{
    Acknowledge, Asking, Change, Force, Judged, LIFETIME_MAX, Ledger, LedgerState, MARKS_MAX, Made, Mark,
    OpenError, PREFIX_BYTES_MAX, PREFIX_LENGTHS_MAX, Past, Scope, Stamp, Successor, TooMany, Unreadable,
    Unwritten,
};
pub use memory::{Lag, VARIANTS_MAX};
pub use register::{Distrust, Register};
pub use store::{
    Beside, Claim, Found, Full, HELD_BACK_MAX, NotAdmitted, Reading, STALLED_MAX, Settings, Store, Unsealed,
    Usage, WINDOW_BYTES, Writer,
};
pub use tier::{Gone, Place, SweepUsage};
pub use volumes::{AttachError, VolumeReport};
pub use wait::WriterWait;
pub use watch::{Evicted, Watcher};
