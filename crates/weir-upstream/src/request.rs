//! A request to an origin: head and body as the caller has prepared them.
//!
//! Nothing is added here but what frames the body: `Content-Length` or `Transfer-Encoding`, and `Connection`
//! with `Upgrade` where one is asked for (RFC 9112 §6, RFC 9110 §7.8).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::sync::{Notify, mpsc};
use weir_share::Client;

use crate::again::track::AttemptLog;
use crate::choice::pick::{Asked, Picking};
use crate::client::tally::Tally;
use crate::sessions::affinity::Session;

/// A request towards an origin.
#[derive(Debug)]
pub struct OriginRequest {
    /// The method.
    pub method: Method,
    /// The target in origin-form (`/path?query`), or `*` for `OPTIONS`; sent as it is.
    pub target: Bytes,
    /// End-to-end fields with `Host`. `Content-Length`, `Transfer-Encoding`, `Connection` and `Upgrade` are
    /// left out when sent: they follow from `body` and `upgrade`.
    pub headers: Arc<HeaderMap>,
    /// The body.
    pub body: OutBody,
    /// Whether it may be sent a second time.
    pub retry: Retry,
    /// The name of the origin to ask, if it is up. Otherwise one is picked.
    pub prefer: Option<Arc<str>>,
    /// The session that it belongs to, where its origin is up or drains. It goes before `picking`.
    pub session: Option<Session>,
    /// What picks know of the request.
    pub picking: Picking,
    /// The protocols to switch to, as the client named them (RFC 9110 §7.8).
    pub upgrade: Option<HeaderValue>,
    /// The site that is charged with what is sent and received.
    pub tally: Option<Arc<dyn Tally>>,
    /// Is told of each attempt; `None` where there is no log of them.
    pub log: Option<Arc<dyn AttemptLog>>,
    /// The client that may have caused what the request meets, by a number of the caller's. A failure that a
    /// request may have caused counts against an origin only when several clients have met it. `None` where
    /// no client can be the cause.
    pub witness: Option<u64>,
    /// The client whose share the connection counts against, where there is one.
    pub client: Option<Client>,
    /// What happens where that share is used up.
    pub share: Share,
    /// With [`Share::Spare`]: tells that a client waits for it by now.
    pub hurry: Option<Arc<Hurry>>,
}

/// The witness that stands for all clients that cannot be told from others. It does not count beside others.
pub const UNNAMED: u64 = u64::MAX;

/// What happens where a client has used up its share of an origin's connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// The request waits until the client has fewer.
    #[default]
    Bounded,
    /// It counts and does not wait. For transfers of gaps, which other clients wait for as well.
    Counted,
    /// No client waits for the request: it takes a connection only where some are left for others, and waits
    /// behind all of them ([`crate::Upstream::has_spare`]).
    Spare,
}

/// Tells a request with [`Share::Spare`] that a client waits for it: from then on it waits in its turn.
#[derive(Debug, Default)]
pub struct Hurry {
    is_told: AtomicBool,
    told: Notify,
}

impl Hurry {
    /// A client waits for the request.
    pub fn tell(&self) {
        if !self.is_told.swap(true, Ordering::Relaxed) {
            self.told.notify_one();
        }
    }

    /// Whether a client waits for it.
    pub(crate) fn is_told(&self) -> bool {
        self.is_told.load(Ordering::Relaxed)
    }

    /// Waits until a client does.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn told(&self) {
        while !self.is_told() {
            self.told.notified().await;
        }
    }
}

impl OriginRequest {
    /// A request without a body that is retried as its method allows.
    pub fn new(method: Method, target: impl Into<Bytes>, headers: impl Into<Arc<HeaderMap>>) -> Self {
        let retry = Retry::of(&method);
        Self {
            method,
            target: target.into(),
            headers: headers.into(),
            body: OutBody::Empty,
            retry,
            prefer: None,
            session: None,
            picking: Picking::default(),
            upgrade: None,
            tally: None,
            log: None,
            witness: None,
            client: None,
            share: Share::default(),
            hurry: None,
        }
    }

    /// What picks know of it.
    pub(crate) fn asked(&self) -> Asked<'_> {
        Asked { picking: &self.picking, target: &self.target, headers: &self.headers }
    }
}

/// The body of a request.
#[derive(Debug)]
pub enum OutBody {
    /// No body. No framing field is sent.
    Empty,
    /// The whole body, which can be sent again. An empty one is sent as `Content-Length: 0`.
    Whole(Bytes),
    /// A body that is still arriving. The channel's capacity is the back-pressure.
    Stream {
        /// The parts. The channel ending without [`OutPart::End`] means that the body was broken off.
        parts: mpsc::Receiver<OutPart>,
        /// Its declared length in bytes; `None` sends it chunked.
        length: Option<u64>,
    },
}

impl OutBody {
    /// The body once more, where it is whole.
    pub(crate) fn again(&self) -> Option<OutBody> {
        match self {
            OutBody::Empty => Some(OutBody::Empty),
            OutBody::Whole(bytes) => Some(OutBody::Whole(bytes.clone())),
            OutBody::Stream { .. } => None,
        }
    }
}

/// A part of a streamed request body.
#[derive(Debug)]
pub enum OutPart {
    /// More bytes.
    Data(Bytes),
    /// The body is whole. Trailers are sent only with chunked coding.
    End(Option<HeaderMap>),
}

/// Whether a request may be sent again on another connection after bytes of it were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Never after a byte of it was sent.
    Never,
    /// Once, before the first byte of a response, where the body can be replayed.
    Once,
}

impl Retry {
    /// By the method: requests with an idempotent one may, once (RFC 9110 §9.2.2).
    pub fn of(method: &Method) -> Self {
        if method.is_idempotent() { Self::Once } else { Self::Never }
    }
}

/// An interim response (RFC 9110 §15.2) for the client: 103, 102, or 100 where the request had `Expect`.
#[derive(Clone, Debug)]
pub struct Interim {
    /// The status, 100 to 199 without 101.
    pub status: StatusCode,
    /// Its fields as received.
    pub headers: HeaderMap,
}

/// Where interim responses go. It need not be bounded: at most [`crate::Bounds::interim_max`] are sent for a
/// response. Boxed, since a channel makes room for many at once and most requests get none.
pub type InterimSender = mpsc::UnboundedSender<Box<Interim>>;
