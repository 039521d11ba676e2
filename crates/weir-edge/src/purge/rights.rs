//! Who a request's client is, for the right to purge, and what it may of a whole site.

use http::Method;
use weir_front::Trust;

use crate::exchange::{Asked, Chosen};
use crate::plan::Site;
use crate::route::{Purger, Rights};

/// The client of a request.
pub(super) fn purger<'c>(asked: &Asked<'c>) -> Purger<'c> {
    let client = asked.client();
    let is_proxy = client.is_some_and(|client| asked.running.trusted.contains(&client));
    Purger {
        client,
        is_unnamed: asked.request.peer.trust == Trust::Trusted && is_proxy,
        headers: &asked.request.headers,
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
pub(crate) fn is_refresh(asked: &Asked<'_>, chosen: &Chosen<'_>) -> bool {
    if chosen.route.purgers.is_empty() || asked.request.method != Method::GET {
        return false;
    }
    let headers = &asked.request.headers;
    let says = |name: &str, word: &str| {
        let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
        lines.flat_map(|line| line.split(',')).any(|one| one.trim().eq_ignore_ascii_case(word))
    };
    (says("cache-control", "no-cache") || says("x-refresh", "1"))
        && chosen.route.purgers.rights(&purger(asked)) == Rights::Anything
}
