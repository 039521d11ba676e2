//! A user: a connection with at most one request at a time, and what it waits for.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SendFlags, SocketFlags, SocketType};
use rustls::{ClientConfig, ClientConnection};

use crate::body::Body;
use crate::head::Head;
use crate::plan::{Connections, Plan};
use crate::score::Want;
use crate::secure::Tls;

/// The phase of a user's round.
#[derive(Debug)]
pub(crate) enum Phase {
    /// No connection, and no request.
    Idle,
    /// Waiting for the connection.
    Connecting,
    /// Connected; TLS has begun.
    Handshake { since_ns: u64 },
    /// The request is sent; the head is not complete.
    Head,
    /// The head is complete.
    Body { head: Head, body: Body },
}

#[derive(Debug)]
pub(crate) struct User {
    pub(crate) socket: Option<OwnedFd>,
    /// Its TLS, where the target wants it.
    pub(crate) tls: Option<Box<ClientConnection>>,
    /// What it has kept of its last TLS session, where sessions are resumed.
    memory: Option<Arc<ClientConfig>>,
    /// How many connections it has begun.
    pub(crate) dialled: u64,
    pub(crate) phase: Phase,
    pub(crate) want: Want,
    /// The request, kept until the connection is there.
    pub(crate) request: Vec<u8>,
    /// The beginning of a head that came in several pieces.
    pub(crate) partial: Vec<u8>,
    pub(crate) asked_ns: u64,
    /// When its connection was begun.
    pub(crate) dialled_ns: u64,
    pub(crate) first_byte_ns: u64,
    /// Whether the connection has served a response before. The server may then close it before the next head
    /// (RFC 9112 §9.5), and the request is sent again.
    pub(crate) used: bool,
}

impl User {
    pub(crate) fn new() -> Self {
        Self {
            socket: None,
            tls: None,
            memory: None,
            dialled: 0,
            phase: Phase::Idle,
            want: Want::default(),
            request: Vec::with_capacity(1024),
            partial: Vec::new(),
            asked_ns: 0,
            dialled_ns: 0,
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
        self.tls = None;
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
        self.dialled += 1;
        self.socket = Some(socket);
        self.phase = Phase::Connecting;
        Ok(())
    }

    /// Sends the request. It is small and the socket's buffer is empty, so it fits at once.
    pub(crate) fn ask(&mut self) -> Result<(), Errno> {
        if let Some(tls) = &mut self.tls {
            tls.writer().write_all(&self.request).map_err(|_| Errno::NOBUFS)?;
            self.flush()?;
        } else {
            self.send(&self.request)?;
        }
        self.phase = Phase::Head;
        self.first_byte_ns = 0;
        Ok(())
    }

    /// Begins TLS on a new connection.
    pub(crate) fn greet(&mut self, tls: &Tls, now_ns: u64) -> Result<(), Errno> {
        let config = self.memory.get_or_insert_with(|| tls.config());
        let client = ClientConnection::new(config.clone(), tls.name.clone()).map_err(|_| Errno::INVAL)?;
        self.tls = Some(Box::new(client));
        self.phase = Phase::Handshake { since_ns: now_ns };
        self.flush()
    }

    /// Sends what TLS has to say. It is small, as requests are.
    pub(crate) fn flush(&mut self) -> Result<(), Errno> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        if !tls.wants_write() {
            return Ok(());
        }
        let mut records = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut records).map_err(|_| Errno::NOBUFS)?;
        }
        self.send(&records)
    }

    fn send(&self, bytes: &[u8]) -> Result<(), Errno> {
        let Some(socket) = &self.socket else { return Err(Errno::NOTCONN) };
        let sent = net::send(socket, bytes, SendFlags::NOSIGNAL)?;
        if sent == bytes.len() { Ok(()) } else { Err(Errno::NOBUFS) }
    }
}
