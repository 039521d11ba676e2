//! RocksDB as the rows of a catalogue: the only crate that names it, and the only C++ in Weir.
//!
//! It knows rows as bytes and nothing of their meaning. Without the feature `rocksdb` it is empty.
//!
//! There is no log of single writes. A crash loses all that was applied after some moment and not synced. A
//! catalogue is made from the volume's segments, which are the truth.

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
