//! Inheritance: `[defaults]` → site → route, and the content of files. Must not check what `check.rs` has
//! checked.

mod content;
mod inherit;

pub use content::PageContent;
pub(crate) use inherit::JOINED;

use crate::{
    mistake::Mistake,
    model::{
        Answer, ClientCertificate, Config, FieldEdits, Https, Page, Purge, Route, Rules, SchemeName, Site,
        SiteCertificate, Text,
    },
    source::{Place, Sources, Span},
    tree::{Node, Table},
    value::{HostPattern, HostRule, PathRegex, Template, TrustedProxy},
};
use bytes::Bytes;
use content::Contents;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use std::{collections::BTreeMap, fmt, time::Duration};
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
    pub limit: Option<u64>,
    /// The bytes that may go out before the limit holds back.
    pub burst_bytes: u64,
    /// The query parameter that asks for another rate than the limit.
    pub query: Option<String>,
    /// The most bytes a second that a client gets by asking.
    pub query_max: Option<u64>,
    /// The speed of an MP4 as a multiple of its own bit rate.
    pub media: Option<f64>,
}

/// Which requests a route is for. All given conditions must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditions {
    /// What the path must be.
    pub path: PathRule,
    /// The methods; empty: every method.
    pub methods: Vec<Method>,
    /// The scheme that the client used.
    pub scheme: Option<SchemeName>,
}

/// For people: `path /img/**, method GET HEAD`.
impl fmt::Display for Conditions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = match &self.path {
            PathRule::Any => Vec::new(),
            PathRule::Glob(glob) => vec![format!("path {glob}")],
            PathRule::Prefix(prefix) => vec![format!("prefix {prefix}")],
            PathRule::Regex(regex) => vec![format!("regex {regex}")],
        };
        if !self.methods.is_empty() {
            let methods: Vec<&str> = self.methods.iter().map(Method::as_str).collect();
            parts.push(format!("method {}", methods.join(" ")));
        }
        match self.scheme {
            Some(SchemeName::Http) => parts.push("scheme http".to_owned()),
            Some(SchemeName::Https) => parts.push("scheme https".to_owned()),
            None => {}
        }
        match parts.as_slice() {
            [] => out.write_str("every request"),
            parts => out.write_str(&parts.join(", ")),
        }
    }
}

/// What a path must be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PathRule {
    /// Anything.
    #[default]
    Any,
    /// It matches this glob.
    Glob(String),
    /// It begins with this.
    Prefix(String),
    /// This expression is found in it.
    Regex(PathRegex),
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
    /// Weir answers it with this.
    Answer {
        /// The status.
        status: StatusCode,
        /// The fields, Content-Type included.
        headers: HeaderMap,
        /// The body.
        body: Bytes,
    },
    /// Weir redirects it.
    Redirect {
        /// The status.
        status: StatusCode,
        /// Where to.
        to: Template,
    },
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

/// The tables that a value may come from, the nearest first.
#[derive(Clone, Copy)]
pub(crate) struct Layers<'a> {
    pub route: Option<&'a Node>,
    pub site: &'a Node,
    pub defaults: Option<&'a Node>,
}

/// Which of the layers a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    Route,
    Site,
    Defaults,
}

impl<'a> Layers<'a> {
    /// The existing layers, the nearest first.
    pub fn all(self) -> impl Iterator<Item = (Layer, &'a Table)> {
        [(Layer::Route, self.route), (Layer::Site, Some(self.site)), (Layer::Defaults, self.defaults)]
            .into_iter()
            .filter_map(|(layer, node)| Some((layer, node?.as_table()?)))
    }

    /// The nearest value under a path of keys.
    pub fn find(self, path: &[&str]) -> Option<&'a Node> {
        self.all().find_map(|(_, table)| {
            let (first, rest) = path.split_first()?;
            rest.iter().try_fold(table.get(first)?, |node, key| node.get(key))
        })
    }

    /// The place of the nearest value under a path of keys, else of the route or site.
    pub fn span(self, path: &[&str]) -> Span {
        self.find(path).unwrap_or(self.route.unwrap_or(self.site)).span
    }
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
        ResolvedRoute {
            place: self.sources.place(span),
            conditions: conditions(route),
            action: self.action(route, rules, layers),
            cache: rules.cache_rules(),
            revalidation_wait: rules.revalidation_wait.map_or(REVALIDATION_WAIT, |after| after.0),
            range: rules.range_rules(),
            show_key: rules.show_key.unwrap_or(false),
            show_tags: rules.show_tags.unwrap_or(false),
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
        }
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
            return Action::Redirect { status, to: redirect.to().clone() };
        }
        let Some(upstream) = rules.upstream.clone() else {
            self.without_upstream(layers);
            return Action::NotFound;
        };
        let upstream_host = self.config.upstream.get(&upstream).map(|upstream| &upstream.host);
        let host = rules.host.as_ref().or(upstream_host).cloned().unwrap_or_default();
        if host == HostRule::Origin {
            self.one_name(&upstream, layers);
        }
        Action::Forward { upstream, host }
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
        let mut headers = HeaderMap::new();
        for (name, value) in self.fields(&answer.headers, &["answer", "headers"], layers) {
            headers.insert(name, value);
        }
        let page = match (&answer.body, &answer.body_file) {
            (Some(text), _) => content::inline(text),
            (None, Some(file)) => self.file(&file.0, layers.span(&["answer", "body_file"])),
            (None, None) => PageContent { content_type: "", body: Bytes::new() },
        };
        if !page.content_type.is_empty() && !headers.contains_key(header::CONTENT_TYPE) {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(page.content_type));
        }
        let status = StatusCode::from_u16(answer.status.0).unwrap_or(StatusCode::OK);
        Action::Answer { status, headers, body: page.body }
    }

    fn edits(&mut self, edits: Option<&FieldEdits>, key: &str, layers: Layers<'a>) -> Edits {
        let Some(edits) = edits else { return Edits::default() };
        Edits {
            remove: edits.remove.iter().flatten().map(|name| name.0.clone()).collect(),
            set: self.fields(&edits.set, &[key, "set"], layers),
        }
    }

    fn fields(
        &mut self,
        fields: &BTreeMap<String, Text>,
        path: &[&str],
        layers: Layers<'a>,
    ) -> Vec<(HeaderName, HeaderValue)> {
        let mut out = Vec::with_capacity(fields.len());
        for (name, text) in fields {
            let Ok(field) = HeaderName::from_bytes(name.as_bytes()) else { continue };
            let value = match text {
                Text::Inline(text) => HeaderValue::from_str(text).ok(),
                Text::File(from) => {
                    let path: Vec<&str> = path.iter().copied().chain([name.as_str()]).collect();
                    self.secret(&from.file.0, layers.span(&path))
                }
            };
            out.extend(value.map(|value| (field, value)));
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

pub(crate) fn conditions(route: &Route) -> Conditions {
    let path = match (&route.path, &route.prefix, &route.regex) {
        (Some(glob), ..) => PathRule::Glob(glob.0.clone()),
        (_, Some(prefix), _) => PathRule::Prefix(prefix.0.clone()),
        (.., Some(regex)) => PathRule::Regex(regex.clone()),
        _ => PathRule::Any,
    };
    Conditions {
        path,
        methods: route
            .method
            .iter()
            .flat_map(|methods| methods.iter())
            .map(|method| method.0.clone())
            .collect(),
        scheme: route.scheme,
    }
}

#[cfg(test)]
mod tests;
