//! The service manager: what Weir tells it (`sd_notify(3)`) and gets from it (`sd_listen_fds(3)`). All of it
//! is optional: without a manager Weir tells nobody, and binds every socket itself.

use std::io;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::PathBuf;

use anyhow::{Context, bail};
use listenfd::ListenFd;
use rustix::time::{ClockId, clock_gettime};
use weir_front::listen::{Address, Keeper, PassedListener};

/// The manager's socket, where there is one.
#[derive(Debug)]
pub(crate) struct Service(Option<SocketAddr>);

impl Service {
    /// As `NOTIFY_SOCKET` names it: a path, or an abstract name behind an `@`.
    pub(crate) fn of_environment() -> Service {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Service(None);
        };
        let address = match name.as_bytes().split_first() {
            Some((b'@', name)) => SocketAddr::from_abstract_name(name),
            _ => SocketAddr::from_pathname(&name),
        };
        let address =
            address.inspect_err(|error| tracing::warn!(%error, ?name, "NOTIFY_SOCKET is not a socket"));
        Service(address.ok())
    }

    /// Requests are taken; `status` is what `systemctl status` shows.
    pub(crate) fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nMAINPID={}\nSTATUS={status}", std::process::id()));
    }

    /// The configuration is loaded again; [`Service::ready`] follows.
    pub(crate) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let now_us = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1_000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}"));
    }

    /// This process ends.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=finishing the requests under way");
    }

    /// Another process is the service's main one.
    pub(crate) fn main_is_now(&self, pid: u32) {
        self.tell(&format!("MAINPID={pid}\nSTATUS=process {pid} has taken over"));
    }

    fn tell(&self, state: &str) {
        let Some(address) = &self.0 else { return };
        let sent = UnixDatagram::unbound().and_then(|socket| socket.send_to_addr(state.as_bytes(), address));
        if let Err(error) = sent {
            tracing::warn!(%error, "cannot tell the service manager");
        }
    }
}

/// The listening sockets that the service manager has made for this process.
///
/// # Errors
/// A sentence, where one of them is not a listening stream socket.
pub(crate) fn listeners() -> anyhow::Result<Vec<PassedListener>> {
    let mut given = ListenFd::from_env();
    (0..given.len()).map(|at| listener(&mut given, at)).collect()
}

fn listener(given: &mut ListenFd, at: usize) -> anyhow::Result<PassedListener> {
    let said = || format!("socket {at} of the service manager cannot be used");
    if let Ok(Some(listener)) = given.take_tcp_listener(at) {
        return of_tcp(listener).with_context(said);
    }
    match given.take_unix_listener(at).with_context(said)? {
        Some(listener) => of_unix(listener).with_context(said),
        None => bail!(said()),
    }
}

fn of_tcp(listener: TcpListener) -> io::Result<PassedListener> {
    listener.set_nonblocking(true)?;
    // Connections inherit it.
    rustix::net::sockopt::set_tcp_nodelay(&listener, true)?;
    let address = Address::Tcp(listener.local_addr()?);
    Ok(PassedListener { address, sockets: vec![listener.into()], keeper: Keeper::Manager })
}

fn of_unix(listener: UnixListener) -> io::Result<PassedListener> {
    listener.set_nonblocking(true)?;
    let at = listener.local_addr()?;
    let path = at.as_pathname().ok_or_else(|| io::Error::other("its address is no path"))?;
    let path = PathBuf::from(std::ffi::OsString::from_vec(path.as_os_str().as_bytes().to_vec()));
    let address = Address::Unix { path, mode: 0 };
    Ok(PassedListener { address, sockets: vec![listener.into()], keeper: Keeper::Manager })
}
