//! Responses that Weir makes itself: refusals, errors, what a route answers without an origin. Each is
//! complete and short, and says how it came about (`Cache-Status`; on errors `Proxy-Status`, RFC 9209).

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_RANGE, CONTENT_TYPE, DATE, LOCATION, RETRY_AFTER,
    STRICT_TRANSPORT_SECURITY, VIA,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use weir_clock as clock;
use weir_front::listen::Peer;
use weir_front::{ContentError, Done, Refused};
use weir_observe::{Completion, Description, Facts, Outcome};
use weir_policy::value::Style;
use weir_policy::{ContentRange, http_date};
use weir_wire::Refusal;

use crate::core::Core;
use crate::exchange::{Asked, Exchange, Told};
use crate::late::{Late, is_of_route};
use crate::plan::Answered;
use crate::response::{self, Response};
use crate::seen;
use crate::shared::Shared;
use crate::values::OfLog;
use crate::ways::Torn;
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

    pub(crate) fn proxy_status(mut self, token: &'static str) -> Reply {
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

/// The answer to a request that origins may read in ways that lead elsewhere.
pub(crate) fn torn(why: Torn) -> Reply {
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

/// The answer of a route that asks no origin.
pub(crate) fn of_route(answered: Answered) -> Reply {
    let Answered { status, headers, body, word } = answered;
    Reply { status, headers, body, word, outcome: Outcome::Local, proxy_status: None }
}

/// The redirect to the `https` URL.
pub(crate) fn to_https(target: String) -> Reply {
    let location = HeaderValue::try_from(&target);
    let mut reply = Reply::line(StatusCode::PERMANENT_REDIRECT, "https", target + "\n");
    // Invariant: host and path were parsed, and have only bytes that a field may have.
    reply.headers.extend(location.ok().map(|location| (LOCATION, location)));
    reply
}

/// The answer to a question about Weir itself (RFC 9110 §9.3.7, §7.6.2).
pub(crate) fn options() -> Reply {
    let mut headers = HeaderMap::new();
    let methods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
    headers.insert(ALLOW, HeaderValue::from_static(methods));
    let (status, body) = (StatusCode::NO_CONTENT, Bytes::new());
    Reply { status, headers, body, word: "options", outcome: Outcome::Local, proxy_status: None }
}

/// The health answer for a load balancer in front.
pub(crate) fn health(shared: &Shared) -> Reply {
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
    secure(asked, told, &mut reply);
    told.facts.outcome = reply.outcome;
    told.facts.detail = reply.word;
    reply.into_response(&asked.request.method, &asked.core.shared.own.id)
}

/// Tells browsers to ask the site over TLS alone (RFC 6797 §7.2: not without TLS).
fn secure(asked: &Asked<'_>, told: &Told<'_>, reply: &mut Reply) {
    let site = told.site.filter(|_| asked.scheme == "https");
    if let Some(hsts) = site.and_then(|site| site.hsts.as_ref()) {
        reply.headers.insert(STRICT_TRANSPORT_SECURITY, hsts.clone());
    }
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

/// The words for a precondition that is false, and for a range beyond the end.
pub(crate) const PRECONDITION: &str = "precondition";
pub(crate) const RANGE: &str = "range";

/// RFC 9110 §13.1.1.
pub(crate) fn precondition_failed(asked: &Asked<'_>, told: &Told<'_>) -> Response {
    unmet(
        asked,
        told,
        Reply::error(StatusCode::PRECONDITION_FAILED, PRECONDITION, "the precondition is false"),
    )
}

/// RFC 9110 §15.5.17.
pub(crate) fn unsatisfiable(asked: &Asked<'_>, told: &Told<'_>, range: &ContentRange) -> Response {
    let text = "the range lies outside of the body";
    let mut reply = Reply::error(StatusCode::RANGE_NOT_SATISFIABLE, RANGE, text);
    reply.headers.insert(CONTENT_RANGE, range.value());
    unmet(asked, told, reply)
}

/// What goes out in place of a representation. It has no error page: the client asked under a condition.
fn unmet(asked: &Asked<'_>, told: &Told<'_>, mut reply: Reply) -> Response {
    secure(asked, told, &mut reply);
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
