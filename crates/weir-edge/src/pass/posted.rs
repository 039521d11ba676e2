//! Storing a POST's response for later GETs (RFC 9110 §9.3.3). The response itself must say that it is what a
//! GET would give, and for how long. Its client reads it from a fill that nobody joins. The fill must begin
//! after the POST's invalidations are marked: its stamp is taken after the mark.

use std::sync::Arc;

use http::header::{CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_TYPE};
use http::{HeaderMap, Method};
use weir_policy::{
    BodyEnd, CacheKey, Consult, Freshness, Interval, RequestView, ResponseView, consult, freshness, storable,
};
use weir_store::{Generation, Writer};
use weir_upstream::Length;
use weir_upstream::{OriginBody, OriginResponse};

use crate::deliver::source::Source;
use crate::exchange::Exchange;
use crate::outgoing::{again, errand, place_among_fills};
use crate::plan::Route;
use weir_clock as clock;
use weir_fill::Seat;
use weir_fill::again::Again;
use weir_fill::reader::{Filled, Reader};
use weir_fill::task::{self, Errand, Sharing};

/// A response to a POST that is about to be stored.
pub(crate) struct Posted {
    errand: Errand,
    seat: Seat,
    generation: Arc<Generation>,
    writer: Writer,
    length: Option<u64>,
}

/// Reserves the GET's key for a POST's response, where it may be stored.
pub(crate) fn begin(
    exchange: &Exchange<'_, '_>,
    route: &Arc<Route>,
    response: &OriginResponse,
) -> Option<Posted> {
    if exchange.request.method != Method::POST || !response.headers.contains_key(CONTENT_LOCATION) {
        return None;
    }
    let view = exchange.view();
    let get = RequestView { method: &Method::GET, has_body: false, ..view };
    let route = exchange.site.as_ref()?.route(&Method::GET, get.scheme, get.path()).filter(|getting| {
        getting.upstream == route.upstream && matches!(consult(&get, &getting.rules), Consult::Use(_))
    })?;
    let length = response.length.bytes();
    let body_end = if response.length == Length::UntilClose { BodyEnd::Close } else { BodyEnd::Framed };
    let shared = &exchange.core.shared;
    if length.is_some_and(|length| length > shared.object_bytes_max()) {
        return None;
    }
    let now = clock::now();
    let received = ResponseView::new(response.status, &response.headers, exchange.now, now);
    let storable = storable(&view, &ResponseView { body_end, ..received }, &route.rules).ok()?;
    let mut full = Vec::new();
    let digest = weir_policy::write_key(&route.rules.key, &get, &mut full);
    let site = exchange.site.map_or(0, |site| site.mark);
    let key = CacheKey { digest, full: full.into(), site };
    let again = Arc::new(for_get(&*again(exchange, route)?));
    let place = place_among_fills(exchange, &again)?;
    let errand = errand(exchange, route, Sharing::Alone, (again, place));
    let who = (exchange.core.number, exchange.witness());
    let seat = shared.desk.alone(who, (&key, shared.store.ledger()), now.mono).begin()?;
    let (generation, writer) = shared.store.begin(storable, key, seat.fill().stamp(), length).ok()?;
    Some(Posted { errand, seat, generation, writer, length })
}

/// A GET's request fields in place of the POST's.
fn for_get(again: &Again) -> Again {
    let mut headers: HeaderMap = again.headers.clone();
    for of_content in [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING, CONTENT_LANGUAGE] {
        headers.remove(of_content);
    }
    Again { headers, ..again.clone() }
}

impl Posted {
    /// Its freshness.
    pub(crate) fn freshness(&self) -> Freshness {
        freshness(&self.generation.head().stored, clock::now())
    }

    /// Starts the fill with the response's body, and reads it.
    pub(crate) fn read(self, body: OriginBody) -> Source {
        let Posted { errand, seat, generation, writer, length } = self;
        let (again, store) = (errand.again.clone(), errand.means.store.clone());
        task::start_with(errand, seat.fill().clone(), (generation.clone(), writer, length), body);
        let whole = Interval::new(0, length.unwrap_or(u64::MAX));
        Source::Held(Box::new(Reader::filling(Filled::new(seat, generation, again, store), whole, None)))
    }
}
