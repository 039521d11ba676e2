//! Fetching what is not held: lead a fill, join one, or go past the cache, as the desk says; and what a
//! fill's head means to each request that waits for it. RFC 9111 §4 (collapsed requests), §4.2.4.

pub(crate) mod posted;
mod range;
pub(crate) mod stale;

use std::sync::Arc;
use std::time::Instant;

use http::header::IF_RANGE;
use http::{HeaderMap, StatusCode};
use tokio::sync::{mpsc, oneshot};
use weir_policy::{
    Ask, AskKind, CacheKey, Failure, NotStored, PassReason, Reusable, Verdict, joined, matches, verdict,
};
use weir_store::Generation;
use weir_upstream::{Interim, InterimSender};

use crate::conn::After;
use crate::conn::body::Upload;
use crate::exchange::{Exchange, forwarded};
use crate::fill::again::Again;
use crate::fill::desk::{self, Plan};
use crate::fill::tally;
use crate::fill::task::{self, Errand, Handed, Sharing};
use crate::fill::upstreams::{FILLS_PER_ORIGIN_MAX, Place, PlacesMax};
use crate::fill::witness::Witness;
use crate::fill::{Concern, FillHead, OriginFailure, Seat, SharedResponse, is_windowed};
use crate::local;
use crate::lookup;
use crate::parts::{self, Confirmed};
use crate::plan::Route;
use crate::told::Told;
use crate::{outgoing, pass, serve};
use weir_clock as clock;
use weir_observe::Outcome;

use self::range::{Way, in_part, is_for_nobody, is_past_the_cache, want};
pub(crate) use self::range::{chunk_bytes, cold};
use self::stale::{STALE_AFTER, slow_at, stale_instead, stale_out, usable};

/// How often a request plans again because the fill that it joined brought another variant, failed
/// for its lead alone, or hangs.
const PLANS_MAX: usize = 3;

/// What a joiner makes of a fill.
enum Joined {
    Answered(After),
    Again,
    /// Its lead's request may have made it fail.
    Failed,
    /// Confirmed for its lead alone: this request has to ask about it on its own.
    Own(Arc<Generation>),
    Pass,
}

/// How waiting for a head ended.
enum Waited {
    Head(FillHead),
    Late,
    Gone,
}

/// Fetches what the request asks for; `validating` is what it selects of what is held, and may still be good.
pub(crate) async fn fetch(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    validating: Option<Arc<Generation>>,
    told: Told,
) -> After {
    if exchange.count().is_err() {
        return local::too_many(exchange).await;
    }
    if ask.kind == AskKind::Head {
        return pass::pass(exchange, route, told).await;
    }
    let key = lookup::key(exchange, route);
    let want = want(exchange, ask);
    if ask.is_authenticated() && is_past_the_cache(exchange, &key, want) {
        return pass::pass(exchange, route, told).await;
    }
    let mut have_failed = false;
    let who = (exchange.worker.core, Witness::of(exchange.client()));
    for _ in 0..PLANS_MAX {
        let (desk, ledger) = (&exchange.worker.plane.desk, exchange.worker.plane.store.ledger());
        let plan = match ask.is_authenticated() {
            true => Plan::Lead(desk.alone(who, (&key, ledger), exchange.now.mono)),
            false => desk.plan(who, (&key, ledger), want, &exchange.head.headers, clock::mono()),
        };
        match plan {
            Plan::Lead(place) => {
                let place = joinable(exchange, place, who, &key);
                return lead(exchange, route, ask, validating, place, told).await;
            }
            Plan::Join(seat) => match join(exchange, route, ask, validating.as_ref(), seat, told).await {
                Joined::Answered(after) => return after,
                Joined::Again => {}
                Joined::Failed => have_failed = true,
                Joined::Own(held) => {
                    let place = desk.alone(who, (&key, ledger), clock::mono());
                    return lead(exchange, route, ask, Some(held), place, told).await;
                }
                Joined::Pass => return pass::pass(exchange, route, told).await,
            },
            Plan::Pass(reason) => {
                let told = Told::pass(PassReason::Uncacheable).not_stored(reason);
                return pass::pass(exchange, route, told).await;
            }
            Plan::Apart => break,
            Plan::Failed(failure) => {
                return failed(exchange, route, ask, validating.as_ref(), &failure, told).await;
            }
        }
    }
    if have_failed {
        // Others' failures are not this request's: it asks for itself, and who waits for nobody gets an answer of its own.
        let ledger = exchange.worker.plane.store.ledger();
        let place = exchange.worker.plane.desk.alone(who, (&key, ledger), clock::mono());
        return lead(exchange, route, ask, validating, place, told).await;
    }
    pass::pass(exchange, route, told).await
}

/// Sends the fill's request and waits for its head.
async fn lead(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    validating: Option<Arc<Generation>>,
    place: desk::Lead,
    told: Told,
) -> After {
    if let Some((generation, reusable)) = published(exchange, route, ask, validating.as_ref()) {
        drop(place);
        return held_by_now(exchange, route, ask, generation, reusable, told).await;
    }
    let sharing = sharing(ask);
    let Some(again) = again(exchange, route) else { return local::no_upstream(exchange).await };
    // A client that has its share leads no fill: others would join it, and wait for that share with it.
    let is_spent = again.upstream.is_spent(again.client);
    let Some(among) = place_among_fills(exchange, &again).filter(|_| !is_spent) else {
        drop(place);
        return match stale_instead(exchange, route, ask, validating.as_ref(), Failure::Slow, told).await {
            Some(after) => after,
            None => pass::pass(exchange, route, told).await,
        };
    };
    let mut errand = errand(exchange, route, validating.as_ref(), sharing, (again.clone(), among));
    errand.cold = cold(exchange, route, ask, &lookup::key(exchange, route), validating.as_ref());
    let asked_for = if errand.cold.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let Some(seat) = place.begin() else { return local::internal(exchange, "no-seat").await };
    let kept = errand.seat.clone();
    let (interim, mut interims) = mpsc::unbounded_channel();
    let mut handed = task::start(errand, seat.fill().clone(), interim_sender(exchange, interim));
    let slow_at = slow_at(exchange, route, ask, validating.as_ref(), seat.fill());
    let mut waited = wait_head(exchange, &seat, &mut interims, slow_at).await;
    if let Waited::Late = waited {
        if let Some(stale) = usable(exchange, ask, validating.as_ref(), Failure::Slow) {
            // The fill goes on as one of the background.
            *kept.lock() = Some(seat);
            drop((kept, handed));
            return stale_out(exchange, route, ask, stale, STALE_AFTER, told).await;
        }
        waited = wait_head(exchange, &seat, &mut interims, None).await;
    }
    let Waited::Head(head) = waited else { return exchange.left() };
    exchange.origin = seat.fill().origin().cloned();
    match head {
        FillHead::Declined(reason, status) => {
            declined(exchange, route, ask, validating.as_ref(), (reason, status), handed, told).await
        }
        FillHead::Part(generation) => {
            exchange.own_fields = own_fields(&mut handed);
            let told = told.answered(asked_for);
            in_part(exchange, route, ask, generation, seat, told).await
        }
        FillHead::New(generation) => {
            exchange.own_fields = own_fields(&mut handed);
            let told = told.answered(generation.head().stored.status);
            filled(exchange, route, ask, generation, (seat, again), told).await
        }
        head => settled(exchange, route, ask, validating.as_ref(), head, &seat, told).await,
    }
}

/// Whether others may join what the request leads.
fn sharing(ask: &Ask) -> Sharing {
    match ask.is_authenticated() {
        true => Sharing::Alone,
        false => Sharing::Shared,
    }
}

/// Serves what another has brought meanwhile.
async fn held_by_now(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    generation: Arc<Generation>,
    reusable: Reusable,
    told: Told,
) -> After {
    match parts::confirm(exchange, route, ask, &generation).await {
        Confirmed::Refused | Confirmed::Gone => pass::pass(exchange, route, told).await,
        Confirmed::Left => exchange.left(),
        Confirmed::Held | Confirmed::Coming => {
            serve::held(exchange, route, ask, generation, reusable, Told::hit(&reusable)).await
        }
    }
}

/// What the lead does with what is not stored.
async fn declined(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    validating: Option<&Arc<Generation>>,
    (reason, status): (NotStored, StatusCode),
    handed: oneshot::Receiver<Handed>,
    told: Told,
) -> After {
    let told = told.answered(status);
    let handed = match handed.await {
        // Who has a part already may not be sent one of what may be another version: that is the origin's to say.
        Ok(Handed::Alone(response)) if !exchange.head.headers.contains_key(IF_RANGE) => {
            return local::shared(exchange, route, &response, told).await;
        }
        handed => handed.ok(),
    };
    let told = told.not_stored(reason);
    match stale_instead(exchange, route, ask, validating, Failure::Status(status), told).await {
        Some(after) => after,
        // Not what the client asked for, or not as it did.
        None if is_for_nobody(exchange, status) => pass::pass(exchange, route, told).await,
        None => handed_over(exchange, route, handed, told).await,
    }
}

/// The origin's fields, where some of them are for the lead alone.
fn own_fields(handed: &mut oneshot::Receiver<Handed>) -> Option<HeaderMap> {
    match handed.try_recv() {
        Ok(Handed::Fields(fields)) => Some(fields),
        _ => None,
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
    validating: Option<&Arc<Generation>>,
) -> Option<(Arc<Generation>, Reusable)> {
    // Of what was found not to be had a moment ago nothing more is asked.
    let is_wanted = |held: &Arc<Generation>| held.is_whole() || !exchange.found_gone;
    let generation = lookup::at_hand(exchange, route).generation.filter(is_wanted)?;
    let is_known = validating.is_some_and(|old| Arc::ptr_eq(old, &generation));
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
    validating: Option<&Arc<Generation>>,
    seat: Seat,
    told: Told,
) -> Joined {
    exchange.worker.observer.counters().collapsed();
    let told = told.collapsed();
    let head = match join_head(exchange, route, ask, validating, &seat).await {
        Waited::Head(head) => head,
        Waited::Gone => return Joined::Answered(exchange.left()),
        Waited::Late => {
            let stale = stale_instead(exchange, route, ask, validating, Failure::Slow, told).await;
            // One of those who wait leads again, and the others join that one.
            return stale.map_or(Joined::Again, Joined::Answered);
        }
    };
    exchange.origin = seat.fill().origin().cloned();
    let ledger = exchange.worker.plane.store.ledger();
    match head {
        FillHead::New(generation) | FillHead::Unchanged(generation) | FillHead::Part(generation)
            if !answers(exchange, &generation) || desk::is_overtaken(seat.fill(), &generation, ledger) =>
        {
            Joined::Again
        }
        FillHead::Part(generation) => {
            match joined(ask, &generation.head().stored, exchange.now, clock::now()) {
                Some(_) => Joined::Answered(in_part(exchange, route, ask, generation, seat, told).await),
                None => Joined::Pass,
            }
        }
        FillHead::New(generation) => {
            // What only a window is kept of streams to each client by itself.
            let may = joined(ask, &generation.head().stored, exchange.now, clock::now());
            if may.is_none() && generation.is_whole() {
                return Joined::Own(generation);
            }
            let again = again(exchange, route).filter(|_| may.is_some() && !is_windowed(&generation));
            let Some(again) = again else { return Joined::Pass };
            Joined::Answered(match range::way(exchange, ask, &generation, &seat) {
                Way::Fill => filled(exchange, route, ask, generation, (seat, again), told).await,
                Way::Apart => in_part(exchange, route, ask, generation, seat, told).await,
                Way::Pass => return Joined::Pass,
            })
        }
        FillHead::Unchanged(ref generation) => {
            if joined(ask, &generation.head().stored, exchange.now, clock::now()).is_none() {
                return Joined::Own(generation.clone());
            }
            Joined::Answered(settled(exchange, route, ask, validating, head, &seat, told).await)
        }
        FillHead::Failed(ref failure) if failure.concern == Concern::Lead => Joined::Failed,
        FillHead::Shared(ref response) if response.concern == Concern::Lead => Joined::Failed,
        FillHead::Shared(ref response) if !matches(&response.variant, &exchange.head.headers) => Joined::Pass,
        FillHead::Declined(_, status) => {
            stale_or_pass(exchange, route, ask, validating, Failure::Status(status), told).await
        }
        FillHead::Withdrawn => Joined::Again,
        head => Joined::Answered(settled(exchange, route, ask, validating, head, &seat, told).await),
    }
}

async fn stale_or_pass(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    validating: Option<&Arc<Generation>>,
    failure: Failure,
    told: Told,
) -> Joined {
    match stale_instead(exchange, route, ask, validating, failure, told).await {
        Some(after) => Joined::Answered(after),
        None => Joined::Pass,
    }
}

/// A joiner's wait: until what is stale may go out, and no longer than [`HEAD_WAIT_MAX`](crate::fill::HEAD_WAIT_MAX).
async fn join_head(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    validating: Option<&Arc<Generation>>,
    seat: &Seat,
) -> Waited {
    let (_, mut none) = mpsc::unbounded_channel();
    let longest = seat.fill().late_at();
    let slow_at = slow_at(exchange, route, ask, validating, seat.fill());
    let until = slow_at.map_or(longest, |slow_at| slow_at.min(longest));
    let waited = wait_head(exchange, seat, &mut none, Some(until)).await;
    let is_early = until < longest && usable(exchange, ask, validating, Failure::Slow).is_none();
    match waited {
        Waited::Late if is_early => wait_head(exchange, seat, &mut none, Some(longest)).await,
        waited => waited,
    }
}

/// Whether a generation is of the variant that the request selects.
fn answers(exchange: &Exchange<'_>, generation: &Generation) -> bool {
    matches(&generation.head().stored.variant, &exchange.head.headers)
}

/// What any reader does with a head that brings no new body.
async fn settled(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    validating: Option<&Arc<Generation>>,
    head: FillHead,
    seat: &Seat,
    told: Told,
) -> After {
    match head {
        FillHead::Unchanged(generation) if answers(exchange, &generation) => {
            let told = told.answered(StatusCode::NOT_MODIFIED);
            match parts::confirm(exchange, route, ask, &generation).await {
                Confirmed::Held | Confirmed::Coming => {}
                Confirmed::Refused | Confirmed::Gone => return pass::pass(exchange, route, told).await,
                Confirmed::Left => return exchange.left(),
            }
            serve::confirmed(exchange, route, ask, generation, seat, told).await
        }
        FillHead::Shared(response) => shared(exchange, route, ask, validating, &response, told).await,
        FillHead::Failed(failure) => failed(exchange, route, ask, validating, &failure, told).await,
        FillHead::Unchanged(_)
        | FillHead::New(_)
        | FillHead::Part(_)
        | FillHead::Declined(..)
        | FillHead::Withdrawn => pass::pass(exchange, route, told).await,
    }
}

/// The lead's own stream of a response that is not stored.
async fn handed_over(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    handed: Option<Handed>,
    told: Told,
) -> After {
    match handed {
        Some(Handed::Response(response)) if response.status == http::StatusCode::NOT_MODIFIED => {
            pass::pass(exchange, route, told).await
        }
        Some(Handed::Response(response)) => {
            pass::relay(exchange, route, *response, Upload::none(), told).await
        }
        Some(Handed::Fields(_) | Handed::Alone(_)) | None => local::internal(exchange, "fill-aborted").await,
    }
}

async fn shared(
    exchange: &mut Exchange<'_>,
    route: &Arc<Route>,
    ask: &Ask,
    validating: Option<&Arc<Generation>>,
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
    validating: Option<&Arc<Generation>>,
    failure: &OriginFailure,
    told: Told,
) -> After {
    if let Some(after) = stale_instead(exchange, route, ask, validating, Failure::NoAnswer, told).await {
        return after;
    }
    exchange.outcome(Outcome::Miss, failure.word);
    local::origin_failed(exchange, failure).await
}

/// Waits for the head until then, or for as long as its fill does.
async fn wait_head(
    exchange: &mut Exchange<'_>,
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
            () = exchange.conn.client.gone() => {
                return Waited::Gone;
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
pub(crate) fn again(exchange: &Exchange<'_>, route: &Arc<Route>) -> Option<Arc<Again>> {
    Some(Arc::new(Again {
        upstream: exchange.running.upstream(route)?.clone(),
        target: forwarded(route, exchange.path_and_query()).into_owned(),
        headers: outgoing::for_fill(exchange, route),
        tally: tally::of_site(&exchange.worker.observer, exchange.facts.site),
        witness: Witness::of(exchange.client()),
        client: exchange.sharer(),
    }))
}

/// The place to lead from. A client whose request for this key hung a moment ago leads none that others may join: else it could
/// have all of them wait for one hung request after another.
fn joinable(exchange: &Exchange<'_>, place: desk::Lead, who: (usize, Witness), key: &CacheKey) -> desk::Lead {
    let (plane, now) = (&exchange.worker.plane, clock::mono());
    if exchange.sharer().is_none() || !plane.desk.memory.was_late(key.digest, who.1, now) {
        return place;
    }
    drop(place);
    plane.desk.alone(who, (key, plane.store.ledger()), now)
}

/// A place among the fills at the upstream.
pub(crate) fn place_among_fills(exchange: &Exchange<'_>, again: &Again) -> Option<Place> {
    let upstream = &again.upstream;
    let all = FILLS_PER_ORIGIN_MAX * upstream.origins().len();
    let most = PlacesMax { all, of_client: upstream.client_max(all) };
    exchange.worker.plane.desk.upstreams.place(upstream.name(), again.client, most)
}

/// What the fill has to know.
pub(crate) fn errand(
    exchange: &Exchange<'_>,
    route: &Arc<Route>,
    validating: Option<&Arc<Generation>>,
    shared: Sharing,
    (again, place): (Arc<Again>, Place),
) -> Errand {
    Errand {
        plane: exchange.worker.plane.clone(),
        observer: exchange.worker.observer.clone(),
        core: exchange.worker.core,
        route: route.clone(),
        again,
        scheme: exchange.scheme,
        host: exchange.head.host.as_str().into(),
        path_and_query: exchange.path_and_query().to_owned(),
        client_headers: exchange.head.headers.clone(),
        client: Witness::of(exchange.client()),
        validating: validating.cloned(),
        shared,
        cold: None,
        seat: Arc::default(),
        _place: place,
    }
}
