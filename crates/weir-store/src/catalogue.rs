//! What is searched on a volume: rows in the order of their bytes, kept beside the segments and made anew from them.
//!
//! A look-up never needs a catalogue, and no answer depends on it: where it is lost, late or wrong, searching takes longer.

#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod cover;
#[cfg(any(test, feature = "testing"))]
mod double;
mod recount;
mod rows;
pub(crate) mod schema;

pub(crate) use cover::{Catalogue, Progress, cache_key};
pub use cover::{CatalogueUsage, wanted};
#[cfg(any(test, feature = "testing"))]
pub use double::CrashRows;
pub(crate) use recount::Recounted;
pub use rows::{Change, Rows, RowsError, RowsUsage, Visit, Wanted};
