//! The catalogue: rows by which a volume is searched, in the order of their bytes. They lie beside the
//! segments and can be made again from them.
//!
//! A look-up never needs a catalogue, and no answer depends on it. Where it is lost, late or wrong, a search
//! takes longer.

mod cover;
mod objects;
mod recount;
mod rows;
pub mod schema;
pub(crate) mod summary;

pub use cover::{Catalogue, CatalogueUsage, Progress, Uncovered, VisitRow, wanted};
pub use objects::{Looked, Search, Seen, name_by_key};
pub use recount::Recounted;
pub use rows::{Change, Rows, RowsError, RowsUsage, Visit, Wanted};
pub use summary::{Held, ROW_SEGMENTS_MAX, ROW_TAGS_MAX, Summary};
