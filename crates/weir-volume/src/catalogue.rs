//! What is searched on a volume: rows in the order of their bytes, kept beside the segments and made again
//! from them.
//!
//! A look-up never needs a catalogue, and no answer depends on it: where it is lost, late or wrong, searching
//! takes longer.

mod cover;
mod recount;
mod rows;
pub mod schema;

pub use cover::{Catalogue, CatalogueUsage, Progress, Uncovered, VisitRow, wanted};
pub use recount::Recounted;
pub use rows::{Change, Rows, RowsError, RowsUsage, Visit, Wanted};
