//! Purges as they are ordered and answered.

use serde::{Deserialize, Serialize};

/// Called when a purge is durable with the number of its largest mark, or with why it is not.
pub type PurgeDone = Box<dyn FnOnce(Result<u64, String>) + Send>;

/// A purge that is ordered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

/// What a purge takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// How many objects that are, where it is known without a search.
    pub held: Option<u64>,
    /// How the URLs begin that go in place of fewer, which cannot be told apart; the names of sites that go
    /// as wholes.
    pub wider: Vec<String>,
}

/// A purge that was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Purged {
    /// The number of its mark in the ledger; the largest, where there are several.
    #[serde(with = "crate::digits")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub mark: u64,
    /// What was purged.
    pub scopes: Vec<PurgeScope>,
    /// Whether it only became stale.
    pub soft: bool,
    /// How many objects were held of it; absent where finding that out would have taken a search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<u64>,
    /// How the URLs in keys begin that went in place of fewer, which fields, cookies or parameters choose.
    /// Without `://`: the name of a site that went as a whole, or `everything`, since the ledger has no room
    /// for so many marks. Absent where no more went than was named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wider: Vec<String>,
    /// How many pieces of content by hand lie there; no purge touches them. Absent without any.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub by_hand: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What a purge would take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
