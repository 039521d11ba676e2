//! Files in memory: written once, sealed, mapped, and given up as a whole.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;

use bytes::Bytes;
use memmap2::Mmap;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use crate::system;

/// The unit of `st_blocks`.
const STAT_BLOCK_BYTES: u64 = 512;

/// A file in memory that is being written.
#[derive(Debug)]
pub struct Draft {
    file: File,
}

impl Draft {
    /// An empty one. The `name` is what an operator sees in `/proc`.
    ///
    /// # Errors
    /// The kernel gives no such file.
    pub fn new(name: &str) -> io::Result<Draft> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        Ok(Draft { file: File::from(memfd_create(name, flags)?) })
    }

    /// The file, to be written.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The memory that it takes, in bytes.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn taken_bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.blocks() * STAT_BLOCK_BYTES)
    }

    /// Ends the writing, for good. `beside` is dropped after the last reader's bytes: what they cost, say.
    ///
    /// # Errors
    /// The kernel does not seal or does not map it.
    pub fn seal<T: Send + 'static>(self, beside: T) -> io::Result<Sealed> {
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        fcntl_add_seals(&self.file, seals)?;
        let map = system::map_sealed(&self.file)?;
        Ok(Sealed { bytes: Bytes::from_owner(Owner { map, _beside: beside }) })
    }
}

/// Bytes in memory that nobody can change. They need no open file, and are given up with the last reader.
#[derive(Debug, Clone)]
pub struct Sealed {
    bytes: Bytes,
}

/// What the bytes belong to. The order is that of giving up.
struct Owner<T> {
    map: Mmap,
    _beside: T,
}

impl<T> AsRef<[u8]> for Owner<T> {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

impl Sealed {
    /// A part of the bytes, for [`crate::send`]. `None` where it does not lie within them.
    pub fn part(&self, range: Range<u64>) -> Option<SealedPart<'_>> {
        self.bytes.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?).map(SealedPart)
    }

    /// The bytes, for readers.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

/// A part of [`Sealed`] bytes. There is no other way to one.
#[derive(Debug, Clone, Copy)]
pub struct SealedPart<'a>(&'a [u8]);

impl<'a> SealedPart<'a> {
    /// How many bytes it has.
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Whether it has none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Its first bytes, at most so many.
    #[must_use]
    pub fn at_most(self, bytes: u64) -> SealedPart<'a> {
        SealedPart(&self.0[..usize::try_from(bytes).map_or(self.len(), |bytes| self.len().min(bytes))])
    }

    /// All but its first bytes; none where it has no more.
    #[must_use]
    pub fn after(self, bytes: usize) -> SealedPart<'a> {
        SealedPart(self.0.get(bytes..).unwrap_or_default())
    }

    /// A part of bytes that may change, to show what becomes of it.
    #[cfg(test)]
    pub(crate) fn forged(bytes: &'a [u8]) -> SealedPart<'a> {
        SealedPart(bytes)
    }

    /// The bytes, to be read.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }
}

#[cfg(test)]
mod tests;
