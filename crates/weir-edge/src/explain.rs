//! Explaining a request: the walk of a request without its effects. Nothing is sent, stored or counted. The
//! words are those of the access log and of `Cache-Status`, taken from the same tables.

mod foretold;
mod gates;
mod origin;
mod question;
mod wording;

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use weir_policy::cookies::{has_unkeyed, unkeyed};
use weir_policy::{
    Ask, AskKind, CacheKey, CacheRules, Failure, Freshness, HeadRequests, Interval, Intervals, KeyParts,
    NotStored, Now, PassReason, RequestView, Reusable, RevalidateReason, Selecting, StaleRules, Stored,
    StoredFlags, accept_encoding, against_stale, error_reusable, freshness, matches, unreachable_window,
    write_key,
};
use weir_share::Client;
use weir_store::{Found, Generation};
use weir_upstream::affinity as sessions;

pub use self::foretold::Foretold;
use self::gates::{before, up_to};
pub use self::origin::{Asked, OriginChoice, OriginConsidered};
use self::origin::{Towards, Way, asked};
pub use self::question::Question;
use self::question::Request;
use self::wording::{dropped, not_in_key, tags, triggers};
use crate::affinity;
use crate::cache_status::CacheStatus;
use crate::cookies;
use crate::decide::{self, Beside, Consulted, Decision, Fulfilled};
use crate::fetch::stale::word;
use crate::gates::{After, Gate};
use crate::local::Reply;
use crate::lookup;
use crate::placed::{Placed, Routed, placed};
use crate::plan::Route;
use crate::route::{Rewritten, Via};
use crate::shared::Shared;
use crate::values::OfRequest;
use weir_clock as clock;
use weir_fill::recent::{RecentOutcomes, digest_of_visitors};
use weir_front::listen::Peer;
use weir_observe::Outcome;

/// A variant that is held under the key.
#[derive(Clone, Debug)]
pub struct StoredVariant {
    /// Whether the request selects it.
    pub selected: bool,
    /// Its status.
    pub status: u16,
    /// Its freshness.
    pub freshness: Freshness,
    /// Where its lifetime comes from, in the word of the log.
    pub lifetime_from: &'static str,
    /// Until when it is fresh, where a retention says so.
    pub retained_until: Option<SystemTime>,
    /// For how long after its lifetime this route serves it where the origin gives no answer at all.
    pub if_unreachable: Duration,
    /// What the tables by status of the route say of its status.
    pub by_status: Vec<String>,
    /// What else limits its use: `no-cache`, `immutable`, `soft-purged`, `suspect`, and what is
    /// [`against_stale`].
    pub marks: Vec<&'static str>,
    /// Its body's length in bytes.
    pub length: Option<u64>,
    /// The bytes of the body that are held, in memory or on a volume.
    pub held: Vec<Range<u64>>,
    /// How many of them memory has.
    pub memory_bytes: u64,
    /// The volume that it is on.
    pub volume: Option<Arc<str>>,
    /// Its fields, as they are stored.
    pub fields: Vec<(String, String)>,
    /// Its entity tag.
    pub etag: Option<String>,
    /// The fields that select it, each with the value it was stored for; `None` where the field was absent.
    pub selecting: Vec<(String, Option<String>)>,
    /// Its tags, as the origin gave them.
    pub tags: Vec<String>,
}

/// What would happen to a request.
#[derive(Clone, Debug, Default)]
pub struct Explanation {
    /// The site's name.
    pub site: Option<String>,
    /// The route's name.
    pub route: Option<String>,
    /// File and line of the route.
    pub place: Option<String>,
    /// What the maps say that the route uses.
    pub maps: Vec<String>,
    /// The upstream's name.
    pub upstream: Option<String>,
    /// The key.
    pub key: Option<String>,
    /// What the path is rewritten to for the origin, and by which rule.
    pub rewritten: Option<String>,
    /// Parts of the query that the key and the request to the origin lack, or have in another order.
    pub dropped: Vec<String>,
    /// Names of cookies that the route takes out of the request.
    pub cookies_dropped: Vec<String>,
    /// Names of cookies that are left and are not in the key.
    pub cookies_not_in_key: Vec<String>,
    /// Fields of the request that are not in the key.
    pub not_in_key: Vec<String>,
    /// What the origin would be asked for.
    pub asked: Option<Asked>,
    /// The gates that the request comes to, in order, and what each asks; it ends at the last one.
    pub gates: Vec<(&'static str, &'static str)>,
    /// What it would come to.
    pub verdict: Foretold,
    /// Why, in the log's word; empty for a hit.
    pub reason: &'static str,
    /// Why, in a sentence.
    pub because: String,
    /// What `Cache-Status` would say first. The walk adds what the origin answers.
    pub cache_status: Option<String>,
    /// Why recent responses to this key were not stored.
    pub not_stored: Option<&'static str>,
    /// Why the origin gave no response for this key a moment ago.
    pub failed: Option<&'static str>,
    /// What is held.
    pub stored: Vec<StoredVariant>,
    /// Why what is held may differ from what the reader expects.
    pub hint: Option<&'static str>,
    /// What makes a request here bypass the cache.
    pub bypass: Vec<String>,
    /// What makes a request here fetch again.
    pub refresh: Vec<String>,
    /// What keeps the response to a request here from being stored.
    pub no_store: Vec<String>,
}

/// Walks a request without acting on it.
pub(crate) fn explain(shared: &Shared, question: &Question) -> Result<Explanation, String> {
    let mut request = Request::parse(question)?;
    let running = shared.running.load_full();
    let view = request.view();
    let Placed { site, route, to } = placed(shared, &running.plan, &request.host, &view, &request);
    let mut explanation = Explanation {
        site: site.map(|site| site.name.to_string()),
        gates: up_to(Gate::Itself),
        ..Explanation::default()
    };
    if let Some(route) = route {
        explanation.route = Some(route.name.to_string());
        explanation.place = Some(route.place.clone());
        explanation.upstream = route.upstream.as_ref().map(ToString::to_string);
    }
    let is_purge = matches!(to, Routed::Purge(_));
    if let Some(refused) = denied(route.filter(|_| !is_purge), &request) {
        return Ok(local(explanation, "denied", refused.into()));
    }
    let route = match to {
        Routed::To(_, route) => route,
        Routed::Purge(_) => return Ok(local(explanation, "purge", wording::PURGE.into())),
        Routed::Local(reply) => {
            let because = said_by(&reply);
            return Ok(local(explanation, reply.word, because));
        }
    };
    let received = request.headers.clone();
    if let Some(left) = cookies::without_own(&received, running.plan.own_cookies()) {
        request.headers = left;
    }
    explanation.cookies_dropped = wording::names(&route.rules.cookies.dropped(&request.headers));
    if let Some(left) = route.rules.cookies.apply(&request.headers) {
        left.put(&mut request.headers);
    }
    explanation.cookies_not_in_key = wording::names(&unkeyed(&request.headers, &route.rules.key));
    let view = request.view();
    let (name, mark) = site.map_or(("", 0), |site| (&*site.name, site.mark));
    let known = OfRequest { view, site: name, route: route.words(), beside: &request };
    let route = route.chosen(|| known);
    let known = OfRequest { route: route.words(), ..known };
    explanation.upstream = route.upstream.as_ref().map(ToString::to_string);
    explanation.maps = wording::maps(route, &known);
    let [bypass, refresh, no_store] = wording::clients(route, request.client);
    explanation.bypass = [triggers(&route.rules.bypass, &known), bypass].concat();
    explanation.refresh = [triggers(&route.rules.refresh, &known), refresh].concat();
    explanation.no_store = [triggers(&route.rules.no_store, &known), no_store].concat();
    explanation.bypass.extend(wording::everywhere(&route.rules));
    let upstream = running.upstream(route).cloned();
    let client = request.client.map(peer).filter(|client| !running.trusted.contains(client));
    let asked = sessions::Asked { received: &received, left: &request.headers, target: view.path_and_query };
    let of_session = |upstream: &Arc<_>| affinity::of_question(upstream, &asked, clock::now().wall);
    let (session, bypass) = upstream.as_ref().map_or((None, Fulfilled(0)), of_session);
    let rewritten = match before(&running, mark, route, &known) {
        Ok(rewritten) => rewritten,
        Err((gate, reason, because)) => {
            explanation.gates = up_to(gate);
            return Ok(local(explanation, reason, because));
        }
    };
    let way = Way {
        route,
        upstream,
        client: client.and_then(|client| client.sharer()).map(Client::address),
        session,
    };
    let chosen = Chosen { site: mark, way, bypass, known, rewritten };
    Ok(judge(shared, &chosen, &request, explanation))
}

/// Why the client that is named gets no answer.
fn denied(route: Option<&Arc<Route>>, request: &Request) -> Option<&'static str> {
    let access = route?.access.as_ref()?;
    let client = peer(request.client?);
    (!access.admits(Some(client))).then_some(wording::DENIED)
}

fn peer(client: IpAddr) -> Peer {
    Peer::at(SocketAddr::new(client, 0))
}

/// Where a question leads.
struct Chosen<'a> {
    /// The site's name in keys.
    site: u64,
    way: Way<'a>,
    /// Whether its session bypasses the cache.
    bypass: Fulfilled,
    known: OfRequest<'a>,
    rewritten: Option<Rewritten>,
}

/// What Weir answers itself, in a sentence.
fn said_by(reply: &Reply) -> String {
    let status = reply.status.as_u16();
    match reply.outcome {
        Outcome::Refused => String::from_utf8_lossy(&reply.body).trim_end().to_owned(),
        _ => format!("{status} by Weir itself"),
    }
}

fn local(explanation: Explanation, reason: &'static str, because: String) -> Explanation {
    Explanation { verdict: Foretold::Local, reason, because, ..explanation }
}

fn judge(
    shared: &Shared,
    chosen: &Chosen<'_>,
    request: &Request,
    mut explanation: Explanation,
) -> Explanation {
    let (now, Chosen { site, way, bypass, known, rewritten }) = (clock::now(), chosen);
    let (route, view, mut key, recent) = (way.route, request.view(), Vec::new(), &shared.inflight.recent);
    let target = weir_policy::forwarded(&route.rules.key, view.path_and_query);
    let parts = KeyParts { target: route.key_target(rewritten.as_ref()), known: Some(known) };
    let digest = write_key(&route.rules.key, &view, parts, &mut key);
    explanation.rewritten = rewritten.as_ref().map(|rewritten| wording::rewritten(&target, rewritten, route));
    said_of_key(&mut explanation, &key, view.path_and_query, &target);
    explanation.not_stored = declined(recent, (digest, &view, route), now).map(NotStored::word);
    explanation.failed = recent.failed(digest, now.mono).map(|failure| failure.word);
    let asked_for: &str = rewritten.as_ref().map_or(&target, |rewritten| &rewritten.target);
    let mut selecting = view.headers.clone();
    let sent = OfRequest { view: RequestView { path_and_query: &target, ..view }, ..*known };
    route.set_values(&sent, &mut selecting);
    let selects = |stored: &Stored| matches(&stored.variant, &selecting);
    let found = ready(|| shared.store.find(digest, &key, *site, &selects));
    let mut generations = shared.store.variants(digest, &key);
    generations.retain(|generation| generation.key().site == *site);
    let found = found.filter(|found| lookup::is_usable(found) && found.key().site == *site);
    // As in the walk: the first match may still be filling while an older generation is whole.
    let is_usable = |held: &&Arc<Generation>| lookup::is_usable(held) && selects(&held.head().stored);
    let found = found.or_else(|| generations.iter().find(is_usable).cloned());
    explanation.stored = variants(&generations, found.as_ref(), &route.rules, now);
    explanation.hint = found.as_ref().and_then(|found| uncoded(route, found, view.headers));
    explanation.not_in_key = not_in_key(&route.rules.key, &view, &explanation.stored);
    let past = |explanation, because, cache_status| {
        let asked = Some(asked(way, (&sent, asked_for), request, Towards::Pass));
        passes(Explanation { asked, ..explanation }, because, cache_status)
    };
    let beside = beside(route, request, (known, *bypass));
    explanation.gates = up_to(Gate::Cache);
    let ask = match decide::consulted(&view, &route.rules, beside) {
        Consulted::LookUp(ask) => ask,
        Consulted::Pass(reason) => {
            return past(explanation, wording::of_pass(reason), CacheStatus::pass(reason));
        }
        Consulted::Upgrade => return past(explanation, wording::UPGRADE, CacheStatus::upgrade()),
        Consulted::TooLarge => return local(explanation, "body-too-large", String::new()),
    };
    let has_siblings = generations.iter().any(|held| lookup::is_usable(held));
    let judged = decide::decide(&view, &ask, found.as_deref(), has_siblings, now);
    let validated = match &judged {
        Decision::Revalidate(why) if why.why == RevalidateReason::Refresh => None,
        _ => found.as_ref(),
    };
    let signed = || unchanged(&view, route, &judged).filter(|_| !recent.was_storable(digest, now.mono));
    let gate = After::of(request, &ask, &judged);
    explanation.gates = up_to(Gate::After(gate));
    if let Some(reason) = gate.past().or_else(signed) {
        return past(explanation, wording::of_pass(reason), CacheStatus::pass(reason));
    }
    explanation.asked = Some(asked(way, (&sent, asked_for), request, Towards::Fill(validated)));
    let mut explanation = conclude(explanation, (&ask, route), &judged);
    let key = CacheKey { digest, full: key.into(), site: *site };
    tell_uses(&mut explanation, shared.store.uses(&key), route);
    let outage = route.upstream.as_deref().and_then(|name| shared.inflight.upstreams.outage(name, now.mono));
    if let (Decision::Revalidate(why), Some(held), Some(failure)) = (&judged, validated, outage)
        && let Some((reusable, word)) = in_an_outage(failure, &ask, held, &route.rules.stale, now)
    {
        explanation = stale_in_an_outage(explanation, CacheStatus::revalidate(why.why), &reusable, word);
    }
    tell_of_age(&mut explanation, &judged, found.as_deref());
    explanation
}

/// What is known of the request beside its fields.
fn beside(route: &Route, request: &Request, (known, bypass): (&OfRequest<'_>, Fulfilled)) -> Beside {
    let client = request.client.zip(route.clients.as_ref());
    let by_client = client.map(|(client, clients)| clients.hold(Some(peer(client)))).unwrap_or_default();
    let fulfilled = by_client.and(route.fulfilled_by_maps(|| *known)).and(bypass);
    Beside { is_upgrade: request.is_upgrade(), fulfilled, ..Beside::default() }
}

/// Why a request goes past the cache as it came, where no answer for its key was public yet.
fn unchanged(view: &RequestView<'_>, route: &Route, judged: &Decision) -> Option<PassReason> {
    let fills_head = || *view.method == http::Method::HEAD && route.rules.head == HeadRequests::Fill;
    let is_other = || weir_policy::changes_fields(view) || fills_head();
    let is_signed = matches!(judged, Decision::Fetch(_)) && weir_policy::may_be_signed(view) && is_other();
    is_signed.then_some(PassReason::Signed)
}

/// Says so where the route wants more requests before it stores anything of the key.
fn tell_uses(explanation: &mut Explanation, so_far: u32, route: &Route) {
    let least = u32::from(route.rules.min_uses.memory);
    if explanation.verdict == Foretold::Miss && so_far + 1 < least {
        explanation.not_stored = Some(NotStored::MinUses.word());
        explanation.because += &format!("; it is stored from request {least} on, and this is {}", so_far + 1);
    }
}

/// Says so where what goes out stale was purged softly, and which directive keeps what is stale from going
/// out.
fn tell_of_age(explanation: &mut Explanation, judged: &Decision, found: Option<&Generation>) {
    let is_purged = found.is_some_and(|found| found.head().stored.facts.flags.has(StoredFlags::PURGED));
    if explanation.verdict == Foretold::Stale && is_purged {
        explanation.because += "; it was purged softly";
    }
    let is_of_age = |why| matches!(why, RevalidateReason::Stale | RevalidateReason::Purged);
    let is_of_age = matches!(judged, Decision::Revalidate(revalidation) if is_of_age(revalidation.why));
    if explanation.verdict == Foretold::Revalidate && is_of_age {
        let directive = found.and_then(|found| against_stale(&found.head().stored));
        explanation.because += &directive.map(wording::of_bond).unwrap_or_default();
    }
}

/// The key, and what of the target it lacks.
fn said_of_key(explanation: &mut Explanation, key: &[u8], received: &str, target: &str) {
    explanation.key = Some(String::from_utf8_lossy(key).into_owned());
    explanation.dropped = dropped(received, target).into_names();
}

/// Why recent responses to the key were not stored, to requests with such cookies.
fn declined(
    recent: &RecentOutcomes,
    (digest, view, route): (u128, &RequestView<'_>, &Route),
    now: Now,
) -> Option<NotStored> {
    let of_visitors = || {
        let is_one = has_unkeyed(view.headers, &route.rules.key);
        recent.declined(digest_of_visitors(digest), now.mono).filter(|_| is_one)
    };
    recent.declined(digest, now.mono).or_else(of_visitors)
}

/// The proof that a stored response is served at once while its upstream gives no answer, and the log's word
/// for why.
fn in_an_outage(
    failure: Failure,
    ask: &Ask,
    held: &Generation,
    rules: &StaleRules,
    now: Now,
) -> Option<(Reusable, &'static str)> {
    let (reusable, excuse) = error_reusable(ask, &held.head().stored, failure, rules, now)?;
    held.is_whole().then(|| (reusable, word(failure, excuse)))
}

fn stale_in_an_outage(
    explanation: Explanation,
    cache_status: CacheStatus,
    reusable: &Reusable,
    word: &'static str,
) -> Explanation {
    let cache_status = cache_status.stale_because(word, reusable.freshness().left_s());
    let because = wording::OUTAGE.into();
    Explanation {
        verdict: Foretold::Stale,
        reason: word,
        because,
        cache_status: Some(printed(cache_status)),
        ..explanation
    }
}

/// What is found in memory, or after the volume was asked. Blocks.
fn ready(find: impl Fn() -> Found) -> Option<Arc<Generation>> {
    let found = match find() {
        Found::Ready(found) => return found,
        Found::Ask(ask) => {
            ask.wait();
            find()
        }
    };
    match found {
        Found::Ready(found) => found,
        Found::Ask(_) => None,
    }
}

/// The warning where the stored text has no coding although this request accepts some.
fn uncoded(route: &Route, found: &Generation, request: &HeaderMap) -> Option<&'static str> {
    let head = found.head();
    let said = |name| head.stored.headers.get(name).and_then(|value| value.to_str().ok());
    let is_text = said(http::header::CONTENT_TYPE).is_some_and(|kind| {
        kind.starts_with("text/") || ["json", "javascript", "xml"].iter().any(|word| kind.contains(word))
    });
    let is_coded = said(http::header::CONTENT_ENCODING).is_some();
    let takes = accept_encoding(request).is_some_and(|taken| taken != "identity;q=0");
    (is_text && !is_coded && takes && route.via() == Via::Sent).then_some(wording::UNCODED)
}

/// Puts the decision into words.
fn conclude(mut explanation: Explanation, (ask, route): (&Ask, &Route), judged: &Decision) -> Explanation {
    let (verdict, because, cache_status) = match judged {
        Decision::Serve(reuse) => match reuse.stale {
            None => {
                (Foretold::Hit, format!("{} s left", reuse.reusable.freshness().left_s()), reuse.cache_status)
            }
            Some(how) => (Foretold::Stale, wording::of_stale(how).into(), reuse.cache_status),
        },
        Decision::Complete(reuse, _) => {
            (Foretold::Miss, wording::PART.into(), reuse.cache_status.completed())
        }
        Decision::Revalidate(revalidation) => {
            let because = wording::of_revalidation(revalidation.why).into();
            (Foretold::Revalidate, because, CacheStatus::revalidate(revalidation.why))
        }
        Decision::Fetch(reason) => {
            (Foretold::Miss, wording::of_miss(*reason).into(), CacheStatus::miss(*reason))
        }
        Decision::GatewayTimeout => {
            explanation.verdict = Foretold::GatewayTimeout;
            explanation.reason = "only-if-cached";
            explanation.because =
                "504: the client accepts only what is held, and nothing held can be used".into();
            return explanation;
        }
    };
    let is_fetched = matches!(judged, Decision::Fetch(_) | Decision::Revalidate(_));
    // What is remembered of the key applies before a fill begins, except for a fill that nobody may join.
    if is_fetched && explanation.not_stored.is_some() && !ask.is_authenticated() {
        let reason = PassReason::Uncacheable;
        return passes(explanation, wording::of_pass(reason), CacheStatus::pass(reason));
    }
    explanation.verdict = verdict;
    explanation.reason = cache_status.detail();
    explanation.because = because;
    if is_fetched && ask.kind == AskKind::Head {
        explanation.because += match route.rules.head {
            HeadRequests::Pass => "; a HEAD is passed on and not stored",
            HeadRequests::Fill => "; a HEAD fills the cache as a GET would",
        };
    }
    explanation.cache_status = Some(printed(cache_status));
    explanation
}

fn passes(explanation: Explanation, because: &str, cache_status: CacheStatus) -> Explanation {
    let (reason, because) = (cache_status.detail(), because.to_owned());
    Explanation {
        verdict: Foretold::Pass,
        reason,
        because,
        cache_status: Some(printed(cache_status)),
        ..explanation
    }
}

/// The field as the walk would print it, without its name.
fn printed(cache_status: CacheStatus) -> String {
    let mut out = Vec::new();
    cache_status.print(&mut out, None);
    String::from_utf8_lossy(&out).into_owned()
}

/// What is held under the key. As in the walk, what has left a volume since it was loaded is not held.
fn variants(
    generations: &[Arc<Generation>],
    found: Option<&Arc<Generation>>,
    rules: &CacheRules,
    now: Now,
) -> Vec<StoredVariant> {
    let told = generations.iter().map(|generation| {
        generation.look_on_disk_now();
        variant(generation, found.is_some_and(|found| Arc::ptr_eq(found, generation)), rules, now)
    });
    told.collect()
}

fn variant(generation: &Generation, selected: bool, rules: &CacheRules, now: Now) -> StoredVariant {
    let head = generation.head();
    let stored = &head.stored;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let selecting = |of: &Selecting| (of.name.to_string(), of.value.as_deref().map(text));
    let marks = [
        (StoredFlags::NO_CACHE, "no-cache"),
        (StoredFlags::IMMUTABLE, "immutable"),
        (StoredFlags::PURGED, "soft-purged"),
        (StoredFlags::SUSPECT, "suspect"),
    ];
    let is_suspect = stored.facts.flags.has(StoredFlags::SUSPECT);
    StoredVariant {
        selected,
        status: stored.status.as_u16(),
        freshness: freshness(stored, now),
        lifetime_from: stored.facts.lifetime_from(),
        retained_until: retained_until(stored, now),
        if_unreachable: unreachable_window(stored, &rules.stale),
        by_status: wording::by_status(rules, stored.status),
        marks: marks
            .iter()
            .filter(|(flag, _)| {
                stored.facts.flags.has(*flag) && !(is_suspect && *flag == StoredFlags::PURGED)
            })
            .map(|(_, word)| *word)
            .chain(against_stale(stored))
            .collect(),
        length: generation.length(),
        held: held(generation),
        memory_bytes: generation.held_bytes(),
        volume: generation.volume(),
        fields: stored
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), text(value.as_bytes())))
            .collect(),
        etag: stored.headers.get(http::header::ETAG).map(|etag| text(etag.as_bytes())),
        selecting: stored.variant.selecting.iter().map(selecting).collect(),
        tags: tags(&stored.headers),
    }
}

/// Until when a retention lets it be fresh, by the wall clock of now.
fn retained_until(stored: &Stored, now: Now) -> Option<SystemTime> {
    let freshness = freshness(stored, now);
    let until = match freshness.is_fresh() {
        true => now.wall.checked_add(freshness.left()),
        false => now.wall.checked_sub(freshness.staleness()),
    };
    until.filter(|_| stored.facts.flags.has(StoredFlags::RETAINED))
}

/// The bytes of the body that need not be fetched: they are in memory or on a volume.
fn held(generation: &Generation) -> Vec<Range<u64>> {
    let held = match generation.length() {
        None => generation.held(),
        Some(length) => {
            let mut held = Intervals::of(Interval::new(0, length));
            for gap in generation.gaps(Interval::new(0, length), usize::MAX) {
                held.remove(gap);
            }
            held
        }
    };
    held.iter().map(|run| run.start..run.end).filter(|run| !run.is_empty()).collect()
}

#[cfg(test)]
mod tests;
