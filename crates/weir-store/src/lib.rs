//! Generations and their bytes.
//!
//! The store keeps responses in memory and finds them again: an index by key, bodies of 64 KiB blocks with
//! holes that are readable while they arrive, a ceiling in bytes that is never passed, and a ledger by which
//! things die. It makes no HTTP decision: it carries heads and never reads one.
//!
//! A fill's course: [`Store::begin`] with the proof that the response may be stored, then [`Writer::push`]
//! for each piece from the origin, then [`Writer::seal`]. A reader's course: [`Store::find`], then
//! [`Generation::blocks`] or [`Generation::read`].

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod admission;
mod body;
mod budget;
pub mod drives;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
mod generation;
mod ghost;
mod head;
mod index;
mod ledger;

mod listing;
mod queues;
mod register;
#[cfg(test)]
mod samples;
mod shelf;
#[cfg(any(test, feature = "testing"))]
pub mod simulation;
mod slot;
mod stocks;
mod store;
mod tier;
mod volumes;
mod watch;
mod writer;

pub use weir_disk::{Disk, OsDisk};
pub use weir_volume as volume;
pub use weir_volume::catalogue;
pub use weir_volume::{
    Bears, Durable, Eviction, EvictionListener, Opening, Reached, Stock, VolumeState, Writing,
};

pub use admission::{AdmissionMode, AdmissionSettings, AdmissionUsage};
pub use body::{BLOCK_BYTES, PIECE_BYTES_MAX, Piece, Read};
pub use budget::Budget;
pub use generation::{Generation, Retirement};
pub use head::{Head, HeadRef, Printed};
pub use index::{DigestMap, Folded, VARIANTS_MAX};
pub use ledger::{
    Acknowledge, Asking, Force, Judged, Ledger, LedgerState, MARKS_MAX, Mark, OpenError, PREFIX_BYTES_MAX,
    PREFIX_LENGTHS_MAX, Past, Scope, Stamp, Successor, Unreadable, Unwritten,
};
pub use listing::{LISTED_MAX, LOOKED_MAX, Listed, Listing, Page, Unlisted};
pub use register::{Distrust, Register};
pub use shelf::Lag;
pub use stocks::{Live, SiteStocks};
pub use store::{Found, NotAdmitted, Settings, Store, Usage, WINDOW_BYTES};
pub use tier::{Ask, Gone, Place, SweepUsage, Twice};
pub use volumes::{AttachError, VolumeReport};
pub use watch::{Evicted, Watcher};
pub use writer::{Full, Unsealed, Writer};
