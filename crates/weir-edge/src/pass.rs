//! Bypassing the cache: passes on other methods, requests that the rules exclude and responses that may not
//! be stored. It stores nothing, except a POST's response that says it answers later GETs. It marks in the
//! ledger what an unsafe method changed (RFC 9111 §4.4).

mod hold;
mod invalidated;
mod posted;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AGE, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::sync::mpsc;
use weir_clock as clock;
use weir_front::{ContentError, Switch};
use weir_observe::trace::Step;
use weir_policy::cookies::has_unkeyed;
use weir_policy::{BodyEnd, Failure, HeadEffect, ResponseView, head_effect, is_placed, storable};
use weir_upstream::Length;
use weir_upstream::{
    Interim, OriginError, OriginRequest, OriginResponse, OutBody, Retry, Share, Tunnel, Upstream, Whose,
};
use weir_wire::Target;

use crate::cache_status::CacheStatus;
use crate::consult;
use crate::decide::Consulted;
use crate::deliver::source::{Lasts, Passed, Source};
use crate::exchange::{Asked, Chosen, Exchange};
use crate::late::Late;
use crate::response::{self, Response};
use crate::upload::Upload;
use weir_fill::judge::strip_of_part;
use weir_fill::recent::digest_of_visitors;
use weir_fill::refetch::strong;
use weir_fill::tally;
use weir_fill::{Concern, NO_ANSWER, OriginAnswer, OriginFailure};

use self::hold::{Held, hold};
use self::invalidated::invalidate;
use self::posted::Posted;
use crate::give_way;
use crate::warming::Aim;
use crate::{affinity, limit, local, login, lookup, outgoing, present};

/// `Retry-After` of an event stream that found no place, in seconds.
const STREAM_RETRY: Duration = Duration::from_secs(5);

/// How the wait for the response ended.
enum Heard {
    Answered(Box<OriginResponse>, Upload),
    Failed(OriginError),
    Body(ContentError),
    Gone,
}

/// Passes a request.
pub(crate) async fn pass(exchange: &mut Exchange<'_, '_>, cache_status: CacheStatus) -> Response {
    match Box::pin(try_pass(exchange, cache_status)).await {
        Ok(response) => response,
        Err(failure) => failed(exchange, &failure, cache_status),
    }
}

/// Answers and logs that the origin gave no response to a passed request.
pub(crate) fn failed(
    exchange: &mut Exchange<'_, '_>,
    failure: &OriginFailure,
    cache_status: CacheStatus,
) -> Response {
    cache_status.note(&mut exchange.told.facts);
    local::origin_failed(exchange.asked, exchange.told, failure)
}

/// Passes a request. Where the origin gives no response, no final one has been sent.
///
/// # Errors
/// Why there is none.
pub(crate) async fn try_pass(
    exchange: &mut Exchange<'_, '_>,
    cache_status: CacheStatus,
) -> Result<Response, Box<OriginFailure>> {
    let (asked, chosen) = (exchange.asked, exchange.chosen);
    if exchange.count().is_err() {
        return Ok(local::too_many(asked, exchange.told));
    }
    match asked.warming.map(|warming| warming.aim) {
        Some(Aim::Store) => return Ok(give_way::not_stored(exchange.told, cache_status)),
        Some(Aim::Read) if !give_way::may_ask(asked, chosen) => return Ok(give_way::gave_way(exchange.told)),
        _ => {}
    }
    let Some(upstream) = asked.running.upstream(chosen.route).cloned() else {
        return Ok(local::no_upstream(asked, exchange.told));
    };
    asked.core.observer.counters().origin_asked();
    exchange.told.step(|| Step::Passed(cache_status.detail()));
    exchange.told.passed = Some(asked.core.shared.store.ledger().current());
    Ok(match ask(exchange, &upstream).await {
        Heard::Answered(mut response, upload) => {
            asked.core.shared.inflight.upstreams.answered(upstream.name());
            invalidate(asked, chosen, &response);
            match response.upgraded.take() {
                Some(tunnel) => switched(exchange, &response, tunnel, cache_status),
                None => relay(exchange, response, upload, cache_status),
            }
        }
        Heard::Failed(error) => return Err(Box::new(OriginFailure::of(&error))),
        Heard::Body(error) => {
            cache_status.note(&mut exchange.told.facts);
            local::bad_body(exchange, &error)
        }
        Heard::Gone => {
            cache_status.note(&mut exchange.told.facts);
            exchange.left()
        }
    })
}

/// Sends the request, with its body as it arrives, and waits for the final head.
async fn ask(exchange: &mut Exchange<'_, '_>, upstream: &Arc<Upstream>) -> Heard {
    let asked = exchange.asked;
    let Held { mut upload, body, _place } = match hold(exchange, &asked.core.shared.hold).await {
        Ok(held) => held,
        Err(ContentError::Gone) => return Heard::Gone,
        Err(error) => return Heard::Body(error),
    };
    let request = request(exchange, body);
    exchange.told.sends(asked, &request.headers);
    let request = outgoing::noted(asked, exchange.told, upstream, request);
    let (interim, mut interims) = mpsc::unbounded_channel();
    let interim = outgoing::interim_sender(asked, interim);
    let mut answer = std::pin::pin!(upstream.send_for(login::of_client(asked), request, interim));
    loop {
        tokio::select! {
            biased;
            Some(interim) = interims.recv() => {
                if send_interim(exchange, &interim, Whose::Client).is_err() {
                    return Heard::Gone;
                }
            }
            answer = &mut answer => {
                // An interim and a final head may arrive in one piece: they are read in order.
                while let Ok(interim) = interims.try_recv() {
                    if send_interim(exchange, &interim, Whose::Client).is_err() {
                        return Heard::Gone;
                    }
                }
                return match answer {
                    Ok(response) => Heard::Answered(response, upload),
                    Err(error) => Heard::Failed(error),
                };
            }
            pumped = upload.pump_to(&mut *exchange.client) => match pumped {
                Ok(()) => {}
                Err(ContentError::Gone) => return Heard::Gone,
                Err(error) => return Heard::Body(error),
            },
        }
    }
}

fn request(exchange: &Exchange<'_, '_>, body: OutBody) -> OriginRequest {
    let (asked, chosen) = (exchange.asked, exchange.chosen);
    let target = match &asked.request.target {
        Target::Path(_) => chosen.target(asked).into_owned(),
        Target::Asterisk => "*".to_owned(),
    };
    OriginRequest {
        method: asked.request.method.clone(),
        target: target.into(),
        headers: Arc::new(outgoing::for_pass(asked, chosen)),
        body,
        retry: Retry::of(&asked.request.method),
        prefer: None,
        picking: outgoing::picking(asked, chosen, Whose::Client),
        session: affinity::session(asked, chosen),
        upgrade: asked.request.upgrade.clone(),
        tally: Some(tally::of_site(&asked.core.observer, exchange.told.facts.site)),
        log: None,
        witness: Some(asked.witness().number()),
        client: asked.sharer(),
        share: Share::Bounded,
        hurry: None,
    }
}

/// Passes an interim response on (RFC 9110 §15.2), without the fields that the route removes or sets. One to
/// a request of nobody, which follows no session, begins none.
///
/// # Errors
/// The client went away.
pub(crate) fn send_interim(
    exchange: &mut Exchange<'_, '_>,
    interim: &Interim,
    whose: Whose,
) -> Result<(), ContentError> {
    if interim.status == StatusCode::CONTINUE {
        return Ok(());
    }
    let mut headers = interim.headers.clone();
    weir_policy::strip_hop_by_hop(&mut headers);
    headers.remove(CONTENT_LENGTH);
    let route = exchange.chosen.route;
    route.strip_response(&mut headers);
    if whose == Whose::Nobody {
        route.rules.strip_cookies_of_one(&mut headers);
    }
    exchange.client.interim(interim.status, &headers)
}

/// Passes a response on to its client as it arrives.
pub(crate) fn relay(
    exchange: &mut Exchange<'_, '_>,
    mut response: Box<OriginResponse>,
    upload: Upload,
    cache_status: CacheStatus,
) -> Response {
    let (asked, chosen) = (exchange.asked, exchange.chosen);
    for _ in 0..response.times.retries {
        asked.core.observer.counters().retried();
    }
    exchange.told.origin = Some(response.origin.name_shared().clone());
    exchange.told.picked = response.picked;
    exchange.told.answered = Some(OriginAnswer::of(&response));
    let length = match response.length {
        Length::Known(length) => Some(length),
        _ => None,
    };
    let is_get = asked.request.method == Method::GET;
    if is_get && !is_placed(&asked.request.headers, response.status, &response.headers, length) {
        cache_status.note(&mut exchange.told.facts);
        return local::origin_failed(asked, exchange.told, &unplaced());
    }
    let is_events = is_event_stream(&response.headers);
    if is_events && let Err(bound) = response.body.outlast() {
        cache_status.note(&mut exchange.told.facts);
        let busy = OriginError::busy(bound, STREAM_RETRY);
        return local::origin_failed(asked, exchange.told, &OriginFailure::of(&busy));
    }
    let cookie = affinity::settle(exchange, &response);
    // What begins a session is stored for nobody, and neither is what may be of a login.
    let is_of_login = login::is_of_login(asked, chosen);
    let is_of_one = cookie.is_some() || is_of_login;
    let posted = if is_of_one { None } else { posted::begin(exchange, &response) };
    let cache_status = cache_status.answered(response.status);
    let cache_status = match posted.as_ref().map(Posted::lifetime) {
        Some((left_s, source)) => cache_status.stored(left_s, source),
        None => cache_status,
    };
    cache_status.note(&mut exchange.told.facts);
    if !is_of_login {
        learn(exchange, &response, &cache_status);
    }
    let length = match response.length {
        Length::None => declared(&response.headers),
        length => length.bytes(),
    };
    let mut made = relayed(asked, chosen, response.status, response.headers, cache_status);
    affinity::give(&mut made, cookie);
    let mut body = response.body;
    if is_events {
        body.set_between_bytes(asked.peer().limits.tunnel_idle_max);
    }
    let pace = limit::pace(asked, chosen, response.status, None);
    let source = || match posted {
        Some(posted) => posted.read(body),
        None => {
            let counters = asked.core.observer.counters_shared();
            let lasts = if is_events && length.is_none() { Lasts::UntilItEnds } else { Lasts::ToItsEnd };
            Source::Origin(Box::new(Passed::new(body, chosen.route.clone(), counters, lasts)))
        }
    };
    let relayed = response::with_source(made, &asked.request.method, length, source);
    Response { upload: upload.boxed(), ..response::paced(relayed, pace) }
}

/// The response to a request for another protocol, which the origin has accepted (RFC 9110 §7.8).
fn switched(
    exchange: &mut Exchange<'_, '_>,
    response: &OriginResponse,
    tunnel: Tunnel,
    cache_status: CacheStatus,
) -> Response {
    let chosen = exchange.chosen;
    exchange.told.origin = Some(response.origin.name_shared().clone());
    exchange.told.picked = response.picked;
    exchange.told.answered = Some(OriginAnswer::of(response));
    let cache_status = cache_status.answered(response.status);
    cache_status.note(&mut exchange.told.facts);
    let reader = chosen.reader(exchange.asked, 0);
    let mut fields = present::fields(response.headers.clone(), response.status, chosen.route, reader);
    fields.remove(UPGRADE);
    let mut made =
        response::made(StatusCode::SWITCHING_PROTOCOLS, fields, Late::of_cache(cache_status, None));
    let cookie = affinity::settle(exchange, response);
    affinity::give(&mut made, cookie);
    let protocol = response.headers.get(UPGRADE).cloned();
    Response { switch: Some(Box::new(Switch { protocol, stream: Box::new(tunnel) })), ..made }
}

/// The origin sent a part that does not answer the request.
fn unplaced() -> OriginFailure {
    OriginFailure {
        status: StatusCode::BAD_GATEWAY,
        proxy_status: "http_protocol_error",
        word: "unplaced-part",
        text: NO_ANSWER,
        origin: None,
        retry_after: None,
        concern: Concern::Lead,
        kind: Failure::Unusable,
    }
}

/// Applies what a passed response says about stored ones and about the key. A HEAD's response concerns the
/// stored GET (RFC 9111 §4.3.5), unless the client bypasses the cache or is authenticated. A storable
/// response shows that the key is worth another fill.
fn learn(exchange: &Exchange<'_, '_>, response: &OriginResponse, cache_status: &CacheStatus) {
    let (asked, chosen) = (exchange.asked, exchange.chosen);
    let (shared, now) = (&asked.core.shared, clock::now());
    if asked.request.method == Method::HEAD {
        let is_for_all = matches!(
            consult::consulted(asked, chosen),
            Consulted::LookUp(ask) if !ask.is_authenticated() && !ask.is_no_store()
        );
        let held = lookup::at_hand(asked, chosen).generation.filter(|_| is_for_all);
        let Some(held) = held else { return };
        let effect = {
            let view = ResponseView::new(response.status, &response.headers, asked.now, now);
            head_effect(&held.head().stored, held.length(), &view, &chosen.route.rules)
        };
        match effect {
            HeadEffect::None => {}
            HeadEffect::Freshen(fresh) => {
                let passed = exchange.told.passed.unwrap_or_else(|| held.stamp());
                shared.store.freshen(&held, *fresh, passed);
            }
            HeadEffect::Invalidate => shared.store.retire(&held),
        }
    } else if asked.request.method == Method::GET
        && (cache_status.is_of_memory()
            || cache_status.is_of_signature()
            || response.status == StatusCode::PARTIAL_CONTENT)
    {
        let body_end = if response.length == Length::UntilClose { BodyEnd::Close } else { BodyEnd::Framed };
        let (status, headers) = of_whole(response);
        let view = ResponseView { body_end, ..ResponseView::new(status, &headers, asked.now, now) };
        let judged = storable(&asked.view(), &view, &chosen.route.rules);
        let digest = lookup::key(asked, chosen).digest;
        if judged.is_ok() && (cache_status.is_of_memory() || cache_status.is_of_signature()) {
            shared.inflight.recent.accept(digest, now.mono);
            if has_unkeyed(&asked.request.headers, &chosen.route.rules.key) {
                shared.inflight.recent.accept(digest_of_visitors(digest), now.mono);
            }
        }
        if let Err(reason) = judged.as_ref()
            && cache_status.is_of_memory()
            && reason.is_of_response()
            && response.status == StatusCode::OK
        {
            shared.inflight.recent.decline_on(digest, now.mono, *reason);
        }
        let is_authenticated = asked.request.headers.contains_key(AUTHORIZATION);
        if judged.is_ok()
            && strong(&headers).is_some()
            && response.status == StatusCode::PARTIAL_CONTENT
            && !is_authenticated
        {
            shared.inflight.recent.has_parts(digest);
        }
    }
}

/// Status and fields of the whole: those of the part, without the fields that describe the part itself.
fn of_whole(response: &OriginResponse) -> (StatusCode, Cow<'_, HeaderMap>) {
    if response.status != StatusCode::PARTIAL_CONTENT {
        return (response.status, Cow::Borrowed(&response.headers));
    }
    let mut headers = response.headers.clone();
    strip_of_part(&mut headers);
    (StatusCode::OK, Cow::Owned(headers))
}

/// The head of a response that is not stored.
pub(crate) fn relayed(
    asked: &Asked<'_>,
    chosen: &Chosen<'_>,
    status: StatusCode,
    headers: HeaderMap,
    cache_status: CacheStatus,
) -> Response {
    let age = headers.get(AGE).cloned();
    let age_s = if age.is_some() { u64::from(weir_policy::age_s(&headers)) } else { 0 };
    let mut fields = present::fields(headers, status, chosen.route, chosen.reader(asked, age_s));
    if let Some(age) = age {
        fields.insert(AGE, age);
    }
    response::made(status, fields, Late::of_cache(cache_status, lookup::shown_key(asked, chosen)))
}

/// The declared length of the body that a response to HEAD, or a 304, does not have. Where the origin
/// declares none, Weir invents none (RFC 9110 §8.6).
fn declared(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    kind.len() >= 17 && kind[..17].eq_ignore_ascii_case(b"text/event-stream")
}
