//! What passes between a connection and the service that answers: a [`Request`] goes in, and a [`Response`]
//! comes out as a value, which the connection sends. Nothing here names a version's syntax, a chunk or a
//! socket.

use std::any::Any;
use std::cell::{Cell, OnceCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
pub use weir_body::{Body, Cut};
use weir_clock::Now;
use weir_observe::{Observer, SiteId};
use weir_sealed::Way;
use weir_tls::{Agreed, Identity, Leaf};
use weir_wire::{Framing, Host, Refusal, RequestHead, Target, Version, print};

use crate::limits::{ClientLimits, ContentLimits};
use crate::listen::{Clients, Peer, Trusted};

/// A future that stays on its thread.
pub type LocalFuture<'f, T> = Pin<Box<dyn Future<Output = T> + 'f>>;

/// Whether the peer is trusted to name its client (`trusted_proxies`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// It is.
    Trusted,
    /// It is not.
    Untrusted,
}

/// What is the same for all requests of a connection.
#[derive(Debug)]
pub struct PeerInfo {
    /// The other end.
    pub peer: Peer,
    /// Whether it is trusted to name its client.
    pub trust: Trust,
    /// How long, how large and how slow its requests may be.
    pub limits: Arc<ClientLimits>,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// What TLS agreed on; `None` without TLS.
    pub secured: Option<Secured>,
    /// The port of the listener that took the connection; `None` for a unix socket.
    pub port: Option<u16>,
    /// What the service keeps until the connection ends.
    pub beside: OnceCell<Box<dyn Any>>,
    /// Bytes of content of its requests that are held.
    held: Cell<usize>,
}

impl PeerInfo {
    /// The facts of a connection.
    pub fn new(peer: Peer, trust: Trust, limits: Arc<ClientLimits>, secured: Option<Secured>) -> PeerInfo {
        let scheme = if secured.is_some() { "https" } else { "http" };
        let (beside, held) = (OnceCell::new(), Cell::new(0));
        PeerInfo { peer, trust, limits, scheme, secured, port: None, beside, held }
    }

    /// The same for a connection that a listener with this port took.
    #[must_use]
    pub fn at_port(self, port: Option<u16>) -> PeerInfo {
        PeerInfo { port, ..self }
    }

    /// A place for content that is held until its request goes to an origin, in bytes; `None` where other
    /// requests of the connection hold so much that there is no room. One request alone always has a place.
    pub fn hold(self: &Rc<PeerInfo>, bytes: usize) -> Option<HeldContent> {
        let held = self.held.get();
        if held > 0 && held + bytes > HELD_BYTES_MAX {
            return None;
        }
        self.held.set(held + bytes);
        Some(HeldContent { peer: Rc::clone(self), bytes })
    }
}

/// The most content that the requests of a connection hold together, in bytes.
const HELD_BYTES_MAX: usize = 256 << 10;

/// A place for held content of a connection's requests, given back when dropped.
#[derive(Debug)]
pub struct HeldContent {
    peer: Rc<PeerInfo>,
    bytes: usize,
}

impl Drop for HeldContent {
    fn drop(&mut self) {
        self.peer.held.set(self.peer.held.get() - self.bytes);
    }
}

/// What TLS agreed on for a connection.
#[derive(Clone, Debug)]
pub struct Secured {
    /// The certificate that the client was shown.
    pub identity: Arc<Identity>,
    /// The name that the client asked for (SNI).
    pub name: Option<Box<str>>,
    /// Version, suite, group, resumption.
    pub agreed: Agreed,
    /// The client's verified certificate, in DER.
    pub client_certificate: Option<Box<[u8]>>,
}

impl Secured {
    /// The common name of the client's certificate.
    pub fn client_name(&self) -> Option<String> {
        let leaf = Leaf::read(self.client_certificate.as_ref()?).ok()?;
        leaf.common_name.map(Into::into)
    }
}

/// The length of a request's content (RFC 9110 §6.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// There is none.
    None,
    /// This many bytes, as declared; may be 0.
    Known(u64),
    /// Not known before its end.
    Unknown,
}

/// A request, over any protocol.
#[derive(Debug)]
pub struct Request {
    /// The method: any token but CONNECT and TRACE.
    pub method: Method,
    /// The target.
    pub target: Target,
    /// The requested host; empty only on HTTP/1.0.
    pub host: Host,
    /// All fields as received.
    pub headers: HeaderMap,
    /// The length of its content.
    pub content: Length,
    /// The requested protocols (RFC 9110 §7.8).
    pub upgrade: Option<HeaderValue>,
    /// Whether interim responses (1xx) may be sent.
    pub takes_interim: bool,
    /// The protocol's name for the log: `HTTP/1.1`.
    pub protocol: &'static str,
    /// The client or proxy that sent it.
    pub peer: Rc<PeerInfo>,
    /// When its head was read.
    pub at: Now,
    /// A place for the request as the service wants it, where that differs.
    pub instead: OnceCell<Box<Request>>,
}

impl Request {
    /// The request of an HTTP/1 head.
    pub fn of_head(head: RequestHead, peer: Rc<PeerInfo>, at: Now) -> Request {
        let RequestHead { method, target, host, version, headers, framing, upgrade, .. } = head;
        let (takes_interim, protocol) = match version {
            Version::Http10 => (false, "HTTP/1.0"),
            Version::Http11 => (true, "HTTP/1.1"),
        };
        let content = match framing {
            Framing::None => Length::None,
            Framing::Length(length) => Length::Known(length),
            Framing::Chunked | Framing::Close => Length::Unknown,
        };
        let instead = OnceCell::new();
        Request {
            method,
            target,
            host,
            headers,
            content,
            upgrade,
            takes_interim,
            protocol,
            peer,
            at,
            instead,
        }
    }

    /// The same request with other fields.
    pub fn with_headers(&self, headers: HeaderMap) -> Request {
        Request {
            method: self.method.clone(),
            target: self.target.clone(),
            host: self.host.clone(),
            headers,
            content: self.content,
            upgrade: self.upgrade.clone(),
            takes_interim: self.takes_interim,
            protocol: self.protocol,
            peer: Rc::clone(&self.peer),
            at: self.at,
            instead: OnceCell::new(),
        }
    }

    /// The request of an HTTP/2 head.
    pub fn of_list(head: RequestHead, peer: Rc<PeerInfo>, at: Now) -> Request {
        Request { protocol: "HTTP/2.0", ..Request::of_head(head, peer, at) }
    }

    /// Whether there is content at all.
    pub fn has_content(&self) -> bool {
        !matches!(self.content, Length::None | Length::Known(0))
    }

    /// Whether it declares more content than the client may send.
    pub fn is_too_large(&self, limits: ContentLimits) -> bool {
        matches!(self.content, Length::Known(length) if length > limits.bytes_max)
    }
}

/// The next part of a request's content.
#[derive(Debug)]
pub enum Part {
    /// Bytes.
    Data(Bytes),
    /// The end. Trailers stay with the connection, since no rule for fields has seen them (RFC 9110 §6.5.1).
    End,
}

/// Why a request's content cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// More than the limit: 413.
    #[error("request body too large")]
    TooLarge,
    /// Slower than the least rate: 408.
    #[error("request body too slow")]
    TooSlow,
    /// Malformed framing: 400, or 431 for its trailers.
    #[error("request body malformed: {}", .0.reason())]
    Malformed(Refusal),
    /// The client went away.
    #[error("client gone")]
    Gone,
}

/// The client of a request under way. A hit never asks it anything.
pub trait Client {
    /// Ready once the client has gone away. May be polled again after that.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// The next part of the request's content. Dropping the future loses nothing: a task that asks again is
    /// woken for what the dropped one waited for.
    fn content(&mut self) -> LocalFuture<'_, Result<Part, ContentError>>;

    /// Holds the rest of the content to other limits than those of all requests.
    fn bound_content(&mut self, limits: ContentLimits);

    /// Sends an interim response (1xx), or drops it: where the client takes nothing now, or has got many for
    /// its request. An error says that the client has gone.
    fn interim(&mut self, status: StatusCode, headers: &HeaderMap) -> Result<(), ContentError>;

    /// Whether the client has closed its side. A client that leaves does so, too.
    fn has_ended(&self) -> bool;

    /// Notes progress of the request: from now on a client that has closed its side is waited for.
    fn moved(&mut self);

    /// How the bytes of its response leave.
    fn way(&self) -> Way;

    /// The site to which bytes sent on this connection are charged until the request ends.
    fn count_for(&mut self, site: SiteId);
}

/// Waits until a client has gone away.
///
/// # Cancel safety
/// Safe.
pub async fn gone(client: &mut dyn Client) {
    std::future::poll_fn(|cx| client.poll_gone(cx)).await;
}

/// Whether bytes may be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// This many bytes.
    Go(u64),
    /// None until this moment.
    Wait(Instant),
}

/// Limits the rate of a response's body.
pub trait Pace {
    /// Waits for news of its limits.
    ///
    /// # Cancel safety
    /// Safe.
    fn look(&mut self) -> impl Future<Output = ()>;

    /// How many of `wanted` bytes may be sent `now`. A client that has chosen less than `least` bytes a
    /// second gets so many.
    fn turn(&mut self, now: Instant, wanted: u64, least: u64) -> Turn;

    /// Notes that `bytes` were sent.
    fn took(&mut self, bytes: u64);
}

/// The content of a request that still goes up while the response comes down.
pub trait Upload {
    /// Moves one part up. If nothing is left to move, waits until the client goes away.
    ///
    /// # Errors
    /// The content cannot be read any further, or the client went away.
    ///
    /// # Cancel safety
    /// Safe.
    fn pump<'f>(&'f mut self, client: &'f mut dyn Client) -> LocalFuture<'f, Result<(), ContentError>>;

    /// Whether nothing is left to move.
    fn is_over(&self) -> bool;
}

/// Bytes in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Duplex for T {}

/// What the connection becomes after a 101: another protocol, byte for byte (RFC 9110 §7.8).
pub struct Switch {
    /// The protocol's name.
    pub protocol: Option<HeaderValue>,
    /// The other side.
    pub stream: Box<dyn Duplex>,
}

/// Room for the fields of most responses, and for the longest of their late ones.
const USUAL_FIELDS: usize = 24;
const USUAL_LATE_BYTES: usize = 128;

/// A status and fields that many responses share, encoded once.
#[derive(Clone, Debug)]
pub struct Prepared {
    status: StatusCode,
    /// In the form of HTTP/1. Other versions take names and values from here without a copy.
    text: Bytes,
}

impl Prepared {
    /// Encodes a status and fields.
    pub fn new(status: StatusCode, fields: &HeaderMap) -> Prepared {
        let mut text = Vec::with_capacity(512);
        print::status_line(&mut text, status);
        print::fields(&mut text, fields);
        Prepared { status, text: text.into() }
    }

    /// A prepared head from the text of [`Prepared::text`].
    pub fn of_text(status: StatusCode, text: Bytes) -> Prepared {
        Prepared { status, text }
    }

    /// The text, to be stored.
    pub fn text(&self) -> &Bytes {
        &self.text
    }

    /// The fields by name. Values are not copied.
    pub fn fields(&self) -> HeaderMap {
        let mut fields = HeaderMap::with_capacity(USUAL_FIELDS);
        let mut at = 0;
        while let Some(length) = memchr::memchr(b'\n', &self.text[at..]) {
            // Invariant: every line ends with CRLF and was written from a field. The status line has no colon
            // behind a field name.
            let line = self.text.slice(at..at + length.saturating_sub(1));
            at += length + 1;
            let Some(colon) = memchr::memchr(b':', &line) else { continue };
            let name = HeaderName::from_bytes(&line[..colon]);
            let value = HeaderValue::from_maybe_shared(line.slice((colon + 2).min(line.len())..));
            if let (Ok(name), Ok(value)) = (name, value) {
                fields.append(name, value);
            }
        }
        fields
    }
}

/// The status and fields of a response. A [`Late`] has those that differ from response to response.
#[derive(Clone, Debug)]
pub enum Head {
    /// Encoded earlier.
    Prepared(Prepared),
    /// Made for this response alone.
    Made(StatusCode, Box<HeaderMap>),
    /// There is no response: the client has gone.
    None,
}

impl Head {
    /// The status; `None` where there is no response.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Head::Prepared(prepared) => Some(prepared.status),
            Head::Made(status, _) => Some(*status),
            Head::None => None,
        }
    }

    /// All fields by name, with those of `late`: for a protocol that encodes field by field.
    pub fn fields(self, late: &impl Late) -> HeaderMap {
        let mut fields = match self {
            Head::Prepared(prepared) => prepared.fields(),
            Head::Made(_, fields) => *fields,
            Head::None => HeaderMap::new(),
        };
        late.write(&mut ByName { fields: &mut fields, text: Vec::with_capacity(USUAL_LATE_BYTES) });
        fields
    }
}

struct ByName<'m> {
    fields: &'m mut HeaderMap,
    text: Vec<u8>,
}

impl Fields for ByName<'_> {
    fn add(&mut self, name: &'static str, value: impl FnOnce(&mut Vec<u8>)) {
        self.text.clear();
        value(&mut self.text);
        if let Ok(value) = HeaderValue::from_bytes(&self.text) {
            self.fields.append(HeaderName::from_static(name), value);
        }
    }

    fn field(&mut self, name: &HeaderName, value: &[u8]) {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            self.fields.append(name, value);
        }
    }
}

/// Takes fields one by one.
pub trait Fields {
    /// Adds a field with a name in lower case; `value` writes a value without CR, LF or NUL.
    fn add(&mut self, name: &'static str, value: impl FnOnce(&mut Vec<u8>));

    /// Adds a field with a value without CR, LF or NUL.
    fn field(&mut self, name: &HeaderName, value: &[u8]);
}

/// The fields that differ from response to response.
pub trait Late {
    /// Writes them behind all others.
    fn write(&self, to: &mut impl Fields);
}

/// A response as a value.
pub struct Response<S: Service> {
    /// Status and fields.
    pub head: Head,
    /// Fields that differ from response to response.
    pub late: S::Late,
    /// The bytes of the content, or of the content that a GET would have had; `None` if that is not known.
    pub length: Option<u64>,
    /// The content. It is not asked for if method or status allow none.
    pub body: S::Body,
    /// The limit of its rate.
    pub pace: Option<Box<S::Pace>>,
    /// The request's content that still goes up.
    pub upload: Option<Box<dyn Upload>>,
    /// What the connection becomes, after a 101.
    pub switch: Option<Box<Switch>>,
    /// No request may follow on this connection.
    pub must_close: bool,
}

/// How sending ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All was written.
    Whole,
    /// The body broke off, or the client was too slow. Has the word for logs.
    Cut(&'static str),
    /// The client went away.
    ClientGone,
    /// The client had closed its side, and went away or waited too long.
    HalfClosed,
}

/// What was sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Body bytes written, without transfer coding.
    pub body_bytes: u64,
    /// When the first byte was written.
    pub first_byte: Option<Instant>,
    /// When the last byte was written, if that is known.
    pub last_byte: Option<Instant>,
    /// How it ended.
    pub end: End,
}

/// The result of a request: all that is noted of it.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// The response's status; `None` if there was no response.
    pub status: Option<StatusCode>,
    /// What was sent of it.
    pub sent: Sent,
    /// When the request was over.
    pub ended: Instant,
}

/// Why something is answered that is not a correct request.
#[derive(Clone, Debug)]
pub enum Refused {
    /// It breaks the rules of its protocol.
    Malformed(Refusal),
    /// Its head arrived too slowly.
    Late,
}

/// Answers requests. Each core has one, on its thread.
#[expect(async_fn_in_trait, reason = "it stays on its thread")]
pub trait Service: Sized + 'static {
    /// The configuration that answers a request, from its first byte to its last.
    type Plan;
    /// A response's content.
    type Body: Body;
    /// What may limit its rate.
    type Pace: Pace;
    /// Fields that differ from response to response.
    type Late: Late;
    /// What is noted of a request until it is done.
    type Note<'c>;

    /// The plan for new requests.
    fn plan(&self) -> Self::Plan;

    /// Begins with a request.
    fn begin<'c>(&'c self, plan: &'c Self::Plan, request: &'c mut Request) -> Self::Note<'c>;

    /// Answers a request.
    async fn call<'c>(&'c self, note: &mut Self::Note<'c>, client: &mut dyn Client) -> Response<Self>;

    /// The request is done; called once for each [`Service::begin`].
    fn done(&self, note: Self::Note<'_>, done: &Done);

    /// The client that a trusted proxy names for a request, by the address whose limits it shares.
    fn named(&self, request: &Request) -> Option<weir_share::Client>;

    /// Answers something that is not a request.
    fn refuse(&self, why: &Refused) -> Response<Self>;

    /// Notes that the response of [`Service::refuse`] was sent to `peer`.
    fn refused(&self, why: &Refused, peer: Peer, done: &Done);

    /// The limits of new connections.
    fn limits(&self) -> Arc<ClientLimits>;

    /// The peers that are trusted to name clients.
    fn trusted(&self) -> Arc<Trusted>;

    /// The counts of all clients.
    fn clients(&self) -> &Arc<Clients>;

    /// Counters and logs of this core.
    fn observer(&self) -> &Observer;

    /// Charges one more piece ([`CHARGE_BYTES`](crate::CHARGE_BYTES)) of memory that connections of this
    /// client hold, until what is returned is dropped. `None` where the client has its share, or nothing is
    /// left. A connection that speaks for many has no client.
    fn charge_piece(&self, client: Option<weir_share::Client>) -> Option<Box<dyn Any>>;

    /// A while has passed since a connection ended or went to rest: memory that is kept for reuse may go.
    /// True where it wants to be called again after a while.
    fn settle(&self) -> bool {
        false
    }

    /// Whether the process is shutting down: no connection begins another request.
    fn is_draining(&self) -> bool;
}

#[cfg(test)]
mod tests;
