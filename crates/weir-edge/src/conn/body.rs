//! A request's body: read from the client with its limits, on the way to an origin or to nowhere.
//! RFC 9110 §10.1.1 (Expect), RFC 9112 §6, §9.3. It must not be kept.

use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc;
use weir_upstream::OutPart;
use weir_wire::{BodyPart, BodyReader, Expect, Framing, Limits, Refusal};

use super::ClientLimits;
use super::client::{Client, ClientEnd};
use weir_clock as clock;

/// The least rate is asked for after this long.
const RATE_GRACE: Duration = Duration::from_secs(10);
/// What is read of a body that nobody wants, before the connection is closed instead.
const DRAIN_BYTES_MAX: u64 = 64 << 10;
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);

/// Why a body cannot be read on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// More than the limit: 413.
    #[error("request body too large")]
    TooLarge,
    /// Below the least rate: 408.
    #[error("request body too slow")]
    TooSlow,
    /// Not a chunked body: 400, or 431 for its trailers.
    #[error("request body malformed: {}", .0.reason())]
    Malformed(Refusal),
    /// The client went away.
    #[error("client gone")]
    Gone,
}

/// What is next in a body.
pub(crate) enum Part {
    /// Bytes.
    Data(Bytes),
    /// The end. Trailers stay here: no rule for fields has seen them (RFC 9110 §6.5.1).
    End,
}

/// A request body on its way to an origin.
pub(crate) struct Upload {
    parts: Option<mpsc::Sender<OutPart>>,
}

impl Upload {
    /// Nothing to send.
    pub(crate) fn none() -> Upload {
        Upload { parts: None }
    }

    /// Into `parts`, which the origin's connection takes as it can.
    pub(crate) fn into(parts: mpsc::Sender<OutPart>) -> Upload {
        Upload { parts: Some(parts) }
    }

    /// Moves one part of the body; when nothing is left to move, waits until the client goes away.
    ///
    /// # Errors
    /// The body cannot be read on, or the client went away.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn pump(
        &mut self,
        body: &mut RequestBody,
        client: &mut Client,
    ) -> Result<(), BodyError> {
        let Some(parts) = &self.parts else {
            client.gone().await;
            return Err(BodyError::Gone);
        };
        let place = tokio::select! {
            biased;
            place = parts.clone().reserve_owned() => place,
            () = client.gone() => return Err(BodyError::Gone),
        };
        // A closed channel means that the origin wants no more of it.
        let Ok(place) = place else {
            self.parts = None;
            return Ok(());
        };
        client.moved();
        match body.next(client).await? {
            Part::Data(bytes) => drop(place.send(OutPart::Data(bytes))),
            Part::End => {
                drop(place.send(OutPart::End(None)));
                self.parts = None;
            }
        }
        Ok(())
    }
}

/// The body of the request being answered.
pub(crate) struct RequestBody {
    reader: BodyReader,
    framing: Framing,
    must_continue: bool,
    received: u64,
    begun: Instant,
    bytes_max: u64,
    rate_min: u64,
}

impl RequestBody {
    /// No body.
    pub(crate) fn none() -> RequestBody {
        RequestBody {
            reader: BodyReader::new(Framing::None, &Limits::default()),
            framing: Framing::None,
            must_continue: false,
            received: 0,
            begun: clock::mono(),
            bytes_max: 0,
            rate_min: 0,
        }
    }

    /// The body of a request that began at `begun`.
    pub(crate) fn begin(
        framing: Framing,
        expect: Expect,
        limits: &ClientLimits,
        begun: Instant,
    ) -> RequestBody {
        RequestBody {
            reader: BodyReader::new(framing, &limits.head),
            framing,
            must_continue: expect == Expect::Continue,
            received: 0,
            begun,
            bytes_max: limits.body_bytes_max,
            rate_min: limits.body_rate_min,
        }
    }

    /// Its declared length in bytes.
    pub(crate) fn length(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(length) => Some(length),
            Framing::None => Some(0),
            Framing::Chunked | Framing::Close => None,
        }
    }

    /// Whether the request has a body at all.
    pub(crate) fn is_some(&self) -> bool {
        !matches!(self.framing, Framing::None | Framing::Length(0))
    }

    /// Whether all of it has been read.
    pub(crate) fn is_done(&self) -> bool {
        !self.is_some() || self.reader.is_done()
    }

    /// Whether the client declared more than may be sent.
    pub(crate) fn is_too_large(&self) -> bool {
        matches!(self.framing, Framing::Length(length) if length > self.bytes_max)
    }

    /// The next part. A client that waits for `100 Continue` is told to go on first.
    ///
    /// # Errors
    /// Limits, a malformed coding, a client that went away.
    ///
    /// # Cancel safety
    /// Safe: what was read stays in the client's buffer.
    pub(crate) async fn next(&mut self, client: &mut Client) -> Result<Part, BodyError> {
        loop {
            let part = self.reader.read(&mut client.input);
            match part.map_err(|fault| BodyError::Malformed(fault.refusal()))? {
                BodyPart::Data(bytes) => {
                    self.received += bytes.len() as u64;
                    if self.received > self.bytes_max {
                        return Err(BodyError::TooLarge);
                    }
                    return Ok(Part::Data(bytes));
                }
                BodyPart::End(_) => return Ok(Part::End),
                BodyPart::More => self.read_more(client).await?,
            }
        }
    }

    async fn read_more(&mut self, client: &mut Client) -> Result<(), BodyError> {
        if std::mem::take(&mut self.must_continue) {
            client.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            client.send(&[]).await.map_err(|_| BodyError::Gone)?;
        }
        match client.read(self.deadline()).await {
            Ok(_) => Ok(()),
            Err(ClientEnd::TimedOut) => Err(BodyError::TooSlow),
            Err(_) => Err(BodyError::Gone),
        }
    }

    /// When the next byte must be here for the rate not to fall below the least.
    fn deadline(&self) -> Instant {
        let covered = self.received.checked_div(self.rate_min).unwrap_or(u64::from(u32::MAX));
        self.begun + RATE_GRACE + Duration::from_secs(covered.min(u64::from(u32::MAX)))
    }

    /// Reads to the end what nobody wanted, if that is little; false means: close the connection.
    pub(crate) async fn drain(&mut self, client: &mut Client) -> bool {
        if self.is_done() {
            return true;
        }
        // A client still waiting for 100 has not sent the body, and may never.
        if self.must_continue || self.length().is_some_and(|length| length - self.received > DRAIN_BYTES_MAX)
        {
            return false;
        }
        let drained = tokio::time::timeout(DRAIN_TIME_MAX, async {
            let most = self.received + DRAIN_BYTES_MAX;
            while self.received <= most {
                match self.next(client).await {
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
