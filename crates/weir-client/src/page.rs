//! A page of another server that is no origin: one GET on a connection of its own, and its body in pieces. It
//! must not hold a body, nor follow a redirect.

use std::fmt;
use std::time::Duration;

use http::header::{ACCEPT, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::time::{Instant, timeout_at};

use crate::address;
use crate::error::{ExchangeError, Seen, SetupError};
use crate::message::RequestHead;
use crate::pool::PoolBounds;
use crate::server::{Server, ServerSettings};
use crate::settings::{Bounds, OriginAddress, Timeouts, TlsSettings};
use crate::single::{BodyFault, Feed, Single};

/// The age at which the addresses of its name are looked up again.
const RESOLVE_EVERY: Duration = Duration::from_secs(30);

/// Why a page was not read.
#[derive(Debug)]
pub enum PageFault {
    /// No response, or not a whole one.
    Server(ExchangeError),
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
pub struct PageServer {
    server: Server,
    host: Option<HeaderValue>,
}

impl PageServer {
    /// A server. Nothing is looked up or connected.
    ///
    /// # Errors
    /// TLS cannot be used.
    pub fn new(address: OriginAddress) -> Result<PageServer, SetupError> {
        let settings = ServerSettings {
            address: &address,
            at: None,
            tls: &TlsSettings::default(),
            resolve_every: RESOLVE_EVERY,
            resolve_max: Timeouts::default().connect,
            bounds: PoolBounds::of(&Bounds::default(), Timeouts::default().queue),
        };
        let host = address.authority().unwrap_or_else(|| "localhost".to_owned());
        let server = Server::new(&settings, &address::system(), None)?;
        Ok(PageServer { server, host: HeaderValue::try_from(host).ok() })
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
        let connecting = timeout_at(deadline, self.server.single(limit, &mut None)).await;
        let connecting = connecting.unwrap_or(Err(ExchangeError::ConnectTimeout));
        let mut single = connecting.map_err(PageFault::Server)?;
        let work = self.response(&mut single, target, (limit, bytes_max), feed);
        timeout_at(deadline, work).await.unwrap_or(Err(PageFault::Late(limit)))
    }

    async fn response(
        &self,
        single: &mut Single,
        target: &str,
        (limit, bytes_max): (Duration, u64),
        feed: Feed<'_>,
    ) -> Result<(), PageFault> {
        let bounds = Bounds::default();
        let headers = self.headers();
        let (method, target) = (&Method::GET, target.as_bytes());
        let request = RequestHead { method, target, headers: &headers, upgrade: None };
        let head = single.ask(request, &bounds, limit).await.map_err(PageFault::Server)?;
        if head.status != StatusCode::OK {
            return Err(PageFault::Status(head.status));
        }
        single.read(&head, (&bounds, bytes_max), feed).await.map_err(|fault| match fault {
            BodyFault::Exchange(error) => PageFault::Server(error),
            BodyFault::Huge => PageFault::Huge(bytes_max),
            BodyFault::Refused => PageFault::Refused,
        })
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(3);
        headers.insert(USER_AGENT, HeaderValue::from_static("Weir-Metrics"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/plain;version=0.0.4,*/*;q=0.1"));
        self.host.iter().for_each(|host| drop(headers.insert(HOST, host.clone())));
        headers
    }
}
