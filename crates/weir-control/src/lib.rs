//! The control plane: reload, status, explain, purge, metrics and health, over the admin listener and the
//! control socket.
//!
//! It runs on a thread and a runtime of its own, and asks the data plane through [`DataPlane`]. It may fail
//! or hang without affecting a request. Rooms: [`data_plane`] what it asks of the data plane; [`state`] the
//! state folder; [`control`] the commands; `metrics` and `status` what it shows; `admin` and `socket` the
//! paths of the two servers; [`serve`] their connections, `places` how many; [`client`] talks to a running
//! Weir.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod client;
pub mod control;
pub mod data_plane;
pub mod query;
pub mod serve;
pub mod sites;
pub mod state;
pub mod status;

mod admin;
mod answer;
mod clock;
mod digits;
mod metrics;
mod places;
mod socket;

pub use client::{AskError, Asked};
pub use control::{Control, PurgeError, ReloadError, Reloaded, Source};
pub use data_plane::{
    CacheUse, CachedObject, CatalogueUse, CertificateUse, CertificatesUse, DataPlane, Explained,
    ExplainedTls, HeldRange, Inventory, LedgerState, ListOrder, Listing, OrdersEnded, OriginRequest,
    OriginState, Phase, PurgeDone, PurgeOrder, PurgeScope, Purged, Question, SelectingField, Setting,
    StoredVariant, SwapError, Swapped, UpgradeOrder, Upgraded, UpstreamState, Verified, VolumeUse,
};
pub use serve::{AdminListener, ControlThread, ServeError};
pub use sites::{
    AccountsUse, Holding, More, SiteAccount, Sites, SitesOrder, Stock, UnsoundFile, Used, UsedIn,
};
pub use state::{StateError, StateFolder};
pub use status::{CertificatesState, Status, rfc3339};

#[cfg(test)]
mod tests;
