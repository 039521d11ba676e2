//! Requests towards origins: the client's fields after the transform, with the `Host` and the fields that
//! the route sets; and what a fill must know of the request that leads it.

use std::sync::Arc;

use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use parking_lot::Mutex;
use weir_observe::Purpose;
use weir_policy::{CacheRules, RangeRules, RequestView};
use weir_share::Client;
use weir_store::Generation;
use weir_upstream::{About, InterimSender, Kind, OriginRequest, Picking, Upstream, Whose, host_point};

use crate::affinity;
use crate::exchange::{Exchange, forwarded};
use crate::plan::Route;
use crate::transform::request;
use crate::values::OfRequest;
use weir_fill::asks::Asks;
use weir_fill::refetch::Refetch;
use weir_fill::settings::Settings;
use weir_fill::tally;
use weir_fill::task::{FillRequest, Sharing, Waiting};
use weir_fill::upstreams::{FILLS_PER_ORIGIN_MAX, FillPermit, FillsMax};

/// The fields of a request that bypasses the cache.
pub(crate) fn for_pass(exchange: &Exchange<'_, '_>, route: &Route) -> HeaderMap {
    let mut headers = request::towards_origin(&exchange.request.headers, &exchange.from());
    route.towards_origin(&mut headers);
    set_values(exchange, route, &mut headers);
    headers
}

/// The fields of a fill's request: none that belong to one client alone.
pub(crate) fn for_fill(exchange: &Exchange<'_, '_>, route: &Route) -> HeaderMap {
    let from = exchange.from();
    let mut headers = request::of_fill(&exchange.request.headers, &from, &route.rules.key.headers);
    route.towards_origin(&mut headers);
    set_values(exchange, route, &mut headers);
    headers
}

/// Sets the fields whose values have placeholders. The query in them is the one that the origin gets: what
/// the key leaves out must not reach what others are given.
fn set_values(exchange: &Exchange<'_, '_>, route: &Route, headers: &mut HeaderMap) {
    if !route.request_values().is_empty() {
        let target = forwarded(route, exchange.path_and_query());
        let view = RequestView { path_and_query: &target, ..exchange.view() };
        route.set_values(&OfRequest { view, ..exchange.known(route) }, headers);
    }
}

impl Settings for Route {
    fn rules(&self) -> &CacheRules {
        &self.rules
    }

    fn range(&self) -> &RangeRules {
        &self.range
    }

    fn anonymous_fields(&self, fields: &HeaderMap, generation: &Generation) -> HeaderMap {
        let head = generation.head();
        let coding = head.stored.headers.get(CONTENT_ENCODING);
        let variant = &head.stored.variant;
        let mut headers = request::of_nobody(fields, &generation.key().full, variant, coding);
        self.towards_origin(&mut headers);
        self.keep_values(fields, variant, &mut headers);
        headers
    }
}

/// Whether the client may be sent interim responses: HTTP/1.0 has none (RFC 9110 §15.2).
pub(crate) fn interim_sender(exchange: &Exchange<'_, '_>, sender: InterimSender) -> Option<InterimSender> {
    exchange.request.takes_interim.then_some(sender)
}

/// How this request asks the origin for a whole representation; none where the route's upstream does not
/// exist.
pub(crate) fn refetch(exchange: &Exchange<'_, '_>, route: &Arc<Route>) -> Option<Arc<Refetch>> {
    let instead = exchange.warming.and_then(|warming| warming.instead.as_ref());
    let upstream = instead.map(|(upstream, _)| upstream).or_else(|| exchange.running.upstream(route));
    Some(Arc::new(Refetch {
        upstream: upstream?.clone(),
        target: exchange.target(route).into_owned().into(),
        headers: Arc::new(for_fill(exchange, route)),
        tally: tally::of_site(&exchange.core.observer, exchange.facts.site),
        witness: exchange.witness(),
        client: exchange.sharer(),
        picking: picking(exchange, route, Whose::Nobody),
        cause: exchange.cause().cloned(),
    }))
}

/// What picks know of a request. One of nobody, whose response others get, names no client.
pub(crate) fn picking(exchange: &Exchange<'_, '_>, route: &Route, whose: Whose) -> Picking {
    let host = exchange.request.host.as_str();
    Picking {
        whose,
        client: exchange.sharer().filter(|_| whose == Whose::Client).map(Client::address),
        host: (!host.is_empty()).then(|| host_point(host)),
        picks: route.picks.clone(),
        deciders: route.deciders.clone(),
        about: about(exchange, route, whose),
    }
}

/// What deciders know of a request; `None` where there are none.
fn about(exchange: &Exchange<'_, '_>, route: &Route, whose: Whose) -> Option<Arc<About>> {
    let upstream = exchange.running.upstream(route)?;
    if !upstream.asks_deciders(route.deciders.as_ref()) {
        return None;
    }
    let is_pass = whose == Whose::Client;
    let session = || affinity::text(exchange, upstream);
    Some(Arc::new(About {
        scheme: exchange.scheme,
        host: exchange.request.host.as_str().into(),
        site: exchange.site.map_or_else(|| Arc::from(""), |site| site.name.clone()),
        route: route.name.clone(),
        kind: if is_pass { Kind::Pass } else { Kind::Fill },
        client: exchange.client().and_then(|client| client.socket()).filter(|_| is_pass),
        session: if is_pass { session() } else { None },
    }))
}

/// A passed request, noted for the log of requests to origins.
pub(crate) fn noted(
    exchange: &Exchange<'_, '_>,
    upstream: &Upstream,
    request: OriginRequest,
) -> OriginRequest {
    let Some(cause) = exchange.cause() else { return request };
    let asks = Arc::<Asks>::default();
    cause.reads(&asks);
    let purpose = if exchange.warming.is_some() { Purpose::Warm } else { Purpose::Pass };
    let log = Some(asks.begin(cause, upstream.name(), purpose, &request));
    OriginRequest { log, ..request }
}

/// A place among the upstream's fills.
pub(crate) fn fill_permit(exchange: &Exchange<'_, '_>, refetch: &Refetch) -> Option<FillPermit> {
    let upstream = &refetch.upstream;
    let most = FILLS_PER_ORIGIN_MAX * upstream.origins_count();
    // Clients find places, however many URLs are warmed.
    let all = if exchange.warming.is_some() { most / 2 } else { most };
    let most = FillsMax { all, of_client: upstream.client_max(all) };
    exchange.core.shared.inflight.upstreams.permit(upstream.name(), refetch.client, most)
}

/// What the fill must know of its request.
pub(crate) fn fill_request(
    exchange: &Exchange<'_, '_>,
    route: &Arc<Route>,
    shared: Sharing,
    (refetch, permit): (Arc<Refetch>, FillPermit),
) -> Box<FillRequest> {
    Box::new(FillRequest {
        resources: exchange.core.resources.clone(),
        settings: route.clone(),
        refetch,
        scheme: exchange.scheme,
        host: exchange.request.host.as_str().into(),
        path_and_query: exchange.path_and_query().to_owned(),
        client_headers: exchange.selecting(route).clone(),
        client: exchange.witness(),
        validating: None,
        shared,
        cold: None,
        waiting: if exchange.warming.is_some() { Waiting::Warming } else { Waiting::Client },
        hurry: exchange.warming.map(|warming| warming.hurry.clone()),
        is_changed: false,
        parked: Arc::default(),
        permit: Mutex::new(Some(permit)),
    })
}
