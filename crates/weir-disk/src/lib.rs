//! What a volume asks of a drive: files read and written at an offset, synced, listed, unlinked. No cache
//! knowledge here.
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

    /// Which file has that name: two are the same where these are; `None` where there is none.
    ///
    /// # Errors
    /// Those of the file system.
    fn identity(&self, path: &str) -> io::Result<Option<Identity>>;

    /// The whole of a file; `None` where there is none.
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

    /// Puts a file with this content in the place of the one of that name, which stays until the new one is
    /// durable. The new one is durable when this returns, and is returned open.
    ///
    /// # Errors
    /// Those of the file system: the old one stays, or the new one counts.
    fn replace(&self, path: &str, bytes: &[u8]) -> io::Result<Arc<dyn DiskFile>> {
        let (new, file) = create_beside(self, path)?;
        file.write_all_at(&[bytes], 0)?;
        file.sync_data()?;
        self.rename(&new, path)?;
        self.sync_folder(parent(path))?;
        Ok(file)
    }

    /// Makes these bytes the whole of a small file, in place: durable when this returns. It costs one sync
    /// where the file is there.
    ///
    /// # Errors
    /// Those of the file system: the file has what it had, these bytes, or neither.
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

    /// Lets others have the folder: nothing more is written by who had it. What is open can still be read.
    fn release(&self) {}

    /// Whether nothing could be written when it was taken. Then nothing ever is, also when it could be: it is
    /// taken again for that.
    fn is_sealed(&self) -> bool {
        false
    }

    /// Whether it could be written by now, of one that is sealed.
    fn is_writable(&self) -> bool {
        !self.is_sealed()
    }

    /// Whether the folder is still what its name means: not where its drive was unmounted, or another lies
    /// over it.
    fn is_there(&self) -> bool {
        true
    }
}

/// Which file it is, whatever name it has.
pub type Identity = (u64, u64);

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

    /// Makes durable what was written. After an error the kernel has forgotten what it could not write: a
    /// further call answers `Ok`, and the bytes are lost. So never write behind what a failed one was asked
    /// for.
    ///
    /// # Errors
    /// Those of the device.
    fn sync_data(&self) -> io::Result<()>;

    /// The file's length.
    ///
    /// # Errors
    /// Those of the file system.
    fn length(&self) -> io::Result<u64>;

    /// Which file it is.
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

/// Fills `into` whole.
///
/// # Errors
/// `UnexpectedEof` where the file ends before; those of the device.
pub fn read_exact_at(file: &dyn DiskFile, into: &mut [u8], offset: u64) -> io::Result<()> {
    match read_at_most(file, into, offset)? {
        count if count == into.len() => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Fills `into` as far as the file goes; how many bytes that is.
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

/// How many names are tried for a file that is not finished.
const NAMES_MAX: u32 = 4;

/// Makes a file beside the one that it is to replace. Where its name is a folder's, or something is mounted
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

/// Takes `count` written bytes off the front of `slices`.
fn advance(slices: &mut &mut [IoSlice<'_>], count: usize) {
    IoSlice::advance_slices(slices, count);
}
