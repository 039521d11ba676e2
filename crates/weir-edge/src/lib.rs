//! The data plane of Weir: the walk of each request, by a plan, to a response.
//!
//! Read [`walk`](mod@walk) first: every other room is reached from there. The fills are in `weir_fill`, and
//! connections and their protocol in `weir_front`. It must not know what the disk is made of, and it serves
//! no control request.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod affinity;
mod beside;
mod cache_status;
mod chunks;
mod consult;
mod content;
mod cookies;
mod core;
mod debug;
mod decide;
mod deliver;
mod edge;
mod exchange;
mod explain;
mod fetch;
mod files;
mod gates;
mod give_way;
mod handover;
mod job;
mod late;
mod limit;
mod list;
mod local;
mod login;
mod lookup;
mod notes;
mod origins;
mod outgoing;
mod parts;
mod pass;
mod placed;
pub mod plan;
mod present;
mod proofs;
mod purge;
mod represent;
mod response;
mod revalidate;
pub mod route;
mod secured;
mod seen;
mod serve;
mod service;
mod shared;
mod shown;
#[doc(hidden)]
pub mod simulated;

mod trace;
pub mod transform;
mod upload;
mod values;
mod walk;
mod warm;
mod warmer;
mod warming;
mod ways;

pub use content::orders::{
    ContentError, ContentLaid, ContentOrder, ContentShown, ContentSites, ContentUpload, ContentWanted,
};
pub use edge::{Edge, FromOutside, Purging, StartError, Unretained};
pub use explain::{Asked, Explanation, Foretold, OriginChoice, OriginConsidered, Question, StoredVariant};
pub use list::{Cached, CachedPage, ListOrder, ListedByHand};
pub use origins::OriginError;
pub use proofs::HttpProofs;
pub use purge::{PurgeOrder, PurgeTarget};
pub use warming::{Document, GaveWay, Warm, Warmed};
