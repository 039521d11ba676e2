//! The body of a response of HTTP/1 as it arrives. It ends cleanly only when it came whole; then its
//! connection goes back to the pool.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use weir_wire::{BodyPart, BodyReader, Framing};

use crate::clock;
use crate::connection::Want;
use crate::error::{Bound, ExchangeError};
use crate::h1::exchange::{broken, malformed};
use crate::h1::outgoing::{Outgoing, SendError, Sending};
use crate::login::LoginUse;
use crate::login::stage::Stage;
use crate::pool::slot::Lease;

/// A reader that asks for the next bytes later than this takes them more slowly than they come.
const SLOW_AFTER: Duration = Duration::from_millis(100);
/// And one that asks so soon takes all that comes.
const QUICK_WITHIN: Duration = Duration::from_millis(10);

/// What a body that is still to come needs.
#[derive(Debug)]
pub struct Streaming {
    pub(crate) lease: Lease,
    pub(crate) reader: BodyReader,
    pub(crate) framing: Framing,
    pub(crate) request: RequestRest,
    pub(crate) between_bytes: Duration,
    pub(crate) keep: Option<Duration>,
    /// How far a login on its connection has come, and whose it is.
    pub(crate) login: Option<(Stage, Option<LoginUse>)>,
    /// Since when the body waits for the origin. Time in which nobody asks for bytes does not count.
    pub(crate) waiting_since: Option<Instant>,
    /// When bytes were handed on, until more are asked for.
    pub(crate) handed_on: Option<Instant>,
    /// Whether they are taken more slowly than they come.
    pub(crate) is_slow: bool,
    /// Where the next bytes go: see [`crate::Incoming::place`].
    pub(crate) placed: Placed,
}

/// Where the next bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// Into the connection's buffer.
    Nowhere,
    /// Behind others in the room of their block.
    Begun,
    /// To the beginning of a room for so many.
    New(usize),
}

/// What of the request is still unsent when the response begins.
#[derive(Debug)]
pub(crate) enum RequestRest {
    /// Nothing.
    Sent,
    /// Sending goes on: the origin began its answer before it had read all.
    Sending(Box<Outgoing>),
    /// Sending is given up: the origin has refused the request, or does not read it.
    Abandoned,
}

impl RequestRest {
    /// An early refusal ends the sending; an early answer does not (RFC 9112 §9.5).
    pub(crate) fn after(outgoing: Outgoing, status: StatusCode) -> Self {
        if outgoing.is_done() {
            Self::Sent
        } else if status.is_success() {
            Self::Sending(Box::new(outgoing))
        } else {
            Self::Abandoned
        }
    }
}

/// What comes of a body.
pub(crate) enum Part {
    Data(Bytes),
    End(Option<HeaderMap>),
}

impl Streaming {
    /// As [`crate::Incoming::place`].
    pub(crate) fn place(&mut self, bytes: usize, room: impl FnOnce() -> BytesMut) {
        self.note_pace();
        let incoming = &mut self.lease.connection.incoming;
        let is_long = self.reader.left() >= Some(bytes as u64);
        self.placed = if self.is_slow || !is_long || !incoming.is_empty() {
            Placed::Nowhere
        } else if incoming.capacity() == bytes {
            // Asked again before any of them has come, it stays new.
            if self.placed == Placed::New(bytes) { Placed::New(bytes) } else { Placed::Begun }
        } else {
            // The room of the block before is free again where that was put together from its parts.
            if !incoming.try_reclaim(bytes) || incoming.capacity() != bytes {
                *incoming = room();
            }
            Placed::New(bytes)
        };
    }

    /// Ready where it has given way to another client's stream.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<ExchangeError> {
        std::task::ready!(self.lease.permit.poll_gone(cx));
        let error = self.lease.permit.refuse(Bound::ClientShare, Duration::ZERO);
        self.lease.connection.fail_attempt(&error);
        Poll::Ready(error)
    }

    pub(crate) fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, ExchangeError>> {
        if let Poll::Ready(error) = self.poll_gone(cx) {
            return Poll::Ready(Err(error));
        }
        self.send_on(cx)?;
        self.note_pace();
        loop {
            let incoming = &mut self.lease.connection.incoming;
            match self.reader.read(incoming).map_err(malformed)? {
                BodyPart::Data(data) => {
                    // What fills its room has no other owner.
                    if self.placed == Placed::New(data.len()) && incoming.capacity() == 0 {
                        *incoming = BytesMut::new();
                    }
                    return Poll::Ready(Ok(Part::Data(data)));
                }
                BodyPart::End(trailers) => return Poll::Ready(Ok(Part::End(trailers))),
                BodyPart::More => {}
            }
            let want = match self.reader.left() {
                _ if self.is_slow => Want::SlowBody,
                _ if self.placed != Placed::Nowhere => Want::Placed,
                left => Want::Body(left),
            };
            match self.lease.connection.poll_fill(cx, want) {
                Poll::Ready(Ok(0)) => {
                    self.reader.end_of_input().map_err(malformed)?;
                    return Poll::Ready(Ok(Part::End(None)));
                }
                Poll::Ready(Ok(_)) => self.waiting_since = None,
                Poll::Ready(Err(error)) => {
                    return Poll::Ready(Err(broken(error, || ExchangeError::Incomplete)));
                }
                Poll::Pending => {
                    let since = *self.waiting_since.get_or_insert_with(clock::now);
                    let deadline = since + self.between_bytes;
                    let late = |()| Err(ExchangeError::ReadTimeout);
                    return self.lease.connection.timer.poll(cx, deadline).map(late);
                }
            }
        }
    }

    /// Notes how soon more bytes are asked for.
    pub(crate) fn note_pace(&mut self) {
        let Some(at) = self.handed_on.take() else { return };
        let held = clock::now().saturating_duration_since(at);
        if held >= SLOW_AFTER {
            self.slow_down();
        } else if held <= QUICK_WITHIN {
            self.is_slow = false;
        }
    }

    /// Reads little at a time from now on. False where it does already: then its last piece is no part of a
    /// large buffer.
    pub(crate) fn slow_down(&mut self) -> bool {
        if self.is_slow {
            return false;
        }
        self.is_slow = true;
        self.lease.connection.let_go();
        true
    }

    /// Goes on sending the request, where the origin answered before it had all of it.
    fn send_on(&mut self, cx: &mut Context<'_>) -> Result<(), ExchangeError> {
        let RequestRest::Sending(outgoing) = &mut self.request else { return Ok(()) };
        let before = outgoing.sent_bytes;
        let result = outgoing.poll_send(cx, &mut self.lease.connection.transport);
        let sent_bytes = outgoing.sent_bytes - before;
        self.lease.connection.sent(sent_bytes);
        if sent_bytes > 0 || matches!(result, Ok(Sending::Starved)) {
            self.waiting_since = None;
        }
        match result {
            Ok(Sending::Done) => self.request = RequestRest::Sent,
            Ok(Sending::Blocked | Sending::Starved) => {}
            Err(SendError::Stream) => self.request = RequestRest::Abandoned,
            Err(SendError::Aborted) => return Err(ExchangeError::BodyAborted),
        }
        Ok(())
    }

    /// The body came whole: gives the connection back to the pool if it can be used again.
    pub(crate) fn finish(self) {
        let Self { mut lease, framing, request, keep, login, .. } = self;
        lease.connection.end_attempt();
        let clean = matches!(request, RequestRest::Sent)
            && framing != Framing::Close
            && lease.connection.incoming.is_empty();
        match keep {
            Some(keep) if clean => {
                lease.connection.shrink();
                lease.connection.tally = None;
                match (login, lease.permit.pool()) {
                    (None, Some(pool)) => pool.put(lease.into(), keep),
                    (Some((stage, Some(login))), Some(pool)) => login.keep(lease, stage, (pool, keep)),
                    _ => drop(lease),
                }
            }
            _ => drop(lease),
        }
    }
}
