//! Numbers that have a file of their own, so that each is durable by itself: written to a new file, synced
//! and renamed.
//!
//! Where such a file is lost or damaged, its number is 0.

use std::io;

use bytes::Buf;
use weir_disk::{Disk, read_exact_at};

use crate::format::superblock::{FILE_HEADER_BYTES, Superblock, VERSION};

/// One of the numbers.
#[derive(Debug)]
pub(crate) struct Single {
    path: &'static str,
    magic: &'static [u8; 8],
}

/// The mark of the ledger up to which the volume was swept. It is durable before a mark is dropped. Every
/// object that was requested before that number was judged by all marks up to it, and the dead ones were
/// removed, durably. Where it is lost (0), objects may die early, but no dead one lives.
pub(crate) const SWEPT: Single = Single { path: "swept", magic: b"WeirSwp\n" };

/// The last opening. Of two copies of a volume one has another number (`register`).
pub(crate) const OPENED: Single = Single { path: "opened", magic: b"WeirOpn\n" };

impl Single {
    fn to_bytes(&self, superblock: &Superblock, number: u64) -> Vec<u8> {
        superblock.file_header(self.magic, VERSION, number)
    }

    fn number(&self, superblock: &Superblock, bytes: &[u8]) -> Option<u64> {
        let number = bytes.get(32..40)?.try_get_u64_le().ok()?;
        (bytes == self.to_bytes(superblock, number)).then_some(number)
    }

    /// The number in the file; 0 if there is no file.
    pub(crate) fn read(&self, disk: &dyn Disk, superblock: &Superblock) -> u64 {
        let Ok(file) = disk.open(self.path) else { return 0 };
        let mut bytes = [0; FILE_HEADER_BYTES];
        match read_exact_at(&*file, &mut bytes, 0) {
            Ok(()) => self.number(superblock, &bytes).unwrap_or(0),
            Err(_) => 0,
        }
    }

    /// Writes the number. It is durable when this returns.
    ///
    /// # Errors
    /// Those of the drive: either the old number stays or the new one counts.
    pub(crate) fn write(&self, disk: &dyn Disk, superblock: &Superblock, number: u64) -> io::Result<()> {
        disk.replace(self.path, &self.to_bytes(superblock, number)).map(drop)
    }

    /// Removes the file, durably, so that the number is 0. This needs no room.
    ///
    /// # Errors
    /// Those of the drive: the old number may stay. `NotFound` if there was no file.
    pub(crate) fn remove(&self, disk: &dyn Disk) -> io::Result<()> {
        disk.unlink(self.path)?;
        disk.sync_folder("")
    }
}

#[cfg(test)]
mod tests;
