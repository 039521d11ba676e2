//! Generations and their bytes.
//!
//! The store keeps responses in memory and finds them again: an index by key, bodies of 64 KiB blocks with holes that
//! are readable while they arrive, a ceiling in bytes that is never passed, and a ledger by which things die.
//! It makes no HTTP decision: it carries heads and never reads one.
//!
//! A fill's course: [`Store::begin`] with the proof that the response may be stored, then [`Writer::push`] for each
//! piece from the origin, then [`Writer::seal`]. A reader's course: [`Store::find`], then [`Generation::blocks`] or
//! [`Generation::read`].

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod admission;
mod body;
mod budget;
pub mod catalogue;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
mod generation;
mod ghost;
mod head;
mod index;
mod ledger;
pub mod life;
mod listing;
mod placement;
mod queues;
mod random;
mod register;
#[cfg(test)]
mod samples;
mod scratch;
mod shelf;
#[cfg(any(test, feature = "testing"))]
pub mod simulation;
mod slot;
mod stocks;
mod store;
mod tier;
pub mod volume;
mod volumes;
mod watch;
mod writer;

pub use admission::{AdmissionMode, AdmissionSettings, AdmissionUsage};
pub use body::{BLOCK_BYTES, PIECE_BYTES_MAX, Piece, Read};
pub use budget::Budget;
pub use generation::{Generation, Retirement};
pub use head::{Head, HeadRef, Printed};
pub use index::{DigestMap, Folded, VARIANTS_MAX};
pub use ledger::{
    Acknowledge, Asking, Durable, Force, Judged, Ledger, LedgerFiles, LedgerFolder, LedgerState, MARKS_MAX,
    Mark, OpenError, PREFIX_BYTES_MAX, PREFIX_LENGTHS_MAX, Past, Scope, Stamp, Successor, Unreadable,
    Unwritten,
};
pub use listing::{LISTED_MAX, LOOKED_MAX, Listed, Listing, Page, Unlisted};
pub use register::{Arrival, Arriving, Bears, Distrust, Opening, Reached, Register};
pub use shelf::Lag;
pub use stocks::{Live, SiteStocks, Stock};
pub use store::{Found, NotAdmitted, Settings, Store, Usage, WINDOW_BYTES};
pub use tier::{Ask, Emptied, Gone, Place, Seating, Standing, SweepUsage, Twice};
pub use volume::Writing;
pub use volumes::{AttachError, Attached, VolumeState};
pub use watch::{Evicted, Eviction, VolumeWatcher, Watcher};
pub use writer::{Full, Unsealed, Writer};
