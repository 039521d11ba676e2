//! The walk of a request, on one screen: route → consult → look up → verdict → deliver. Every other
//! room of the data plane is reached from here. RFC 9111 §4.

use std::sync::Arc;

use weir_front::Client;
use weir_observe::trace::Step;
use weir_policy::{Interval, MissReason, PassReason, Reusable, StaleUse};
use weir_store::Generation;

use crate::cache_status::CacheStatus;
use crate::decide::{self, Consulted, Decision, Reuse, decide};
use crate::exchange::{Exchange, Note};
use crate::job::Job;
use crate::local::{self, Routed};
use crate::lookup::{self, Held};
use crate::parts::{self, Confirmed};
use crate::plan::Route;
use crate::response::Response;
use crate::revalidate;
use crate::secured::is_early;
use crate::{content, fetch, files, give_way, login, pass, purge, serve};

/// Walks one request to its response. Rooms that wait for an origin have memory of their own, so that the
/// walk of a hit is small.
pub(crate) async fn walk(note: &mut Note<'_>, client: &mut dyn Client) -> Response {
    let mut exchange = Exchange { note, client };
    let mut response = match local::route(&mut exchange) {
        Routed::Local(reply) => local::answer(&mut exchange, *reply),
        Routed::To(route) => respond(&mut exchange, route).await,
        Routed::Purge(route) => Box::pin(purge::by_client::purge(&mut exchange, route)).await,
    };
    exchange.render(&mut response);
    response
}

/// Answers a request that a route answers with a file, or sends to an upstream.
async fn respond<'c>(exchange: &mut Exchange<'c, '_>, route: &'c Arc<Route>) -> Response {
    exchange.bound_content(route);
    exchange.take_cookies(route);
    let route = exchange.choose(route);
    if let Some(laid) = content::find(exchange, route)
        && let Some(response) = Box::pin(content::respond(exchange, route, laid)).await
    {
        return response;
    }
    if exchange.rewrite(route).is_err() {
        return local::dot_segment(exchange);
    }
    if let Some(served) = &route.files {
        if let Some(response) = files::at_hand(exchange, route, served) {
            return response;
        }
        if let Some(response) = Box::pin(files::respond(exchange, route, served)).await {
            return response;
        }
    }
    let ask = match decide::consulted(&exchange.view(), &route.rules, exchange.beside(route)) {
        Consulted::LookUp(ask) => ask,
        Consulted::Pass(reason) => return pass::pass(exchange, route, CacheStatus::pass(reason)).await,
        Consulted::Upgrade => return pass::pass(exchange, route, CacheStatus::upgrade()).await,
        Consulted::TooLarge => return local::too_large(exchange),
    };
    let ask = if purge::rights::is_refresh(exchange, route) { ask.refreshing() } else { ask };
    let held = lookup::find(exchange, route).await;
    exchange.looked_up(&held);
    let Held { mut generation, has_siblings } = held;
    let decision = decide(&exchange.view(), &ask, generation.as_deref(), has_siblings, exchange.now);
    exchange.decided(&decision);
    keep(exchange, &mut generation, &decision);
    let cache_status = CacheStatus::miss(MissReason::Gone);
    let decision = if exchange.warming.is_some() { decide::warmed(decision) } else { decision };
    if !matches!(decision, Decision::Serve(_)) && !give_way::may_ask(exchange, route) {
        return give_way::gave_way(exchange);
    }
    let is_held = matches!(decision, Decision::Serve(_) | Decision::GatewayTimeout);
    if let Some(reason) = goes_past(exchange, route, &decision) {
        return pass::pass(exchange, route, CacheStatus::pass(reason)).await;
    }
    let mut job = Job { exchange, route, ask, validating: None, cache_status };
    if ask.is_no_store() && !is_held {
        job.cache_status = CacheStatus::pass(PassReason::RouteNoStore);
        return Box::pin(fetch::passed(&mut job)).await;
    }
    match (decision, generation) {
        (Decision::Serve(reuse), Some(generation)) => {
            refresh(&mut job, &generation, &reuse);
            serve::held(&mut job, generation, reuse.reusable)
        }
        (Decision::Complete(reuse, missing), Some(generation)) => {
            refresh(&mut job, &generation, &reuse);
            Box::pin(complete(&mut job, generation, reuse.reusable, missing)).await
        }
        (Decision::Revalidate(revalidation), Some(generation)) => {
            Box::pin(revalidate::now(&mut job, generation, revalidation)).await
        }
        (Decision::GatewayTimeout, _) => local::only_if_cached(job.exchange),
        (Decision::Fetch(reason), _) => {
            job.cache_status = CacheStatus::miss(reason);
            Box::pin(fetch::fetch(&mut job)).await
        }
        // The other decisions are made only about a stored response.
        (_, None) => Box::pin(fetch::fetch(&mut job)).await,
    }
}

/// Why a request for what is not held goes past the cache after all.
fn goes_past(exchange: &Exchange<'_, '_>, route: &Route, decision: &Decision) -> Option<PassReason> {
    let request = exchange.request;
    match decision {
        Decision::Serve(_) => None,
        _ if is_early(&request.headers, request.peer.trust) => Some(PassReason::EarlyData),
        Decision::GatewayTimeout => None,
        _ => login::has_logged_in(exchange, route).then_some(PassReason::Login),
    }
}

/// Keeps in memory what is not simply served: validating and completing it look for it again. Where another
/// request had it kept meanwhile, both go on with the same one.
fn keep(exchange: &Exchange<'_, '_>, generation: &mut Option<Arc<Generation>>, decision: &Decision) {
    if let Some(held) = generation.as_ref().filter(|_| !decision.is_fresh())
        && let Some(same) = exchange.core.shared.store.keep(held)
    {
        *generation = Some(same);
    }
}

/// A response served stale within its window is validated in the background (RFC 5861 §3).
fn refresh(job: &mut Job<'_, '_, '_>, generation: &Arc<Generation>, reuse: &Reuse) {
    job.cache_status = reuse.cache_status;
    if reuse.stale == Some(StaleUse::WhileRevalidate) && !job.ask.is_no_store() {
        job.validating = Some(generation.clone());
        job.step(|| Step::Refreshing);
        revalidate::in_background(job);
    }
}

/// Serves a stored part, once the origin has confirmed that its `missing` bytes can be had.
async fn complete(
    job: &mut Job<'_, '_, '_>,
    generation: Arc<Generation>,
    reusable: Reusable,
    missing: Interval,
) -> Response {
    let confirmed = parts::confirm_missing(job.exchange, job.route, &generation, missing).await;
    job.step(|| Step::Missing(confirmed.word()));
    match confirmed {
        Confirmed::Held => serve::held(job, generation, reusable),
        Confirmed::Coming => {
            job.cache_status = job.cache_status.completed();
            serve::held(job, generation, reusable)
        }
        Confirmed::Left => job.left(),
        Confirmed::Refused => local::only_if_cached(job.exchange),
        Confirmed::Gone => {
            job.found_gone = true;
            (job.validating, job.cache_status) = (None, CacheStatus::miss(MissReason::Gone));
            fetch::fetch(job).await
        }
    }
}
