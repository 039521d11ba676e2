//! One request on a connection of HTTP/1: the exchange of the heads, and the response.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use weir_wire::{BodyReader, Persistence, ResponseHead};

use crate::exchange::{Failed, Failure, Kind, Stage, Terms};
use crate::h1::body::{Placed, RequestRest, Streaming};
use crate::h1::exchange::{exchange, limits};
use crate::h1::outgoing::Outgoing;
use crate::incoming::{Incoming, Response};
use crate::login::stage::stage_after;
use crate::message::{Length, OutBody};
use crate::pool::slot::Lease;
use crate::tally::{Tally, Trace};
use crate::tunnel::Tunnel;

/// An idle connection is kept so long at most, whatever the origin's `Keep-Alive` says.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// An idle connection is given up so much earlier than the origin says, so that no request meets its closing.
const IDLE_MARGIN: Duration = Duration::from_secs(1);

/// As [`crate::Slot::exchange`].
pub(crate) async fn answered(
    mut lease: Lease,
    body: OutBody,
    terms: &Terms<'_>,
    (tally, trace): (Option<Arc<dyn Tally>>, Option<Box<dyn Trace>>),
) -> Result<(Response, Duration), Failed> {
    (lease.connection.tally, lease.connection.trace) = (tally, trace);
    let replay = body.again();
    let mut outgoing = Outgoing::new(&terms.request, body);
    let (head, waited) = match exchange(&mut lease.connection, &mut outgoing, terms).await {
        Ok(answered) => answered,
        Err(failure) => {
            lease.connection.fail_attempt(&failure.error);
            let rest = replay.or_else(|| if outgoing.is_untouched() { outgoing.into_stream() } else { None });
            return Err(Box::new((failure, rest)));
        }
    };
    if let Some(trace) = &mut lease.connection.trace {
        trace.answered(&head);
    }
    if head.status != StatusCode::SWITCHING_PROTOCOLS {
        return Ok((streamed(head, (lease, outgoing), terms), waited));
    }
    if let Err(bound) = lease.outlast() {
        let error = lease.permit.refuse(bound, terms.timeouts.queue);
        lease.connection.fail_attempt(&error);
        return Err(Box::new((Failure { error, stage: Stage::Answered, kind: Kind::Fresh }, None)));
    }
    let (status, headers, length) = (head.status, head.headers, Length::of(head.framing));
    let upgraded = Some(Tunnel::new(lease));
    Ok((Response { status, headers, length, body: Incoming::empty(), upgraded }, waited))
}

/// The response as its reader gets it: what is left to read and to send goes into its body.
fn streamed(head: ResponseHead, (mut lease, outgoing): (Lease, Outgoing), terms: &Terms<'_>) -> Response {
    let ResponseHead { status, headers, framing, persistence, .. } = head;
    lease.connection.served += 1;
    let before = lease.own.as_ref().map(|own| own.stage);
    let stage = stage_after(before, terms.request.headers, (status, &headers));
    let keep = match persistence {
        // It ends with its client's connection, which is idle for a while at most.
        Persistence::KeepAlive if stage.is_some() => Some(idle_time(&headers, IDLE_MAX)),
        Persistence::KeepAlive => Some(idle_time(&headers, terms.timeouts.pool_idle)),
        Persistence::Close => None,
    };
    let body = Incoming::streaming(Streaming {
        lease,
        reader: BodyReader::new(framing, &limits(terms.bounds)),
        framing,
        request: RequestRest::after(outgoing, status),
        between_bytes: terms.timeouts.between_bytes,
        keep: keep.filter(|keep| !keep.is_zero()),
        login: stage.map(|stage| (stage, terms.login.cloned())),
        waiting_since: None,
        handed_on: None,
        is_slow: false,
        placed: Placed::Nowhere,
    });
    Response { status, headers, length: Length::of(framing), body, upgraded: None }
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
