//! What a volume holds, what it has done, and the state that follows from it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::settings::{READ_ERRORS_MAX, WRITE_ERRORS_MAX};
use crate::state::VolumeState;

/// What a volume holds, and what it has done since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeUsage {
    /// The ceiling in bytes.
    pub size_bytes: u64,
    /// The bytes of all files: segments (the open one counts whole), index, and removed segments that are
    /// kept for readers, or that readers still have open.
    pub used_bytes: u64,
    /// Objects in the index, partial ones included.
    pub objects: u64,
    /// Segments that are there.
    pub segments: u64,
    /// What the index takes in memory, in bytes.
    pub index_memory_bytes: u64,
    /// Bytes that wait to be written: at most the limit of the settings, and a reserve.
    pub queued_bytes: u64,
    /// Bytes of bodies written.
    pub body_bytes: u64,
    /// Bytes of headers, keys, heads, tables, checksums and padding written.
    pub head_bytes: u64,
    /// Bytes of the journal written.
    pub journal_bytes: u64,
    /// Bytes of checkpoints written.
    pub checkpoint_bytes: u64,
    /// Objects that were dropped because their bytes were not those that were stored.
    pub damaged: u64,
    /// Segments dropped to make room.
    pub segments_dropped: u64,
    /// Objects that were evicted with them.
    pub evicted: u64,
    /// Objects that were written again because they had been used.
    pub reinserted: u64,
    /// Bytes of their bodies.
    pub reinserted_bytes: u64,
    /// Objects that were removed because their site was at its quota.
    pub over_quota: u64,
    /// Objects that a sweep removed because a purge had made them dead.
    pub swept: u64,
    /// Segments that were freed because nothing in them was of use any more.
    pub segments_freed: u64,
    /// The bytes of segments that were removed and are kept for their readers.
    pub kept_bytes: u64,
    /// Readers for which something was kept no longer before they had read it.
    pub kept_no_longer: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes, syncs and the like that failed.
    pub write_errors: u64,
    /// How often the file system or the volume was full.
    pub full: u64,
    /// Objects that were not stored to their end because the queue was full.
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
    pub(crate) kept_no_longer: AtomicU64,
    pub(crate) swept: AtomicU64,
    pub(crate) read_errors: AtomicU64,
    pub(crate) write_errors: AtomicU64,
    /// The errors from before writing was tried again.
    write_errors_before: AtomicU64,
    pub(crate) full: AtomicU64,
    pub(crate) queue_full: AtomicU64,
    pub(crate) durable_epoch: AtomicU64,
    /// Storing pauses because there was no room.
    pub(crate) is_full: AtomicBool,
    /// The volume's folder was missing when it was last looked for.
    pub(crate) is_gone: AtomicBool,
    /// The volume is sealed, and its file system was writable when it was last checked.
    pub(crate) is_unsealed: AtomicBool,
    /// A check of the folder is under way.
    pub(crate) is_looked_for: AtomicBool,
    /// Removals could not be written to the log.
    pub(crate) has_failed_removals: AtomicBool,
    /// Set when a thread of the volume has panicked, or when the file system has become read-only.
    stopped: AtomicU64,
}

const STOPPED_WRITING: u64 = 1;
const STOPPED_ALL: u64 = 2;
const SEALED: u64 = 4;

/// Whether the fault is this process's or this machine's and not the drive's: no file descriptor or no memory
/// is left.
pub(crate) fn is_ours(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}

impl Counters {
    pub(crate) fn add(count: &AtomicU64, by: u64) {
        count.fetch_add(by, Ordering::Relaxed);
    }

    /// Counts a write error. True if it says only that there is no room, or that this process may open no
    /// more files: neither is a fault of the drive.
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

    /// Lets the volume try writing again after too many errors.
    pub(crate) fn write_again(&self) {
        self.stopped.fetch_and(!STOPPED_WRITING, Ordering::Relaxed);
        self.write_errors_before.store(self.write_errors.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Seals the volume: nothing is written to it while it is open.
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
