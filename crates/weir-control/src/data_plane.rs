//! What the control plane asks of the data plane, and the plain values it gets. The binary joins the two.

mod certificates;
mod checked;
mod content;
mod explained;
mod listing;
mod origins;
mod picks;
mod purge;
mod retention;
mod upgrade;
mod volumes;
mod warm;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use weir_config::value::HostPattern;
use weir_config::{Loaded, Mistakes};
use weir_observe::{Observatory, Snapshot};

use crate::origins::{OriginChanged, OriginOrder, OriginRefusal, OriginsOf};
use crate::progress::Progress;
use crate::readings::{MetricsOrder, MetricsPushed, MetricsShown, SourceShown};
use crate::sites::{AccountsUse, Holding, Sites, SitesOrder};

pub use self::certificates::{CertificateUse, CertificatesUse, OrdersEnded};
pub use self::checked::{AgentState, CheckState, TookUpTo};
pub use self::content::{
    ContentLaid, ContentListing, ContentOrder, ContentRefusal, ContentShown, ContentSites, ContentUpload,
    ContentUse, ContentWanted,
};
pub use self::explained::{
    Explained, ExplainedGate, ExplainedTls, HeldRange, OriginChoice, OriginConsidered, OriginRequest,
    Question, SelectingField, Setting, StoredVariant,
};
pub use self::listing::{CachedObject, ListOrder, ListSum, Listing};
pub use self::origins::{HedgesState, OriginState, SessionsState, UpstreamState};
pub use self::picks::PicksCount;
pub use self::purge::{Counted, PurgeDone, PurgeOrder, PurgeScope, Purged, SCOPES_MAX, Taken};
pub use self::retention::{
    LIFETIME_S_MAX, Retained, RetainedUntil, RetentionOrder, RetentionRefusal, RetentionShown, Retentions,
};
pub use self::upgrade::{OldProcess, UpgradeOrder, Upgraded};
pub use self::volumes::{CatalogueUse, Verified, VolumeStanding, VolumeUse};
pub use self::warm::{WarmBy, WarmExample, WarmFolder, WarmOrder, WarmPiece, WarmRefusal, WarmTaken, Warmed};

/// What the cache holds of each site.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// By the names of the sites.
    pub sites: Vec<(Arc<str>, Holding)>,
    /// When memory was counted. `None` before the first count: then volumes alone are in it.
    pub as_of: Option<SystemTime>,
}

/// The data plane as the control plane sees it. Every call may block for a short time, and comes from a
/// thread that may.
pub trait DataPlane: Send + Sync {
    /// Whether this program can do what a configuration wants. Nothing changes by it.
    ///
    /// # Errors
    /// A mistake at each place that wants what the program was built without.
    fn fits(&self, _loaded: &Loaded) -> Result<(), Mistakes> {
        Ok(())
    }

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

    /// Purges at once. Calls `done` with the number of the mark once the purge is durable, or with why it is
    /// not. It may be called from any thread, also before this returns.
    ///
    /// # Errors
    /// A sentence, when the order makes no sense; then nothing is purged, and `done` is not called.
    fn purge(&self, order: &PurgeOrder, done: PurgeDone) -> Result<Taken, String>;

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

    /// Makes what the scopes name fresh for `lifetime` from now on, at once. Calls `done` as for a purge.
    ///
    /// # Errors
    /// See [`RetentionRefusal`]; then nothing has changed, and `done` is not called.
    fn retain(
        &self,
        scopes: &[PurgeScope],
        lifetime: Duration,
        done: PurgeDone,
    ) -> Result<(), RetentionRefusal>;

    /// Whether a scope would concern what a site holds under a key with these tags.
    fn concerns(&self, scope: &PurgeScope, site: &str, key: &str, tags: &[String]) -> bool;

    /// Whether there are volumes.
    fn has_volumes(&self) -> bool;

    /// Reads all that the volumes hold, checks every byte and drops what is wrong. Blocks for as long as that
    /// takes, or until `progress` asks it to end.
    ///
    /// # Errors
    /// A sentence, where there is no volume or its drive fails.
    fn verify(&self, progress: &Progress) -> Result<Verified, String>;

    /// Begins a warming. Its list may still have to come. Returns its id.
    ///
    /// # Errors
    /// See [`WarmRefusal`].
    fn warm_begin(&self, order: &WarmOrder, by: &WarmBy) -> Result<String, WarmRefusal> {
        let _ = (order, by);
        Err(WarmRefusal::Unfit("this Weir cannot warm".to_owned()))
    }

    /// Takes a further piece of its list. Returns how many URLs have come.
    ///
    /// # Errors
    /// See [`WarmRefusal`].
    fn warm_add(&self, id: &str, piece: &WarmPiece) -> Result<u64, WarmRefusal> {
        let _ = piece;
        Err(WarmRefusal::Unknown(format!("there is no warming {id}")))
    }

    /// Goes through a warming, and blocks until it has ended, or `progress` asks it to end. One that is
    /// interrupted is kept for the next process.
    ///
    /// # Errors
    /// A sentence.
    fn warm_run(&self, id: &str, progress: &Progress) -> Result<Warmed, String> {
        let _ = progress;
        Err(format!("there is no warming {id}"))
    }

    /// Has no later process go on with a warming that is to end.
    fn warm_cancel(&self, id: &str) {
        let _ = id;
    }

    /// Forgets a warming that has not begun.
    fn warm_drop(&self, id: &str) {
        let _ = id;
    }

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

    /// Lists what is cached. May block for a while, and tells its progress.
    ///
    /// # Errors
    /// A sentence, when the question names nothing that there could be, or it was ended.
    fn list(&self, order: &ListOrder, progress: &Progress) -> Result<Listing, String>;

    /// Begins to lay content by hand. Blocks.
    ///
    /// # Errors
    /// See [`ContentRefusal`].
    fn begin_content(&self, order: &ContentOrder) -> Result<Box<dyn ContentUpload>, ContentRefusal> {
        Err(ContentRefusal::Unfit(format!("nothing can be laid over {} here", order.url)))
    }

    /// Resets a URL; none where nothing is laid over it. It is durable when this returns. Blocks.
    ///
    /// # Errors
    /// See [`ContentRefusal`].
    fn reset_content(
        &self,
        url: &str,
        sites: Option<&[String]>,
    ) -> Result<Option<ContentShown>, ContentRefusal> {
        let _ = sites;
        Err(ContentRefusal::Unfit(format!("nothing is laid over {url} here")))
    }

    /// A page of content by hand, and how much there is.
    ///
    /// # Errors
    /// A sentence, when the question names nothing that there could be.
    fn content(&self, wanted: &ContentWanted) -> Result<ContentListing, String> {
        let ContentWanted { .. } = wanted;
        Ok(ContentListing::default())
    }

    /// The sites that content over a URL has to do with.
    ///
    /// # Errors
    /// It is no URL.
    fn sites_of_content(&self, url: &str) -> Result<ContentSites, ContentRefusal> {
        Ok(ContentSites { now: self.site_of_url(url), laid: None })
    }

    /// The name of the only site; none where there are several.
    fn only_site(&self) -> Option<String> {
        None
    }

    /// How many pieces of content by hand lie where a purge is ordered, which leaves them alone.
    fn content_within(&self, order: &PurgeOrder) -> u64 {
        let PurgeOrder { .. } = order;
        0
    }

    /// The accounts of sites. May block for a while.
    ///
    /// # Errors
    /// A sentence, when the question names nothing that there could be, or they cannot be read.
    fn sites(&self, order: &SitesOrder) -> Result<Sites, String>;

    /// What the cache holds of each site of the configuration, including purged objects on volumes that are
    /// not swept yet. Where memory holds many objects it was counted a while ago.
    fn held(&self) -> Held;

    /// The names that the admin listener answers to, beside its addresses and `localhost`: `[admin] hosts`.
    fn admin_hosts(&self) -> Vec<HostPattern>;

    /// What is observed: the logs, events, the history.
    fn observatory(&self) -> &Observatory;

    /// The name of the site that has this name or this host.
    fn site_named(&self, name: &str) -> Option<String>;

    /// Says that no site has this name or this host, and which there are.
    fn unknown_site(&self, name: &str) -> String {
        format!("no site is named {name}")
    }

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

/// The phase of a running Weir.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Inventory {
    /// The number of the plan in force; 1 at the start, one more with each reload.
    pub plan: u64,
    /// Sites of the plan in force.
    pub sites: usize,
    /// Routes of the plan in force.
    pub routes: usize,
    /// Worker threads.
    pub workers: usize,
    /// Processes before this one that finish their requests, the oldest first.
    pub old_processes: Vec<OldProcess>,
    /// Where clients connect.
    pub listeners: Vec<String>,
    /// How, for each of these.
    pub listening: Vec<Listening>,
    /// What the cache holds.
    pub cache: CacheUse,
    /// What each volume holds.
    pub volumes: Vec<VolumeUse>,
    /// How much content by hand there is.
    pub content: ContentUse,
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Listening {
    /// The address, or the unix socket.
    pub address: String,
    /// Whether connections begin with TLS.
    pub tls: bool,
    /// What clients may speak, the preferred first: `h2`, `http/1.1`.
    pub protocols: Vec<String>,
}

/// What the cache holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

/// The state of the ledger of purges and invalidations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LedgerState {
    /// Its number: that of the newest mark, or of the start.
    #[serde(with = "crate::digits")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub number: u64,
    /// All marks up to this number are on disk.
    #[serde(with = "crate::digits")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub durable: u64,
    /// How many marks are kept.
    pub marks: u64,
    /// Why the last write failed; absent where it succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}
