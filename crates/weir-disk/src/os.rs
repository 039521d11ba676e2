//! A folder of the operating system's.

use std::fs::{File, TryLockError};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, StatVfsMountFlags};
use rustix::io::{Errno, ReadWriteFlags};

use super::{Disk, DiskFile, Room, advance};

/// How many parts one `pwritev` takes (IOV_MAX of Linux).
const PARTS_MAX: usize = 1024;
/// What a volume's files and folders may be to others: nothing.
const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
const FOLDER_MODE: u32 = 0o700;
/// Held locked for as long as a volume is in use.
const LOCK: &str = "lock";

/// A folder on a drive that this process alone uses. It is held open, and all in it is named from there: where its drive is
/// unmounted, nothing is written to what lies beneath.
#[derive(Debug)]
pub struct OsDisk {
    path: PathBuf,
    folder: OwnedFd,
    lock: File,
    /// The file system was read-only when it was taken.
    is_sealed: bool,
}

impl OsDisk {
    /// Takes possession of a folder; it is made if it is not there. On a file system that is read-only it is sealed.
    ///
    /// # Errors
    /// `ResourceBusy` where another process uses it; those of the file system.
    pub fn take(folder: &Path) -> io::Result<OsDisk> {
        std::fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
        let path = folder.to_owned();
        let folder =
            rustix::fs::open(&path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let (lock, is_sealed) = match rustix::fs::openat(&folder, LOCK, OPEN | OFlags::CREATE, FILE_MODE) {
            // Who has no lock there has never had a volume there.
            Err(Errno::ROFS) => (rustix::fs::openat(&folder, LOCK, READ, Mode::empty())?, true),
            lock => (lock?, false),
        };
        let lock = File::from(lock);
        match lock.try_lock() {
            Ok(()) => Ok(OsDisk { path, folder, lock, is_sealed }),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::ResourceBusy.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Whether a folder, or the nearest above it that is there, is on another drive than the root of the file system.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn is_mount(folder: &Path) -> io::Result<bool> {
        let root = std::fs::metadata("/")?.dev();
        for place in folder.ancestors() {
            match std::fs::metadata(place) {
                Ok(metadata) => return Ok(metadata.dev() != root),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

/// How files are opened.
const OPEN: OFlags = OFlags::RDWR.union(OFlags::CLOEXEC);
/// And where nothing can be written.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

impl Disk for OsDisk {
    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.check_unsealed()?;
        let flags = OPEN | OFlags::CREATE | OFlags::TRUNC;
        let file = rustix::fs::openat(&self.folder, path, flags, FILE_MODE)?;
        Ok(Arc::new(OsFile { file: File::from(file), is_sealed: false }))
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let flags = if self.is_sealed { READ } else { OPEN };
        let file = rustix::fs::openat(&self.folder, path, flags, Mode::empty())?;
        Ok(Arc::new(OsFile { file: File::from(file), is_sealed: self.is_sealed }))
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        self.check_unsealed()?;
        Ok(rustix::fs::unlinkat(&self.folder, path, AtFlags::empty())?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check_unsealed()?;
        Ok(rustix::fs::renameat(&self.folder, from, &self.folder, to)?)
    }

    fn make_folder(&self, folder: &str) -> io::Result<()> {
        match rustix::fs::mkdirat(&self.folder, folder, Mode::from_raw_mode(FOLDER_MODE)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        let opened = self.open_folder(folder)?;
        for entry in Dir::read_from(&opened)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_file = match entry.file_type() {
                FileType::Unknown => {
                    let stat = rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
                }
                kind => kind == FileType::RegularFile,
            };
            if is_file {
                names.push(name.to_string_lossy().into_owned());
            }
        }
        Ok(names)
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.open_folder(folder)?)?)
    }

    fn room(&self) -> io::Result<Room> {
        let stat = rustix::fs::fstatvfs(&self.folder)?;
        let fragment = stat.f_frsize.max(1);
        Ok(Room {
            total_bytes: stat.f_blocks.saturating_mul(fragment),
            free_bytes: stat.f_bavail.saturating_mul(fragment),
        })
    }

    fn release(&self) {
        // Where it fails, it is released with the last who has it open.
        let _ = self.lock.unlock();
    }

    fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    fn is_writable(&self) -> bool {
        let is_read_only = |stat: rustix::fs::StatVfs| stat.f_flag.contains(StatVfsMountFlags::RDONLY);
        // One that has shut itself after an error does not say so there.
        rustix::fs::fstatvfs(&self.folder).is_ok_and(|stat| !is_read_only(stat))
            && rustix::fs::openat(&self.folder, LOCK, OPEN, Mode::empty()).is_ok()
    }

    fn is_there(&self) -> bool {
        let Ok(own) = rustix::fs::fstat(&self.folder) else { return false };
        std::fs::metadata(&self.path)
            .is_ok_and(|named| (named.dev(), named.ino()) == (own.st_dev, own.st_ino))
    }
}

impl OsDisk {
    /// Nothing of a sealed one is changed, though it might be possible by now.
    fn check_unsealed(&self) -> io::Result<()> {
        if self.is_sealed { Err(Errno::ROFS.into()) } else { Ok(()) }
    }

    fn open_folder(&self, folder: &str) -> io::Result<OwnedFd> {
        let path = if folder.is_empty() { "." } else { folder };
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.folder, path, flags, Mode::empty())?)
    }
}

#[derive(Debug)]
struct OsFile {
    file: File,
    /// Nothing is written to it.
    is_sealed: bool,
}

impl DiskFile for OsFile {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(into, offset)
    }

    fn read_resident_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let read =
            rustix::io::preadv2(&self.file, &mut [IoSliceMut::new(into)], offset, ReadWriteFlags::NOWAIT);
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
                match rustix::io::pwritev(&self.file, left, offset) {
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
        // A file system that has shut itself after an error refuses even this.
        if self.is_sealed { Ok(()) } else { self.file.sync_data() }
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }
}
