//! One attempt of a request at one origin: gets a slot, exchanges the heads, and makes the response.

use std::sync::Arc;
use std::time::Instant;

use weir_client::{
    AttemptEnd, Bound, ExchangeError, Failed, Failure, Grant, Kind, OutBody, Response, Slot, Stage, Trace,
};

use crate::again::track::Turn;
use crate::body::{Judge, OriginBody};
use crate::clock;
use crate::gauges::orca;
use crate::health::ejection::{Event, Suspect, Verdict};
use crate::origin::{Busy, Origin, count};
use crate::request::OriginRequest;
use crate::response::{OriginResponse, Times};
use crate::sessions::affinity::OriginId;

/// What one attempt needs to know besides its origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    pub(crate) request: &'a OriginRequest,
    /// What may be the cause of a failure besides the origin.
    pub(crate) suspect: Suspect,
    pub(crate) turn: Turn,
    pub(crate) exchange: weir_client::Terms<'a>,
}

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
    // Dropped last where the attempt fails: a connection is free before its origin has room.
    let Seat { granted, busy, begun } = seat;
    let mut trace = terms.request.log.as_ref().map(|log| origin.track(log, terms.turn, begun));
    let slot = match slot(origin, terms, granted, &mut trace).await {
        Ok(slot) => slot,
        Err(error) => {
            trace.into_iter().for_each(|trace| trace.ended(AttemptEnd::Failed(error.word())));
            let failure = Failure { error, stage: Stage::NotConnected, kind: Kind::Fresh };
            origin.met_failure(&failure, terms.exchange.timeouts.connect, terms.suspect);
            return Err(Box::new((failure, Some(body))));
        }
    };
    let connected = clock::now();
    count(&origin.counts.requests);
    let told = (terms.request.tally.clone(), trace);
    let (mut response, waited) = match slot.exchange(body, &terms.exchange, told).await {
        Ok(answered) => answered,
        Err(failed) => {
            let limit = terms.exchange.timeouts.first_byte;
            if matches!(failed.0.error, ExchangeError::FirstByteTimeout) {
                origin.measure_failure(limit);
            }
            origin.met_failure(&failed.0, limit, terms.suspect);
            return Err(failed);
        }
    };
    let now = clock::now();
    origin.measure(waited, now);
    orca::hear(&mut response.headers, origin.gauges(), now);
    origin.met_head(response.status, (waited, now), terms.suspect);
    let times = Times { connect: connected - begun, first_byte: now - connected, retries: 0 };
    Ok(respond(origin, terms, response, (busy, times)))
}

/// The slot that was granted.
async fn slot(
    origin: &Origin,
    terms: &Terms<'_>,
    granted: Result<Grant, Bound>,
    trace: &mut Option<Box<dyn Trace>>,
) -> Result<Slot, ExchangeError> {
    match granted {
        Ok(grant) => grant.slot(&origin.server, terms.exchange.timeouts.connect, trace).await,
        Err(bound) => Err(origin.pool().refuse(bound, terms.exchange.timeouts.queue)),
    }
}

/// The response as the caller gets it. In memory of its own, since it is handed on many times.
fn respond(
    origin: &Arc<Origin>,
    terms: &Terms<'_>,
    response: Response,
    (busy, times): (Busy, Times),
) -> Box<OriginResponse> {
    let Response { status, headers, length, body, upgraded } = response;
    let verdict = origin.verdict(status);
    if verdict == Verdict::Good {
        origin.note(Event::Answered);
    }
    let body = match upgraded {
        Some(_) => OriginBody::none(),
        None => {
            let (origin, suspect, busy) = (origin.clone(), terms.suspect, Some(busy));
            OriginBody::new(body, Judge { origin, suspect, verdict, busy })
        }
    };
    Box::new(OriginResponse {
        status,
        headers,
        length,
        body,
        origin: origin.clone(),
        picked: terms.turn.picked,
        origin_id: OriginId::default(),
        times,
        upgraded,
    })
}
