//! What the control plane asks of the data plane, and the plain values it gets. The binary joins the two.

mod checked;
mod explained;
mod origins;
mod picks;
mod upgrade;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_config::Loaded;
use weir_config::value::HostPattern;
use weir_observe::{Observatory, Snapshot};

use crate::origins::{OriginChanged, OriginOrder, OriginRefusal, OriginsOf};
use crate::progress::Progress;
use crate::readings::{MetricsOrder, MetricsPushed, MetricsShown, SourceShown};
use crate::sites::{AccountsUse, Holding, Sites, SitesOrder};

pub use self::checked::{AgentState, CheckState, TookUpTo};
pub use self::explained::{
    Explained, ExplainedTls, HeldRange, OriginChoice, OriginConsidered, OriginRequest, Question,
    SelectingField, Setting, StoredVariant,
};
pub use self::origins::{HedgesState, OriginState, SessionsState, UpstreamState};
pub use self::picks::PicksCount;
pub use self::upgrade::{UpgradeOrder, Upgraded};

/// The data plane as the control plane sees it. Every call may block for a short time, and comes from a
/// thread that may.
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

    /// Purges at once. Returns how many objects that are, where it is known without a search. Calls `done`
    /// with the number of the mark once the purge is durable, or with why it is not. It may be called from
    /// any thread, also before this returns.
    ///
    /// # Errors
    /// A sentence, when the order makes no sense; then nothing is purged, and `done` is not called.
    fn purge(&self, order: &PurgeOrder, done: PurgeDone) -> Result<Option<u64>, String>;

    /// Refuses an order that makes no sense.
    ///
    /// # Errors
    /// A sentence.
    fn check_order(&self, order: &PurgeOrder) -> Result<(), String>;

    /// What a purge would take. Reads the head of everything held, and blocks, until `progress` asks it to
    /// end.
    ///
    /// # Errors
    /// A sentence, when the order makes no sense or a drive fails.
    fn count_purged(&self, order: &PurgeOrder, progress: &Progress) -> Result<Counted, String>;

    /// Whether there are volumes.
    fn has_volumes(&self) -> bool;

    /// Reads all that the volumes hold, checks every byte and drops what is wrong. Blocks for as long as that
    /// takes, or until `progress` asks it to end.
    ///
    /// # Errors
    /// A sentence, where there is no volume or its drive fails.
    fn verify(&self, progress: &Progress) -> Result<Verified, String>;

    /// The origins of each upstream.
    fn origins(&self) -> Vec<OriginsOf> {
        Vec::new()
    }

    /// Changes an origin for all requests that begin from now on. May block for a while.
    ///
    /// # Errors
    /// See [`OriginRefusal`].
    fn change_origin(&self, order: &OriginOrder) -> Result<OriginChanged, OriginRefusal> {
        let message = format!("no upstream is named {}", order.upstream);
        Err(OriginRefusal::Unknown { message, help: String::new() })
    }

    /// The metrics of all origins.
    fn origin_metrics(&self) -> MetricsShown {
        MetricsShown::default()
    }

    /// Pushes metrics of an origin.
    ///
    /// # Errors
    /// See [`OriginRefusal`].
    fn push_metrics(&self, order: &MetricsOrder) -> Result<MetricsPushed, OriginRefusal> {
        let message = format!("no upstream has an origin {}", order.origin);
        Err(OriginRefusal::Unknown { message, help: String::new() })
    }

    /// A page of what is cached. May block for a while.
    ///
    /// # Errors
    /// A sentence, when the question names nothing that there could be.
    fn list(&self, order: &ListOrder) -> Result<Listing, String>;

    /// The accounts of sites. May block for a while.
    ///
    /// # Errors
    /// A sentence, when the question names nothing that there could be, or they cannot be read.
    fn sites(&self, order: &SitesOrder) -> Result<Sites, String>;

    /// What the cache holds of each site of the configuration, including purged objects on volumes that are
    /// not swept yet. May block for a while.
    fn held(&self) -> Vec<(String, Holding)>;

    /// The names that the admin listener answers to, beside its addresses and `localhost`: `[admin] hosts`.
    fn admin_hosts(&self) -> Vec<HostPattern>;

    /// What is observed: the logs, events, the history.
    fn observatory(&self) -> &Observatory;

    /// The name of the site that has this name or this host.
    fn site_named(&self, name: &str) -> Option<String>;

    /// The name of the site that a URL leads to, with its scheme or without.
    fn site_of_url(&self, url: &str) -> Option<String>;

    /// Whether requests are taken.
    fn phase(&self) -> Phase;

    /// Upgrades: a new process takes over. Blocks until it has, or has failed to start.
    ///
    /// # Errors
    /// Why the new process did not take over, in its own words where it left any. Then everything is as
    /// before.
    fn upgrade(&self, order: &UpgradeOrder) -> Result<Upgraded, String> {
        let UpgradeOrder { .. } = order;
        Err("this Weir cannot start another in its place".to_owned())
    }
}

/// What to list. Several conditions must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOrder {
    /// Only this site.
    pub site: Option<String>,
    /// Only URLs that begin with this text.
    pub prefix: Option<String>,
    /// Only objects with this tag.
    pub tag: Option<String>,
    /// The most objects.
    pub limit: usize,
    /// Where the page before ended.
    pub after: Option<String>,
}

/// A page of what is cached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Listing {
    /// Some objects.
    pub objects: Vec<CachedObject>,
    /// Where the next page begins; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A cached object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CachedObject {
    /// Its URL as it stands in the key.
    pub url: String,
    /// What else is in its key, a line for each field and cookie.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<String>,
    /// Its site; absent where the configuration no longer has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// The status.
    pub status: u16,
    /// The length of its body in bytes, where it is known.
    pub body_bytes: Option<u64>,
    /// Bytes of the body that are held, in memory and on the volume together.
    pub held_bytes: u64,
    /// Whether it is a part: some of its body is missing.
    pub part: bool,
    /// When the response came, RFC 3339.
    pub stored: String,
    /// Its age in seconds (RFC 9111 §4.2.3).
    pub age_s: u64,
    /// How long it is fresh, in seconds.
    pub lifetime_s: u64,
    /// Whether its bytes are in memory.
    pub memory: bool,
    /// Whether it is on the volume.
    pub volume: bool,
}

/// What a verification of the volume found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    /// Objects whose every byte is what was stored.
    pub objects: u64,
    /// Those of them that are parts.
    pub parts: u64,
    /// The bytes of their bodies.
    pub body_bytes: u64,
    /// Objects dropped because their checksum did not match.
    pub damaged: u64,
    /// Objects that left or moved while they were looked for.
    pub moved: u64,
    /// Sites whose counts of what is held were wrong, and were corrected.
    #[serde(default)]
    pub counts_corrected: u64,
    /// Rows that the catalogue lacked, and that were added.
    #[serde(default)]
    pub rows_added: u64,
    /// Rows of the catalogue that were useless, and were removed.
    #[serde(default)]
    pub rows_removed: u64,
}

/// Called when a purge is durable with the number of its largest mark, or with why it is not.
pub type PurgeDone = Box<dyn FnOnce(Result<u64, String>) + Send>;

/// A purge that is ordered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PurgeOrder {
    /// What is purged, where that is one thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<PurgeScope>,
    /// What is purged, where that is several: at most 1000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<PurgeScope>,
    /// Whether it only becomes stale.
    #[serde(default)]
    pub soft: bool,
}

/// What is purged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PurgeScope {
    /// All keys and variants of a URL; without a scheme of http and https.
    Url(String),
    /// All URLs that begin with this.
    Prefix(String),
    /// All objects with one of these tags: of all sites, or of those of the token.
    Tags(Vec<String>),
    /// The same of one site.
    TagsOf {
        /// The site, by its name or one of its hosts.
        site: String,
        /// The tags.
        tags: Vec<String>,
    },
    /// All of a site.
    Site(String),
    /// Everything.
    All,
}

/// A purge that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Purged {
    /// The number of its mark in the ledger; the largest, where there are several.
    #[serde(with = "crate::digits")]
    #[schemars(with = "String")]
    pub mark: u64,
    /// What was purged.
    pub scopes: Vec<PurgeScope>,
    /// Whether it only became stale.
    pub soft: bool,
    /// How many objects were held of it; absent where finding that out would have taken a search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<u64>,
}

/// What a purge would take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counted {
    /// Objects, each once.
    pub objects: u64,
    /// Bytes of their bodies, in memory and on volumes, each once.
    pub bytes: u64,
}

/// The most scopes of an order.
pub const SCOPES_MAX: usize = 1000;

impl PurgeOrder {
    /// All that is purged.
    pub fn all(&self) -> impl Iterator<Item = &PurgeScope> {
        self.scope.iter().chain(&self.scopes)
    }
}

/// The phase of a running Weir.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// What needs a restart to be in force, and other warnings; each a sentence.
    pub warnings: Vec<String>,
}

/// A checked configuration could not be put in force.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SwapError(pub String);

/// What is there now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// How, for each of these.
    pub listening: Vec<Listening>,
    /// What the cache holds.
    pub cache: CacheUse,
    /// What each volume holds.
    pub volumes: Vec<VolumeUse>,
    /// The state of the ledger.
    pub ledger: LedgerState,
    /// The state of the accounts.
    pub accounts: AccountsUse,
    /// Each upstream with its origins.
    pub upstreams: Vec<UpstreamState>,
    /// Each script and each distributor.
    pub picks: Vec<PickState>,
    /// The sources of origins' metrics.
    pub sources: Vec<SourceShown>,
    /// The certificates for clients.
    pub certificates: CertificatesUse,
}

/// A script or a distributor, `[pick.NAME]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PickState {
    /// Its name.
    pub name: String,
    /// `script` or `distributor`.
    pub kind: String,
    /// What came of the requests that it was asked about, by word.
    pub outcomes: BTreeMap<String, u64>,
    /// Why it does not decide now, or not by what its newest file says; absent while all is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// A place where clients connect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Listening {
    /// The address, or the unix socket.
    pub address: String,
    /// Whether connections begin with TLS.
    pub tls: bool,
    /// What clients may speak, the preferred first: `h2`, `http/1.1`.
    pub protocols: Vec<String>,
}

/// The certificates for clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CertificatesUse {
    /// All of them, those included that cannot be used.
    pub all: Vec<CertificateUse>,
    /// How often files could not be used, since the start.
    pub failures: u64,
    /// Orders that have ended since the start; absent without `[acme]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orders: Option<OrdersEnded>,
}

/// How many orders of certificates have ended, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OrdersEnded {
    /// With a certificate.
    pub issued: u64,
    /// Without one.
    pub failed: u64,
}

/// A certificate, or a pair of files that is to be one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CertificateUse {
    /// Its names and addresses; empty where nothing could be read yet.
    pub names: Vec<String>,
    /// The file of its chain, `acme`, or `self`.
    pub source: String,
    /// The kind of its key: `ecdsa`, `rsa` or `ed25519`.
    pub key: String,
    /// `valid`, `near-end` or `expired`; `failed` where there is none to use, `ordered` where it is to come.
    pub state: String,
    /// Until when it is valid, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// For how long, in seconds; 0 once it has expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_s: Option<u64>,
    /// Whether clients get it that ask for no name, or for one without a certificate.
    pub default: bool,
    /// What comes next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Why its files cannot be used as they are, or the last order failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What the cache holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheUse {
    /// Objects, each variant counted.
    pub objects: u64,
    /// Bytes in use in memory.
    pub memory_bytes: u64,
    /// The ceiling of the memory.
    pub memory_bytes_max: u64,
    /// Objects evicted for room, since the start.
    pub evicted: u64,
    /// Objects that were not written to a volume because they were not asked for often enough.
    #[serde(default)]
    pub not_admitted: u64,
}

/// What a volume holds, and what was done with it since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeUse {
    /// Its folder.
    pub path: String,
    /// Its number in hexadecimal digits; empty where the volume has not been opened yet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// `up`; `full`: it serves and stores nothing; `read-only`: it serves what it has; `slow`: no request
    /// waits for it; `ejected`: it is not used; `probing`: it is being opened.
    pub state: String,
    /// Why, where it is not up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// In how many seconds Weir tries it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_s: Option<u64>,
    /// Whether it is being emptied: `draining`, and `drained` once it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<String>,
    /// Whether what it held when it came back is revalidated before it is used.
    #[serde(default)]
    pub suspect: bool,
    /// Its share of the keys, relative to the other volumes' weights.
    #[serde(default)]
    pub weight: u64,
    /// Objects, each variant counted.
    pub objects: u64,
    /// Bytes that its files use.
    pub used_bytes: u64,
    /// The ceiling of its files.
    pub size_bytes: u64,
    /// Files that hold objects.
    pub segments: u64,
    /// Bytes of memory that its index takes, beyond the cache's.
    pub index_bytes: u64,
    /// Bytes of bodies written.
    pub written_body_bytes: u64,
    /// Bytes written other than bodies: heads, checksums, journal, checkpoints.
    pub written_overhead_bytes: u64,
    /// The most bytes written to it in a day of UTC, if there is a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_budget_bytes: Option<u64>,
    /// Bytes written since the day began, by the catalogue as well.
    #[serde(default)]
    pub written_today_bytes: u64,
    /// Nothing is stored before midnight, UTC: the budget is used up.
    #[serde(default)]
    pub write_budget_used_up: bool,
    /// Objects that were not stored because the budget was used up.
    #[serde(default)]
    pub budget_refused: u64,
    /// Objects that were written while they arrived.
    #[serde(default)]
    pub admitted: u64,
    /// Objects that were written later, from memory.
    #[serde(default)]
    pub written_later: u64,
    /// Objects evicted for room.
    pub evicted: u64,
    /// Objects that were removed because a purge had made them dead.
    #[serde(default)]
    pub swept: u64,
    /// Segments that were removed because nothing in them was alive.
    #[serde(default)]
    pub segments_freed: u64,
    /// Objects of a dropped segment that were written again because they were used.
    #[serde(default)]
    pub reinserted: u64,
    /// Objects that were removed because their site was at its quota.
    #[serde(default)]
    pub over_quota: u64,
    /// Sweeps that ended with marks dropped.
    #[serde(default)]
    pub sweeps: u64,
    /// Sweeps that failed; the volume begins them again.
    #[serde(default)]
    pub sweeps_failed: u64,
    /// The catalogue; absent where searches read through the volume instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalogue: Option<CatalogueUse>,
    /// Objects dropped because their checksum did not match.
    pub damaged: u64,
    /// Objects that were not stored because the write queue was full.
    pub queue_full: u64,
    /// Failed reads.
    pub read_errors: u64,
    /// Failed writes.
    pub write_errors: u64,
}

/// What a volume's catalogue uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CatalogueUse {
    /// Bytes on the drive, which count as the volume's.
    pub disk_bytes: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes written, compactions included.
    pub written_bytes: u64,
    /// Records of the log that the catalogue has read.
    pub records: u64,
    /// Bytes of the log that the catalogue has not read yet.
    pub behind_bytes: u64,
    /// Whether it failed, and is not used until a restart.
    pub broken: bool,
}

/// The state of the ledger of purges and invalidations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerState {
    /// Its number: that of the newest mark, or of the start.
    #[serde(with = "crate::digits")]
    #[schemars(with = "String")]
    pub number: u64,
    /// All marks up to this number are on disk.
    #[serde(with = "crate::digits")]
    #[schemars(with = "String")]
    pub durable: u64,
    /// How many marks are kept.
    pub marks: u64,
    /// Why the last write failed; absent where it succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}
