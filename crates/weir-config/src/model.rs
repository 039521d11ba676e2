//! The configuration file as types: one model for the file, the JSON Schema and the reference. The doc
//! comments here are the text of the reference. Must not decide anything: `resolve.rs` does inheritance,
//! `check.rs` and `semantics.rs` do checks.

mod acme;
mod affinity;
mod check;
mod cookies;
mod debug;
mod distributor;
mod eject;
mod events;
mod files;
mod limits;
mod map;
mod metrics;
mod pick;
mod range;
mod rate;
mod retry;
mod rewrite;
mod rules;
mod site;
mod tls;
mod upstream;
mod warm;
mod written;

pub use acme::{Acme, AcmeChallenge, AcmeFallback, ExternalAccount};
pub use affinity::{Affinity, AffinityBy, SameSite};
pub use check::{Agent, Check, CheckField, CheckMethod, CheckRule, CheckWord};
pub use cookies::{AddedFlag, CookieFlags, Cookies, NamedCookies, RemovedFlag, SetCookie, SetCookieRule};
pub use debug::DebugFields;
pub use distributor::{AskForm, DistributorServer, PolicyRule};
pub use eject::Eject;
pub use events::{EventKind, Events};
pub use files::{FilesMemory, FilesRules, SymlinkRule};
pub use limits::RouteLimits;
pub use map::Map;
pub use metrics::Metrics;
pub use pick::{Hash, PickEntry, PickName, PickRule, PickTable, PickWord};
pub use range::{Range, RangeFill, WithoutValidator};
pub use rate::{Rate, RateRule};
pub use retry::{Retry, RetryOn};
pub use rewrite::{Back, BackPattern, BackRule, BackWord, KeyPath, Rewrite};
pub use rules::{
    ClientDirectives, CloseDelimited, EachMinUses, ErrorStorage, FieldEdits, FieldText, FromFile,
    HeadRequests, Heuristics, Ignore, IgnoredDirective, Key, KeyQuery, Lifetime, MinUses, Purge, Query,
    QueryWord, Rules, Stale, Surrogate, Text, Triggers, Vary,
};
pub use site::{
    Answer, Maintenance, Methods, Page, Ports, Redirect, RedirectTable, Route, SchemeName, Site, Status,
};
pub use tls::{
    Certificate, ClientCertificate, ClientCertificateMode, Hsts, HstsTable, Https, Protocol, SiteCertificate,
};
pub use upstream::{OriginEntry, OriginTable, Resolve, Tls, Upstream};
pub use warm::Warm;
pub use written::{Measured, ScriptItem, ScriptValue, WrittenPick};

use crate::value::{
    Duration, HostPattern, ListenAddress, LogLine, LogTarget, PathPrefix, PathText, Size, TrustedProxy,
};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    num::NonZeroU32,
};

/// The whole of `weir.toml`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// More files, as paths or globs relative to this file. Weir adds their tables to those of this file:
    /// lists such as `[[site]]` grow, tables such as `[limits]` are joined. A key that stands twice is a
    /// mistake.
    pub include: Vec<String>,
    /// Peers whose `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Request-Id` are believed. Default: loopback
    /// and unix sockets.
    pub trusted_proxies: Vec<TrustedProxy>,
    /// The folder of what Weir must remember across restarts.
    pub state: State,
    /// What Weir keeps of the origins' responses.
    pub cache: Cache,
    /// The memory for static files, beside `[cache] memory`.
    pub files: FilesMemory,
    /// Content by hand, which operators lay over URLs (`weir content put`). It lies in the state folder.
    pub content: Content,
    /// The listener for metrics, health and the API. All but metrics and health needs a token (`weir token
    /// add`).
    pub admin: Admin,
    /// A health path for load balancers in front.
    pub health: Health,
    /// Where clients connect. Without any: `127.0.0.1:8080`.
    pub listen: Vec<Listen>,
    /// Certificates in files, for the listeners with TLS.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub certificate: Vec<Certificate>,
    /// Certificates that Weir orders itself. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acme: Option<Acme>,
    /// What a client may ask of Weir.
    pub limits: Limits,
    /// The access log.
    pub log: Log,
    /// Events of what is stored, for other programs.
    pub events: Events,
    /// Who may see how a response came about.
    pub debug: DebugFields,
    /// Named groups of origins: `[upstream.NAME]`.
    #[cfg_attr(test, schemars(extend("propertyNames" = { "format": "weir-upstream-name" })))]
    pub upstream: BTreeMap<String, Upstream>,
    /// Picks that you write: `[pick.NAME]`, used by the name in `pick`. The names of the built-in picks are
    /// taken.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(test, schemars(extend("propertyNames" = { "format": "weir-pick-name" })))]
    pub pick: BTreeMap<String, WrittenPick>,
    /// Sources of metrics of origins: `[metrics.NAME]`.
    #[cfg_attr(test, schemars(extend("propertyNames" = { "format": "weir-metrics-name" })))]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, Metrics>,
    /// What `weir distributor` answers, and where. Default: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distributor: Option<DistributorServer>,
    /// Tables of what a text of the request becomes: `[map.NAME]`, used as `{map.NAME}`.
    #[cfg_attr(test, schemars(extend("propertyNames" = { "format": "weir-map-name" })))]
    pub map: BTreeMap<String, Map>,
    /// What Weir asks for by itself. Default: nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warm: Vec<Warm>,
    /// What all sites inherit.
    pub defaults: Rules,
    /// Sites, chosen by the host of a request. A request whose host no site names is answered 421.
    pub site: Vec<Site>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            include: Vec::new(),
            trusted_proxies: vec![
                TrustedProxy::Net(IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8))),
                TrustedProxy::Net(IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128))),
                TrustedProxy::Unix,
            ],
            state: State::default(),
            cache: Cache::default(),
            files: FilesMemory::default(),
            content: Content::default(),
            admin: Admin::default(),
            health: Health::default(),
            listen: vec![Listen::at(ListenAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 8080))))],
            certificate: Vec::new(),
            acme: None,
            limits: Limits::default(),
            log: Log::default(),
            events: Events::default(),
            debug: DebugFields::default(),
            upstream: BTreeMap::new(),
            pick: BTreeMap::new(),
            metrics: BTreeMap::new(),
            distributor: None,
            map: BTreeMap::new(),
            warm: Vec::new(),
            defaults: Rules::default(),
            site: Vec::new(),
        }
    }
}

/// The folder of what Weir must remember across restarts.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct State {
    /// The folder (mode 0700). Default: `$STATE_DIRECTORY`, else `/var/lib/weir` for root and
    /// `~/.local/state/weir` for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathText>,
}

/// What Weir keeps of the origins' responses.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Cache {
    /// The ceiling of the memory that holds responses. Default: 256 MiB, or a quarter of what the cgroup's
    /// limit leaves after 32 MiB for the process and the needs of the volumes, whichever is less; at least 8
    /// MiB. One object takes at most half of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// The drives that hold what memory does not, and keep it across restarts: one folder each, without RAID.
    /// Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volume: Vec<Volume>,
    /// Which responses are written to the drives. The others stay in memory alone, and are written once they
    /// qualify.
    pub admission: Admission,
}

/// Content by hand, which operators lay over URLs (`weir content put`). It lies in the state folder.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Content {
    /// The most bytes of all of it, with what is on its way in. Each piece counts in steps of 4 KiB, and 4
    /// KiB for itself; there are at most 65,536. More is refused (507), and what is laid stays. A token of
    /// some sites may give each of them an equal part.
    pub size: Size,
}

impl Default for Content {
    fn default() -> Content {
        Content { size: Size(1 << 30) }
    }
}

/// What is written to the drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Admission {
    /// All, while the volume has room and at most half of what its `write_budget` allows by now is used.
    /// After that only what is asked for twice; and the further the budget is ahead of the day, the more
    /// often it must be asked for.
    #[default]
    Auto,
    /// Every response that may be stored.
    Always,
    /// Responses that were asked for before.
    Second,
}

/// A folder on a drive that holds responses.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// The folder. Weir makes it; nothing else may be in it.
    pub path: PathText,
    /// The most bytes that its files take together. Default: 10 GiB, or a quarter of the file system's free
    /// space if that is less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// The most bytes written to it in a day (UTC), heads, journal and catalogue included. Once they are used
    /// up, nothing is stored before midnight; what is held is still served, and purges still hold. Default:
    /// no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_budget: Option<Size>,
    /// Its share of what is stored, relative to the weights of the other volumes. Default: its size in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<NonZeroU32>,
    /// Empties the volume: it serves what it holds, stores nothing more, and moves what it holds to the other
    /// volumes as far as they have room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drain: bool,
    /// The longest that a read may take. A slower one is a miss and makes the volume `slow`: Weir reads and
    /// stores nothing there until it keeps up again.
    #[serde(default = "read_timeout_default")]
    pub read_timeout: Duration,
}

/// A working drive answers within tens of milliseconds, also on a busy machine.
fn read_timeout_default() -> Duration {
    Duration::seconds(2)
}

/// The listener for metrics, health and the API. All but metrics and health needs a token: `weir token add`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// Its address.
    pub listen: ListenAddress,
    /// Whether its connections begin with TLS, with the certificates of the listeners for clients. Needs a
    /// restart.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// Host names that it answers to, beside its addresses and `localhost`; `*` for any. A request for
    /// another host is answered 421, so that no web page can read customers' names through a browser (DNS
    /// rebinding). `/health/*` answers to any name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostPattern>,
}

impl Default for Admin {
    fn default() -> Admin {
        let listen = ListenAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 9180)));
        Admin { listen, tls: false, hosts: Vec::new() }
    }
}

/// A health path for load balancers in front.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Health {
    /// A path that is answered 200 while Weir takes requests and 503 while it drains, on every `[[listen]]`
    /// and for every host. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathPrefix>,
}

/// Where clients connect.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// The address, or unix socket.
    pub address: ListenAddress,
    /// The version of the PROXY protocol that every connection must begin with. Default: the protocol is not
    /// read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Whether connections begin with TLS, after the PROXY protocol. It needs a certificate:
    /// `[[certificate]]`, `[acme]`, or one of a site.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// The protocols that clients may speak, the preferred one first. Without TLS a client that speaks `h2`
    /// begins with it at once (prior knowledge). Default: `["h2", "http/1.1"]` with TLS, else `["http/1.1"]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub protocols: Option<Vec<Protocol>>,
}

impl Listen {
    /// A plain listener.
    pub fn at(address: ListenAddress) -> Listen {
        Listen { address, proxy_protocol: None, tls: false, protocols: None }
    }

    /// The protocols that its clients may speak, the preferred one first.
    pub fn protocols(&self) -> &[Protocol] {
        match &self.protocols {
            Some(protocols) => protocols,
            None if self.tls => &[Protocol::H2, Protocol::Http1],
            None => &[Protocol::Http1],
        }
    }
}

/// The version of the PROXY protocol that is demanded of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProxyProtocol {
    /// The text form.
    V1,
    /// The binary form.
    V2,
    /// Either form.
    Any,
}

/// What a client may ask of Weir. A request beyond a limit gets the status in parentheses.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The longest request line (414).
    pub line: Size,
    /// The largest head of a request (431).
    pub head: Size,
    /// The most fields in a request (431).
    #[cfg_attr(test, schemars(range(min = 1, max = 10000)))]
    pub fields: u32,
    /// The largest body of a request (413).
    pub body: Size,
    /// The longest that a head may take to arrive (408).
    pub head_time: Duration,
    /// How long a connection may be idle before Weir closes it.
    pub idle: Duration,
    /// The fewest bytes a second at which a request body may arrive (408).
    pub body_rate: Size,
    /// How long a client may take no byte of a response before Weir cuts the connection.
    pub send_stall: Duration,
    /// The fewest bytes a second at which a client must take a response that holds a connection to an origin:
    /// the mean over each `send_stall`. Time in which Weir itself holds bytes back does not count. Weir cuts
    /// the connection of a slower client.
    pub read_rate: Size,
    /// How much of a request's body must have arrived before the request takes a connection to an origin. A
    /// smaller body is held until it is whole.
    pub body_hold: Size,
    /// How long a request goes on after its client has closed its sending side and takes nothing. A client
    /// that has left looks the same.
    pub half_close: Duration,
    /// The most connections of clients. Beyond it Weir closes the connection that has been idle for the
    /// longest, or, if none is idle, the new one. Default: what the process may open, less what origins,
    /// volumes and logs need, and no more than fit into half of the memory that is left beside `cache.memory`
    /// and the fixed part, at 64 KiB and `head` each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<NonZeroU32>,
    /// The most connections of one client (IPv6: of one /64; a /48 may have eight times as many). Weir closes
    /// a new one beyond it. Behind a trusted proxy or a unix socket Weir counts the requests under way of
    /// each client that the proxy names (429), without those that the cache alone answers. Default: an eighth
    /// of `connections`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections_per_client: Option<NonZeroU32>,
    /// How long a tunnel or an event stream may be silent before Weir cuts it.
    pub tunnel_idle: Duration,
    /// How long requests under way may go on after SIGTERM.
    pub drain: Duration,
    /// How long requests under way may go on in the old process after an upgrade.
    pub upgrade_drain: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            line: Size(8 << 10),
            head: Size(32 << 10),
            fields: 100,
            body: Size(10 << 30),
            head_time: Duration::seconds(10),
            idle: Duration::seconds(60),
            body_rate: Size(256),
            send_stall: Duration::seconds(60),
            read_rate: Size(256),
            body_hold: Size(64 << 10),
            half_close: Duration::seconds(2),
            connections: None,
            connections_per_client: None,
            tunnel_idle: Duration::seconds(3600),
            drain: Duration::seconds(30),
            upgrade_drain: Duration::seconds(3600),
        }
    }
}

/// The logs: of clients' requests, and of Weir's requests to origins.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// The form of the access log, one line a request. Default: no access log. On SIGUSR1 Weir opens its file
    /// again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessFormat>,
    /// A form of one's own for the lines of the access log, in place of `access`, with
    /// [placeholders](#placeholders): `'{client.address} {method} {uri} {status} {outcome}'`. What is missing
    /// is `-`; quotes, backslashes and all but visible ASCII become `\xHH`, unless the placeholder has the
    /// filter `json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<LogLine>,
    /// The file of the access log, or the standard output.
    pub path: LogTarget,
    /// Where one line goes for each request to an origin, as JSON: what for, to where, and what it became.
    /// Default: there is no such log. On SIGUSR1 Weir opens its file again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<LogTarget>,
    /// A log file that would grow beyond this is renamed to `FILE.1`, in place of the one before, and begun
    /// again; at least 64KiB. Default: log files grow until something else rotates them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size: Option<Size>,
}

/// The form of the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AccessFormat {
    /// One JSON object a line, with all that Weir knows of the request.
    Json,
    /// The combined log format of web servers.
    Combined,
}
