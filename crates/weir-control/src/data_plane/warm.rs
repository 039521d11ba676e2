//! Warmings as they are ordered, and what came of them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// URLs that Weir is to ask for, so that it holds them before clients want them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct WarmOrder {
    /// URLs of http or https.
    pub urls: Vec<String>,
    /// URLs of sitemaps, or of indexes of them.
    pub sitemaps: Vec<String>,
    /// A folder of the machine that Weir runs on, whose files are put in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<WarmFolder>,
    /// Fields of each request: `Accept-Encoding: br`.
    pub headers: Vec<String>,
    /// URLs a second at most. Default: as fast as clients leave room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// URLs at a time, 1 to 64. Default: 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<u16>,
    /// Whether what is fresh is fetched as well.
    pub refresh: bool,
    /// Whether more URLs are to come, by `POST /v1/warm/ID`.
    pub more: bool,
}

/// Files that are put in as if an origin had answered with them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WarmFolder {
    /// Where they are.
    pub path: PathBuf,
    /// The URL of the folder.
    pub url: String,
}

/// A piece of a list of URLs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WarmPiece {
    /// How many URLs were sent before it. What has come before counts once.
    pub at: u64,
    /// The URLs.
    pub urls: Vec<String>,
    /// Whether more are to come.
    #[serde(default)]
    pub more: bool,
}

/// A piece that was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WarmTaken {
    /// How many URLs have come by now.
    pub urls: u64,
}

/// What a warming has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Warmed {
    /// URLs that were fetched and are held.
    pub stored: u64,
    /// Those that were held, and that the origin has confirmed.
    pub confirmed: u64,
    /// Those that were held and fresh: no origin was asked.
    pub fresh: u64,
    /// Those that are not stored, by the reason.
    pub not_stored: BTreeMap<String, u64>,
    /// Those that failed, by the reason or the status.
    pub failed: BTreeMap<String, u64>,
    /// Some of those that are not stored or failed.
    pub examples: Vec<WarmExample>,
}

/// A URL that was not stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WarmExample {
    /// The URL.
    pub url: String,
    /// Why.
    pub why: String,
}

/// Whose a warming is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarmBy {
    /// As in the history.
    pub actor: String,
    /// Another token of the same name is another owner.
    pub owner: String,
    /// The sites that it may touch; `None`: all.
    pub sites: Option<Vec<String>>,
    /// The entry of the configuration that it comes from.
    pub entry: Option<String>,
}

/// Why a warming is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WarmRefusal {
    /// It makes no sense.
    #[error("{0}")]
    Unfit(String),
    /// Too many are under way.
    #[error("{0}")]
    Busy(String),
    /// There is none of this id whose list is open.
    #[error("{0}")]
    Unknown(String),
    /// A piece before this one is missing.
    #[error("{0}")]
    Gap(String),
    /// The state folder refuses.
    #[error("{0}")]
    StateFolder(String),
}
