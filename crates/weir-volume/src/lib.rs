//! A volume: a drive's folder of segments, with a flat index in RAM. Heads are opaque to it; bodies are
//! bytes.
//!
//! The segments are the log and the truth. Journal and checkpoints only spare a restart from reading the
//! segments. One thread writes: [`Volume::begin`] and what follows go through a bounded queue and never wait.
//! Every thread may read the index. What must wait for the drive is read by the volume's own threads
//! ([`Volume::on_reader`]), or by any other thread that may block. `docs/store.md` gives the design on one
//! page; `docs/format/volume.md` draws the files byte by byte.
//!
//! The life of an object: [`Volume::begin`] or [`Volume::store`] → [`Put::push`] … → [`Put::finish`]. The
//! life of a read: [`Volume::find`] (RAM only) → [`Volume::record`] (one read for a small object, body
//! included) → [`Volume::read`]. Every byte that comes out was checked ([`Checked`]). Bytes that are not
//! those that were stored are an error, and their record leaves the index.
//!
//! The folders are the layers: `format` (bytes), `index` (RAM), `write` (the engine, one thread), `read` (any
//! thread), `recover` (opening). Beside them are `catalogue` (rows to search by) and `placement` (which of
//! several volumes has a key).
//!
//! The volume does not decide whether a key's newest object supersedes the older ones (call
//! [`Volume::remove`]), what a stamp means, or how often a head may be refreshed (each refresh writes a head;
//! leave 10 s between two of an object).

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod catalogue;
mod eviction;
mod format;
mod freed;
mod index;
pub mod key;
mod numbers;
pub mod placement;
pub mod random;
mod read;
mod recover;
mod settings;
mod shared;
mod state;
mod stock;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod threads;
mod usage;
mod volume;
mod write;

pub use eviction::{Eviction, EvictionListener};
pub use format::codec;
pub use format::record::Place;
pub use format::superblock::NotAVolume;
pub use freed::{Freed, FreedWait};
pub use index::segment::Charge;
pub use numbers::{Bears, Durable, Opening, Reached};
pub use read::first::FIRST_READ_BYTES;
pub use read::known::KnownReader;
pub use read::reader::{Candidate, Checked, Part, Position, ReadError, Record};
pub use read::verify::{EachDone, Verified};
pub use read::waits::Answer;
pub use recover::identity::is_made;
pub use recover::{OpenError, Recovered};
pub use settings::{
    Clock, EXTENT_BYTES_MAX, EXTENT_DELAY, EXTENTS_MAX, FREE_BYTES_MAX, FREE_PERCENT, FULL_PAUSE,
    HEAD_BYTES_MAX, KEY_BYTES_MAX, READ_ERRORS_MAX, SIZE_BYTES_MAX, SIZE_BYTES_MIN, SYNC_INTERVAL,
    VolumeSettings, WRITE_ERRORS_MAX,
};
pub use state::VolumeState;
pub use stock::Stock;
pub use threads::Busy;
pub use usage::VolumeUsage;
pub use volume::{Put, Volume};
pub use weir_disk::{Disk, DiskFile, OsDisk, Room};
pub use write::budget::DayBudget;
pub use write::put::{PutError, PutStatus, Writing};
pub use write::reinsert;
pub use write::running::Named;
pub use write::spent::{Spent, SpentFile};

/// The unit in which a body is held: 64 KiB, aligned.
pub const BLOCK_BYTES: usize = 65536;
/// The most bytes that one read of a body returns: a block. Nothing is charged for these bytes while they go
/// out. Longer reads would come from those parts of the allocator of which each thread keeps 4 MiB.
pub const PIECE_BYTES_MAX: usize = BLOCK_BYTES;

/// The shortest segment in bytes.
pub(crate) const SEGMENT_BYTES_MIN: u64 = 64 << 10;
/// The longest segment in bytes.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// The most bits of a hash that choose a shard of the index.
pub(crate) const SHARD_BITS_MAX: u32 = 16;
