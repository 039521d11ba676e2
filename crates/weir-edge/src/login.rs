//! Requests of a client that logs in on its connection (NTLM, Negotiate; RFC 4559): they go past the cache,
//! to the connection that belongs to the client's own. It must not read a message of a login.

use std::sync::Arc;

use weir_front::Trust;
use weir_upstream::{Carries, LoginUse, Logins, logs_in};

use crate::exchange::Exchange;
use crate::plan::Route;

/// Whether the response to a request may be its client's alone, though the request need not say so: it has
/// such credentials, or others on its connection had them.
pub(crate) fn is_of_login(exchange: &Exchange<'_, '_>, route: &Route) -> bool {
    logs_in(&exchange.request.headers) || has_logged_in(exchange, route)
}

/// Whether the client has logged in at the route's upstream on this connection.
pub(crate) fn has_logged_in(exchange: &Exchange<'_, '_>, route: &Route) -> bool {
    let known = || exchange.peer().beside.get()?.downcast_ref::<Arc<Logins>>();
    let upstream = || Some(exchange.running.upstream(route)?.name());
    known().is_some_and(|logins| upstream().is_some_and(|upstream| logins.has(upstream)))
}

/// The connections to origins that belong to the client's connection; `None` where no client can be told.
pub(crate) fn of_client(exchange: &Exchange<'_, '_>) -> Option<LoginUse> {
    // Its address alone: who shares a network with it has not logged in.
    exchange.sharer().filter(|_| exchange.warming.is_none())?;
    let client = exchange.client()?.ip()?;
    let carries = match exchange.peer().trust {
        Trust::Untrusted => Carries::One,
        Trust::Trusted => Carries::Many,
    };
    let kept = exchange.peer().beside.get_or_init(|| Box::new(Arc::<Logins>::default()));
    Some(kept.downcast_ref::<Arc<Logins>>()?.for_request(client, carries))
}
