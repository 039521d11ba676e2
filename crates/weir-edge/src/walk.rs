//! The walk of a request, on one screen: route → consult → look up → verdict → deliver. Every other
//! room of the data plane is reached from here. RFC 9111 §4.

use std::sync::Arc;

use weir_front::{Client, Request};
use weir_policy::{Ask, Consult, MissReason, Reusable, StaleUse, Verdict, consult, verdict};
use weir_store::Generation;

use crate::core::{Core, HeldPlan};
use crate::exchange::{Exchange, Note};
use crate::local::{self, Routed};
use crate::lookup::{self, Held};
use crate::parts::{self, Confirmed};
use crate::plan::Route;
use crate::response::Response;
use crate::revalidate;
use crate::told::Told;
use crate::{fetch, pass, purge, serve};

/// Walks one request to its response.
pub(crate) async fn walk<'c>(
    core: &'c Core,
    plan: &'c HeldPlan,
    request: &'c mut Request,
    client: &mut dyn Client,
) -> (Response, Note<'c>) {
    // Key and variant must be of what the origin gets to see.
    weir_policy::strip_named(&mut request.headers);
    let mut exchange = Exchange::begin(core, plan, request, client);
    let response = match local::route(&mut exchange) {
        Routed::Local(reply) => local::answer(&mut exchange, *reply),
        Routed::To(route) => respond(&mut exchange, route).await,
        Routed::Purge(route) => purge::by_client(&mut exchange, route).await,
    };
    (response, exchange.note())
}

/// Answers a request that a route sends to an upstream.
async fn respond(exchange: &mut Exchange<'_, '_>, route: &Arc<Route>) -> Response {
    if exchange.request.is_too_large() {
        return local::too_large(exchange);
    }
    if exchange.request.upgrade.is_some() {
        return pass::pass(exchange, route, Told::upgrade()).await;
    }
    let ask = match consult(&exchange.view(), &route.rules) {
        Consult::Use(ask) => ask,
        Consult::Pass(reason) => return pass::pass(exchange, route, Told::pass(reason)).await,
    };
    let Held { generation, has_siblings } = lookup::find(exchange, route).await;
    let head = generation.as_ref().map(|generation| generation.head());
    let verdict = verdict(&ask, head.as_ref().map(|head| &head.stored), exchange.now);
    drop(head);
    match (verdict, generation) {
        (Verdict::Hit(reusable), Some(generation)) => {
            reuse(exchange, route, &ask, generation, reusable, Told::hit(&reusable)).await
        }
        (Verdict::Stale(reusable, how), Some(generation)) => {
            if how == StaleUse::WhileRevalidate {
                revalidate::in_background(exchange, route, &ask, &generation);
            }
            reuse(exchange, route, &ask, generation, reusable, Told::stale(&reusable)).await
        }
        (Verdict::Revalidate(revalidation), Some(generation)) => {
            revalidate::now(exchange, route, &ask, generation, revalidation).await
        }
        (Verdict::GatewayTimeout, _) => local::only_if_cached(exchange),
        (Verdict::Miss(reason), _) => {
            let reason = if has_siblings { MissReason::Vary } else { reason };
            fetch::fetch(exchange, route, &ask, None, Told::miss(reason)).await
        }
        // A verdict about a generation is only reached with one.
        (_, None) => fetch::fetch(exchange, route, &ask, None, Told::miss(MissReason::Gone)).await,
    }
}

/// Serves what is held, once it is certain that what is missing of it can be had.
async fn reuse(
    exchange: &mut Exchange<'_, '_>,
    route: &Arc<Route>,
    ask: &Ask,
    generation: Arc<Generation>,
    reusable: Reusable,
    told: Told,
) -> Response {
    if generation.is_whole() {
        return serve::held(exchange, route, ask, generation, reusable, told);
    }
    match parts::confirm(exchange, route, ask, &generation).await {
        Confirmed::Held => serve::held(exchange, route, ask, generation, reusable, told),
        Confirmed::Coming => serve::held(exchange, route, ask, generation, reusable, told.completed()),
        Confirmed::Left => exchange.left(),
        Confirmed::Refused => local::only_if_cached(exchange),
        Confirmed::Gone => {
            exchange.found_gone = true;
            fetch::fetch(exchange, route, ask, None, Told::miss(MissReason::Gone)).await
        }
    }
}
