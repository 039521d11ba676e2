//! How a response's fields look to the client: without hop-by-hop fields, with `Via`, and with the route's
//! sets and removals. Pure.

use http::header::AGE;
use http::{HeaderMap, StatusCode};

use weir_front::Trust;
use weir_policy::set_cookie::set_flags;
use weir_policy::tags;

use crate::debug;
use crate::plan::Route;
use crate::transform::request::Own;
use crate::transform::response::towards_client;

/// The client that the fields are written for. Its scheme and host are in the key of every stored response.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) scheme: &'a str,
    pub(crate) host: &'a str,
    pub(crate) own: &'a Own,
    /// The `Age` that the response goes out with; 0 without one.
    pub(crate) age_s: u64,
    /// Whether the peer is a trusted proxy, which may read tags.
    pub(crate) trust: Trust,
    /// The rule by which the request's path was rewritten.
    pub(crate) rule: Option<usize>,
}

/// The fields of a response with this status for the client. `Age`, `Cache-Status` and framing are printed
/// separately.
pub(crate) fn fields(headers: HeaderMap, status: StatusCode, route: &Route, reader: Reader<'_>) -> HeaderMap {
    prepared(headers, status, route, reader)
}

/// The fields of a response that is or will be held.
pub(crate) fn kept(
    mut fields: HeaderMap,
    status: StatusCode,
    route: &Route,
    reader: Reader<'_>,
) -> HeaderMap {
    // Also of what was stored before the configuration named such a cookie.
    route.rules.strip_cookies_of_one(&mut fields);
    prepared(fields, status, route, reader)
}

fn prepared(mut fields: HeaderMap, status: StatusCode, route: &Route, reader: Reader<'_>) -> HeaderMap {
    fields.remove(AGE);
    // Also of what was stored before the configuration said so.
    route.rules.strip_cookies(&mut fields);
    towards_client(&mut fields, reader.own);
    debug::strip(&mut fields);
    route.location_back(&mut fields, reader.scheme, reader.host, reader.rule);
    set_flags(&route.rules.cookie_flags, &mut fields);
    route.secure(&mut fields, reader.scheme);
    if route.hides_tags(reader.trust) {
        tags::hide(&mut fields);
    }
    route.present(&mut fields, status, reader.age_s);
    fields
}
