//! Doubles and samples for tests, and the bodies of fuzz targets; nothing of it ships.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, clippy::disallowed_methods)]

pub mod conformance;
pub mod fuzzing;
mod rows;
pub mod samples;
mod segments;

pub use rows::CrashRows;
pub use segments::leave_header;
pub use weir_disk::testing::{CrashDisk, Fault, Folder};

pub use crate::index::KeyHash;
pub use crate::index::uses::Uses;
