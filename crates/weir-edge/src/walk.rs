//! The walk of a request, on one screen: route → consult → look up → verdict → deliver. Every other
//! room of the data plane is reached from here. RFC 9111 §4.

use std::sync::Arc;

use weir_front::{Client, Request};
use weir_policy::{Consult, MissReason, Reusable, StaleUse, Verdict, consult, verdict};
use weir_store::Generation;

use crate::core::{Core, HeldPlan};
use crate::exchange::{Exchange, Note};
use crate::job::Job;
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
        Routed::Purge(route) => purge::by_client::purge(&mut exchange, route).await,
    };
    (response, exchange.note())
}

/// Answers a request that a route sends to an upstream.
async fn respond<'c>(exchange: &mut Exchange<'c, '_>, route: &'c Arc<Route>) -> Response {
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
    // A verdict about a generation is only reached with one.
    let told = Told::miss(MissReason::Gone);
    let mut job = Job { exchange, route, ask, validating: None, told };
    match (verdict, generation) {
        (Verdict::Hit(reusable), Some(generation)) => {
            job.told = Told::hit(&reusable);
            reuse(&mut job, generation, reusable).await
        }
        (Verdict::Stale(reusable, how), Some(generation)) => {
            if how == StaleUse::WhileRevalidate {
                job.validating = Some(generation.clone());
                revalidate::in_background(&job);
            }
            job.told = Told::stale(&reusable);
            reuse(&mut job, generation, reusable).await
        }
        (Verdict::Revalidate(revalidation), Some(generation)) => {
            revalidate::now(&mut job, generation, revalidation).await
        }
        (Verdict::GatewayTimeout, _) => local::only_if_cached(job.exchange),
        (Verdict::Miss(reason), _) => {
            job.told = Told::miss(if has_siblings { MissReason::Vary } else { reason });
            fetch::fetch(&mut job).await
        }
        (_, None) => fetch::fetch(&mut job).await,
    }
}

/// Serves what is held, once it is certain that what is missing of it can be had.
async fn reuse(job: &mut Job<'_, '_, '_>, generation: Arc<Generation>, reusable: Reusable) -> Response {
    if generation.is_whole() {
        return serve::held(job, generation, reusable);
    }
    match parts::confirm(job.exchange, job.route, &job.ask, &generation).await {
        Confirmed::Held => serve::held(job, generation, reusable),
        Confirmed::Coming => {
            job.told = job.told.completed();
            serve::held(job, generation, reusable)
        }
        Confirmed::Left => job.left(),
        Confirmed::Refused => local::only_if_cached(job.exchange),
        Confirmed::Gone => {
            job.found_gone = true;
            (job.validating, job.told) = (None, Told::miss(MissReason::Gone));
            fetch::fetch(job).await
        }
    }
}
