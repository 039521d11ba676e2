//! Accepting: a worker's listeners and its inbox as one stream of connections.
//!
//! Accepting never ends in an error. A client that is gone again is skipped. When the process or the machine
//! runs out of descriptors or memory, accepting pauses, at first for 10 ms, then twice as long each time up
//! to 1 s, while the open connections go on and free some.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::{self, SocketFlags};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

use super::balance::{Held, Moved, Seat};
use super::bind::{Bound, Listening, SocketFile};
use super::{Address, Family, Peer, Plain};

/// The kernel doubles it. Larger buffers only push each other out of the CPU's cache on a link without delay.
const LOCAL_SEND_BUFFER_BYTES: usize = 128 << 10;
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A new connection of this worker, on whatever it comes: bytes over a socket, where nothing else is said.
#[derive(Debug)]
pub struct Arrival<C = Plain> {
    /// What it comes on.
    pub carrier: C,
    /// The other end (before any PROXY header: see [`super::greet`]).
    pub peer: Peer,
    /// The index of its listener in the list given to [`Arrivals::open`].
    pub listener: usize,
    /// Counts the connection for this worker until it is dropped.
    pub held: Held,
    /// How many workers had no room for it.
    pub(crate) tried: usize,
}

/// The new connections of one worker.
#[derive(Debug)]
pub struct Arrivals {
    listeners: Vec<Listener>,
    turn: usize,
    seat: Seat,
    pause: Duration,
}

#[derive(Debug)]
struct Listener {
    index: usize,
    socket: Socket,
    /// Whether it listens for connections from this machine alone.
    is_local: bool,
}

/// A listening socket. The runtime's listeners register each connection that they accept; its streams only
/// tell when anything is there to be taken. So it is held as one of those.
#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream, #[expect(dead_code, reason = "removes the file when dropped")] Option<Arc<SocketFile>>),
}

impl Arrivals {
    /// Registers the listeners with the current runtime. All workers must give their listeners in the same
    /// order; the index in it is [`Arrival::listener`].
    ///
    /// # Errors
    /// The runtime or the kernel refuses the registration.
    pub fn open(bound: Vec<Bound>, seat: Seat) -> io::Result<Self> {
        let mut arrivals = Self::new(seat);
        bound.into_iter().enumerate().try_for_each(|(index, bound)| arrivals.add(index, bound))?;
        Ok(arrivals)
    }

    /// A worker's arrivals without a listener yet.
    pub fn new(seat: Seat) -> Self {
        Self { listeners: Vec::new(), turn: 0, seat, pause: PAUSE_FIRST }
    }

    /// Adds a socket of the listener `index`, which may have several.
    ///
    /// # Errors
    /// As [`Arrivals::open`].
    pub fn add(&mut self, index: usize, bound: Bound) -> io::Result<()> {
        self.listeners.push(Listener::open(index, bound)?);
        Ok(())
    }

    /// Stops the listener with this index. Its connections live on.
    pub fn remove(&mut self, index: usize) {
        self.listeners.retain(|listener| listener.index != index);
    }

    /// Stops all listeners (draining). Connections from other workers still arrive.
    pub fn close(&mut self) {
        self.listeners.clear();
    }

    /// The worker's seat, for its counts.
    pub fn seat(&self) -> &Seat {
        &self.seat
    }

    /// Waits for the next connection of this worker: one that it has accepted and kept, or one from another
    /// worker.
    ///
    /// # Cancel safety
    /// Safe: a connection is returned, handed on, or still in the kernel's queue.
    pub async fn next(&mut self) -> Arrival {
        loop {
            let (listeners, turn) = (&self.listeners, &mut self.turn);
            let accepted = tokio::select! {
                biased;
                moved = self.seat.receive() => {
                    return moved.arrive();
                }
                accepted = poll_fn(|cx| poll_accept(listeners, turn, cx)) => accepted,
            };
            match accepted {
                Ok((stream, peer, listener)) => {
                    self.pause = PAUSE_FIRST;
                    if let Some(arrival) = self.place(stream, peer, listener) {
                        return arrival;
                    }
                }
                Err(error) if is_exhausted(&error) => self.wait(&error).await,
                Err(error) => tracing::debug!(%error, "connection gone before it was accepted"),
            }
        }
    }

    /// Keeps the connection, or hands it to the worker with the fewest.
    fn place(&self, stream: Plain, peer: Peer, listener: usize) -> Option<Arrival> {
        let worker = self.seat.choose();
        let held = self.seat.hold(worker);
        let arrival = Arrival { carrier: stream, peer, listener, held, tried: 0 };
        if worker == self.seat.worker() {
            return Some(arrival);
        }
        let back = self.seat.give(Moved::of(arrival)?).err()?;
        // The other worker's inbox is full: the connection stays, and counts here.
        let held = self.seat.hold(self.seat.worker());
        Some(Moved { held, ..back }.arrive())
    }

    /// Whether all other workers were asked for room for a connection.
    pub(crate) fn is_last(&self, arrival: &Arrival) -> bool {
        arrival.tried + 1 >= self.seat.workers()
    }

    /// Hands a connection for which this worker has no room to the next worker that was not asked. False if
    /// there is none; the connection is then closed.
    pub(crate) fn pass_on(&self, arrival: Arrival) -> bool {
        let Arrival { carrier, peer, listener, held, tried } = arrival;
        drop(held);
        let tried = tried + 1;
        let Some(worker) = self.seat.next_worker().filter(|_| tried < self.seat.workers()) else {
            return false;
        };
        let held = self.seat.hold(worker);
        let moved = Moved::of(Arrival { carrier, peer, listener, held, tried });
        moved.is_some_and(|moved| self.seat.give(moved).is_ok())
    }

    async fn wait(&mut self, error: &io::Error) {
        let pause_ms = self.pause.as_millis() as u64;
        tracing::warn!(%error, pause_ms, "cannot accept connections: pausing; raise the limit of open files");
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

impl Listener {
    fn open(index: usize, bound: Bound) -> io::Result<Self> {
        let is_local = matches!(bound.address(), Address::Tcp(at) if at.ip().to_canonical().is_loopback());
        let socket = match bound.socket {
            Listening::Tcp(listener) => {
                if is_local {
                    // Accepted sockets inherit it.
                    bound_send_buffer(&listener);
                }
                Socket::Tcp(TcpStream::from_std(OwnedFd::from(listener).into())?)
            }
            Listening::Unix(listener, file) => {
                Socket::Unix(UnixStream::from_std(OwnedFd::from(listener).into())?, file)
            }
        };
        Ok(Self { index, socket, is_local })
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Plain, Peer)>> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, from) = loop {
            let accepted = match &self.socket {
                Socket::Tcp(listener) => {
                    ready!(listener.poll_read_ready(cx))?;
                    listener.try_io(Interest::READABLE, || Ok(net::acceptfrom_with(listener, flags)?))
                }
                Socket::Unix(listener, _) => {
                    ready!(listener.poll_read_ready(cx))?;
                    listener.try_io(Interest::READABLE, || Ok(net::acceptfrom_with(listener, flags)?))
                }
            };
            match accepted {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                accepted => break accepted?,
            }
        };
        if let Socket::Unix(..) = self.socket {
            return Poll::Ready(Ok((Plain::new(socket, Family::Unix), Peer::Unix)));
        }
        let from = SocketAddr::try_from(from.ok_or(io::ErrorKind::NotConnected)?)?;
        if !self.is_local && from.ip().to_canonical().is_loopback() {
            bound_send_buffer(&socket);
        }
        Poll::Ready(Ok((Plain::new(socket, Family::Tcp), Peer::at(from))))
    }
}

/// Bounds the send buffer of connections from this machine (a TLS terminator, a balancer). Such a link has
/// no delay, so the kernel need not buffer megabytes. For other links the kernel finds out how much their
/// delay demands.
fn bound_send_buffer(socket: &impl AsFd) {
    let _ = SockRef::from(socket).set_send_buffer_size(LOCAL_SEND_BUFFER_BYTES);
}

/// Asks the listeners in turn, so that none starves.
fn poll_accept(
    listeners: &[Listener],
    turn: &mut usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<(Plain, Peer, usize)>> {
    for step in 0..listeners.len() {
        let at = (*turn + step) % listeners.len();
        if let Poll::Ready(accepted) = listeners[at].poll_accept(cx) {
            *turn = at + 1;
            return Poll::Ready(accepted.map(|(stream, peer)| (stream, peer, listeners[at].index)));
        }
    }
    Poll::Pending
}

impl Moved {
    /// Takes a connection out of this worker's runtime; `None` if it is lost.
    fn of(arrival: Arrival) -> Option<Moved> {
        let Arrival { carrier, peer, listener, held, tried } = arrival;
        match carrier.into_socket() {
            Ok((socket, family)) => Some(Moved { socket, family, peer, listener, held, tried }),
            Err(error) => {
                tracing::warn!(%error, "connection lost on its way to another worker");
                None
            }
        }
    }

    fn arrive(self) -> Arrival {
        let Moved { socket, family, peer, listener, held, tried } = self;
        Arrival { carrier: Plain::new(socket, family), peer, listener, held, tried }
    }
}

/// Whether descriptors or memory have run out: ENFILE 23, EMFILE 24, ENOMEM 12, ENOBUFS 105.
fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(12 | 23 | 24 | 105))
}
