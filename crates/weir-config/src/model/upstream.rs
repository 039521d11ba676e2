//! `[upstream.NAME]`: a named group of origins and how Weir talks to them.

use super::Affinity;
use super::check::{Agent, CheckRule};
use super::pick::PickRule;
use super::{Eject, Retry};
use crate::value::{Duration, FilePath, HostRule, Nameserver, OriginUrl, Size};
use serde::Deserialize;

/// A named group of origins and how Weir talks to them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// The origins: each a URL, or a table with its URL, its weight and whether it is a backup.
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub origins: Vec<OriginEntry>,
    /// Which origin gets a request. All picks respect weights and backups, and prefer origins with a free
    /// connection. In a list each decides what those before it leave open; at last it goes by turns.
    /// `client_address` takes clients of one IPv4 /24 (as nginx's `ip_hash`) or IPv6 /64 for one. What Weir
    /// fetches for all clients knows none: the less busy of two then stands for `client_address` and for
    /// hashes of fields and cookies.
    #[serde(default)]
    pub pick: PickRule,
    /// The `Host` that Weir sends to origins: `client` for the client's, `origin` for the origin's own name,
    /// or a fixed one. With the latter two Weir rewrites a `Location` that names the origin to the client's
    /// host.
    #[serde(default)]
    pub host: HostRule,
    /// Whether Weir sends `Via` to origins. By default nginx compresses nothing for a request that has it
    /// (`gzip_proxied`). Without `Via` Weir finds loops by `CDN-Loop` alone.
    #[serde(default = "via_default")]
    pub via: bool,
    /// TLS with `https` origins.
    #[serde(default)]
    pub tls: Tls,
    /// The longest that a connection may take to open, TLS included (504).
    #[serde(default = "connect_default")]
    pub connect: Duration,
    /// The longest from the end of the request to the head of the response (504).
    #[serde(default = "wait_default")]
    pub first_byte: Duration,
    /// The longest silence within a response's body before Weir cuts it.
    #[serde(default = "wait_default")]
    pub between_bytes: Duration,
    /// How long Weir keeps an unused connection, where the origin's `Keep-Alive` names no other time.
    #[serde(default = "pool_idle_default")]
    pub pool_idle: Duration,
    /// The most connections to each origin.
    #[serde(default = "connections_default")]
    #[cfg_attr(test, schemars(range(min = 1, max = 65535)))]
    pub connections: u32,
    /// The most requests that wait for a connection. One beyond is answered stale, or with 503; or, where
    /// another client has more waiting, the latest of that client's in its place.
    #[serde(default = "queue_default")]
    #[cfg_attr(test, schemars(range(min = 0, max = 1000000)))]
    pub queue: u32,
    /// The longest wait for a connection (503).
    #[serde(default = "queue_wait_default")]
    pub queue_wait: Duration,
    /// The most tunnels, event streams and idle connections on which clients have logged in (NTLM,
    /// Negotiate), to each origin (503). They do not count among its `connections`. For a client with fewer,
    /// the latest one of the client that has most ends.
    #[serde(default = "streams_default")]
    #[cfg_attr(test, schemars(range(min = 1, max = 1000000)))]
    pub streams: u32,
    /// The share, in percent, that one client (IPv6: one /64; a /48 has eight shares) may have of an origin's
    /// `connections`, `queue` and `streams`. Beyond it the client's requests wait for each other. One that
    /// has a sixteenth of the connections gets further ones only as it leaves some to others. Behind a
    /// trusted proxy each client that the proxy names has its own share.
    #[serde(default = "client_share_default")]
    #[cfg_attr(test, schemars(range(min = 1, max = 100)))]
    pub client_share: u32,
    /// When Weir sends a request again.
    #[serde(default)]
    pub retry: Retry,
    /// What a name with several addresses is: `one` origin, with the address that answered last, or `each`
    /// address an origin of its own, up to 1,000, which come and go as DNS says. A service name
    /// (`http://_http._tcp.app.example`) stands for its SRV records: those of the best priority are
    /// primaries, the others backups.
    #[serde(default)]
    pub resolve: Resolve,
    /// The name servers that Weir asks with `resolve = "each"`: an address, with a port where it is not 53.
    /// Default: the system's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nameservers: Vec<Nameserver>,
    /// How often Weir looks up the origins' names again. With `resolve = "each"` DNS says how long an answer
    /// is good, and this is how soon Weir asks again after a failure.
    #[serde(default = "dns_refresh_default")]
    pub dns_refresh: Duration,
    /// The largest head of a response (502).
    #[serde(default = "head_default")]
    pub head: Size,
    /// The most fields in a response (502).
    #[serde(default = "fields_default")]
    #[cfg_attr(test, schemars(range(min = 1, max = 10000)))]
    pub fields: u32,
    /// When Weir leaves out a failing origin for a while. It never leaves out the only one.
    #[serde(default)]
    pub eject: Eject,
    /// How long an origin takes to its whole share after it was left out or added: it begins with a tenth of
    /// it. When Weir starts, all origins have their whole share. Default: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_start: Option<Duration>,
    /// Whether and how Weir checks the origins on its own: `"tcp"` (it connects, TLS included), or a request.
    /// Default: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckRule>,
    /// A program beside each origin that says how much it can take (HAProxy's `agent-check`). Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Agent>,
    /// The sources of metrics of its origins, each the NAME of a `[metrics.NAME]`. Where several have a
    /// metric the first of them counts that has a fresh one; what operators push comes before all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
    /// Sessions that keep their origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
}

impl Upstream {
    /// An upstream of these origins, with the defaults for all else.
    pub fn of(origins: Vec<OriginEntry>) -> Upstream {
        Upstream {
            origins,
            pick: PickRule::default(),
            host: HostRule::default(),
            via: via_default(),
            tls: Tls::default(),
            connect: connect_default(),
            first_byte: wait_default(),
            between_bytes: wait_default(),
            pool_idle: pool_idle_default(),
            connections: connections_default(),
            queue: queue_default(),
            queue_wait: queue_wait_default(),
            streams: streams_default(),
            client_share: client_share_default(),
            retry: Retry::default(),
            resolve: Resolve::default(),
            nameservers: Vec::new(),
            dns_refresh: dns_refresh_default(),
            head: head_default(),
            fields: fields_default(),
            eject: Eject::default(),
            slow_start: None,
            check: None,
            agent: None,
            metrics: Vec::new(),
            affinity: None,
        }
    }
}

fn via_default() -> bool {
    true
}
fn connect_default() -> Duration {
    Duration::seconds(3)
}
fn wait_default() -> Duration {
    Duration::seconds(30)
}
fn pool_idle_default() -> Duration {
    Duration::seconds(4)
}
fn connections_default() -> u32 {
    256
}
fn queue_default() -> u32 {
    1000
}
fn queue_wait_default() -> Duration {
    Duration::seconds(5)
}
fn streams_default() -> u32 {
    1024
}
fn client_share_default() -> u32 {
    50
}
fn dns_refresh_default() -> Duration {
    Duration::seconds(30)
}
fn head_default() -> Size {
    Size(64 << 10)
}
fn fields_default() -> u32 {
    200
}

/// What a name with several addresses is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Resolve {
    /// One origin.
    #[default]
    One,
    /// As many origins as addresses.
    Each,
}

/// An origin: its URL, or a table.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(untagged)]
pub enum OriginEntry {
    /// Its URL.
    Url(OriginUrl),
    /// Its URL and how it is picked.
    Table(OriginTable),
}

impl OriginEntry {
    /// The URL.
    pub fn url(&self) -> &OriginUrl {
        match self {
            OriginEntry::Url(url) => url,
            OriginEntry::Table(table) => &table.url,
        }
    }

    /// Its share of the requests, relative to the others'.
    pub fn weight(&self) -> u32 {
        match self {
            OriginEntry::Url(_) => 1,
            OriginEntry::Table(table) => table.weight,
        }
    }

    /// Its name in sessions.
    pub fn id(&self) -> Option<&str> {
        match self {
            OriginEntry::Url(_) => None,
            OriginEntry::Table(table) => table.id.as_deref(),
        }
    }

    /// Whether Weir uses it only when all others are left out.
    pub fn is_backup(&self) -> bool {
        match self {
            OriginEntry::Url(_) => false,
            OriginEntry::Table(table) => table.backup,
        }
    }
}

/// An origin and how it is picked.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OriginTable {
    /// `http://host[:port]`, `https://host[:port]` or `unix:/path`.
    pub url: OriginUrl,
    /// Its share of the requests, relative to the others'.
    #[serde(default = "weight_default")]
    #[cfg_attr(test, schemars(range(min = 1, max = 1000)))]
    pub weight: u32,
    /// Whether Weir uses it only when all others are left out.
    #[serde(default)]
    pub backup: bool,
    /// Its name in sessions, e.g. Tomcat's `jvmRoute`. With `affinity.by = "suffix"` each origin has one.
    /// Elsewhere sessions find an origin by its URL where it has none. With `resolve = "each"` the address
    /// stands behind it: `app-10-0-0-7`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(extend("format" = "weir-node")))]
    pub id: Option<String>,
}

fn weight_default() -> u32 {
    1
}

/// TLS with `https` origins.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// The name that Weir asks for and that the certificate must have. Default: the origin's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(extend("format" = "weir-sni")))]
    pub sni: Option<String>,
    /// Whether Weir verifies the certificate. If not, it accepts any, X.509 version 1 too: the connection is
    /// encrypted, but nobody knows to whom.
    pub verify: bool,
    /// The certificates (PEM) that Weir trusts, in place of the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<FilePath>,
    /// Weir's own certificate (PEM) with its chain. It needs `client_key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cert: Option<FilePath>,
    /// The private key (PEM) of `client_cert`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_key: Option<FilePath>,
}

impl Default for Tls {
    fn default() -> Tls {
        Tls { sni: None, verify: true, ca_file: None, client_cert: None, client_key: None }
    }
}
