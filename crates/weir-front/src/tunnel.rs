//! A tunnel: bytes both ways between a client and an origin, after a 101 or its like in HTTP/2 (RFC 9110
//! §7.8, RFC 8441). It must not know in which version the client speaks, nor what the bytes mean, but where
//! the frames of a WebSocket end (`frames`).
//!
//! The two directions do not wait for each other: where one side takes nothing for now, what it sends still
//! goes out. States of a direction: *open*, *full* with bytes that its destination has not taken, *ending*
//! once its source has ended, *ended*; *broken* where its destination takes no more. Once the process ends
//! (`ending`), the client of a WebSocket is told so (`farewell`), and any other tunnel is cut.

mod ending;
mod farewell;
mod frames;

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use weir_clock::{self as clock, Deadline};
use weir_yield::Stint;

use self::ending::Place;
pub(crate) use self::ending::{are_any, end_all};
pub(crate) use self::farewell::FAREWELL_TIME_MAX;
use self::farewell::Farewell;
use self::frames::Frames;
use crate::message::Duplex;

/// The longest silence once the origin has ended its side, or takes no more. An origin that has left looks
/// the same as one that has only ended its side.
const HALF_OPEN_IDLE_MAX: Duration = Duration::from_secs(60);
/// The most bytes that are read from the origin at a time.
const READ_BYTES: usize = 16 << 10;

thread_local! {
    /// What is read of an origin, until it is known how much that is: a silent tunnel has no buffer.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

/// One end of a tunnel.
pub(crate) trait End {
    /// The next bytes that it has sent; `None` at its end, and from then on.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>>;

    /// Gives it these bytes, as far as it takes them. Ready once it has them all.
    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<io::Result<()>>;

    /// Tells it that no more bytes come.
    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ready once it has gone away, also where nothing is received of it for now.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Notes that bytes have moved in either direction.
    fn moved(&mut self);
}

/// The origin's end.
struct Origin(Box<dyn Duplex>);

impl End for Origin {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut read = ReadBuf::new(scratch);
            ready!(Pin::new(&mut self.0).poll_read(cx, &mut read))?;
            let bytes = Bytes::copy_from_slice(read.filled());
            Poll::Ready(Ok(Some(bytes).filter(|bytes| !bytes.is_empty())))
        })
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<io::Result<()>> {
        while !bytes.is_empty() {
            match ready!(Pin::new(&mut self.0).poll_write(cx, bytes))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                taken => bytes.advance(taken),
            }
        }
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    /// Where this side has closed its connection, since another client needs its place.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match Pin::new(&mut self.0).poll_flush(cx) {
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::ConnectionAborted => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }

    fn moved(&mut self) {}
}

/// How a tunnel has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The client has all that the origin has sent, and its end.
    Whole,
    /// Somebody has left, or nothing has moved for too long.
    Cut,
}

/// What was moved to the client, and how the tunnel has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) to_client: u64,
    pub(crate) over: Over,
}

/// What a tunnel carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carries {
    /// Frames of RFC 6455.
    WebSocket,
    /// Weir does not know.
    Other,
}

impl Carries {
    /// By the protocol that the origin has switched to.
    pub(crate) fn of(protocol: Option<&[u8]>) -> Carries {
        match protocol {
            Some(name) if name.eq_ignore_ascii_case(b"websocket") => Carries::WebSocket,
            _ => Carries::Other,
        }
    }
}

/// The origin's side of a tunnel.
pub(crate) struct Between {
    pub(crate) origin: Box<dyn Duplex>,
    pub(crate) carries: Carries,
}

/// Moves bytes in both directions until both have ended, until the client has gone, until none move for
/// `idle_max`, or until the process ends.
///
/// # Cancel safety
/// Not safe: bytes on their way are lost.
pub(crate) async fn join(client: &mut impl End, between: Between, idle_max: Duration) -> Moved {
    let mut tunnel = Tunnel::new(client, between, idle_max);
    loop {
        match poll_fn(|cx| tunnel.poll(cx)).await {
            Turn::Over(over) => return Moved { to_client: tunnel.down.bytes, over },
            // Two sides that always have more do not keep others waiting.
            Turn::LetOthersRun => tokio::task::yield_now().await,
        }
    }
}

struct Tunnel<'c, C> {
    client: &'c mut C,
    origin: Origin,
    up: Direction,
    down: Direction,
    idle_max: Duration,
    deadline: Deadline,
    /// Where the frames that the client has been sent end.
    frames: Frames,
    /// Among the tunnels of this worker.
    place: Place,
    /// Once the process ends.
    farewell: Option<Farewell>,
}

enum Turn {
    Over(Over),
    LetOthersRun,
}

impl<'c, C: End> Tunnel<'c, C> {
    fn new(client: &'c mut C, between: Between, idle_max: Duration) -> Tunnel<'c, C> {
        let (now, deadline) = (clock::mono(), Deadline::after(idle_max));
        let (up, down) = (Direction::new(now), Direction::new(now));
        let Between { origin, carries } = between;
        let (origin, frames) = (Origin(origin), Frames::of(carries));
        let (place, farewell) = (Place::take(), None);
        Tunnel { client, origin, up, down, idle_max, deadline, frames, place, farewell }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Turn> {
        let cut = Poll::Ready(Turn::Over(Over::Cut));
        if self.client.poll_gone(cx).is_ready() {
            return cut;
        }
        if self.place.poll_ending(cx) {
            return self.poll_farewell(cx).map(Turn::Over);
        }
        let up_before = self.up.bytes;
        let up = match self.up.pour(cx, self.client, &mut self.origin) {
            Ok(up) => up,
            // It takes no more. What it has said before is still for the client.
            Err(Fault::Destination) => {
                self.up.enter(State::Broken);
                Pause::Waiting
            }
            Err(Fault::Source) => return cut,
        };
        if self.up.bytes > up_before {
            // Else a client that has ended its side would be gone before the origin has taken its last bytes.
            self.client.moved();
        }
        let mut heeded = Heeded { client: &mut *self.client, frames: &mut self.frames };
        let Ok(down) = self.down.pour(cx, &mut self.origin, &mut heeded) else { return cut };
        if self.origin.poll_gone(cx).is_ready() {
            match &self.down.state {
                State::Full(_) => return cut,
                // It is read again, to its end.
                State::Open => return Poll::Ready(Turn::LetOthersRun),
                State::Ending | State::Ended | State::Broken => {}
            }
            if !matches!(self.up.state, State::Ended | State::Broken) {
                self.up.enter(State::Broken);
            }
        }
        if let (State::Ended | State::Broken, State::Ended) = (&self.up.state, &self.down.state) {
            return Poll::Ready(Turn::Over(Over::Whole));
        }
        if up == Pause::Stint || down == Pause::Stint {
            return Poll::Ready(Turn::LetOthersRun);
        }
        self.deadline.set(self.until());
        self.deadline.poll(cx).map(|()| Turn::Over(Over::Cut))
    }

    /// Until when something must move: in one of the directions, and in each that is full.
    fn until(&self) -> Instant {
        let idle_max = match (&self.up.state, &self.down.state) {
            (State::Broken, _) | (_, State::Ending | State::Ended) => self.idle_max.min(HALF_OPEN_IDLE_MAX),
            _ => self.idle_max,
        };
        let full = [&self.up, &self.down].into_iter().filter(|one| matches!(one.state, State::Full(_)));
        let last = self.up.moved.max(self.down.moved);
        full.map(|one| one.moved).fold(last, Instant::min) + idle_max
    }
}

/// The client, with an eye on the frames that it takes.
struct Heeded<'h, C> {
    client: &'h mut C,
    frames: &'h mut Frames,
}

impl<C: End> End for Heeded<'_, C> {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        self.client.poll_receive(cx)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<io::Result<()>> {
        if !self.frames.are_known() {
            return self.client.poll_send(cx, bytes);
        }
        let all = bytes.clone();
        let sent = self.client.poll_send(cx, bytes);
        self.frames.pass(&all[..all.len() - bytes.len()]);
        sent
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.client.poll_finish(cx)
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.client.poll_gone(cx)
    }

    fn moved(&mut self) {
        self.client.moved();
    }
}

/// One direction.
struct Direction {
    state: State,
    /// When it has moved last.
    moved: Instant,
    /// How much it has moved.
    bytes: u64,
    stint: Stint,
}

enum State {
    Open,
    Full(Bytes),
    Ending,
    Ended,
    Broken,
}

/// Why a direction does not go on for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// It waits for one of its ends, or has ended.
    Waiting,
    /// It has moved so much that others are due.
    Stint,
}

/// Which end has failed.
enum Fault {
    Source,
    Destination,
}

impl Direction {
    fn new(now: Instant) -> Direction {
        Direction { state: State::Open, moved: now, bytes: 0, stint: Stint::default() }
    }

    /// Moves what can be moved now.
    fn pour(&mut self, cx: &mut Context<'_>, from: &mut impl End, to: &mut impl End) -> Result<Pause, Fault> {
        loop {
            match &mut self.state {
                State::Open => match from.poll_receive(cx) {
                    Poll::Pending => return Ok(Pause::Waiting),
                    Poll::Ready(Err(_)) => return Err(Fault::Source),
                    Poll::Ready(Ok(None)) => self.enter(State::Ending),
                    Poll::Ready(Ok(Some(bytes))) => self.enter(State::Full(bytes)),
                },
                State::Full(bytes) => {
                    let before = bytes.len();
                    let sent = to.poll_send(cx, bytes);
                    let taken = (before - bytes.len()) as u64;
                    if taken > 0 {
                        (self.bytes, self.moved) = (self.bytes + taken, clock::mono());
                    }
                    match sent {
                        Poll::Pending => return Ok(Pause::Waiting),
                        Poll::Ready(Err(_)) => return Err(Fault::Destination),
                        Poll::Ready(Ok(())) => self.enter(State::Open),
                    }
                    if self.stint.is_over(taken) {
                        return Ok(Pause::Stint);
                    }
                }
                State::Ending => match to.poll_finish(cx) {
                    Poll::Pending => return Ok(Pause::Waiting),
                    Poll::Ready(Err(_)) => return Err(Fault::Destination),
                    Poll::Ready(Ok(())) => self.enter(State::Ended),
                },
                State::Ended | State::Broken => return Ok(Pause::Waiting),
            }
        }
    }

    fn enter(&mut self, state: State) {
        (self.state, self.moved) = (state, clock::mono());
    }
}

#[cfg(test)]
mod tests;
