//! Explaining a request: the walk of a request without its deeds. Nothing is sent, stored or counted.

use std::str::FromStr;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use weir_policy::{
    Consult, Freshness, RequestView, StaleUse, Verdict, consult, freshness, matches, verdict, write_key,
};
use weir_store::{Found, Generation};

use crate::clock;
use crate::plan::Route;
use crate::plane::Plane;

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
    /// Its body's length in bytes.
    pub length: Option<u64>,
    /// Body bytes held.
    pub held_bytes: u64,
    /// Its entity tag.
    pub etag: Option<String>,
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
    /// What the origin would be asked for.
    pub forwarded: Option<String>,
    /// `hit`, `stale`, `revalidate`, `miss`, `pass`, `local` or `gateway-timeout`.
    pub verdict: &'static str,
    /// Why.
    pub reason: String,
    /// Why responses to this key were not stored of late.
    pub not_stored: Option<&'static str>,
    /// What is held.
    pub stored: Vec<StoredVariant>,
}

/// Walks a request on paper.
pub(crate) fn explain(plane: &Plane, question: &Question) -> Result<Explanation, String> {
    let request = parse(question)?;
    let running = plane.running.load_full();
    let host = request.host();
    let name =
        host.rsplit_once(':').map_or(host, |(name, port)| if port.contains(']') { host } else { name });
    let Some(site) = running.plan.site(name) else {
        return Ok(answered("no site has this host: 421"));
    };
    let found = site.route(&request.method, request.scheme(), request.uri.path());
    let mut explanation = Explanation { site: Some(site.name.to_string()), ..Explanation::default() };
    let Some(route) = found else {
        return Ok(Explanation {
            verdict: "local",
            reason: "no route takes this path: 404".into(),
            ..explanation
        });
    };
    explanation.route = Some(route.name.to_string());
    explanation.place = Some(route.place.clone());
    explanation.upstream = route.upstream.as_ref().map(ToString::to_string);
    if let Some(answer) = route.answer(&request.view()) {
        let reason = format!("{} by the route: {}", answer.status.as_u16(), answer.word);
        return Ok(Explanation { verdict: "local", reason, ..explanation });
    }
    judge(plane, route, &request, explanation)
}

fn judge(
    plane: &Plane,
    route: &Route,
    request: &Request,
    mut explanation: Explanation,
) -> Result<Explanation, String> {
    let now = clock::now();
    let view = request.view();
    let mut key = Vec::new();
    let digest = write_key(&route.rules.key, &view, &mut key);
    explanation.key = Some(String::from_utf8_lossy(&key).into_owned());
    explanation.forwarded = Some(weir_policy::forwarded(&route.rules.key, view.path_and_query).into_owned());
    explanation.not_stored = plane.desk.memory.declined(digest, now.mono).map(weir_policy::NotStored::word);
    let ask = match consult(&view, &route.rules) {
        Consult::Use(ask) => ask,
        Consult::Pass(reason) => {
            return Ok(Explanation { verdict: "pass", reason: reason.word().into(), ..explanation });
        }
    };
    let found = match plane.store.find(digest, &key, &|stored| matches(&stored.variant, view.headers)) {
        Found::Ready(found) => found,
        _ => None,
    };
    for generation in plane.store.variants(digest, &key) {
        let selected = found.as_ref().is_some_and(|found| std::sync::Arc::ptr_eq(found, &generation));
        explanation.stored.push(variant(&generation, selected, now));
    }
    let head = found.as_ref().map(|generation| generation.head());
    let judged = verdict(&ask, head.as_ref().map(|head| &head.stored), now);
    let (verdict, reason) = words(&judged, !explanation.stored.is_empty());
    Ok(Explanation { verdict, reason, ..explanation })
}

fn words(verdict: &Verdict, others: bool) -> (&'static str, String) {
    match verdict {
        Verdict::Hit(reusable) => ("hit", format!("{} s left", reusable.freshness().left_s())),
        Verdict::Stale(_, StaleUse::WhileRevalidate) => {
            ("stale", "served stale and refreshed without a client".into())
        }
        Verdict::Stale(_, StaleUse::MaxStale) => ("stale", "the client takes it stale (max-stale)".into()),
        Verdict::Revalidate(revalidation) => ("revalidate", revalidation.why.word().into()),
        Verdict::Miss(_) if others => ("miss", "other variants are held, none for these fields".into()),
        Verdict::Miss(_) => ("miss", "nothing is held under the key".into()),
        Verdict::GatewayTimeout => ("gateway-timeout", "only-if-cached, and nothing usable is held".into()),
    }
}

fn variant(generation: &Generation, selected: bool, now: weir_policy::Now) -> StoredVariant {
    let head = generation.head();
    StoredVariant {
        selected,
        status: head.stored.status.as_u16(),
        freshness: freshness(&head.stored, now),
        length: generation.length(),
        held_bytes: generation.held_bytes(),
        etag: head
            .stored
            .headers
            .get(http::header::ETAG)
            .map(|etag| String::from_utf8_lossy(etag.as_bytes()).into_owned()),
    }
}

fn answered(reason: &str) -> Explanation {
    Explanation { verdict: "local", reason: reason.into(), ..Explanation::default() }
}

/// The question, parsed.
struct Request {
    method: Method,
    uri: Uri,
    host: String,
    headers: HeaderMap,
}

impl Request {
    fn host(&self) -> &str {
        &self.host
    }

    fn scheme(&self) -> &str {
        self.uri.scheme_str().unwrap_or("http")
    }

    fn view(&self) -> RequestView<'_> {
        RequestView {
            method: &self.method,
            scheme: self.scheme(),
            host: &self.host,
            path_and_query: self.uri.path_and_query().map_or("/", |path| path.as_str()),
            headers: &self.headers,
            has_body: false,
            is_trusted: false,
        }
    }
}

fn parse(question: &Question) -> Result<Request, String> {
    let method =
        Method::from_str(&question.method).map_err(|_| format!("not a method: {}", question.method))?;
    let uri = Uri::from_str(&question.url).map_err(|error| format!("not a URL: {error}"))?;
    let authority = uri.authority().ok_or("the URL must be absolute, as http://host/path")?;
    let mut headers = HeaderMap::new();
    for (name, value) in &question.headers {
        let name = HeaderName::from_str(name).map_err(|_| format!("not a field name: {name}"))?;
        let value = HeaderValue::from_str(value).map_err(|_| format!("not a field value: {value}"))?;
        headers.append(name, value);
    }
    let named = headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
    let host = named.unwrap_or(authority.as_str()).trim_end_matches('.').to_ascii_lowercase();
    let host = host.strip_suffix(":80").map_or(host.clone(), str::to_owned);
    Ok(Request { method, uri, host, headers })
}
