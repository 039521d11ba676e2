//! What `weir explain` asks and what it gets.

use serde::{Deserialize, Serialize};

use super::{CertificateUse, RetainedUntil};
use std::net::IpAddr;

/// A request to explain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The method; absent: GET.
    #[serde(default = "get")]
    pub method: String,
    /// An absolute URL, `http://host/path`.
    pub url: String,
    /// Fields of the request, in their order.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// The client's address, as Weir would know it; absent: no client is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub client: Option<IpAddr>,
}

fn get() -> String {
    "GET".to_owned()
}

/// What would happen to a request. Fields that do not apply are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Explained {
    /// The site that answers for the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// The route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// Where the route stands in the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defined_at: Option<String>,
    /// What the configuration sets for the route, inherited or its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<Setting>,
    /// What the maps say that the route uses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maps: Vec<String>,
    /// Where the request would go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// The key, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The part of the query that is neither in the key nor sent to the origin.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub query_dropped: Vec<String>,
    /// What the path is rewritten to for the origin, and by which rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewritten: Option<String>,
    /// The cookies that neither the cache nor the origin sees.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cookies_dropped: Vec<String>,
    /// The cookies that are left and are not in the key. With them a response that says `Vary: Cookie` is not
    /// stored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cookies_not_in_key: Vec<String>,
    /// Fields of the request that are not in the key and select no variant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_in_key: Vec<String>,
    /// What Weir would send to the origin, if it asked it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin_request: Option<OriginRequest>,
    /// The gates of the walk that the request comes to, in their order. It ends at the last one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<ExplainedGate>,
    /// The verdict: `hit`, `stale`, `revalidate`, `miss`, `pass`, `local` or `gateway-timeout`.
    pub verdict: String,
    /// The reason, as in the access log; empty for a hit.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, in a sentence.
    pub explanation: String,
    /// What `Cache-Status` would say, without what the origin's answer adds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_status: Option<String>,
    /// Why recent responses to this key were not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_stored: Option<String>,
    /// Why the origin gave no response for this key a moment ago.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// What a client meets before the request, for an `https` URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ExplainedTls>,
    /// What is stored under the key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stored: Vec<StoredVariant>,
    /// Warnings about what is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What sends a request past the cache here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bypass: Vec<String>,
    /// What makes Weir fetch a request here again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refresh: Vec<String>,
    /// What keeps the response to a request here from being stored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub no_store: Vec<String>,
}

/// A gate of the walk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExplainedGate {
    /// Its name.
    pub name: String,
    /// What it asks. A request is let through where the answer is no.
    pub asks: String,
}

/// One value of the configuration and where it stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Setting {
    /// The key.
    pub key: String,
    /// The value as written.
    pub value: String,
    /// `route`, `site` or `defaults`.
    pub from: String,
    /// File and line.
    pub place: String,
}

/// A request to an origin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OriginRequest {
    /// Method, path and query.
    pub line: String,
    /// Its fields, without those that differ in each request.
    pub headers: Vec<(String, String)>,
    /// Names of the request's fields that it does not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Which origin would get it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<OriginChoice>,
}

/// Which origin of an upstream would get a request now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OriginChoice {
    /// Its name; absent where none takes requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The pick that decides.
    pub pick: String,
    /// Why, in the word of `weir_picks_total`.
    pub reason: String,
    /// The scripts and distributors that are asked before, which this question does not ask; absent without
    /// any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<String>,
    /// All origins, in the order of the configuration.
    pub origins: Vec<OriginConsidered>,
}

/// An origin, as a request would find it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OriginConsidered {
    /// Its name.
    pub name: String,
    /// Its share of the requests while all stays as it is, in percent.
    pub share_percent: f64,
    /// Requests under way.
    pub in_flight: u32,
    /// Why it would not be picked; absent for the one that would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

/// What a client of TLS meets that asks for the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ExplainedTls {
    /// The listeners that have TLS.
    pub listeners: Vec<String>,
    /// The certificate that the client gets; absent where the handshake fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<CertificateUse>,
    /// Whether that certificate names the host.
    pub covered: bool,
    /// `required` or `optional`: the client is asked for a certificate of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<String>,
}

/// One stored variant under a key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct StoredVariant {
    /// Whether it matches the request.
    pub selected: bool,
    /// The status.
    pub status: u16,
    /// The age in seconds (RFC 9111 §4.2.3).
    pub age_s: u64,
    /// The lifetime in seconds.
    pub lifetime_s: u64,
    /// Where the lifetime comes from.
    pub source: String,
    /// What a retention says of it; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retained: Option<RetainedUntil>,
    /// Seconds of freshness left; negative when stale.
    pub ttl_left_s: i64,
    /// Seconds after expiry in which it goes out while Weir refreshes it.
    pub while_revalidate_s: u64,
    /// Seconds after expiry in which it goes out where the origin fails.
    pub if_error_s: u64,
    /// Seconds after expiry in which it goes out where the origin gives no answer at all.
    pub if_unreachable_s: u64,
    /// What the tables by status say of its status.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_status: Vec<String>,
    /// What else limits its use: `no-cache`, `immutable`, `soft-purged`, `suspect`, and the directive that
    /// keeps it from going out stale (`must-revalidate`, `proxy-revalidate`, `s-maxage`,
    /// `s-maxage-authorization`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// The fields that select it, with the values of the request it was fetched for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vary: Vec<SelectingField>,
    /// Its tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The body's length, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<u64>,
    /// Bytes of the body that are held, in memory or on a volume.
    pub held_bytes: u64,
    /// Where these bytes are in the body, if some are missing; at most 1000 ranges.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<HeldRange>,
    /// How many of them are in memory.
    pub memory_bytes: u64,
    /// The volume that it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// Its fields, as they are stored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<(String, String)>,
    /// The entity tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
}

/// Bytes of a body that follow one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HeldRange {
    /// The first byte.
    pub first: u64,
    /// The last byte.
    pub last: u64,
}

/// A field that a response varies on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SelectingField {
    /// The field.
    pub field: String,
    /// Its value; none where the request had none.
    pub value: Option<String>,
}
