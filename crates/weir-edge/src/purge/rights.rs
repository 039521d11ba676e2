//! Who a request's client is, for the right to purge, and what it may of a whole site.

use http::Method;
use weir_front::Trust;

use crate::exchange::{Exchange, Note};
use crate::plan::{Route, Site};
use crate::route::{Purger, Rights};

/// The client of a request.
pub(super) fn purger<'a>(note: &'a Note<'_>) -> Purger<'a> {
    let client = note.client();
    let is_proxy = client.is_some_and(|client| note.running.trusted.contains(&client));
    Purger {
        client,
        is_unnamed: note.request.peer.trust == Trust::Trusted && is_proxy,
        headers: &note.request.headers,
    }
}

/// What a client may purge of a whole site: that takes the site's own rules.
pub(super) fn of_site(purger: &Purger<'_>, site: &Site) -> Rights {
    let own = site.routes().last();
    own.map_or(Rights::Nothing, |route| route.purgers.rights(purger))
}

/// Whether a client that may purge asks for a response from the origin (RFC 9111 §5.2.1.4, as FOSHttpCache
/// has it): `Cache-Control: no-cache`, or `X-Refresh: 1`. Browsers behind a proxy that does not name them
/// send the former too, so that the right to one URL is not enough.
pub(crate) fn is_refresh(exchange: &Exchange<'_, '_>, route: &Route) -> bool {
    if route.purgers.is_empty() || exchange.request.method != Method::GET {
        return false;
    }
    let headers = &exchange.request.headers;
    let says = |name: &str, word: &str| {
        let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
        lines.flat_map(|line| line.split(',')).any(|one| one.trim().eq_ignore_ascii_case(word))
    };
    (says("cache-control", "no-cache") || says("x-refresh", "1"))
        && route.purgers.rights(&purger(exchange)) == Rights::Anything
}
