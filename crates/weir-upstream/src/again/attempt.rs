//! One attempt of a request at one origin: gets a connection, exchanges the heads, and makes the response.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderMap;
use weir_wire::{BodyReader, Persistence, ResponseHead};

use crate::again::retry::{Failure, Kind, Stage};
use crate::again::track::{Link, Track};
use crate::client::body::{OriginBody, Placed, RequestRest, Streaming};
use crate::client::connect::connect;
use crate::client::connection::Connection;
use crate::client::exchange::{Terms, exchange, limits};
use crate::client::login::stage::stage_after;
use crate::client::outgoing::Outgoing;
use crate::client::pool::{Grant, Lease};
use crate::client::tunnel::Tunnel;
use crate::clock;
use crate::error::{Bound, OriginError};
use crate::gauges::orca;
use crate::health::ejection::{Event, Verdict};
use crate::origin::{Busy, Origin, count};
use crate::request::OutBody;
use crate::response::{Length, OriginResponse, Times};
use crate::sessions::affinity::OriginId;

/// An idle connection is kept so long at most, whatever the origin's `Keep-Alive` says.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// An idle connection is given up so much earlier than the origin says, so that no request meets its closing.
const IDLE_MARGIN: Duration = Duration::from_secs(1);

/// Why an attempt failed, and what of the body is left for another one. Boxed, so that a result stays small.
pub(crate) type Failed = Box<(Failure, Option<OutBody>)>;

/// A seat, or the bound that there was none within.
#[derive(Debug)]
pub(crate) struct Seat {
    // Fields drop in this order: a connection is free before its origin has room.
    pub(crate) granted: Result<Grant, Bound>,
    pub(crate) busy: Busy,
    /// When the request began to wait.
    pub(crate) begun: Instant,
}

/// One attempt at one origin, where the request has a seat.
pub(crate) async fn attempt(
    origin: &Arc<Origin>,
    terms: &Terms<'_>,
    seat: Seat,
    body: OutBody,
) -> Result<Box<OriginResponse>, Failed> {
    let Seat { granted, busy, begun } = seat;
    let mut track = terms.request.log.as_ref().map(|log| origin.track(log, terms.turn, begun));
    let mut lease = match lease(origin, terms, granted, &mut track).await {
        Ok(lease) => lease,
        Err(error) => {
            track.into_iter().for_each(|track| track.fail(&error));
            let failure = Failure { error, stage: Stage::NotConnected, kind: Kind::Fresh };
            origin.met_failure(&failure, terms.timeouts.connect, terms.suspect);
            return Err(Box::new((failure, Some(body))));
        }
    };
    lease.busy = Some(busy);
    let connected = clock::now();
    count(&origin.counts.requests);
    lease.connection.tally.clone_from(&terms.request.tally);
    lease.connection.track = track;
    let replay = body.again();
    let mut outgoing = Outgoing::new(terms.request, body);
    let (mut head, waited) = match exchange(&mut lease.connection, &mut outgoing, terms).await {
        Ok(answered) => answered,
        Err(failure) => {
            if matches!(failure.error, OriginError::FirstByteTimeout) {
                origin.measure_failure(terms.timeouts.first_byte);
            }
            origin.met_failure(&failure, terms.timeouts.first_byte, terms.suspect);
            lease.connection.fail_attempt(&failure.error);
            let rest = replay.or_else(|| if outgoing.is_untouched() { outgoing.into_stream() } else { None });
            return Err(Box::new((failure, rest)));
        }
    };
    if let Some(track) = &mut lease.connection.track {
        track.answered(&head);
    }
    let now = clock::now();
    origin.measure(waited, now);
    orca::hear(&mut head.headers, origin.gauges(), now);
    origin.met_head(head.status, (waited, now), terms.suspect);
    let times = Times { connect: connected - begun, first_byte: now - connected, retries: 0 };
    if head.status == http::StatusCode::SWITCHING_PROTOCOLS
        && let Err(bound) = lease.outlast()
    {
        count(&origin.counts.busy);
        let error = OriginError::Busy { bound, retry_after: terms.timeouts.queue };
        lease.connection.fail_attempt(&error);
        return Err(Box::new((Failure { error, stage: Stage::Answered, kind: Kind::Fresh }, None)));
    }
    let mut response = respond(origin, terms, lease, outgoing, head);
    response.times = times;
    Ok(response)
}

/// The connection that was granted, or a new one.
async fn lease(
    origin: &Arc<Origin>,
    terms: &Terms<'_>,
    granted: Result<Grant, Bound>,
    track: &mut Option<Box<Track>>,
) -> Result<Lease, OriginError> {
    let timeouts = terms.timeouts;
    match granted {
        Ok(Grant::Idle(lease)) => {
            count(&origin.counts.reuses);
            if let Some(track) = track {
                track.connected(lease.connection.transport.peer(), Link::Reused);
            }
            Ok(lease)
        }
        Ok(Grant::Fresh(permit)) => {
            let connection = new_connection(origin, timeouts.connect, track).await?;
            count(&origin.counts.connects);
            Ok(Lease { connection, own: None, permit, busy: None })
        }
        Err(bound) => {
            count(&origin.counts.busy);
            Err(OriginError::Busy { bound, retry_after: timeouts.queue })
        }
    }
}

/// A new connection.
pub(crate) async fn new_connection(
    origin: &Origin,
    limit: Duration,
    track: &mut Option<Box<Track>>,
) -> Result<Box<Connection>, OriginError> {
    let since = clock::now();
    let mut connection = Box::pin(connect(&origin.place, limit)).await?;
    connection.load = Some(origin.load.clone());
    if let Some(track) = track {
        let took = clock::now().saturating_duration_since(since);
        track.connected(connection.transport.peer(), Link::New(took));
    }
    Ok(connection)
}

/// The response as the caller gets it: what is left to read and to send goes into its body. Its times are to
/// be set. In memory of its own, since it is handed on many times.
fn respond(
    origin: &Arc<Origin>,
    terms: &Terms<'_>,
    mut lease: Lease,
    outgoing: Outgoing,
    head: ResponseHead,
) -> Box<OriginResponse> {
    let ResponseHead { status, headers, framing, persistence, .. } = head;
    lease.connection.served += 1;
    let before = lease.own.as_ref().map(|own| own.stage);
    let stage = stage_after(before, &terms.request.headers, (status, &headers));
    let verdict = origin.verdict(status);
    if verdict == Verdict::Good {
        origin.note(Event::Answered);
    }
    let mut upgraded = None;
    let body = if status == http::StatusCode::SWITCHING_PROTOCOLS {
        upgraded = Some(Tunnel::new(lease));
        OriginBody::empty()
    } else {
        let keep = match persistence {
            // It ends with its client's connection, which is idle for a while at most.
            Persistence::KeepAlive if stage.is_some() => Some(idle_time(&headers, IDLE_MAX)),
            Persistence::KeepAlive => Some(idle_time(&headers, terms.timeouts.pool_idle)),
            Persistence::Close => None,
        };
        OriginBody::streaming(Streaming {
            lease,
            reader: BodyReader::new(framing, &limits(terms.bounds)),
            framing,
            request: RequestRest::after(outgoing, status),
            origin: origin.clone(),
            suspect: terms.suspect,
            verdict,
            between_bytes: terms.timeouts.between_bytes,
            keep: keep.filter(|keep| !keep.is_zero()),
            login: stage.map(|stage| (stage, terms.login.cloned())),
            waiting_since: None,
            handed_on: None,
            is_slow: false,
            placed: Placed::Nowhere,
        })
    };
    let length = Length::of(framing);
    Box::new(OriginResponse {
        status,
        headers,
        length,
        body,
        origin: origin.clone(),
        picked: terms.turn.picked,
        origin_id: OriginId::default(),
        times: Times::default(),
        upgraded,
    })
}

/// How long an idle connection is kept: as `Keep-Alive: timeout=` says with a margin, else the default.
fn idle_time(headers: &HeaderMap, default: Duration) -> Duration {
    let said = headers.get("keep-alive").and_then(|value| value.to_str().ok());
    let timeout = said.and_then(|value| {
        value.split(',').find_map(|part| {
            let (name, seconds) = part.split_once('=')?;
            let seconds = seconds.trim();
            let named = name.trim().eq_ignore_ascii_case("timeout");
            let digits = !seconds.is_empty() && seconds.bytes().all(|byte| byte.is_ascii_digit());
            (named && digits).then(|| seconds.parse().unwrap_or(u64::MAX))
        })
    });
    match timeout {
        None => default,
        Some(seconds) => Duration::from_secs(seconds).min(IDLE_MAX + IDLE_MARGIN).saturating_sub(IDLE_MARGIN),
    }
}
