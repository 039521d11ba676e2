//! One request and its response: what the rooms of the walk hand to each other. It must not decide anything.

mod circumstances;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use http::{HeaderMap, StatusCode, header};
use weir_clock::Now;
use weir_front::listen::{Counted, Peer, TooMany};
use weir_front::{Client, ContentLimits, Done, End, PeerInfo, Request, Secured, Trust};
use weir_observe::trace::Moment;
use weir_observe::{AskedId, Completion, Description, Detail, Facts, Outcome, Storing, Tls};
use weir_policy::RequestView;
use weir_policy::value::{Style, Value};
use weir_share::Client as Sharer;
use weir_store::Stamp;
use weir_upstream::Picked;
use weir_upstream::affinity::Reading;
use weir_wire::Target;

use crate::affinity;
use crate::core::{Core, HeldPlan};
use crate::debug::Shown;
use crate::decide::{Beside, Fulfilled};
use crate::notes::{self, Notes};
use crate::parts::Refill;
use crate::plan::{Route, Site};
use crate::present::Reader;
use crate::response::{self, Response};
use crate::route::{DotSegment, Rewritten};
use crate::seen;
use crate::transform::client::client_of;
use crate::transform::request::{CLIENT_CERT, From, known_id, scheme};
use crate::values::{OfLog, OfRequest, OfResponse, Rendered, RouteWords};
use crate::warming::Warming;
use weir_fill::OriginAnswer;
use weir_fill::asks::Cause;
use weir_fill::inflight::Asker;
use weir_fill::witness::Witness;

/// Why a request ended whose client had half-closed its connection, or left. The two cannot be told apart.
const HALF_CLOSE: &str = "half-close";

/// One request under way, and its client.
pub(crate) struct Exchange<'c, 'k> {
    pub(crate) note: &'k mut Note<'c>,
    pub(crate) client: &'k mut dyn Client,
}

/// What is known of a request from its start until its response has been sent. It is never moved, so a hit
/// copies none of it.
pub(crate) struct Note<'c> {
    pub(crate) core: &'c Core,
    pub(crate) request: &'c Request,
    /// The request as it came, with the cookies that are taken out.
    pub(crate) received: &'c Request,
    pub(crate) scheme: &'static str,
    /// When the head had been read.
    pub(crate) now: Now,
    pub(crate) running: &'c HeldPlan,
    pub(crate) site: Option<&'c Arc<Site>>,
    pub(crate) route: Option<&'c Arc<Route>>,
    pub(crate) facts: Facts,
    /// The origin that was asked.
    pub(crate) origin: Option<Arc<str>>,
    /// Why it was picked, where the request was passed.
    pub(crate) picked: Option<Picked>,
    /// The response's age when it went out, in seconds.
    age_s: Option<u64>,
    /// How it answered.
    pub(crate) answered: Option<OriginAnswer>,
    /// What the origin is asked for in place of the client's path and query.
    pub(crate) rewritten: Option<Rewritten>,
    /// The fields that the origin sent to the lead of a fill, where they differ from the stored ones.
    pub(crate) own_fields: Option<Box<HeaderMap>>,
    /// What it is for, where there is no client.
    pub(crate) warming: Option<&'c Warming>,
    /// How the missing bytes of the response are brought, where they were already asked for.
    pub(crate) refill: Option<Box<Refill>>,
    /// Whether the request found a part that cannot be completed.
    pub(crate) found_gone: bool,
    /// Whether the part being served came out of another cache.
    pub(crate) had_age: bool,
    /// The ledger's number when the request was passed on to the origin.
    pub(crate) asked: Option<Stamp>,
    /// The slot of the client that a trusted proxy names; it counts while this lives.
    counted: Option<Counted>,
    request_id: OnceCell<String>,
    /// The client, once somebody has asked.
    client: OnceCell<Option<Peer>>,
    /// What the request says of its session.
    pub(crate) reading: OnceCell<Reading>,
    /// What the log of requests to origins says of this request.
    cause: OnceCell<Arc<Cause>>,
    /// The request's fields as origins get them, where the route sets some of them to values.
    selecting: OnceCell<Box<HeaderMap>>,
    /// What is decided, where that is wanted.
    pub(crate) notes: Option<Box<Notes>>,
}

impl<'c> Deref for Exchange<'c, '_> {
    type Target = Note<'c>;

    fn deref(&self) -> &Note<'c> {
        self.note
    }
}

impl<'c> DerefMut for Exchange<'c, '_> {
    fn deref_mut(&mut self) -> &mut Note<'c> {
        self.note
    }
}

impl Exchange<'_, '_> {
    /// Notes what the origin is asked for in place of the client's path, where the route rewrites it.
    ///
    /// # Errors
    /// A rule fits, and the path has a dot segment, or would have one.
    pub(crate) fn rewrite(&mut self, route: &Route) -> Result<(), DotSegment> {
        if route.has_rewrites() && matches!(self.request.target, Target::Path(_)) {
            self.rewritten = route.rewritten(&self.known(route))?;
        }
        Ok(())
    }

    /// Holds the request's content to the limits of its route, where it has some.
    pub(crate) fn bound_content(&mut self, route: &Route) {
        if route.limits.is_some() {
            let limits = self.content_limits(route);
            self.client.bound_content(limits);
        }
    }

    /// Renders what the route sets in responses to values with placeholders.
    #[inline]
    pub(crate) fn render(&mut self, response: &mut Response) {
        self.ready(response);
        self.age_s = response.late.age_s();
        let Some(route) = self.route else { return };
        if !route.response_values().is_empty() {
            self.render_of(route, response);
        }
        if route.hides_cache_status() {
            response.late.hide_cache_status();
        }
    }

    fn render_of(&self, route: &Arc<Route>, response: &mut Response) {
        let Some(status) = response.head.status().filter(|_| response.late.is_presented()) else { return };
        let known = OfResponse {
            request: self.known(route),
            status,
            facts: &self.facts,
            age_s: response.late.age_s(),
            origin: self.origin.as_deref(),
            answered: self.answered,
        };
        response.late.set(Rendered::of(route.response_values(), &known));
    }

    /// The client left before there was a response, or stayed half-closed for as long as it may (RFC 9112
    /// §9.6).
    pub(crate) fn left(&mut self) -> Response {
        let detail = if self.client.has_ended() { HALF_CLOSE } else { "client-gone" };
        self.facts.completion = Completion::ClientGone;
        self.facts.detail = detail;
        if self.facts.outcome == Outcome::Refused {
            self.facts.outcome = Outcome::Miss;
        }
        response::none()
    }
}

impl<'c> Note<'c> {
    /// Begins an exchange. The request no longer has hop-by-hop fields.
    pub(crate) fn begin(
        core: &'c Core,
        running: &'c HeldPlan,
        request: &'c Request,
        shown: Shown,
    ) -> Note<'c> {
        core.observer.counters().request_begun();
        Note::new(core, running, request, shown)
    }

    /// Begins an exchange without a client. It is counted nowhere, and not to be finished.
    pub(crate) fn warming(
        core: &'c Core,
        running: &'c HeldPlan,
        (request, shown): (&'c Request, Shown),
        warming: &'c Warming,
    ) -> Note<'c> {
        Note { warming: Some(warming), ..Note::new(core, running, request, shown) }
    }

    fn new(core: &'c Core, running: &'c HeldPlan, request: &'c Request, shown: Shown) -> Note<'c> {
        Note {
            core,
            scheme: scheme(&request.headers, request.peer.trust, request.peer.scheme),
            now: request.at,
            request,
            received: request,
            running,
            site: None,
            route: None,
            facts: Facts::default(),
            origin: None,
            picked: None,
            age_s: None,
            answered: None,
            rewritten: None,
            own_fields: None,
            warming: None,
            refill: None,
            found_gone: false,
            had_age: false,
            asked: None,
            counted: None,
            request_id: OnceCell::new(),
            client: OnceCell::new(),
            reading: OnceCell::new(),
            cause: OnceCell::new(),
            selecting: OnceCell::new(),
            notes: Notes::begin(core, shown),
        }
    }

    /// The connection that the request came over.
    pub(crate) fn peer(&self) -> &'c PeerInfo {
        &self.request.peer
    }

    /// Path and query as received; `*` for a request about the server itself.
    pub(crate) fn path_and_query(&self) -> &str {
        path_and_query(self.request)
    }

    /// What is known of the request beside its fields.
    pub(crate) fn beside(&self, route: &Route) -> Beside {
        self.beside_of(self.view(), route)
    }

    /// The same for another request of its client.
    pub(crate) fn beside_of(&self, view: RequestView<'_>, route: &Route) -> Beside {
        let of_client = route.clients.as_ref().map(|clients| clients.hold(self.client()));
        let by_maps = route.fulfilled_by_maps(|| OfRequest { view, ..self.known(route) });
        Beside {
            is_too_large: self.request.is_too_large(self.content_limits(route)),
            is_upgrade: self.request.upgrade.is_some(),
            fulfilled: of_client
                .unwrap_or_default()
                .and(by_maps)
                .and(affinity::fulfilled(self, route))
                .and(self.refresh()),
        }
    }

    /// Whether a warming fetches what is fresh.
    fn refresh(&self) -> Fulfilled {
        let is_refresh = self.warming.is_some_and(|warming| warming.refresh);
        if is_refresh { Fulfilled(Fulfilled::REFRESH) } else { Fulfilled::default() }
    }

    /// How large and how slow the request's content may be.
    fn content_limits(&self, route: &Route) -> ContentLimits {
        let all = self.request.peer.limits.content();
        route.limits.as_ref().map_or(all, |limits| limits.content(all))
    }

    /// Path and query for the origin: what the key leaves of them, or what the route makes of that.
    pub(crate) fn target(&self, route: &Route) -> Cow<'_, str> {
        let instead = self.warming.and_then(|warming| warming.instead.as_ref());
        match (instead, &self.rewritten) {
            (Some((_, target)), _) => Cow::Borrowed(target),
            (None, Some(rewritten)) => Cow::Borrowed(&rewritten.target),
            (None, None) => forwarded(route, self.path_and_query()),
        }
    }

    /// Takes the cookies out of the request that its route takes out, and Weir's own. From here on nobody
    /// sees them, but for what reads sessions.
    pub(crate) fn take_cookies(&mut self, route: &Route) {
        let request = self.request;
        let without_own = affinity::without_own(&request.headers, self.running.plan.own_cookies());
        let left = route.rules.cookies.apply(without_own.as_ref().unwrap_or(&request.headers));
        if left.is_none() && without_own.is_none() {
            return;
        }
        let mut headers = without_own.unwrap_or_else(|| request.headers.clone());
        if let Some(left) = left {
            left.put(&mut headers);
        }
        self.request = request.instead.get_or_init(|| Box::new(request.with_headers(headers)));
    }

    /// The route with the upstream that a map chooses for this request; the route itself where none does.
    pub(crate) fn choose(&mut self, route: &'c Arc<Route>) -> &'c Arc<Route> {
        let chosen = route.chosen(|| self.known(route));
        self.route = Some(chosen);
        chosen
    }

    /// The request as the policy sees it.
    pub(crate) fn view(&self) -> RequestView<'_> {
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

    /// The request's id: the trusted peer's, or a new one.
    pub(crate) fn request_id(&self) -> &str {
        request_id(&self.request_id, self.request)
    }

    /// What placeholders stand for in this request, with the query as it was received.
    pub(crate) fn known<'a>(&'a self, route: &'a Route) -> OfRequest<'a> {
        let site = self.site.map_or("", |site| &*site.name);
        OfRequest { view: self.view(), site, route: route.words(), beside: self }
    }

    /// The request's fields as `Vary` selects by them: what the route sets to values replaces what the
    /// client has sent, since origins see that.
    pub(crate) fn selecting(&self, route: &Route) -> &HeaderMap {
        if route.request_values().is_empty() {
            return &self.request.headers;
        }
        self.selecting.get_or_init(|| {
            let mut headers = self.request.headers.clone();
            let target = forwarded(route, self.path_and_query());
            let view = RequestView { path_and_query: &target, ..self.view() };
            route.set_values(&OfRequest { view, ..self.known(route) }, &mut headers);
            Box::new(headers)
        })
    }

    /// This request, as the cause of requests to origins, where these are noted.
    pub(crate) fn cause(&self) -> Option<&Arc<Cause>> {
        (self.core.observer.wants_asked() || self.notes.is_some()).then(|| {
            self.cause.get_or_init(|| {
                let site = self.site.map_or_else(|| Arc::from(""), |site| site.name.clone());
                Cause::new(&self.core.observer, self.request_id(), self.request.host.as_str(), site)
            })
        })
    }

    /// The requests to origins that the response came by, where they have a log.
    fn asked(&self) -> Vec<AskedId> {
        let cause = self.cause.get().filter(|_| self.core.observer.wants_asked());
        cause.map_or_else(Vec::new, |cause| cause.asked())
    }

    /// The attempts at origins that are noted.
    pub(crate) fn tries(&self) -> Vec<Moment> {
        self.cause.get().map_or_else(Vec::new, |cause| cause.tries(self.now.mono))
    }

    /// The request's client, where it can be known.
    pub(crate) fn client(&self) -> Option<Peer> {
        // The fields that say who it is stay as they came.
        *self
            .client
            .get_or_init(|| client_of(self.request.peer.peer, &self.running.trusted, &self.request.headers))
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

    /// Counts a request that waits for an origin, for the client that a trusted proxy names. Other clients
    /// are counted by their connections.
    ///
    /// # Errors
    /// That client has as many requests under way as it may.
    pub(crate) fn count(&mut self) -> Result<(), TooMany> {
        if self.request.peer.trust == Trust::Untrusted || self.counted.is_some() {
            return Ok(());
        }
        let Some(sharer) = self.sharer() else { return Ok(()) };
        let counted = self.core.shared.clients.count(sharer, self.request.peer.limits.per_client_max);
        self.counted = Some(counted.ok_or(TooMany)?);
        Ok(())
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

    /// The client that the response's fields are written for, and the response's age when it goes out.
    pub(crate) fn reader(&self, age_s: u64) -> Reader<'_> {
        let own = &self.core.shared.own;
        let trust = self.request.peer.trust;
        let rule = self.rewritten.as_ref().map(|rewritten| rewritten.rule);
        Reader { scheme: self.scheme, host: self.request.host.as_str(), own, age_s, trust, rule }
    }

    /// The first words of a log line about this exchange.
    pub(crate) fn outcome(&mut self, outcome: Outcome, detail: &'static str) {
        self.facts.outcome = outcome;
        self.facts.detail = detail;
    }
}

/// What the log says of a connection's TLS.
fn tls(secured: &Secured) -> Tls {
    Tls {
        version: secured.agreed.version,
        group: secured.agreed.group,
        is_resumed: secured.agreed.is_resumed,
        name: secured.name.as_deref().unwrap_or_default().to_owned(),
        client: secured.client_name().unwrap_or_default(),
    }
}

impl Note<'_> {
    /// Counts and logs the finished request.
    pub(crate) fn finish(mut self, done: &Done) {
        let sent = &done.sent;
        let facts = &mut self.facts;
        if let Some(status) = done.status {
            facts.status = status.as_u16();
            facts.body_bytes = sent.body_bytes;
            facts.first_byte = sent.first_byte.map(|at| at.saturating_duration_since(self.now.mono));
            match sent.end {
                End::Whole => {}
                End::Cut(word) => {
                    facts.completion = Completion::Cut;
                    facts.detail = word;
                    let is_stored = matches!(facts.storing, Storing::Stored { .. });
                    if is_stored && notes::breaks_fill(word) {
                        facts.storing = Storing::NotAsked;
                        self.notes.iter_mut().for_each(|notes| notes.take_back_stored());
                    }
                    self.core.observer.counters().error(word);
                }
                End::ClientGone => facts.completion = Completion::ClientGone,
                End::HalfClosed => {
                    facts.completion = Completion::ClientGone;
                    facts.detail = HALF_CLOSE;
                }
            }
        }
        facts.total = done.ended.saturating_duration_since(self.now.mono);
        let client = || self.client().unwrap_or(self.request.peer.peer).sharer();
        self.core.observer.record(&self.facts, client, |detail| self.describe(detail));
        self.core.observer.seen(&self.facts, done.ended, || seen::of(&self));
        self.core.observer.counters().request_ended();
    }

    fn describe(&self, detail: Detail) -> Description {
        let field = |name| {
            self.request.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let mut description = Description {
            wall: self.now.wall,
            client: self
                .client()
                .unwrap_or(self.request.peer.peer)
                .ip()
                .map_or_else(String::new, |ip| ip.to_string()),
            method: Some(self.request.method.clone()),
            scheme: self.scheme,
            host: self.request.host.as_str().to_owned(),
            target: path_and_query(self.request).to_owned(),
            version: self.request.protocol,
            origin: self.origin.clone(),
            pick: self.picked.map(Picked::words).unwrap_or_default(),
            request_id: request_id(&self.request_id, self.request).to_owned(),
            referer: field(header::REFERER),
            user_agent: field(header::USER_AGENT),
            tls: self.peer().secured.as_ref().map(tls),
            asked: self.asked(),
            trace: (detail == Detail::Full).then(|| self.trace()),
            ..Description::default()
        };
        if let Some(site) = &self.site {
            description.site = site.name.clone();
        }
        if let Some(route) = &self.route {
            description.route = route.name.clone();
            description.upstream = self.origin.as_ref().and(route.upstream.clone());
        }
        if let Some(line) = self.running.plan.log_line() {
            description.line = Some(self.log_line(line, &description));
        }
        description
    }
}

impl Note<'_> {
    /// The line of a log whose form the configuration says.
    fn log_line(&self, line: &Value, texts: &Description) -> Vec<u8> {
        let site = self.site.map_or("", |site| &*site.name);
        let route = self.route.map(|route| route.words()).unwrap_or_default();
        let route = RouteWords { maps: self.running.plan.maps(), ..route };
        let response = OfResponse {
            request: OfRequest { view: self.view(), site, route, beside: self },
            status: StatusCode::from_u16(self.facts.status).unwrap_or_default(),
            facts: &self.facts,
            age_s: self.age_s,
            origin: self.origin.as_deref(),
            answered: self.answered,
        };
        let known = OfLog { response: Some(response), facts: &self.facts, texts };
        line.render(&known, Style::Log)
    }
}

/// Path and query as received; `*` for a request about the server itself.
fn path_and_query(request: &Request) -> &str {
    match &request.target {
        Target::Path(path) => path.as_str(),
        Target::Asterisk => "*",
    }
}

/// The request's id: a trusted peer's, or a new one.
fn request_id<'r>(known: &'r OnceCell<String>, request: &Request) -> &'r str {
    known.get_or_init(|| match known_id(&request.headers, request.peer.trust) {
        Some(id) => id.to_owned(),
        None => made_id(fastrand::u128(..)),
    })
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

/// The part of the target that a route keeps in the key. The origin is asked for the same.
pub(crate) fn forwarded<'a>(route: &Route, path_and_query: &'a str) -> Cow<'a, str> {
    weir_policy::forwarded(&route.rules.key, path_and_query)
}
