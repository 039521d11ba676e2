//! A response and its body as it arrives, whatever version of HTTP brings it. The body ends cleanly only when
//! it came whole; then its slot is free for another request.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};

use crate::clock;
use crate::error::{Bound, ExchangeError};
use crate::h1::body::{Part, Streaming};
use crate::message::Length;
#[cfg(test)]
use crate::tests::scripted;
use crate::tunnel::Tunnel;

/// A response: its head as received, and the stream of its body.
#[derive(Debug)]
pub struct Response {
    /// The status, 200 and above, or 101 where `upgraded` is there.
    pub status: StatusCode,
    /// The fields as received, hop-by-hop ones included.
    pub headers: HeaderMap,
    /// How long the body is.
    pub length: Length,
    /// The body.
    pub body: Incoming,
    /// The connection, after a 101 that was asked for.
    pub upgraded: Option<Tunnel>,
}

/// The body of a response. Dropped before its end, it closes the connection.
#[derive(Debug)]
pub enum Incoming {
    /// It is still to come, on a connection of HTTP/1.
    H1(Box<Streaming>),
    /// It is still to come, on a connection that tests script.
    #[cfg(test)]
    Scripted(Box<scripted::Streaming>),
    /// The rest of a body that came whole, and the trailers.
    Held(Bytes, Option<HeaderMap>),
    /// It came whole; the trailers, until they are asked for.
    Ended(Option<HeaderMap>),
    /// It broke off: the error comes each time.
    Failed(ExchangeError),
}

impl Incoming {
    /// No body: what HEAD, 204, 304 and 101 have.
    pub fn empty() -> Incoming {
        Incoming::Ended(None)
    }

    pub(crate) fn streaming(streaming: Streaming) -> Incoming {
        if streaming.reader.is_done() {
            streaming.finish();
            return Incoming::empty();
        }
        Incoming::H1(Box::new(streaming))
    }

    /// The next bytes, at most 256 KiB, as soon as there are some; `None` at the end of a body that came
    /// whole. A body delimited by close ends at the close: [`crate::Length::UntilClose`].
    ///
    /// # Errors
    /// When the body breaks off, is malformed or stalls. The same error comes again if asked again.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, ExchangeError>> {
        let streaming = match self {
            Incoming::Ended(_) => return Poll::Ready(Ok(None)),
            Incoming::Failed(error) => return Poll::Ready(Err(error.clone())),
            Incoming::Held(data, trailers) => {
                let (data, trailers) = (std::mem::take(data), trailers.take());
                *self = Incoming::Ended(trailers);
                return Poll::Ready(Ok(Some(data)));
            }
            #[cfg(test)]
            Incoming::Scripted(streaming) => {
                let next = std::task::ready!(streaming.poll_next(cx));
                if let Ok(None) = &next {
                    *self = Incoming::Ended(None);
                }
                return Poll::Ready(next);
            }
            Incoming::H1(streaming) => streaming,
        };
        let ended = match streaming.poll_part(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => {
                streaming.lease.connection.fail_attempt(&error);
                *self = Incoming::Failed(error.clone());
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
        if let Incoming::H1(streaming) = std::mem::replace(self, Incoming::Ended(trailers)) {
            streaming.finish();
        }
        Poll::Ready(Ok(data))
    }

    /// Has the next bytes end where `bytes` more have come, so that who keeps the body in blocks gets whole
    /// ones. Where none of them has come yet they are read into `room`, which has just so much. It is for
    /// bodies of declared length of which so much is still to come, and whose reader takes what comes; the
    /// bytes of others come as they do without this.
    pub fn place(&mut self, bytes: usize, room: impl FnOnce() -> BytesMut) {
        if let Incoming::H1(streaming) = self {
            streaming.place(bytes, room);
        }
    }

    /// Its reader takes nothing for now: frees memory that is not needed until it does. Returns `unsent`,
    /// what the reader has left of the last piece. Where that may be a small part of a large buffer, it is
    /// copied: once, however often the reader pauses.
    #[must_use]
    pub fn let_go(&mut self, unsent: Bytes) -> Bytes {
        if let Incoming::H1(streaming) = self {
            let is_large = streaming.slow_down();
            if let Poll::Ready(error) = streaming.poll_gone(&mut Context::from_waker(Waker::noop())) {
                // Its connection ends, though its reader takes nothing.
                *self = Incoming::Failed(error);
            }
            if !is_large {
                return unsent;
            }
        }
        Bytes::copy_from_slice(&unsent)
    }

    /// Whether it may have to end while its reader takes nothing: to be asked by [`Self::let_go`] again.
    pub fn may_give_way(&self) -> bool {
        matches!(self, Incoming::H1(streaming) if streaming.lease.permit.is_stream())
    }

    /// Changes how long the body may stall: event streams may for long.
    pub fn set_between_bytes(&mut self, between_bytes: Duration) {
        if let Incoming::H1(streaming) = self {
            streaming.between_bytes = between_bytes;
        }
    }

    /// Takes it out of the requests that share the pool: the response goes on for as long as its client
    /// likes.
    ///
    /// # Errors
    /// The bound that such responses have reached.
    pub fn outlast(&mut self) -> Result<(), Bound> {
        match self {
            Incoming::H1(streaming) => streaming.lease.outlast(),
            #[cfg(test)]
            Incoming::Scripted(streaming) => streaming.outlast(),
            Incoming::Held(..) | Incoming::Ended(_) | Incoming::Failed(_) => Ok(()),
        }
    }

    /// Whether the body has ended whole.
    pub fn is_ended(&self) -> bool {
        matches!(self, Incoming::Ended(_))
    }

    /// The bytes still to come where the length was declared; 0 at the end.
    pub fn left(&self) -> Option<u64> {
        match self {
            Incoming::H1(streaming) => streaming.reader.left(),
            #[cfg(test)]
            Incoming::Scripted(_) => None,
            Incoming::Held(data, _) => Some(data.len() as u64),
            Incoming::Ended(_) => Some(0),
            Incoming::Failed(_) => None,
        }
    }

    /// The trailers, once, after the end (RFC 9110 §6.5).
    pub fn trailers(&mut self) -> Option<HeaderMap> {
        match self {
            Incoming::Ended(trailers) => trailers.take(),
            _ => None,
        }
    }
}
