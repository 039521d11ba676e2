//! The walk of a request, on one screen: route → consult → look up → verdict → deliver. Every other
//! room of the data plane is reached from here. RFC 9111 §4.

use std::sync::Arc;

use weir_front::Client;
use weir_observe::trace::Step;
use weir_policy::{Interval, MissReason, Reusable, StaleUse};
use weir_store::Generation;

use crate::cache_status::CacheStatus;
use crate::decide::{self, Consulted, Decision, Reuse, decide};
use crate::exchange::{Asked, Chosen, Exchange, Note};
use crate::gates::{After, BEFORE, Before, Comer, Gate};
use crate::job::Job;
use crate::lookup::{self, Held};
use crate::parts::{self, Confirmed};
use crate::placed::{self, Routed};
use crate::response::Response;
use crate::revalidate;
use crate::{consult, content, cookies, fetch, files, give_way, local, login, pass, purge, secured, serve};

/// Walks one request to its response. Rooms that wait for an origin have memory of their own, so that the
/// walk of a hit is small.
pub(crate) async fn walk(note: &mut Note<'_>, client: &mut dyn Client) -> Response {
    let mut response = match placed::route(note, client) {
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

/// Answers a request that a route answers with a file, or sends to an upstream: by the first gate that does
/// not let it through.
async fn respond(exchange: &mut Exchange<'_, '_>) -> Response {
    let (asked, chosen) = (exchange.asked, exchange.chosen);
    for gate in BEFORE {
        let answered = match gate {
            Before::ByHand => match content::find(asked, chosen) {
                Some(laid) => Box::pin(content::respond(exchange, laid)).await,
                None => None,
            },
            Before::Rewrite => match chosen.rewrite(asked) {
                Ok(()) => None,
                Err(_) => Some(local::dot_segment(asked, exchange.told)),
            },
            Before::File => match &chosen.route.files {
                Some(served) => match files::at_hand(exchange, served) {
                    Some(response) => Some(response),
                    None => Box::pin(files::respond(exchange, served)).await,
                },
                None => None,
            },
        };
        if let Some(response) = answered {
            exchange.told.gate = Gate::Before(gate);
            return response;
        }
    }
    exchange.told.gate = Gate::Cache;
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
    let gate = After::of(exchange, &ask, &decision);
    exchange.told.gate = Gate::After(gate);
    let job = &mut Job::new(ask, gate.past().map_or(CacheStatus::miss(MissReason::Gone), CacheStatus::pass));
    match (gate, decision, generation) {
        (After::Held, Decision::Serve(reuse), Some(generation)) => {
            refresh(exchange, job, &generation, &reuse);
            serve::held(exchange, job, generation, reuse.reusable)
        }
        (After::Warming, ..) => give_way::gave_way(exchange.told),
        (After::OnlyIfCached, ..) => local::only_if_cached(asked, exchange.told),
        (After::EarlyData | After::Login, ..) => pass::pass(exchange, job.cache_status).await,
        (After::NoStore, ..) => Box::pin(fetch::passed(exchange, job)).await,
        (After::Held | After::Origin, decision, generation) => {
            Box::pin(ask_origin(exchange, job, decision, generation)).await
        }
    }
}

/// Asks an origin: for what is missing of what is held, whether that is still good, or for all.
async fn ask_origin(
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    decision: Decision,
    generation: Option<Arc<Generation>>,
) -> Response {
    match (decision, generation) {
        (Decision::Complete(reuse, missing), Some(generation)) => {
            refresh(exchange, job, &generation, &reuse);
            complete(exchange, job, generation, reuse.reusable, missing).await
        }
        (Decision::Revalidate(revalidation), Some(generation)) => {
            revalidate::now(exchange, job, generation, revalidation).await
        }
        (Decision::Fetch(reason), _) => {
            job.cache_status = CacheStatus::miss(reason);
            fetch::fetch(exchange, job).await
        }
        // The other decisions are made only about a stored response.
        _ => fetch::fetch(exchange, job).await,
    }
}

impl Comer for Exchange<'_, '_> {
    fn gives_way(&self) -> bool {
        !give_way::may_ask(self.asked, self.chosen)
    }

    fn is_early(&self) -> bool {
        let request = self.asked.request;
        secured::is_early(&request.headers, request.peer.trust)
    }

    fn has_logged_in(&self) -> bool {
        login::has_logged_in(self.asked, self.chosen)
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
