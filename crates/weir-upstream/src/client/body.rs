//! A response body as it arrives. It ends cleanly only when it came whole; then its connection goes back to
//! the pool.
//!
//! States: `Streaming` with the connection; `Ended` with the trailers; `Failed`, which returns its error each
//! time.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use weir_wire::{BodyPart, BodyReader, Framing};

use crate::client::connection::Want;
use crate::client::exchange::{broken, malformed};
use crate::client::login::LoginUse;
use crate::client::login::stage::Stage;
use crate::client::outgoing::{Outgoing, SendError, Sending};
use crate::client::pool::Lease;
use crate::clock;
use crate::error::{Bound, OriginError};
use crate::health::ejection::{Event, Suspect, Verdict};
use crate::origin::{Origin, count};

/// The longest body that is kept while its request is sent again.
const HELD_BYTES_MAX: usize = 16 * 1024;
/// A reader that asks for the next bytes later than this takes them more slowly than they come.
const SLOW_AFTER: Duration = Duration::from_millis(100);
/// And one that asks so soon takes all that comes.
const QUICK_WITHIN: Duration = Duration::from_millis(10);
/// How long its end is waited for.
const HELD_WITHIN: Duration = Duration::from_millis(100);

/// The body of a response. Dropped before its end, it closes the connection.
#[derive(Debug)]
pub struct OriginBody {
    state: State,
}

#[derive(Debug)]
enum State {
    Streaming(Box<Streaming>),
    /// The rest of a body that came whole, and the trailers.
    Held(Bytes, Option<HeaderMap>),
    Ended(Option<HeaderMap>),
    Failed(OriginError),
}

/// What a body that is still to come needs.
#[derive(Debug)]
pub(crate) struct Streaming {
    pub(crate) lease: Lease,
    pub(crate) reader: BodyReader,
    pub(crate) framing: Framing,
    pub(crate) request: RequestRest,
    pub(crate) origin: Arc<Origin>,
    /// What may be the cause of a failure besides the origin.
    pub(crate) suspect: Suspect,
    /// Whether the status alone makes it a failure: then its end is no success.
    pub(crate) verdict: Verdict,
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
    /// Where the next bytes go: see [`OriginBody::place`].
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

impl OriginBody {
    /// No body: what HEAD, 204, 304 and 101 have.
    pub(crate) fn empty() -> Self {
        Self { state: State::Ended(None) }
    }

    pub(crate) fn streaming(streaming: Streaming) -> Self {
        if streaming.reader.is_done() {
            streaming.finish();
            return Self::empty();
        }
        Self { state: State::Streaming(Box::new(streaming)) }
    }

    /// The next bytes, at most 256 KiB, as soon as there are some; `None` at the end of a body that came
    /// whole. A body delimited by close ends at the close: [`crate::OriginResponse::length`] says whether it
    /// is one.
    ///
    /// # Errors
    /// When the body breaks off, is malformed or stalls. The same error comes again if asked again.
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub async fn next(&mut self) -> Result<Option<Bytes>, OriginError> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// [`Self::next`] as a poll.
    ///
    /// # Errors
    /// Those of [`Self::next`].
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, OriginError>> {
        let streaming = match &mut self.state {
            State::Ended(_) => return Poll::Ready(Ok(None)),
            State::Failed(error) => return Poll::Ready(Err(error.clone())),
            State::Held(data, trailers) => {
                let (data, trailers) = (std::mem::take(data), trailers.take());
                self.state = State::Ended(trailers);
                return Poll::Ready(Ok(Some(data)));
            }
            State::Streaming(streaming) => streaming,
        };
        let ended = match streaming.poll_part(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => {
                streaming.origin.failed(&error, streaming.suspect);
                streaming.lease.connection.fail_attempt(&error);
                self.state = State::Failed(error.clone());
                return Poll::Ready(Err(error));
            }
            Poll::Ready(Ok(Part::Data(data))) if !streaming.reader.is_done() => {
                streaming.handed_on = Some(clock::now());
                return Poll::Ready(Ok(Some(data)));
            }
            Poll::Ready(Ok(part)) => part,
        };
        let (data, trailers) = match ended {
            Part::Data(data) => (Some(data), None),
            Part::End(trailers) => (None, trailers),
        };
        if let State::Streaming(streaming) = std::mem::replace(&mut self.state, State::Ended(trailers)) {
            streaming.finish();
        }
        Poll::Ready(Ok(data))
    }

    /// Has the next bytes end where `bytes` more have come, so that who keeps the body in blocks gets whole
    /// ones. Where none of them has come yet they are read into `room`, which has just so much. It is for
    /// bodies of declared length of which so much is still to come, and whose reader takes what comes; the
    /// bytes of others come as they do without this.
    pub fn place(&mut self, bytes: usize, room: impl FnOnce() -> BytesMut) {
        let State::Streaming(streaming) = &mut self.state else { return };
        streaming.note_pace();
        let incoming = &mut streaming.lease.connection.incoming;
        let is_long = streaming.reader.left() >= Some(bytes as u64);
        streaming.placed = if streaming.is_slow || !is_long || !incoming.is_empty() {
            Placed::Nowhere
        } else if incoming.capacity() == bytes {
            // Asked again before any of them has come, it stays new.
            if streaming.placed == Placed::New(bytes) { Placed::New(bytes) } else { Placed::Begun }
        } else {
            // The room of the block before is free again where that was put together from its parts.
            if !incoming.try_reclaim(bytes) || incoming.capacity() != bytes {
                *incoming = room();
            }
            Placed::New(bytes)
        };
    }

    /// Its reader takes nothing for now: frees memory that is not needed until it does. Returns `unsent`,
    /// what the reader has left of the last piece. Where that may be a small part of a large buffer, it is
    /// copied: once, however often the reader pauses.
    #[must_use]
    pub fn let_go(&mut self, unsent: Bytes) -> Bytes {
        if let State::Streaming(streaming) = &mut self.state {
            let is_large = streaming.slow_down();
            if let Poll::Ready(error) = streaming.poll_gone(&mut Context::from_waker(Waker::noop())) {
                // Its connection ends, though its reader takes nothing.
                self.state = State::Failed(error);
            }
            if !is_large {
                return unsent;
            }
        }
        Bytes::copy_from_slice(&unsent)
    }

    /// Whether it may have to end while its reader takes nothing: to be asked by [`Self::let_go`] again.
    pub fn may_give_way(&self) -> bool {
        matches!(&self.state, State::Streaming(streaming) if streaming.lease.permit.is_stream())
    }

    /// Changes how long the body may stall: event streams may for long.
    pub fn set_between_bytes(&mut self, between_bytes: Duration) {
        if let State::Streaming(streaming) = &mut self.state {
            streaming.between_bytes = between_bytes;
        }
    }

    /// Takes its connection out of those that requests share: the response goes on for as long as its client
    /// likes.
    ///
    /// # Errors
    /// The bound that such connections have reached.
    pub fn outlast(&mut self) -> Result<(), Bound> {
        match &mut self.state {
            State::Streaming(streaming) => {
                streaming.lease.outlast()?;
                streaming.lease.busy = None;
                Ok(())
            }
            State::Held(..) | State::Ended(_) | State::Failed(_) => Ok(()),
        }
    }

    /// Reads a short body to its end and keeps it, so that its connection can be used again. False where it
    /// is longer, late or broken.
    pub(crate) async fn hold(&mut self) -> bool {
        let whole = async {
            let mut whole = BytesMut::new();
            while let Some(data) = self.next().await.ok()? {
                if whole.len() + data.len() > HELD_BYTES_MAX {
                    return None;
                }
                whole.extend_from_slice(&data);
            }
            Some(whole.freeze())
        };
        let Ok(Some(whole)) = tokio::time::timeout(HELD_WITHIN, whole).await else { return false };
        if !whole.is_empty() {
            self.state = State::Held(whole, self.trailers());
        }
        true
    }

    /// Whether the body has ended whole.
    pub fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended(_))
    }

    /// The bytes still to come where the length was declared; 0 at the end.
    pub fn left(&self) -> Option<u64> {
        match &self.state {
            State::Streaming(streaming) => streaming.reader.left(),
            State::Held(data, _) => Some(data.len() as u64),
            State::Ended(_) => Some(0),
            State::Failed(_) => None,
        }
    }

    /// The trailers, once, after the end (RFC 9110 §6.5).
    pub fn trailers(&mut self) -> Option<HeaderMap> {
        match &mut self.state {
            State::Ended(trailers) => trailers.take(),
            State::Streaming(_) | State::Held(..) | State::Failed(_) => None,
        }
    }
}

enum Part {
    Data(Bytes),
    End(Option<HeaderMap>),
}

impl Streaming {
    /// Ready where it has given way to another client's stream.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<OriginError> {
        std::task::ready!(self.lease.permit.poll_gone(cx));
        count(&self.origin.counts.busy);
        let error = OriginError::gave_way();
        self.lease.connection.fail_attempt(&error);
        Poll::Ready(error)
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, OriginError>> {
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
                    return Poll::Ready(Err(broken(error, || OriginError::Incomplete)));
                }
                Poll::Pending => {
                    let since = *self.waiting_since.get_or_insert_with(clock::now);
                    let deadline = since + self.between_bytes;
                    let late = |()| Err(OriginError::ReadTimeout);
                    return self.lease.connection.timer.poll(cx, deadline).map(late);
                }
            }
        }
    }

    /// Notes how soon more bytes are asked for.
    fn note_pace(&mut self) {
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
    fn slow_down(&mut self) -> bool {
        if self.is_slow {
            return false;
        }
        self.is_slow = true;
        self.lease.connection.let_go();
        true
    }

    /// Goes on sending the request, where the origin answered before it had all of it.
    fn send_on(&mut self, cx: &mut Context<'_>) -> Result<(), OriginError> {
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
            Err(SendError::Aborted) => return Err(OriginError::BodyAborted),
        }
        Ok(())
    }

    /// The body came whole: gives the connection back to the pool if it can be used again.
    fn finish(self) {
        let Self { mut lease, framing, request, origin, keep, login, verdict, .. } = self;
        lease.connection.end_attempt();
        let clean = matches!(request, RequestRest::Sent)
            && framing != Framing::Close
            && lease.connection.incoming.is_empty();
        match keep {
            Some(keep) if clean => {
                lease.connection.shrink();
                lease.connection.tally = None;
                match login {
                    None => origin.pool().put(lease, keep),
                    Some((stage, Some(login))) => login.keep(lease, stage, (origin.clone(), keep)),
                    Some((_, None)) => drop(lease),
                }
            }
            _ => drop(lease),
        }
        if verdict == Verdict::Good {
            origin.note(Event::Success);
        }
    }
}
