//! A user: a connection with at most one request at a time, and what it waits for.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SendFlags, SocketFlags, SocketType};

use crate::body::Body;
use crate::head::Head;
use crate::plan::{Connections, Plan};

/// The phase of a user's round.
#[derive(Debug)]
pub(crate) enum Phase {
    /// No connection, and no request.
    Idle,
    /// Waiting for the connection.
    Connecting,
    /// The request is sent; the head is not complete.
    Head,
    /// The head is complete.
    Body { head: Head, body: Body },
}

/// The requested object.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Want {
    pub(crate) object: u64,
    /// The interval that the response must have.
    pub(crate) interval: Option<(u64, u64)>,
}

#[derive(Debug)]
pub(crate) struct User {
    pub(crate) socket: Option<OwnedFd>,
    pub(crate) phase: Phase,
    pub(crate) want: Want,
    /// The request, kept until the connection is there.
    pub(crate) request: Vec<u8>,
    /// The beginning of a head that came in several pieces.
    pub(crate) partial: Vec<u8>,
    pub(crate) asked_ns: u64,
    pub(crate) first_byte_ns: u64,
    /// Whether the connection has served a response before. The server may then close it before the next head
    /// (RFC 9112 §9.5), and the request is sent again.
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

    /// Closes the connection, if there is one.
    pub(crate) fn hang_up(&mut self) {
        self.socket = None;
        self.phase = Phase::Idle;
        self.partial.clear();
        self.used = false;
    }

    /// Begins a connection. It becomes writable when it is established.
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

    /// Sends the request. It is small and the socket's buffer is empty, so it fits at once.
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
