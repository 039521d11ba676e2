//! The state folder: one for each Weir, mode 0700, with the lock that keeps a second Weir out and the control
//! socket.
//!
//! The lock is `flock` on the file `lock`, which holds the pid; the kernel releases it however the process
//! ends, so a socket found under a lock that could be taken is a leftover and is removed.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use thiserror::Error;

const LOCK: &str = "lock";
/// The control socket, and its name where something that cannot be removed has the first name.
const SOCKETS: [&str; 2] = ["control.sock", "control-2.sock"];
/// Other files in the folder: their names begin with one of these.
const FILES: [&str; 7] = ["ledger", "volumes", "frequencies", "written-", "audit", "tokens", "origins"];
/// The folder of the accounts.
pub const ACCOUNTS: &str = "accounts";
/// The folder of content by hand.
pub const CONTENT: &str = "content";
/// The folder of ordered certificates.
pub const ACME: &str = "acme";
/// The longest path that fits into a socket address.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The state folder cannot be used.
#[derive(Debug, Error)]
pub enum StateError {
    /// There is no default place for it.
    #[error("no state folder: neither STATE_DIRECTORY nor HOME is set; name one with --state DIR")]
    Nowhere,
    /// It cannot be made or entered.
    #[error("cannot use the state folder {}: {source}; make it writable for this user, or name another with \
             --state DIR", path.display())]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Other users may enter the folder, and it holds files that are not Weir's.
    #[error(
        "the state folder {} is open to other users (mode {mode:04o}) and holds files that are none of \
         Weir's; close it (chmod 700), or name an empty or new folder \
         with --state DIR",
        path.display()
    )]
    Shared {
        /// The folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It belongs to someone else.
    #[error("the state folder {} belongs to another user (uid {owner}); name one of your own with --state \
             DIR", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// Another Weir uses it.
    #[error(
        "another Weir{} uses the state folder {}; stop it, or give this one its own folder with --state DIR",
        pid.as_ref().map(|pid| format!(" (pid {pid})")).unwrap_or_default(),
        path.display()
    )]
    Taken {
        /// The folder.
        path: PathBuf,
        /// The other's pid.
        pid: Option<String>,
    },
}

/// An open, locked state folder; the lock lasts as long as this value.
#[derive(Debug)]
pub struct StateFolder {
    path: PathBuf,
    folder: File,
    socket_made: AtomicBool,
    /// Until the folder belongs to another process.
    lock: Mutex<Option<File>>,
}

impl StateFolder {
    /// Makes the folder if it is missing, and takes its lock.
    ///
    /// # Errors
    /// When it cannot be used or another Weir uses it.
    pub fn open(path: &Path) -> Result<StateFolder, StateError> {
        let unusable = |source| StateError::Unusable { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable)?;
        let folder = File::open(path).map_err(unusable)?;
        close_to_others(path, &folder)?;
        let lock = lock(path)?;
        let (socket_made, lock) = (AtomicBool::new(false), Mutex::new(Some(lock)));
        Ok(StateFolder { path: path.to_owned(), folder, socket_made, lock })
    }

    /// The folder of the old process of an upgrade, with its lock. The lock is held without a gap: it belongs
    /// to every process that has the file open. The folder is this process's once [`StateFolder::take`] is
    /// called.
    ///
    /// # Errors
    /// When it cannot be used.
    pub fn inherit(path: &Path, lock: OwnedFd) -> Result<StateFolder, StateError> {
        let unusable = |source| StateError::Unusable { path: path.to_owned(), source };
        let folder = File::open(path).map_err(unusable)?;
        let (socket_made, lock) = (AtomicBool::new(false), Mutex::new(Some(lock.into())));
        Ok(StateFolder { path: path.to_owned(), folder, socket_made, lock })
    }

    /// A copy of the lock, for the new process.
    ///
    /// # Errors
    /// No descriptor is left, or the folder is another process's.
    pub fn copy_lock(&self) -> io::Result<OwnedFd> {
        let lock = self.lock.lock();
        lock.as_ref().ok_or(io::ErrorKind::NotFound)?.as_fd().try_clone_to_owned()
    }

    /// Takes over the folder of [`StateFolder::inherit`] with its control socket.
    pub fn take(&self) {
        self.socket_made.store(true, Ordering::Relaxed);
        self.lock.lock().as_ref().into_iter().for_each(write_pid);
    }

    /// Leaves the folder with its control socket to the new process, which has the lock. Should that process
    /// fail, the next one need not wait for this one.
    pub fn hand_over(&self) {
        self.socket_made.store(false, Ordering::Relaxed);
        drop(self.lock.lock().take());
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the control socket (mode 0600), in place of one left behind. Dropping this value removes it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn bind_socket(&self) -> Result<UnixListener, StateError> {
        let bind = || {
            let socket = self.freed_socket()?;
            let listener = UnixListener::bind(reachable(&socket, &self.folder))?;
            self.socket_made.store(true, Ordering::Relaxed);
            fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        bind().map_err(|source| StateError::Unusable { path: self.path.clone(), source })
    }

    /// The first name for the socket that is free. None of the others is a socket.
    fn freed_socket(&self) -> io::Result<PathBuf> {
        let freed = SOCKETS.map(|name| {
            let socket = self.path.join(name);
            match fs::remove_file(&socket) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(socket),
            }
        });
        let [first, second] = freed;
        first.or_else(|error| {
            tracing::warn!(%error, "{} cannot be removed; the control socket is {}", SOCKETS[0], SOCKETS[1]);
            second
        })
    }
}

impl Drop for StateFolder {
    /// Removes the control socket while the lock is still held, so that it cannot be another Weir's.
    fn drop(&mut self) {
        if self.socket_made.load(Ordering::Relaxed) {
            let _ = fs::remove_file(socket_in(&self.path));
        }
    }
}

/// Whose process it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// The superuser.
    Root,
    /// Anyone else.
    Other,
}

/// Where the state folder is when none is named: `$STATE_DIRECTORY`, else `/var/lib/weir` for root and
/// `~/.local/state/weir` for others.
///
/// # Errors
/// When there is neither a variable nor a home.
pub fn default_path(variable: &dyn Fn(&str) -> Option<OsString>, user: User) -> Result<PathBuf, StateError> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(folders) = set("STATE_DIRECTORY") {
        // systemd separates several by colons; the first is ours.
        let text = folders.to_string_lossy();
        return Ok(text.split(':').next().map(PathBuf::from).unwrap_or_default());
    }
    if user == User::Root {
        return Ok(PathBuf::from("/var/lib/weir"));
    }
    set("HOME").map(|home| PathBuf::from(home).join(".local/state/weir")).ok_or(StateError::Nowhere)
}

/// The control socket of a state folder: a path that fits into a socket address, and what must stay open
/// meanwhile.
pub(crate) fn socket_of(path: &Path) -> io::Result<(PathBuf, File)> {
    let folder = File::open(path)?;
    Ok((reachable(&socket_in(path), &folder), folder))
}

/// The control socket of a folder: the first of its names that is a socket.
fn socket_in(path: &Path) -> PathBuf {
    let [first, second] = SOCKETS.map(|name| path.join(name));
    let is_socket = |path: &Path| fs::metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if !is_socket(&first) && is_socket(&second) { second } else { first }
}

/// A long path is reached through the open folder.
fn reachable(socket: &Path, folder: &File) -> PathBuf {
    if socket.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
        return socket.to_owned();
    }
    let name = Path::new(socket.file_name().unwrap_or_default());
    Path::new(&format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name)
}

/// Closes a folder that others may enter when all in it is ours; refuses it otherwise.
fn close_to_others(path: &Path, folder: &File) -> Result<(), StateError> {
    let unusable = |source| StateError::Unusable { path: path.to_owned(), source };
    let metadata = folder.metadata().map_err(unusable)?;
    let owner = metadata.uid();
    if owner != rustix::process::geteuid().as_raw() {
        return Err(StateError::Foreign { path: path.to_owned(), owner });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let ours = fs::read_dir(path)
        .map_err(unusable)?
        .all(|entry| entry.is_ok_and(|entry| is_ours(&entry.file_name())));
    if !ours {
        return Err(StateError::Shared { path: path.to_owned(), mode });
    }
    folder.set_permissions(fs::Permissions::from_mode(0o700)).map_err(unusable)
}

fn is_ours(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let is_file = FILES.iter().any(|file| name.starts_with(file));
    name == LOCK
        || [ACCOUNTS, ACME, CONTENT].iter().any(|folder| name == *folder)
        || SOCKETS.contains(&&*name)
        || is_file
}

fn lock(path: &Path) -> Result<File, StateError> {
    let unusable = |source| StateError::Unusable { path: path.to_owned(), source };
    let path_of_lock = path.join(LOCK);
    if fs::metadata(&path_of_lock).is_ok_and(|found| !found.is_file()) {
        return Err(unusable(io::Error::other("`lock` is no file; move it away")));
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path_of_lock)
        .map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let pid = file
                .read_to_string(&mut pid)
                .ok()
                .map(|_| pid.trim().to_owned())
                .filter(|pid| !pid.is_empty());
            return Err(StateError::Taken { path: path.to_owned(), pid });
        }
        Err(TryLockError::Error(source)) => return Err(unusable(source)),
    }
    write_pid(&file);
    Ok(file)
}

/// Writes the pid. A reader never sees an empty file. Where the pid cannot be written, on a full disk, the
/// lock names nobody.
fn write_pid(lock: &File) {
    let line = format!("{}\n", std::process::id());
    let written = lock.write_all_at(line.as_bytes(), 0).and_then(|()| lock.set_len(line.len() as u64));
    if let Err(error) = written {
        tracing::warn!(%error, "cannot write the pid into the lock of the state folder");
        // The lock then does not say who holds it, but it still holds.
        let _ = lock.set_len(0);
    }
}

#[cfg(test)]
mod tests;
