//! Storing a POST's response for later GETs (RFC 9110 §9.3.3). The response itself must say that it is what a
//! GET would give, and for how long. Its client reads it from a fill that nobody joins. The fill must begin
//! after the POST's invalidations are marked: its stamp is taken after the mark.

use std::sync::Arc;

use http::header::{CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_TYPE};
use http::{HeaderMap, Method};
use weir_policy::value::Known;
use weir_policy::{BodyEnd, CacheKey, Interval, KeyParts, RequestView, ResponseView, freshness, storable};
use weir_store::{Generation, Writer};
use weir_upstream::Length;
use weir_upstream::{OriginBody, OriginResponse};

use crate::consult;
use crate::decide::Consulted;
use crate::deliver::source::{Kept, Source};
use crate::exchange::{Asked, Chosen, Exchange};
use crate::outgoing::{fill_permit, fill_request, refetch};
use crate::transform::overrides::{Overridden, overridden};
use crate::values::OfRequest;
use weir_clock as clock;
use weir_fill::ReaderGuard;
use weir_fill::asks::Asks;
use weir_fill::reader::{Filled, Reader};
use weir_fill::refetch::Refetch;
use weir_fill::task::{self, FillRequest, Sharing};

/// A response to a POST that is about to be stored.
pub(crate) struct Posted {
    fill_request: Box<FillRequest>,
    guard: ReaderGuard,
    generation: Arc<Generation>,
    writer: Writer,
    length: Option<u64>,
    /// The POST, where requests to origins have a log.
    asks: Option<Arc<Asks>>,
}

/// Reserves the GET's key for a POST's response, where it may be stored.
pub(crate) fn begin(exchange: &Exchange<'_, '_>, response: &OriginResponse) -> Option<Posted> {
    let (asked, told) = (exchange.asked, &*exchange.told);
    if asked.request.method != Method::POST || !response.headers.contains_key(CONTENT_LOCATION) {
        return None;
    }
    // What the origin has taken for another method says nothing about a GET.
    if overridden(&asked.request.method, &asked.request.headers) != Overridden::No {
        return None;
    }
    let view = asked.view();
    let get = RequestView { method: &Method::GET, has_body: false, ..view };
    let getting = getting(asked, exchange.chosen, get)?;
    let length = response.length.bytes();
    let body_end = if response.length == Length::UntilClose { BodyEnd::Close } else { BodyEnd::Framed };
    let shared = &asked.core.shared;
    if length.is_some_and(|length| length > shared.object_bytes_max()) {
        return None;
    }
    let now = clock::now();
    let received = ResponseView::new(response.status, &response.headers, asked.now, now);
    let rules = &getting.route.rules;
    let storable = storable(&view, &ResponseView { body_end, ..received }, rules).ok()?;
    let mut full = Vec::new();
    let known = getting.route.keyed(|| OfRequest { view: get, ..getting.known(asked) });
    let known = known.as_ref().map(|known| known as &dyn Known);
    let digest = weir_policy::write_key(&rules.key, &get, KeyParts { known, target: None }, &mut full);
    let key = CacheKey { digest, full: full.into(), site: getting.site.mark };
    let refetch = Arc::new(for_get(&*refetch(asked, &getting, told)?));
    let place = fill_permit(asked, &refetch)?;
    let fill_request = fill_request(asked, &getting, Sharing::Unshared, (refetch, place));
    let lead = shared.inflight.lead_unshared(asked.asker(), shared.store.ledger(), &key, now.mono);
    let guard = lead.begin()?;
    let (generation, writer) = shared.store.begin(storable, key, guard.fill().stamp(), length).ok()?;
    let asks = told.cause(asked).and_then(|cause| cause.last());
    Some(Posted { fill_request, guard, generation, writer, length, asks })
}

/// Where a GET for the same URL leads, if the cache is asked about it and its origin is asked alike.
fn getting<'c>(asked: &Asked<'c>, chosen: &Chosen<'c>, get: RequestView<'_>) -> Option<Chosen<'c>> {
    // The origin's Content-Location is one of its own paths.
    if chosen.rewritten().is_some() {
        return None;
    }
    let site = chosen.site;
    let route = site.route(&get, get.path(), asked.peer().port)?;
    let route = route.chosen(|| OfRequest { view: get, ..asked.known(&site.name, route) });
    let getting = Chosen::new(site, route);
    let consulted = consult::consulted_for(asked, &getting, get);
    // A GET of a rewritten path would ask the origin for another one.
    let asks_alike = route.upstream == chosen.route.upstream && !route.has_rewrites();
    let is_looked_up = matches!(consulted, Consulted::LookUp(ask) if !ask.is_no_store());
    (asks_alike && is_looked_up).then_some(getting)
}

/// A GET's request fields in place of the POST's.
fn for_get(refetch: &Refetch) -> Refetch {
    let mut headers = HeaderMap::clone(&refetch.headers);
    for of_content in [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING, CONTENT_LANGUAGE] {
        headers.remove(of_content);
    }
    Refetch { headers: Arc::new(headers), ..refetch.clone() }
}

impl Posted {
    /// For how many seconds it is fresh, and where that comes from.
    pub(crate) fn lifetime(&self) -> (i64, &'static str) {
        let stored = &self.generation.head().stored;
        (freshness(stored, clock::now()).left_s(), stored.facts.lifetime_from())
    }

    /// Starts the fill with the response's body, and reads it.
    pub(crate) fn read(self, body: OriginBody) -> Source {
        let Posted { fill_request, guard, generation, writer, length, asks } = self;
        guard.fill().adopt(asks);
        let (refetch, store) = (fill_request.refetch.clone(), fill_request.resources.store.clone());
        task::start_with(fill_request, guard.fill().clone(), writer, body);
        let whole = Interval::new(0, length.unwrap_or(u64::MAX));
        let filled = Filled::new(guard, generation, refetch, store);
        Source::Kept(Kept::Reader(Box::new(Reader::filling(filled, whole, None))))
    }
}
