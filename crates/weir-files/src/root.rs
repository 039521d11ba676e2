//! A root, and what opens files below it. The kernel resolves each way beneath the root (`openat2`), so that
//! neither a link nor a change of the tree meanwhile leads out. It must not read files.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fstat, fstatfs, openat, openat2, statat,
};
use rustix::io::Errno;

use crate::gone;
use crate::pool::On;

/// So long a root's folder is held: one that is replaced, as by a link to a new release, is seen then.
const HELD: Duration = Duration::from_millis(900);
/// So often a way is tried while the tree changes under it.
const TRIES: usize = 8;

/// Whether names that begin with a dot are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// They are not there for clients, but for the folder `.well-known`.
    NotServed,
    /// They are.
    Served,
}

/// What symbolic links below the root do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symlinks {
    /// They are followed as long as they stay below the root.
    Beneath,
    /// What is behind one is not there for clients.
    Refused,
}

/// Whether precompressed siblings are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Siblings {
    /// They are.
    Used,
    /// They are files like others.
    NotUsed,
}

/// What is served below a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootRules {
    /// The files that answer for their folder: the first that is there.
    pub index: Vec<String>,
    /// Names that begin with a dot.
    pub hidden: Hidden,
    /// Symbolic links.
    pub symlinks: Symlinks,
    /// Precompressed siblings.
    pub siblings: Siblings,
    /// Whether folders without an index file are listed.
    pub lists: bool,
}

/// A folder with files, and what of it is served.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    /// What is served.
    pub rules: RootRules,
    /// A number for the same path with the same rules, in any plan.
    pub(crate) mark: u64,
    /// The device of its folder; 0 while that is not known.
    device: AtomicU64,
    /// What even the kernel's caches do not answer without the device.
    is_remote: AtomicBool,
    folder: Mutex<Option<(Instant, Arc<OwnedFd>)>>,
}

/// Whether an act may wait for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It may not: it runs where requests are answered.
    Never,
    /// It may: it runs on a thread for that.
    May,
}

/// Why a file is not opened or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// There is none.
    #[error("there is no such file")]
    NotThere,
    /// There is something that is neither a file nor a folder, or the way leads over a link that is not
    /// followed.
    #[error("what is there is not served")]
    Refused,
    /// The process may not read it.
    #[error("the file may not be read")]
    Denied,
    /// It would have to wait for a device.
    #[error("it would have to wait")]
    WouldWait,
    /// The system failed.
    #[error("opening a file below a root")]
    System(#[source] Errno),
}

/// Set once the kernel is known to have no `openat2`, or to refuse it.
static STEPS: AtomicBool = AtomicBool::new(false);

impl Root {
    /// A root at `path`; nothing is opened yet.
    pub fn new(path: PathBuf, rules: RootRules) -> Root {
        let mark = xxhash_rust::xxh3::xxh3_64(format!("{path:?} {rules:?}").as_bytes());
        let (device, is_remote) = (AtomicU64::new(0), AtomicBool::new(false));
        Root { path, rules, mark, device, is_remote, folder: Mutex::default() }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What looking below it may wait for.
    pub(crate) fn on(&self) -> On {
        match self.device.load(Ordering::Relaxed) {
            0 => On::Root(self.mark),
            device => On::Device(device),
        }
    }

    /// Opens what `names` lead to, for reading; the root itself where there are none.
    ///
    /// # Errors
    /// It cannot be read, or is not below the root.
    pub(crate) fn open(&self, names: &[u8], wait: Wait, now: Instant) -> Result<OwnedFd, OpenError> {
        let folder = self.folder(wait, now)?;
        if wait == Wait::Never && self.is_remote.load(Ordering::Relaxed) {
            return Err(OpenError::WouldWait);
        }
        match STEPS.load(Ordering::Relaxed) {
            false => self.open_beneath(&folder, names, wait),
            true if wait == Wait::Never => Err(OpenError::WouldWait),
            true => by_steps(&folder, names),
        }
    }

    fn open_beneath(&self, folder: &OwnedFd, names: &[u8], wait: Wait) -> Result<OwnedFd, OpenError> {
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        if self.rules.symlinks == Symlinks::Refused {
            resolve |= ResolveFlags::NO_SYMLINKS;
        }
        if wait == Wait::Never {
            resolve |= ResolveFlags::CACHED;
        }
        let names = if names.is_empty() { b"." } else { names };
        for _ in 0..TRIES {
            match openat2(folder, names, flags(), Mode::empty(), resolve) {
                Ok(opened) => return Ok(opened),
                Err(Errno::AGAIN) if wait == Wait::Never => return Err(OpenError::WouldWait),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::NOSYS | Errno::PERM) => {
                    STEPS.store(true, Ordering::Relaxed);
                    return if wait == Wait::May {
                        by_steps(folder, names)
                    } else {
                        Err(OpenError::WouldWait)
                    };
                }
                // An older kernel knows no flag for what is cached.
                Err(Errno::INVAL) if wait == Wait::Never => return Err(OpenError::WouldWait),
                Err(errno) => return Err(of_errno(errno)),
            }
        }
        Err(OpenError::WouldWait)
    }

    /// The folder, opened again at times.
    fn folder(&self, wait: Wait, now: Instant) -> Result<Arc<OwnedFd>, OpenError> {
        if let Some((since, folder)) = &*self.folder.lock()
            && now.saturating_duration_since(*since) < HELD
        {
            return Ok(Arc::clone(folder));
        }
        if wait == Wait::Never {
            return Err(OpenError::WouldWait);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(CWD, &self.path, flags, Mode::empty()).map_err(of_errno);
        match &opened {
            Ok(_) => gone::note(&self.path, None, now),
            Err(error @ (OpenError::NotThere | OpenError::Refused | OpenError::Denied)) => {
                gone::note(&self.path, Some(&error.to_string()), now);
            }
            Err(_) => {}
        }
        let opened = opened?;
        self.device.store(fstat(&opened).map_or(0, |stat| stat.st_dev), Ordering::Relaxed);
        self.is_remote.store(is_remote(&opened), Ordering::Relaxed);
        let opened = Arc::new(opened);
        *self.folder.lock() = Some((now, Arc::clone(&opened)));
        Ok(opened)
    }
}

/// Whether a folder's file system asks somebody else about opening a file whose way is in the kernel's
/// caches: a server or another process, which may not answer.
fn is_remote(folder: &OwnedFd) -> bool {
    /// The numbers of NFS, FUSE, CIFS, SMB, SMB 2, 9P, Ceph, AFS (two), Coda and OCFS2 (statfs(2)).
    const REMOTE: [u64; 11] = [
        0x6969,
        0x6573_5546,
        0xff53_4d42,
        0x517b,
        0xfe53_4d42,
        0x0102_1997,
        0x00c3_6400,
        0x5346_414f,
        0x6b41_4653,
        0x7375_7245,
        0x7461_636f,
    ];
    fstatfs(folder).is_ok_and(|found| REMOTE.contains(&(found.f_type as u64 & 0xffff_ffff)))
}

/// Neither a device nor a FIFO makes this wait, and no terminal becomes that of the process.
fn flags() -> OFlags {
    OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC
}

/// Opens name after name, for kernels without `openat2`: no symbolic link is followed.
fn by_steps(folder: &OwnedFd, names: &[u8]) -> Result<OwnedFd, OpenError> {
    let mut at: Option<OwnedFd> = None;
    let mut rest = names.split(|byte| *byte == b'/').peekable();
    while let Some(name) = rest.next() {
        if name.is_empty() || name == b".." {
            return Err(OpenError::NotThere);
        }
        let flags = match rest.peek() {
            Some(_) => OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            None => flags(),
        };
        let from = at.as_ref().unwrap_or(folder);
        let opened = openat(from, name, flags | OFlags::NOFOLLOW, Mode::empty());
        at = Some(opened.map_err(|errno| match errno {
            // So says the kernel of a link in place of a folder, too.
            Errno::NOTDIR if is_link(from, name) => OpenError::Refused,
            errno => of_errno(errno),
        })?);
    }
    at.ok_or(OpenError::NotThere)
}

fn is_link(folder: &OwnedFd, name: &[u8]) -> bool {
    let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

/// What an error of the system says of a file.
pub(crate) fn of_errno(errno: Errno) -> OpenError {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL | Errno::ISDIR => {
            OpenError::NotThere
        }
        Errno::LOOP | Errno::XDEV | Errno::NXIO | Errno::NODEV => OpenError::Refused,
        Errno::ACCESS | Errno::PERM => OpenError::Denied,
        errno => OpenError::System(errno),
    }
}

#[cfg(test)]
mod tests;
