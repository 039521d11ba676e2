//! Responses that Weir makes itself: refusals, errors, what a route answers without an origin. Each is
//! whole, short and says how it came (`Cache-Status`; on errors `Proxy-Status`, RFC 9209).

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_RANGE, CONTENT_TYPE, DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use weir_policy::{ContentRange, cache_status};
use weir_wire::{Persistence, Refusal, Target, Version, print};

use crate::conn::body::BodyError;
use crate::conn::{After, Conn, print_persistence};
use crate::deliver::send::{Transfer, send};
use crate::deliver::source::Source;
use crate::exchange::Exchange;
use crate::fill::{OriginFailure, SharedResponse};
use crate::plan::{Answered, Route, Site};
use crate::told::Told;
use crate::transform::request::{ends_here, is_loop};
use crate::worker::Worker;
use crate::{pass, purge};
use weir_clock as clock;
use weir_observe::{Completion, Description, Facts, Outcome};

/// A response that is made here.
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

    /// An answer in one line of text, for this request alone.
    pub(crate) fn line(status: StatusCode, word: &'static str, body: impl Into<Bytes>) -> Reply {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Reply { status, headers, body: body.into(), word, outcome: Outcome::Local, proxy_status: None }
    }

    fn retry_after(mut self, seconds: u64) -> Reply {
        self.headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        self
    }

    fn proxy_status(mut self, token: &'static str) -> Reply {
        self.proxy_status = Some(token);
        self
    }

    fn outcome(mut self, outcome: Outcome) -> Reply {
        self.outcome = outcome;
        self
    }
}

/// Where a request goes.
pub(crate) enum Routed<'r> {
    /// It is answered here.
    Local(Box<Reply>),
    /// To a route with an upstream.
    To(&'r Arc<Route>),
    /// It purges what this route has of its URL.
    Purge(&'r Arc<Route>),
}

/// Finds the route of a request, or what is answered without one.
pub(crate) fn route<'r>(exchange: &mut Exchange<'r>) -> Routed<'r> {
    let plan = &exchange.running.plan;
    let path = match &exchange.head.target {
        Target::Path(path) => path.path(),
        Target::Asterisk => "*",
    };
    if plan.is_health(path) {
        return Routed::Local(Box::new(health(exchange.worker)));
    }
    if is_loop(&exchange.head.headers, &exchange.worker.plane.own_id) {
        let text = "this request has been here before";
        return local(
            Reply::error(StatusCode::LOOP_DETECTED, "loop", text).proxy_status("proxy_loop_detected"),
        );
    }
    if ends_here(&exchange.head.method, &exchange.head.headers) {
        return local(options());
    }
    let Some(site) = plan.site(exchange.head.host.name()) else {
        return local(Reply::error(StatusCode::MISDIRECTED_REQUEST, "unknown-host", "no site has this host"));
    };
    exchange.site = Some(site);
    exchange.facts.site = site.id;
    exchange.conn.client.site = site.id;
    if let Some(route) = purged_by(site, exchange, path) {
        exchange.route = Some(route);
        return Routed::Purge(route);
    }
    let Some(route) = site.route(&exchange.head.method, exchange.scheme, path) else {
        return local(Reply::error(
            StatusCode::NOT_FOUND,
            "no-route",
            "no route of this site takes this path",
        ));
    };
    exchange.route = Some(route);
    let view = exchange.view();
    match route.answer(&view) {
        Some(answered) => Routed::Local(Box::new(of_route(answered))),
        None => Routed::To(route),
    }
}

/// The route of what a `PURGE` is about; none where the request is none, or a route's `method` asks for it.
fn purged_by<'r>(site: &'r Site, exchange: &Exchange<'_>, path: &str) -> Option<&'r Arc<Route>> {
    let method = &exchange.head.method;
    if !purge::is_purge(method) {
        return None;
    }
    let own = site.route(method, exchange.scheme, path);
    if own.is_some_and(|route| route.names(method)) {
        return None;
    }
    site.route(&Method::GET, exchange.scheme, path)
}

fn local(reply: Reply) -> Routed<'static> {
    Routed::Local(Box::new(reply))
}

fn of_route(answered: Answered) -> Reply {
    let Answered { status, headers, body, word } = answered;
    Reply { status, headers, body, word, outcome: Outcome::Local, proxy_status: None }
}

/// The answer to a question about Weir itself (RFC 9110 §9.3.7, §7.6.2).
fn options() -> Reply {
    let mut headers = HeaderMap::new();
    let methods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
    headers.insert(ALLOW, HeaderValue::from_static(methods));
    let (status, body) = (StatusCode::NO_CONTENT, Bytes::new());
    Reply { status, headers, body, word: "options", outcome: Outcome::Local, proxy_status: None }
}

/// What a balancer in front is told.
fn health(worker: &Worker) -> Reply {
    if worker.plane.is_draining() {
        return Reply::error(StatusCode::SERVICE_UNAVAILABLE, "draining", "draining").outcome(Outcome::Local);
    }
    Reply::line(StatusCode::OK, "health", "ok\n")
}

/// Sends a reply to the request of an exchange.
pub(crate) async fn answer(exchange: &mut Exchange<'_>, mut reply: Reply) -> After {
    let is_error = reply.status.is_client_error() || reply.status.is_server_error();
    let route = exchange.route.as_ref().filter(|_| is_error && reply.outcome != Outcome::Local);
    if let Some(page) = route.and_then(|route| route.error_page(reply.status)) {
        reply.headers.insert(CONTENT_TYPE, page.content_type.clone());
        reply.body = page.body.clone();
    }
    exchange.facts.outcome = reply.outcome;
    exchange.facts.detail = reply.word;
    reply_to(exchange, reply).await
}

async fn reply_to(exchange: &mut Exchange<'_>, reply: Reply) -> After {
    let transfer = exchange.transfer(reply.status, Some(reply.body.len() as u64));
    let after = exchange.persistence(transfer);
    let own_id = exchange.worker.plane.own_id.clone();
    let out = &mut exchange.conn.client.out;
    print_reply(out, &reply, &own_id, transfer, after, exchange.head.version);
    exchange.facts.status = reply.status.as_u16();
    let sent = send(&mut exchange.conn.client, Source::Bytes(reply.body), transfer).await;
    exchange.sent(sent, transfer, after)
}

fn print_reply(
    out: &mut Vec<u8>,
    reply: &Reply,
    own_id: &str,
    transfer: Transfer,
    after: After,
    version: Version,
) {
    print::status_line(out, reply.status);
    print::field(out, DATE.as_str(), httpdate::fmt_http_date(clock::now().wall).as_bytes());
    print::fields(out, &reply.headers);
    print::field(out, "via", format!("1.1 {own_id}").as_bytes());
    out.extend_from_slice(b"cache-status: ");
    cache_status::local(out, reply.word);
    out.extend_from_slice(b"\r\n");
    if let Some(token) = reply.proxy_status {
        print::field(out, "proxy-status", format!("weir; error={token}").as_bytes());
    }
    transfer.print(out);
    print_persistence(out, after, version);
    print::end(out);
}

/// Refuses what is not a request as it should be, and closes.
pub(crate) async fn refuse(worker: &Worker, conn: &mut Conn, refusal: &Refusal) -> After {
    refuse_with(worker, conn, refused(refusal)).await
}

/// The answer to what is not a request as it should be: the word, and of two values of a field that has one its name.
fn refused(refusal: &Refusal) -> Reply {
    let word = refusal.reason();
    match refusal.field_twice() {
        Some(name) => Reply::error(refusal.status(), word, &format!("{name} has two values that differ")),
        None => Reply::error(refusal.status(), word, word),
    }
}

/// A head that did not arrive in time.
pub(crate) async fn late(worker: &Worker, conn: &mut Conn) -> After {
    let reply = Reply::error(StatusCode::REQUEST_TIMEOUT, "head-late", "the request head took too long");
    refuse_with(worker, conn, reply).await
}

async fn refuse_with(worker: &Worker, conn: &mut Conn, reply: Reply) -> After {
    let now = clock::now();
    worker.observer.counters().request_begun();
    let transfer = Transfer::Length(reply.body.len() as u64);
    print_reply(&mut conn.client.out, &reply, &worker.plane.own_id, transfer, After::Close, Version::Http11);
    let sent = send(&mut conn.client, Source::Bytes(reply.body), transfer).await;
    let facts = Facts {
        status: reply.status.as_u16(),
        outcome: reply.outcome,
        detail: reply.word,
        body_bytes: sent.body_bytes,
        total: clock::mono().saturating_duration_since(now.mono),
        completion: if sent.first_byte.is_some() { Completion::Whole } else { Completion::ClientGone },
        ..Facts::default()
    };
    let client = conn.peer.ip().map_or_else(String::new, |ip| ip.to_string());
    worker.observer.record(&facts, || Description { wall: now.wall, client, ..Description::default() });
    worker.observer.counters().request_ended();
    After::Close
}

/// The body that the client declares is larger than allowed.
pub(crate) async fn too_large(exchange: &mut Exchange<'_>) -> After {
    bad_body(exchange, &BodyError::TooLarge).await
}

/// The body of the request cannot be read on: answered, then closed.
pub(crate) async fn bad_body(exchange: &mut Exchange<'_>, error: &BodyError) -> After {
    let reply = match error {
        BodyError::TooLarge => {
            Reply::error(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", "the request body is too large")
        }
        BodyError::TooSlow => {
            Reply::error(StatusCode::REQUEST_TIMEOUT, "body-too-slow", "the request body came too slowly")
        }
        BodyError::Malformed(refusal) => refused(refusal),
        BodyError::Gone => return exchange.left(),
    };
    exchange.head.persistence = Persistence::Close;
    match answer(exchange, reply).await {
        After::KeepAlive => After::Close,
        after => after,
    }
}

/// RFC 9111 §5.2.1.7: the client wants nothing but what is held.
pub(crate) async fn only_if_cached(exchange: &mut Exchange<'_>) -> After {
    let reply = Reply::error(StatusCode::GATEWAY_TIMEOUT, "only-if-cached", "nothing usable is held");
    answer(exchange, reply.outcome(Outcome::Miss)).await
}

/// RFC 9110 §13.1.1.
pub(crate) async fn precondition_failed(exchange: &mut Exchange<'_>, told: Told) -> After {
    told.note(&mut exchange.facts);
    let reply = Reply::error(StatusCode::PRECONDITION_FAILED, "precondition", "the precondition is false");
    reply_to(exchange, reply).await
}

/// RFC 9110 §15.5.17.
pub(crate) async fn unsatisfiable(exchange: &mut Exchange<'_>, range: &ContentRange, told: Told) -> After {
    told.note(&mut exchange.facts);
    let text = "the range lies outside of the body";
    let mut reply = Reply::error(StatusCode::RANGE_NOT_SATISFIABLE, "range", text);
    reply.headers.insert(CONTENT_RANGE, range.value());
    reply_to(exchange, reply).await
}

/// The origin gave no response, or a broken one, and nothing was sent yet.
pub(crate) async fn origin_failed(exchange: &mut Exchange<'_>, failure: &OriginFailure) -> After {
    if failure.origin.is_some() {
        exchange.origin.clone_from(&failure.origin);
    }
    let outcome = exchange.facts.outcome;
    let outcome = if outcome == Outcome::Refused { Outcome::Miss } else { outcome };
    let mut reply =
        Reply::error(failure.status, failure.word, failure.text).proxy_status(failure.proxy_status);
    if let Some(after) = failure.retry_after {
        reply = reply.retry_after(after.as_secs().max(1));
    }
    answer(exchange, reply.outcome(outcome)).await
}

/// The route names an upstream that does not exist; the configuration's check should not let it through.
pub(crate) async fn no_upstream(exchange: &mut Exchange<'_>) -> After {
    let reply = Reply::error(StatusCode::BAD_GATEWAY, "no-upstream", "this route has no upstream");
    answer(exchange, reply.proxy_status("destination_not_found").outcome(Outcome::Local)).await
}

/// The client that a trusted proxy names has as many requests under way as it may (RFC 6585 §4).
pub(crate) async fn too_many(exchange: &mut Exchange<'_>) -> After {
    let text = "too many requests of this client are under way";
    let reply = Reply::error(StatusCode::TOO_MANY_REQUESTS, "too-many-requests", text);
    answer(exchange, reply.retry_after(1).outcome(Outcome::Local)).await
}

/// Something in Weir itself broke.
pub(crate) async fn internal(exchange: &mut Exchange<'_>, word: &'static str) -> After {
    let reply = Reply::error(StatusCode::BAD_GATEWAY, word, "the proxy could not finish this request");
    answer(exchange, reply.proxy_status("proxy_internal_error").outcome(Outcome::Miss)).await
}

/// A short error response of the origin, shared by those who waited for it.
pub(crate) async fn shared(
    exchange: &mut Exchange<'_>,
    route: &Route,
    response: &SharedResponse,
    told: Told,
) -> After {
    told.note(&mut exchange.facts);
    let transfer = exchange.transfer(response.status, Some(response.body.len() as u64));
    let after = exchange.persistence(transfer);
    pass::print_head(exchange, route, response.status, &response.headers, &told, transfer, after);
    let body = match exchange.head.method {
        Method::HEAD => Source::Empty,
        _ => Source::Bytes(response.body.clone()),
    };
    let sent = send(&mut exchange.conn.client, body, transfer).await;
    exchange.sent(sent, transfer, after)
}
