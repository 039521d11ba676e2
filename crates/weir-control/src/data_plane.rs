//! What the control plane asks of the data plane, and the plain values it gets. The binary joins the two.

mod explained;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_config::Loaded;
use weir_config::value::HostPattern;
use weir_observe::Snapshot;

use crate::sites::{AccountsUse, Holding, Sites, SitesOrder};

pub use self::explained::{Explained, OriginRequest, Question, SelectingField, Setting, StoredVariant};

/// The data plane as the control plane sees it. Every call may block for a short time and comes from a thread
/// that may.
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

    /// Purges at once. `done` is called when that is durable, with the number of the mark, or has failed to
    /// become so; it may be called from any thread, before this returns as well.
    ///
    /// # Errors
    /// A sentence, when the order names nothing that there could be; then nothing is purged, and `done` is
    /// not called.
    fn purge(&self, order: &PurgeOrder, done: PurgeDone) -> Result<(), String>;

    /// Goes through all that the volume holds, checks every byte and drops what is wrong. Blocks for as long
    /// as that takes.
    ///
    /// # Errors
    /// A sentence, where there is no volume, or its drive fails.
    fn verify(&self) -> Result<Verified, String>;

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

    /// What is held of each site of the configuration, what is purged and not swept yet on volumes included.
    /// May block for a while.
    fn held(&self) -> Vec<(String, Holding)>;

    /// The names that the admin listener answers to, beside its addresses and `localhost`: `[admin] hosts`.
    fn admin_hosts(&self) -> Vec<HostPattern>;

    /// Whether requests are taken.
    fn phase(&self) -> Phase;

    /// Has a new process take all over. Blocks until it has, or does not come up.
    ///
    /// # Errors
    /// Why it did not, with its own words where it left any; then everything is as before.
    fn upgrade(&self, order: &UpgradeOrder) -> Result<Upgraded, String> {
        let UpgradeOrder { .. } = order;
        Err("this Weir cannot start another in its place".to_owned())
    }
}

/// What is to take over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpgradeOrder {
    /// The program; none: what now lies where this one was started from.
    pub program: Option<PathBuf>,
}

/// A process that has taken over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Upgraded {
    /// Its pid.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// The pid of the process before it, which finishes its requests.
    pub old_pid: u32,
    /// From the order to the take-over, in milliseconds.
    pub took_ms: u64,
    /// For how long no request could begin, in milliseconds.
    pub paused_ms: u64,
}

/// What is to be listed. Several together: what all of them say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOrder {
    /// Of this site alone.
    pub site: Option<String>,
    /// What begins with this text alone.
    pub prefix: Option<String>,
    /// What bears this tag alone.
    pub tag: Option<String>,
    /// How many, at most.
    pub limit: usize,
    /// Where the page before ended.
    pub after: Option<String>,
}

/// A page of what is cached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// Some objects.
    pub objects: Vec<CachedObject>,
    /// Where the next page begins; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Something that is cached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedObject {
    /// Its URL as it stands in the key.
    pub url: String,
    /// What else is in its key, a line for each field and cookie.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<String>,
    /// Its site; absent where the configuration has none any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// The status.
    pub status: u16,
    /// The length of its body in bytes, where it is known.
    pub body_bytes: Option<u64>,
    /// Bytes of the body that are held, in memory and on the volume together.
    pub held_bytes: u64,
    /// Whether it is held in part: some of the body is missing.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Objects whose every byte is what was stored.
    pub objects: u64,
    /// Those of them that are held in part.
    pub parts: u64,
    /// The bytes of their bodies.
    pub body_bytes: u64,
    /// Objects that were not what was stored, and were dropped.
    pub damaged: u64,
    /// Objects that went, or moved, while they were looked for.
    pub moved: u64,
    /// Sites whose counts of what is held were wrong, and were corrected.
    #[serde(default)]
    pub counts_corrected: u64,
    /// Rows that the catalogue lacked, and that were added.
    #[serde(default)]
    pub rows_added: u64,
    /// Rows of the catalogue that were of no use any more, and were removed.
    #[serde(default)]
    pub rows_removed: u64,
}

/// What is called when a purge is durable: the number of its largest mark, or why it is not.
pub type PurgeDone = Box<dyn FnOnce(Result<u64, String>) + Send>;

/// A purge that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PurgeOrder {
    /// What is purged.
    pub scope: PurgeScope,
    /// Whether it only becomes stale.
    #[serde(default)]
    pub soft: bool,
}

/// What is purged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PurgeScope {
    /// All keys and variants of a URL; without a scheme of http and https.
    Url(String),
    /// All whose URL begins with this.
    Prefix(String),
    /// All that bears one of these tags.
    Tags(Vec<String>),
    /// All of a site.
    Site(String),
    /// Everything.
    All,
}

/// A purge that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purged {
    /// The number of its mark in the ledger; the largest, where there are several.
    #[serde(with = "crate::digits")]
    pub mark: u64,
    /// What was purged.
    pub scope: PurgeScope,
    /// Whether it only became stale.
    pub soft: bool,
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
    /// What each volume holds.
    pub volumes: Vec<VolumeUse>,
    /// Where the ledger stands.
    pub ledger: LedgerState,
    /// Where the accounts stand.
    pub accounts: AccountsUse,
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
    /// Objects that stayed in memory where there are volumes, since they were not asked for often enough.
    #[serde(default)]
    pub not_admitted: u64,
}

/// What a volume holds, and what was done with it since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeUse {
    /// Its folder.
    pub path: String,
    /// Which one it is, in hexadecimal digits; empty where it could not be opened yet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// `up`; `full`: it serves and does not fill; `read-only`: it serves what it has; `slow`: it is not
    /// waited for; `ejected`: it is not asked; `probing`: it is being opened.
    pub state: String,
    /// Why, where it is not up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// In how many seconds it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_s: Option<u64>,
    /// Whether it is being emptied: `draining`, and `drained` once it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<String>,
    /// Whether what it held when it came back is asked about before it is used.
    #[serde(default)]
    pub suspect: bool,
    /// Its share of the keys, beside the others' weights.
    #[serde(default)]
    pub weight: u64,
    /// Objects, each variant counted.
    pub objects: u64,
    /// Bytes that its files take.
    pub used_bytes: u64,
    /// The ceiling of its files.
    pub size_bytes: u64,
    /// Files that hold objects.
    pub segments: u64,
    /// Bytes of memory that its index takes, beyond the cache's.
    pub index_bytes: u64,
    /// Bytes of bodies written.
    pub written_body_bytes: u64,
    /// Bytes written beside them: heads, checksums, journal, checkpoints.
    pub written_overhead_bytes: u64,
    /// The most that is written to it in a day of UTC, where there is a most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_budget_bytes: Option<u64>,
    /// Bytes written since the day began, by the catalogue as well.
    #[serde(default)]
    pub written_today_bytes: u64,
    /// Nothing is stored before midnight, UTC: the budget is used up.
    #[serde(default)]
    pub write_budget_used_up: bool,
    /// Objects that were not stored for that.
    #[serde(default)]
    pub budget_refused: u64,
    /// Objects that were written while they arrived.
    #[serde(default)]
    pub admitted: u64,
    /// Objects that were written later, out of memory.
    #[serde(default)]
    pub written_later: u64,
    /// Objects that made room for others.
    pub evicted: u64,
    /// Objects that were taken out since a purge had made them dead.
    #[serde(default)]
    pub swept: u64,
    /// Files that went since nothing in them was of use any more.
    #[serde(default)]
    pub segments_freed: u64,
    /// Objects that were written again because they were still wanted.
    #[serde(default)]
    pub reinserted: u64,
    /// Objects that went because their site was at its quota.
    #[serde(default)]
    pub over_quota: u64,
    /// Sweeps that ended with marks dropped.
    #[serde(default)]
    pub sweeps: u64,
    /// Sweeps that could not go on; they are begun again.
    #[serde(default)]
    pub sweeps_failed: u64,
    /// The catalogue; absent where the volume is walked instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalogue: Option<CatalogueUse>,
    /// Objects that were not what was stored, and were dropped.
    pub damaged: u64,
    /// Objects that were not stored because too much waited to be written.
    pub queue_full: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes that failed.
    pub write_errors: u64,
}

/// What a volume's catalogue takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogueUse {
    /// Bytes on the drive, which count as the volume's.
    pub disk_bytes: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes written, those of tidying up included.
    pub written_bytes: u64,
    /// Records of the log that were taken in.
    pub records: u64,
    /// Bytes of the log that are not taken in yet.
    pub behind_bytes: u64,
    /// Whether it failed, and is not used until a restart.
    pub broken: bool,
}

/// Where the ledger of purges and invalidations stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerState {
    /// Its number: that of the newest mark, or of the start.
    #[serde(with = "crate::digits")]
    pub number: u64,
    /// All marks up to this number are on disk.
    #[serde(with = "crate::digits")]
    pub durable: u64,
    /// How many marks are kept.
    pub marks: u64,
    /// Why it could not be written the last time; absent when it could.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
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
    /// Requests tried again after failing here.
    pub retries: u64,
    /// Connections opened.
    pub connections_opened: u64,
    /// Requests sent on a connection that had served before.
    pub connections_reused: u64,
    /// Requests turned away because all connections were in use.
    pub busy: u64,
    /// Times that it was left out after failures.
    pub ejections: u64,
    /// Connections open now.
    pub connections_open: usize,
    /// Connections idle now.
    pub connections_idle: usize,
    /// Requests waiting for a connection now.
    pub queued: usize,
    /// Tunnels and event streams now.
    pub streams: usize,
}
