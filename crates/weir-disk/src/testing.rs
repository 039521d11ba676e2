//! Doubles for the tests of all crates that write files.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

mod crash;
mod folder;

pub use crash::{CrashDisk, Fault};
pub use folder::Folder;
