//! Requests towards origins: the client's fields after the transform, with the `Host` and the fields that
//! the route sets; and what a fill must know of the request that leads it.

use std::sync::Arc;

use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use parking_lot::Mutex;
use weir_observe::Purpose;
use weir_policy::{CacheRules, RangeRules};
use weir_share::Client;
use weir_store::Generation;
use weir_upstream::{About, InterimSender, Kind, OriginRequest, Picking, Upstream, Whose, host_point};

use crate::affinity;
use crate::exchange::{Asked, Chosen, Told};
use crate::plan::Route;
use crate::transform::request;
use weir_fill::asks::Asks;
use weir_fill::refetch::Refetch;
use weir_fill::settings::Settings;
use weir_fill::tally;
use weir_fill::task::{FillRequest, Sharing, Waiting};
use weir_fill::upstreams::{FILLS_PER_ORIGIN_MAX, FillPermit, FillsMax};

/// The fields of a request that bypasses the cache.
pub(crate) fn for_pass(asked: &Asked<'_>, chosen: &Chosen<'_>) -> HeaderMap {
    let mut headers = request::towards_origin(&asked.request.headers, &asked.from());
    chosen.route.towards_origin(&mut headers);
    chosen.set_values(asked, &mut headers);
    headers
}

/// The fields of a fill's request: none that belong to one client alone.
pub(crate) fn for_fill(asked: &Asked<'_>, chosen: &Chosen<'_>) -> HeaderMap {
    let from = asked.from();
    let mut headers = request::of_fill(&asked.request.headers, &from, &chosen.route.rules.key.headers);
    chosen.route.towards_origin(&mut headers);
    chosen.set_values(asked, &mut headers);
    headers
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
pub(crate) fn interim_sender(asked: &Asked<'_>, sender: InterimSender) -> Option<InterimSender> {
    asked.request.takes_interim.then_some(sender)
}

/// How this request asks the origin for a whole representation; none where the route's upstream does not
/// exist.
pub(crate) fn refetch(asked: &Asked<'_>, chosen: &Chosen<'_>, told: &Told<'_>) -> Option<Arc<Refetch>> {
    let instead = asked.warming.and_then(|warming| warming.instead.as_ref());
    let upstream = instead.map(|(upstream, _)| upstream).or_else(|| asked.running.upstream(chosen.route));
    Some(Arc::new(Refetch {
        upstream: upstream?.clone(),
        target: chosen.target(asked).into_owned().into(),
        headers: Arc::new(for_fill(asked, chosen)),
        tally: tally::of_site(&asked.core.observer, told.facts.site),
        witness: asked.witness(),
        client: asked.sharer(),
        picking: picking(asked, chosen, Whose::Nobody),
        cause: told.cause(asked).cloned(),
    }))
}

/// What picks know of a request. One of nobody, whose response others get, names no client.
pub(crate) fn picking(asked: &Asked<'_>, chosen: &Chosen<'_>, whose: Whose) -> Picking {
    let host = asked.request.host.as_str();
    Picking {
        whose,
        client: asked.sharer().filter(|_| whose == Whose::Client).map(Client::address),
        host: (!host.is_empty()).then(|| host_point(host)),
        picks: chosen.route.picks.clone(),
        deciders: chosen.route.deciders.clone(),
        about: about(asked, chosen, whose),
    }
}

/// What deciders know of a request; `None` where there are none.
fn about(asked: &Asked<'_>, chosen: &Chosen<'_>, whose: Whose) -> Option<Arc<About>> {
    let upstream = asked.running.upstream(chosen.route)?;
    if !upstream.asks_deciders(chosen.route.deciders.as_ref()) {
        return None;
    }
    let is_pass = whose == Whose::Client;
    let session = || affinity::text(asked, upstream);
    Some(Arc::new(About {
        scheme: asked.scheme,
        host: asked.request.host.as_str().into(),
        site: chosen.site.name.clone(),
        route: chosen.route.name.clone(),
        kind: if is_pass { Kind::Pass } else { Kind::Fill },
        client: asked.client().and_then(|client| client.socket()).filter(|_| is_pass),
        session: if is_pass { session() } else { None },
    }))
}

/// A passed request, noted for the log of requests to origins.
pub(crate) fn noted(
    asked: &Asked<'_>,
    told: &Told<'_>,
    upstream: &Upstream,
    request: OriginRequest,
) -> OriginRequest {
    let Some(cause) = told.cause(asked) else { return request };
    let asks = Arc::<Asks>::default();
    cause.reads(&asks);
    let purpose = if asked.warming.is_some() { Purpose::Warm } else { Purpose::Pass };
    let log = Some(asks.begin(cause, upstream.name(), purpose, &request));
    OriginRequest { log, ..request }
}

/// A place among the upstream's fills.
pub(crate) fn fill_permit(asked: &Asked<'_>, refetch: &Refetch) -> Option<FillPermit> {
    let upstream = &refetch.upstream;
    let most = FILLS_PER_ORIGIN_MAX * upstream.origins_count();
    // Clients find places, however many URLs are warmed.
    let all = if asked.warming.is_some() { most / 2 } else { most };
    let most = FillsMax { all, of_client: upstream.client_max(all) };
    asked.core.shared.inflight.upstreams.permit(upstream.name(), refetch.client, most)
}

/// What the fill must know of its request.
pub(crate) fn fill_request(
    asked: &Asked<'_>,
    chosen: &Chosen<'_>,
    shared: Sharing,
    (refetch, permit): (Arc<Refetch>, FillPermit),
) -> Box<FillRequest> {
    Box::new(FillRequest {
        resources: asked.core.resources.clone(),
        settings: chosen.route.clone(),
        refetch,
        scheme: asked.scheme,
        host: asked.request.host.as_str().into(),
        path_and_query: asked.path_and_query().to_owned(),
        client_headers: chosen.selecting(asked).clone(),
        client: asked.witness(),
        validating: None,
        shared,
        cold: None,
        waiting: if asked.warming.is_some() { Waiting::Warming } else { Waiting::Client },
        hurry: asked.warming.map(|warming| warming.hurry.clone()),
        is_changed: false,
        parked: Arc::default(),
        permit: Mutex::new(Some(permit)),
    })
}
