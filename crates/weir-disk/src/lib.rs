//! What a volume asks of a drive: files read and written at an offset, synced, listed, unlinked. No cache knowledge here.
//!
//! The same program runs on files ([`OsDisk`]) and on a double that crashes and fails (`testing::CrashDisk`). Paths are relative to
//! the volume's folder, with `/` between their parts.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod os;
pub mod scratch;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::sync::Arc;

pub use os::OsDisk;

/// How much room the file system has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Its size in bytes.
    pub total_bytes: u64,
    /// What is free for us in bytes.
    pub free_bytes: u64,
}

/// A folder on a drive.
pub trait Disk: Send + Sync + Debug {
    /// Makes a file, empty; what had that name is gone.
    ///
    /// # Errors
    /// Those of the file system.
    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// `NotFound` where there is none; those of the file system.
    fn open(&self, path: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Takes the name away; who has the file open goes on with it.
    ///
    /// # Errors
    /// `NotFound` where there is none; those of the file system.
    fn unlink(&self, path: &str) -> io::Result<()>;

    /// Renames a file, over what has the new name.
    ///
    /// # Errors
    /// Those of the file system.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Makes a folder, if it is not there.
    ///
    /// # Errors
    /// Those of the file system.
    fn make_folder(&self, folder: &str) -> io::Result<()>;

    /// The names of the files in a folder, in no order; the empty path is the volume's own folder.
    ///
    /// # Errors
    /// Those of the file system.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// Those of the device.
    fn sync_folder(&self, folder: &str) -> io::Result<()>;

    /// How much room there is.
    ///
    /// # Errors
    /// Those of the file system.
    fn room(&self) -> io::Result<Room>;

    /// Lets others have the folder: nothing more is written by who had it. What is open can still be read.
    fn release(&self) {}

    /// Whether nothing could be written when it was taken. Then nothing ever is, also when it could be: it is taken again for that.
    fn is_sealed(&self) -> bool {
        false
    }

    /// Whether it could be written by now, of one that is sealed.
    fn is_writable(&self) -> bool {
        !self.is_sealed()
    }

    /// Whether the folder is still what its name means: not where its drive was unmounted, or another lies over it.
    fn is_there(&self) -> bool {
        true
    }
}

/// An open file. Its offsets and lengths are in bytes.
pub trait DiskFile: Send + Sync + Debug {
    /// Reads up to `into.len()` bytes; fewer at the end of the file.
    ///
    /// # Errors
    /// Those of the device.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads what lies in the page cache and never waits for the device; may be fewer bytes than asked for.
    ///
    /// # Errors
    /// `WouldBlock` where nothing of it lies there, or the file system cannot tell.
    fn read_resident_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all parts, one behind the other.
    ///
    /// # Errors
    /// Those of the device; how much was written is then unknown.
    fn write_all_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()>;

    /// Makes durable what was written. After an error the kernel has forgotten what it could not write: a further call
    /// answers `Ok`, and the bytes are lost. So never write behind what a failed one was asked for.
    ///
    /// # Errors
    /// Those of the device.
    fn sync_data(&self) -> io::Result<()>;

    /// The file's length.
    ///
    /// # Errors
    /// Those of the file system.
    fn length(&self) -> io::Result<u64>;

    /// Cuts the file.
    ///
    /// # Errors
    /// Those of the file system.
    fn truncate(&self, length: u64) -> io::Result<()>;
}

/// Fills `into` whole.
///
/// # Errors
/// `UnexpectedEof` where the file ends before; those of the device.
pub fn read_exact_at(file: &dyn DiskFile, into: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Takes `count` written bytes off the front of `slices`.
fn advance(slices: &mut &mut [IoSlice<'_>], count: usize) {
    IoSlice::advance_slices(slices, count);
}
