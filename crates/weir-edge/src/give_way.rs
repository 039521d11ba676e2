//! Where a warming gives way to clients, and what it does not ask origins for.

use weir_observe::Outcome;

use crate::cache_status::CacheStatus;
use crate::exchange::{Asked, Chosen, Note, Told};
use crate::response::{self, Response};
use crate::warming::GaveWay;

/// The word where clients go first.
pub(crate) const GAVE_WAY: &str = "gave-way";

/// Answers that clients go first; the URL is to be asked for again.
pub(crate) fn gave_way(told: &mut Told<'_>) -> Response {
    told.outcome(Outcome::Local, GAVE_WAY);
    response::none()
}

/// Answers that a warming stores nothing here, so that no origin is asked.
pub(crate) fn not_stored(told: &mut Told<'_>, cache_status: CacheStatus) -> Response {
    cache_status.note(&mut told.facts);
    told.facts.outcome = Outcome::Pass;
    response::none()
}

/// Whether a warming may go to the origins of a route now. Always true of a client's request.
pub(crate) fn may_ask(asked: &Asked<'_>, chosen: &Chosen<'_>) -> bool {
    let Some(warming) = asked.warming else { return true };
    let Some(upstream) = asked.running.upstream(chosen.route).filter(|_| warming.instead.is_none()) else {
        return true;
    };
    // One that is down is tried now and then, and not by each URL.
    upstream.has_spare() && asked.core.shared.inflight.upstreams.may_try(upstream.name(), asked.now.mono)
}

/// What a URL that gave way waits for.
pub(crate) fn why(note: &Note<'_>) -> GaveWay {
    let Note { asked, told, .. } = note;
    let of_files = asked.warming.is_some_and(|warming| warming.instead.is_some());
    let upstream = told.route.filter(|_| !of_files).and_then(|route| asked.running.upstream(route));
    let Some(upstream) = upstream else { return GaveWay::Places };
    let name = upstream.name();
    let is_out = asked.core.shared.inflight.upstreams.outage(name, asked.now.mono).is_some();
    match is_out || upstream.is_down() {
        true => GaveWay::Down(name.to_owned()),
        false => GaveWay::Clients(name.to_owned()),
    }
}
