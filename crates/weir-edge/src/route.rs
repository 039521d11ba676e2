//! What a route of the plan says: which requests it takes, where they go, how heads are changed, what is
//! answered without an origin. Pure; it must not know the cache or a connection.

mod answers;
mod choice;
pub(crate) mod clients;
mod edits;
mod files;
mod limits;
mod mapped;
mod names;
mod pattern;
mod place;
mod purgers;
#[cfg(not(any(test, feature = "testing")))]
mod rewrite;
#[cfg(any(test, feature = "testing"))]
pub mod rewrite;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, STRICT_TRANSPORT_SECURITY, VIA};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use weir_config::model::{Config, SchemeName};
use weir_config::value::{Capturing, HostRule, OriginScheme};
use weir_config::{
    Action, Conditions, PageContent, PageFor, RangeRules, ResolvedLimit, ResolvedRate, ResolvedRoute,
    ResolvedSite,
};
use weir_front::Trust;
use weir_policy::set_cookie::set_flags;
use weir_policy::value::{Known, Value, What};
use weir_policy::{CacheRules, KeySources, RequestView, Variant, is_of_content, tags};
use weir_upstream::Pick;

use self::answers::LocalAnswer;
pub(crate) use self::choice::Choice;
use self::clients::{Access, Clients};
pub(crate) use self::files::Served;
use self::limits::Limits;
use self::pattern::PathPattern;
use self::place::Place as CameIn;
pub(crate) use self::purgers::{Purger, Purgers, Rights};
pub(crate) use self::rewrite::Rewritten;
pub(crate) use self::rewrite::target::{DotSegment, KeyPath, Whose};
use self::rewrite::{Rewrites, Way};
use crate::decide::Fulfilled;
use crate::plan::naming::never_stores;
use crate::plan::peers;
use crate::plan::picks::{WrittenPicks, picks};
use crate::transform::request::CLIENT_CERT;
use crate::transform::response::{Place, location_back};
use crate::values::{self, Maps, OfRequest, RouteWords};
use weir_upstream::Deciders;

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
    /// Which clients get an answer; none: all.
    pub(crate) access: Option<Access>,
    /// The clients for which conditions hold, where any names one.
    pub(crate) clients: Option<Box<Clients>>,
    /// What a request may have, where that differs from the limits of all.
    pub(crate) limits: Option<Box<Limits>>,
    /// Who may purge with requests.
    pub(crate) purgers: Purgers,
    /// Whether it answers itself whatever it is asked.
    pub(crate) never_stores: bool,
    /// How fast bodies go out; none: as fast as clients take them.
    pub(crate) rate: Option<ResolvedRate>,
    /// The files that it serves.
    pub(crate) files: Option<Box<Served>>,
    /// The upstream's name, where requests go to one.
    pub upstream: Option<Arc<str>>,
    /// Its picks, where they are not those of its upstream.
    pub(crate) picks: Option<Arc<[Pick]>>,
    /// What is asked before them.
    pub(crate) deciders: Option<Deciders>,
    path: PathPattern,
    /// Empty: every method.
    methods: Vec<Method>,
    scheme: Option<&'static str>,
    /// At which hosts and ports; none: everywhere.
    place_in: Option<Box<CameIn>>,
    local: Option<LocalAnswer>,
    pages: Vec<(PageFor, Page)>,
    host: Option<HeaderValue>,
    via: Via,
    origin_scheme: &'static str,
    /// The value of `Strict-Transport-Security`, for responses over TLS.
    hsts: Option<HeaderValue>,
    request_edits: weir_config::Edits,
    response_edits: weir_config::Edits,
    /// What is printed late is not among the fields that edits remove.
    hides_cache_status: bool,
    response_values: Arc<[(HeaderName, Value)]>,
    capturing: Option<Capturing>,
    maps: Option<Arc<Maps>>,
    rewrites: Option<Box<Rewrites>>,
    /// Whether the key has the path that the origin is asked for.
    is_keyed_rewritten: bool,
    /// Where a map chooses the upstream: the routes to choose from.
    choice: Option<Box<Choice<Arc<Route>>>>,
}

/// What is not known of where requests come in, of an order about a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// The port of ours.
    Port,
    /// The host as well.
    HostAndPort,
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
        (config, written): (&Config, &WrittenPicks),
        maps: Option<&Arc<Maps>>,
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
        let mut rules = rules(resolved, site, config);
        rules.session_cookie = upstream
            .as_deref()
            .and_then(|name: &str| config.upstream.get(name)?.affinity.as_ref()?.session_cookie(name));
        Route {
            name: name(&resolved.conditions),
            place: resolved.place.to_string(),
            print_id: 0,
            rules,
            hsts: site.hsts.clone(),
            revalidation_wait: resolved.revalidation_wait,
            range: resolved.range,
            show_key: resolved.show_key,
            show_tags: resolved.show_tags,
            access: Access::compile(&resolved.access, peers),
            clients: Clients::compile(&resolved.clients, peers),
            limits: Limits::compile(&resolved.limits),
            purgers: Purgers::compile(&resolved.purge, site, peers(&resolved.purge.allow)),
            never_stores: never_stores(&resolved.action),
            rate: resolved.rate.clone(),
            files: Served::compile(resolved.files.as_ref()),
            upstream,
            picks: resolved.pick.as_ref().map(|rule| picks(rule, config).into()),
            deciders: resolved.pick.as_ref().map(|rule| written.deciders(rule)),
            path: PathPattern::compile(&resolved.conditions.path),
            methods: resolved.conditions.methods.clone(),
            scheme: resolved.conditions.scheme.map(|scheme| match scheme {
                SchemeName::Http => "http",
                SchemeName::Https => "https",
            }),
            place_in: CameIn::compile(&resolved.conditions),
            local,
            pages,
            host,
            via: via(resolved, config),
            origin_scheme: origin_scheme(resolved, config),
            request_edits: resolved.request_edits.clone(),
            hides_cache_status: resolved.response_edits.remove.iter().any(|name| name == "cache-status"),
            response_edits: resolved.response_edits.clone(),
            response_values: resolved.response_edits.values.as_slice().into(),
            capturing: resolved.capturing.clone(),
            maps: maps.cloned(),
            rewrites: Rewrites::compile(resolved),
            is_keyed_rewritten: resolved.key_path_rewritten,
            choice: None,
        }
    }

    /// With this number, which no other route has.
    #[must_use]
    pub(crate) fn numbered(self, print_id: u64) -> Route {
        Route { print_id, ..self }
    }

    /// Beside upstreams for which Weir sets cookies of these names.
    pub(crate) fn beside(mut self, own_cookies: &Arc<[String]>) -> Route {
        self.rules.own_cookies = own_cookies.clone();
        self
    }

    /// With a key that has no object of a route that asks otherwise, although rewriting gives both one path.
    pub(crate) fn told_apart(mut self, resolved: &ResolvedRoute) -> Route {
        if self.is_keyed_rewritten {
            self.rules.key.origin = asking(resolved).map(|asking| format!("{asking:016x}"));
        }
        self
    }

    /// The same route; a map chooses its upstream.
    #[must_use]
    pub(crate) fn choosing(self, choice: Option<Box<Choice<Arc<Route>>>>) -> Route {
        Route { choice, ..self }
    }

    /// The route with the upstream that a map chooses for a request without the cookies that are taken out;
    /// the route itself where none does.
    pub(crate) fn chosen<'r, 'a>(
        self: &'r Arc<Route>,
        known: impl FnOnce() -> OfRequest<'a>,
    ) -> &'r Arc<Route> {
        self.choice.as_ref().and_then(|choice| choice.of(&known())).unwrap_or(self)
    }

    /// Whether all conditions of the route hold. `path` is without the query, as
    /// [`read_path`](weir_policy::read_path) reads it; `port` is the listener's.
    pub fn takes(&self, view: &RequestView<'_>, path: &str, port: Option<u16>) -> bool {
        self.takes_anywhere(view, path)
            && self.place_in.as_ref().is_none_or(|place| place.has_host(view) && place.has_port(port))
    }

    /// Whether all conditions hold but those on host and port.
    fn takes_anywhere(&self, view: &RequestView<'_>, path: &str) -> bool {
        self.scheme.is_none_or(|own| own == view.scheme)
            && (self.methods.is_empty() || self.methods.contains(view.method))
            && self.path.fits(path)
    }

    /// Whether the route may take such a request, and whether it takes all of them, by whatever is not known
    /// of where it comes in.
    pub(crate) fn may_take(&self, view: &RequestView<'_>, path: &str, unknown: Unknown) -> (bool, bool) {
        if !self.takes_anywhere(view, path) {
            return (false, false);
        }
        let Some(place) = &self.place_in else { return (true, true) };
        match unknown {
            Unknown::Port => (place.has_host(view), !place.names_ports()),
            Unknown::HostAndPort => (true, !place.names_ports() && !place.names_hosts()),
        }
    }

    /// The methods that it takes; empty: every method.
    pub(crate) fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// Whether Weir answers its requests itself.
    pub(crate) fn answers_itself(&self) -> bool {
        self.local.is_some()
    }

    /// Whether the route's own `method` names this one.
    pub(crate) fn names(&self, method: &Method) -> bool {
        self.methods.contains(method)
    }

    /// The answer without an origin; none where the request goes to the cache and the upstream.
    pub(crate) fn answer<'a>(&self, known: impl FnOnce() -> OfRequest<'a>) -> Option<Answered> {
        self.local.as_ref().map(|local| local.render(known))
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

    /// Writes the origin's `Host` and the fields that the route sets into a request for it, but for those
    /// with placeholders.
    pub(crate) fn towards_origin(&self, headers: &mut HeaderMap) {
        if let Some(host) = self.host_to_origin() {
            headers.insert(HOST, HeaderValue::clone(host));
        }
        self.purgers.hide(headers);
        self.edit_request(headers);
    }

    /// Changes the fields of a request on its way to the origin, but for those that are set to values with
    /// placeholders: they are removed.
    pub fn edit_request(&self, headers: &mut HeaderMap) {
        if self.via == Via::LeftOut {
            headers.remove(VIA);
        }
        edits::apply(&self.request_edits, headers);
    }

    /// The fields of requests to the origin that are set to values with placeholders.
    pub(crate) fn request_values(&self) -> &[(HeaderName, Value)] {
        &self.request_edits.values
    }

    /// The same of responses to the client.
    pub(crate) fn response_values(&self) -> &Arc<[(HeaderName, Value)]> {
        &self.response_values
    }

    /// Sets the fields of a request to the origin that have placeholders; others of their names go, in any
    /// spelling.
    pub(crate) fn set_values(&self, known: &dyn Known, headers: &mut HeaderMap) {
        if !self.request_values().is_empty() {
            edits::strip_values(&self.request_edits, headers);
            values::set(self.request_values(), known, headers);
        }
    }

    /// Keeps of `fields`, which a client's request for an object has, those set to values that all requests
    /// for the object agree in.
    pub(crate) fn keep_values(&self, fields: &HeaderMap, variant: &Variant, headers: &mut HeaderMap) {
        let is_selecting = |name: &HeaderName| variant.selecting.iter().any(|field| field.name == *name);
        for (name, value) in self.request_values() {
            let is_of_object = || value.placeholders().all(|placeholder| self.rules.key.has(placeholder));
            if (is_selecting(name) || is_of_object())
                && let Some(value) = fields.get(name)
            {
                headers.insert(name, value.clone());
            }
        }
        for placeholder in &self.rules.key.values {
            if let What::Header(name) = &placeholder.what
                && let Some(value) = fields.get(name)
            {
                headers.entry(name).or_insert_with(|| value.clone());
            }
        }
    }

    /// What it says of itself.
    pub(crate) fn words(&self) -> RouteWords<'_> {
        let upstream = self.upstream.as_deref().unwrap_or_default();
        let maps = self.maps.as_deref();
        RouteWords { name: &self.name, upstream, capturing: self.capturing.as_ref(), maps }
    }

    /// The conditions of the route that hold by what maps say of a request.
    pub(crate) fn fulfilled_by_maps<'a>(&self, known: impl FnOnce() -> OfRequest<'a>) -> Fulfilled {
        mapped::fulfilled(&self.rules, known)
    }

    /// The names of the maps that decide or say something here.
    pub(crate) fn maps_named(&self) -> BTreeSet<&str> {
        let fields = self.request_values().iter().chain(self.response_values().iter());
        let paths = self.rewrites.iter().flat_map(|rewrites| &rewrites.rules).map(|rule| &rule.to);
        let rate = self.rate.as_ref().and_then(|rate| match &rate.limit {
            Some(ResolvedLimit::Chosen(by)) => Some(by),
            _ => None,
        });
        mapped::names(&self.rules, fields.map(|(_, value)| value).chain(paths).chain(rate))
    }

    /// What the rules need to know for the key beside the request itself, where they have placeholders.
    pub(crate) fn keyed<'a>(&self, known: impl FnOnce() -> OfRequest<'a>) -> Option<OfRequest<'a>> {
        (!self.rules.key.values.is_empty()).then(known)
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
        self.edit_response(headers);
    }

    /// Removes and sets what the route says of fields towards the client.
    pub(crate) fn edit_response(&self, headers: &mut HeaderMap) {
        edits::apply(&self.response_edits, headers);
    }

    /// Whether clients get no `Cache-Status`.
    #[inline]
    pub(crate) fn hides_cache_status(&self) -> bool {
        self.hides_cache_status
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
        self.rules.strip_cookies(headers);
        set_flags(&self.rules.cookie_flags, headers);
        edits::strip(&self.response_edits, headers);
    }

    /// Rewrites a `Location` that names the origin to the authority that the client used. Where the path was
    /// rewritten, by the rule of that number, and whatever else says where the origin's own paths and names
    /// are.
    pub fn location_back(&self, headers: &mut HeaderMap, scheme: &str, host: &str, rule: Option<usize>) {
        let authority = self.host.as_ref().and_then(|origin| origin.to_str().ok());
        let origin = authority.map(|authority| Place { scheme: self.origin_scheme, authority });
        let client = Place { scheme, authority: host };
        match (&self.rewrites, origin) {
            (Some(rewrites), _) => rewrites.map_back(headers, &Way::new(origin, client, rule)),
            (None, Some(origin)) => location_back(headers, origin, client),
            (None, None) => {}
        }
    }

    /// Whether paths are rewritten for the origin.
    pub(crate) fn has_rewrites(&self) -> bool {
        self.rewrites.as_ref().is_some_and(|rewrites| !rewrites.rules.is_empty())
    }

    /// What the origin is asked for in place of the client's path and query.
    ///
    /// # Errors
    /// A rule fits, and the path has a dot segment, or would have one.
    pub(crate) fn rewritten(&self, known: &OfRequest<'_>) -> Result<Option<Rewritten>, DotSegment> {
        let target = weir_policy::forwarded(&self.rules.key, known.view.path_and_query);
        let view = RequestView { path_and_query: &target, ..known.view };
        match &self.rewrites {
            Some(rewrites) => rewrites.apply(&OfRequest { view, ..*known }),
            None => Ok(None),
        }
    }

    /// The rule of a rewritten target in words: `/api/** → /{1}`.
    pub(crate) fn rule_text(&self, rewritten: &Rewritten) -> &str {
        let rule = self.rewrites.as_ref().and_then(|rewrites| rewrites.rules.get(rewritten.rule));
        rule.map_or("", |rule| &rule.text)
    }

    /// What the key has in place of the client's path and query.
    pub(crate) fn key_target<'a>(&self, rewritten: Option<&'a Rewritten>) -> Option<&'a str> {
        rewritten.filter(|_| self.is_keyed_rewritten).map(|rewritten| rewritten.target.as_str())
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

/// The rules of a route, with what the key looks at.
fn rules(resolved: &ResolvedRoute, site: &ResolvedSite, config: &Config) -> CacheRules {
    let mut rules = resolved.cache.clone();
    let of_map = |name: &str| config.map.get(name).map(|map| &map.of.0);
    let conditions = [&rules.bypass, &rules.no_store].into_iter().flat_map(|triggers| &triggers.maps);
    let conditions: Vec<&str> = conditions.map(|trigger| trigger.name.as_str()).collect();
    rules.key.sources = KeySources::of(&rules.key.values, &conditions, &of_map);
    if site.client_certificate.is_some() {
        // What an origin answers to one client's certificate is for that client alone.
        rules.key.headers.push(CLIENT_CERT);
    }
    rules
}

/// Whether all routes that ask an upstream ask it alike.
pub(crate) fn asks_alike(routes: &[ResolvedRoute]) -> bool {
    let mut all = routes.iter().filter_map(asking);
    let first = all.next();
    all.all(|other| Some(other) == first)
}

/// A hash of all that decides what a route gets for a path, keeps and lets clients have; none where it asks
/// no upstream.
fn asking(route: &ResolvedRoute) -> Option<u64> {
    let asks = matches!(route.action, Action::Forward { .. } | Action::Choose { .. });
    let all = || (&route.action, &route.request_edits, &route.access, &route.cache);
    asks.then(|| weir_policy::site_hash(&format!("{:?}", all())))
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
pub(crate) mod tests;
