//! Explaining a request: the walk of a request without its deeds. Nothing is sent, stored or counted; the words are those
//! of the access log and of `Cache-Status`, taken from where these take them.

mod question;
mod wording;

use std::sync::Arc;

use http::HeaderMap;
use weir_policy::{
    Ask, AskKind, Consult, Freshness, MissReason, PassReason, Selecting, StaleUse, Stored, StoredFlags,
    Verdict, accept_encoding, conditional, consult, freshness, matches, verdict, write_key,
};
use weir_store::{Found, Generation};

use self::question::Request;
use self::wording::{Dropped, dropped, not_in_key, tags, triggers};
use crate::lookup;
use crate::plan::Route;
use crate::plane::Plane;
use crate::route::Via;
use crate::told::Told;
use crate::transform::request::{self, From, X_REQUEST_ID};
use weir_clock as clock;
use weir_front::Trust;

/// A request to explain.
#[derive(Clone, Debug)]
pub struct Question {
    /// The method.
    pub method: String,
    /// An absolute URL.
    pub url: String,
    /// Its fields.
    pub headers: Vec<(String, String)>,
}

/// A variant that is held under the key.
#[derive(Clone, Debug)]
pub struct StoredVariant {
    /// Whether the request selects it.
    pub selected: bool,
    /// Its status.
    pub status: u16,
    /// How fresh it is.
    pub freshness: Freshness,
    /// What else limits its use: `no-cache`, `must-revalidate`, `immutable`, `soft-purged`, `suspect`.
    pub marks: Vec<&'static str>,
    /// Its body's length in bytes.
    pub length: Option<u64>,
    /// Body bytes held.
    pub held_bytes: u64,
    /// Its entity tag.
    pub etag: Option<String>,
    /// The fields that select it, each with the value that it was made for; none where it was absent.
    pub selecting: Vec<(String, Option<String>)>,
    /// Its tags, as the origin gave them.
    pub tags: Vec<String>,
}

/// What the origin would be asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Method and target.
    pub line: String,
    /// The fields, without those that are made anew for each request.
    pub headers: Vec<(String, String)>,
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
    /// The upstream's name.
    pub upstream: Option<String>,
    /// The key.
    pub key: Option<String>,
    /// What of the query is neither in the key nor sent to the origin, or in another order.
    pub dropped: Vec<String>,
    /// Fields of the request that are not in the key.
    pub not_in_key: Vec<String>,
    /// What the origin would be asked for.
    pub asked: Option<Asked>,
    /// `hit`, `stale`, `revalidate`, `miss`, `pass`, `local` or `gateway-timeout`.
    pub verdict: &'static str,
    /// Why, in the log's word; empty for a hit.
    pub reason: &'static str,
    /// Why, in a sentence.
    pub because: String,
    /// What `Cache-Status` would say first; what the origin answers is added to it.
    pub cache_status: Option<String>,
    /// Why responses to this key were not stored of late.
    pub not_stored: Option<&'static str>,
    /// Why the origin gave no response for this key a moment ago.
    pub failed: Option<&'static str>,
    /// What is held.
    pub stored: Vec<StoredVariant>,
    /// Why what is held may not be what one hoped for.
    pub hint: Option<&'static str>,
    /// What sends a request past the cache here.
    pub bypass: Vec<String>,
    /// What makes a request here fetch anew.
    pub refresh: Vec<String>,
}

/// Walks a request on paper.
pub(crate) fn explain(plane: &Plane, question: &Question) -> Result<Explanation, String> {
    let request = Request::parse(question)?;
    let running = plane.running.load_full();
    let plan = &running.plan;
    let path = request.view().path().to_owned();
    if plan.is_health(&path) {
        return Ok(local(Explanation::default(), "health", "the health path answers on every site".into()));
    }
    if request::is_loop(&request.headers, &plane.own_id) {
        let because = "508: this request has been here before".into();
        return Ok(local(Explanation::default(), "loop", because));
    }
    let Some(site) = plan.site(request.host.name()) else {
        return Ok(local(Explanation::default(), "unknown-host", "421: no site has this host".into()));
    };
    let mut explanation = Explanation { site: Some(site.name.to_string()), ..Explanation::default() };
    let Some(route) = site.route(&request.method, request.scheme(), &path) else {
        return Ok(local(explanation, "no-route", "404: no route of this site takes this path".into()));
    };
    explanation.route = Some(route.name.to_string());
    explanation.place = Some(route.place.clone());
    explanation.upstream = route.upstream.as_ref().map(ToString::to_string);
    if let Some(answer) = route.answer(&request.view()) {
        let because = format!("{} by the route itself", answer.status.as_u16());
        return Ok(local(explanation, answer.word, because));
    }
    explanation.bypass = triggers(&route.rules.bypass, &request.view());
    explanation.refresh = triggers(&route.rules.refresh, &request.view());
    explanation.bypass.extend(wording::everywhere(&route.rules));
    Ok(judge(plane, (site.mark, route), &request, explanation))
}

fn local(explanation: Explanation, reason: &'static str, because: String) -> Explanation {
    Explanation { verdict: "local", reason, because, ..explanation }
}

fn judge(
    plane: &Plane,
    (site, route): (u64, &Route),
    request: &Request,
    mut explanation: Explanation,
) -> Explanation {
    let now = clock::now();
    let view = request.view();
    let mut key = Vec::new();
    let digest = write_key(&route.rules.key, &view, &mut key);
    let target = weir_policy::forwarded(&route.rules.key, view.path_and_query);
    explanation.key = Some(String::from_utf8_lossy(&key).into_owned());
    explanation.dropped = match dropped(view.path_and_query, &target) {
        Dropped::Parameters(names) => names,
        Dropped::Order => vec!["the order of the parameters".into()],
    };
    explanation.not_stored = plane.desk.memory.declined(digest, now.mono).map(weir_policy::NotStored::word);
    explanation.failed = plane.desk.memory.failed(digest, now.mono).map(|failure| failure.word);
    let selects = |stored: &Stored| matches(&stored.variant, view.headers);
    let found = ready(|| plane.store.find(digest, &key, site, &selects));
    let mut generations = plane.store.variants(digest, &key);
    generations.retain(|generation| generation.key().site == site);
    let found = found.filter(|found| lookup::is_usable(found) && found.key().site == site);
    // As the walk has it: what is found first may still be filling, while an older one is whole.
    let is_usable = |held: &&Arc<Generation>| lookup::is_usable(held) && selects(&held.head().stored);
    let found = found.or_else(|| generations.iter().find(is_usable).cloned());
    for generation in &generations {
        let selected = found.as_ref().is_some_and(|found| Arc::ptr_eq(found, generation));
        explanation.stored.push(variant(generation, selected, now));
    }
    explanation.hint = found.as_ref().and_then(|found| uncoded(route, found, view.headers));
    explanation.not_in_key = not_in_key(&route.rules.key, &view, &explanation.stored);
    let ask = match consult(&view, &route.rules) {
        _ if request.is_upgrade() => {
            let because = "the client asks for another protocol".into();
            explanation.asked = Some(asked(route, request, &target, Towards::Pass));
            return passes(explanation, "upgrade", because, Told::upgrade());
        }
        Consult::Pass(reason) => {
            explanation.asked = Some(asked(route, request, &target, Towards::Pass));
            let because = wording::of_pass(reason).into();
            return passes(explanation, reason.word(), because, Told::pass(reason));
        }
        Consult::Use(ask) => ask,
    };
    let head = found.as_ref().map(|generation| generation.head());
    let judged = verdict(&ask, head.as_ref().map(|head| &head.stored), now);
    let validated = match &judged {
        Verdict::Revalidate(why) if why.why == weir_policy::RevalidateReason::Refresh => None,
        _ => found.as_ref(),
    };
    explanation.asked = Some(asked(route, request, &target, Towards::Fill(validated)));
    let others = match generations.iter().any(|held| lookup::is_usable(held)) {
        true => MissReason::Vary,
        false => MissReason::Uri,
    };
    let mut explanation = conclude(explanation, &ask, &judged, others);
    let is_purged = head.is_some_and(|head| head.stored.facts.flags.has(StoredFlags::PURGED));
    if explanation.verdict == "stale" && is_purged {
        explanation.because += "; it was purged softly";
    }
    explanation
}

/// What is found at once, or after the volume was asked. Blocks.
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

/// What is said where text is held that no origin has coded, although this request takes codings.
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

/// Puts the verdict into words; `miss` is why nothing was found, where nothing was.
fn conclude(mut explanation: Explanation, ask: &Ask, judged: &Verdict, miss: MissReason) -> Explanation {
    let (verdict, reason, because, told) = match judged {
        Verdict::Hit(reusable) => {
            ("hit", "", format!("{} s left", reusable.freshness().left_s()), Told::hit(reusable))
        }
        Verdict::Stale(reusable, how) => {
            let because = match how {
                StaleUse::WhileRevalidate => "it goes out stale and is refreshed without a client",
                StaleUse::MaxStale => "the client takes it stale (max-stale)",
            };
            ("stale", "stale", because.into(), Told::stale(reusable))
        }
        Verdict::Revalidate(revalidation) => {
            let because = wording::of_revalidation(revalidation.why).into();
            ("revalidate", revalidation.why.word(), because, Told::revalidate(revalidation.why))
        }
        Verdict::Miss(_) => ("miss", miss.word(), wording::of_miss(miss).into(), Told::miss(miss)),
        Verdict::GatewayTimeout => {
            explanation.verdict = "gateway-timeout";
            explanation.reason = "only-if-cached";
            explanation.because =
                "504: the client wants nothing but what is held, and nothing held will do".into();
            return explanation;
        }
    };
    let is_fetched = matches!(verdict, "miss" | "revalidate");
    // What is remembered of the key speaks before a fill is begun; it does not for a fill that none may join.
    if is_fetched && explanation.not_stored.is_some() && !ask.is_authenticated() {
        let because = wording::of_pass(PassReason::Uncacheable).into();
        return passes(
            explanation,
            PassReason::Uncacheable.word(),
            because,
            Told::pass(PassReason::Uncacheable),
        );
    }
    explanation.verdict = verdict;
    explanation.reason = reason;
    explanation.because = because;
    if is_fetched && ask.kind == AskKind::Head {
        explanation.because += "; a HEAD is passed on and not stored";
    }
    explanation.cache_status = Some(printed(told));
    explanation
}

fn passes(explanation: Explanation, reason: &'static str, because: String, told: Told) -> Explanation {
    Explanation { verdict: "pass", reason, because, cache_status: Some(printed(told)), ..explanation }
}

/// The field as the walk would print it, without its name.
fn printed(told: Told) -> String {
    let mut out = Vec::new();
    told.print(&mut out, None);
    let text = String::from_utf8_lossy(&out);
    text.trim_end().trim_start_matches("cache-status: ").to_owned()
}

fn variant(generation: &Generation, selected: bool, now: weir_policy::Now) -> StoredVariant {
    let head = generation.head();
    let stored = &head.stored;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let selecting = |of: &Selecting| (of.name.to_string(), of.value.as_deref().map(text));
    let marks = [
        (StoredFlags::NO_CACHE, "no-cache"),
        (StoredFlags::MUST_REVALIDATE, "must-revalidate"),
        (StoredFlags::IMMUTABLE, "immutable"),
        (StoredFlags::PURGED, "soft-purged"),
        (StoredFlags::DOUBTED, "suspect"),
    ];
    let is_doubted = stored.facts.flags.has(StoredFlags::DOUBTED);
    StoredVariant {
        selected,
        status: stored.status.as_u16(),
        freshness: freshness(stored, now),
        marks: marks
            .iter()
            .filter(|(flag, _)| {
                stored.facts.flags.has(*flag) && !(is_doubted && *flag == StoredFlags::PURGED)
            })
            .map(|(_, word)| *word)
            .collect(),
        length: generation.length(),
        held_bytes: generation.held_bytes(),
        etag: stored.headers.get(http::header::ETAG).map(|etag| text(etag.as_bytes())),
        selecting: stored.variant.selecting.iter().map(selecting).collect(),
        tags: tags(&stored.headers),
    }
}

/// What a request to the origin is for.
enum Towards<'a> {
    /// It goes past the cache.
    Pass,
    /// A fill, which asks about what the request selects.
    Fill(Option<&'a Arc<Generation>>),
}

/// The request to the origin.
fn asked(route: &Route, of: &Request, target: &str, towards: Towards<'_>) -> Asked {
    let from = From {
        address: None,
        client: None,
        trust: Trust::Untrusted,
        scheme: of.scheme(),
        host: of.host.as_str(),
        request_id: "",
        own_id: "weir",
    };
    let mut headers: HeaderMap = request::towards_origin(&of.headers, &from);
    let mut method = of.method.as_str();
    if let Towards::Fill(validated) = towards {
        request::for_fill(&mut headers, &from, &route.rules.key.headers);
        let head = validated.map(|generation| generation.head());
        conditional(head.as_ref().map(|head| &head.stored), &mut headers);
        // A HEAD that finds nothing is passed on as it is.
        method = if of.method == http::Method::HEAD { "HEAD" } else { "GET" };
    }
    if let Some(host) = route.host_to_origin() {
        headers.insert(http::header::HOST, host.clone());
    }
    route.edit_request(&mut headers);
    for made in [X_REQUEST_ID.as_str(), "via", "cdn-loop", "x-forwarded-for"] {
        headers.remove(made);
    }
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    Asked { line: format!("{method} {target}"), headers }
}

#[cfg(test)]
mod tests;
