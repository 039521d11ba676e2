//! Requests towards origins: the client's fields after the transform, with the `Host` and the fields that the
//! route sets; and what a fill must know of the request that leads it.

use std::sync::Arc;

use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use weir_policy::{CacheRules, RangeRules};
use weir_store::Generation;
use weir_upstream::InterimSender;

use crate::exchange::{Exchange, forwarded};
use crate::plan::Route;
use crate::transform::request;
use weir_fill::again::Again;
use weir_fill::settings::Settings;
use weir_fill::tally;
use weir_fill::task::{Errand, Sharing};
use weir_fill::upstreams::{FILLS_PER_ORIGIN_MAX, Place, PlacesMax};

/// The fields of a request that bypasses the cache.
pub(crate) fn for_pass(exchange: &Exchange<'_, '_>, route: &Route) -> HeaderMap {
    let mut headers = request::towards_origin(&exchange.request.headers, &exchange.from());
    route.towards_origin(&mut headers);
    headers
}

/// The fields of a fill's request: none that belong to one client alone.
pub(crate) fn for_fill(exchange: &Exchange<'_, '_>, route: &Route) -> HeaderMap {
    let from = exchange.from();
    let mut headers = request::towards_origin(&exchange.request.headers, &from);
    request::for_fill(&mut headers, &from, &route.rules.key.headers);
    route.towards_origin(&mut headers);
    headers
}

impl Settings for Route {
    fn rules(&self) -> &CacheRules {
        &self.rules
    }

    fn range(&self) -> &RangeRules {
        &self.range
    }

    fn for_nobody(&self, fields: &HeaderMap, generation: &Generation) -> HeaderMap {
        let head = generation.head();
        let coding = head.stored.headers.get(CONTENT_ENCODING);
        let variant = &head.stored.variant;
        let mut headers = request::of_nobody(fields, &generation.key().full, variant, coding);
        self.towards_origin(&mut headers);
        headers
    }
}

/// Whether the client may be sent interim responses: HTTP/1.0 has none (RFC 9110 §15.2).
pub(crate) fn interim_sender(exchange: &Exchange<'_, '_>, sender: InterimSender) -> Option<InterimSender> {
    exchange.request.takes_interim.then_some(sender)
}

/// How this request asks the origin for a whole representation; none where the route's upstream does not
/// exist.
pub(crate) fn again(exchange: &Exchange<'_, '_>, route: &Arc<Route>) -> Option<Arc<Again>> {
    Some(Arc::new(Again {
        upstream: exchange.running.upstream(route)?.clone(),
        target: forwarded(route, exchange.path_and_query()).into_owned(),
        headers: for_fill(exchange, route),
        tally: tally::of_site(&exchange.core.observer, exchange.facts.site),
        witness: exchange.witness(),
        client: exchange.sharer(),
    }))
}

/// A place among the upstream's fills.
pub(crate) fn place_among_fills(exchange: &Exchange<'_, '_>, again: &Again) -> Option<Place> {
    let upstream = &again.upstream;
    let all = FILLS_PER_ORIGIN_MAX * upstream.origins().len();
    let most = PlacesMax { all, of_client: upstream.client_max(all) };
    exchange.core.shared.desk.upstreams.place(upstream.name(), again.client, most)
}

/// What the fill must know of its request.
pub(crate) fn errand(
    exchange: &Exchange<'_, '_>,
    route: &Arc<Route>,
    shared: Sharing,
    (again, place): (Arc<Again>, Place),
) -> Errand {
    Errand {
        means: exchange.core.means.clone(),
        settings: route.clone(),
        again,
        scheme: exchange.scheme,
        host: exchange.request.host.as_str().into(),
        path_and_query: exchange.path_and_query().to_owned(),
        client_headers: exchange.request.headers.clone(),
        client: exchange.witness(),
        validating: None,
        shared,
        cold: None,
        seat: Arc::default(),
        _place: place,
    }
}
