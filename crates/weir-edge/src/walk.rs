//! The walk of a request, on one screen: route → consult → look up → verdict → deliver. Every other
//! room of the data plane is reached from here. RFC 9111 §4.

use std::rc::Rc;
use std::sync::Arc;

use weir_policy::{Ask, Consult, MissReason, Reusable, StaleUse, Verdict, consult, verdict};
use weir_store::Generation;
use weir_wire::RequestHead;

use crate::conn::{After, Conn};
use crate::exchange::Exchange;
use crate::local::{self, Routed};
use crate::lookup::{self, Held};
use crate::parts::{self, Confirmed};
use crate::plan::Route;
use crate::revalidate;
use crate::told::Told;
use crate::worker::Worker;
use crate::{fetch, pass, purge, serve};

/// Walks one request to its response; says what becomes of the connection.
pub(crate) async fn walk(worker: &Rc<Worker>, conn: &mut Conn, head: Box<RequestHead>) -> After {
    let running = worker.running();
    let mut exchange = Exchange::begin(worker, &running, conn, head);
    let after = match local::route(&mut exchange) {
        Routed::Local(reply) => local::answer(&mut exchange, *reply).await,
        Routed::To(route) => respond(&mut exchange, route).await,
        Routed::Purge(route) => purge::by_client(&mut exchange, route).await,
    };
    exchange.finish();
    after
}

/// Answers a request that a route sends to an upstream.
async fn respond(exchange: &mut Exchange<'_>, route: &Arc<Route>) -> After {
    if exchange.conn.body.is_too_large() {
        return local::too_large(exchange).await;
    }
    if exchange.head.upgrade.is_some() {
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
        (Verdict::GatewayTimeout, _) => local::only_if_cached(exchange).await,
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
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    generation: Arc<Generation>,
    reusable: Reusable,
    told: Told,
) -> After {
    if generation.is_whole() {
        return serve::held(exchange, route, ask, generation, reusable, told).await;
    }
    match parts::confirm(exchange, route, ask, &generation).await {
        Confirmed::Held => serve::held(exchange, route, ask, generation, reusable, told).await,
        Confirmed::Coming => serve::held(exchange, route, ask, generation, reusable, told.completed()).await,
        Confirmed::Left => exchange.left(),
        Confirmed::Refused => local::only_if_cached(exchange).await,
        Confirmed::Gone => {
            exchange.found_gone = true;
            fetch::fetch(exchange, route, ask, None, Told::miss(MissReason::Gone)).await
        }
    }
}
