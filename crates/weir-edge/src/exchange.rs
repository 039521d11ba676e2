//! One request and its response under way: what the rooms of the walk hand to each other. It must not
//! decide anything.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, StatusCode, header};
use weir_policy::{Now, RequestView};
use weir_store::Stamp;
use weir_wire::{Persistence, RequestHead, Target, Version};

use crate::conn::body::RequestBody;
use crate::conn::{After, Conn};
use crate::deliver::send::{Ended, Sent, Transfer};
use crate::listen::{Counted, Peer, TooMany};
use crate::parts::Refill;
use crate::plan::{Route, Site};
use crate::present::Reader;
use crate::transform::Trust;
use crate::transform::client::client_of;
use crate::transform::request::{From, known_id, scheme};
use crate::worker::{HeldPlan, Worker};
use weir_clock as clock;
use weir_observe::{Completion, Description, Facts, Outcome, SiteId};

/// Why a request ended whose client had ended its side, or left: these look alike.
const HALF_CLOSE: &str = "half-close";

/// One request under way.
pub(crate) struct Exchange<'c> {
    pub(crate) worker: &'c Rc<Worker>,
    pub(crate) conn: &'c mut Conn,
    pub(crate) head: Box<RequestHead>,
    pub(crate) scheme: &'static str,
    /// When the head had been read.
    pub(crate) now: Now,
    pub(crate) running: &'c HeldPlan,
    pub(crate) site: Option<&'c Arc<Site>>,
    pub(crate) route: Option<&'c Arc<Route>>,
    pub(crate) facts: Facts,
    /// The origin that was asked.
    pub(crate) origin: Option<Arc<str>>,
    /// The origin's fields as the lead of a fill got them, where they are not those that are stored.
    pub(crate) own_fields: Option<HeaderMap>,
    /// How what is missing of what goes out is brought, where that was asked for already.
    pub(crate) refill: Option<Box<Refill>>,
    /// Whether a part was found that cannot be completed.
    pub(crate) found_gone: bool,
    /// Whether a part that is being served came out of another cache.
    pub(crate) had_age: bool,
    /// The ledger's number when the request was passed on to the origin.
    pub(crate) asked: Option<Stamp>,
    /// Counted for the client that a trusted proxy names.
    counted: Option<Counted>,
    request_id: OnceCell<String>,
    /// When the last byte of the response was written, where that is known.
    ended: Option<Instant>,
}

impl<'c> Exchange<'c> {
    /// Begins with a head that has just been read.
    pub(crate) fn begin(
        worker: &'c Rc<Worker>,
        running: &'c HeldPlan,
        conn: &'c mut Conn,
        mut head: Box<RequestHead>,
    ) -> Exchange<'c> {
        let now = clock::now();
        // Key and variant must be of what the origin gets to see.
        weir_policy::strip_named(&mut head.headers);
        worker.observer.counters().request_begun();
        conn.body = RequestBody::begin(head.framing, head.expect, &conn.limits, now.mono);
        let listener = head.scheme.as_ref().map_or(conn.scheme, |_| conn.scheme);
        let scheme = scheme(&head.headers, conn.trust, listener);
        Exchange {
            running,
            worker,
            conn,
            head,
            scheme,
            now,
            site: None,
            route: None,
            facts: Facts::default(),
            origin: None,
            own_fields: None,
            refill: None,
            found_gone: false,
            had_age: false,
            asked: None,
            counted: None,
            request_id: OnceCell::new(),
            ended: None,
        }
    }

    /// Path and query as received; `*` for a request about the server itself.
    pub(crate) fn path_and_query(&self) -> &str {
        match &self.head.target {
            Target::Path(path) => path.as_str(),
            Target::Asterisk => "*",
        }
    }

    /// The request as the policy sees it.
    pub(crate) fn view(&self) -> RequestView<'_> {
        RequestView {
            method: &self.head.method,
            scheme: self.scheme,
            host: self.head.host.as_str(),
            path_and_query: self.path_and_query(),
            headers: &self.head.headers,
            has_body: self.conn.body.is_some(),
            is_trusted: self.conn.trust == Trust::Trusted,
        }
    }

    /// The request's id: a trusted peer's, or made now.
    pub(crate) fn request_id(&self) -> &str {
        self.request_id.get_or_init(|| match known_id(&self.head.headers, self.conn.trust) {
            Some(id) => id.to_owned(),
            None => made_id(fastrand::u128(..)),
        })
    }

    /// The client that it is of, where that can be known.
    pub(crate) fn client(&self) -> Option<Peer> {
        client_of(self.conn.peer, &self.running.trusted, &self.head.headers)
    }

    /// Whose share of what everybody needs it takes; none where that cannot be known, and of a proxy itself.
    pub(crate) fn sharer(&self) -> Option<IpAddr> {
        self.client().filter(|client| !self.running.trusted.contains(client))?.sharer()
    }

    /// Counts a request that waits for an origin for the client that a trusted proxy names; connections are counted for others.
    ///
    /// # Errors
    /// That client has as many under way as it may.
    pub(crate) fn count(&mut self) -> Result<(), TooMany> {
        if self.conn.trust == Trust::Untrusted || self.counted.is_some() {
            return Ok(());
        }
        let Some(sharer) = self.sharer() else { return Ok(()) };
        let counted = self.worker.plane.clients.count(sharer, self.conn.limits.per_client_max);
        self.counted = Some(counted.ok_or(TooMany)?);
        Ok(())
    }

    /// Who sent it, for the fields towards the origin.
    pub(crate) fn from(&self) -> From<'_> {
        From {
            address: self.conn.peer.ip(),
            client: self.client().and_then(|client| client.ip()),
            trust: self.conn.trust,
            scheme: self.scheme,
            host: self.head.host.as_str(),
            request_id: self.request_id(),
            own_id: &self.worker.plane.own_id,
        }
    }

    /// Whom the response's fields are written for, and how old it is when it goes out.
    pub(crate) fn reader(&self, age_s: u64) -> Reader<'_> {
        let own_id = &self.worker.plane.own_id;
        Reader { scheme: self.scheme, host: self.head.host.as_str(), own_id, age_s }
    }

    /// How the body of a response to this request is framed.
    pub(crate) fn transfer(&self, status: StatusCode, length: Option<u64>) -> Transfer {
        Transfer::choose(&self.head.method, status, length, self.head.version)
    }

    /// Whether the connection goes on after a response framed like this.
    pub(crate) fn persistence(&self, transfer: Transfer) -> After {
        let ends = self.head.persistence == Persistence::Close
            || transfer == Transfer::Close
            || self.worker.plane.is_draining();
        if ends { After::Close } else { After::KeepAlive }
    }

    /// Notes what was sent and says what becomes of the connection.
    pub(crate) fn sent(&mut self, sent: Sent, transfer: Transfer, meant: After) -> After {
        self.facts.body_bytes = sent.body_bytes;
        self.ended = sent.last_byte;
        self.facts.first_byte = sent.first_byte.map(|at| at.saturating_duration_since(self.now.mono));
        match sent.ended {
            Ended::Whole => meant,
            Ended::Cut(word) => {
                self.facts.completion = Completion::Cut;
                self.facts.detail = word;
                self.worker.observer.counters().error(word);
                if transfer == Transfer::Close { After::Reset } else { After::Cut }
            }
            Ended::ClientGone => {
                self.facts.completion = Completion::ClientGone;
                if self.conn.client.has_ended() {
                    self.facts.detail = HALF_CLOSE;
                }
                After::Cut
            }
        }
    }

    /// Notes that the client has left before there was a response, or had ended its side for as long as it may (RFC 9112 §9.6).
    pub(crate) fn left(&mut self) -> After {
        self.facts.completion = Completion::ClientGone;
        self.facts.detail = if self.conn.client.has_ended() { HALF_CLOSE } else { "client-gone" };
        if self.facts.outcome == Outcome::Refused {
            self.facts.outcome = Outcome::Miss;
        }
        After::Cut
    }

    /// Counts and logs the finished request.
    pub(crate) fn finish(mut self) {
        let ended = self.ended.unwrap_or_else(clock::mono);
        self.conn.free_since = ended;
        self.conn.client.site = SiteId::NONE;
        self.facts.total = ended.saturating_duration_since(self.now.mono);
        self.worker.observer.record(&self.facts, || self.describe());
        self.worker.observer.counters().request_ended();
        self.conn.reader.recycle(std::mem::take(&mut self.head.headers));
    }

    /// A first line for the log of what the exchange was about.
    pub(crate) fn outcome(&mut self, outcome: Outcome, detail: &'static str) {
        self.facts.outcome = outcome;
        self.facts.detail = detail;
    }

    fn describe(&self) -> Description {
        let field = |name| {
            self.head.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let mut description = Description {
            wall: self.now.wall,
            client: self
                .client()
                .unwrap_or(self.conn.peer)
                .ip()
                .map_or_else(String::new, |ip| ip.to_string()),
            method: Some(self.head.method.clone()),
            scheme: self.scheme,
            host: self.head.host.as_str().to_owned(),
            target: self.path_and_query().to_owned(),
            version: match self.head.version {
                Version::Http10 => "HTTP/1.0",
                Version::Http11 => "HTTP/1.1",
            },
            origin: self.origin.clone(),
            request_id: self.request_id().to_owned(),
            referer: field(header::REFERER),
            user_agent: field(header::USER_AGENT),
            ..Description::default()
        };
        if let Some(site) = &self.site {
            description.site = site.name.clone();
        }
        if let Some(route) = &self.route {
            description.route = route.name.clone();
            description.upstream = self.origin.as_ref().and(route.upstream.clone());
        }
        description
    }
}

/// A request id: 32 hexadecimal digits.
fn made_id(number: u128) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |at: u32| char::from(DIGITS[(number >> (4 * at)) as usize & 15]);
    (0..32).map(digit).collect()
}

/// What a route's key keeps of the target, which is also what the origin is asked for.
pub(crate) fn forwarded<'a>(route: &Route, path_and_query: &'a str) -> Cow<'a, str> {
    weir_policy::forwarded(&route.rules.key, path_and_query)
}
