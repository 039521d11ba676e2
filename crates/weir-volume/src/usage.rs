//! What a volume holds, what was done, and the state that follows from it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::settings::{READ_ERRORS_MAX, WRITE_ERRORS_MAX};
use crate::state::VolumeState;

/// What a volume holds and what was done since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeUsage {
    /// The ceiling in bytes.
    pub size_bytes: u64,
    /// What all files take: segments (the one being written counts whole), index, and what readers hold of
    /// dropped ones.
    pub used_bytes: u64,
    /// Objects in the index, partial ones included.
    pub objects: u64,
    /// Segments that are there.
    pub segments: u64,
    /// What the index takes in memory, in bytes.
    pub index_memory_bytes: u64,
    /// What waits to be written, in bytes; at most what the settings say, and a reserve.
    pub queued_bytes: u64,
    /// Bytes of bodies written.
    pub body_bytes: u64,
    /// Bytes of headers, keys, heads, tables, checksums and padding written.
    pub head_bytes: u64,
    /// Bytes of the journal written.
    pub journal_bytes: u64,
    /// Bytes of checkpoints written.
    pub checkpoint_bytes: u64,
    /// Objects whose bytes turned out not to be what was stored; they were dropped.
    pub damaged: u64,
    /// Segments dropped to make room.
    pub segments_dropped: u64,
    /// Objects that went with them.
    pub evicted: u64,
    /// Objects that were written again because they were still wanted.
    pub reinserted: u64,
    /// Bytes of their bodies.
    pub reinserted_bytes: u64,
    /// Objects that went since their site was at its quota.
    pub over_quota: u64,
    /// Objects that went since a purge had made them dead.
    pub swept: u64,
    /// Segments that went since nothing in them was of use any more.
    pub segments_freed: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes, syncs and the like that failed.
    pub write_errors: u64,
    /// How often the file system, or the volume, was full.
    pub full: u64,
    /// Objects whose storing ended because the queue was full.
    pub queue_full: u64,
    /// The last epoch that is durable.
    pub durable_epoch: u64,
    /// Its state.
    pub state: VolumeState,
}

/// The counts behind [`VolumeUsage`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) body_bytes: AtomicU64,
    pub(crate) head_bytes: AtomicU64,
    pub(crate) journal_bytes: AtomicU64,
    pub(crate) checkpoint_bytes: AtomicU64,
    pub(crate) damaged: AtomicU64,
    pub(crate) segments_dropped: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) segments_freed: AtomicU64,
    pub(crate) swept: AtomicU64,
    pub(crate) read_errors: AtomicU64,
    pub(crate) write_errors: AtomicU64,
    /// Those of before writing was tried again.
    write_errors_before: AtomicU64,
    pub(crate) full: AtomicU64,
    pub(crate) queue_full: AtomicU64,
    pub(crate) durable_epoch: AtomicU64,
    /// Storing rests, since there was no room.
    pub(crate) is_full: AtomicBool,
    /// Its folder was not there when it was last looked for.
    pub(crate) is_gone: AtomicBool,
    /// It was sealed, and could be written when it was last looked for.
    pub(crate) is_unsealed: AtomicBool,
    /// It is being looked for.
    pub(crate) is_looked_for: AtomicBool,
    /// Removals could not be written.
    pub(crate) owes: AtomicBool,
    /// Set when a thread of the volume has panicked or the file system lets nothing be written.
    stopped: AtomicU64,
}

const STOPPED_WRITING: u64 = 1;
const STOPPED_ALL: u64 = 2;
const SEALED: u64 = 4;

/// Whether an error is of this process or machine, and not of a drive: no descriptor or no memory is left.
pub(crate) fn is_ours(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}

impl Counters {
    pub(crate) fn add(count: &AtomicU64, by: u64) {
        count.fetch_add(by, Ordering::Relaxed);
    }

    /// Counts an error of writing; true where it says only that there is no room, or that this process may
    /// open nothing more, which is no fault of the drive.
    pub(crate) fn note_write(&self, error: &io::Error) -> bool {
        if is_ours(error) {
            return true;
        }
        let is_full = matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        );
        if is_full {
            Counters::add(&self.full, 1);
            return true;
        }
        Counters::add(&self.write_errors, 1);
        if error.kind() == io::ErrorKind::ReadOnlyFilesystem {
            self.stopped.fetch_or(STOPPED_WRITING, Ordering::Relaxed);
        }
        false
    }

    /// Lets writing be tried again where it was given up.
    pub(crate) fn write_again(&self) {
        self.stopped.fetch_and(!STOPPED_WRITING, Ordering::Relaxed);
        self.write_errors_before.store(self.write_errors.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Nothing is written to it as long as it is open.
    pub(crate) fn seal(&self) {
        self.stopped.fetch_or(SEALED, Ordering::Relaxed);
    }

    pub(crate) fn eject(&self) {
        self.stopped.fetch_or(STOPPED_ALL, Ordering::Relaxed);
    }

    /// The state that the drive, and the room on it, have left the volume in.
    pub(crate) fn state(&self) -> VolumeState {
        let stopped = self.stopped.load(Ordering::Relaxed);
        let read_errors = self.read_errors.load(Ordering::Relaxed);
        let before = self.write_errors_before.load(Ordering::Relaxed);
        let write_errors = self.write_errors.load(Ordering::Relaxed) - before;
        if stopped & STOPPED_ALL != 0 || read_errors >= READ_ERRORS_MAX {
            VolumeState::Ejected
        } else if stopped & (STOPPED_WRITING | SEALED) != 0 || write_errors >= WRITE_ERRORS_MAX {
            VolumeState::ReadOnly
        } else if self.is_full.load(Ordering::Relaxed) {
            VolumeState::Full
        } else {
            VolumeState::Up
        }
    }
}
