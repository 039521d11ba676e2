//! Binding: from an [`Address`] to one listening socket a worker.
//!
//! TCP sockets share their port by `SO_REUSEPORT`; so that a second Weir on the same
//! port is noticed, a socket without that option is tried first. `TCP_NODELAY` is set
//! on the listener and inherited by what it accepts (one system call less each).
//! A Unix socket is one queue shared by all workers; it is bound under another name,
//! given its mode and moved into place, so that nobody meets it with a wider mode.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::Address;

/// Connections the kernel keeps for a listener that is slow to accept.
pub const BACKLOG: i32 = 4096;

/// One worker's listening socket. `Send`; becomes part of that worker's runtime in
/// [`super::Arrivals::open`].
#[derive(Debug)]
pub struct Bound {
    pub(super) socket: Listening,
    address: Address,
}

#[derive(Debug)]
pub(super) enum Listening {
    Tcp(std::net::TcpListener),
    /// With its file, where that is ours to remove.
    Unix(UnixListener, Option<Arc<SocketFile>>),
}

impl Bound {
    pub(super) fn new(socket: Listening, address: Address) -> Bound {
        Bound { socket, address }
    }

    /// The same socket once more.
    pub(super) fn copy(&self) -> io::Result<OwnedFd> {
        match &self.socket {
            Listening::Tcp(listener) => listener.as_fd().try_clone_to_owned(),
            Listening::Unix(listener, _) => listener.as_fd().try_clone_to_owned(),
        }
    }

    /// The file that is removed with it.
    pub(super) fn file(&self) -> Option<Arc<SocketFile>> {
        match &self.socket {
            Listening::Tcp(_) => None,
            Listening::Unix(_, file) => file.clone(),
        }
    }

    /// Where it listens; a port 0 has been replaced by the one the kernel chose.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

/// Why an address could not be listened on. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The port or the socket's file belongs to a running program.
    #[error("cannot listen on {0}: another program already does; stop it or choose another address ({hint})", hint = who_hint(.0))]
    Occupied(Address),
    /// A port below 1024 without the right to it, or a folder that is not writable.
    #[error("cannot listen on {0}: not permitted; {hint}", hint = permission_hint(.0))]
    NotPermitted(Address),
    /// No interface of this machine has the address.
    #[error("cannot listen on {0}: this machine has no such address; `ip address` shows those it has")]
    NoSuchAddress(Address),
    /// Something that is no socket lies at the path.
    #[error("cannot listen on unix:{path}: a file that is no socket lies there; remove it or choose another path", path = .0.display())]
    NotASocket(PathBuf),
    /// The folder of the path does not exist.
    #[error("cannot listen on unix:{path}: its folder does not exist; make it first", path = .0.display())]
    NoFolder(PathBuf),
    /// Anything else the kernel said.
    #[error("cannot listen on {address}: {source}")]
    Kernel {
        /// Where.
        address: Address,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

/// Binds `address` once for each of `workers` workers.
///
/// # Errors
/// A [`BindError`] whose text tells what to do; nothing stays bound.
pub fn bind(address: &Address, workers: usize) -> Result<Vec<Bound>, BindError> {
    assert!(workers > 0, "at least one worker listens");
    match address {
        Address::Tcp(at) => bind_tcp(*at, workers).map_err(|source| blame(address, source)),
        Address::Unix { path, mode } => bind_unix(address, path, *mode, workers),
    }
}

fn bind_tcp(at: SocketAddr, workers: usize) -> io::Result<Vec<Bound>> {
    if at.port() != 0 {
        // SO_REUSEPORT would let two programs of one user share the port unnoticed. Bound is enough to be
        // told of one that listens; this socket must not listen itself, as whoever connected to it would be
        // reset.
        tcp_socket(at)?.bind(&SockAddr::from(at))?;
    }
    let mut chosen = at;
    let mut sockets = Vec::with_capacity(workers);
    for _ in 0..workers {
        let socket = tcp_socket(at)?;
        socket.set_reuse_port(true)?;
        socket.bind(&SockAddr::from(chosen))?;
        socket.listen(BACKLOG)?;
        let listener = std::net::TcpListener::from(socket);
        chosen = listener.local_addr()?;
        sockets.push(Bound { socket: Listening::Tcp(listener), address: Address::Tcp(chosen) });
    }
    Ok(sockets)
}

fn tcp_socket(at: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_tcp_nodelay(true)?;
    if at.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

fn bind_unix(address: &Address, path: &Path, mode: u32, workers: usize) -> Result<Vec<Bound>, BindError> {
    refuse_living(address, path)?;
    let fail = |source| blame(address, source);
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    let _ = fs::remove_file(&temporary);
    let first = unix_socket(&temporary).map_err(fail)?;
    let placed = fs::set_permissions(&temporary, fs::Permissions::from_mode(mode))
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| SocketFile::at(path));
    let file = match placed {
        Ok(file) => Arc::new(file),
        Err(source) => {
            let _ = fs::remove_file(&temporary);
            return Err(fail(source));
        }
    };
    let mut sockets = Vec::with_capacity(workers);
    for _ in 1..workers {
        let copy = first.try_clone().map_err(fail)?;
        sockets.push(Bound { socket: Listening::Unix(copy, Some(file.clone())), address: address.clone() });
    }
    sockets.push(Bound { socket: Listening::Unix(first, Some(file)), address: address.clone() });
    Ok(sockets)
}

/// A socket left behind by a program that has ended may be replaced; nothing else.
fn refuse_living(address: &Address, path: &Path) -> Result<(), BindError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(blame(address, error)),
        Ok(found) if !found.file_type().is_socket() => Err(BindError::NotASocket(path.to_owned())),
        Ok(_) => match UnixStream::connect(path) {
            Ok(_) => Err(BindError::Occupied(address.clone())),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            Err(error) => Err(blame(address, error)),
        },
    }
}

fn unix_socket(path: &Path) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    Ok(UnixListener::from(socket))
}

/// A Unix socket's file; removed with the last listener unless it is another's by then.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    device_inode: (u64, u64),
    is_given: AtomicBool,
}

impl SocketFile {
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(path)?;
        let device_inode = (found.dev(), found.ino());
        Ok(Self { path: path.to_owned(), device_inode, is_given: AtomicBool::new(false) })
    }

    /// Another process listens by it from now on, and removes it.
    pub(super) fn hand_over(&self) {
        self.is_given.store(true, Ordering::Relaxed);
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = !self.is_given.load(Ordering::Relaxed)
            && fs::symlink_metadata(&self.path)
                .is_ok_and(|found| (found.dev(), found.ino()) == self.device_inode);
        if ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn blame(address: &Address, source: io::Error) -> BindError {
    match (source.kind(), address) {
        (io::ErrorKind::AddrInUse, _) => BindError::Occupied(address.clone()),
        (io::ErrorKind::PermissionDenied, _) => BindError::NotPermitted(address.clone()),
        (io::ErrorKind::AddrNotAvailable, _) => BindError::NoSuchAddress(address.clone()),
        (io::ErrorKind::NotFound, Address::Unix { path, .. }) => BindError::NoFolder(path.clone()),
        _ => BindError::Kernel { address: address.clone(), source },
    }
}

fn who_hint(address: &Address) -> String {
    match address {
        Address::Tcp(at) => format!("`ss -ltnp 'sport = :{}'` shows which", at.port()),
        Address::Unix { path, .. } => format!("`ss -lxp src {}` shows which", path.display()),
    }
}

fn permission_hint(address: &Address) -> String {
    match address {
        Address::Tcp(at) if at.port() < 1024 => {
            "ports below 1024 need the capability CAP_NET_BIND_SERVICE: choose a higher port, or run \
             `setcap cap_net_bind_service=+ep` on the program"
                .to_owned()
        }
        Address::Tcp(_) => "the system forbids this user to bind there".to_owned(),
        Address::Unix { path, .. } => {
            let folder = path.parent().unwrap_or(Path::new("/"));
            format!("this user must be able to write in {}", folder.display())
        }
    }
}
