//! Inheritance: `[defaults]` → site → route, and the content of files. Must not check what `check.rs` has
//! checked.

mod captures;
mod conditions;
mod content;
mod files;
mod inherit;
mod layers;
mod rewrite;

pub(crate) use conditions::conditions;
pub use conditions::{Conditions, PathRule};
pub use content::PageContent;
pub use files::ResolvedFiles;
pub(crate) use inherit::JOINED;
pub(crate) use layers::{Layer, Layers};
pub use rewrite::{BackBy, ResolvedBack, ResolvedRewrite};

use crate::{
    maps::chosen,
    mistake::Mistake,
    model::{
        Answer, ClientCertificate, Config, FieldEdits, FieldText, Https, KeyPath, Page, PickRule, Purge,
        Route, RouteLimits, Rules, Site, SiteCertificate, Text,
    },
    source::{Place, Sources, Span},
    tree::Node,
    value::{Capturing, HostPattern, HostRule, TrustedProxy, UpstreamRule, text},
};
use bytes::Bytes;
use content::Contents;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use weir_policy::value::{Placeholder, Scope, Value, What};
use weir_policy::{CacheRules, RangeRules};

/// The default of `revalidation_wait`.
const REVALIDATION_WAIT: Duration = Duration::from_secs(2);
/// The shortest secret of `purge.key`: who guesses has few tries at many characters.
const SECRET_BYTES_MIN: usize = 16;

/// A site after inheritance.
#[derive(Debug, Clone)]
pub struct ResolvedSite {
    /// Its first host, as written: the site's name in logs, metrics and accounts.
    pub name: String,
    /// The hosts it answers for.
    pub hosts: Vec<HostPattern>,
    /// The customer.
    pub customer: Option<String>,
    /// The description.
    pub description: Option<String>,
    /// The most bytes that the volumes hold of the site.
    pub quota_bytes: Option<u64>,
    /// Where its certificate comes from, if not from files.
    pub certificate: Option<SiteCertificate>,
    /// What is done with requests without TLS.
    pub https: Option<Https>,
    /// The value of `Strict-Transport-Security` in responses over TLS.
    pub hsts: Option<HeaderValue>,
    /// What is asked of clients.
    pub client_certificate: Option<ClientCertificate>,
    /// Its place.
    pub place: Place,
    /// Its routes in order. The last has no condition: the site's own rules.
    pub routes: Vec<ResolvedRoute>,
}

/// A route after inheritance.
#[derive(Debug, Clone)]
pub struct ResolvedRoute {
    /// Its place; for a site's own rules, the site's place.
    pub place: Place,
    /// Which requests it is for.
    pub conditions: Conditions,
    /// What Weir does with them.
    pub action: Action,
    /// The files that are looked for before the action.
    pub files: Option<ResolvedFiles>,
    /// Which of the upstream's origins gets a request, where that is not the upstream's `pick`.
    pub pick: Option<PickRule>,
    /// The caching rules.
    pub cache: CacheRules,
    /// How long a request waits for a revalidation before a stale response goes out where it may.
    pub revalidation_wait: Duration,
    /// How Weir fetches ranges that it does not hold.
    pub range: RangeRules,
    /// Whether `Cache-Status` names the key.
    pub show_key: bool,
    /// Whether all clients get the fields of tags that else only caches get.
    pub show_tags: bool,
    /// Which clients get an answer.
    pub access: ResolvedAccess,
    /// The networks of clients for which `bypass`, `refresh` and `no_store` hold.
    pub clients: ResolvedClients,
    /// What a request may have, where that differs from `[limits]`.
    pub limits: RouteLimits,
    /// Who may purge with requests.
    pub purge: ResolvedPurge,
    /// How fast bodies go out; `None`: as fast as clients take them.
    pub rate: Option<ResolvedRate>,
    /// Changes to requests on their way to the origin.
    pub request_edits: Edits,
    /// Changes to responses on their way to the client.
    pub response_edits: Edits,
    /// Pages for Weir's own errors.
    pub error_pages: Vec<(PageFor, PageContent)>,
    /// While this is set, every request is answered 503.
    pub maintenance: Option<Closed>,
    /// Other paths for the origin.
    pub rewrite: Vec<ResolvedRewrite>,
    /// How what the origin says is mapped back; none where nothing is said of it, and no path is rewritten.
    pub back: Option<ResolvedBack>,
    /// Whether the key has the path that the origin is asked for.
    pub key_path_rewritten: bool,
    /// What captures parts of the path, where a value of the route names a capture.
    pub capturing: Option<Capturing>,
}

/// Which clients get an answer. Clients that are not known get none where either list is given.
#[derive(Debug, Clone, Default)]
pub struct ResolvedAccess {
    /// The only clients; `None`: all.
    pub allow: Option<Vec<TrustedProxy>>,
    /// Clients that get 403.
    pub deny: Vec<TrustedProxy>,
}

/// Networks of clients, by the conditions that name them.
#[derive(Debug, Clone, Default)]
pub struct ResolvedClients {
    /// Those of `bypass`.
    pub bypass: Vec<TrustedProxy>,
    /// Those of `refresh`.
    pub refresh: Vec<TrustedProxy>,
    /// Those of `no_store`.
    pub no_store: Vec<TrustedProxy>,
}

/// Who may purge with requests.
#[derive(Debug, Clone, Default)]
pub struct ResolvedPurge {
    /// Clients by their address.
    pub allow: Vec<TrustedProxy>,
    /// A field and the secret that it must have. The value is sensitive.
    pub key: Option<(HeaderName, HeaderValue)>,
    /// Whether `allow` is good for more than one URL where a trusted proxy names no client.
    pub is_local: bool,
}

/// How fast the body of a response goes out. All given bounds hold.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedRate {
    /// The most bytes a second.
    pub limit: Option<ResolvedLimit>,
    /// The bytes that may go out before the limit holds back.
    pub burst_bytes: u64,
    /// The query parameter that asks for another rate than the limit.
    pub query: Option<String>,
    /// The most bytes a second that a client gets by asking, if not the limit.
    pub query_max: Option<u64>,
    /// The speed of an MP4 as a multiple of its own bit rate.
    pub media: Option<f64>,
}

/// The most bytes a second.
#[derive(Debug, Clone, PartialEq)]
pub enum ResolvedLimit {
    /// This many.
    Fixed(u64),
    /// What this says for a request, a rate; without a limit where it says nothing.
    Chosen(Value),
}

/// What Weir does with a request.
#[derive(Debug, Clone)]
pub enum Action {
    /// Weir answers it from the cache or the upstream.
    Forward {
        /// The upstream's name.
        upstream: String,
        /// The Host that Weir sends to the origin.
        host: HostRule,
    },
    /// The same; a map says which upstream.
    Choose {
        /// What says the upstream's name. Its placeholder is in the key.
        by: Value,
        /// All that it can say, each with the Host that Weir sends to its origins.
        upstreams: Vec<(String, HostRule)>,
    },
    /// Weir answers it with this.
    Answer {
        /// The status.
        status: StatusCode,
        /// The fields, Content-Type included.
        headers: HeaderMap,
        /// Fields whose values have placeholders.
        values: Vec<(HeaderName, Value)>,
        /// The body.
        body: Bytes,
    },
    /// Weir redirects it.
    Redirect {
        /// The status.
        status: StatusCode,
        /// Where to.
        to: Value,
    },
    /// Weir answers it with a file, and asks no upstream.
    Files,
    /// No route matches and the site has no upstream: 404.
    NotFound,
}

/// Changes to fields: first the removals, then the settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Edits {
    /// Fields to remove.
    pub remove: Vec<HeaderName>,
    /// Fields to set, in place of any of that name; values from files are marked sensitive.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// Fields to set to values with placeholders, in place of any of that name.
    pub values: Vec<(HeaderName, Value)>,
}

/// Which errors a page is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageFor {
    /// One status.
    Status(StatusCode),
    /// Every status that has no page of its own.
    Every,
}

/// Maintenance: every request is answered 503.
#[derive(Debug, Clone)]
pub struct Closed {
    /// The value of Retry-After.
    pub retry_after: Duration,
    /// The page; none: the error page of 503.
    pub page: Option<PageContent>,
}

pub(crate) struct Resolver<'a> {
    config: &'a Config,
    tree: &'a Node,
    sources: &'a Sources,
    mistakes: &'a mut Vec<Mistake>,
    contents: Contents,
}

impl<'a> Resolver<'a> {
    pub fn new(
        config: &'a Config,
        tree: &'a Node,
        sources: &'a Sources,
        mistakes: &'a mut Vec<Mistake>,
    ) -> Resolver<'a> {
        Resolver { config, tree, sources, mistakes, contents: Contents::default() }
    }

    pub fn sites(&mut self) -> Vec<ResolvedSite> {
        let (config, tree) = (self.config, self.tree);
        let nodes = tree.list_of("site").iter();
        config.site.iter().zip(nodes).map(|(site, node)| self.site(site, node)).collect()
    }

    fn site(&mut self, site: &Site, node: &'a Node) -> ResolvedSite {
        let rules = site.rules.inherit(&self.config.defaults);
        let layers = Layers { route: None, site: node, defaults: self.tree.get("defaults") };
        let mut routes: Vec<ResolvedRoute> = site
            .route
            .iter()
            .zip(node.list_of("route"))
            .map(|(route, route_node)| {
                let layers = Layers { route: Some(route_node), ..layers };
                self.route(route, &route.rules.inherit(&rules), layers)
            })
            .collect();
        routes.push(self.route(&Route::default(), &rules, layers));
        ResolvedSite {
            name: site.hosts.first().map(ToString::to_string).unwrap_or_default(),
            hosts: site.hosts.clone(),
            customer: site.customer.clone(),
            description: site.description.clone(),
            quota_bytes: site.quota.map(|quota| quota.0),
            certificate: site.certificate,
            https: site.https,
            hsts: site.hsts.as_ref().and_then(|hsts| HeaderValue::from_str(&hsts.field_value()).ok()),
            client_certificate: site.client_certificate.clone(),
            place: self.sources.place(node.span),
            routes,
        }
    }

    fn route(&mut self, route: &Route, rules: &Rules, layers: Layers<'a>) -> ResolvedRoute {
        let span = layers.route.unwrap_or(layers.site).span;
        let mut resolved = ResolvedRoute {
            place: self.sources.place(span),
            conditions: conditions(route),
            action: self.action(route, rules, layers),
            files: files::of(route, rules, layers),
            pick: rules.pick.clone(),
            cache: rules.cache_rules(),
            revalidation_wait: rules.revalidation_wait.map_or(REVALIDATION_WAIT, |after| after.0),
            range: rules.range_rules(),
            show_key: rules.show_key.unwrap_or(false),
            show_tags: rules.show_tags.unwrap_or(false),
            access: rules.access(),
            clients: rules.clients(),
            limits: rules.limits.clone().unwrap_or_default(),
            purge: self.purge(rules.purge.as_ref(), layers),
            rate: rules.resolved_rate(),
            request_edits: self.edits(rules.request_headers.as_ref(), "request_headers", layers),
            response_edits: self.edits(rules.response_headers.as_ref(), "response_headers", layers),
            error_pages: self.error_pages(rules, layers),
            maintenance: rules.maintenance.as_ref().filter(|maintenance| maintenance.on).map(|maintenance| {
                let page = maintenance.page.as_ref();
                Closed {
                    retry_after: maintenance.retry_after.0,
                    page: page.map(|page| self.page(page, layers.span(&["maintenance", "page"]))),
                }
            }),
            rewrite: rewrite::rewrites(rules.rewrite.as_deref().unwrap_or_default()),
            back: (rules.rewrite.is_some() || rules.back.is_some())
                .then(|| rewrite::back(rules.back.as_ref())),
            key_path_rewritten: rules.key.as_ref().and_then(|key| key.path) == Some(KeyPath::Rewritten),
            capturing: None,
        };
        if let Action::Choose { by, upstreams } = &resolved.action
            && !upstreams.is_empty()
        {
            // What one upstream answers must not go out to a request for another.
            let key = &mut resolved.cache.key.values;
            key.extend(by.placeholders().filter(|by| !key.contains(by)).cloned().collect::<Vec<_>>());
        }
        if !resolved.conditions.ports.is_empty() {
            // Else a URL would have one object for ports that lead to different routes.
            let port = Placeholder::of(What::ListenerPort);
            let key = &mut resolved.cache.key.values;
            key.extend(Some(port).filter(|port| !key.contains(port)));
        }
        captures::join(&mut resolved, layers, self.mistakes);
        captures::check_maps(&resolved, layers, self.config, self.mistakes);
        rewrite::check(&resolved, layers, self.mistakes);
        rewrite::check_key(layers, self.mistakes);
        resolved
    }

    fn purge(&mut self, purge: Option<&Purge>, layers: Layers<'a>) -> ResolvedPurge {
        let Some(purge) = purge else { return ResolvedPurge::default() };
        let key = purge.key.as_ref().and_then(|key| {
            let span = layers.span(&["purge", "key", "secret"]);
            let mut secret = match &key.secret {
                Text::Inline(text) => HeaderValue::from_str(text).ok()?,
                Text::File(from) => self.secret(&from.file.0, span)?,
            };
            if secret.len() < SECRET_BYTES_MIN {
                let title = format!("the secret of `purge.key` has fewer than {SECRET_BYTES_MIN} characters");
                self.mistakes.push(Mistake::at(span, title).help("for example: openssl rand -hex 32"));
            }
            secret.set_sensitive(true);
            Some((key.header.0.clone(), secret))
        });
        ResolvedPurge { allow: purge.allow.clone(), key, is_local: purge.local }
    }

    fn action(&mut self, route: &Route, rules: &Rules, layers: Layers<'a>) -> Action {
        if let Some(answer) = &route.answer {
            return self.answer(answer, layers);
        }
        if let Some(redirect) = &route.redirect {
            let status = StatusCode::from_u16(redirect.status()).unwrap_or(StatusCode::MOVED_PERMANENTLY);
            return Action::Redirect { status, to: redirect.to().0.clone() };
        }
        if files::of(route, rules, layers).is_some_and(|files| files.asks_no_upstream()) {
            return Action::Files;
        }
        let Some(upstream) = rules.upstream.clone() else {
            self.without_upstream(layers);
            return Action::NotFound;
        };
        match upstream {
            UpstreamRule::Named(upstream) => {
                let host = self.host_of(&upstream, rules, layers);
                Action::Forward { upstream, host }
            }
            UpstreamRule::Chosen(by) => {
                let names = chosen(&by, self.config).into_iter().map(|(_, name)| name);
                let names: BTreeSet<String> =
                    names.filter(|name| self.config.upstream.contains_key(name)).collect();
                let hosts = names.into_iter().map(|name| (name.clone(), self.host_of(&name, rules, layers)));
                Action::Choose { by: by.value().clone(), upstreams: hosts.collect() }
            }
        }
    }

    /// The Host that the origins of an upstream are sent.
    fn host_of(&mut self, upstream: &str, rules: &Rules, layers: Layers<'a>) -> HostRule {
        let of_upstream = self.config.upstream.get(upstream).map(|upstream| &upstream.host);
        let host = rules.host.as_ref().or(of_upstream).cloned().unwrap_or_default();
        if host == HostRule::Origin {
            self.one_name(upstream, layers);
        }
        host
    }

    /// `host = "origin"` needs origins that all have the same name.
    fn one_name(&mut self, upstream: &str, layers: Layers<'a>) {
        let Some(model) = self.config.upstream.get(upstream) else { return };
        let mut names: Vec<_> = model.origins.iter().map(|origin| origin.url().authority()).collect();
        names.dedup();
        if matches!(names.as_slice(), [Some(_)] | []) {
            return;
        }
        let node = self.tree.get("upstream").and_then(|table| table.get(upstream));
        let own = node.and_then(|node| node.get("host"));
        let Some(node) = layers.find(&["host"]).or(own) else { return };
        let title = format!("`host = \"origin\"`, but the origins of `{upstream}` have no one name");
        self.mistakes
            .push(Mistake::at(node.span, title).help("write the name itself: host = \"www.example.com\""));
    }

    /// A site's own rules may have no upstream when it has routes; a route may not.
    fn without_upstream(&mut self, layers: Layers<'a>) {
        let known = layers.all().all(|(_, table)| !table.is_damaged);
        if !known {
            return;
        }
        let (span, what) = match layers.route {
            Some(route) => (route.span, "route"),
            None if layers.site.list_of("route").is_empty() => (layers.site.span, "site"),
            None => return,
        };
        let help = "name one with `upstream`, here or where it is inherited from; or give the route an \
                    `answer` or `redirect`";
        self.mistakes.push(Mistake::at(span, format!("this {what} has no upstream")).help(help));
    }

    fn answer(&mut self, answer: &Answer, layers: Layers<'a>) -> Action {
        let Edits { set, values, .. } =
            self.fields(&answer.headers, (&["answer", "headers"], Scope::Answer), layers);
        let mut headers: HeaderMap = set.into_iter().collect();
        let page = match (&answer.body, &answer.body_file) {
            (Some(text), _) => content::inline(text),
            (None, Some(file)) => self.file(&file.0, layers.span(&["answer", "body_file"])),
            (None, None) => PageContent { content_type: "", body: Bytes::new() },
        };
        if !page.content_type.is_empty()
            && !headers.contains_key(header::CONTENT_TYPE)
            && !values.iter().any(|(name, _)| *name == header::CONTENT_TYPE)
        {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(page.content_type));
        }
        let status = StatusCode::from_u16(answer.status.0).unwrap_or(StatusCode::OK);
        Action::Answer { status, headers, values, body: page.body }
    }

    fn edits(&mut self, edits: Option<&FieldEdits>, key: &str, layers: Layers<'a>) -> Edits {
        let Some(edits) = edits else { return Edits::default() };
        let scope = if key == "request_headers" { Scope::Request } else { Scope::Response };
        Edits {
            remove: edits.remove.iter().flatten().map(|name| name.0.clone()).collect(),
            ..self.fields(&edits.set, (&[key, "set"], scope), layers)
        }
    }

    /// Fields to set, those with placeholders apart. What is wrong with their texts is reported elsewhere.
    fn fields(
        &mut self,
        fields: &BTreeMap<String, FieldText>,
        (path, scope): (&[&str], Scope),
        layers: Layers<'a>,
    ) -> Edits {
        let mut out = Edits::default();
        for (name, text) in fields {
            let Ok(field) = HeaderName::from_bytes(name.as_bytes()) else { continue };
            let value = match text {
                FieldText::Inline(text) => {
                    let Ok(value) = text::field_value(text, scope) else { continue };
                    match value.constant() {
                        Some(text) => HeaderValue::from_str(text).ok(),
                        None => {
                            out.values.push((field, value));
                            continue;
                        }
                    }
                }
                FieldText::File(from) => {
                    let path: Vec<&str> = path.iter().copied().chain([name.as_str()]).collect();
                    self.secret(&from.file.0, layers.span(&path))
                }
            };
            out.set.extend(value.map(|value| (field, value)));
        }
        out
    }

    /// The value of a field from a file, without the line break at its end.
    fn secret(&mut self, path: &std::path::Path, span: Span) -> Option<HeaderValue> {
        let bytes = self.file(path, span).body;
        let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        match HeaderValue::from_bytes(text) {
            Ok(mut value) => {
                value.set_sensitive(true);
                Some(value)
            }
            Err(_) => {
                let title = format!("the file `{}` does not hold the value of a field", path.display());
                self.mistakes
                    .push(Mistake::at(span, title).label("one line of visible characters is expected"));
                None
            }
        }
    }

    fn error_pages(&mut self, rules: &Rules, layers: Layers<'a>) -> Vec<(PageFor, PageContent)> {
        let Some(pages) = &rules.error_pages else { return Vec::new() };
        let page = |(status, page): (&String, &Page)| {
            let span = layers.span(&["error_pages", status]);
            let status = match status.parse::<u16>().ok().map(StatusCode::from_u16) {
                Some(Ok(status)) => PageFor::Status(status),
                _ => PageFor::Every,
            };
            (status, self.page(page, span))
        };
        pages.iter().map(page).collect()
    }

    fn page(&mut self, page: &Page, span: Span) -> PageContent {
        match page {
            Page::Text(text) => content::inline(text),
            Page::File(from) => self.file(&from.file.0, span),
        }
    }

    fn file(&mut self, path: &std::path::Path, span: Span) -> PageContent {
        match self.contents.read(path) {
            Ok(page) => page,
            Err(error) => {
                let title = format!("cannot read the file `{}`", path.display());
                self.mistakes.push(Mistake::at(span, title).label(error));
                PageContent { content_type: "", body: Bytes::new() }
            }
        }
    }
}

#[cfg(test)]
mod tests;
