//! The catalogue: rows by which a volume is searched, in the order of their bytes. They lie beside the
//! segments and can be made again from them.
//!
//! A look-up never needs a catalogue, and no answer depends on it. Where it is lost, late or wrong, a search
//! takes longer.

mod cover;
mod recount;
mod rows;
pub mod schema;

pub use cover::{Catalogue, CatalogueUsage, Progress, Uncovered, VisitRow, wanted};
pub use recount::Recounted;
pub use rows::{Change, Rows, RowsError, RowsUsage, Visit, Wanted};
