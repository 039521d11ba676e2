//! What a route of the plan says: which requests it takes, where they go, how heads are changed, what is
//! answered without an origin. Pure; it must not know the cache or a connection.

mod answers;
mod edits;
mod pattern;
mod purgers;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, STRICT_TRANSPORT_SECURITY, VIA};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use weir_config::model::{Config, SchemeName};
use weir_config::value::{HostRule, OriginScheme};
use weir_config::{
    Action, Conditions, PageContent, PageFor, RangeRules, ResolvedRate, ResolvedRoute, ResolvedSite,
};
use weir_front::Trust;
use weir_policy::{CacheRules, RequestView, is_of_content, tags};

use self::answers::LocalAnswer;
use self::pattern::PathPattern;
pub(crate) use self::purgers::{Purger, Purgers, Rights};
use crate::plan::peers;
use crate::transform::request::CLIENT_CERT;
use crate::transform::response::{Place, location_back};

/// A route, compiled.
#[derive(Debug)]
pub struct Route {
    /// Its conditions, for people; `otherwise` for a site's own rules.
    pub name: Arc<str>,
    /// Where it stands: `weir.toml:12`.
    pub place: String,
    /// A number that no other route of any plan of the process has.
    pub print_id: u64,
    /// The caching rules.
    pub rules: CacheRules,
    /// How long a request waits for a revalidation before a stale response goes out, where one may.
    pub revalidation_wait: Duration,
    /// How ranges that are not held are fetched.
    pub range: RangeRules,
    /// Whether `Cache-Status` names the key.
    pub show_key: bool,
    /// Whether all clients get the fields of tags that else only caches get.
    show_tags: bool,
    /// Who may purge with requests.
    pub(crate) purgers: Purgers,
    /// How fast bodies go out; none: as fast as clients take them.
    pub(crate) rate: Option<ResolvedRate>,
    /// The upstream's name, where requests go to one.
    pub upstream: Option<Arc<str>>,
    path: PathPattern,
    /// Empty: every method.
    methods: Vec<Method>,
    scheme: Option<&'static str>,
    local: Option<LocalAnswer>,
    pages: Vec<(PageFor, Page)>,
    host: Option<HeaderValue>,
    via: Via,
    origin_scheme: &'static str,
    /// The value of `Strict-Transport-Security`, for responses over TLS.
    hsts: Option<HeaderValue>,
    request_edits: weir_config::Edits,
    response_edits: weir_config::Edits,
}

/// Whether origins are sent `Via`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// The `Via` of RFC 9110 §7.6.3.
    Sent,
    /// Neither ours nor those of proxies before us.
    LeftOut,
}

/// An answer that needs no origin.
#[derive(Clone, Debug)]
pub struct Answered {
    /// Its status.
    pub status: StatusCode,
    /// Its fields, without framing.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// Why, in a word: `static`, `redirect`, `maintenance`, `no-route`.
    pub word: &'static str,
}

/// A page for an error.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its type.
    pub content_type: HeaderValue,
    /// Its body.
    pub body: Bytes,
}

impl Route {
    /// Compiles a route; `config` has the upstream's Host.
    pub(crate) fn compile(
        resolved: &ResolvedRoute,
        site: &ResolvedSite,
        config: &Config,
        print_id: u64,
    ) -> Route {
        let (upstream, host) = match &resolved.action {
            Action::Forward { upstream, host } => {
                (Some(upstream.as_str().into()), host_to_origin(upstream, host, config))
            }
            _ => (None, None),
        };
        let pages: Vec<_> =
            resolved.error_pages.iter().map(|(which, page)| (*which, Page::of(page))).collect();
        let local = match &resolved.maintenance {
            Some(closed) => {
                let page = closed.page.as_ref().map(Page::of);
                let page = page.or_else(|| find_page(&pages, StatusCode::SERVICE_UNAVAILABLE).cloned());
                Some(answers::closed(closed.retry_after, page))
            }
            None => answers::of_action(&resolved.action, find_page(&pages, StatusCode::NOT_FOUND)),
        };
        let mut rules = resolved.cache.clone();
        if site.client_certificate.is_some() {
            // What an origin answers to one client's certificate is for that client alone.
            rules.key.headers.push(CLIENT_CERT);
        }
        Route {
            name: name(&resolved.conditions),
            place: resolved.place.to_string(),
            print_id,
            rules,
            hsts: site.hsts.clone(),
            revalidation_wait: resolved.revalidation_wait,
            range: resolved.range,
            show_key: resolved.show_key,
            show_tags: resolved.show_tags,
            purgers: Purgers::compile(&resolved.purge, peers(&resolved.purge.allow)),
            rate: resolved.rate.clone(),
            upstream,
            path: PathPattern::compile(&resolved.conditions.path),
            methods: resolved.conditions.methods.clone(),
            scheme: resolved.conditions.scheme.map(|scheme| match scheme {
                SchemeName::Http => "http",
                SchemeName::Https => "https",
            }),
            local,
            pages,
            host,
            via: via(resolved, config),
            origin_scheme: origin_scheme(resolved, config),
            request_edits: resolved.request_edits.clone(),
            response_edits: resolved.response_edits.clone(),
        }
    }

    /// Whether all conditions of the route hold. `path` is without the query, as received.
    pub fn takes(&self, method: &Method, scheme: &str, path: &str) -> bool {
        self.scheme.is_none_or(|own| own == scheme)
            && (self.methods.is_empty() || self.methods.contains(method))
            && self.path.fits(path)
    }

    /// Whether the route's own `method` names this one.
    pub(crate) fn names(&self, method: &Method) -> bool {
        self.methods.contains(method)
    }

    /// The answer without an origin; none where the request goes to the cache and the upstream.
    pub fn answer(&self, view: &RequestView<'_>) -> Option<Answered> {
        self.local.as_ref().map(|local| local.render(view.scheme, view.host, view.path_and_query))
    }

    /// The page for one of Weir's own errors.
    pub fn error_page(&self, status: StatusCode) -> Option<&Page> {
        find_page(&self.pages, status)
    }

    /// The Host that the origin is sent; none: the client's.
    pub fn host_to_origin(&self) -> Option<&HeaderValue> {
        self.host.as_ref()
    }

    /// Which `Via` the origin is sent.
    pub(crate) fn via(&self) -> Via {
        self.via
    }

    /// Writes the origin's `Host` and the fields that the route sets into a request for it.
    pub(crate) fn towards_origin(&self, headers: &mut HeaderMap) {
        if let Some(host) = self.host_to_origin() {
            headers.insert(HOST, HeaderValue::clone(host));
        }
        self.purgers.hide(headers);
        self.edit_request(headers);
    }

    /// Changes the fields of a request on its way to the origin.
    pub fn edit_request(&self, headers: &mut HeaderMap) {
        if self.via == Via::LeftOut {
            headers.remove(VIA);
        }
        edits::apply(&self.request_edits, headers);
    }

    /// Changes the fields of a response on its way to the client: the lifetime for browsers first, then the
    /// removals and sets.
    ///
    /// `age_s` is the `Age` of this response: a browser subtracts it from the lifetime. Errors and redirects
    /// keep the origin's lifetime.
    pub fn present(&self, headers: &mut HeaderMap, status: StatusCode, age_s: u64) {
        if let Some(ttl) = self.rules.browser_ttl.filter(|_| is_of_content(status)) {
            edits::browser_ttl(headers, ttl.saturating_add(Duration::from_secs(age_s)));
        }
        edits::apply(&self.response_edits, headers);
    }

    /// Tells browsers to ask the site over TLS alone (RFC 6797 §7.2: not without TLS).
    pub(crate) fn secure(&self, headers: &mut HeaderMap, scheme: &str) {
        if let Some(hsts) = self.hsts.as_ref().filter(|_| scheme == "https") {
            headers.insert(STRICT_TRANSPORT_SECURITY, hsts.clone());
        }
    }

    /// Whether the fields of tags that only caches read are removed for such a peer.
    pub(crate) fn hides_tags(&self, trust: Trust) -> bool {
        !self.show_tags && trust == Trust::Untrusted
    }

    /// Removes from an interim response, or from trailers, the fields that the route removes from responses
    /// or sets itself, and those of tags.
    pub fn strip_response(&self, headers: &mut HeaderMap) {
        if !self.show_tags {
            tags::hide(headers);
        }
        edits::strip(&self.response_edits, headers);
    }

    /// Rewrites a `Location` that names the origin to the authority that the client used.
    pub fn location_back(&self, headers: &mut HeaderMap, scheme: &str, host: &str) {
        if let Some(authority) = self.host.as_ref().and_then(|origin| origin.to_str().ok()) {
            let origin = Place { scheme: self.origin_scheme, authority };
            location_back(headers, origin, Place { scheme, authority: host });
        }
    }
}

impl Page {
    fn of(content: &PageContent) -> Page {
        let content_type = match content.content_type {
            "" => HeaderValue::from_static("application/octet-stream"),
            known => HeaderValue::from_static(known),
        };
        Page { content_type, body: content.body.clone() }
    }
}

fn name(conditions: &Conditions) -> Arc<str> {
    match *conditions == Conditions::default() {
        true => "otherwise".into(),
        false => conditions.to_string().into(),
    }
}

fn find_page(pages: &[(PageFor, Page)], status: StatusCode) -> Option<&Page> {
    let of = |wanted: PageFor| pages.iter().find(|(which, _)| *which == wanted).map(|(_, page)| page);
    of(PageFor::Status(status)).or_else(|| of(PageFor::Every))
}

/// The Host for the origins of an upstream. The check of the configuration makes sure that `origin` stands
/// for one name.
fn host_to_origin(upstream: &str, rule: &HostRule, config: &Config) -> Option<HeaderValue> {
    let name = match rule {
        HostRule::Client => return None,
        HostRule::Fixed(name) => name.clone(),
        HostRule::Origin => config.upstream.get(upstream)?.origins.first()?.url().authority()?,
    };
    HeaderValue::try_from(name).ok()
}

/// Which `Via` the route's upstream is sent.
fn via(resolved: &ResolvedRoute, config: &Config) -> Via {
    let Action::Forward { upstream, .. } = &resolved.action else { return Via::Sent };
    match config.upstream.get(upstream) {
        Some(upstream) if !upstream.via => Via::LeftOut,
        _ => Via::Sent,
    }
}

/// The scheme of the route's origins.
fn origin_scheme(resolved: &ResolvedRoute, config: &Config) -> &'static str {
    let Action::Forward { upstream, .. } = &resolved.action else { return "http" };
    let origin = config.upstream.get(upstream).and_then(|upstream| upstream.origins.first());
    match origin.map(|origin| origin.url().scheme) {
        Some(OriginScheme::Https) => "https",
        _ => "http",
    }
}

#[cfg(test)]
mod tests;
