//! The client of one stream: its request's content, within its limits, and what it is sent before the final
//! response. RFC 9113 §8.1, RFC 9110 §10.1.1 (Expect). It must not know how a request is answered.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use h2::{Reason, RecvStream, SendStream, server::SendResponse};
use http::{HeaderMap, StatusCode};
use weir_clock::{self as clock, Deadline};
use weir_observe::SiteId;
use weir_sealed::Way;
use weir_wire::{Expect, Framing};

use super::ahead::Piece;
use super::wire::Wire;
use crate::interim::Interims;
use crate::limits::{ClientLimits, ContentLimits};
use crate::message::{Client, ContentError, LocalFuture, Part};

/// How much content is read after the response, and for how long.
const DISCARD_BYTES_MAX: usize = 1 << 20;
const DISCARD_TIME_MAX: Duration = Duration::from_secs(2);

/// The sending side of a stream.
pub(super) enum Side {
    /// Its final head has not been sent.
    Waiting(SendResponse<Piece>),
    /// Its body is being sent.
    Sending(SendStream<Piece>),
}

impl Side {
    /// Ready once the client has reset the stream, or the connection is gone.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Side::Waiting(respond) => respond.poll_reset(cx).map(drop),
            Side::Sending(stream) => stream.poll_reset(cx).map(drop),
        }
    }

    /// Resets the stream.
    pub(super) fn reset(&mut self, reason: Reason) {
        match self {
            Side::Waiting(respond) => respond.send_reset(reason),
            Side::Sending(stream) => stream.send_reset(reason),
        }
    }
}

/// The receiving side of a stream.
pub(super) struct Content {
    stream: RecvStream,
    wire: Rc<RefCell<Wire>>,
    must_continue: bool,
    /// Bytes of the last part, which open the window again once the next part is asked for.
    unreleased: usize,
    received: u64,
    begun: Instant,
    timer: Deadline,
    limits: ContentLimits,
    is_done: bool,
}

impl Content {
    pub(super) fn new(
        stream: RecvStream,
        wire: Rc<RefCell<Wire>>,
        limits: &ClientLimits,
        begun: Instant,
    ) -> Content {
        Content {
            stream,
            wire,
            must_continue: false,
            unreleased: 0,
            received: 0,
            begun,
            timer: Deadline::after(Duration::ZERO),
            limits: limits.content(),
            is_done: false,
        }
    }

    /// The stream's number.
    pub(super) fn number(&self) -> u32 {
        self.stream.stream_id().as_u32()
    }

    /// Notes what the request's head says of its content.
    pub(super) fn expect(&mut self, framing: Framing, expect: Expect) {
        self.must_continue = expect == Expect::Continue;
        self.is_done = framing == Framing::None;
    }

    /// Whether the message has ended. Waits for the first byte of content, or for its end.
    pub(super) async fn is_empty(&mut self) -> bool {
        match std::future::poll_fn(|cx| self.stream.poll_data(cx)).await {
            None => {
                self.drop_trailers();
                true
            }
            Some(Ok(bytes)) => bytes.is_empty() && self.stream.is_end_stream(),
            Some(Err(_)) => false,
        }
    }

    /// Discards what still comes of the content, for a bounded time: a client may take the reset of its
    /// stream for a failure, though RFC 9113 §8.1 lets a server do it.
    pub(super) async fn discard(&mut self) {
        let discarded = async {
            let mut bytes = 0;
            while bytes < DISCARD_BYTES_MAX && !self.is_done && !self.stream.is_end_stream() {
                match std::future::poll_fn(|cx| self.poll_bytes(cx)).await {
                    Some(Ok(data)) => bytes += data.len(),
                    _ => return,
                }
            }
        };
        // What remains is refused with a reset.
        let _ = tokio::time::timeout(DISCARD_TIME_MAX, discarded).await;
    }

    /// Charges the head of a response that is handed to the crate to a site.
    pub(super) fn charge_head(&self, stream: u32, site: SiteId) {
        self.wire.borrow_mut().charge_head(stream, site);
    }

    /// Whether the client takes nothing of the connection.
    fn is_stalled(&self) -> bool {
        self.wire.borrow().stalled_since().is_some()
    }

    /// The bytes that a tunnel takes up. Dropping the future loses nothing.
    pub(super) fn poll_bytes(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<bytes::Bytes, h2::Error>>> {
        self.release();
        let data = ready!(self.stream.poll_data(cx));
        match &data {
            Some(Ok(bytes)) => self.unreleased = bytes.len(),
            _ => self.drop_trailers(),
        }
        Poll::Ready(data)
    }

    /// Takes the trailers out of the crate, which would hold them as long as the stream lives. They go
    /// nowhere: no rule for fields has seen them (RFC 9110 §6.5.1).
    fn drop_trailers(&mut self) {
        let _ = self.stream.poll_trailers(&mut Context::from_waker(Waker::noop()));
    }

    /// Opens the window for what was taken (RFC 9113 §6.9).
    fn release(&mut self) {
        let taken = std::mem::take(&mut self.unreleased);
        if taken > 0 {
            // It fails only for a stream that is gone.
            let _ = self.stream.flow_control().release_capacity(taken);
        }
    }

    async fn next(&mut self) -> Result<Part, ContentError> {
        if self.is_done {
            return Ok(Part::End);
        }
        self.release();
        let data = std::future::poll_fn(|cx| {
            if let Poll::Ready(data) = self.stream.poll_data(cx) {
                return Poll::Ready(Ok(data));
            }
            // What has arrived of a frame counts.
            self.timer.set(self.deadline());
            while self.timer.poll(cx).is_ready() {
                let until = self.deadline();
                if clock::mono() >= until {
                    return Poll::Ready(Err(ContentError::TooSlow));
                }
                self.timer.set(until);
            }
            Poll::Pending
        });
        match data.await? {
            Some(Ok(bytes)) => {
                self.unreleased = bytes.len();
                self.received += bytes.len() as u64;
                match self.received > self.limits.bytes_max {
                    true => Err(ContentError::TooLarge),
                    false => Ok(Part::Data(bytes)),
                }
            }
            Some(Err(_)) => Err(ContentError::Gone),
            None => {
                self.is_done = true;
                self.drop_trailers();
                Ok(Part::End)
            }
        }
    }

    /// When the next byte must be here for the rate not to fall below the least.
    fn deadline(&self) -> Instant {
        self.limits.due(self.begun, self.received + self.wire.borrow().arriving(self.number()))
    }
}

/// The client of a stream's request.
pub(super) struct StreamClient<'s> {
    pub(super) content: Content,
    pub(super) side: &'s RefCell<Side>,
    /// The site that pays for what is sent.
    pub(super) site: SiteId,
    pub(super) interims: Interims,
}

impl StreamClient<'_> {
    fn send_interim(&self, status: StatusCode, headers: HeaderMap) -> Result<(), ContentError> {
        let mut interim = http::Response::new(());
        *interim.status_mut() = status;
        *interim.headers_mut() = headers;
        match &mut *self.side.borrow_mut() {
            Side::Waiting(respond) => {
                self.content.charge_head(respond.stream_id().as_u32(), self.site);
                respond.send_informational(interim).map_err(|_| ContentError::Gone)
            }
            Side::Sending(_) => Ok(()),
        }
    }
}

impl Client for StreamClient<'_> {
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.side.borrow_mut().poll_gone(cx)
    }

    fn content(&mut self) -> LocalFuture<'_, Result<Part, ContentError>> {
        if std::mem::take(&mut self.content.must_continue)
            && self.send_interim(StatusCode::CONTINUE, HeaderMap::new()).is_err()
        {
            return Box::pin(std::future::ready(Err(ContentError::Gone)));
        }
        Box::pin(self.content.next())
    }

    fn bound_content(&mut self, limits: ContentLimits) {
        self.content.limits = limits;
    }

    fn interim(&mut self, status: StatusCode, headers: &HeaderMap) -> Result<(), ContentError> {
        if self.content.is_stalled() || !self.interims.take(headers) {
            return Ok(());
        }
        self.send_interim(status, headers.clone())
    }

    fn has_ended(&self) -> bool {
        // A client that ends its side of the connection ends the connection.
        false
    }

    fn moved(&mut self) {}

    fn way(&self) -> Way {
        Way::Other
    }

    fn count_for(&mut self, site: SiteId) {
        self.site = site;
    }
}
