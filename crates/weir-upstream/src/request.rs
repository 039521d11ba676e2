//! A request to an origin: head and body as the caller has prepared them, and what is known of it for picks,
//! retries and logs.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use weir_client::{Hurry, OutBody, RequestHead, Share, Tally};
use weir_share::Client;

use crate::again::track::AttemptLog;
use crate::choice::pick::{Asked, Picking};
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

    /// Its head, as it is sent.
    pub(crate) fn head(&self) -> RequestHead<'_> {
        let OriginRequest { method, target, headers, upgrade, .. } = self;
        RequestHead { method, target, headers, upgrade: upgrade.as_ref() }
    }

    /// What picks know of it.
    pub(crate) fn asked(&self) -> Asked<'_> {
        Asked { picking: &self.picking, target: &self.target, headers: &self.headers }
    }
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
