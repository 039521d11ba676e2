//! Fetching what is not held. The table of fills in flight says whether a request leads a fill, joins one or
//! bypasses the cache; this module says what the fill's head means to each waiting request. RFC 9111 §4
//! (collapsed requests), §4.2.4.

mod range;
pub(crate) mod stale;

use std::sync::Arc;
use std::time::Instant;

use http::header::IF_RANGE;
use http::{HeaderMap, StatusCode};
use tokio::sync::{mpsc, oneshot};
use weir_policy::{
    AskKind, CacheKey, Failure, NotStored, PassReason, Reusable, Verdict, joined, matches, verdict,
};
use weir_store::Generation;
use weir_upstream::Interim;

use crate::exchange::Exchange;
use crate::job::Job;
use crate::local;
use crate::lookup;
use crate::parts::{self, Confirmed};
use crate::response::{self, Response};
use crate::told::Told;
use crate::upload::Upload;
use crate::{outgoing, pass, serve};
use weir_clock as clock;
use weir_fill::again::Again;
use weir_fill::desk::{self, Plan};
use weir_fill::task::{self, Handed, Sharing};
use weir_fill::witness::Witness;
use weir_fill::{Concern, FillHead, OriginFailure, Seat, SharedResponse, is_windowed};
use weir_front::message;
use weir_observe::Outcome;

pub(crate) use self::range::cold;
use self::range::{Way, in_part, is_for_nobody, is_past_the_cache, want};
use self::stale::{slow_at, stale_instead, stale_out, usable};

/// How often a request plans again because the fill that it joined brought another variant, failed for its
/// lead alone, or hangs.
const PLANS_MAX: usize = 3;

/// What a joiner does with a fill.
enum Joined {
    Answered(Box<Response>),
    Again,
    /// The fill failed, perhaps because of its lead's request.
    Failed,
    /// Confirmed for its lead alone: this request must ask the origin itself.
    Own(Arc<Generation>),
    Pass,
}

impl Joined {
    fn answered(response: Response) -> Joined {
        Joined::Answered(Box::new(response))
    }
}

/// How waiting for a head ended.
enum Waited {
    Head(FillHead),
    Late,
    Gone,
}

/// Fetches what the request asks for.
pub(crate) async fn fetch(job: &mut Job<'_, '_, '_>) -> Response {
    if job.count().is_err() {
        return local::too_many(job.exchange);
    }
    if job.ask.kind == AskKind::Head {
        return passed(job).await;
    }
    let key = lookup::key(job.exchange, job.route);
    let want = want(job);
    if job.ask.is_authenticated() && is_past_the_cache(job.exchange, &key, want) {
        return passed(job).await;
    }
    let told = job.told;
    let mut have_failed = false;
    let who = (job.core.number, job.witness());
    for _ in 0..PLANS_MAX {
        let (desk, ledger) = (&job.core.shared.desk, job.core.shared.store.ledger());
        let plan = match job.ask.is_authenticated() {
            true => Plan::Lead(desk.alone(who, (&key, ledger), job.now.mono)),
            false => desk.plan(who, (&key, ledger), want, &job.request.headers, clock::mono()),
        };
        match plan {
            Plan::Lead(place) => {
                let place = joinable(job.exchange, place, who, &key);
                return lead(job, place).await;
            }
            Plan::Join(seat) => match join(job, seat).await {
                Joined::Answered(response) => return *response,
                Joined::Again => job.told = told,
                Joined::Failed => (job.told, have_failed) = (told, true),
                Joined::Own(held) => {
                    let place = desk.alone(who, (&key, ledger), clock::mono());
                    (job.validating, job.told) = (Some(held), told);
                    return lead(job, place).await;
                }
                Joined::Pass => {
                    job.told = told;
                    return passed(job).await;
                }
            },
            Plan::Pass(reason) => {
                job.told = Told::pass(PassReason::Uncacheable).not_stored(reason);
                return passed(job).await;
            }
            Plan::Apart => break,
            Plan::Failed(failure) => {
                return failed(job, &failure);
            }
        }
    }
    if have_failed {
        // Failures of other clients' requests do not concern this one: it asks for itself, and a request that
        // waits for nobody gets its own answer.
        let ledger = job.core.shared.store.ledger();
        let place = job.core.shared.desk.alone(who, (&key, ledger), clock::mono());
        return lead(job, place).await;
    }
    passed(job).await
}

/// Bypasses the cache with a request that the cache may answer. Where the origin gives no response, a stored
/// one may be served.
async fn passed(job: &mut Job<'_, '_, '_>) -> Response {
    match pass::try_pass(job.exchange, job.route, job.told).await {
        Ok(response) => response,
        Err(failure) => match stale_instead(job, failure.kind) {
            Some(stale) => stale,
            None => pass::failed(job.exchange, &failure, job.told),
        },
    }
}

/// Sends the fill's request and waits for its head.
async fn lead(job: &mut Job<'_, '_, '_>, place: desk::Lead) -> Response {
    if let Some((generation, reusable)) = published(job) {
        drop(place);
        return held_by_now(job, generation, reusable).await;
    }
    let sharing = Sharing::of(&job.ask);
    let Some(again) = outgoing::again(job.exchange, job.route) else {
        return local::no_upstream(job.exchange);
    };
    // A client that has used up its share leads no fill: joiners would wait for that share with it.
    let is_spent = again.upstream.is_spent(again.client);
    let Some(among) = outgoing::place_among_fills(job.exchange, &again).filter(|_| !is_spent) else {
        drop(place);
        return match stale_instead(job, Failure::Slow) {
            Some(after) => after,
            None => passed(job).await,
        };
    };
    let mut errand = outgoing::errand(job.exchange, job.route, sharing, (again.clone(), among));
    errand.validating.clone_from(&job.validating);
    errand.cold = cold(job, &lookup::key(job.exchange, job.route));
    let asked_for = if errand.cold.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let Some(seat) = place.begin() else { return local::internal(job.exchange, "no-seat") };
    let kept = errand.seat.clone();
    let (interim, mut interims) = mpsc::unbounded_channel();
    let mut handed =
        task::start(errand, seat.fill().clone(), outgoing::interim_sender(job.exchange, interim));
    let slow_at = slow_at(job, seat.fill());
    let mut waited = wait_head(job.exchange, &seat, &mut interims, slow_at).await;
    if let Waited::Late = waited {
        if let Some(instead) = usable(job, Failure::Slow) {
            // The fill continues in the background.
            *kept.lock() = Some(seat);
            drop((kept, handed));
            return stale_out(job, instead);
        }
        waited = wait_head(job.exchange, &seat, &mut interims, None).await;
    }
    let Waited::Head(head) = waited else { return job.left() };
    job.origin = seat.fill().origin().cloned();
    match head {
        FillHead::Declined(reason, status) => declined(job, (reason, status), handed).await,
        FillHead::Part(generation) => {
            job.own_fields = own_fields(&mut handed).map(Box::new);
            job.told = job.told.answered(asked_for);
            in_part(job, generation, seat).await
        }
        FillHead::New(generation) => {
            job.own_fields = own_fields(&mut handed).map(Box::new);
            job.told = job.told.answered(generation.head().stored.status);
            filled(job, generation, (seat, again))
        }
        head => settled(job, head, &seat).await,
    }
}

/// Serves what another request has brought in the meantime.
async fn held_by_now(job: &mut Job<'_, '_, '_>, generation: Arc<Generation>, reusable: Reusable) -> Response {
    match parts::confirm(job.exchange, job.route, &job.ask, &generation).await {
        Confirmed::Refused | Confirmed::Gone => pass::pass(job.exchange, job.route, job.told).await,
        Confirmed::Left => job.left(),
        Confirmed::Held | Confirmed::Coming => {
            job.told = Told::hit(&reusable);
            serve::held(job, generation, reusable)
        }
    }
}

/// What the lead does with a response that is not stored.
async fn declined(
    job: &mut Job<'_, '_, '_>,
    (reason, status): (NotStored, StatusCode),
    handed: oneshot::Receiver<Handed>,
) -> Response {
    job.told = job.told.answered(status);
    let handed = match handed.await {
        // A client that holds a part already may not get a part that could be of another version. Which part
        // it gets is the origin's decision.
        Ok(Handed::Alone(response)) if !job.request.headers.contains_key(IF_RANGE) => {
            return given_to_all(job, &response);
        }
        handed => handed.ok(),
    };
    job.told = job.told.not_stored(reason);
    match stale_instead(job, Failure::Status(status)) {
        Some(after) => after,
        // The response is not what the client asked for, or the fill asked in another way.
        None if is_for_nobody(job.exchange, status) => passed(job).await,
        None => handed_over(job, handed).await,
    }
}

/// The origin's fields, where some of them are for the lead alone.
fn own_fields(handed: &mut oneshot::Receiver<Handed>) -> Option<HeaderMap> {
    match handed.try_recv() {
        Ok(Handed::Fields(fields)) => Some(fields),
        _ => None,
    }
}

/// Serves a generation that a fill is bringing, and notes for how long it is stored.
fn filled(job: &mut Job<'_, '_, '_>, generation: Arc<Generation>, from: (Seat, Arc<Again>)) -> Response {
    let freshness = weir_policy::freshness(&generation.head().stored, clock::now());
    job.told = job.told.stored(freshness.left_s(), freshness.source.word());
    serve::filled(job, generation, from)
}

/// Another fill may have published between this request's look-up and its plan. Then the origin is not asked
/// twice.
fn published(job: &Job<'_, '_, '_>) -> Option<(Arc<Generation>, Reusable)> {
    // A part whose rest could not be had a moment ago is not asked for again.
    let is_wanted = |held: &Arc<Generation>| held.is_whole() || !job.found_gone;
    let generation = lookup::at_hand(job.exchange, job.route).generation.filter(is_wanted)?;
    let is_known = job.validating.as_ref().is_some_and(|old| Arc::ptr_eq(old, &generation));
    if is_known && !is_fresher(job.exchange, &generation) {
        return None;
    }
    match verdict(&job.ask, Some(&generation.head().stored), clock::now()) {
        Verdict::Hit(reusable) => Some((generation, reusable)),
        _ => None,
    }
}

fn is_fresher(exchange: &Exchange<'_, '_>, generation: &Generation) -> bool {
    weir_policy::freshness(&generation.head().stored, exchange.now).is_fresh()
}

/// Waits for the head of a running fill.
async fn join(job: &mut Job<'_, '_, '_>, seat: Seat) -> Joined {
    job.core.observer.counters().collapsed();
    job.told = job.told.collapsed();
    let head = match join_head(job, &seat).await {
        Waited::Head(head) => head,
        Waited::Gone => return Joined::answered(job.left()),
        Waited::Late => {
            let stale = stale_instead(job, Failure::Slow);
            // One of the waiting requests leads again, and the others join it.
            return stale.map_or(Joined::Again, Joined::answered);
        }
    };
    job.origin = seat.fill().origin().cloned();
    let ledger = job.core.shared.store.ledger();
    match head {
        FillHead::New(generation) | FillHead::Unchanged(generation) | FillHead::Part(generation)
            if !answers(job.exchange, &generation)
                || desk::is_overtaken(seat.fill(), &generation, ledger) =>
        {
            Joined::Again
        }
        FillHead::Part(generation) => {
            match joined(&job.ask, &generation.head().stored, job.now, clock::now()) {
                Some(_) => Joined::answered(in_part(job, generation, seat).await),
                None => Joined::Pass,
            }
        }
        FillHead::New(generation) => {
            // A response of which memory keeps only a window goes to each client as a stream of its own.
            let may = joined(&job.ask, &generation.head().stored, job.now, clock::now());
            if may.is_none() && generation.is_whole() {
                return Joined::Own(generation);
            }
            let again = outgoing::again(job.exchange, job.route)
                .filter(|_| may.is_some() && !is_windowed(&generation));
            let Some(again) = again else { return Joined::Pass };
            Joined::answered(match range::way(job, &generation, &seat) {
                Way::Fill => filled(job, generation, (seat, again)),
                Way::Apart => in_part(job, generation, seat).await,
                Way::Pass => return Joined::Pass,
            })
        }
        FillHead::Unchanged(ref generation) => {
            if joined(&job.ask, &generation.head().stored, job.now, clock::now()).is_none() {
                return Joined::Own(generation.clone());
            }
            Joined::answered(settled(job, head, &seat).await)
        }
        FillHead::Failed(ref failure) if failure.concern == Concern::Lead => Joined::Failed,
        FillHead::Shared(ref response) if response.concern == Concern::Lead => Joined::Failed,
        FillHead::Shared(ref response) if !matches(&response.variant, &job.request.headers) => Joined::Pass,
        FillHead::Declined(_, status) => stale_or_pass(job, Failure::Status(status)),
        FillHead::Withdrawn => Joined::Again,
        head => Joined::answered(settled(job, head, &seat).await),
    }
}

fn stale_or_pass(job: &mut Job<'_, '_, '_>, failure: Failure) -> Joined {
    match stale_instead(job, failure) {
        Some(stale) => Joined::answered(stale),
        None => Joined::Pass,
    }
}

/// How long a joiner waits: until a stale response may be served, and at most
/// [`HEAD_WAIT_MAX`](weir_fill::HEAD_WAIT_MAX).
async fn join_head(job: &mut Job<'_, '_, '_>, seat: &Seat) -> Waited {
    let (_, mut none) = mpsc::unbounded_channel();
    let longest = seat.fill().late_at();
    let slow_at = slow_at(job, seat.fill());
    let until = slow_at.map_or(longest, |slow_at| slow_at.min(longest));
    let waited = wait_head(job.exchange, seat, &mut none, Some(until)).await;
    let is_early = until < longest && usable(job, Failure::Slow).is_none();
    match waited {
        Waited::Late if is_early => wait_head(job.exchange, seat, &mut none, Some(longest)).await,
        waited => waited,
    }
}

/// Whether the request selects a generation's variant.
fn answers(exchange: &Exchange<'_, '_>, generation: &Generation) -> bool {
    matches(&generation.head().stored.variant, &exchange.request.headers)
}

/// What any reader does with a head that brings no new body.
async fn settled(job: &mut Job<'_, '_, '_>, head: FillHead, seat: &Seat) -> Response {
    match head {
        FillHead::Unchanged(generation) if answers(job.exchange, &generation) => {
            job.told = job.told.answered(StatusCode::NOT_MODIFIED);
            match parts::confirm(job.exchange, job.route, &job.ask, &generation).await {
                Confirmed::Held | Confirmed::Coming => {}
                Confirmed::Refused | Confirmed::Gone => {
                    return passed(job).await;
                }
                Confirmed::Left => return job.left(),
            }
            serve::confirmed(job, generation, seat)
        }
        FillHead::Shared(response) => shared(job, &response),
        FillHead::Failed(failure) => failed(job, &failure),
        FillHead::Unchanged(_)
        | FillHead::New(_)
        | FillHead::Part(_)
        | FillHead::Declined(..)
        | FillHead::Withdrawn => passed(job).await,
    }
}

/// The lead's own stream of a response that is not stored.
async fn handed_over(job: &mut Job<'_, '_, '_>, handed: Option<Handed>) -> Response {
    match handed {
        Some(Handed::Response(response)) if response.status == http::StatusCode::NOT_MODIFIED => {
            pass::pass(job.exchange, job.route, job.told).await
        }
        Some(Handed::Response(response)) => {
            pass::relay(job.exchange, job.route, *response, Upload::none(), job.told)
        }
        Some(Handed::Fields(_) | Handed::Alone(_)) | None => local::internal(job.exchange, "fill-aborted"),
    }
}

fn shared(job: &mut Job<'_, '_, '_>, response: &SharedResponse) -> Response {
    job.origin = Some(response.origin.clone());
    job.told = job.told.answered(response.status).not_stored(response.reason);
    let failure = Failure::Status(response.status);
    if let Some(after) = stale_instead(job, failure) {
        return after;
    }
    given_to_all(job, response)
}

fn failed(job: &mut Job<'_, '_, '_>, failure: &OriginFailure) -> Response {
    if let Some(after) = stale_instead(job, failure.kind) {
        return after;
    }
    job.outcome(Outcome::Miss, failure.word);
    local::origin_failed(job.exchange, failure)
}

/// Waits for the head until the given time, or for as long as its fill does.
async fn wait_head(
    exchange: &mut Exchange<'_, '_>,
    seat: &Seat,
    interims: &mut mpsc::UnboundedReceiver<Interim>,
    until: Option<Instant>,
) -> Waited {
    let mut late = std::pin::pin!(async {
        match until {
            Some(until) => tokio::time::sleep_until(until.into()).await,
            None => std::future::pending().await,
        }
    });
    loop {
        tokio::select! {
            biased;
            Some(interim) = interims.recv() => {
                if pass::send_interim(exchange, &interim).await.is_err() {
                    return Waited::Gone;
                }
            }
            head = seat.fill().wait_head(seat.core()) => return Waited::Head(head),
            () = &mut late => return Waited::Late,
            () = message::gone(&mut *exchange.client) => {
                return Waited::Gone;
            }
        }
    }
}

/// The place to lead from. A client whose request for this key hung a moment ago leads only fills that nobody
/// may join. Else it could make all others wait for one hung request after another.
fn joinable(
    exchange: &Exchange<'_, '_>,
    place: desk::Lead,
    who: (usize, Witness),
    key: &CacheKey,
) -> desk::Lead {
    let (shared, now) = (&exchange.core.shared, clock::mono());
    if exchange.sharer().is_none() || !shared.desk.memory.was_late(key.digest, who.1, now) {
        return place;
    }
    drop(place);
    shared.desk.alone(who, (key, shared.store.ledger()), now)
}

/// A short error response of the origin, shared by all who waited for it.
fn given_to_all(job: &mut Job<'_, '_, '_>, response: &SharedResponse) -> Response {
    let told = job.told;
    told.note(&mut job.facts);
    let made = pass::relayed(job.exchange, job.route, response.status, &response.headers, told);
    response::with_bytes(made, &job.request.method, response.body.clone())
}
