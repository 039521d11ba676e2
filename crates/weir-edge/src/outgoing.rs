//! Requests towards origins: the client's fields as the transform has them, with the `Host` and the
//! fields that the route wants.

use http::header::{CONTENT_ENCODING, HOST};
use http::{HeaderMap, HeaderValue};
use weir_policy::{CacheRules, RangeRules};
use weir_store::Generation;

use crate::exchange::Exchange;
use crate::fill::means::Settings;
use crate::plan::Route;
use crate::transform::request;

/// The fields of a request that is passed.
pub(crate) fn for_pass(exchange: &Exchange<'_>, route: &Route) -> HeaderMap {
    let mut headers = request::towards_origin(&exchange.head.headers, &exchange.from());
    finish(&mut headers, route);
    headers
}

/// The fields of a fill's request: nothing that belongs to one client alone.
pub(crate) fn for_fill(exchange: &Exchange<'_>, route: &Route) -> HeaderMap {
    let from = exchange.from();
    let mut headers = request::towards_origin(&exchange.head.headers, &from);
    request::for_fill(&mut headers, &from, &route.rules.key.headers);
    finish(&mut headers, route);
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
        finish(&mut headers, self);
        headers
    }
}

fn finish(headers: &mut HeaderMap, route: &Route) {
    if let Some(host) = route.host_to_origin() {
        headers.insert(HOST, HeaderValue::clone(host));
    }
    route.edit_request(headers);
}
