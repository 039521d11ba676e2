//! Serving a stored part: the missing bytes come from the origin while the held ones are sent, in the same
//! version or not at all (RFC 9111 §3.4, RFC 9110 §13.1.5). It must not decide whether the part may be used.

use std::sync::Arc;

use http::header::RANGE;
use weir_policy::{Ask, Interval};
use weir_store::Generation;

use crate::chunks::chunk_bytes;
use crate::decide;
use crate::exchange::{Asked, Exchange};
use crate::job::Job;
use crate::outgoing;
use weir_fill::cold::ASK_BYTES_MAX;
use weir_fill::gap::task::GapRequest;
use weir_fill::reader::refill::Refill;
use weir_fill::refetch::{FetchBy, strong};
use weir_front::message;

/// The result of confirming.
pub(crate) enum Confirmed {
    /// All that the client wants is held, or no body is sent.
    Held,
    /// The origin has the same version, and the missing bytes are on their way.
    Coming,
    /// Bytes are missing, and the origin may not be asked (RFC 9111 §5.2.1.7).
    Refused,
    /// The origin no longer has this version.
    Gone,
    /// The client has left.
    Left,
}

impl Confirmed {
    /// The word of a trace.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Confirmed::Held => "held",
            Confirmed::Coming => "coming",
            Confirmed::Refused => "refused",
            Confirmed::Gone => "gone",
            Confirmed::Left => "client-gone",
        }
    }
}

/// Confirms, before the head goes out, that all bytes which the request wants can be had; see
/// [`confirm_missing`].
///
/// # Cancel safety
/// As [`confirm_missing`].
pub(crate) async fn confirm(
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    generation: &Arc<Generation>,
) -> Confirmed {
    let Some(missing) = missing(exchange.asked, &job.ask, generation) else { return Confirmed::Held };
    if job.ask.directives.only_if_cached() {
        return Confirmed::Refused;
    }
    confirm_missing(exchange, job, generation, missing).await
}

/// Confirms, before the head goes out, that the `missing` bytes can be had: asks the origin for the first of
/// them. Removes a version that the origin no longer has.
///
/// # Cancel safety
/// Safe: a transfer continues while it is worth it.
pub(crate) async fn confirm_missing(
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    generation: &Arc<Generation>,
    missing: Interval,
) -> Confirmed {
    let Some(mut refill) = refill(exchange, generation) else { return Confirmed::Gone };
    if refill.is_spent() {
        return Confirmed::Gone;
    }
    let confirmed = tokio::select! {
        biased;
        confirmed = refill.confirm(generation, missing) => confirmed,
        () = message::gone(&mut *exchange.client) => return Confirmed::Left,
    };
    match confirmed {
        Ok(()) if generation.is_whole() => Confirmed::Held,
        Ok(()) => {
            job.refill = Some(refill);
            Confirmed::Coming
        }
        Err(end) => {
            refill.give_up(generation, end);
            Confirmed::Gone
        }
    }
}

/// The range from the first missing byte that the request wants to the end of what it wants.
pub(crate) fn missing(asked: &Asked<'_>, ask: &Ask, generation: &Generation) -> Option<Interval> {
    decide::missing(&asked.view(), ask, generation)
}

/// Brings the bytes that a generation lacks, or that turn out to be missing, where it is not whole in memory.
pub(crate) fn refill(exchange: &Exchange<'_, '_>, generation: &Generation) -> Option<Box<Refill>> {
    let (asked, chosen) = (exchange.asked, exchange.chosen);
    strong(&generation.head().stored.headers).filter(|_| !generation.is_unvalidated_part())?;
    generation.length()?;
    let refetch = outgoing::refetch(asked, chosen, exchange.told)?;
    let request = GapRequest {
        resources: asked.core.resources.clone(),
        refetch: refetch.anonymous(),
        settings: chosen.route.clone(),
        by: FetchBy::Range,
    };
    // A client that wants the whole reads on. One that asks for the rest, as players do, often leaves soon.
    let ask_bytes_max = if asked.request.headers.contains_key(RANGE) { ASK_BYTES_MAX } else { u64::MAX };
    let chunk_bytes = chunk_bytes(&asked.request.headers, chosen.route, Some(generation));
    Some(Box::new(Refill::new(request, refetch, ask_bytes_max, chunk_bytes)))
}
