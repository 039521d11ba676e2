//! Binding: from an [`Address`] to a listening socket for each worker.
//!
//! TCP sockets share their port by `SO_REUSEPORT`. So that a second Weir on the same port is noticed, a
//! socket without that option is tried first. `TCP_NODELAY` is set on the listener, and accepted sockets
//! inherit it (one system call less each). A Unix socket is one queue for all workers. It is bound under a
//! temporary name, given its mode, and then renamed, so that it never has a wider mode under its own name.

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

/// How many connections the kernel queues for a listener that is slow to accept.
pub const BACKLOG: i32 = 4096;

/// A worker's listening socket. It is `Send`, and joins the worker's runtime in [`super::Arrivals::open`].
#[derive(Debug)]
pub struct Bound {
    pub(super) socket: Listening,
    address: Address,
}

#[derive(Debug)]
pub(super) enum Listening {
    Tcp(std::net::TcpListener),
    /// With its file, if this process removes it.
    Unix(UnixListener, Option<Arc<SocketFile>>),
}

impl Bound {
    pub(super) fn new(socket: Listening, address: Address) -> Bound {
        Bound { socket, address }
    }

    /// A duplicate of the socket.
    pub(super) fn copy(&self) -> io::Result<OwnedFd> {
        match &self.socket {
            Listening::Tcp(listener) => listener.as_fd().try_clone_to_owned(),
            Listening::Unix(listener, _) => listener.as_fd().try_clone_to_owned(),
        }
    }

    /// The file that is removed with the socket.
    pub(super) fn file(&self) -> Option<Arc<SocketFile>> {
        match &self.socket {
            Listening::Tcp(_) => None,
            Listening::Unix(_, file) => file.clone(),
        }
    }

    /// The address. The kernel's choice takes the place of port 0.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

/// Why an address could not be bound. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// A running program has the port or the socket's file.
    #[error("cannot listen on {0}: another program already does; stop it or choose another address \
    ({hint})", hint = who_hint(.0))]
    Occupied(Address),
    /// A port below 1024 without the right to it, or a folder that is not writable.
    #[error("cannot listen on {0}: not permitted; {hint}", hint = permission_hint(.0))]
    NotPermitted(Address),
    /// No interface of this machine has the address.
    #[error("cannot listen on {0}: this machine has no such address; `ip address` shows those it has")]
    NoSuchAddress(Address),
    /// Something that is no socket lies at the path.
    #[error("cannot listen on unix:{path}: a file that is no socket lies there; remove it or choose another \
    path", path = .0.display())]
    NotASocket(PathBuf),
    /// The folder of the path does not exist.
    #[error("cannot listen on unix:{path}: its folder does not exist; make it first", path = .0.display())]
    NoFolder(PathBuf),
    /// Another error of the kernel.
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
/// A [`BindError`], whose text says what to do. Nothing stays bound.
pub fn bind(address: &Address, workers: usize) -> Result<Vec<Bound>, BindError> {
    assert!(workers > 0, "at least one worker listens");
    match address {
        Address::Tcp(at) => bind_tcp(*at, workers).map_err(|source| blame(address, source)),
        Address::Unix { path, mode } => bind_unix(address, path, *mode, workers),
    }
}

fn bind_tcp(at: SocketAddr, workers: usize) -> io::Result<Vec<Bound>> {
    if at.port() != 0 {
        // SO_REUSEPORT would let two programs of one user share the port unnoticed. Binding is enough to
        // detect a listener. This socket must not listen itself, since its connections would be reset.
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

/// Refuses to replace the socket of a living program. One that an ended program left behind may be replaced.
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

/// A Unix socket's file. It is removed with the last listener, unless another program has replaced it.
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

    /// Another process listens on it from now on, and removes it.
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
