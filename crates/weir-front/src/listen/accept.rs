//! Accepting: a worker's listeners and its inbox as one stream of connections.
//!
//! Accepting never ends in an error. A client that is gone again is skipped. When the process or the machine
//! runs out of descriptors or memory, accepting pauses, at first for 10 ms, then twice as long each time up
//! to 1 s, while the open connections go on and free some.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::balance::{Held, Moved, MovedStream, Seat};
use super::bind::{Bound, Listening, SocketFile};
use super::{Family, Peer, Plain};

/// The kernel doubles it. Larger buffers only push each other out of the CPU's cache on a link without delay.
const LOCAL_SEND_BUFFER_BYTES: usize = 128 << 10;
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A new connection of this worker.
#[derive(Debug)]
pub struct Arrival {
    /// Its bytes.
    pub stream: Plain,
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
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(
        UnixListener,
        #[expect(dead_code, reason = "removes the file when dropped")] Option<Arc<SocketFile>>,
    ),
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
                    if let Some(arrival) = moved.arrive() { return arrival }
                    continue;
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
        if worker == self.seat.worker() {
            return Some(Arrival { stream, peer, listener, held, tried: 0 });
        }
        let stream = match stream.leave() {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%error, "connection lost on its way to another worker");
                return None;
            }
        };
        let back = self.seat.give(Moved { stream, peer, listener, held, tried: 0 }).err()?;
        // The other worker's inbox is full: the connection stays, and counts here.
        let held = self.seat.hold(self.seat.worker());
        Moved { held, ..back }.arrive()
    }

    /// Whether all other workers were asked for room for a connection.
    pub(crate) fn is_last(&self, arrival: &Arrival) -> bool {
        arrival.tried + 1 >= self.seat.workers()
    }

    /// Hands a connection for which this worker has no room to the next worker that was not asked. False if
    /// there is none; the connection is then closed.
    pub(crate) fn pass_on(&self, arrival: Arrival) -> bool {
        let Arrival { stream, peer, listener, held, tried } = arrival;
        drop(held);
        let tried = tried + 1;
        let Some(worker) = self.seat.next_worker().filter(|_| tried < self.seat.workers()) else {
            return false;
        };
        let held = self.seat.hold(worker);
        let Ok(stream) = stream.leave() else { return false };
        self.seat.give(Moved { stream, peer, listener, held, tried }).is_ok()
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
        let socket = match bound.socket {
            Listening::Tcp(listener) => Socket::Tcp(TcpListener::from_std(listener)?),
            Listening::Unix(listener, file) => Socket::Unix(UnixListener::from_std(listener)?, file),
        };
        Ok(Self { index, socket })
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Plain, Peer)>> {
        match &self.socket {
            Socket::Tcp(listener) => listener.poll_accept(cx).map_ok(|(stream, from)| {
                bound_send_buffer(&stream, from);
                (Plain::Tcp(stream), Peer::at(from))
            }),
            Socket::Unix(listener, _) => {
                listener.poll_accept(cx).map_ok(|(stream, _)| (Plain::Unix(stream), Peer::Unix))
            }
        }
    }
}

/// Bounds the send buffer of a connection from this machine (a TLS terminator, a balancer). Such a link has
/// no delay, so the kernel need not buffer megabytes. For other links the kernel finds out how much their
/// delay demands.
fn bound_send_buffer(stream: &TcpStream, peer: SocketAddr) {
    if peer.ip().to_canonical().is_loopback() {
        let _ = socket2::SockRef::from(stream).set_send_buffer_size(LOCAL_SEND_BUFFER_BYTES);
    }
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
    /// Registers the connection with the current runtime.
    fn arrive(self) -> Option<Arrival> {
        let stream = match self.stream {
            MovedStream::Tcp(stream) => TcpStream::from_std(stream).map(Plain::Tcp),
            MovedStream::Unix(stream) => UnixStream::from_std(stream).map(Plain::Unix),
        };
        match stream {
            Ok(stream) => {
                let Moved { peer, listener, held, tried, .. } = self;
                Some(Arrival { stream, peer, listener, held, tried })
            }
            Err(error) => {
                tracing::warn!(%error, "connection lost on its way from another worker");
                None
            }
        }
    }
}

impl Plain {
    /// Takes the connection out of its runtime, to be sent to another process.
    ///
    /// # Errors
    /// Those of the runtime. The connection is then lost.
    pub(crate) fn into_socket(self) -> io::Result<(OwnedFd, Family)> {
        Ok(match self.leave()? {
            MovedStream::Tcp(stream) => (stream.into(), Family::Tcp),
            MovedStream::Unix(stream) => (stream.into(), Family::Unix),
        })
    }

    /// Registers a socket from another process with the current runtime.
    ///
    /// # Errors
    /// Those of the runtime.
    pub(crate) fn of_socket(socket: OwnedFd, family: Family) -> io::Result<Self> {
        match family {
            Family::Tcp => TcpStream::from_std(socket.into()).map(Self::Tcp),
            Family::Unix => UnixStream::from_std(socket.into()).map(Self::Unix),
        }
    }

    /// Takes the connection out of its runtime, to be sent to another worker.
    fn leave(self) -> io::Result<MovedStream> {
        match self {
            Self::Tcp(stream) => stream.into_std().map(MovedStream::Tcp),
            Self::Unix(stream) => stream.into_std().map(MovedStream::Unix),
        }
    }
}

/// Whether descriptors or memory have run out: ENFILE 23, EMFILE 24, ENOMEM 12, ENOBUFS 105.
fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(12 | 23 | 24 | 105))
}
