//! Requests of a client that logs in on its connection (NTLM, Negotiate; RFC 4559): they go past the cache,
//! to the connection that belongs to the client's own. It must not read a message of a login.

use std::sync::Arc;

use weir_front::Trust;
use weir_upstream::{Carries, LoginUse, Logins, logs_in};

use crate::exchange::{Asked, Chosen};

/// Whether the response to a request may be its client's alone, though the request need not say so: it has
/// such credentials, or others on its connection had them.
pub(crate) fn is_of_login(asked: &Asked<'_>, chosen: &Chosen<'_>) -> bool {
    logs_in(&asked.request.headers) || has_logged_in(asked, chosen)
}

/// Whether the client has logged in at the route's upstream on this connection.
pub(crate) fn has_logged_in(asked: &Asked<'_>, chosen: &Chosen<'_>) -> bool {
    let known = || asked.peer().beside.get()?.downcast_ref::<Arc<Logins>>();
    let upstream = || Some(asked.running.upstream(chosen.route)?.name());
    known().is_some_and(|logins| upstream().is_some_and(|upstream| logins.has(upstream)))
}

/// The connections to origins that belong to the client's connection; `None` where no client can be told.
pub(crate) fn of_client(asked: &Asked<'_>) -> Option<LoginUse> {
    // Its address alone: who shares a network with it has not logged in.
    asked.sharer().filter(|_| asked.warming.is_none())?;
    let client = asked.client()?.ip()?;
    let carries = match asked.peer().trust {
        Trust::Untrusted => Carries::One,
        Trust::Trusted => Carries::Many,
    };
    let kept = asked.peer().beside.get_or_init(|| Box::new(Arc::<Logins>::default()));
    Some(kept.downcast_ref::<Arc<Logins>>()?.for_request(client, carries))
}
