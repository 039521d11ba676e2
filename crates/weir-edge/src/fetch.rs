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
use crate::exchange::{Asked, Chosen, Exchange};
use crate::job::Job;
use crate::local;
use crate::lookup;
use crate::parts::{self, Confirmed};
use crate::response::{self, Response};
use crate::upload::Upload;
use crate::{affinity, give_way, outgoing, pass, serve};
use weir_clock as clock;
use weir_fill::inflight::{self, Asker, Lead, Plan, Wanted};
use weir_fill::recent::digest_of_visitors;
use weir_fill::refetch::Refetch;
use weir_fill::task::{self, ForLead, Led, Sharing};
use weir_fill::{Concern, FillHead, OriginFailure, ReaderGuard, SharedResponse, is_windowed};
use weir_observe::Outcome;
use weir_observe::trace::{HeadWord, Step};

pub(crate) use self::range::cold;
use self::range::{Way, in_part, is_for_nobody, is_past_the_cache, want};
pub(crate) use self::signed::Asks;
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
pub(crate) async fn fetch(exchange: &mut Exchange<'_, '_>, job: &mut Job) -> Response {
    let (asked, chosen) = (exchange.asked, exchange.chosen);
    if exchange.count().is_err() {
        return local::too_many(asked, exchange.told);
    }
    if job.ask.kind == AskKind::Head && chosen.route.rules.head == HeadRequests::Pass {
        return passed(exchange, job).await;
    }
    let key = lookup::key(asked, chosen);
    let want = want(asked, job);
    if job.ask.is_authenticated() && is_past_the_cache(asked, &key, want) {
        return passed(exchange, job).await;
    }
    if let Some(cache_status) = by_itself(asked, chosen, job, &key) {
        job.cache_status = cache_status;
        return passed(exchange, job).await;
    }
    let cache_status = job.cache_status;
    let mut have_failed = false;
    let asker = asked.asker();
    for _ in 0..PLANS_MAX {
        let (inflight, ledger) = (&asked.core.shared.inflight, asked.core.shared.store.ledger());
        let plan = match job.ask.is_authenticated() {
            true => Plan::Lead(inflight.lead_unshared(asker, ledger, &key, asked.now.mono)),
            false => {
                let wanted = Wanted { key: &key, interval: want, headers: chosen.selecting(asked) };
                inflight.plan(asker, ledger, wanted, clock::mono())
            }
        };
        match plan {
            Plan::Lead(place) => {
                let place = joinable(asked, place, asker, &key);
                return lead(exchange, job, place, &key).await;
            }
            Plan::Join(guard) => match join(exchange, job, guard).await {
                Joined::Answered(response) => return *response,
                Joined::Again => job.cache_status = cache_status,
                Joined::Failed => (job.cache_status, have_failed) = (cache_status, true),
                Joined::Own(held) => {
                    let place = inflight.lead_unshared(asker, ledger, &key, clock::mono());
                    (job.validating, job.cache_status) = (Some(held), cache_status);
                    return lead(exchange, job, place, &key).await;
                }
                Joined::Pass => {
                    job.cache_status = cache_status;
                    return passed(exchange, job).await;
                }
            },
            Plan::Pass(reason) => {
                job.cache_status = CacheStatus::pass(PassReason::Uncacheable).not_stored(reason);
                return passed(exchange, job).await;
            }
            Plan::Separate if asked.warming.is_some() => return give_way::gave_way(exchange.told),
            Plan::Separate => break,
            Plan::Failed(failure) => {
                return failed(exchange, job, &failure);
            }
        }
    }
    if have_failed {
        // Failures of other clients' requests do not concern this one: it asks for itself, and a request that
        // waits for nobody gets its own answer.
        let ledger = asked.core.shared.store.ledger();
        let place = asked.core.shared.inflight.lead_unshared(asker, ledger, &key, clock::mono());
        return lead(exchange, job, place, &key).await;
    }
    passed(exchange, job).await
}

/// How a response comes about that is not to be stored: its request may be signed, its key was not asked for
/// often enough, it is one visitor's, or those of its key were found not to be storable a moment ago. The
/// request then leads no fill that others would wait for, and joins none.
fn by_itself(asked: &Asked<'_>, chosen: &Chosen<'_>, job: &Job, key: &CacheKey) -> Option<CacheStatus> {
    if signed::goes_as_it_came(asked, job, key) {
        return Some(CacheStatus::pass(PassReason::Signed));
    }
    if !is_earned(asked, chosen, job, key) {
        return Some(job.cache_status.not_stored(NotStored::MinUses));
    }
    // What is known to be stored for nobody: each request asks for itself, however many there are at once.
    let recent = &asked.core.shared.inflight.recent;
    let declined = || recent.declined(key.digest, asked.now.mono).filter(|_| !job.ask.is_authenticated());
    let reason = is_a_visitors(asked, chosen, key).or_else(declined)?;
    Some(CacheStatus::pass(PassReason::Uncacheable).not_stored(reason))
}

/// Why the response is for this request alone, where a moment ago the key's response was found to vary by
/// cookie and the request has one that the key lacks. It then leads no fill that others would wait for.
fn is_a_visitors(asked: &Asked<'_>, chosen: &Chosen<'_>, key: &CacheKey) -> Option<NotStored> {
    if !has_unkeyed(&asked.request.headers, &chosen.route.rules.key) {
        return None;
    }
    asked.core.shared.inflight.recent.declined(digest_of_visitors(key.digest), asked.now.mono)
}

/// Whether the key has been asked for as often as the route wants before it stores anything of it. If not,
/// this request is noted.
fn is_earned(asked: &Asked<'_>, chosen: &Chosen<'_>, job: &Job, key: &CacheKey) -> bool {
    // A URL is warmed to be stored.
    let least = if asked.warming.is_some() { 1 } else { u32::from(chosen.route.rules.min_uses.memory) };
    let store = &asked.core.shared.store;
    if least < 2 || job.validating.is_some() || store.uses(key) + 1 >= least {
        return true;
    }
    store.note_request(key);
    false
}

/// Bypasses the cache with a request that the cache may answer. Where the origin gives no response, a stored
/// one may be served.
pub(crate) async fn passed(exchange: &mut Exchange<'_, '_>, job: &mut Job) -> Response {
    match Box::pin(pass::try_pass(exchange, job.cache_status)).await {
        Ok(response) => response,
        Err(failure) => match stale_instead(exchange, job, failure.kind) {
            Some(stale) => stale,
            None => pass::failed(exchange, &failure, job.cache_status),
        },
    }
}

/// Sends the fill's request and waits for its head.
async fn lead(exchange: &mut Exchange<'_, '_>, job: &mut Job, place: Lead, key: &CacheKey) -> Response {
    let (asked, chosen) = (exchange.asked, exchange.chosen);
    if let Some((generation, reusable)) = published(asked, chosen, job) {
        drop(place);
        exchange.told.step(|| Step::Answered(HeadWord::Held));
        return held_by_now(exchange, job, generation, reusable).await;
    }
    let sharing = Sharing::of(&job.ask);
    exchange.told.leads(place.company());
    let Some(refetch) = outgoing::refetch(asked, chosen, exchange.told) else {
        return local::no_upstream(asked, exchange.told);
    };
    exchange.told.sends(asked, &refetch.headers);
    // A client that has used up its share leads no fill: joiners would wait for that share with it.
    let is_spent = refetch.upstream.is_spent(refetch.client);
    let Some(among) = outgoing::fill_permit(asked, &refetch).filter(|_| !is_spent) else {
        drop(place);
        return without_place(exchange, job).await;
    };
    let mut fill_request = outgoing::fill_request(asked, chosen, sharing, (refetch.clone(), among));
    fill_request.validating.clone_from(&job.validating);
    fill_request.cold = cold(asked, chosen, job, key);
    job.asks = signed::asks(asked, job, fill_request.cold);
    fill_request.is_changed = job.asks == Asks::Otherwise;
    let asked_for = if fill_request.cold.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let Some(guard) = place.begin() else { return local::internal(asked, exchange.told, "no-seat") };
    let parked = fill_request.parked.clone();
    let (interim, mut interims) = mpsc::unbounded_channel();
    let interim = outgoing::interim_sender(asked, interim);
    let mut led = task::begin(fill_request, guard.fill().clone(), interim);
    let slow_at = slow_at(asked, chosen, job, guard.fill());
    let mut waited = lead_head(exchange, &guard, (&mut led, &mut interims), slow_at).await;
    if let Waited::Late = waited {
        if let Some(instead) = usable(asked, chosen, job, Failure::Slow) {
            exchange.told.step(|| Step::Answered(HeadWord::Late));
            // The fill continues in the background.
            *parked.lock() = Some(guard);
            drop((parked, led));
            return stale_out(exchange, job, instead);
        }
        waited = lead_head(exchange, &guard, (&mut led, &mut interims), None).await;
    }
    let Waited::Head(head) = waited else { return exchange.left() };
    exchange.told.answered_by(&head);
    exchange.told.brought_by(guard.fill());
    match head {
        FillHead::Declined(reason, status) => declined(exchange, job, (reason, status), led).await,
        FillHead::Part(generation) => {
            job.own_fields = own_fields(&mut led).map(Box::new);
            job.cache_status = job.cache_status.answered(asked_for);
            in_part(exchange, job, generation, guard).await
        }
        FillHead::New(generation) => {
            job.own_fields = own_fields(&mut led).map(Box::new);
            job.cache_status = job.cache_status.answered(generation.head().stored.status);
            if job.ask.kind == AskKind::Head {
                let response = head_alone(exchange, job, generation, &guard);
                // The fill continues without a reader.
                *parked.lock() = Some(guard);
                return response;
            }
            filled(exchange, job, generation, (guard, refetch))
        }
        head => settled(exchange, job, head, &guard).await,
    }
}

/// A request that leads no fill, since its client or the upstream has none to spare.
async fn without_place(exchange: &mut Exchange<'_, '_>, job: &mut Job) -> Response {
    if exchange.asked.warming.is_some() {
        return give_way::gave_way(exchange.told);
    }
    match stale_instead(exchange, job, Failure::Slow) {
        Some(after) => after,
        None => passed(exchange, job).await,
    }
}

/// Serves what another request has brought in the meantime.
async fn held_by_now(
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    generation: Arc<Generation>,
    reusable: Reusable,
) -> Response {
    match parts::confirm(exchange, job, &generation).await {
        Confirmed::Refused | Confirmed::Gone => pass::pass(exchange, job.cache_status).await,
        Confirmed::Left => exchange.left(),
        Confirmed::Held | Confirmed::Coming => {
            job.cache_status = CacheStatus::hit(&reusable);
            serve::held(exchange, job, generation, reusable)
        }
    }
}

/// What the lead does with a response that is not stored.
async fn declined(
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    (reason, status): (NotStored, StatusCode),
    mut led: Led,
) -> Response {
    let asked = exchange.asked;
    job.cache_status = job.cache_status.answered(status);
    let for_lead = match (&mut led.for_lead).await {
        // A client that holds a part already may not get a part that could be of another version. Which part
        // it gets is the origin's decision.
        Ok(ForLead::UnvalidatedPart(response)) if !asked.request.headers.contains_key(IF_RANGE) => {
            if affinity::is_elsewhere(asked, exchange.chosen, &response.origin) {
                return passed(exchange, job).await;
            }
            return given_to_all(exchange, job, &response);
        }
        for_lead => for_lead.ok(),
    };
    job.cache_status = job.cache_status.not_stored(reason);
    match stale_instead(exchange, job, Failure::Status(status)) {
        Some(after) => after,
        // The response is not what the client asked for, or the fill asked in another way.
        None if is_for_nobody(asked, status) => passed(exchange, job).await,
        // What the client has signed was changed: it is asked again as it came.
        None if job.asks == Asks::Otherwise && weir_policy::may_be_of_signature(status) => {
            passed(exchange, job).await
        }
        // A fill follows no session: what an origin said that has none with this client is not for it.
        None if is_of_another(asked, exchange.chosen, &for_lead) => passed(exchange, job).await,
        None => handed_over(exchange, job, for_lead).await,
    }
}

/// Whether the response came from another origin than the one that has the client's session.
fn is_of_another(asked: &Asked<'_>, chosen: &Chosen<'_>, for_lead: &Option<ForLead>) -> bool {
    let Some(ForLead::Response(response)) = for_lead else { return false };
    affinity::is_elsewhere(asked, chosen, response.origin.name())
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
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    generation: Arc<Generation>,
    from: (ReaderGuard, Arc<Refetch>),
) -> Response {
    note_stored(job, &generation);
    serve::filled(exchange, job, generation, from)
}

/// Answers a HEAD by the head of a generation that a fill is bringing.
fn head_alone(
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    generation: Arc<Generation>,
    guard: &ReaderGuard,
) -> Response {
    note_stored(job, &generation);
    serve::head_alone(exchange, job, generation, guard)
}

fn note_stored(job: &mut Job, generation: &Generation) {
    let stored = &generation.head().stored;
    let left_s = weir_policy::freshness(stored, clock::now()).left_s();
    job.cache_status = job.cache_status.stored(left_s, stored.facts.lifetime_from());
}

/// Another fill may have published between this request's look-up and its plan. Then the origin is not asked
/// twice.
fn published(asked: &Asked<'_>, chosen: &Chosen<'_>, job: &Job) -> Option<(Arc<Generation>, Reusable)> {
    // A part whose rest could not be had a moment ago is not asked for again.
    let is_wanted = |held: &Arc<Generation>| held.is_whole() || !job.found_gone;
    let generation = lookup::at_hand(asked, chosen).generation.filter(is_wanted)?;
    let is_known = job.validating.as_ref().is_some_and(|old| Arc::ptr_eq(old, &generation));
    if is_known && !is_fresher(asked, &generation) {
        return None;
    }
    match verdict(&job.ask, Some(&generation.head().stored), clock::now()) {
        Verdict::Hit(reusable) => Some((generation, reusable)),
        _ => None,
    }
}

fn is_fresher(asked: &Asked<'_>, generation: &Generation) -> bool {
    weir_policy::freshness(&generation.head().stored, asked.now).is_fresh()
}

/// Waits for the head of a running fill.
async fn join(exchange: &mut Exchange<'_, '_>, job: &mut Job, guard: ReaderGuard) -> Joined {
    let asked = exchange.asked;
    asked.core.observer.counters().collapsed();
    exchange.told.step(|| Step::Joined);
    job.cache_status = job.cache_status.collapsed();
    if let Some(cause) = exchange.told.cause(asked) {
        cause.reads(&guard.fill().asks());
    }
    let head = match join_head(exchange, job, &guard).await {
        Waited::Head(head) => head,
        Waited::Gone => return Joined::answered(exchange.left()),
        Waited::Late => {
            exchange.told.step(|| Step::Answered(HeadWord::Late));
            let stale = stale_instead(exchange, job, Failure::Slow);
            // One of the waiting requests leads again, and the others join it.
            return stale.map_or(Joined::Again, Joined::answered);
        }
    };
    exchange.told.answered_by(&head);
    exchange.told.brought_by(guard.fill());
    let ledger = asked.core.shared.store.ledger();
    match head {
        FillHead::New(generation) | FillHead::Unchanged(generation) | FillHead::Part(generation)
            if !answers(asked, exchange.chosen, &generation)
                || inflight::is_overtaken(guard.fill(), &generation, ledger, clock::mono()) =>
        {
            Joined::Again
        }
        FillHead::Part(generation) => {
            match joined(&job.ask, &generation.head().stored, asked.now, clock::now()) {
                Some(_) => Joined::answered(in_part(exchange, job, generation, guard).await),
                None => Joined::Pass,
            }
        }
        FillHead::New(generation) => {
            // A response of which memory keeps only a window goes to each client as a stream of its own.
            let may = joined(&job.ask, &generation.head().stored, asked.now, clock::now());
            if may.is_none() && generation.is_whole() {
                return Joined::Own(generation);
            }
            let is_for_all = !is_windowed(&generation) && guard.fill().is_shared();
            let refetch = outgoing::refetch(asked, exchange.chosen, exchange.told)
                .filter(|_| may.is_some() && is_for_all);
            let Some(refetch) = refetch else { return Joined::Pass };
            Joined::answered(match range::way(asked, job, &generation, &guard) {
                Way::Fill => filled(exchange, job, generation, (guard, refetch)),
                Way::Separate => in_part(exchange, job, generation, guard).await,
                Way::Pass => return Joined::Pass,
            })
        }
        FillHead::Unchanged(ref generation) => {
            if joined(&job.ask, &generation.head().stored, asked.now, clock::now()).is_none() {
                return Joined::Own(generation.clone());
            }
            Joined::answered(settled(exchange, job, head, &guard).await)
        }
        FillHead::Failed(ref failure) if failure.concern == Concern::Lead => Joined::Failed,
        FillHead::Shared(ref response) if response.concern == Concern::Lead => Joined::Failed,
        FillHead::Shared(ref response) if !matches(&response.variant, exchange.chosen.selecting(asked)) => {
            Joined::Pass
        }
        FillHead::Declined(_, status) => stale_or_pass(exchange, job, Failure::Status(status)),
        FillHead::Withdrawn => Joined::Again,
        head => Joined::answered(settled(exchange, job, head, &guard).await),
    }
}

fn stale_or_pass(exchange: &mut Exchange<'_, '_>, job: &mut Job, failure: Failure) -> Joined {
    match stale_instead(exchange, job, failure) {
        Some(stale) => Joined::answered(stale),
        None => Joined::Pass,
    }
}

/// How long a joiner waits: until a stale response may be served, and at most
/// [`HEAD_WAIT_MAX`](weir_fill::HEAD_WAIT_MAX).
async fn join_head(exchange: &mut Exchange<'_, '_>, job: &Job, guard: &ReaderGuard) -> Waited {
    let longest = guard.fill().late_at();
    let slow_at = slow_at(exchange.asked, exchange.chosen, job, guard.fill());
    let until = slow_at.map_or(longest, |slow_at| slow_at.min(longest));
    let waited = wait_head(exchange.client, guard, Some(until)).await;
    let is_early = until < longest && usable(exchange.asked, exchange.chosen, job, Failure::Slow).is_none();
    match waited {
        Waited::Late if is_early => wait_head(exchange.client, guard, Some(longest)).await,
        waited => waited,
    }
}

/// Whether the request selects a generation's variant.
fn answers(asked: &Asked<'_>, chosen: &Chosen<'_>, generation: &Generation) -> bool {
    matches(&generation.head().stored.variant, chosen.selecting(asked))
}

/// What any reader does with a head that brings no new body.
async fn settled(
    exchange: &mut Exchange<'_, '_>,
    job: &mut Job,
    head: FillHead,
    guard: &ReaderGuard,
) -> Response {
    match head {
        FillHead::Unchanged(generation) if answers(exchange.asked, exchange.chosen, &generation) => {
            job.cache_status = job.cache_status.answered(StatusCode::NOT_MODIFIED);
            match parts::confirm(exchange, job, &generation).await {
                Confirmed::Held | Confirmed::Coming => {}
                Confirmed::Refused | Confirmed::Gone => {
                    return passed(exchange, job).await;
                }
                Confirmed::Left => return exchange.left(),
            }
            serve::confirmed(exchange, job, generation, guard)
        }
        FillHead::Shared(response)
            if affinity::is_elsewhere(exchange.asked, exchange.chosen, &response.origin) =>
        {
            passed(exchange, job).await
        }
        FillHead::Shared(response) => shared(exchange, job, &response),
        FillHead::Failed(failure) => failed(exchange, job, &failure),
        FillHead::Unchanged(_)
        | FillHead::New(_)
        | FillHead::Part(_)
        | FillHead::Declined(..)
        | FillHead::Withdrawn => passed(exchange, job).await,
    }
}

/// The lead's own stream of a response that is not stored.
async fn handed_over(exchange: &mut Exchange<'_, '_>, job: &mut Job, for_lead: Option<ForLead>) -> Response {
    match for_lead {
        Some(ForLead::Response(response)) if response.status == http::StatusCode::NOT_MODIFIED => {
            pass::pass(exchange, job.cache_status).await
        }
        Some(ForLead::Response(response)) => {
            pass::relay(exchange, response, Upload::none(), job.cache_status)
        }
        Some(ForLead::Fields(_) | ForLead::UnvalidatedPart(_)) | None => {
            local::internal(exchange.asked, exchange.told, "fill-aborted")
        }
    }
}

fn shared(exchange: &mut Exchange<'_, '_>, job: &mut Job, response: &SharedResponse) -> Response {
    exchange.told.origin = Some(response.origin.clone());
    job.cache_status = job.cache_status.answered(response.status).not_stored(response.reason);
    let failure = Failure::Status(response.status);
    if let Some(after) = stale_instead(exchange, job, failure) {
        return after;
    }
    given_to_all(exchange, job, response)
}

fn failed(exchange: &mut Exchange<'_, '_>, job: &mut Job, failure: &OriginFailure) -> Response {
    if let Some(after) = stale_instead(exchange, job, failure.kind) {
        return after;
    }
    exchange.told.outcome(Outcome::Miss, failure.word);
    local::origin_failed(exchange.asked, exchange.told, failure)
}

/// The place to lead from. A client whose request for this key hung a moment ago leads only fills that nobody
/// may join. Else it could make all others wait for one hung request after another.
fn joinable(asked: &Asked<'_>, place: Lead, asker: Asker<'_>, key: &CacheKey) -> Lead {
    let (shared, now) = (&asked.core.shared, clock::mono());
    if asked.sharer().is_none() || !shared.inflight.recent.was_late(key.digest, asker.client, now) {
        return place;
    }
    drop(place);
    shared.inflight.lead_unshared(asker, shared.store.ledger(), key, now)
}

/// A short error response of the origin, shared by all requests that waited for it.
fn given_to_all(exchange: &mut Exchange<'_, '_>, job: &mut Job, response: &SharedResponse) -> Response {
    let cache_status = job.cache_status;
    cache_status.note(&mut exchange.told.facts);
    let made = pass::relayed(
        exchange.asked,
        exchange.chosen,
        response.status,
        response.headers.clone(),
        cache_status,
    );
    response::with_bytes(made, &exchange.asked.request.method, response.body.clone())
}
