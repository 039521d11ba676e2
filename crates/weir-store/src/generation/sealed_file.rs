//! A body in a file in memory, from which the kernel sends without a copy.
//!
//! While a response is on its way, sockets refer to the file's own pages. So no byte of a file changes, ever:
//! it is written once, sealed by the kernel against every change, and has one body. It is given up as a
//! whole: pages that a socket still refers to stay as they are until the client has them, and are nobody
//! else's until then. Nothing is zeroed in place either, as a hole in a huge page would be.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use weir_sealed::{Draft, Sealed, SealedPart};

use super::body::{BLOCK_BYTES, PIECE_BYTES_MAX};
use crate::budget::Charge;

/// The shortest body that gets a file: what has one block leaves with its head, in one call.
pub(crate) const FILE_BYTES_MIN: u64 = BLOCK_BYTES as u64 + 1;
/// Shorter ones gain less by a file: they get half of the files at most.
const SHORT_BYTES: u64 = 256 << 10;
/// The longest body that gets one: memory holds it twice while it moves.
pub(crate) const FILE_BYTES_MAX: u64 = 256 << 20;
/// What the kernel keeps of a file beside its pages: its inode, the mapping, and the trees of its pages.
const FILE_OVERHEAD_BYTES: u64 = 2 << 10;
const TREE_BYTES: u64 = 256;
/// The kernel's pages.
const PAGE_BYTES: u64 = 4 << 10;
/// The pages of a file may take so much more than its bytes.
const SLACK_BYTES: u64 = 64 << 10;

/// Why a body gets no file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoFile {
    /// The kernel uses huge pages for files in memory: a body would take more than it is charged.
    #[error("the kernel takes {0} bytes for {1}")]
    Larger(u64, u64),
    /// The system failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl NoFile {
    /// Whether another try has no better prospects.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            NoFile::Larger(..) => true,
            NoFile::System(error) => {
                matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied)
            }
        }
    }
}

/// How many files there are, of how many.
#[derive(Debug)]
pub(crate) struct Files {
    count: AtomicU64,
    bytes: AtomicU64,
    most: u64,
}

impl Files {
    pub(crate) fn new(most: u64) -> Arc<Files> {
        Arc::new(Files { count: AtomicU64::new(0), bytes: AtomicU64::new(0), most })
    }

    /// Files, and the bytes of the bodies in them.
    pub(crate) fn held(&self) -> (u64, u64) {
        (self.count.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// A place for one more; none where all are taken.
    pub(crate) fn place(self: &Arc<Files>, bytes: u64) -> Option<FilePlace> {
        let most = if bytes < SHORT_BYTES { self.most / 2 } else { self.most };
        let next = |count: u64| (count < most).then_some(count + 1);
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Some(FilePlace { files: Arc::clone(self), bytes })
    }
}

/// One of the files; given back on drop.
#[derive(Debug)]
pub(crate) struct FilePlace {
    files: Arc<Files>,
    bytes: u64,
}

impl Drop for FilePlace {
    fn drop(&mut self) {
        self.files.count.fetch_sub(1, Ordering::Relaxed);
        self.files.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The bytes of a whole body in a file that nobody can change.
#[derive(Debug)]
pub struct SealedFile {
    sealed: Sealed,
}

impl SealedFile {
    /// What must be charged for a body of `length` bytes.
    pub(crate) fn charge_bytes(length: u64) -> u64 {
        length.next_multiple_of(PAGE_BYTES) + length / TREE_BYTES + FILE_OVERHEAD_BYTES
    }

    /// A file to write to.
    ///
    /// # Errors
    /// The kernel gives no such file.
    pub(crate) fn draft() -> Result<Draft, NoFile> {
        Ok(Draft::new("weir-body")?)
    }

    /// Writes `blocks` to a file, which the `charge` must cover, and has the kernel seal it.
    ///
    /// # Errors
    /// The kernel has no memory, or no mapping, for it.
    pub(crate) fn write(
        draft: Draft,
        blocks: &[Bytes],
        charge: Charge,
        place: FilePlace,
    ) -> Result<SealedFile, NoFile> {
        let mut length = 0;
        for block in blocks {
            draft.file().write_all_at(block, length)?;
            length += block.len() as u64;
        }
        assert!(charge.bytes() >= SealedFile::charge_bytes(length), "a file must be charged whole");
        let taken = draft.taken_bytes()?;
        if taken > length + SLACK_BYTES {
            return Err(NoFile::Larger(taken, length));
        }
        Ok(SealedFile { sealed: draft.seal((charge, place))? })
    }

    /// A part of the body, for the kernel. `None` where it does not lie within it.
    pub fn part(&self, range: Range<u64>) -> Option<SealedPart<'_>> {
        self.sealed.part(range)
    }

    /// At most `max` bytes from `offset` on, and at most [`PIECE_BYTES_MAX`]; none at the end. A piece of no
    /// more than a block is a copy: a reader that holds it does not hold the file.
    pub(crate) fn read(&self, offset: u64, max: usize) -> Option<Bytes> {
        let bytes = self.sealed.bytes();
        let start = usize::try_from(offset).ok()?;
        let end = bytes.len().min(start.saturating_add(max.min(PIECE_BYTES_MAX)));
        (start < end).then(|| match max <= BLOCK_BYTES {
            true => Bytes::copy_from_slice(&bytes[start..end]),
            false => bytes.slice(start..end),
        })
    }
}

#[cfg(test)]
mod tests;
