//! RocksDB as the rows of a catalogue: the only crate that names it, and the only C++ in Weir.
//!
//! It knows rows as bytes and nothing of what they say. Without the feature `rocksdb` it is empty.
//!
//! There is no log of single writes: what was applied and not yet synced is lost in a crash, all of it that
//! came after some moment. A catalogue is made from the volume's segments, which know better.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(feature = "rocksdb")]
mod open;
#[cfg(feature = "rocksdb")]
mod pace;
#[cfg(feature = "rocksdb")]
mod rows;

#[cfg(feature = "rocksdb")]
pub use open::{MEMORY_BYTES_MIN, OpenError, Settings, destroy, open};

#[cfg(feature = "rocksdb")]
#[cfg(test)]
mod tests;
