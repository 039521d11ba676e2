//! Passing a request on and its response back, past the cache: other methods, requests that the rules
//! keep out, responses that may not be stored. It stores nothing but what a POST says is stored for the GETs to
//! come; what an unsafe method changed is marked in the ledger (RFC 9111 §4.4).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AGE, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::sync::mpsc;
use weir_policy::{BodyEnd, Consult, HeadEffect, RequestView, consult, head_effect, is_placed, storable};
use weir_store::Scope;
use weir_upstream::{Interim, OriginError, OriginRequest, OriginResponse, OutBody, Retry, Share, Upstream};
use weir_wire::{Framing, Target, print};

use crate::conn::body::{BodyError, Upload};
use crate::conn::client::ClientEnd;
use crate::conn::{After, print_persistence};
use crate::deliver::send::{Transfer, send_while};
use crate::deliver::source::Source;
use crate::exchange::{Exchange, forwarded};
use crate::fetch::posted::Posted;
use crate::fill::again::strong;
use crate::fill::judge::strip_of_part;
use crate::fill::tally;
use crate::fill::witness::Witness;
use crate::fill::{Concern, NO_ANSWER, OriginFailure};
use crate::hold::{Held, hold};
use crate::plan::Route;
use crate::told::Told;
use crate::{fetch, limit, local, lookup, outgoing, present, tunnel};
use weir_clock as clock;

/// When who found no place for an event stream may try again.
const STREAM_RETRY: Duration = Duration::from_secs(5);

/// How the way to the response ended.
enum Asked {
    Answered(Box<OriginResponse>, Upload),
    Failed(OriginError),
    Body(BodyError),
    Gone,
}

/// Passes a request.
pub(crate) async fn pass(exchange: &mut Exchange<'_>, route: &Arc<Route>, told: Told) -> After {
    if exchange.count().is_err() {
        return local::too_many(exchange).await;
    }
    let Some(upstream) = exchange.running.upstream(route).cloned() else {
        return local::no_upstream(exchange).await;
    };
    exchange.worker.observer.counters().origin_asked();
    exchange.asked = Some(exchange.worker.plane.store.ledger().current());
    match ask(exchange, route, &upstream).await {
        Asked::Answered(mut response, upload) => {
            exchange.worker.plane.desk.upstreams.answered(upstream.name());
            invalidate(exchange, route, &response);
            match response.upgraded.take() {
                Some(tunnel) => tunnel::switch(exchange, route, *response, tunnel, told).await,
                None => relay(exchange, route, *response, upload, told).await,
            }
        }
        Asked::Failed(error) => {
            told.note(&mut exchange.facts);
            local::origin_failed(exchange, &OriginFailure::of(&error)).await
        }
        Asked::Body(error) => {
            told.note(&mut exchange.facts);
            local::bad_body(exchange, &error).await
        }
        Asked::Gone => {
            told.note(&mut exchange.facts);
            exchange.left()
        }
    }
}

/// Sends the request, its body as it comes, and waits for the final head.
async fn ask(exchange: &mut Exchange<'_>, route: &Arc<Route>, upstream: &Arc<Upstream>) -> Asked {
    let Held { mut upload, body, _place } = match hold(exchange.conn, &exchange.worker.plane.hold).await {
        Ok(held) => held,
        Err(BodyError::Gone) => return Asked::Gone,
        Err(error) => return Asked::Body(error),
    };
    let request = request(exchange, route, body);
    let (interim, mut interims) = mpsc::unbounded_channel();
    let mut answer = std::pin::pin!(upstream.send(request, fetch::interim_sender(exchange, interim)));
    loop {
        tokio::select! {
            biased;
            Some(interim) = interims.recv() => {
                if send_interim(exchange, &interim).await.is_err() {
                    return Asked::Gone;
                }
            }
            answer = &mut answer => {
                // Both may come in one piece: what was said first is told first.
                while let Ok(interim) = interims.try_recv() {
                    if send_interim(exchange, &interim).await.is_err() {
                        return Asked::Gone;
                    }
                }
                return match answer {
                    Ok(response) => Asked::Answered(Box::new(response), upload),
                    Err(error) => Asked::Failed(error),
                };
            }
            pumped = upload.pump(&mut exchange.conn.body, &mut exchange.conn.client) => match pumped {
                Ok(()) => {}
                Err(BodyError::Gone) => return Asked::Gone,
                Err(error) => return Asked::Body(error),
            },
        }
    }
}

fn request(exchange: &Exchange<'_>, route: &Route, body: OutBody) -> OriginRequest {
    let target = match &exchange.head.target {
        Target::Path(path) => forwarded(route, path.as_str()).into_owned(),
        Target::Asterisk => "*".to_owned(),
    };
    OriginRequest {
        method: exchange.head.method.clone(),
        target: target.into(),
        headers: outgoing::for_pass(exchange, route),
        body,
        retry: Retry::of(&exchange.head.method),
        prefer: None,
        upgrade: exchange.head.upgrade.clone(),
        tally: Some(tally::of_site(&exchange.worker.observer, exchange.facts.site)),
        witness: Some(Witness::of(exchange.client()).number()),
        client: exchange.sharer(),
        share: Share::Bounded,
    }
}

/// Passes an interim response on (RFC 9110 §15.2), without the fields that the route removes or sets.
///
/// # Errors
/// The client went away.
pub(crate) async fn send_interim(exchange: &mut Exchange<'_>, interim: &Interim) -> Result<(), ClientEnd> {
    if interim.status == StatusCode::CONTINUE {
        return Ok(());
    }
    let mut headers = interim.headers.clone();
    weir_policy::strip_hop_by_hop(&mut headers);
    headers.remove(CONTENT_LENGTH);
    if let Some(route) = exchange.route {
        route.strip_response(&mut headers);
    }
    let client = &mut exchange.conn.client;
    print::interim(&mut client.out, interim.status, &headers);
    client.send(&[]).await
}

/// Passes a response on to its client as it comes.
pub(crate) async fn relay(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    mut response: OriginResponse,
    mut upload: Upload,
    told: Told,
) -> After {
    for _ in 0..response.times.retries {
        exchange.worker.observer.counters().retried();
    }
    exchange.origin = Some(response.origin.name().into());
    let length = match response.framing {
        Framing::Length(length) => Some(length),
        _ => None,
    };
    let is_get = exchange.head.method == Method::GET;
    if is_get && !is_placed(&exchange.head.headers, response.status, &response.headers, length) {
        told.note(&mut exchange.facts);
        return local::origin_failed(exchange, &unplaced()).await;
    }
    let is_events = is_event_stream(&response.headers);
    if is_events && let Err(bound) = response.body.outlast() {
        told.note(&mut exchange.facts);
        let busy = OriginError::Busy { bound, retry_after: STREAM_RETRY };
        return local::origin_failed(exchange, &OriginFailure::of(&busy)).await;
    }
    let posted = fetch::posted::begin(exchange, route, &response);
    let told = told.answered(response.status);
    let told = match posted.as_ref().map(Posted::freshness) {
        Some(freshness) => told.stored(freshness.left_s(), freshness.source.word()),
        None => told,
    };
    told.note(&mut exchange.facts);
    learn(exchange, route, &response, &told);
    let length = match response.framing {
        Framing::Length(length) => Some(length),
        Framing::None => declared(&response.headers),
        Framing::Chunked | Framing::Close => None,
    };
    let transfer = exchange.transfer(response.status, length);
    let after = exchange.persistence(transfer);
    print_head(exchange, route, response.status, &response.headers, &told, transfer, after);
    let mut body = response.body;
    if is_events {
        body.set_between_bytes(exchange.conn.limits.tunnel_idle_max);
    }
    let pace = limit::pace(exchange, route, response.status, None);
    let conn = &mut *exchange.conn;
    let meanwhile = Some((&mut conn.body, &mut upload));
    let is_counted = posted.is_some();
    let source = match posted {
        Some(posted) => posted.read(body),
        None => Source::Origin(Box::new(body), route.clone()),
    };
    let sent = send_while(&mut conn.client, source, transfer, pace, meanwhile).await;
    if !is_counted {
        exchange.worker.observer.counters().origin_bytes(sent.body_bytes);
    }
    exchange.sent(sent, transfer, after)
}

/// The origin sent a part, and not where it belongs.
fn unplaced() -> OriginFailure {
    OriginFailure {
        status: StatusCode::BAD_GATEWAY,
        proxy_status: "http_protocol_error",
        word: "unplaced-part",
        text: NO_ANSWER,
        origin: None,
        retry_after: None,
        concern: Concern::Lead,
    }
}

/// What a response that passes says about what is held or remembered: a HEAD's about the stored GET
/// (RFC 9111 §4.3.5), unless it was asked for by who goes past the cache or is authenticated; a storable one that the
/// key is worth another fill.
fn learn(exchange: &Exchange<'_>, route: &Arc<Route>, response: &OriginResponse, told: &Told) {
    let (plane, now) = (&exchange.worker.plane, clock::now());
    if exchange.head.method == Method::HEAD {
        let is_for_all =
            matches!(consult(&exchange.view(), &route.rules), Consult::Use(ask) if !ask.is_authenticated());
        let held = lookup::at_hand(exchange, route).generation.filter(|_| is_for_all);
        let Some(held) = held else { return };
        let effect = {
            let said = (response.status, &response.headers);
            let stored = &held.head().stored;
            head_effect(stored, held.length(), said, exchange.now, now, &route.rules)
        };
        match effect {
            HeadEffect::None => {}
            HeadEffect::Freshen(fresh) => {
                let asked = exchange.asked.unwrap_or_else(|| held.stamp());
                plane.store.freshen(&held, *fresh, asked);
            }
            HeadEffect::Invalidate => plane.store.retire(&held),
        }
    } else if exchange.head.method == Method::GET
        && (told.is_of_memory() || response.status == StatusCode::PARTIAL_CONTENT)
    {
        let end = if response.framing == Framing::Close { BodyEnd::Close } else { BodyEnd::Framed };
        let (status, headers) = of_whole(response);
        let judged = storable(&exchange.view(), status, &headers, end, exchange.now, now, &route.rules);
        let digest = lookup::key(exchange, route).digest;
        if judged.is_ok() && told.is_of_memory() {
            plane.desk.memory.accept(digest, now.mono);
        }
        let is_authenticated = exchange.head.headers.contains_key(AUTHORIZATION);
        if judged.is_ok()
            && strong(&headers).is_some()
            && response.status == StatusCode::PARTIAL_CONTENT
            && !is_authenticated
        {
            plane.desk.memory.has_parts(digest);
        }
    }
}

/// Status and fields of the whole: a part's are those of its whole, but for what it says of itself.
fn of_whole(response: &OriginResponse) -> (StatusCode, Cow<'_, HeaderMap>) {
    if response.status != StatusCode::PARTIAL_CONTENT {
        return (response.status, Cow::Borrowed(&response.headers));
    }
    let mut headers = response.headers.clone();
    strip_of_part(&mut headers);
    (StatusCode::OK, Cow::Owned(headers))
}

/// Prints a response's head that is not stored.
pub(crate) fn print_head(
    exchange: &mut Exchange<'_>,
    route: &Route,
    status: StatusCode,
    headers: &HeaderMap,
    told: &Told,
    transfer: Transfer,
    after: After,
) {
    let age = headers.get(AGE);
    let age_s = age.and_then(|age| age.to_str().ok()?.parse().ok()).unwrap_or(0);
    let mut fields = present::fields(headers, status, route, exchange.reader(age_s));
    if let Some(age) = age {
        fields.insert(AGE, age.clone());
    }
    let key = lookup::shown_key(exchange, route);
    let out = &mut exchange.conn.client.out;
    print::status_line(out, status);
    print::fields(out, &fields);
    told.print(out, key.as_ref());
    transfer.print(out);
    print_persistence(out, after, exchange.head.version);
    print::end(out);
    exchange.facts.status = status.as_u16();
}

/// The length that a response to HEAD, or a 304, declares for the body it does not have. Where the origin names none, none is made up
/// (RFC 9110 §8.6).
fn declared(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    kind.len() >= 17 && kind[..17].eq_ignore_ascii_case(b"text/event-stream")
}

/// Marks what an unsafe request has made invalid, where something of it may be held or is on its way. Of what is fetched from here
/// on the request is sent after the response that is looked at here.
fn invalidate(exchange: &Exchange<'_>, route: &Arc<Route>, response: &OriginResponse) {
    let view = exchange.view();
    let targets = weir_policy::invalidation(&view, response.status, &response.headers);
    for target in targets {
        let view = RequestView { method: &Method::GET, path_and_query: &target, has_body: false, ..view };
        // Another route may answer for it, with another key.
        let site = exchange.site;
        let route = site.and_then(|site| site.route(&Method::GET, view.scheme, view.path())).unwrap_or(route);
        let (key, mut url) = (&route.rules.key, Vec::new());
        let digest = weir_policy::write_url(key, &view, &mut url);
        let site = site.map_or(0, |site| site.mark);
        // Marks are for what there is: else anybody could make so many that they concern everything.
        let plane = &exchange.worker.plane;
        let can_tell = key.headers.is_empty() && key.cookies.is_empty();
        if !can_tell || plane.desk.is_bringing(digest) || plane.store.may_hold(digest, &url, site) {
            plane.store.invalidate(Scope::Url { site, digest }, clock::now());
        }
    }
}
