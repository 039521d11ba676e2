//! Fetching what is not held: lead a fill, join one, or go past the cache, as the desk says; and what a
//! fill's head means to each request that waits for it. RFC 9111 §4 (collapsed requests), §4.2.4.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use weir_policy::{
    Ask, AskKind, Failure, Interval, PassReason, Reusable, Verdict, error_reusable, joined, matches, verdict,
};
use weir_store::{Generation, Retirement};
use weir_upstream::{Interim, InterimSender};

use crate::clock;
use crate::conn::After;
use crate::conn::body::Upload;
use crate::exchange::{Exchange, forwarded};
use crate::fill::desk::{self, Plan};
use crate::fill::tail::Again;
use crate::fill::task::{self, Errand, Handed, Sharing};
use crate::fill::{FillHead, OriginFailure, Seat, SharedResponse, is_windowed};
use crate::local;
use crate::lookup;
use crate::observe::Outcome;
use crate::plan::Route;
use crate::told::Told;
use crate::{outgoing, pass, serve};

/// How often a request plans anew because the fill that it joined brought another variant.
const PLANS_MAX: usize = 3;

/// What a joiner makes of a fill.
enum Joined {
    Answered(After),
    Again,
    Pass,
}

/// Fetches what the request asks for; `validating` is what is held and may still be good.
pub(crate) async fn fetch(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    validating: Vec<Arc<Generation>>,
    told: Told,
) -> After {
    if ask.kind == AskKind::Head {
        return pass::pass(exchange, route, told).await;
    }
    let key = lookup::key(exchange, route);
    let want = want(exchange, ask);
    for _ in 0..PLANS_MAX {
        let core = exchange.worker.core;
        let (desk, ledger) = (&exchange.worker.plane.desk, exchange.worker.plane.store.ledger());
        let plan = match ask.is_authenticated() {
            true => Plan::Lead(desk.alone(core, (&key, ledger))),
            false => desk.plan(core, (&key, ledger), want, &exchange.head.headers, exchange.now.mono),
        };
        match plan {
            Plan::Lead(place) => return lead(exchange, route, ask, validating, place, told).await,
            Plan::Join(seat) => match join(exchange, route, ask, &validating, seat, told).await {
                Joined::Answered(after) => return after,
                Joined::Again => {}
                Joined::Pass => return pass::pass(exchange, route, told).await,
            },
            Plan::Pass(reason) => {
                let told = Told::pass(PassReason::Uncacheable).not_stored(reason);
                return pass::pass(exchange, route, told).await;
            }
            Plan::Apart => break,
            Plan::Failed(failure) => return failed(exchange, route, ask, &validating, &failure, told).await,
        }
    }
    pass::pass(exchange, route, told).await
}

/// The interval asked for: a range from the front to an open end is the whole; any other is its start.
fn want(exchange: &Exchange<'_>, ask: &Ask) -> Interval {
    let whole = Interval::new(0, u64::MAX);
    if !ask.is_range() {
        return whole;
    }
    weir_policy::range_from_front(&exchange.head.headers).unwrap_or(Interval::new(u64::MAX, u64::MAX))
}

/// Sends the fill's request and waits for its head.
async fn lead(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    validating: Vec<Arc<Generation>>,
    place: desk::Lead,
    told: Told,
) -> After {
    if let Some((generation, reusable)) = published(exchange, route, ask, &validating) {
        drop(place);
        return serve::held(exchange, route, ask, generation, reusable, Told::hit(&reusable)).await;
    }
    let sharing = match ask.is_authenticated() {
        true => Sharing::Alone,
        false => Sharing::Shared,
    };
    let Some(errand) = errand(exchange, route, &validating, sharing) else {
        return local::no_upstream(exchange).await;
    };
    let Some(seat) = place.begin() else { return local::internal(exchange, "no-seat").await };
    let again = errand.again.clone();
    let (interim, mut interims) = mpsc::unbounded_channel();
    let mut handed = task::start(errand, seat.fill().clone(), interim_sender(exchange, interim));
    let Some(head) = wait_head(exchange, &seat, &mut interims).await else { return After::Cut };
    exchange.origin = seat.fill().origin().cloned();
    match head {
        FillHead::Declined(reason, status) => {
            let told = told.answered(status).not_stored(reason);
            let failure = Failure::Status(status);
            match stale_instead(exchange, route, ask, &validating, failure, told).await {
                Some(after) => after,
                None => handed_over(exchange, route, handed, told).await,
            }
        }
        FillHead::New(generation) => {
            if let Ok(Handed::Fields(fields)) = handed.try_recv() {
                exchange.own_fields = Some(fields);
            }
            let told = told.answered(generation.head().stored.status);
            filled(exchange, route, ask, generation, (seat, again), told).await
        }
        head => settled(exchange, route, ask, &validating, head, &seat, told).await,
    }
}

/// Serves a generation that a fill is bringing, and tells for how long it is stored.
async fn filled(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    generation: Arc<Generation>,
    from: (Seat, Arc<Again>),
    told: Told,
) -> After {
    let freshness = weir_policy::freshness(&generation.head().stored, clock::now());
    let told = told.stored(freshness.left_s(), freshness.source.word());
    serve::filled(exchange, route, ask, generation, from, told).await
}

/// Someone may have published between this request's look-up and its plan: then nothing is asked twice.
fn published(
    exchange: &Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    validating: &[Arc<Generation>],
) -> Option<(Arc<Generation>, Reusable)> {
    let generation = lookup::find(exchange, route).generation?;
    let is_known = validating.iter().any(|old| Arc::ptr_eq(old, &generation));
    if is_known && !is_fresher(exchange, &generation) {
        return None;
    }
    match verdict(ask, Some(&generation.head().stored), clock::now()) {
        Verdict::Hit(reusable) => Some((generation, reusable)),
        _ => None,
    }
}

fn is_fresher(exchange: &Exchange<'_>, generation: &Generation) -> bool {
    weir_policy::freshness(&generation.head().stored, exchange.now).is_fresh()
}

/// Waits for a running fill's head.
async fn join(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    validating: &[Arc<Generation>],
    seat: Seat,
    told: Told,
) -> Joined {
    exchange.worker.observer.counters().collapsed();
    let told = told.collapsed();
    let (_, mut none) = mpsc::unbounded_channel();
    let Some(head) = wait_head(exchange, &seat, &mut none).await else {
        return Joined::Answered(After::Cut);
    };
    exchange.origin = seat.fill().origin().cloned();
    match head {
        FillHead::New(generation) | FillHead::Unchanged(generation)
            if !matches(&generation.head().stored.variant, &exchange.head.headers) =>
        {
            Joined::Again
        }
        FillHead::New(generation) => {
            // What only a window is kept of streams to each client by itself.
            let may = joined(ask, &generation.head().stored, exchange.now, clock::now());
            let again = again(exchange, route).filter(|_| may.is_some() && !is_windowed(&generation));
            let Some(again) = again else { return Joined::Pass };
            Joined::Answered(filled(exchange, route, ask, generation, (seat, again), told).await)
        }
        FillHead::Unchanged(ref generation) => {
            if joined(ask, &generation.head().stored, exchange.now, clock::now()).is_none() {
                return Joined::Pass;
            }
            Joined::Answered(settled(exchange, route, ask, validating, head, &seat, told).await)
        }
        FillHead::Shared(ref response) if !matches(&response.variant, &exchange.head.headers) => Joined::Pass,
        FillHead::Declined(_, status) => {
            let failure = Failure::Status(status);
            match stale_instead(exchange, route, ask, validating, failure, told).await {
                Some(after) => Joined::Answered(after),
                None => Joined::Pass,
            }
        }
        FillHead::Withdrawn => Joined::Again,
        head => Joined::Answered(settled(exchange, route, ask, validating, head, &seat, told).await),
    }
}

/// What any reader does with a head that brings no new body.
async fn settled(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    validating: &[Arc<Generation>],
    head: FillHead,
    seat: &Seat,
    told: Told,
) -> After {
    match head {
        FillHead::Unchanged(generation) => {
            let told = told.answered(http::StatusCode::NOT_MODIFIED);
            serve::confirmed(exchange, route, ask, generation, seat, told).await
        }
        FillHead::Shared(response) => shared(exchange, route, ask, validating, &response, told).await,
        FillHead::Failed(failure) => failed(exchange, route, ask, validating, &failure, told).await,
        FillHead::New(_) | FillHead::Declined(..) | FillHead::Withdrawn => {
            pass::pass(exchange, route, told).await
        }
    }
}

/// The lead's own stream of a response that is not stored.
async fn handed_over(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    handed: oneshot::Receiver<Handed>,
    told: Told,
) -> After {
    match handed.await {
        Ok(Handed::Response(response)) if response.status == http::StatusCode::NOT_MODIFIED => {
            pass::pass(exchange, route, told).await
        }
        Ok(Handed::Response(response)) => pass::relay(exchange, route, *response, Upload::none(), told).await,
        Ok(Handed::Fields(_)) | Err(_) => local::internal(exchange, "fill-aborted").await,
    }
}

async fn shared(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    validating: &[Arc<Generation>],
    response: &SharedResponse,
    told: Told,
) -> After {
    exchange.origin = Some(response.origin.clone());
    let told = told.answered(response.status).not_stored(response.reason);
    let failure = Failure::Status(response.status);
    if let Some(after) = stale_instead(exchange, route, ask, validating, failure, told).await {
        return after;
    }
    local::shared(exchange, route, response, told).await
}

async fn failed(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    validating: &[Arc<Generation>],
    failure: &OriginFailure,
    told: Told,
) -> After {
    if let Some(after) = stale_instead(exchange, route, ask, validating, Failure::NoAnswer, told).await {
        return after;
    }
    exchange.outcome(Outcome::Miss, failure.word);
    local::origin_failed(exchange, failure).await
}

/// What is held goes out stale where its window allows (RFC 5861 §4).
async fn stale_instead(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    validating: &[Arc<Generation>],
    failure: Failure,
    told: Told,
) -> Option<After> {
    let is_good = |generation: &&Arc<Generation>| {
        matches!(generation.retirement(), None | Some(Retirement::Evicted))
            && matches(&generation.head().stored.variant, &exchange.head.headers)
    };
    let generation = validating.first().filter(is_good)?.clone();
    let reusable = error_reusable(ask, &generation.head().stored, failure, clock::now())?;
    let told = told.stale_because("stale-if-error", reusable.freshness().left_s());
    Some(serve::held(exchange, route, ask, generation, reusable, told).await)
}

/// The head; none when the client went away first.
async fn wait_head(
    exchange: &mut Exchange<'_>,
    seat: &Seat,
    interims: &mut mpsc::UnboundedReceiver<Interim>,
) -> Option<FillHead> {
    loop {
        tokio::select! {
            biased;
            Some(interim) = interims.recv() => pass::send_interim(exchange.conn, &interim).await.ok()?,
            head = seat.fill().wait_head(seat.core()) => return Some(head),
            () = exchange.conn.client.gone() => {
                exchange.facts.completion = crate::observe::Completion::ClientGone;
                return None;
            }
        }
    }
}

/// HTTP/1.0 knows no interim responses (RFC 9110 §15.2).
pub(crate) fn interim_sender(exchange: &Exchange<'_>, sender: InterimSender) -> Option<InterimSender> {
    (exchange.head.version == weir_wire::Version::Http11).then_some(sender)
}

/// How this request asks the origin for a whole representation; none when the route's upstream does not
/// exist.
fn again(exchange: &Exchange<'_>, route: &Arc<Route>) -> Option<Arc<Again>> {
    Some(Arc::new(Again {
        upstream: exchange.running.upstream(route)?.clone(),
        target: forwarded(route, exchange.path_and_query()).into_owned(),
        headers: outgoing::for_fill(exchange, route),
    }))
}

/// What the fill has to know.
pub(crate) fn errand(
    exchange: &Exchange<'_>,
    route: &Arc<Route>,
    validating: &[Arc<Generation>],
    shared: Sharing,
) -> Option<Errand> {
    Some(Errand {
        plane: exchange.worker.plane.clone(),
        observer: exchange.worker.observer.clone(),
        core: exchange.worker.core,
        route: route.clone(),
        again: again(exchange, route)?,
        scheme: exchange.scheme,
        host: exchange.head.host.as_str().into(),
        path_and_query: exchange.path_and_query().to_owned(),
        client_headers: exchange.head.headers.clone(),
        validating: validating.to_vec(),
        shared,
        seat: Mutex::new(None),
    })
}
