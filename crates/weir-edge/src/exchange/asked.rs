//! What is asked: a request, who sent it, and the plan that it began with. It does not change once its route
//! is known.

use std::cell::OnceCell;

use weir_clock::Now;
use weir_fill::inflight::Asker;
use weir_fill::witness::Witness;
use weir_front::listen::Peer;
use weir_front::{ContentLimits, PeerInfo, Request, Trust};
use weir_policy::RequestView;
use weir_share::Client as Sharer;
use weir_wire::Target;

use crate::core::{Core, HeldPlan};
use crate::plan::Route;
use crate::transform::client::client_of;
use crate::transform::request::{CLIENT_CERT, From, known_id, scheme};
use crate::values::OfRequest;
use crate::warming::Warming;

/// A request, who sent it, and the plan that it began with.
pub(crate) struct Asked<'c> {
    pub(crate) core: &'c Core,
    pub(crate) running: &'c HeldPlan,
    /// The request, without the cookies that its route takes out.
    pub(crate) request: &'c Request,
    /// The request as it came, with those cookies.
    pub(crate) received: &'c Request,
    pub(crate) scheme: &'static str,
    /// When the head had been read.
    pub(crate) now: Now,
    /// What it is for, where there is no client.
    pub(crate) warming: Option<&'c Warming>,
    request_id: OnceCell<String>,
    /// The client, once somebody has asked.
    client: OnceCell<Option<Peer>>,
}

impl<'c> Asked<'c> {
    pub(super) fn new(
        core: &'c Core,
        running: &'c HeldPlan,
        request: &'c Request,
        warming: Option<&'c Warming>,
    ) -> Asked<'c> {
        Asked {
            core,
            running,
            request,
            received: request,
            scheme: scheme(&request.headers, request.peer.trust, request.peer.scheme),
            now: request.at,
            warming,
            request_id: OnceCell::new(),
            client: OnceCell::new(),
        }
    }

    /// The connection that the request came over.
    pub(crate) fn peer(&self) -> &'c PeerInfo {
        &self.request.peer
    }

    /// Path and query as received; `*` for a request about the server itself.
    pub(crate) fn path_and_query(&self) -> &'c str {
        match &self.request.target {
            Target::Path(path) => path.as_str(),
            Target::Asterisk => "*",
        }
    }

    /// The request as the policy sees it.
    pub(crate) fn view(&self) -> RequestView<'c> {
        RequestView {
            method: &self.request.method,
            scheme: self.scheme,
            host: self.request.host.as_str(),
            path_and_query: self.path_and_query(),
            headers: &self.request.headers,
            has_body: self.request.has_content(),
            is_trusted: self.request.peer.trust == Trust::Trusted,
        }
    }

    /// What placeholders stand for in this request on a route of a site, with the query as it was received.
    pub(crate) fn known<'a>(&'a self, site: &'a str, route: &'a Route) -> OfRequest<'a> {
        OfRequest { view: self.view(), site, route: route.words(), beside: self }
    }

    /// How large and how slow the request's content may be.
    pub(crate) fn content_limits(&self, route: &Route) -> ContentLimits {
        let all = self.request.peer.limits.content();
        route.limits.as_ref().map_or(all, |limits| limits.content(all))
    }

    /// The request's id: a trusted peer's, or a new one.
    pub(crate) fn request_id(&self) -> &str {
        self.request_id.get_or_init(|| match known_id(&self.request.headers, self.request.peer.trust) {
            Some(id) => id.to_owned(),
            None => made_id(fastrand::u128(..)),
        })
    }

    /// The request's client, where it can be known.
    pub(crate) fn client(&self) -> Option<Peer> {
        // The fields that say who it is stay as they came.
        *self
            .client
            .get_or_init(|| client_of(self.request.peer.peer, &self.running.trusted, &self.request.headers))
    }

    /// The request's client; the peer where it cannot be known.
    pub(crate) fn client_or_peer(&self) -> Peer {
        self.client().unwrap_or(self.request.peer.peer)
    }

    /// The client, as a witness of failures that its requests meet.
    pub(crate) fn witness(&self) -> Witness {
        Witness::of(self.client().and_then(|client| client.sharer()))
    }

    /// The client and its core, as fills know them.
    pub(crate) fn asker(&self) -> Asker<'c> {
        Asker { core: self.core.number, client: self.witness(), tenure: &self.running.tenure }
    }

    /// The client whose share of common resources the request uses. None where the client cannot be known,
    /// and for a proxy itself.
    pub(crate) fn sharer(&self) -> Option<Sharer> {
        self.client().filter(|client| !self.running.trusted.contains(client))?.sharer()
    }

    /// The sender, for the fields towards the origin.
    pub(crate) fn from(&self) -> From<'_> {
        let headers = &self.request.headers;
        From {
            address: self.request.peer.peer.ip(),
            client: self.client().and_then(|client| client.ip()),
            trust: self.request.peer.trust,
            method: &self.request.method,
            protocol: self.request.protocol,
            scheme: self.scheme,
            host: self.request.host.as_str(),
            request_id: self.request_id(),
            own: &self.core.shared.own,
            // The request has the field only if Weir wrote it.
            certificate: headers.get(CLIENT_CERT).filter(|_| self.running.plan.asks_clients()),
        }
    }
}

/// A request id: 32 hexadecimal digits.
fn made_id(number: u128) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut digits = [0; 32];
    for (two, byte) in digits.chunks_exact_mut(2).zip(number.to_be_bytes()) {
        two.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    // Invariant: digits are ASCII.
    std::str::from_utf8(&digits).unwrap_or_default().to_owned()
}
