//! The control plane: reload, status, explain, purge, metrics and health, over the admin listener and the
//! control socket.
//!
//! It runs on a thread and a runtime of its own, and asks the data plane through [`DataPlane`]. It may fail
//! or hang without affecting a request. Rooms: [`data_plane`] what it asks of the data plane; [`state`] the
//! state folder; [`control`] the commands; [`api`] the table of paths; `access` who may, with `tokens`;
//! `exchange` one request; [`jobs`] what takes long; `streams` answers that go on; `metrics` and `status`
//! what it shows; [`serve`] the connections, `places` how many, `turns` what
//! waits; [`client`] talks to a running Weir.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod client;
pub mod control;
pub mod data_plane;
pub mod history;
pub mod query;
pub mod serve;
pub mod sites;
pub mod state;
pub mod status;

mod access;
mod answer;
pub mod api;
mod call;
mod clock;
mod digits;
mod exchange;
mod files;
mod guesses;
pub mod jobs;
mod listener;
mod metrics;
mod open;
pub mod origins;
mod past;
mod places;
mod progress;
mod rates;
pub mod readings;
mod reloads;
mod retentions;
mod socket;
mod streams;
mod tls;
mod tokens;
pub mod top;
mod turns;
mod unsent;
mod upload;
mod users;
mod warm;

pub use answer::Refused;
pub use call::Role;
pub use client::{Ask, AskError, Asked, Followed, Remote, Sending, Way};
pub use control::{Control, PurgeError, ReloadError, Reloaded, Source};
pub use data_plane::PickState;
pub use data_plane::{
    AgentState, CacheUse, CachedObject, CatalogueUse, CertificateUse, CertificatesUse, CheckState,
    ContentLaid, ContentListing, ContentOrder, ContentRefusal, ContentShown, ContentSites, ContentUpload,
    ContentUse, ContentWanted, Counted, DataPlane, Explained, ExplainedGate, ExplainedTls, HedgesState, Held,
    HeldRange, Inventory, LedgerState, ListOrder, ListSum, Listening, Listing, OldProcess, OrdersEnded,
    OriginChoice, OriginConsidered, OriginRequest, OriginState, Phase, PicksCount, PurgeDone, PurgeOrder,
    PurgeScope, Purged, Question, SCOPES_MAX, SelectingField, SessionsState, Setting, StoredVariant,
    SwapError, Swapped, Taken, TookUpTo, UpgradeOrder, Upgraded, UpstreamState, Verified, VolumeStanding,
    VolumeUse, WarmBy, WarmExample, WarmFolder, WarmOrder, WarmPiece, WarmRefusal, WarmTaken, Warmed,
};
pub use data_plane::{
    LIFETIME_S_MAX, Retained, RetainedUntil, RetentionOrder, RetentionRefusal, RetentionShown, Retentions,
};
pub use history::{HistoryEntry, HistoryOrder, HistoryShown};
pub use jobs::{JobShown, JobState};
pub use listener::{AdminListener, ServeError};
pub use origins::{
    KeptOrigins, OriginAct, OriginChange, OriginChanged, OriginOrder, OriginRefusal, OriginShown, OriginsOf,
};
pub use past::PastShown;
pub use progress::Progress;
pub use query::{LiveOrder, LogKind, LogOrder, TOP_ROWS, TopWanted};
pub use readings::{
    MetricsOrder, MetricsPushed, MetricsShown, MissingShown, OriginMetrics, SourceShown, ValueShown,
};
pub use serve::ControlThread;
pub use sites::{
    AccountsUse, Holding, More, SiteAccount, Sites, SitesOrder, Stock, UnsoundFile, Used, UsedIn,
};
pub use state::{StateError, StateFolder};
pub use status::{CertificatesState, Status, rfc3339};
pub use tokens::{TokenError, TokenMade, TokenOrder, TokenShown, Tokens};
pub use top::{OutcomeRate, Top, TopShown, TrafficShown};

#[cfg(test)]
mod tests;
