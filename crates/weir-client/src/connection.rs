//! One connection to an origin: its stream, its read buffer, its timer, and the site that it is charged to.
//!
//! It knows nothing of HTTP but how large its buffer should be. It must not be used by two requests at once.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::AsyncReadExt as _;

use crate::error::ExchangeError;
use crate::tally::{AttemptEnd, Meter, Tally, Trace};
use crate::timer::Timer;
use crate::transport::Transport;

/// Room made for a response head and the first of its body.
const HEAD_SPARE_BYTES: usize = 16 * 1024;
/// The smallest room that is read into while a body is longer.
const BODY_SPARE_BYTES_MIN: usize = 16 * 1024;
/// Room made for a body of unknown or middling length.
const BODY_SPARE_BYTES: usize = 64 * 1024;
/// Room made for a long body, and the most that one read brings.
const BODY_SPARE_BYTES_MAX: usize = 128 * 1024;
/// From here on a body counts as long.
const LONG_BODY_BYTES: u64 = 1024 * 1024;

/// The runtime whose reactor wakes a connection.
///
/// A stream is registered with one reactor and dead once that has ended, so idle connections are kept by
/// runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Home(tokio::runtime::Id);

impl Home {
    /// The current runtime. Panics outside of one, as every use of a socket does.
    pub(crate) fn current() -> Self {
        Self(tokio::runtime::Handle::current().id())
    }
}

/// What is read next, which decides how much room is made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Want {
    /// A response head.
    Head,
    /// A body of which so much is still to come; `None` where that is unknown.
    Body(Option<u64>),
    /// A body that is taken more slowly than it comes.
    SlowBody,
    /// A body, into the room that there is, if there is any.
    Placed,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) transport: Transport,
    pub(crate) incoming: BytesMut,
    pub(crate) timer: Timer,
    pub(crate) home: Home,
    /// Requests sent on it before the current one.
    pub(crate) served: u64,
    /// The site that bytes sent on this connection are charged to, while a request uses it.
    pub(crate) tally: Option<Arc<dyn Tally>>,
    /// The attempt that uses it, where a log wants to know.
    pub(crate) trace: Option<Box<dyn Trace>>,
    /// Where the origin's bytes are counted.
    pub(crate) meter: Option<Arc<dyn Meter>>,
}

impl Connection {
    /// A connection that has served no request.
    pub(crate) fn new(transport: Transport) -> Self {
        Self {
            transport,
            incoming: BytesMut::new(),
            timer: Timer::default(),
            home: Home::current(),
            served: 0,
            tally: None,
            trace: None,
            meter: None,
        }
    }

    /// Moves the connection to the current runtime.
    ///
    /// # Errors
    /// When its stream cannot be moved; it is closed then.
    pub(crate) fn moved_here(mut self: Box<Self>) -> io::Result<Box<Self>> {
        let Self { transport, incoming, mut timer, served, meter, .. } = *self;
        timer.forget();
        let transport = transport.moved_here()?;
        let home = Home::current();
        *self = Self { transport, incoming, timer, home, served, tally: None, trace: None, meter };
        Ok(self)
    }

    /// Frees a large buffer before the connection lies idle.
    pub(crate) fn shrink(&mut self) {
        if self.incoming.capacity() > HEAD_SPARE_BYTES {
            self.let_go();
        }
    }

    /// Frees the buffer if it is empty. What is left of a large one would keep all of it.
    pub(crate) fn let_go(&mut self) {
        if self.incoming.is_empty() {
            self.incoming = BytesMut::new();
        }
    }

    /// Reads into the buffer: the number of bytes, 0 at the end of the stream.
    pub(crate) fn poll_fill(&mut self, cx: &mut Context<'_>, want: Want) -> Poll<io::Result<usize>> {
        make_room(&mut self.incoming, want);
        let filled = pin!(self.transport.read_buf(&mut self.incoming)).poll(cx);
        if let Poll::Ready(Ok(bytes)) = &filled {
            self.received(*bytes);
        }
        filled
    }

    /// Charges bytes that were read.
    pub(crate) fn received(&mut self, bytes: usize) {
        weir_yield::moved(bytes as u64);
        if let Some(tally) = &self.tally {
            tally.received(bytes as u64);
        }
        if let Some(meter) = &self.meter {
            meter.moved(bytes as u64);
        }
        if let Some(trace) = &mut self.trace {
            trace.received(bytes as u64);
        }
    }

    /// Notes bytes that were sent.
    pub(crate) fn sent(&mut self, bytes: u64) {
        weir_yield::moved(bytes);
        if let Some(meter) = self.meter.as_ref().filter(|_| bytes > 0) {
            meter.moved(bytes);
        }
        if let Some(trace) = &mut self.trace {
            trace.sent(bytes);
        }
    }

    /// The attempt that uses it has ended well.
    pub(crate) fn end_attempt(&mut self) {
        if let Some(trace) = self.trace.take() {
            trace.ended(AttemptEnd::Whole);
        }
    }

    /// The attempt that uses it has failed.
    pub(crate) fn fail_attempt(&mut self, error: &ExchangeError) {
        if let Some(trace) = self.trace.take() {
            trace.ended(AttemptEnd::Failed(error.word()));
        }
    }

    /// Whether it may be used again: nothing unread, nothing arrived, not closed.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.incoming.is_empty() && self.transport.is_quiet()
    }
}

fn make_room(buffer: &mut BytesMut, want: Want) {
    let spare = buffer.capacity() - buffer.len();
    let (enough, room) = match want {
        Want::Head => (HEAD_SPARE_BYTES / 4, HEAD_SPARE_BYTES),
        Want::SlowBody | Want::Placed => (1, BODY_SPARE_BYTES_MIN),
        Want::Body(None) => (BODY_SPARE_BYTES_MIN, BODY_SPARE_BYTES),
        Want::Body(Some(left)) if left >= LONG_BODY_BYTES => (BODY_SPARE_BYTES_MIN, BODY_SPARE_BYTES_MAX),
        Want::Body(Some(left)) => {
            let left = usize::try_from(left).unwrap_or(BODY_SPARE_BYTES);
            (left.min(BODY_SPARE_BYTES_MIN), left.clamp(HEAD_SPARE_BYTES, BODY_SPARE_BYTES))
        }
    };
    if spare < enough.max(1) {
        buffer.reserve(room);
    }
}
