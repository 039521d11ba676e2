//! A folder of the operating system's.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::ReadWriteFlags;

use super::{Disk, DiskFile, Room, advance};

/// How many parts one `pwritev` takes (IOV_MAX of Linux).
const PARTS_MAX: usize = 1024;
/// What a volume's files and folders may be to others: nothing.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;
/// Held locked for as long as a volume is in use.
const LOCK: &str = "lock";

/// A folder on a drive that this process alone uses.
#[derive(Debug)]
pub struct OsDisk {
    folder: PathBuf,
    _lock: File,
}

impl OsDisk {
    /// Takes possession of a folder; it is made if it is not there.
    ///
    /// # Errors
    /// `ResourceBusy` where another process uses it; those of the file system.
    pub fn take(folder: &Path) -> io::Result<OsDisk> {
        std::fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
        let lock = options().create(true).truncate(false).open(folder.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => Ok(OsDisk { folder: folder.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::ResourceBusy.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(FILE_MODE);
    options
}

impl Disk for OsDisk {
    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = options().create(true).truncate(true).open(self.path(path))?;
        Ok(Arc::new(OsFile(file)))
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(OsFile(options().open(self.path(path))?)))
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        std::fs::remove_file(self.path(path))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path(from), self.path(to))
    }

    fn make_folder(&self, folder: &str) -> io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(self.path(folder))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.path(folder))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        Ok(names)
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        File::open(self.path(folder))?.sync_all()
    }

    fn room(&self) -> io::Result<Room> {
        let stat = rustix::fs::statvfs(&self.folder)?;
        let fragment = stat.f_frsize.max(1);
        Ok(Room {
            total_bytes: stat.f_blocks.saturating_mul(fragment),
            free_bytes: stat.f_bavail.saturating_mul(fragment),
        })
    }
}

#[derive(Debug)]
struct OsFile(File);

impl DiskFile for OsFile {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(into, offset)
    }

    fn read_resident_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = rustix::io::preadv2(&self.0, &mut [IoSliceMut::new(into)], offset, ReadWriteFlags::NOWAIT);
        match read {
            Ok(count) => Ok(count),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn write_all_at(&self, parts: &[&[u8]], mut offset: u64) -> io::Result<()> {
        for some in parts.chunks(PARTS_MAX) {
            let mut slices: Vec<IoSlice<'_>> = some.iter().map(|part| IoSlice::new(part)).collect();
            let mut left = slices.as_mut_slice();
            advance(&mut left, 0);
            while !left.is_empty() {
                match rustix::io::pwritev(&self.0, left, offset) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(count) => {
                        advance(&mut left, count);
                        offset += count as u64;
                    }
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }
}
