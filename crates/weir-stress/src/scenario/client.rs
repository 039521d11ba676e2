//! A client of HTTP/1.1 or HTTP/2 that modules can lead by the hand: one request at a time, with its fields,
//! its pace and its checks. Loads that need no more than GET are driven by `crate::load` instead.
//!
//! # Cancel safety
//! A request that is dropped in the middle closes its connection.

mod streams;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;

use crate::args::StressArgs;
use crate::body::{Body, Progress};
use crate::clock::Clock;
use crate::head::{self, Head};
use crate::plan::StressError;
use crate::scenario::settings::ServerSettings;
use crate::secure::{self, Tls};
use crate::tally::Fault;
use crate::target::{Reach, Scheme, Target};

const HEAD_BYTES_MAX: usize = 256 * 1024;
const READ_BYTES: usize = 64 * 1024;
/// How often a slow client takes something, at least.
const BEATS_PER_S: u64 = 10;
/// The socket's buffer of a slow client.
const SLOW_RECEIVE_BYTES: u32 = 64 * 1024;
/// How long a server may take to answer before it counts as not ready yet.
const READY_WITHIN: Duration = Duration::from_secs(2);

/// Where requests go.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    target: Target,
    pub(crate) authority: String,
    tls: Option<Tls>,
    http2: bool,
}

/// A request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) fields: Vec<(String, String)>,
}

/// How bytes are taken in and given out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pace {
    /// Bytes of the response that are taken at once, and the pause after each time.
    pub(crate) take: Option<(usize, Duration)>,
    /// Bytes of the request that are sent at once, and the pause after each time.
    pub(crate) give: Option<(usize, Duration)>,
    /// Leaves after so many bytes of the body.
    pub(crate) leave_after: Option<u64>,
    /// Takes nothing for so long after the first bytes of the body.
    pub(crate) stall: Option<Duration>,
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) range: Option<(u64, u64, u64)>,
    pub(crate) body: Body,
    /// From the beginning of the connection to its readiness, where the request made one.
    pub(crate) connect_ns: Option<u64>,
    /// From the beginning of the request.
    pub(crate) first_byte_ns: u64,
    pub(crate) whole_ns: u64,
    /// Whether the client has left in the middle, as its pace asked.
    pub(crate) is_left: bool,
}

impl Response {
    /// Counts its times from when it was due, so much before it was asked for.
    pub(crate) fn begin_earlier(&mut self, late_ns: u64) {
        self.first_byte_ns += late_ns;
        self.whole_ns += late_ns;
    }
}

/// Why there is no whole response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) fault: Fault,
    pub(crate) detail: String,
}

pub(crate) fn failure(fault: Fault, detail: impl Into<String>) -> Failure {
    Failure { fault, detail: detail.into() }
}

/// How a client takes or gives so many bytes a second: how many at once, and the pause behind them.
pub(crate) fn paced(bytes_per_s: u64) -> (usize, Duration) {
    let at_once = (bytes_per_s / BEATS_PER_S).clamp(1, READ_BYTES as u64);
    (at_once as usize, Duration::from_nanos(at_once * 1_000_000_000 / bytes_per_s.max(1)))
}

trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// A connection, by what is spoken on it.
enum Talk {
    Http1(Box<dyn Stream>),
    Http2(SendRequest<Bytes>),
}

/// A user with a connection.
pub(crate) struct Client {
    endpoint: Arc<Endpoint>,
    talk: Option<Talk>,
    /// How long it took to make the connection, if no request has been told so far.
    opened_ns: Option<u64>,
    buffer: Vec<u8>,
    clock: Clock,
    timeout: Duration,
    pub(crate) pace: Pace,
    /// The socket's buffer for what is received, where a small one is wanted.
    pub(crate) receive_bytes: Option<u32>,
}

impl Endpoint {
    /// The server that the settings name.
    ///
    /// # Errors
    /// Its URL, its address or its certificates cannot be used, or it is another machine that is not claimed.
    pub(crate) fn new(settings: &ServerSettings) -> Result<Self, StressError> {
        let reach = if settings.mine { Reach::Anywhere } else { Reach::Loopback };
        let target = Target::new(&settings.url, reach)?;
        let authority = settings.host.clone().unwrap_or_else(|| target.host.clone());
        let tls = match target.scheme {
            Scheme::Http => None,
            Scheme::Https => Some(Tls::new(&args(settings, &settings.url), &authority)?),
        };
        Ok(Self { target, authority, tls, http2: settings.http2 })
    }

    /// The URL without its path.
    fn base(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }
}

/// Whether something listens already where the server will.
///
/// # Errors
/// As [`Endpoint::new`].
pub(crate) fn is_taken(settings: &ServerSettings) -> Result<bool, StressError> {
    let address = Endpoint::new(settings)?.target.address;
    Ok(std::net::TcpStream::connect_timeout(&address, READY_WITHIN).is_ok())
}

/// The arguments of a load of the server.
pub(crate) fn args(settings: &ServerSettings, url: &str) -> StressArgs {
    let mut args = StressArgs::plain(url);
    args.ca.clone_from(&settings.ca);
    args.insecure = settings.insecure;
    args.http2 = settings.http2;
    args.i_own_this_host = settings.mine;
    args.headers.extend(settings.host.as_ref().map(|host| format!("Host: {host}")));
    args
}

impl Ask {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self { method: "GET", path: path.into(), fields: Vec::new() }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.fields.push((name.to_owned(), value.into()));
        self
    }
}

impl Response {
    /// The value of a field, if there is one. The name is in lower case.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Client {
    pub(crate) fn new(endpoint: Arc<Endpoint>, timeout: Duration) -> Self {
        Self {
            endpoint,
            talk: None,
            opened_ns: None,
            buffer: Vec::new(),
            clock: Clock::start(),
            timeout,
            pace: Pace::default(),
            receive_bytes: None,
        }
    }

    /// Whether the server answers its path for that, in words if not.
    pub(crate) fn ready(settings: &ServerSettings) -> Result<(), String> {
        let endpoint = Endpoint::new(settings).map_err(|error| error.to_string())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let mut client = Self::new(Arc::new(endpoint), READY_WITHIN);
        let counted =
            |head: &Head, _: &[(String, String)]| Body::new(head.framing, 0, crate::body::Content::Counted);
        let tasks = tokio::task::LocalSet::new();
        let asked = runtime.block_on(tasks.run_until(client.ask(&Ask::get(&*settings.ready), counted)));
        match asked {
            // A gateway that cannot reach its origin yet is not ready.
            Ok(response) if matches!(response.status, 502..=504) => Err(format!("{}", response.status)),
            Ok(_) => Ok(()),
            Err(failure) => Err(failure.detail),
        }
    }

    /// Forgets the connection, so that the next request makes a new one.
    pub(crate) fn hang_up(&mut self) {
        self.talk = None;
        self.opened_ns = None;
        self.buffer.clear();
    }

    /// Takes so many bytes a second from the next request on, on a connection that holds few.
    pub(crate) fn slow_down(&mut self, bytes_per_s: u64) {
        self.hang_up();
        self.pace.take = Some(paced(bytes_per_s));
        self.receive_bytes = Some(SLOW_RECEIVE_BYTES);
    }

    /// Takes all that comes again.
    pub(crate) fn speed_up(&mut self) {
        self.hang_up();
        (self.pace.take, self.receive_bytes) = (None, None);
    }

    /// Makes the connection, if there is none.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) async fn open(&mut self) -> Result<(), Failure> {
        if self.talk.is_none() {
            let begun_ns = self.clock.nanoseconds();
            let connected = tokio::time::timeout(self.timeout, self.connect()).await;
            let late = || failure(Fault::Timeout, "no connection in time");
            self.talk = Some(connected.unwrap_or_else(|_| Err(late()))?);
            self.opened_ns = Some(self.clock.nanoseconds() - begun_ns);
        }
        Ok(())
    }

    /// Asks, and takes in the whole response. `expect` makes the body that checks the content.
    ///
    /// # Errors
    /// There was no whole response.
    pub(crate) async fn ask(
        &mut self,
        ask: &Ask,
        expect: impl Fn(&Head, &[(String, String)]) -> Body,
    ) -> Result<Response, Failure> {
        let (timeout, was_open) = (self.timeout, self.talk.is_some());
        let late = || failure(Fault::Timeout, "no whole response in time");
        let mut asked = tokio::time::timeout(timeout, self.exchange(ask, &expect)).await;
        // A server may close a kept connection before the next head (RFC 9112 §9.5).
        if was_open && matches!(&asked, Ok(Err((_, Seen::Nothing)))) {
            self.hang_up();
            asked = tokio::time::timeout(timeout, self.exchange(ask, &expect)).await;
        }
        let asked = asked.unwrap_or_else(|_| Err((late(), Seen::Some)));
        if asked.is_err() {
            self.hang_up();
        }
        asked.map_err(|(failure, _)| failure)
    }

    async fn exchange(
        &mut self,
        ask: &Ask,
        expect: &impl Fn(&Head, &[(String, String)]) -> Body,
    ) -> Result<Response, (Failure, Seen)> {
        let begun_ns = self.clock.nanoseconds();
        let connect_ns = match self.talk {
            Some(_) => self.opened_ns.take(),
            None => {
                self.talk = Some(self.connect().await.map_err(|failure| (failure, Seen::Some))?);
                Some(self.clock.nanoseconds() - begun_ns)
            }
        };
        let counted = |framing| Body::new(framing, 0, crate::body::Content::Counted);
        let is_head = ask.method == "HEAD";
        let (head, fields, first_ns, taken) = match &self.talk {
            Some(Talk::Http2(send)) => {
                let begun = streams::begin(send.clone(), ask, &self.endpoint.base()).await?;
                let first_ns = self.clock.nanoseconds();
                let (head, fields) = (begun.head, begun.fields.clone());
                let body = if is_head { counted(head.framing) } else { expect(&head, &fields) };
                (head, fields, first_ns, begun.body(body, &self.pace).await)
            }
            _ => {
                let request = self.request(ask);
                self.give(&request).await.map_err(|failure| (failure, Seen::Nothing))?;
                let (head, fields, first_ns) = self.head().await?;
                let framing = if is_head { head::Framing::Length(0) } else { head.framing };
                let body = if is_head { counted(framing) } else { expect(&head, &fields) };
                (head, fields, first_ns, self.body(body, framing).await)
            }
        };
        let taken = taken.map_err(|failure| (failure, Seen::Some))?;
        if head.closes || taken.is_left {
            self.hang_up();
        }
        Ok(Response {
            status: head.status,
            fields,
            range: head.range,
            body: taken.body,
            connect_ns,
            first_byte_ns: first_ns - begun_ns,
            whole_ns: self.clock.nanoseconds() - begun_ns,
            is_left: taken.is_left,
        })
    }

    async fn connect(&mut self) -> Result<Talk, Failure> {
        self.buffer.clear();
        let bad = |error: std::io::Error| failure(Fault::Connect, error.to_string());
        let address = self.endpoint.target.address;
        let stream = match self.receive_bytes {
            None => TcpStream::connect(address).await.map_err(bad)?,
            Some(bytes) => {
                let socket = if address.is_ipv6() { TcpSocket::new_v6() } else { TcpSocket::new_v4() };
                let socket = socket.map_err(bad)?;
                socket.set_recv_buffer_size(bytes).map_err(bad)?;
                socket.connect(address).await.map_err(bad)?
            }
        };
        stream.set_nodelay(true).map_err(bad)?;
        let Some(tls) = &self.endpoint.tls else { return self.speak(stream).await };
        let shaken = TlsConnector::from(tls.config()).connect(tls.name.clone(), stream).await;
        let stream = shaken.map_err(|error| {
            let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            failure(Fault::Handshake, tls.map_or_else(|| error.to_string(), secure::said))
        })?;
        if self.endpoint.http2 && stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            return Err(failure(Fault::Handshake, "the server does not speak HTTP/2"));
        }
        self.speak(stream).await
    }

    /// Begins what is spoken on a connection.
    async fn speak(&self, stream: impl Stream + 'static) -> Result<Talk, Failure> {
        if !self.endpoint.http2 {
            return Ok(Talk::Http1(Box::new(stream)));
        }
        // A slow reader is one whose window is small.
        let is_slow = self.pace.take.is_some() || self.receive_bytes.is_some();
        let windows = if is_slow { crate::streams::SMALL } else { crate::streams::LARGE };
        let begun = crate::streams::begin(stream, windows).await;
        begun.map(Talk::Http2).map_err(|error| failure(Fault::Closed, error.to_string()))
    }

    fn request(&self, ask: &Ask) -> Vec<u8> {
        let mut text =
            format!("{} {} HTTP/1.1\r\nHost: {}\r\n", ask.method, ask.path, self.endpoint.authority);
        for (name, value) in &ask.fields {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        text.into_bytes()
    }

    async fn give(&mut self, request: &[u8]) -> Result<(), Failure> {
        let bad = |error: std::io::Error| failure(Fault::Send, error.to_string());
        let give = self.pace.give;
        let Some(Talk::Http1(stream)) = &mut self.talk else {
            return Err(failure(Fault::Send, "no connection"));
        };
        let Some((bytes, pause)) = give else { return stream.write_all(request).await.map_err(bad) };
        for piece in request.chunks(bytes.max(1)) {
            stream.write_all(piece).await.map_err(bad)?;
            stream.flush().await.map_err(bad)?;
            tokio::time::sleep(pause).await;
        }
        Ok(())
    }

    /// Takes in the final head, and leaves what follows in the buffer.
    async fn head(&mut self) -> Result<(Head, Vec<(String, String)>, u64), (Failure, Seen)> {
        let mut first_ns = None;
        loop {
            if !self.buffer.is_empty() {
                first_ns.get_or_insert(self.clock.nanoseconds());
            }
            match head::parse(&self.buffer) {
                Err(head::NoHead) => return Err((failure(Fault::Broken, "no response head"), Seen::Some)),
                Ok(Some(head)) => {
                    let fields = head::fields(&self.buffer[..head.head_bytes]);
                    self.buffer.drain(..head.head_bytes);
                    if !(100..200).contains(&head.status) {
                        return Ok((head, fields, first_ns.unwrap_or_default()));
                    }
                    continue;
                }
                Ok(None) if self.buffer.len() > HEAD_BYTES_MAX => {
                    return Err((failure(Fault::Broken, "a head without end"), Seen::Some));
                }
                Ok(None) => {}
            }
            let seen = if self.buffer.is_empty() { Seen::Nothing } else { Seen::Some };
            if self.more().await.map_err(|failure| (failure, seen))? == 0 {
                return Err((failure(Fault::Closed, "ended before the head"), seen));
            }
        }
    }

    async fn more(&mut self) -> Result<usize, Failure> {
        let Some(Talk::Http1(stream)) = &mut self.talk else { return Ok(0) };
        self.buffer.reserve(READ_BYTES);
        let limit = self.pace.take.map_or(READ_BYTES, |(bytes, _)| bytes.max(1));
        let read = (&mut **stream).take(limit as u64).read_buf(&mut self.buffer).await;
        if let Some((_, pause)) = self.pace.take {
            tokio::time::sleep(pause).await;
        }
        read.map_err(|error| failure(Fault::Closed, error.to_string()))
    }

    async fn body(&mut self, mut body: Body, framing: head::Framing) -> Result<Taken, Failure> {
        let mut stall = self.pace.stall;
        let mut is_done = framing == head::Framing::Length(0);
        while !is_done {
            if self.pace.leave_after.is_some_and(|bytes| body.received >= bytes) {
                return Ok(Taken { body, is_left: true });
            }
            if body.received > 0
                && let Some(pause) = stall.take()
            {
                tokio::time::sleep(pause).await;
            }
            if self.buffer.is_empty() {
                let received = body.received;
                let short =
                    |why: String| failure(Fault::Short, format!("{why} after {received} bytes of body"));
                match self.more().await {
                    Ok(0) if body.ends_with_connection() => break,
                    Ok(0) => return Err(short("ended".to_owned())),
                    Ok(_) => {}
                    Err(error) => return Err(short(error.detail)),
                }
            }
            match body.feed(&self.buffer) {
                Progress::More => self.buffer.clear(),
                Progress::End(taken) => {
                    self.buffer.drain(..taken);
                    is_done = true;
                }
                Progress::Broken => return Err(failure(Fault::Broken, "bad chunked coding")),
            }
        }
        if !self.buffer.is_empty() {
            return Err(failure(Fault::Surplus, format!("{} bytes", self.buffer.len())));
        }
        Ok(Taken { body, is_left: false })
    }
}

/// Whether anything of a response was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    Some,
}

struct Taken {
    body: Body,
    is_left: bool,
}
