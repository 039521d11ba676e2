//! The admin listener, bound and not yet served.

use std::fs::Permissions;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::PathBuf;

use weir_config::value::ListenAddress;

/// The mode of the admin listener's socket file where none is named.
const UNIX_MODE: u32 = 0o660;

/// The control plane's servers cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The admin address cannot be listened on.
    #[error("cannot listen on {address} for metrics and health: {}", hint(source))]
    Bind {
        /// The address.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The thread or its runtime cannot be started.
    #[error(
        "cannot start the control plane's thread: {0}; raise the limits of threads and open files for this \
         user"
    )]
    Thread(#[source] io::Error),
}

fn hint(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "the address is in use, perhaps by another Weir; stop it or name another address with --admin or \
             [admin] listen"
                .to_owned()
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine does not have the address; name one it has with --admin or [admin] \
             listen"
                .to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "permission denied; name a port above 1023 or a folder you may write to, with --admin or [admin] \
             listen"
                .to_owned()
        }
        _ => format!("{error}; name another address with --admin or [admin] listen"),
    }
}

/// The admin listener, bound and not yet served.
#[derive(Debug)]
pub enum AdminListener {
    /// TCP.
    Tcp(std::net::TcpListener),
    /// A unix socket and its path.
    Unix(StdUnixListener, PathBuf),
}

impl AdminListener {
    /// Binds the admin address.
    ///
    /// # Errors
    /// When it is in use or not available.
    pub fn bind(address: &ListenAddress) -> Result<AdminListener, ServeError> {
        let fail = |source| ServeError::Bind { address: address.to_string(), source };
        match address {
            ListenAddress::Tcp(at) => {
                let listener = std::net::TcpListener::bind(at).map_err(fail)?;
                listener.set_nonblocking(true).map_err(fail)?;
                Ok(AdminListener::Tcp(listener))
            }
            ListenAddress::Unix { path, mode } => {
                remove_leftover(path).map_err(fail)?;
                let listener = StdUnixListener::bind(path).map_err(fail)?;
                let mode = Permissions::from_mode(mode.unwrap_or(UNIX_MODE));
                std::fs::set_permissions(path, mode).map_err(fail)?;
                listener.set_nonblocking(true).map_err(fail)?;
                Ok(AdminListener::Unix(listener, path.clone()))
            }
        }
    }

    /// The listener of the old process of an upgrade, for that address.
    pub fn inherit(address: &ListenAddress, socket: OwnedFd) -> AdminListener {
        match address {
            ListenAddress::Tcp(_) => AdminListener::Tcp(socket.into()),
            ListenAddress::Unix { path, .. } => AdminListener::Unix(socket.into(), path.clone()),
        }
    }

    /// A copy of the socket, for the new process.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn copy(&self) -> io::Result<OwnedFd> {
        match self {
            AdminListener::Tcp(listener) => listener.as_fd().try_clone_to_owned(),
            AdminListener::Unix(listener, _) => listener.as_fd().try_clone_to_owned(),
        }
    }

    /// The TCP address it got, for port 0.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            AdminListener::Tcp(listener) => listener.local_addr().ok(),
            AdminListener::Unix(..) => None,
        }
    }

    /// The address it got, as text: over TLS `https://`.
    pub fn address(&self, is_tls: bool) -> String {
        let scheme = if is_tls { "https" } else { "http" };
        match self {
            AdminListener::Tcp(listener) => {
                listener.local_addr().map_or_else(|_| "?".to_owned(), |at| format!("{scheme}://{at}"))
            }
            AdminListener::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }
}

/// Removes a socket on which nobody listens any more.
fn remove_leftover(path: &std::path::Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    use std::os::unix::net::UnixStream;
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if metadata.file_type().is_socket() && UnixStream::connect(path).is_err_and(refused) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}
