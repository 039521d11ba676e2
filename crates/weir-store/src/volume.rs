//! A volume: a drive's folder of segments, with a flat index in RAM. Heads are opaque to it, bodies are bytes.
//!
//! The segments are the log and the truth; journal and checkpoints only spare a restart the reading of them. One thread
//! writes ([`Volume::begin`] and what follows go through a bounded queue and never wait), the index is read by all, and
//! what must wait for the drive is read by the volume's own threads ([`Volume::on_reader`]) or any other that may block.
//! `docs/format/volume.md` draws the files byte by byte.
//!
//! An object's course: [`Volume::begin`] or [`Volume::store`] → [`Put::push`] … → [`Put::finish`]. A reader's course:
//! [`Volume::find`] (RAM only) → [`Volume::record`] (one read for a small object, body included) → [`Volume::read`].
//! Every byte that comes out was checked ([`Checked`]); what is not what was stored is an error and leaves the index.
//!
//! What it does not decide: whether a key's newest object supersedes the older ones (tell it, by [`Volume::remove`]), what
//! a stamp means, how often a head may be refreshed (each refresh writes a head; leave 10 s between two of an object).

mod checkpoint;
pub mod codec;
mod disk;
mod engine;
mod handle;
mod identity;
mod index;
mod intake;
pub(crate) mod journal;
mod limbo;
mod log;
pub(crate) mod number;
mod purse;
pub(crate) mod put;
mod reader;
pub(crate) mod record;
mod recover;
pub mod reinsert;
mod running;
mod scan;
mod segment;
mod settings;
mod shared;
mod single;
pub(crate) mod stocks;
mod superblock;
#[cfg(test)]
mod tests;
mod threads;
mod usage;
mod uses;
mod verify;
mod waits;

#[cfg(any(test, feature = "testing"))]
pub use disk::{CrashDisk, Fault};
pub use disk::{Disk, DiskFile, OsDisk, Room};
pub use handle::{Put, Volume};
pub use identity::is_made;
#[cfg(any(test, feature = "testing"))]
pub(crate) use index::KeyHash;
pub(crate) use log::{LOG_BEGIN, Logged};
pub use purse::DayBudget;
pub(crate) use purse::Spent;
pub use put::{Ended, Writing};
pub use reader::{Candidate, Checked, FIRST_READ_BYTES, Part, Position, ReadError, Record};
pub(crate) use record::Place;
pub use recover::{OpenError, Recovered};
pub(crate) use running::Named;
pub(crate) use segment::Charge;
pub use settings::{
    Clock, EXTENT_BYTES_MAX, EXTENT_DELAY, EXTENTS_MAX, FREE_PERCENT, FULL_PAUSE, HEAD_BYTES_MAX,
    KEY_BYTES_MAX, READ_ERRORS_MAX, SIZE_BYTES_MAX, SIZE_BYTES_MIN, SYNC_INTERVAL, VolumeSettings,
    WRITE_ERRORS_MAX,
};
pub use superblock::NotAVolume;
#[cfg(test)]
pub(crate) use tests::leave_header;
pub use threads::Busy;
pub use usage::{Health, VolumeUsage};
#[cfg(any(test, feature = "testing"))]
pub(crate) use uses::Uses;
pub use verify::Verified;
pub use waits::Answer;

/// The shortest segment in bytes.
pub(crate) const SEGMENT_BYTES_MIN: u64 = 64 << 10;
/// The longest segment in bytes.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// The most bits of a hash that choose a shard of the index.
pub(crate) const SHARD_BITS_MAX: u32 = 16;
