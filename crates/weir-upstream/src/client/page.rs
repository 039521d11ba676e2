//! A page of another server that is no origin: one GET on a connection of its own, and its body in pieces. It
//! must not hold a body, nor follow a redirect.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::time::{Instant, timeout_at};
use weir_wire::{BodyPart, BodyReader};

use crate::again::attempt::new_connection;
use crate::again::track::Turn;
use crate::choice::roster::Signal;
use crate::client::address;
use crate::client::connection::{Connection, Want};
use crate::client::exchange::{Terms, broken, exchange, limits, malformed};
use crate::client::outgoing::Outgoing;
use crate::error::{OriginError, Seen, UpstreamError};
use crate::health::ejection::Suspect;
use crate::origin::Origin;
use crate::request::OriginRequest;
use crate::settings::{Bounds, OriginAddress, OriginSettings, Timeouts, UpstreamSettings};

/// Why a page was not read.
#[derive(Debug)]
pub enum PageFault {
    /// No response, or not a whole one.
    Server(OriginError),
    /// It took too long.
    Late(Duration),
    /// Another status than 200.
    Status(StatusCode),
    /// The body is too large.
    Huge(u64),
    /// The reader wants no more of it.
    Refused,
}

impl fmt::Display for PageFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageFault::Server(error) => Seen(error).fmt(out),
            PageFault::Late(limit) => write!(out, "no whole page within {} ms", limit.as_millis()),
            PageFault::Status(status) if status.is_redirection() => {
                write!(out, "a redirect (status {}), which is not followed", status.as_u16())
            }
            PageFault::Status(status) => write!(out, "status {}", status.as_u16()),
            PageFault::Huge(bytes) => write!(out, "a page of more than {} MiB", bytes >> 20),
            PageFault::Refused => out.write_str("the page is not understood"),
        }
    }
}

/// A server of pages.
#[derive(Debug)]
pub struct PageServer(Origin);

/// Takes a piece of a page; `false`: no more is wanted.
pub type Feed<'f> = &'f mut (dyn FnMut(&[u8]) -> bool + Send);

impl PageServer {
    /// A server. Nothing is looked up or connected.
    ///
    /// # Errors
    /// TLS cannot be used.
    pub fn new(address: OriginAddress) -> Result<PageServer, UpstreamError> {
        let upstream = UpstreamSettings::single("", address.clone());
        let signal: Arc<Signal> = Arc::default();
        Origin::new(&OriginSettings::new(address), &upstream, (&signal, &address::system())).map(PageServer)
    }

    /// Reads a page, of at most so many bytes, within the time.
    ///
    /// # Errors
    /// Why it was not read to its end.
    ///
    /// # Cancel safety
    /// Dropped, it closes its connection.
    pub async fn read(
        &self,
        target: &str,
        (limit, bytes_max): (Duration, u64),
        feed: Feed<'_>,
    ) -> Result<(), PageFault> {
        let deadline = Instant::now() + limit;
        let connecting = timeout_at(deadline, new_connection(&self.0, limit, &mut None)).await;
        let connecting = connecting.unwrap_or(Err(OriginError::ConnectTimeout));
        let mut connection = connecting.map_err(PageFault::Server)?;
        let work = self.response(&mut connection, target, (limit, bytes_max), feed);
        timeout_at(deadline, work).await.unwrap_or(Err(PageFault::Late(limit)))
    }

    async fn response(
        &self,
        connection: &mut Connection,
        target: &str,
        (limit, bytes_max): (Duration, u64),
        feed: Feed<'_>,
    ) -> Result<(), PageFault> {
        let request = self.request(target);
        let timeouts = Timeouts { first_byte: limit, between_bytes: limit, ..Timeouts::default() };
        let bounds = Bounds::default();
        let terms = Terms {
            request: &request,
            login: None,
            suspect: Suspect::of(&request),
            interim: None,
            timeouts: &timeouts,
            bounds: &bounds,
            turn: Turn::FIRST,
            answers: None,
        };
        let mut outgoing = Outgoing::last(&request);
        let head = exchange(connection, &mut outgoing, &terms).await;
        let (head, _) = head.map_err(|failure| PageFault::Server(failure.error))?;
        if head.status != StatusCode::OK {
            return Err(PageFault::Status(head.status));
        }
        let mut reader = BodyReader::new(head.framing, &limits(&bounds));
        body(connection, &mut reader, bytes_max, feed).await
    }

    fn request(&self, target: &str) -> OriginRequest {
        let mut headers = HeaderMap::with_capacity(3);
        headers.insert(USER_AGENT, HeaderValue::from_static("Weir-Metrics"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/plain;version=0.0.4,*/*;q=0.1"));
        let host = self.0.address().authority().unwrap_or_else(|| "localhost".to_owned());
        if let Ok(host) = HeaderValue::try_from(host) {
            headers.insert(HOST, host);
        }
        OriginRequest::new(Method::GET, target.to_owned(), headers)
    }
}

/// Reads a body to its end.
async fn body(
    connection: &mut Connection,
    reader: &mut BodyReader,
    bytes_max: u64,
    feed: Feed<'_>,
) -> Result<(), PageFault> {
    let mut seen_bytes = 0_u64;
    loop {
        if seen_bytes.saturating_add(reader.left().unwrap_or(0)) > bytes_max {
            return Err(PageFault::Huge(bytes_max));
        }
        match reader.read(&mut connection.incoming).map_err(|fault| PageFault::Server(malformed(fault)))? {
            BodyPart::Data(data) => {
                seen_bytes += data.len() as u64;
                if !feed(&data) {
                    return Err(PageFault::Refused);
                }
            }
            BodyPart::End(_) => return Ok(()),
            BodyPart::More => {
                let read = poll_fn(|cx| connection.poll_fill(cx, Want::Body(Some(0)))).await;
                match read {
                    Ok(0) => {
                        let ended = reader.end_of_input();
                        return ended.map(drop).map_err(|fault| PageFault::Server(malformed(fault)));
                    }
                    Ok(_) => {}
                    Err(error) => return Err(PageFault::Server(broken(error, || OriginError::Incomplete))),
                }
            }
        }
    }
}
