//! What a volume needs of a drive: files that are read and written at an offset, synced, listed and unlinked.
//! No cache knowledge here.
//!
//! The same program runs on files ([`OsDisk`]) and on a double that crashes and fails (`testing::CrashDisk`).
//! Paths are relative to the volume's folder, with `/` between their parts.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod os;
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
    /// What can be used of it in bytes, by whomever: its size without what it keeps back.
    pub total_bytes: u64,
    /// What is free for us in bytes.
    pub free_bytes: u64,
}

/// A folder on a drive.
pub trait Disk: Send + Sync + Debug {
    /// Creates an empty file, in place of one with that name.
    ///
    /// # Errors
    /// Those of the file system.
    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// `NotFound` if there is none; those of the file system.
    fn open(&self, path: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Removes a name. Open handles of the file stay valid.
    ///
    /// # Errors
    /// `NotFound` if there is none; those of the file system.
    fn unlink(&self, path: &str) -> io::Result<()>;

    /// Renames a file, in place of one with the new name.
    ///
    /// # Errors
    /// Those of the file system.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Makes a folder, if it does not exist.
    ///
    /// # Errors
    /// Those of the file system.
    fn make_folder(&self, folder: &str) -> io::Result<()>;

    /// The names of the files in a folder, in no order. The empty path is the volume's own folder.
    ///
    /// # Errors
    /// Those of the file system.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// Those of the device.
    fn sync_folder(&self, folder: &str) -> io::Result<()>;

    /// The identity of the file with a name: two names are one file if these are equal. `None` if there is
    /// none.
    ///
    /// # Errors
    /// Those of the file system.
    fn identity(&self, path: &str) -> io::Result<Option<Identity>>;

    /// The content of a file; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read, or is longer than `bytes_max`.
    fn read(&self, path: &str, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        let file = match self.open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let length = file.length()?;
        if length > bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut bytes = vec![0; length as usize];
        let count = read_at_most(&*file, &mut bytes, 0)?;
        bytes.truncate(count);
        Ok(Some(bytes))
    }

    /// Replaces the file of a name, or makes one. The old file stays until the new one is durable. The new
    /// one is durable when this returns, and is returned open.
    ///
    /// # Errors
    /// Those of the file system: either the old file stays or the new one counts.
    fn replace(&self, path: &str, bytes: &[u8]) -> io::Result<Arc<dyn DiskFile>> {
        let (new, file) = create_beside(self, path)?;
        file.write_all_at(&[bytes], 0)?;
        file.sync_data()?;
        self.rename(&new, path)?;
        self.sync_folder(parent(path))?;
        Ok(file)
    }

    /// Makes `bytes` the whole content of a small file, in place. It is durable when this returns. Costs one
    /// sync if the file exists.
    ///
    /// # Errors
    /// Those of the file system: the file has its old content, these bytes, or neither.
    fn overwrite(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let (file, is_new) = match self.open(path) {
            Ok(file) => (file, false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (self.create(path)?, true),
            Err(error) => return Err(error),
        };
        file.write_all_at(&[bytes], 0)?;
        if file.length()? != bytes.len() as u64 {
            file.truncate(bytes.len() as u64)?;
        }
        file.sync_data()?;
        if is_new { self.sync_folder(parent(path)) } else { Ok(()) }
    }

    /// How much room there is.
    ///
    /// # Errors
    /// Those of the file system.
    fn room(&self) -> io::Result<Room>;

    /// Releases the folder for others: its owner writes nothing more. Open files can still be read.
    fn release(&self) {}

    /// Whether the file system was read-only when the folder was taken. Nothing is then ever written, even if
    /// it could be later: the folder has to be taken again.
    fn is_sealed(&self) -> bool {
        false
    }

    /// Whether a sealed folder could be written by now.
    fn is_writable(&self) -> bool {
        !self.is_sealed()
    }

    /// Whether the folder is still the one that its path names. It is not if its drive was unmounted, or if
    /// another was mounted over it.
    fn is_there(&self) -> bool {
        true
    }
}

/// The identity of a file, whatever its name.
pub type Identity = (u64, u64);

/// An open file. Its offsets and lengths are in bytes.
pub trait DiskFile: Send + Sync + Debug {
    /// Reads up to `into.len()` bytes; fewer at the end of the file.
    ///
    /// # Errors
    /// Those of the device.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads from the page cache and never waits for the device. May read fewer bytes than asked for.
    ///
    /// # Errors
    /// `WouldBlock` if none of the bytes are there, or if the file system cannot tell.
    fn read_resident_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all parts, one behind another.
    ///
    /// # Errors
    /// Those of the device. It is then unknown how much was written.
    fn write_all_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()>;

    /// Makes durable what was written. After an error the kernel has forgotten what it could not write: a
    /// further call returns `Ok`, and the bytes are lost. So never write behind the bytes of a failed sync.
    ///
    /// # Errors
    /// Those of the device.
    fn sync_data(&self) -> io::Result<()>;

    /// The file's length.
    ///
    /// # Errors
    /// Those of the file system.
    fn length(&self) -> io::Result<u64>;

    /// The file's identity.
    ///
    /// # Errors
    /// Those of the file system.
    fn identity(&self) -> io::Result<Identity>;

    /// Cuts the file.
    ///
    /// # Errors
    /// Those of the file system.
    fn truncate(&self, length: u64) -> io::Result<()>;
}

/// Fills all of `into`.
///
/// # Errors
/// `UnexpectedEof` if the file ends before; those of the device.
pub fn read_exact_at(file: &dyn DiskFile, into: &mut [u8], offset: u64) -> io::Result<()> {
    match read_at_most(file, into, offset)? {
        count if count == into.len() => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Fills `into` as far as the file goes. Returns the number of bytes.
fn read_at_most(file: &dyn DiskFile, into: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// The folder of a path.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// How many names are tried for an unfinished file.
const NAMES_MAX: u32 = 4;

/// Creates a file beside the one that it is to replace. If a folder has its name, or something is mounted
/// there, it gets another one.
fn create_beside<D: Disk + ?Sized>(disk: &D, path: &str) -> io::Result<(String, Arc<dyn DiskFile>)> {
    let mut tried = 1;
    loop {
        let name = match tried {
            1 => format!("{path}.new"),
            more => format!("{path}.new-{more}"),
        };
        match disk.create(&name) {
            Ok(file) => return Ok((name, file)),
            Err(error) if tried < NAMES_MAX && is_taken(&error) => tried += 1,
            Err(error) => return Err(error),
        }
    }
}

fn is_taken(error: &io::Error) -> bool {
    use io::ErrorKind::{IsADirectory, PermissionDenied, ResourceBusy};
    matches!(error.kind(), IsADirectory | PermissionDenied | ResourceBusy)
}

/// Removes `count` written bytes from the front of `slices`.
fn advance(slices: &mut &mut [IoSlice<'_>], count: usize) {
    IoSlice::advance_slices(slices, count);
}
