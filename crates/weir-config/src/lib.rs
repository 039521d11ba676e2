//! The configuration of Weir: text in, a complete and checked model out, with the place of every value. One
//! model yields the file's form, its JSON Schema and its reference. Must not open a socket, resolve a name or
//! know the edge.
//!
//! [`load`] reads `weir.toml` and what it includes, [`from_flags`] makes the same from `weir run --origin`;
//! both give a [`Loaded`], whose [`Loaded::resolved`] are the sites and routes after inheritance, or all
//! [`Mistakes`] at once.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod check;
mod files;
mod flags;
mod from_tree;
mod load;
mod maps;
mod memory;
mod mistake;
pub mod model;
mod nearest;
mod needs;
mod neighbours;
#[cfg(test)]
mod reference;
mod resolve;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod schema;
mod semantics;
pub mod session_keys;
mod shape;
mod show;
mod source;
mod tree;
mod upstreams;
pub mod value;
mod warnings;

pub use files::{read as read_file, read_text as read_text_file};
pub use flags::{Flags, from_flags};
pub use load::{Loaded, load, load_with};
pub use mistake::Mistakes;
pub use nearest::nearest;
pub use needs::Part;
pub use resolve::{
    Action, BackBy, Closed, Conditions, Edits, PageContent, PageFor, PathRule, ResolvedAccess, ResolvedBack,
    ResolvedClients, ResolvedFiles, ResolvedLimit, ResolvedPurge, ResolvedRate, ResolvedRewrite,
    ResolvedRoute, ResolvedSite,
};
pub use shape::JSON_SCHEMA;
pub use show::{show, show_json};
pub use source::Place;
pub use tree::{HIDDEN, is_secret};
pub use weir_policy::RangeRules;
