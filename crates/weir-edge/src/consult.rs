//! Whether the cache is asked about a request: what its route says of its client, its session and its maps,
//! beside what its fields say. It must not decide that: [`decide`] does.

use weir_policy::RequestView;

use crate::affinity;
use crate::decide::{self, Beside, Consulted, Fulfilled};
use crate::exchange::{Asked, Chosen};
use crate::values::OfRequest;

/// Whether the cache is asked.
pub(crate) fn consulted(asked: &Asked<'_>, chosen: &Chosen<'_>) -> Consulted {
    consulted_for(asked, chosen, asked.view())
}

/// The same of another request of its client.
pub(crate) fn consulted_for(asked: &Asked<'_>, chosen: &Chosen<'_>, view: RequestView<'_>) -> Consulted {
    decide::consulted(&view, &chosen.route.rules, beside(asked, chosen, view))
}

/// What is known of a request beside its fields.
fn beside(asked: &Asked<'_>, chosen: &Chosen<'_>, view: RequestView<'_>) -> Beside {
    let route = chosen.route;
    let of_client = route.clients.as_ref().map(|clients| clients.hold(asked.client()));
    let by_maps = route.fulfilled_by_maps(|| OfRequest { view, ..chosen.known(asked) });
    Beside {
        is_too_large: asked.request.is_too_large(asked.content_limits(route)),
        is_upgrade: asked.request.upgrade.is_some(),
        fulfilled: of_client
            .unwrap_or_default()
            .and(by_maps)
            .and(affinity::fulfilled(asked, chosen))
            .and(refresh(asked)),
    }
}

/// Whether a warming fetches what is fresh.
fn refresh(asked: &Asked<'_>) -> Fulfilled {
    let is_refresh = asked.warming.is_some_and(|warming| warming.refresh);
    if is_refresh { Fulfilled(Fulfilled::REFRESH) } else { Fulfilled::default() }
}
