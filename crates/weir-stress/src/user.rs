//! One user: a connection with at most one request at a time, and what it is waiting for.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SendFlags, SocketFlags, SocketType};

use crate::body::Body;
use crate::head::Head;
use crate::plan::{Connections, Plan};

/// Where a user is in its round.
#[derive(Debug)]
pub(crate) enum Phase {
    /// Without a connection, not asking.
    Idle,
    /// Waiting for the connection.
    Connecting,
    /// Asked; the head is not whole.
    Head,
    /// The head is there.
    Body { head: Head, body: Body },
}

/// What was asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Want {
    pub(crate) object: u64,
    /// The interval that the answer must have.
    pub(crate) interval: Option<(u64, u64)>,
}

#[derive(Debug)]
pub(crate) struct User {
    pub(crate) socket: Option<OwnedFd>,
    pub(crate) phase: Phase,
    pub(crate) want: Want,
    /// The request, kept for when the connection is there.
    pub(crate) request: Vec<u8>,
    /// The beginning of a head that did not come in one piece.
    pub(crate) partial: Vec<u8>,
    pub(crate) asked_ns: u64,
    pub(crate) first_byte_ns: u64,
    /// Whether the connection has served a response before: then its end before the
    /// next head is the server's right (RFC 9112 §9.5) and the request is asked again.
    pub(crate) used: bool,
}

impl User {
    pub(crate) fn new() -> Self {
        Self {
            socket: None,
            phase: Phase::Idle,
            want: Want::default(),
            request: Vec::with_capacity(1024),
            partial: Vec::new(),
            asked_ns: 0,
            first_byte_ns: 0,
            used: false,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Ends the connection, if any.
    pub(crate) fn hang_up(&mut self) {
        self.socket = None;
        self.phase = Phase::Idle;
        self.partial.clear();
        self.used = false;
    }

    /// Begins a connection; writable when it stands.
    pub(crate) fn dial(&mut self, plan: &Plan) -> Result<(), Errno> {
        let family = if plan.target.address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
        net::sockopt::set_tcp_nodelay(&socket, true)?;
        if plan.connections == Connections::NewEach {
            // Reset at the end: closed ports in TIME_WAIT would run out in seconds.
            net::sockopt::set_socket_linger(&socket, Some(std::time::Duration::ZERO))?;
        }
        match net::connect(&socket, &plan.target.address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error),
        }
        self.socket = Some(socket);
        self.phase = Phase::Connecting;
        Ok(())
    }

    /// Sends the request; it is small and the socket's buffer empty, so it goes at once.
    pub(crate) fn ask(&mut self) -> Result<(), Errno> {
        let Some(socket) = &self.socket else { return Err(Errno::NOTCONN) };
        let sent = net::send(socket, &self.request, SendFlags::NOSIGNAL)?;
        if sent != self.request.len() {
            return Err(Errno::NOBUFS);
        }
        self.phase = Phase::Head;
        self.first_byte_ns = 0;
        Ok(())
    }
}
