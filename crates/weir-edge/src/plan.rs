//! The configuration as requests use it: compiled once, never changed, replaced as a whole. Host → [`Site`] →
//! [`Route`]. It must not read the configuration's text or decide about a response; what a route says is in
//! `route.rs`.

pub(crate) mod naming;
pub(crate) mod picks;
mod places;
pub(crate) mod renamed;
mod upstreams;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::HeaderValue;
use weir_config::model::{ClientCertificateMode, Config, FilesMemory, Https, Limits, Listen, Map, Protocol};
use weir_config::value::{HostPattern, ListenAddress, Mapping, TrustedProxy};
use weir_config::{Loaded, ResolvedRoute, ResolvedSite};
use weir_files::HotLimits;
use weir_upstream::UpstreamSettings;

use weir_front::ClientLimits;
use weir_front::listen::{Address, Form, Trusted, UnixPeers};
use weir_front::{ListenerMode, Protocols, Transport};
use weir_observe::SiteId;

use self::naming::Naming;
pub use self::picks::WrittenPicks;
use crate::route::asks_alike;
pub use crate::route::{Answered, Page, Route};
use crate::route::{Choice, Unknown};
use crate::values::Maps;
use weir_config::model::ProxyProtocol;
pub use weir_policy::site_hash;
use weir_policy::value::Value;
use weir_policy::{RequestView, read_path};

/// The mode of a unix socket's file where the configuration names none.
const UNIX_MODE: u32 = 0o660;

/// Plans are numbered through the process, so that a head printed under one plan is never used under another.
static NUMBER_NEXT: AtomicU64 = AtomicU64::new(1);

/// One configuration, compiled.
#[derive(Debug)]
pub struct Plan {
    /// The number of this plan; no other plan of the process has it.
    pub number: u64,
    sites: Vec<Arc<Site>>,
    /// Positions in `sites` by host name.
    exact: HashMap<Box<str>, usize>,
    /// Positions in `sites` by what follows the `*` of a wildcard: `.example.com`.
    below: HashMap<Box<str>, usize>,
    default: Option<usize>,
    health_path: Option<Box<str>>,
    listeners: Vec<(Address, ListenerMode)>,
    trusted: Trusted,
    debug: Option<Trusted>,
    limits: ClientLimits,
    drain: Duration,
    upgrade_drain: Duration,
    memory_bytes: u64,
    hot_limits: HotLimits,
    upstreams: Vec<UpstreamSettings>,
    asks_clients: bool,
    https_port: Option<u16>,
    maps: Option<Arc<Maps>>,
    /// The cookies that Weir sets itself, for any upstream.
    own_cookies: Arc<[String]>,
    log_line: Option<Value>,
}

/// Whether a site asks its clients for certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientCertificate {
    /// It does not.
    NotAsked,
    /// A client may be without one.
    Optional,
    /// A client must have one.
    Required,
}

/// A site with its routes.
#[derive(Debug)]
pub struct Site {
    /// Its first host, as written.
    pub name: Arc<str>,
    /// Its number in the counters.
    pub id: SiteId,
    /// The site's name in keys and in the ledger.
    pub mark: u64,
    /// What is asked of its clients.
    pub(crate) client_certificate: ClientCertificate,
    /// Whether requests without TLS are sent to `https`.
    pub(crate) redirects_to_https: bool,
    /// The value of `Strict-Transport-Security`.
    pub(crate) hsts: Option<HeaderValue>,
    /// Its hosts as clients may write them, with the ports of the listeners. None if it has hosts that are
    /// not written out.
    pub(crate) authorities: Option<Vec<String>>,
    /// What its keys have of URLs.
    naming: Naming,
    routes: Vec<Arc<Route>>,
}

impl Site {
    /// The first route that takes a request. A site's last route takes every request, so there is always one.
    ///
    /// `path` is that of the request, without the query; `port` is the listener's.
    pub fn route(&self, view: &RequestView<'_>, path: &str, port: Option<u16>) -> Option<&Arc<Route>> {
        let path = &read_path(path);
        self.routes.iter().find(|route| route.takes(view, path, port))
    }

    /// All routes that may take such a request, in order, where it is not known where it comes in.
    pub(crate) fn candidates(&self, view: &RequestView<'_>, unknown: Unknown) -> Vec<&Arc<Route>> {
        let (path, mut found) = (read_path(view.path()), Vec::with_capacity(1));
        for route in &self.routes {
            let (may, takes_all) = route.may_take(view, &path, unknown);
            found.extend(may.then_some(route));
            if may && takes_all {
                break;
            }
        }
        found
    }

    /// Those of them for which anything is ever stored. The others answer themselves, and name nothing.
    pub(crate) fn storing(&self, view: &RequestView<'_>, unknown: Unknown) -> Vec<&Arc<Route>> {
        let (path, mut found) = (read_path(view.path()), Vec::with_capacity(1));
        for route in self.routes.iter().filter(|route| !route.never_stores) {
            let (may, takes_all) = route.may_take(view, &path, unknown);
            found.extend(may.then_some(route));
            if may && takes_all {
                break;
            }
        }
        found
    }

    /// The routes in order.
    pub fn routes(&self) -> &[Arc<Route>] {
        &self.routes
    }
}

impl Plan {
    /// Compiles a configuration; `site_id` gives a site's number in the counters by its name.
    pub fn compile(loaded: &Loaded, site_id: &dyn Fn(&str) -> SiteId) -> Plan {
        Plan::compile_with(loaded, site_id, &WrittenPicks::default())
    }

    /// As [`Plan::compile`], with what `[pick.NAME]` stands for where it is a script or a distributor.
    pub fn compile_with(loaded: &Loaded, site_id: &dyn Fn(&str) -> SiteId, written: &WrittenPicks) -> Plan {
        let config = &loaded.config;
        let mut plan = Plan {
            number: NUMBER_NEXT.fetch_add(1, Ordering::Relaxed),
            sites: Vec::with_capacity(loaded.resolved().len()),
            exact: HashMap::new(),
            below: HashMap::new(),
            default: None,
            health_path: config.health.path.as_ref().map(|path| path.0.clone().into_boxed_str()),
            listeners: listeners(config),
            trusted: peers(&config.trusted_proxies),
            debug: Some(peers(&config.debug.allow)).filter(|_| !config.debug.allow.is_empty()),
            limits: client_limits(
                &config.limits,
                places::places(config, places::open_files(), loaded.left_bytes()),
            ),
            drain: config.limits.drain.0,
            upgrade_drain: config.limits.upgrade_drain.0,
            memory_bytes: loaded.memory_bytes(),
            hot_limits: hot_limits(&config.files, loaded.memory_bytes()),
            upstreams: upstreams::settings(config, written),
            asks_clients: loaded.resolved().iter().any(|site| site.client_certificate.is_some()),
            https_port: https_port(config),
            maps: maps(config),
            own_cookies: upstreams::own_cookies(config),
            log_line: config.log.format.as_ref().map(|line| line.0.clone()),
        };
        let mut routes = 0;
        for site in loaded.resolved() {
            plan.add(site, config, (site_id, written), &mut routes);
        }
        plan
    }

    fn add(
        &mut self,
        resolved: &ResolvedSite,
        config: &Config,
        (site_id, written): (&dyn Fn(&str) -> SiteId, &WrittenPicks),
        routes: &mut u64,
    ) {
        let position = self.sites.len();
        for host in &resolved.hosts {
            match host {
                HostPattern::Exact(name) => drop(self.exact.insert(name.as_str().into(), position)),
                HostPattern::Below(suffix) => drop(self.below.insert(suffix.as_str().into(), position)),
                HostPattern::Default => self.default = Some(position),
            }
        }
        let asks_alike = asks_alike(&resolved.routes);
        let mut one = |route: &ResolvedRoute| {
            *routes += 1;
            let number = (self.number << 32) | *routes;
            let compiled = Route::compile(route, resolved, (config, written), self.maps.as_ref());
            let compiled = compiled.numbered(number).beside(&self.own_cookies);
            if asks_alike { compiled } else { compiled.told_apart(route) }
        };
        let compile = |route| {
            let choice = Choice::compile(route, |chosen| Arc::new(one(chosen)));
            Arc::new(one(route).choosing(choice))
        };
        let name: Arc<str> = resolved.name.as_str().into();
        let id = site_id(&name);
        let routes = resolved.routes.iter().map(compile).collect();
        let mark = weir_policy::site_hash(&name);
        self.sites.push(Arc::new(Site {
            name,
            id,
            mark,
            client_certificate: asked_of_clients(resolved),
            redirects_to_https: resolved.https == Some(Https::Redirect),
            hsts: resolved.hsts.clone(),
            authorities: authorities(&resolved.hosts, config),
            naming: Naming::of(resolved, config),
            routes,
        }));
    }

    /// The site of a host: an exact name first, then the longest wildcard, then the default. `host` is
    /// without a port, in lower case, without a final dot.
    pub fn site(&self, host: &str) -> Option<&Arc<Site>> {
        let found = self.exact.get(host).copied().or_else(|| self.wildcard(host)).or(self.default);
        found.map(|position| &self.sites[position])
    }

    fn wildcard(&self, host: &str) -> Option<usize> {
        if self.below.is_empty() {
            return None;
        }
        let dots = memchr::memchr_iter(b'.', host.as_bytes()).filter(|at| *at > 0);
        dots.into_iter().find_map(|at| self.below.get(&host[at..]).copied())
    }

    /// Whether a site names the host, by itself or by a wildcard, and not only as one of all hosts.
    pub(crate) fn names(&self, host: &str) -> bool {
        self.exact.contains_key(host) || self.wildcard(host).is_some()
    }

    /// The site that has this host as the configuration writes it: a name, `*.example.com` or `*`.
    pub(crate) fn site_written(&self, host: &str) -> Option<&Arc<Site>> {
        let position = match host.strip_prefix('*') {
            Some("") => self.default,
            Some(suffix) => self.below.get(suffix).copied(),
            None => self.exact.get(host).copied(),
        };
        position.map(|position| &self.sites[position])
    }

    /// All sites in order.
    pub fn sites(&self) -> &[Arc<Site>] {
        &self.sites
    }

    /// Whether a site asks its clients for certificates.
    pub(crate) fn asks_clients(&self) -> bool {
        self.asks_clients
    }

    /// The lines of the access log, where the configuration says their form.
    pub(crate) fn log_line(&self) -> Option<&Value> {
        self.log_line.as_ref()
    }

    /// The cookies that Weir sets itself, for any upstream.
    pub(crate) fn own_cookies(&self) -> &[String] {
        &self.own_cookies
    }

    /// The maps.
    pub(crate) fn maps(&self) -> Option<&Maps> {
        self.maps.as_deref()
    }

    /// The port of `https` URLs; `None` if it is 443 or not known.
    pub(crate) fn https_port(&self) -> Option<u16> {
        self.https_port
    }

    /// Whether this is the path of the health check for load balancers in front.
    pub fn is_health(&self, path: &str) -> bool {
        self.health_path.as_deref() == Some(path)
    }

    /// Where clients connect, and how their connections begin.
    pub fn listeners(&self) -> &[(Address, ListenerMode)] {
        &self.listeners
    }

    /// The trusted peers.
    pub fn trusted(&self) -> Trusted {
        self.trusted.clone()
    }

    /// The clients that may see how a response came about; `None` where there are none.
    pub(crate) fn debug(&self) -> Option<Trusted> {
        self.debug.clone()
    }

    /// The limits of a client's request.
    pub fn limits(&self) -> ClientLimits {
        self.limits.clone()
    }

    /// How long requests may go on after SIGTERM.
    pub fn drain(&self) -> Duration {
        self.drain
    }

    /// How long requests may go on here once another process has taken over.
    pub fn upgrade_drain(&self) -> Duration {
        self.upgrade_drain
    }

    /// The ceiling of the memory for responses.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// The memory for static files.
    pub fn hot_limits(&self) -> HotLimits {
        self.hot_limits
    }

    /// The upstreams, by name in order.
    pub fn upstreams(&self) -> Vec<UpstreamSettings> {
        self.upstreams.clone()
    }
}

/// The memory for static files: its defaults are at most 64 MiB, and 4 MiB for one of them.
fn hot_limits(files: &FilesMemory, memory_bytes: u64) -> HotLimits {
    let memory = files.memory.map_or((memory_bytes / 4).min(64 << 20), |size| size.0);
    HotLimits { memory_bytes: memory, file_bytes_max: files.file_max.map_or(4 << 20, |size| size.0) }
}

/// An address as the listeners know it.
pub fn address(listen: &ListenAddress) -> Address {
    match listen {
        ListenAddress::Tcp(address) => Address::Tcp(*address),
        ListenAddress::Unix { path, mode } => {
            Address::Unix { path: path.clone(), mode: mode.unwrap_or(UNIX_MODE) }
        }
    }
}

fn listeners(config: &Config) -> Vec<(Address, ListenerMode)> {
    let form = |protocol| match protocol {
        ProxyProtocol::V1 => Form::V1,
        ProxyProtocol::V2 => Form::V2,
        ProxyProtocol::Any => Form::Any,
    };
    let mode = |listen: &Listen| ListenerMode {
        greeting: listen.proxy_protocol.map(form),
        transport: if listen.tls { Transport::Tls } else { Transport::Plain },
        protocols: match listen.protocols() {
            [Protocol::Http1] => Protocols::Http1,
            [Protocol::H2] => Protocols::Http2,
            _ => Protocols::Both,
        },
        port: match &listen.address {
            ListenAddress::Tcp(address) => Some(address.port()),
            ListenAddress::Unix { .. } => None,
        },
    };
    config.listen.iter().map(|listen| (address(&listen.address), mode(listen))).collect()
}

/// The maps, where there are any.
fn maps(config: &Config) -> Option<Arc<Maps>> {
    let compile = |map: &Map| Mapping::compile(&map.of, &map.rules, map.default.as_ref());
    let compiled = config.map.iter().map(|(name, map)| (name.clone(), compile(map)));
    (!config.map.is_empty()).then(|| Arc::new(compiled.collect()))
}

/// The hosts with the ports that clients may write; none where a host is not written out.
fn authorities(hosts: &[HostPattern], config: &Config) -> Option<Vec<String>> {
    let ports = config.listen.iter().filter_map(|listen| match &listen.address {
        ListenAddress::Tcp(address) => Some(address.port()).filter(|port| !matches!(port, 80 | 443)),
        ListenAddress::Unix { .. } => None,
    });
    let ports: BTreeSet<u16> = ports.collect();
    let mut all = Vec::with_capacity(hosts.len() * (1 + ports.len()));
    for host in hosts {
        let HostPattern::Exact(name) = host else { return None };
        all.push(name.as_str().to_owned());
        all.extend(ports.iter().map(|port| format!("{}:{port}", name.as_str())));
    }
    Some(all)
}

/// The port for redirects: none where a listener with TLS has 443, or where no listener has TLS.
fn https_port(config: &Config) -> Option<u16> {
    let ports = config.listen.iter().filter(|listen| listen.tls).filter_map(|listen| match &listen.address {
        ListenAddress::Tcp(address) => Some(address.port()),
        ListenAddress::Unix { .. } => None,
    });
    let ports: Vec<u16> = ports.collect();
    ports.first().copied().filter(|_| !ports.contains(&443))
}

/// What a site asks of its clients.
fn asked_of_clients(site: &ResolvedSite) -> ClientCertificate {
    match site.client_certificate.as_ref().map(|asked| asked.mode) {
        None => ClientCertificate::NotAsked,
        Some(ClientCertificateMode::Optional) => ClientCertificate::Optional,
        Some(ClientCertificateMode::Required) => ClientCertificate::Required,
    }
}

/// Peers as the listeners know them.
pub(crate) fn peers(listed: &[TrustedProxy]) -> Trusted {
    let network = |proxy: &TrustedProxy| match proxy {
        TrustedProxy::Net(network) => Some(*network),
        TrustedProxy::Unix => None,
    };
    let unix = match listed.contains(&TrustedProxy::Unix) {
        true => UnixPeers::Trusted,
        false => UnixPeers::Untrusted,
    };
    Trusted::new(listed.iter().filter_map(network).collect(), unix)
}

fn client_limits(limits: &Limits, (connections_max, per_client_max): (usize, usize)) -> ClientLimits {
    let bytes = |size: weir_config::value::Size| usize::try_from(size.0).unwrap_or(usize::MAX);
    ClientLimits {
        head: weir_wire::Limits {
            line_bytes_max: bytes(limits.line),
            head_bytes_max: bytes(limits.head),
            fields_max: limits.fields as usize,
        },
        body_bytes_max: limits.body.0,
        head_time_max: limits.head_time.0,
        idle_time_max: limits.idle.0,
        body_rate_min: limits.body_rate.0,
        send_stall_max: limits.send_stall.0,
        connections_max,
        per_client_max,
        read_rate_min: limits.read_rate.0,
        body_hold_bytes: bytes(limits.body_hold),
        half_close_max: limits.half_close.0,
        tunnel_idle_max: limits.tunnel_idle.0,
    }
}

#[cfg(test)]
pub(crate) mod tests;
