//! A folder of the operating system.

use std::fs::{File, TryLockError};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, StatVfs, StatVfsMountFlags};
use rustix::io::{Errno, ReadWriteFlags};

use super::{Disk, DiskFile, Identity, Room, advance};

/// The most parts of one `pwritev` (IOV_MAX of Linux).
const PARTS_MAX: usize = 1024;
/// The most bytes of one `pwritev`: for a longer one the kernel takes pages so large that they cost several
/// times the copy (ADR 0080).
const WRITE_BYTES_MAX: usize = 512 << 10;
/// Other users have no access to a volume's files and folders.
const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
const FOLDER_MODE: u32 = 0o700;
/// The file that is locked for as long as a volume is in use.
const LOCK: &str = "lock";

/// A folder on a drive. A folder that only this process uses is held open, and all names start from there: if
/// its drive is unmounted, nothing is written to what lies beneath.
#[derive(Debug)]
pub struct OsDisk {
    path: PathBuf,
    taken: Option<Taken>,
    /// The file system was read-only when the folder was taken.
    is_sealed: bool,
}

/// A folder that only this process uses.
#[derive(Debug)]
struct Taken {
    folder: OwnedFd,
    lock: File,
}

impl OsDisk {
    /// A folder by its path alone, which may be made later. The caller makes sure that no other process uses
    /// it.
    pub fn at(folder: &Path) -> OsDisk {
        OsDisk { path: folder.to_owned(), taken: None, is_sealed: false }
    }

    /// Takes a folder for this process, and makes it if it is missing. On a read-only file system it is
    /// sealed.
    ///
    /// # Errors
    /// `ResourceBusy` if another process uses it; those of the file system.
    pub fn take(folder: &Path) -> io::Result<OsDisk> {
        std::fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
        let path = folder.to_owned();
        let folder =
            rustix::fs::open(&path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let (lock, is_sealed) = match rustix::fs::openat(&folder, LOCK, OPEN | OFlags::CREATE, FILE_MODE) {
            // Without a lock file there never was a volume.
            Err(Errno::ROFS) => (rustix::fs::openat(&folder, LOCK, READ, Mode::empty())?, true),
            lock => (lock?, false),
        };
        let lock = File::from(lock);
        match lock.try_lock() {
            Ok(()) => Ok(OsDisk { path, taken: Some(Taken { folder, lock }), is_sealed }),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::ResourceBusy.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Whether a folder, or the nearest existing one above it, is on another drive than the root of the file
    /// system.
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
/// How files are opened on a read-only file system.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

impl Disk for OsDisk {
    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.check_unsealed()?;
        // What has the name may have another mode, or may not be a file.
        match rustix::fs::unlinkat(self.folder(), self.name(path), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OPEN | OFlags::CREATE | OFlags::EXCL;
        let file = rustix::fs::openat(self.folder(), self.name(path), flags, FILE_MODE)?;
        Ok(Arc::new(OsFile { file: File::from(file), is_sealed: false }))
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let open = |flags| rustix::fs::openat(self.folder(), self.name(path), flags, Mode::empty());
        let opened = match open(if self.is_sealed { READ } else { OPEN }) {
            Err(Errno::ROFS | Errno::ACCESS) if self.taken.is_none() => open(READ),
            opened => opened,
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return Err(Errno::NOENT.into()),
            // Something that is not a file cannot be opened, or not like this.
            Err(error) => return Err(self.check_is_file(path).err().unwrap_or_else(|| error.into())),
        };
        let file = File::from(opened);
        if !file.metadata()?.is_file() {
            self.check_is_file(path)?;
        }
        Ok(Arc::new(OsFile { file, is_sealed: self.is_sealed }))
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        self.check_unsealed()?;
        Ok(rustix::fs::unlinkat(self.folder(), self.name(path), AtFlags::empty())?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check_unsealed()?;
        Ok(rustix::fs::renameat(self.folder(), self.name(from), self.folder(), self.name(to))?)
    }

    fn make_folder(&self, folder: &str) -> io::Result<()> {
        if self.taken.is_none() {
            return std::fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(self.name(folder));
        }
        match rustix::fs::mkdirat(self.folder(), folder, Mode::from_raw_mode(FOLDER_MODE)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn identity(&self, path: &str) -> io::Result<Option<Identity>> {
        match rustix::fs::statat(self.folder(), self.name(path), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some((stat.st_dev, stat.st_ino))),
            Err(Errno::NOENT) => Ok(None),
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
                // Something that is not a file is reported when it is read.
                _ if self.taken.is_none() => !matches!(name.to_bytes(), b"." | b".."),
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
        Ok(room_of(&self.statvfs()?))
    }

    fn release(&self) {
        if let Some(taken) = &self.taken {
            // If this fails, the lock is released with the last open handle.
            let _ = taken.lock.unlock();
        }
    }

    fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    fn is_writable(&self) -> bool {
        let is_read_only = |stat: StatVfs| stat.f_flag.contains(StatVfsMountFlags::RDONLY);
        // A file system that has shut itself after an error does not report that here.
        self.statvfs().is_ok_and(|stat| !is_read_only(stat))
            && rustix::fs::openat(self.folder(), self.name(LOCK), OPEN, Mode::empty()).is_ok()
    }

    fn is_there(&self) -> bool {
        let Some(taken) = &self.taken else { return self.path.is_dir() };
        let Ok(own) = rustix::fs::fstat(&taken.folder) else { return false };
        std::fs::metadata(&self.path)
            .is_ok_and(|named| (named.dev(), named.ino()) == (own.st_dev, own.st_ino))
    }
}

/// The room that a file system tells of. What it keeps back, for the superuser or beyond a quota, is neither
/// free nor part of the total: nobody here could ever use it.
pub(crate) fn room_of(stat: &StatVfs) -> Room {
    let fragment_bytes = stat.f_frsize.max(1);
    let reserved = stat.f_bfree.saturating_sub(stat.f_bavail);
    Room {
        total_bytes: stat.f_blocks.saturating_sub(reserved).saturating_mul(fragment_bytes),
        free_bytes: stat.f_bavail.saturating_mul(fragment_bytes),
    }
}

impl OsDisk {
    /// A sealed folder is not changed, even if that may be possible by now.
    fn check_unsealed(&self) -> io::Result<()> {
        if self.is_sealed { Err(Errno::ROFS.into()) } else { Ok(()) }
    }

    fn open_folder(&self, folder: &str) -> io::Result<OwnedFd> {
        let path = if folder.is_empty() { "." } else { folder };
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(self.folder(), self.name(path), flags, Mode::empty())?)
    }

    /// The folder where names start.
    fn folder(&self) -> BorrowedFd<'_> {
        self.taken.as_ref().map_or(rustix::fs::CWD, |taken| taken.folder.as_fd())
    }

    /// The name of a path from there.
    fn name(&self, path: &str) -> PathBuf {
        if self.taken.is_some() { PathBuf::from(path) } else { self.path.join(path) }
    }

    fn statvfs(&self) -> io::Result<StatVfs> {
        let stat = match &self.taken {
            Some(taken) => rustix::fs::fstatvfs(&taken.folder),
            None => rustix::fs::statvfs(&self.path),
        };
        Ok(stat?)
    }

    /// Checks that a name is a file: reading from anything else may wait for ever.
    fn check_is_file(&self, path: &str) -> io::Result<()> {
        let stat = rustix::fs::statat(self.folder(), self.name(path), AtFlags::empty())?;
        let is = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => return Ok(()),
            FileType::Directory => "a folder",
            FileType::Fifo => "a named pipe",
            FileType::Socket => "a socket",
            _ => "a device",
        };
        let path = self.path.join(path);
        Err(io::Error::other(format!("{} is {is} and no file; move it away", path.display())))
    }
}

#[derive(Debug)]
struct OsFile {
    file: File,
    /// Nothing is written to the file.
    is_sealed: bool,
}

/// Writes the front of `slices`, at most about [`WRITE_BYTES_MAX`].
fn write_some(file: &File, slices: &[IoSlice<'_>], offset: u64) -> rustix::io::Result<usize> {
    let mut bytes = 0;
    let fits = |slice: &&IoSlice<'_>| {
        bytes += slice.len();
        bytes <= WRITE_BYTES_MAX
    };
    match slices.iter().take_while(fits).count() {
        0 => rustix::io::pwritev(file, &[IoSlice::new(&slices[0][..WRITE_BYTES_MAX])], offset),
        count => rustix::io::pwritev(file, &slices[..count], offset),
    }
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
                match write_some(&self.file, left, offset) {
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

    fn identity(&self) -> io::Result<Identity> {
        let metadata = self.file.metadata()?;
        Ok((metadata.dev(), metadata.ino()))
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }
}
