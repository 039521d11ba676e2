//! Fetching what is not held. The table of fills in flight says whether a request leads a fill, joins one or
//! bypasses the cache. This module says what the fill's head means to each waiting request. RFC 9111 §4
//! (collapsed requests), §4.2.4.

mod range;
mod signed;
pub(crate) mod stale;
mod waiting;

use std::sync::Arc;

use http::header::IF_RANGE;
use http::{HeaderMap, StatusCode};
use tokio::sync::mpsc;
use weir_policy::cookies::has_unkeyed;
use weir_policy::{
    AskKind, CacheKey, Failure, HeadRequests, NotStored, PassReason, Reusable, Verdict, joined, matches,
    verdict,
};
use weir_store::Generation;

use crate::cache_status::CacheStatus;
use crate::exchange::Exchange;
use crate::job::Job;
use crate::local;
use crate::lookup;
use crate::parts::{self, Confirmed};
use crate::response::{self, Response};
use crate::upload::Upload;
use crate::{affinity, give_way, outgoing, pass, serve};
use weir_clock as clock;
use weir_fill::inflight::{self, Asker, Plan, Wanted};
use weir_fill::recent::digest_of_visitors;
use weir_fill::refetch::Refetch;
use weir_fill::task::{self, ForLead, Led, Sharing};
use weir_fill::{Concern, FillHead, OriginFailure, ReaderGuard, SharedResponse, is_windowed};
use weir_observe::Outcome;
use weir_observe::trace::{HeadWord, Step};

pub(crate) use self::range::cold;
use self::range::{Way, in_part, is_for_nobody, is_past_the_cache, want};
use self::signed::Asks;
use self::stale::{slow_at, stale_instead, stale_out, usable};
use self::waiting::{Waited, lead_head, wait_head};

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

/// Fetches what the request asks for.
pub(crate) async fn fetch(job: &mut Job<'_, '_, '_>) -> Response {
    if job.count().is_err() {
        return local::too_many(job.exchange);
    }
    if job.ask.kind == AskKind::Head && job.route.rules.head == HeadRequests::Pass {
        return passed(job).await;
    }
    let key = lookup::key(job.exchange, job.route);
    let want = want(job);
    if job.ask.is_authenticated() && is_past_the_cache(job.exchange, &key, want) {
        return passed(job).await;
    }
    if let Some(cache_status) = by_itself(job, &key) {
        job.cache_status = cache_status;
        return passed(job).await;
    }
    let cache_status = job.cache_status;
    let mut have_failed = false;
    let asker = job.asker();
    for _ in 0..PLANS_MAX {
        let (inflight, ledger) = (&job.core.shared.inflight, job.core.shared.store.ledger());
        let plan = match job.ask.is_authenticated() {
            true => Plan::Lead(inflight.lead_unshared(asker, ledger, &key, job.now.mono)),
            false => {
                let wanted = Wanted { key: &key, interval: want, headers: job.selecting(job.route) };
                inflight.plan(asker, ledger, wanted, clock::mono())
            }
        };
        match plan {
            Plan::Lead(place) => {
                let place = joinable(job.exchange, place, asker, &key);
                return lead(job, place, &key).await;
            }
            Plan::Join(guard) => match join(job, guard).await {
                Joined::Answered(response) => return *response,
                Joined::Again => job.cache_status = cache_status,
                Joined::Failed => (job.cache_status, have_failed) = (cache_status, true),
                Joined::Own(held) => {
                    let place = inflight.lead_unshared(asker, ledger, &key, clock::mono());
                    (job.validating, job.cache_status) = (Some(held), cache_status);
                    return lead(job, place, &key).await;
                }
                Joined::Pass => {
                    job.cache_status = cache_status;
                    return passed(job).await;
                }
            },
            Plan::Pass(reason) => {
                job.cache_status = CacheStatus::pass(PassReason::Uncacheable).not_stored(reason);
                return passed(job).await;
            }
            Plan::Separate if job.warming.is_some() => return give_way::gave_way(job.exchange),
            Plan::Separate => break,
            Plan::Failed(failure) => {
                return failed(job, &failure);
            }
        }
    }
    if have_failed {
        // Failures of other clients' requests do not concern this one: it asks for itself, and a request that
        // waits for nobody gets its own answer.
        let ledger = job.core.shared.store.ledger();
        let place = job.core.shared.inflight.lead_unshared(asker, ledger, &key, clock::mono());
        return lead(job, place, &key).await;
    }
    passed(job).await
}

/// How a response comes about that is not to be stored: its request may be signed, its key was not asked for
/// often enough, it is one visitor's, or those of its key were found not to be storable a moment ago. The
/// request then leads no fill that others would wait for, and joins none.
fn by_itself(job: &Job<'_, '_, '_>, key: &CacheKey) -> Option<CacheStatus> {
    if signed::goes_as_it_came(job, key) {
        return Some(CacheStatus::pass(PassReason::Signed));
    }
    if !is_earned(job, key) {
        return Some(job.cache_status.not_stored(NotStored::MinUses));
    }
    // What is known to be stored for nobody: each request asks for itself, however many there are at once.
    let recent = &job.core.shared.inflight.recent;
    let declined = || recent.declined(key.digest, job.now.mono).filter(|_| !job.ask.is_authenticated());
    let reason = is_a_visitors(job, key).or_else(declined)?;
    Some(CacheStatus::pass(PassReason::Uncacheable).not_stored(reason))
}

/// Why the response is for this request alone, where a moment ago the key's response was found to vary by
/// cookie and the request has one that the key lacks. It then leads no fill that others would wait for.
fn is_a_visitors(job: &Job<'_, '_, '_>, key: &CacheKey) -> Option<NotStored> {
    if !has_unkeyed(&job.request.headers, &job.route.rules.key) {
        return None;
    }
    job.core.shared.inflight.recent.declined(digest_of_visitors(key.digest), job.now.mono)
}

/// Whether the key has been asked for as often as the route wants before it stores anything of it. If not,
/// this request is noted.
fn is_earned(job: &Job<'_, '_, '_>, key: &CacheKey) -> bool {
    // A URL is warmed to be stored.
    let least = if job.warming.is_some() { 1 } else { u32::from(job.route.rules.min_uses.memory) };
    let store = &job.core.shared.store;
    if least < 2 || job.validating.is_some() || store.uses(key) + 1 >= least {
        return true;
    }
    store.note_request(key);
    false
}

/// Bypasses the cache with a request that the cache may answer. Where the origin gives no response, a stored
/// one may be served.
pub(crate) async fn passed(job: &mut Job<'_, '_, '_>) -> Response {
    match Box::pin(pass::try_pass(job.exchange, job.route, job.cache_status)).await {
        Ok(response) => response,
        Err(failure) => match stale_instead(job, failure.kind) {
            Some(stale) => stale,
            None => pass::failed(job.exchange, &failure, job.cache_status),
        },
    }
}

/// Sends the fill's request and waits for its head.
async fn lead(job: &mut Job<'_, '_, '_>, place: inflight::Lead, key: &CacheKey) -> Response {
    if let Some((generation, reusable)) = published(job) {
        drop(place);
        job.step(|| Step::Answered(HeadWord::Held));
        return held_by_now(job, generation, reusable).await;
    }
    let sharing = Sharing::of(&job.ask);
    job.leads(place.company());
    let Some(refetch) = outgoing::refetch(job.exchange, job.route) else {
        return local::no_upstream(job.exchange);
    };
    job.sends(&refetch.headers);
    // A client that has used up its share leads no fill: joiners would wait for that share with it.
    let is_spent = refetch.upstream.is_spent(refetch.client);
    let Some(among) = outgoing::fill_permit(job.exchange, &refetch).filter(|_| !is_spent) else {
        drop(place);
        return without_place(job).await;
    };
    let mut fill_request = outgoing::fill_request(job.exchange, job.route, sharing, (refetch.clone(), among));
    fill_request.validating.clone_from(&job.validating);
    fill_request.cold = cold(job, key);
    let asks = signed::asks(job, fill_request.cold);
    fill_request.is_changed = asks == Asks::Otherwise;
    let asked_for = if fill_request.cold.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let Some(guard) = place.begin() else { return local::internal(job.exchange, "no-seat") };
    let parked = fill_request.parked.clone();
    let (interim, mut interims) = mpsc::unbounded_channel();
    let interim = outgoing::interim_sender(job.exchange, interim);
    let mut led = task::begin(fill_request, guard.fill().clone(), interim);
    let slow_at = slow_at(job, guard.fill());
    let mut waited = lead_head(job.exchange, &guard, (&mut led, &mut interims), slow_at).await;
    if let Waited::Late = waited {
        if let Some(instead) = usable(job, Failure::Slow) {
            job.step(|| Step::Answered(HeadWord::Late));
            // The fill continues in the background.
            *parked.lock() = Some(guard);
            drop((parked, led));
            return stale_out(job, instead);
        }
        waited = lead_head(job.exchange, &guard, (&mut led, &mut interims), None).await;
    }
    let Waited::Head(head) = waited else { return job.left() };
    job.answered_by(&head);
    job.origin = guard.fill().origin().cloned();
    job.answered = guard.fill().answered();
    match head {
        FillHead::Declined(reason, status) => declined(job, (reason, status), (led, asks)).await,
        FillHead::Part(generation) => {
            job.own_fields = own_fields(&mut led).map(Box::new);
            job.cache_status = job.cache_status.answered(asked_for);
            in_part(job, generation, guard).await
        }
        FillHead::New(generation) => {
            job.own_fields = own_fields(&mut led).map(Box::new);
            job.cache_status = job.cache_status.answered(generation.head().stored.status);
            if job.ask.kind == AskKind::Head {
                let response = head_alone(job, generation, &guard);
                // The fill continues without a reader.
                *parked.lock() = Some(guard);
                return response;
            }
            filled(job, generation, (guard, refetch))
        }
        head => settled(job, head, &guard).await,
    }
}

/// A request that leads no fill, since its client or the upstream has none to spare.
async fn without_place(job: &mut Job<'_, '_, '_>) -> Response {
    if job.warming.is_some() {
        return give_way::gave_way(job.exchange);
    }
    match stale_instead(job, Failure::Slow) {
        Some(after) => after,
        None => passed(job).await,
    }
}

/// Serves what another request has brought in the meantime.
async fn held_by_now(job: &mut Job<'_, '_, '_>, generation: Arc<Generation>, reusable: Reusable) -> Response {
    match parts::confirm(job.exchange, job.route, &job.ask, &generation).await {
        Confirmed::Refused | Confirmed::Gone => pass::pass(job.exchange, job.route, job.cache_status).await,
        Confirmed::Left => job.left(),
        Confirmed::Held | Confirmed::Coming => {
            job.cache_status = CacheStatus::hit(&reusable);
            serve::held(job, generation, reusable)
        }
    }
}

/// What the lead does with a response that is not stored.
async fn declined(
    job: &mut Job<'_, '_, '_>,
    (reason, status): (NotStored, StatusCode),
    (mut led, asks): (Led, Asks),
) -> Response {
    job.cache_status = job.cache_status.answered(status);
    let for_lead = match (&mut led.for_lead).await {
        // A client that holds a part already may not get a part that could be of another version. Which part
        // it gets is the origin's decision.
        Ok(ForLead::UnvalidatedPart(response)) if !job.request.headers.contains_key(IF_RANGE) => {
            if affinity::is_elsewhere(job.exchange.note, job.route, &response.origin) {
                return passed(job).await;
            }
            return given_to_all(job, &response);
        }
        for_lead => for_lead.ok(),
    };
    job.cache_status = job.cache_status.not_stored(reason);
    match stale_instead(job, Failure::Status(status)) {
        Some(after) => after,
        // The response is not what the client asked for, or the fill asked in another way.
        None if is_for_nobody(job.exchange, status) => passed(job).await,
        // What the client has signed was changed: it is asked again as it came.
        None if asks == Asks::Otherwise && weir_policy::may_be_of_signature(status) => passed(job).await,
        // A fill follows no session: what an origin said that has none with this client is not for it.
        None if is_of_another(job, &for_lead) => passed(job).await,
        None => handed_over(job, for_lead).await,
    }
}

/// Whether the response came from another origin than the one that has the client's session.
fn is_of_another(job: &Job<'_, '_, '_>, for_lead: &Option<ForLead>) -> bool {
    let Some(ForLead::Response(response)) = for_lead else { return false };
    affinity::is_elsewhere(job.exchange.note, job.route, response.origin.name())
}

/// The origin's fields, where some of them are for the lead alone.
fn own_fields(led: &mut Led) -> Option<HeaderMap> {
    match led.for_lead.try_recv() {
        Ok(ForLead::Fields(fields)) => Some(fields),
        _ => None,
    }
}

/// Serves a generation that a fill is bringing, and notes for how long it is stored.
fn filled(
    job: &mut Job<'_, '_, '_>,
    generation: Arc<Generation>,
    from: (ReaderGuard, Arc<Refetch>),
) -> Response {
    note_stored(job, &generation);
    serve::filled(job, generation, from)
}

/// Answers a HEAD by the head of a generation that a fill is bringing.
fn head_alone(job: &mut Job<'_, '_, '_>, generation: Arc<Generation>, guard: &ReaderGuard) -> Response {
    note_stored(job, &generation);
    serve::head_alone(job, generation, guard)
}

fn note_stored(job: &mut Job<'_, '_, '_>, generation: &Generation) {
    let stored = &generation.head().stored;
    let left_s = weir_policy::freshness(stored, clock::now()).left_s();
    job.cache_status = job.cache_status.stored(left_s, stored.facts.lifetime_from());
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
async fn join(job: &mut Job<'_, '_, '_>, guard: ReaderGuard) -> Joined {
    job.core.observer.counters().collapsed();
    job.step(|| Step::Joined);
    job.cache_status = job.cache_status.collapsed();
    if let Some(cause) = job.cause() {
        cause.reads(&guard.fill().asks());
    }
    let head = match join_head(job, &guard).await {
        Waited::Head(head) => head,
        Waited::Gone => return Joined::answered(job.left()),
        Waited::Late => {
            job.step(|| Step::Answered(HeadWord::Late));
            let stale = stale_instead(job, Failure::Slow);
            // One of the waiting requests leads again, and the others join it.
            return stale.map_or(Joined::Again, Joined::answered);
        }
    };
    job.answered_by(&head);
    job.origin = guard.fill().origin().cloned();
    job.answered = guard.fill().answered();
    let ledger = job.core.shared.store.ledger();
    match head {
        FillHead::New(generation) | FillHead::Unchanged(generation) | FillHead::Part(generation)
            if !answers(job, &generation)
                || inflight::is_overtaken(guard.fill(), &generation, ledger, clock::mono()) =>
        {
            Joined::Again
        }
        FillHead::Part(generation) => {
            match joined(&job.ask, &generation.head().stored, job.now, clock::now()) {
                Some(_) => Joined::answered(in_part(job, generation, guard).await),
                None => Joined::Pass,
            }
        }
        FillHead::New(generation) => {
            // A response of which memory keeps only a window goes to each client as a stream of its own.
            let may = joined(&job.ask, &generation.head().stored, job.now, clock::now());
            if may.is_none() && generation.is_whole() {
                return Joined::Own(generation);
            }
            let is_for_all = !is_windowed(&generation) && guard.fill().is_shared();
            let refetch = outgoing::refetch(job.exchange, job.route).filter(|_| may.is_some() && is_for_all);
            let Some(refetch) = refetch else { return Joined::Pass };
            Joined::answered(match range::way(job, &generation, &guard) {
                Way::Fill => filled(job, generation, (guard, refetch)),
                Way::Separate => in_part(job, generation, guard).await,
                Way::Pass => return Joined::Pass,
            })
        }
        FillHead::Unchanged(ref generation) => {
            if joined(&job.ask, &generation.head().stored, job.now, clock::now()).is_none() {
                return Joined::Own(generation.clone());
            }
            Joined::answered(settled(job, head, &guard).await)
        }
        FillHead::Failed(ref failure) if failure.concern == Concern::Lead => Joined::Failed,
        FillHead::Shared(ref response) if response.concern == Concern::Lead => Joined::Failed,
        FillHead::Shared(ref response) if !matches(&response.variant, job.selecting(job.route)) => {
            Joined::Pass
        }
        FillHead::Declined(_, status) => stale_or_pass(job, Failure::Status(status)),
        FillHead::Withdrawn => Joined::Again,
        head => Joined::answered(settled(job, head, &guard).await),
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
async fn join_head(job: &mut Job<'_, '_, '_>, guard: &ReaderGuard) -> Waited {
    let longest = guard.fill().late_at();
    let slow_at = slow_at(job, guard.fill());
    let until = slow_at.map_or(longest, |slow_at| slow_at.min(longest));
    let waited = wait_head(job.exchange, guard, Some(until)).await;
    let is_early = until < longest && usable(job, Failure::Slow).is_none();
    match waited {
        Waited::Late if is_early => wait_head(job.exchange, guard, Some(longest)).await,
        waited => waited,
    }
}

/// Whether the request selects a generation's variant.
fn answers(job: &Job<'_, '_, '_>, generation: &Generation) -> bool {
    matches(&generation.head().stored.variant, job.selecting(job.route))
}

/// What any reader does with a head that brings no new body.
async fn settled(job: &mut Job<'_, '_, '_>, head: FillHead, guard: &ReaderGuard) -> Response {
    match head {
        FillHead::Unchanged(generation) if answers(job, &generation) => {
            job.cache_status = job.cache_status.answered(StatusCode::NOT_MODIFIED);
            match parts::confirm(job.exchange, job.route, &job.ask, &generation).await {
                Confirmed::Held | Confirmed::Coming => {}
                Confirmed::Refused | Confirmed::Gone => {
                    return passed(job).await;
                }
                Confirmed::Left => return job.left(),
            }
            serve::confirmed(job, generation, guard)
        }
        FillHead::Shared(response)
            if affinity::is_elsewhere(job.exchange.note, job.route, &response.origin) =>
        {
            passed(job).await
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
async fn handed_over(job: &mut Job<'_, '_, '_>, for_lead: Option<ForLead>) -> Response {
    match for_lead {
        Some(ForLead::Response(response)) if response.status == http::StatusCode::NOT_MODIFIED => {
            pass::pass(job.exchange, job.route, job.cache_status).await
        }
        Some(ForLead::Response(response)) => {
            pass::relay(job.exchange, job.route, response, Upload::none(), job.cache_status)
        }
        Some(ForLead::Fields(_) | ForLead::UnvalidatedPart(_)) | None => {
            local::internal(job.exchange, "fill-aborted")
        }
    }
}

fn shared(job: &mut Job<'_, '_, '_>, response: &SharedResponse) -> Response {
    job.origin = Some(response.origin.clone());
    job.cache_status = job.cache_status.answered(response.status).not_stored(response.reason);
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

/// The place to lead from. A client whose request for this key hung a moment ago leads only fills that nobody
/// may join. Else it could make all others wait for one hung request after another.
fn joinable(
    exchange: &Exchange<'_, '_>,
    place: inflight::Lead,
    asker: Asker<'_>,
    key: &CacheKey,
) -> inflight::Lead {
    let (shared, now) = (&exchange.core.shared, clock::mono());
    if exchange.sharer().is_none() || !shared.inflight.recent.was_late(key.digest, asker.client, now) {
        return place;
    }
    drop(place);
    shared.inflight.lead_unshared(asker, shared.store.ledger(), key, now)
}

/// A short error response of the origin, shared by all requests that waited for it.
fn given_to_all(job: &mut Job<'_, '_, '_>, response: &SharedResponse) -> Response {
    let cache_status = job.cache_status;
    cache_status.note(&mut job.facts);
    let made =
        pass::relayed(job.exchange, job.route, response.status, response.headers.clone(), cache_status);
    response::with_bytes(made, &job.request.method, response.body.clone())
}
