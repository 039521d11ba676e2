//! The walk of a request, on one screen: route → consult → look up → verdict → deliver. Every other
//! room of the data plane is reached from here. RFC 9111 §4.

use std::sync::Arc;

use weir_front::Client;
use weir_observe::trace::Step;
use weir_policy::{Interval, MissReason, PassReason, Reusable, StaleUse};
use weir_store::Generation;

use crate::cache_status::CacheStatus;
use crate::decide::{self, Consulted, Decision, Reuse, decide};
use crate::exchange::{Asked, Chosen, Exchange, Note};
use crate::job::Job;
use crate::local::{self, Routed};
use crate::lookup::{self, Held};
use crate::parts::{self, Confirmed};
use crate::response::Response;
use crate::revalidate;
use crate::secured::is_early;
use crate::{consult, content, cookies, fetch, files, give_way, login, pass, purge, serve};

/// Walks one request to its response. Rooms that wait for an origin have memory of their own, so that the
/// walk of a hit is small.
pub(crate) async fn walk(note: &mut Note<'_>, client: &mut dyn Client) -> Response {
    let mut response = match local::route(note, client) {
        Routed::Local(reply) => local::answer(&note.asked, &mut note.told, *reply),
        Routed::To(site, route) => {
            if route.limits.is_some() {
                client.bound_content(note.asked.content_limits(route));
            }
            cookies::take(&mut note.asked, route);
            let chosen = note.chosen.insert(Chosen::by_maps(&note.asked, site, route));
            note.told.route = Some(chosen.route);
            respond(&mut Exchange { asked: &note.asked, chosen, told: &mut note.told, client }).await
        }
        Routed::Purge(route) => Box::pin(purge::by_client::purge(&note.asked, &mut note.told, route)).await,
    };
    note.render(&mut response);
    response
}

/// Answers a request that a route answers with a file, or sends to an upstream.
async fn respond(exchange: &mut Exchange<'_, '_>) -> Response {
    let (asked, chosen) = (exchange.asked, exchange.chosen);
    if let Some(laid) = content::find(asked, chosen)
        && let Some(response) = Box::pin(content::respond(exchange, laid)).await
    {
        return response;
    }
    if chosen.rewrite(asked).is_err() {
        return local::dot_segment(asked, exchange.told);
    }
    if let Some(served) = &chosen.route.files {
        if let Some(response) = files::at_hand(exchange, served) {
            return response;
        }
        if let Some(response) = Box::pin(files::respond(exchange, served)).await {
            return response;
        }
    }
    let ask = match consult::consulted(asked, chosen) {
        Consulted::LookUp(ask) => ask,
        Consulted::Pass(reason) => return pass::pass(exchange, CacheStatus::pass(reason)).await,
        Consulted::Upgrade => return pass::pass(exchange, CacheStatus::upgrade()).await,
        Consulted::TooLarge => return local::too_large(exchange),
    };
    let ask = if purge::rights::is_refresh(asked, chosen) { ask.refreshing() } else { ask };
    let held = lookup::find(asked, chosen).await;
    exchange.told.looked_up(asked, &held);
    let Held { mut generation, has_siblings } = held;
    let decision = decide(&asked.view(), &ask, generation.as_deref(), has_siblings, asked.now);
    exchange.told.decided(&decision);
    keep(asked, &mut generation, &decision);
    let decision = if asked.warming.is_some() { decide::warmed(decision) } else { decision };
    if !matches!(decision, Decision::Serve(_)) && !give_way::may_ask(asked, chosen) {
        return give_way::gave_way(exchange.told);
    }
    let is_held = matches!(decision, Decision::Serve(_) | Decision::GatewayTimeout);
    if let Some(reason) = goes_past(asked, chosen, &decision) {
        return pass::pass(exchange, CacheStatus::pass(reason)).await;
    }
    let mut job = Job::new(ask, CacheStatus::miss(MissReason::Gone));
    let job = &mut job;
    if ask.is_no_store() && !is_held {
        job.cache_status = CacheStatus::pass(PassReason::RouteNoStore);
        return Box::pin(fetch::passed(exchange, job)).await;
    }
    match (decision, generation) {
        (Decision::Serve(reuse), Some(generation)) => {
            refresh(exchange, job, &generation, &reuse);
            serve::held(exchange, job, generation, reuse.reusable)
        }
        (Decision::Complete(reuse, missing), Some(generation)) => {
            refresh(exchange, job, &generation, &reuse);
            Box::pin(complete(exchange, job, generation, reuse.reusable, missing)).await
        }
        (Decision::Revalidate(revalidation), Some(generation)) => {
            Box::pin(revalidate::now(exchange, job, generation, revalidation)).await
        }
        (Decision::GatewayTimeout, _) => local::only_if_cached(asked, exchange.told),
        (Decision::Fetch(reason), _) => {
            job.cache_status = CacheStatus::miss(reason);
            Box::pin(fetch::fetch(exchange, job)).await
        }
        // The other decisions are made only about a stored response.
        (_, None) => Box::pin(fetch::fetch(exchange, job)).await,
    }
}

/// Why a request for what is not held goes past the cache after all.
fn goes_past(asked: &Asked<'_>, chosen: &Chosen<'_>, decision: &Decision) -> Option<PassReason> {
    let request = asked.request;
    match decision {
        Decision::Serve(_) => None,
        _ if is_early(&request.headers, request.peer.trust) => Some(PassReason::EarlyData),
        Decision::GatewayTimeout => None,
        _ => login::has_logged_in(asked, chosen).then_some(PassReason::Login),
    }
}

/// Keeps in memory what is not simply served: validating and completing it look for it again. Where another
/// request had it kept meanwhile, both go on with the same one.
fn keep(asked: &Asked<'_>, generation: &mut Option<Arc<Generation>>, decision: &Decision) {
    if let Some(held) = generation.as_ref().filter(|_| !decision.is_fresh())
        && let Some(same) = asked.core.shared.store.keep(held)
    {
        *generation = Some(same);
    }
}

/// A response served stale within its window is validated in the background (RFC 5861 §3).
fn refresh(exchange: &mut Exchange<'_, '_>, job: &mut Job, generation: &Arc<Generation>, reuse: &Reuse) {
    job.cache_status = reuse.cache_status;
    if reuse.stale == Some(StaleUse::WhileRevalidate) && !job.ask.is_no_store() {
        job.validating = Some(generation.clone());
        exchange.told.step(|| Step::Refreshing);
        revalidate::in_background(exchange, job);
    }
}

/// Serves a stored part, once the origin has confirmed that its `missing` bytes can be had.
async fn complete(
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    generation: Arc<Generation>,
    reusable: Reusable,
    missing: Interval,
) -> Response {
    let confirmed = parts::confirm_missing(exchange, job, &generation, missing).await;
    exchange.told.step(|| Step::Missing(confirmed.word()));
    match confirmed {
        Confirmed::Held => serve::held(exchange, job, generation, reusable),
        Confirmed::Coming => {
            job.cache_status = job.cache_status.completed();
            serve::held(exchange, job, generation, reusable)
        }
        Confirmed::Left => exchange.left(),
        Confirmed::Refused => local::only_if_cached(exchange.asked, exchange.told),
        Confirmed::Gone => {
            job.found_gone = true;
            (job.validating, job.cache_status) = (None, CacheStatus::miss(MissReason::Gone));
            fetch::fetch(exchange, job).await
        }
    }
}
