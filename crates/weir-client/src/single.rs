//! One request on a connection of its own, which is closed behind it: what checks an origin, or reads a page.
//! It must not hold a body.

use std::future::poll_fn;
use std::time::Duration;

use weir_wire::{BodyPart, BodyReader, ResponseHead};

use crate::connection::{Connection, Want};
use crate::error::ExchangeError;
use crate::exchange::Terms;
use crate::h1::exchange::{broken, exchange, limits, malformed};
use crate::h1::outgoing::Outgoing;
use crate::message::RequestHead;
use crate::server::Server;
use crate::settings::{Bounds, Timeouts};
use crate::tally::Trace;

/// Takes a piece of a body; `false`: no more is wanted.
pub type Feed<'f> = &'f mut (dyn FnMut(&[u8]) -> bool + Send);

/// A connection for one request. Dropped, it is closed.
#[derive(Debug)]
pub struct Single {
    connection: Box<Connection>,
}

/// Why a body was not read to its end.
#[derive(Debug)]
pub enum BodyFault {
    /// It did not come whole.
    Exchange(ExchangeError),
    /// It is too large.
    Huge,
    /// No more of it was wanted.
    Refused,
}

impl From<ExchangeError> for BodyFault {
    fn from(error: ExchangeError) -> BodyFault {
        BodyFault::Exchange(error)
    }
}

impl Server {
    /// A connection for one request, beside those of its pool. `trace` follows it from then on.
    ///
    /// # Errors
    /// There is none; `trace` is as before.
    ///
    /// # Cancel safety
    /// Dropped, it closes what was under way.
    pub async fn single(
        &self,
        limit: Duration,
        trace: &mut Option<Box<dyn Trace>>,
    ) -> Result<Single, ExchangeError> {
        let mut connection = self.connect(limit, trace).await?;
        connection.trace = trace.take();
        Ok(Single { connection })
    }
}

impl Single {
    /// Sends a request without a body and waits for the head of the response, each step for `limit` at most.
    ///
    /// # Errors
    /// What failed.
    ///
    /// # Cancel safety
    /// It must be dropped if this is.
    pub async fn ask(
        &mut self,
        request: RequestHead<'_>,
        bounds: &Bounds,
        limit: Duration,
    ) -> Result<ResponseHead, ExchangeError> {
        let timeouts = Timeouts { first_byte: limit, between_bytes: limit, ..Timeouts::default() };
        let terms = Terms { request, login: None, interim: None, timeouts: &timeouts, bounds, answers: None };
        let mut outgoing = Outgoing::last(&request);
        let head = exchange(&mut self.connection, &mut outgoing, &terms).await;
        let (head, _) = head.map_err(|failure| failure.error)?;
        if let Some(trace) = &mut self.connection.trace {
            trace.answered(&head);
        }
        Ok(head)
    }

    /// Reads the body behind a head to its end, of at most so many bytes.
    ///
    /// # Errors
    /// Why it was not read to its end.
    ///
    /// # Cancel safety
    /// It must be dropped if this is.
    pub async fn read(
        &mut self,
        head: &ResponseHead,
        (bounds, bytes_max): (&Bounds, u64),
        feed: Feed<'_>,
    ) -> Result<(), BodyFault> {
        let mut reader = BodyReader::new(head.framing, &limits(bounds));
        let mut seen_bytes = 0_u64;
        loop {
            if seen_bytes.saturating_add(reader.left().unwrap_or(0)) > bytes_max {
                return Err(BodyFault::Huge);
            }
            match reader.read(&mut self.connection.incoming).map_err(malformed)? {
                BodyPart::Data(data) => {
                    seen_bytes += data.len() as u64;
                    if !feed(&data) {
                        return Err(BodyFault::Refused);
                    }
                }
                BodyPart::End(_) => return Ok(()),
                BodyPart::More => {
                    match poll_fn(|cx| self.connection.poll_fill(cx, Want::Body(Some(0)))).await {
                        Ok(0) => return Ok(reader.end_of_input().map(drop).map_err(malformed)?),
                        Ok(_) => {}
                        Err(error) => return Err(broken(error, || ExchangeError::Incomplete).into()),
                    }
                }
            }
        }
    }

    /// It has served its purpose.
    pub fn end(mut self) {
        self.connection.end_attempt();
    }

    /// It has failed.
    pub fn fail(mut self, error: &ExchangeError) {
        self.connection.fail_attempt(error);
    }
}
