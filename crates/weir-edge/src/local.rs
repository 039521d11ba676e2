//! Responses that Weir makes itself: refusals, errors, what a route answers without an origin. Each is
//! complete and short, and says how it came about (`Cache-Status`; on errors `Proxy-Status`, RFC 9209).

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_RANGE, CONTENT_TYPE, DATE, LOCATION, RETRY_AFTER,
    STRICT_TRANSPORT_SECURITY, VIA,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use weir_clock as clock;
use weir_front::listen::Peer;
use weir_front::{Client, ContentError, Done, Refused};
use weir_observe::{Completion, Description, Facts, Outcome};
use weir_policy::purge::is_purge;
use weir_policy::value::Style;
use weir_policy::{ContentRange, RequestView, http_date};
use weir_wire::{Host, Refusal};

use crate::cache_status::CacheStatus;
use crate::core::Core;
use crate::exchange::{Asked, Exchange, Note, Told};
use crate::late::{Late, is_of_route};
use crate::plan::{Answered, Plan, Route, Site};
use crate::response::{self, Response};
use crate::secured::{self, Unsecured};
use crate::seen;
use crate::shared::Shared;
use crate::transform::request::{ends_here, is_loop};
use crate::values::{Circumstances, OfLog, OfRequest};
use crate::ways::{Led, Torn, lead};
use weir_fill::OriginFailure;

/// A response that Weir makes itself.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The word of the log and of `Cache-Status`.
    pub(crate) word: &'static str,
    pub(crate) outcome: Outcome,
    /// The error token for `Proxy-Status`.
    pub(crate) proxy_status: Option<&'static str>,
}

impl Reply {
    /// An error in one line of text.
    pub(crate) fn error(status: StatusCode, word: &'static str, text: &str) -> Reply {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        let reason = status.canonical_reason().unwrap_or("Error");
        let body = format!("{} {reason}: {text}\n", status.as_u16());
        Reply { status, headers, body: body.into(), word, outcome: Outcome::Refused, proxy_status: None }
    }

    /// An answer in one line of text, for this request alone: `no-store`.
    pub(crate) fn line(status: StatusCode, word: &'static str, body: impl Into<Bytes>) -> Reply {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Reply { status, headers, body: body.into(), word, outcome: Outcome::Local, proxy_status: None }
    }

    pub(crate) fn retry_after(mut self, seconds: u64) -> Reply {
        self.headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        self
    }

    fn proxy_status(mut self, token: &'static str) -> Reply {
        self.proxy_status = Some(token);
        self
    }

    pub(crate) fn outcome(mut self, outcome: Outcome) -> Reply {
        self.outcome = outcome;
        self
    }

    fn into_response(self, method: &Method, own_id: &str) -> Response {
        let mut fields = HeaderMap::with_capacity(self.headers.len() + 2);
        // Invariant: a date and our own name contain only bytes that a field may have.
        let date = http_date(clock::now().wall).and_then(|date| HeaderValue::try_from(date).ok());
        fields.extend(date.map(|date| (DATE, date)));
        fields.extend(self.headers);
        let via = HeaderValue::try_from(format!("1.1 {own_id}"));
        fields.extend(via.ok().map(|via| (VIA, via)));
        let made = response::made(self.status, fields, Late::local(self.word, self.proxy_status));
        response::with_bytes(made, method, self.body)
    }
}

/// Where a request goes.
pub(crate) enum Routed<'r> {
    /// Weir answers it itself.
    Local(Box<Reply>),
    /// To a route of a site with an upstream, or with files.
    To(&'r Arc<Site>, &'r Arc<Route>),
    /// It asks for a purge; the route is that of its URL.
    Purge(Option<&'r Arc<Route>>),
}

impl Routed<'_> {
    fn is_local(&self) -> bool {
        matches!(self, Routed::Local(_))
    }
}

/// A request with its place in the configuration.
pub(crate) struct Placed<'r> {
    pub(crate) site: Option<&'r Arc<Site>>,
    pub(crate) route: Option<&'r Arc<Route>>,
    pub(crate) to: Routed<'r>,
}

/// Finds the route of a request, or the answer that needs none, and notes both.
pub(crate) fn route<'r>(note: &mut Note<'r>, client: &mut dyn Client) -> Routed<'r> {
    let (asked, told) = (&note.asked, &mut note.told);
    let (request, plan) = (asked.request, &asked.running.plan);
    let Placed { site, route, mut to } =
        placed(&asked.core.shared, plan, &request.host, &asked.view(), asked);
    if let Some(site) = site {
        if !to.is_local()
            && let Some(unfit) = secured::unfit(&request.peer, site, request.host.name())
        {
            to = local(Reply::error(unfit.status, unfit.word, unfit.text));
        }
        told.site = Some(site);
        told.facts.site = site.id;
        told.note_for(asked, site.id);
        client.count_for(site.id);
    }
    let access = route.and_then(|route| route.access.as_ref()).filter(|_| !matches!(to, Routed::Purge(_)));
    if access.is_some_and(|access| !access.admits(asked.client())) {
        let mut reply = Reply::error(StatusCode::FORBIDDEN, "denied", "this client may not ask for this");
        reply.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        to = local(reply);
    }
    told.route = route;
    to
}

/// Where a request goes; the walk and `explain` call it.
pub(crate) fn placed<'r>(
    shared: &Shared,
    plan: &'r Plan,
    host: &Host,
    view: &RequestView<'_>,
    beside: &dyn Circumstances,
) -> Placed<'r> {
    let path = view.path();
    let local = |reply| Placed { site: None, route: None, to: local(reply) };
    if plan.is_health(path) {
        return local(health(shared));
    }
    if let Some(content) = shared.proofs.find(host.name(), path) {
        return local(Reply::line(StatusCode::OK, "acme", content));
    }
    if is_loop(view.headers, &shared.own.id) {
        let text = "this request has been here before";
        let reply = Reply::error(StatusCode::LOOP_DETECTED, "loop", text);
        return local(reply.proxy_status("proxy_loop_detected"));
    }
    if ends_here(view.method, view.headers) {
        return local(options());
    }
    let (found, port) = (plan.site(host.name()), beside.listener_port());
    if let Some(purge) = purged_by(found, view, port) {
        return Placed { site: found, route: purge, to: Routed::Purge(purge) };
    }
    let Some(site) = found else {
        let text = "no site has this host";
        return local(Reply::error(StatusCode::MISDIRECTED_REQUEST, "unknown-host", text));
    };
    if let Some(unsecured) = secured::unsecured(plan, site, host.name(), view) {
        let reply = match unsecured {
            Unsecured::Redirect(target) => to_https(target),
            Unsecured::Refuse => Reply::error(StatusCode::FORBIDDEN, "needs-https", "this site needs TLS"),
        };
        return Placed { site: Some(site), ..local(reply) };
    }
    let route = match lead(site.routes(), view, port, beside) {
        Led::To(route) => route,
        Led::Nowhere => {
            let text = "no route of this site takes this path";
            let reply = Reply::error(StatusCode::NOT_FOUND, "no-route", text);
            return Placed { site: Some(site), ..local(reply) };
        }
        Led::Torn(why) => return Placed { site: Some(site), ..local(torn(why)) },
    };
    if let Some(unfit) = route.limits.as_ref().and_then(|limits| limits.refuse(view)) {
        let reply = Reply::error(unfit.status, unfit.word, unfit.word);
        return Placed { site: Some(site), route: Some(route), ..local(reply) };
    }
    let known = || OfRequest { view: *view, site: &site.name, route: route.words(), beside };
    let to = match route.answer(known) {
        Some(answered) => Routed::Local(Box::new(of_route(answered))),
        None => Routed::To(site, route),
    };
    Placed { site: Some(site), route: Some(route), to }
}

/// The route of the URL in a request that asks for a purge, where a site has its host. None where the request
/// does not, or a route's own `method` names its method.
fn purged_by<'r>(
    site: Option<&'r Arc<Site>>,
    view: &RequestView<'_>,
    port: Option<u16>,
) -> Option<Option<&'r Arc<Route>>> {
    if !is_purge(view.method) {
        return None;
    }
    let path = view.path();
    let of = |method| site.and_then(|site| site.route(&RequestView { method, ..*view }, path, port));
    if of(view.method).is_some_and(|route| route.names(view.method)) {
        return None;
    }
    Some(of(&Method::GET))
}

/// The answer to a request that origins may read in ways that lead elsewhere.
fn torn(why: Torn) -> Reply {
    let (status, word, text) = match why {
        Torn::Method => (
            StatusCode::NOT_IMPLEMENTED,
            "method-case",
            "methods are case-sensitive, and this one is not known",
        ),
        Torn::Override => {
            (StatusCode::BAD_REQUEST, "method-override", "fields override the method in two ways, or by none")
        }
        Torn::Path => {
            (StatusCode::BAD_REQUEST, "path-ambiguous", "this path leads to different routes by its readings")
        }
    };
    Reply::error(status, word, text)
}

fn local(reply: Reply) -> Routed<'static> {
    Routed::Local(Box::new(reply))
}

fn of_route(answered: Answered) -> Reply {
    let Answered { status, headers, body, word } = answered;
    Reply { status, headers, body, word, outcome: Outcome::Local, proxy_status: None }
}

/// The redirect to the `https` URL.
fn to_https(target: String) -> Reply {
    let location = HeaderValue::try_from(&target);
    let mut reply = Reply::line(StatusCode::PERMANENT_REDIRECT, "https", target + "\n");
    // Invariant: host and path were parsed, and have only bytes that a field may have.
    reply.headers.extend(location.ok().map(|location| (LOCATION, location)));
    reply
}

/// The answer to a question about Weir itself (RFC 9110 §9.3.7, §7.6.2).
fn options() -> Reply {
    let mut headers = HeaderMap::new();
    let methods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
    headers.insert(ALLOW, HeaderValue::from_static(methods));
    let (status, body) = (StatusCode::NO_CONTENT, Bytes::new());
    Reply { status, headers, body, word: "options", outcome: Outcome::Local, proxy_status: None }
}

/// The health answer for a load balancer in front.
fn health(shared: &Shared) -> Reply {
    if shared.is_draining() {
        return Reply::error(StatusCode::SERVICE_UNAVAILABLE, "draining", "draining").outcome(Outcome::Local);
    }
    Reply::line(StatusCode::OK, "health", "ok\n")
}

/// Turns a reply into the response of an exchange.
pub(crate) fn answer(asked: &Asked<'_>, told: &mut Told<'_>, mut reply: Reply) -> Response {
    let is_error = reply.status.is_client_error() || reply.status.is_server_error();
    let route = told.route.filter(|_| is_error && reply.outcome != Outcome::Local);
    if let Some(page) = route.and_then(|route| route.error_page(reply.status)) {
        reply.headers.insert(CONTENT_TYPE, page.content_type.clone());
        reply.body = page.body.clone();
    }
    if let Some(route) = told.route.filter(|_| is_of_route(reply.word)) {
        route.edit_response(&mut reply.headers);
    }
    let site = told.site.filter(|_| asked.scheme == "https");
    if let Some(hsts) = site.and_then(|site| site.hsts.as_ref()) {
        reply.headers.insert(STRICT_TRANSPORT_SECURITY, hsts.clone());
    }
    told.facts.outcome = reply.outcome;
    told.facts.detail = reply.word;
    reply.into_response(&asked.request.method, &asked.core.shared.own.id)
}

/// Refuses a malformed request; the connection is closed.
pub(crate) fn refuse(core: &Core, why: &Refused) -> Response {
    reply_to(why).into_response(&Method::GET, &core.shared.own.id)
}

/// Counts and logs a refusal that was sent.
pub(crate) fn note_refusal(core: &Core, why: &Refused, peer: Peer, done: &Done) {
    let (reply, now) = (reply_to(why), clock::now());
    let facts = Facts {
        status: reply.status.as_u16(),
        outcome: reply.outcome,
        detail: reply.word,
        body_bytes: done.sent.body_bytes,
        completion: match done.sent.first_byte {
            Some(_) => Completion::Whole,
            None => Completion::ClientGone,
        },
        ..Facts::default()
    };
    let client = peer.ip().map_or_else(String::new, |ip| ip.to_string());
    let plan = core.running();
    core.observer.record(
        &facts,
        || peer.sharer(),
        |_| {
            let mut texts = Description { wall: now.wall, client, ..Description::default() };
            let line = plan.plan.log_line();
            let known = OfLog { response: None, facts: &facts, texts: &texts };
            texts.line = line.map(|line| line.render(&known, Style::Log));
            texts
        },
    );
    core.observer.seen(&facts, done.ended, || seen::of_refused(peer));
    core.observer.counters().request_ended();
}

fn reply_to(why: &Refused) -> Reply {
    match why {
        Refused::Malformed(refusal) => refused(refusal),
        Refused::Late => {
            Reply::error(StatusCode::REQUEST_TIMEOUT, "head-late", "the request head took too long")
        }
    }
}

/// The answer to a malformed request, and the word for it. Where a field has two values that differ, the
/// answer names the field.
fn refused(refusal: &Refusal) -> Reply {
    let word = refusal.reason();
    match refusal.field_twice() {
        Some(name) => Reply::error(refusal.status(), word, &format!("{name} has two values that differ")),
        None => Reply::error(refusal.status(), word, word),
    }
}

/// The body that the client declares is larger than allowed.
pub(crate) fn too_large(exchange: &mut Exchange<'_, '_>) -> Response {
    bad_body(exchange, &ContentError::TooLarge)
}

/// The body of the request cannot be read further: Weir answers, then closes the connection.
pub(crate) fn bad_body(exchange: &mut Exchange<'_, '_>, error: &ContentError) -> Response {
    let reply = match error {
        ContentError::TooLarge => {
            Reply::error(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", "the request body is too large")
        }
        ContentError::TooSlow => {
            Reply::error(StatusCode::REQUEST_TIMEOUT, "body-too-slow", "the request body came too slowly")
        }
        ContentError::Malformed(refusal) => refused(refusal),
        ContentError::Gone => return exchange.left(),
    };
    Response { must_close: true, ..answer(exchange.asked, exchange.told, reply) }
}

/// A rule of `rewrite` fits the path, which has a dot segment, or would have one.
pub(crate) fn dot_segment(asked: &Asked<'_>, told: &mut Told<'_>) -> Response {
    let text = "a path that is rewritten has no dot segments";
    let reply = Reply::error(StatusCode::BAD_REQUEST, "dot-segment", text);
    answer(asked, told, reply)
}

/// RFC 9111 §5.2.1.7: the client accepts only a stored response.
pub(crate) fn only_if_cached(asked: &Asked<'_>, told: &mut Told<'_>) -> Response {
    let reply = Reply::error(StatusCode::GATEWAY_TIMEOUT, "only-if-cached", "nothing usable is held");
    answer(asked, told, reply.outcome(Outcome::Miss))
}

/// RFC 9110 §13.1.1.
pub(crate) fn precondition_failed(
    asked: &Asked<'_>,
    told: &mut Told<'_>,
    cache_status: CacheStatus,
) -> Response {
    cache_status.note(&mut told.facts);
    let reply = Reply::error(StatusCode::PRECONDITION_FAILED, "precondition", "the precondition is false");
    reply.into_response(&asked.request.method, &asked.core.shared.own.id)
}

/// RFC 9110 §15.5.17.
pub(crate) fn unsatisfiable(
    asked: &Asked<'_>,
    told: &mut Told<'_>,
    range: &ContentRange,
    cache_status: CacheStatus,
) -> Response {
    cache_status.note(&mut told.facts);
    let text = "the range lies outside of the body";
    let mut reply = Reply::error(StatusCode::RANGE_NOT_SATISFIABLE, "range", text);
    reply.headers.insert(CONTENT_RANGE, range.value());
    reply.into_response(&asked.request.method, &asked.core.shared.own.id)
}

/// The origin gave no response, or a broken one, and nothing has been sent yet.
pub(crate) fn origin_failed(asked: &Asked<'_>, told: &mut Told<'_>, failure: &OriginFailure) -> Response {
    if failure.origin.is_some() {
        told.origin.clone_from(&failure.origin);
    }
    let outcome = told.facts.outcome;
    let outcome = if outcome == Outcome::Refused { Outcome::Miss } else { outcome };
    let mut reply =
        Reply::error(failure.status, failure.word, failure.text).proxy_status(failure.proxy_status);
    if let Some(after) = failure.retry_after {
        reply = reply.retry_after(after.as_secs().max(1));
    }
    answer(asked, told, reply.outcome(outcome))
}

/// The route names an upstream that does not exist. The check of the configuration should not allow this.
pub(crate) fn no_upstream(asked: &Asked<'_>, told: &mut Told<'_>) -> Response {
    let reply = Reply::error(StatusCode::BAD_GATEWAY, "no-upstream", "this route has no upstream");
    answer(asked, told, reply.proxy_status("destination_not_found").outcome(Outcome::Local))
}

/// The client that a trusted proxy names already has as many requests under way as it may (RFC 6585 §4).
pub(crate) fn too_many(asked: &Asked<'_>, told: &mut Told<'_>) -> Response {
    let text = "too many requests of this client are under way";
    let reply = Reply::error(StatusCode::TOO_MANY_REQUESTS, "too-many-requests", text);
    answer(asked, told, reply.retry_after(1).outcome(Outcome::Local))
}

/// Weir itself failed.
pub(crate) fn internal(asked: &Asked<'_>, told: &mut Told<'_>, word: &'static str) -> Response {
    let reply = Reply::error(StatusCode::BAD_GATEWAY, word, "the proxy could not finish this request");
    answer(asked, told, reply.proxy_status("proxy_internal_error").outcome(Outcome::Miss))
}
