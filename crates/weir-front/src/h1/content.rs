//! A request's content: read from the client within its limits, on the way to an origin or to be discarded.
//! RFC 9110 §10.1.1 (Expect), RFC 9112 §6, §9.3. It must not be kept.

use std::time::{Duration, Instant};

use weir_wire::{BodyPart, BodyReader, Expect, Framing, Limits};

use super::socket::{ClientEnd, Socket};
use crate::limits::{ClientLimits, ContentLimits};
use crate::message::{ContentError, Length, Part};
use weir_clock as clock;

/// The most bytes that are read of a body that nobody wants. A longer one closes the connection.
const DRAIN_BYTES_MAX: u64 = 64 << 10;
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);

/// The body of the request being answered.
pub(super) struct Content {
    reader: BodyReader,
    framing: Framing,
    waits: Waits,
    received: u64,
    begun: Instant,
    limits: ContentLimits,
}

/// Whether the client waits to be told to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// It does not.
    No,
    /// It waits for `100 Continue` or a response.
    ForEither,
    /// It has waited and got a response: it may send the content or not, and is told nothing (RFC 9110
    /// §10.1.1).
    Answered,
}

impl Content {
    /// Whether the request has none.
    pub(super) fn is_none(&self) -> bool {
        matches!(self.framing, Framing::None)
    }

    /// No body.
    pub(super) fn none() -> Content {
        Content {
            reader: BodyReader::new(Framing::None, &Limits::default()),
            framing: Framing::None,
            waits: Waits::No,
            received: 0,
            begun: clock::mono(),
            limits: ContentLimits { bytes_max: 0, rate_min: 0 },
        }
    }

    /// The body of the request that began at `begun`.
    pub(super) fn begin(framing: Framing, expect: Expect, limits: &ClientLimits, begun: Instant) -> Content {
        Content {
            reader: BodyReader::new(framing, &limits.head),
            framing,
            waits: if expect == Expect::Continue { Waits::ForEither } else { Waits::No },
            received: 0,
            begun,
            limits: limits.content(),
        }
    }

    /// Holds the rest of it to other limits.
    pub(super) fn bound(&mut self, limits: ContentLimits) {
        self.limits = limits;
    }

    /// A response goes out: nothing is said to the client in the middle of it.
    pub(super) fn answered(&mut self) {
        if self.waits == Waits::ForEither {
            self.waits = Waits::Answered;
        }
    }

    /// How long it is.
    pub(super) fn length(&self) -> Length {
        match self.framing {
            Framing::None => Length::None,
            Framing::Length(length) => Length::Known(length),
            Framing::Chunked | Framing::Close => Length::Unknown,
        }
    }

    /// Whether the request has a body at all.
    fn is_some(&self) -> bool {
        !matches!(self.framing, Framing::None | Framing::Length(0))
    }

    /// Whether all of it has been read.
    fn is_done(&self) -> bool {
        !self.is_some() || self.reader.is_done()
    }

    /// The next part. Tells a client that waits for `100 Continue` to go on first.
    ///
    /// # Errors
    /// A limit, a malformed coding, or a client that went away.
    ///
    /// # Cancel safety
    /// Safe: bytes that were read stay in the client's buffer.
    pub(super) async fn next(&mut self, socket: &mut Socket) -> Result<Part, ContentError> {
        loop {
            let part = self.reader.read(&mut socket.input);
            match part.map_err(|fault| ContentError::Malformed(fault.refusal()))? {
                BodyPart::Data(bytes) => {
                    self.received += bytes.len() as u64;
                    if self.received > self.limits.bytes_max {
                        return Err(ContentError::TooLarge);
                    }
                    return Ok(Part::Data(bytes));
                }
                BodyPart::End(_) => return Ok(Part::End),
                BodyPart::More => self.read_more(socket).await?,
            }
        }
    }

    async fn read_more(&mut self, socket: &mut Socket) -> Result<(), ContentError> {
        if self.waits == Waits::ForEither {
            self.waits = Waits::No;
            socket.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            socket.send_printed().await.map_err(|_| ContentError::Gone)?;
        }
        match socket.read(self.limits.due(self.begun, self.received)).await {
            Ok(_) => Ok(()),
            Err(ClientEnd::TimedOut) => Err(ContentError::TooSlow),
            Err(_) => Err(ContentError::Gone),
        }
    }

    /// Discards the rest of the body, if that is short. False: close the connection.
    pub(super) async fn drain(&mut self, socket: &mut Socket) -> bool {
        if self.is_done() {
            return true;
        }
        // A client that was not told to go on may never send the body.
        let is_long =
            matches!(self.length(), Length::Known(length) if length - self.received > DRAIN_BYTES_MAX);
        if self.waits != Waits::No || is_long {
            return false;
        }
        let drained = tokio::time::timeout(DRAIN_TIME_MAX, async {
            let most = self.received + DRAIN_BYTES_MAX;
            while self.received <= most {
                match self.next(socket).await {
                    Ok(Part::Data(_)) => {}
                    Ok(Part::End) => return true,
                    Err(_) => return false,
                }
            }
            false
        });
        drained.await.unwrap_or(false)
    }
}
