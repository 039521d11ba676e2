//! What the control plane asks of the data plane, and the plain values it gets. The binary joins the two.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_config::Loaded;
use weir_edge::observe::Snapshot;

/// The data plane as the control plane sees it. Every call may block for a short time and comes from a thread that may.
pub trait DataPlane: Send + Sync {
    /// Puts a configuration in force for all requests that begin from now on.
    ///
    /// # Errors
    /// When it cannot be put in force; then the old one stays.
    fn swap(&self, loaded: Loaded) -> Result<Swapped, SwapError>;

    /// What was counted so far.
    fn snapshot(&self) -> Snapshot;

    /// What is there now.
    fn inventory(&self) -> Inventory;

    /// What would happen to a request, without sending anything to an origin.
    ///
    /// # Errors
    /// A sentence, when the question is not a request.
    fn explain(&self, question: &Question) -> Result<Explained, String>;

    /// Whether requests are taken.
    fn phase(&self) -> Phase;
}

/// Where a Weir is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Requests are taken.
    Serving,
    /// The requests under way are finished, then Weir ends.
    Draining,
}

/// A configuration that is now in force.
#[derive(Clone, Debug, Default)]
pub struct Swapped {
    /// What was not put in force because it needs a restart, and other things to know; each a sentence.
    pub warnings: Vec<String>,
}

/// A checked configuration could not be put in force.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SwapError(pub String);

/// What is there now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// The number of the plan in force; 1 at the start, one more with each reload.
    pub plan: u64,
    /// Sites of the plan in force.
    pub sites: usize,
    /// Routes of the plan in force.
    pub routes: usize,
    /// Worker threads.
    pub workers: usize,
    /// Where clients connect.
    pub listeners: Vec<String>,
    /// What the cache holds.
    pub cache: CacheUse,
    /// Each upstream with its origins.
    pub upstreams: Vec<UpstreamState>,
}

/// What the cache holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheUse {
    /// Objects, each variant counted.
    pub objects: u64,
    /// Bytes in use in memory.
    pub memory_bytes: u64,
    /// The ceiling of the memory.
    pub memory_bytes_max: u64,
    /// Objects that made room for others, since the start.
    pub evicted: u64,
}

/// An upstream and its origins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UpstreamState {
    /// Its name.
    pub name: String,
    /// Its origins in the order of the configuration.
    pub origins: Vec<OriginState>,
}

/// An origin now; counts are since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OriginState {
    /// The origin as configured.
    pub name: String,
    /// Whether it takes its share of the requests.
    pub available: bool,
    /// For how long it is still left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ejected_s: Option<u64>,
    /// Requests sent.
    pub requests: u64,
    /// Requests that failed by its fault.
    pub failures: u64,
    /// Requests tried anew after failing here.
    pub retries: u64,
    /// Connections made.
    pub connects: u64,
    /// Requests sent on a connection that had served before.
    pub reuses: u64,
    /// Requests turned away because all connections were in use.
    pub busy: u64,
    /// Times that it was left out after failures.
    pub ejections: u64,
    /// Connections open now.
    pub connections_open: usize,
    /// Connections idle now.
    pub connections_idle: usize,
    /// Requests waiting for a connection now.
    pub waiting: usize,
}

/// A request to be explained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The method.
    pub method: String,
    /// An absolute URL, `http://host/path`.
    pub url: String,
    /// Fields of the request, in their order.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
}

/// What would happen to a request. Absent is what does not apply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// The site that answers for the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// The route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// Where the route stands in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defined_at: Option<String>,
    /// Where the request would go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// The key, readable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What would be done: `hit`, `stale`, `miss`, `revalidate`, `pass`, `local`, `refused`, ...
    pub verdict: String,
    /// Why.
    pub reason: String,
    /// What is stored under the key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stored: Vec<StoredVariant>,
    /// Anything else worth knowing, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
}

/// One stored variant under a key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredVariant {
    /// Whether this one fits the request.
    pub selected: bool,
    /// The status.
    pub status: u16,
    /// The age in seconds (RFC 9111 §4.2.3).
    pub age_s: u64,
    /// The lifetime in seconds.
    pub lifetime_s: u64,
    /// Where the lifetime comes from.
    pub source: String,
    /// Seconds of freshness left; negative when stale.
    pub left_s: i64,
    /// The body's length, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    /// Bytes of the body that are held.
    pub held: u64,
    /// The entity tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
}
