//! What `weir status` and `/status` show: one value, the same for JSON and for people.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use weir_observe::{Count, Latency, Level, Outcome, SiteCount, Snapshot};

use crate::data_plane::PickState;
use crate::data_plane::{
    CacheUse, CertificateUse, CertificatesUse, ContentUse, Inventory, LedgerState, Listening, OldProcess,
    Phase, UpstreamState, VolumeUse,
};

/// A Weir at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Status {
    /// The version of the program.
    pub version: String,
    /// The process.
    pub pid: u32,
    /// Its phase.
    pub phase: Phase,
    /// When it was started, RFC 3339.
    pub started: String,
    /// How long it has run.
    pub uptime_s: u64,
    /// The configuration file, if there is one.
    pub config: Option<String>,
    /// The number of the plan in force.
    pub plan: u64,
    /// Its sites.
    pub sites: usize,
    /// Its routes.
    pub routes: usize,
    /// Reloads that succeeded.
    pub reloads: u64,
    /// Reloads that were refused.
    pub reloads_refused: u64,
    /// The latest reload.
    pub last_reload: Option<LastReload>,
    /// Where clients connect.
    pub listeners: Vec<String>,
    /// How, for each of these.
    #[serde(default)]
    pub listening: Vec<Listening>,
    /// Worker threads.
    pub workers: usize,
    /// Processes before this one that finish their requests, the oldest first; absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub old_processes: Vec<OldProcess>,
    /// Clients' connections.
    pub connections: Connections,
    /// Requests.
    pub requests: Requests,
    /// Bytes of bodies.
    pub body_bytes: Bytes,
    /// What the cache holds.
    pub cache: CacheUse,
    /// What each volume holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeUse>,
    /// How much content by hand there is.
    #[serde(default)]
    pub content: ContentUse,
    /// The state of the ledger of purges and invalidations.
    pub ledger: LedgerState,
    /// Origin transfers into the cache.
    pub fills: Fills,
    /// Each upstream with its origins.
    pub upstreams: Vec<UpstreamState>,
    /// Each script and each distributor; absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub picks: Vec<PickState>,
    /// The certificates for clients; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificates: Option<CertificatesState>,
    /// Errors by word.
    pub errors: BTreeMap<String, u64>,
    /// All counters, by the name of their metric without `_total`. Counters of sites are summed here.
    pub counters: BTreeMap<String, u64>,
}

/// The latest reload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LastReload {
    /// When, RFC 3339.
    pub at: String,
    /// Why it was refused; absent when it succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl LastReload {
    pub(crate) fn at(wall: SystemTime, refused: Option<String>) -> LastReload {
        LastReload { at: rfc3339(wall), refused }
    }
}

/// The certificates for clients, in short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CertificatesState {
    /// Those in use.
    pub in_use: usize,
    /// The one that ends first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_to_end: Option<CertificateUse>,
    /// Those that cannot be used, or are near their end, or whose new files cannot be used.
    pub amiss: Vec<CertificateUse>,
}

impl CertificatesState {
    fn of(certificates: &CertificatesUse) -> Option<CertificatesState> {
        let all = &certificates.all;
        let ends = all.iter().filter_map(|of| Some((of.expires_in_s?, of)));
        let is_amiss = |of: &&CertificateUse| of.error.is_some() || of.state != "valid";
        (!all.is_empty()).then(|| CertificatesState {
            in_use: all.iter().filter(|of| of.expires.is_some()).count(),
            next_to_end: ends.min_by_key(|(left, _)| *left).map(|(_, of)| of.clone()),
            amiss: all.iter().filter(is_amiss).cloned().collect(),
        })
    }
}

/// Clients' connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Connections {
    /// Open now.
    pub open: u64,
    /// Accepted since the start.
    pub accepted: u64,
    /// Turned away since the start.
    pub refused: u64,
    /// Idle ones closed to make room, since the start.
    #[serde(default)]
    pub displaced: u64,
    /// Tunnels open now.
    pub tunnels: u64,
}

/// Requests since the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Requests {
    /// Under way now.
    pub running: u64,
    /// All finished requests.
    pub finished: u64,
    /// By outcome.
    pub outcomes: BTreeMap<String, OutcomeStatus>,
    /// By the first digit of the status: `2xx`, ...
    pub statuses: BTreeMap<String, u64>,
    /// The share *from the cache* ([`Outcome::hit_ratio`]); absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hit_ratio: Option<f64>,
    /// Responses that were cut.
    pub cut: u64,
    /// Responses whose client left first.
    pub client_gone: u64,
    /// Responses that were not stored, by reason.
    pub not_stored: BTreeMap<String, u64>,
}

/// The requests of one outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OutcomeStatus {
    /// How many.
    pub count: u64,
    /// Half of them had their first byte sooner than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_ms_p50: Option<f64>,
    /// 99 of 100 had their first byte sooner than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_ms_p99: Option<f64>,
}

/// Bytes of bodies since the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Bytes {
    /// Sent to clients.
    pub clients: u64,
    /// Of these, from the cache.
    pub cached: u64,
    /// Received from origins.
    pub origins: u64,
}

/// Origin transfers into the cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Fills {
    /// Running now.
    pub running: u64,
    /// Begun since the start.
    pub begun: u64,
    /// Ended incomplete.
    pub failed: u64,
    /// Requests that joined the fill of another request.
    pub collapsed: u64,
    /// Requests to origins that were tried again.
    pub retries: u64,
}

impl Status {
    /// The status from the counters and the inventory. The control plane fills in what only it knows.
    pub(crate) fn of(snapshot: &Snapshot, inventory: Inventory, phase: Phase) -> Status {
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            phase,
            started: String::new(),
            uptime_s: 0,
            config: None,
            plan: inventory.plan,
            sites: inventory.sites,
            routes: inventory.routes,
            reloads: 0,
            reloads_refused: 0,
            last_reload: None,
            listeners: inventory.listeners,
            listening: inventory.listening,
            workers: inventory.workers,
            old_processes: inventory.old_processes,
            connections: Connections {
                open: snapshot.now(&Level::CONNECTIONS),
                accepted: snapshot.counts[Count::ConnectionsAccepted],
                refused: snapshot.counts[Count::ConnectionsRefused],
                displaced: snapshot.counts[Count::ConnectionsDisplaced],
                tunnels: snapshot.now(&Level::TUNNELS),
            },
            requests: Requests::of(snapshot),
            body_bytes: Bytes {
                clients: snapshot.counts[Count::ClientBodyBytes],
                cached: snapshot.counts[Count::CachedBodyBytes],
                origins: snapshot.counts[Count::OriginBodyBytes],
            },
            cache: inventory.cache,
            volumes: inventory.volumes,
            content: inventory.content,
            ledger: inventory.ledger,
            fills: Fills {
                running: snapshot.now(&Level::FILLS),
                begun: snapshot.counts[Count::Fills],
                failed: snapshot.counts[Count::FillsFailed],
                collapsed: snapshot.counts[Count::Collapsed],
                retries: snapshot.counts[Count::ForwardedRetries],
            },
            upstreams: inventory.upstreams,
            picks: inventory.picks,
            certificates: CertificatesState::of(&inventory.certificates),
            errors: words(&snapshot.errors),
            counters: counters(snapshot),
        }
    }
}

impl Requests {
    fn of(snapshot: &Snapshot) -> Requests {
        let outcomes = Outcome::ALL.iter().map(|outcome| {
            let first_byte = &snapshot.first_byte[*outcome as usize];
            let status = OutcomeStatus {
                count: snapshot.requests_of(*outcome),
                first_byte_ms_p50: quantile_ms(first_byte, 0.5),
                first_byte_ms_p99: quantile_ms(first_byte, 0.99),
            };
            (outcome.word().to_owned(), status)
        });
        let statuses = snapshot.statuses.iter().enumerate().filter(|(_, count)| **count > 0);
        Requests {
            running: snapshot.now(&Level::REQUESTS),
            finished: snapshot.requests.iter().sum(),
            outcomes: outcomes.collect(),
            statuses: statuses
                .map(|(class, count)| {
                    (if class == 0 { "none".to_owned() } else { format!("{class}xx") }, *count)
                })
                .collect(),
            hit_ratio: Outcome::hit_ratio(&snapshot.requests),
            cut: snapshot.counts[Count::Cut],
            client_gone: snapshot.counts[Count::ClientGone],
            not_stored: words(&snapshot.not_stored),
        }
    }
}

/// The rows of `weir-observe`.
fn counters(snapshot: &Snapshot) -> BTreeMap<String, u64> {
    let all = Count::ALL.iter().map(|count| (count.row().name, snapshot.counts[*count]));
    let of_sites = SiteCount::ALL.iter().map(|count| (count.row().name, snapshot.over_sites(*count)));
    let named = all.chain(of_sites).filter(|(name, _)| !name.is_empty());
    named.map(|(name, count)| (name.to_owned(), count)).collect()
}

fn words(counts: &BTreeMap<&'static str, u64>) -> BTreeMap<String, u64> {
    counts.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect()
}

pub(crate) fn quantile_ms(latency: &Latency, quantile: f64) -> Option<f64> {
    latency.quantile_us(quantile).map(|us| us as f64 / 1000.0)
}

/// `2026-11-20T12:00:01Z`.
pub fn rfc3339(wall: SystemTime) -> String {
    let seconds = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let second = i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    second.unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}
