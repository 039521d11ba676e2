//! The configuration file as types: one model for the file, the JSON Schema and the reference. The doc comments here are the
//! reference's text. Must not contain a decision: inheritance is `resolve.rs`, checks are `check.rs` and `semantics.rs`.

mod events;
mod range;
mod rate;
mod rules;
mod site;
mod upstream;

pub use events::{EventKind, Events};
pub use range::{Range, RangeFill, WithoutValidator};
pub use rate::Rate;
pub use rules::{
    ClientDirectives, CloseDelimited, ErrorStorage, FieldEdits, FromFile, Heuristics, Key, Purge, Query,
    Rules, SetCookie, Stale, Surrogate, Text, Triggers,
};
pub use site::{
    Answer, Maintenance, Methods, Page, Redirect, RedirectTable, Route, SchemeName, Site, Status,
};
pub use upstream::{Eject, OriginEntry, OriginTable, Tls, Upstream};

use crate::value::{
    Duration, HostPattern, ListenAddress, LogTarget, PathPrefix, PathText, Size, TrustedProxy,
};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    num::NonZeroU32,
};

/// The whole of `weir.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Further files, as paths or globs relative to this file. Their tables are added to this file's: lists such as
    /// `[[site]]` grow, tables such as `[limits]` are joined, and a key that stands twice is a mistake.
    pub include: Vec<String>,
    /// Peers whose `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Request-Id` are believed. Default: loopback and unix sockets.
    pub trusted_proxies: Vec<TrustedProxy>,
    /// The folder of what Weir must remember.
    pub state: State,
    /// What is held of the origins' responses.
    pub cache: Cache,
    /// The listener for metrics and health; never to be reachable from outside.
    pub admin: Admin,
    /// A health path for balancers in front.
    pub health: Health,
    /// Where clients connect. Without any: `127.0.0.1:8080`.
    pub listen: Vec<Listen>,
    /// What a client may ask of Weir.
    pub limits: Limits,
    /// What is written about requests.
    pub log: Log,
    /// What happens to what is stored, told to others.
    pub events: Events,
    /// Named groups of origins: `[upstream.NAME]`.
    #[schemars(extend("propertyNames" = { "format": "weir-upstream-name" }))]
    pub upstream: BTreeMap<String, Upstream>,
    /// What all sites inherit.
    pub defaults: Rules,
    /// Sites, chosen by the host of a request. A request for which there is none is answered 421.
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
            admin: Admin::default(),
            health: Health::default(),
            listen: vec![Listen::at(ListenAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 8080))))],
            limits: Limits::default(),
            log: Log::default(),
            events: Events::default(),
            upstream: BTreeMap::new(),
            defaults: Rules::default(),
            site: Vec::new(),
        }
    }
}

/// The folder of what Weir must remember.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct State {
    /// The folder (mode 0700). Default: `$STATE_DIRECTORY`, else `/var/lib/weir` for root and `~/.local/state/weir` for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathText>,
}

/// What is held of the origins' responses.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Cache {
    /// The ceiling of the memory that holds responses. Default: 256 MiB, or, if that is less, a quarter of what the cgroup's limit
    /// leaves beside 32 MiB for the process and what its volumes need; 8 MiB at least. An object takes at most half of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// The drives that hold what memory does not, also over a restart: one folder each, without RAID. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volume: Vec<Volume>,
    /// What is written to the drives. The rest is held in memory alone, and is written later once it may be.
    pub admission: Admission,
}

/// What is written to the drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Admission {
    /// All while the volume has room and at most half of what its `write_budget` allows by now is written; afterwards what is
    /// asked for twice, and the more often the more of the budget is used before its time.
    #[default]
    Auto,
    /// All that may be stored.
    Always,
    /// What was asked for before.
    Second,
}

/// A folder of a drive that holds responses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// The folder; Weir makes it, and nothing else may be in it.
    pub path: PathText,
    /// The ceiling of all files in it. Default: 10 GiB, or a quarter of what is free on the file system if that is less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// The most that is written to it in a day (of UTC), heads, journal and catalogue included. Once it is used up nothing is
    /// stored before midnight; what is held is served, and purges are obeyed. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_budget: Option<Size>,
    /// Its share of what is stored, beside the weights of the other volumes. Default: its size in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<NonZeroU32>,
    /// Whether it is being emptied: it serves, nothing more is stored there, and what it holds goes to the others as far as they
    /// have room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drain: bool,
    /// A read that takes longer is a miss, and the volume is `slow`: nobody waits for it, and nothing is stored there until it keeps
    /// up again.
    #[serde(default = "read_timeout_default")]
    pub read_timeout: Duration,
}

/// A drive that works answers within tens of milliseconds, also where everything is busy.
fn read_timeout_default() -> Duration {
    Duration::seconds(2)
}

/// The listener for metrics and health; never to be reachable from outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// Where it listens.
    pub listen: ListenAddress,
    /// Names by which it may be asked, beside its addresses and `localhost`; `*` for any. A request that names another host is
    /// answered 421, so that no web page can read customers' names through a browser (DNS rebinding); `/health/*` is answered
    /// by any name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostPattern>,
}

impl Default for Admin {
    fn default() -> Admin {
        Admin { listen: ListenAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 9180))), hosts: Vec::new() }
    }
}

/// A health path for balancers in front.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Health {
    /// The path that is answered 200 while Weir takes requests and 503 while it drains, on every `[[listen]]`, whatever the
    /// host. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathPrefix>,
}

/// Where clients connect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// The address, or unix socket.
    pub address: ListenAddress,
    /// The version of the PROXY protocol that every connection begins with. Default: none is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyProtocol>,
}

impl Listen {
    /// A plain listener.
    pub fn at(address: ListenAddress) -> Listen {
        Listen { address, proxy_protocol: None }
    }
}

/// The version of the PROXY protocol that is demanded of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProxyProtocol {
    /// The text form.
    V1,
    /// The binary form.
    V2,
    /// Either form.
    Any,
}

/// What a client may ask of Weir. A request beyond a limit gets the status that is named with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The longest request line (414).
    pub line: Size,
    /// The largest head of a request (431).
    pub head: Size,
    /// The most fields in a request (431).
    #[schemars(range(min = 1, max = 10000))]
    pub fields: u32,
    /// The largest body of a request (413).
    pub body: Size,
    /// The time for a head to arrive (408).
    pub head_time: Duration,
    /// How long a connection may wait for its next request; then it is closed.
    pub idle: Duration,
    /// The fewest bytes of a request body in a second (408).
    pub body_rate: Size,
    /// How long a client may take no byte of a response; then the connection is cut.
    pub send_stall: Duration,
    /// The fewest bytes of a response in a second that a client takes, on the mean of each `send_stall` in which it is waited for:
    /// for responses that hold a connection to an origin, and never where Weir itself holds them back. Slower, and the connection is
    /// cut.
    pub read_rate: Size,
    /// How much of a request's body must be here before it takes a connection to an origin: smaller ones are held until they are
    /// whole.
    pub body_hold: Size,
    /// How long a request goes on whose client has ended its side and takes nothing: one that has left looks the same.
    pub half_close: Duration,
    /// The most connections of clients; beyond, those that have been idle for the longest are closed, and where none is idle the
    /// new one. Default: what the process may open, less what origins, volumes and logs need.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<NonZeroU32>,
    /// The most connections of one client (in IPv6: of one /64); a new one beyond is closed. Of a trusted proxy or a unix socket
    /// the requests under way of each client that it names, but for those that the cache alone answers, are counted instead
    /// (429). Default: an eighth of `connections`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections_per_client: Option<NonZeroU32>,
    /// How long a tunnel or an event stream may be silent; then it is cut.
    pub tunnel_idle: Duration,
    /// How long the requests under way may go on after SIGTERM.
    pub drain: Duration,
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
        }
    }
}

/// What is written about requests.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// The form of the access log, a line a request. Default: none is written. SIGUSR1 opens its file anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessFormat>,
    /// Where it is written.
    pub path: LogTarget,
}

/// The form of the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AccessFormat {
    /// A JSON object a line, with all that is known of the request.
    Json,
    /// The combined log format of web servers.
    Combined,
}
