//! What is cached, as the control plane asks for it and shows it.

use serde::{Deserialize, Serialize};

/// What to list. Several conditions must all hold. They are words here: the data plane reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOrder {
    /// Only this site.
    pub site: Option<String>,
    /// Only URLs that begin with this text.
    pub prefix: Option<String>,
    /// Only objects with this tag.
    pub tag: Option<String>,
    /// Only URLs that this glob takes as a whole, or behind `~` a regular expression in part.
    pub matching: Option<String>,
    /// Only these statuses: `404,5xx`.
    pub status: Option<String>,
    /// Only these media types: `text/html,image/*`.
    pub media_type: Option<String>,
    /// Only so many bytes held: `1MiB..`, `..10KiB`, `1KiB..2KiB`.
    pub size: Option<String>,
    /// Only of that age: `1h..`, `..10m`.
    pub age: Option<String>,
    /// `fresh`, `stale`, or a time: what is fresh and expires within it.
    pub freshness: Option<String>,
    /// `part` or `whole`.
    pub held: Option<String>,
    /// `memory`, or the name of a volume.
    pub place: Option<String>,
    /// Only content by hand, or only what is not.
    pub by_hand: Option<bool>,
    /// What comes first: `url`, `size`, `age` or `expires`.
    pub sort: Option<String>,
    /// Whether only the sum of all is wanted.
    pub is_sum: bool,
    /// The most objects.
    pub limit: usize,
    /// Where the page before ended.
    pub after: Option<String>,
}

/// What is cached: a page, the first of an order, or a sum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Listing {
    /// Some objects.
    pub objects: Vec<CachedObject>,
    /// Where the next page begins; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// All that fits, also beyond these objects; absent unless an order or a sum was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<ListSum>,
    /// How many volumes were or will be read from end to end for this, since they have no rows that are up to
    /// date: it takes longer.
    #[serde(default)]
    pub walked: usize,
}

/// How much fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ListSum {
    /// Objects.
    pub objects: u64,
    /// Bytes of their bodies that are held.
    pub held_bytes: u64,
}

/// A cached object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CachedObject {
    /// Its URL as it stands in the key; that of content by hand has no scheme, since it is there for both.
    pub url: String,
    /// What else is in its key, a line for each field and cookie.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<String>,
    /// Its site; absent where the configuration no longer has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// The status.
    pub status: u16,
    /// The media type without parameters; absent where the response names none.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The length of its body in bytes, where it is known.
    pub body_bytes: Option<u64>,
    /// Bytes of the body that are held, in memory and on the volume together.
    pub held_bytes: u64,
    /// Whether it is a part: some of its body is missing.
    pub part: bool,
    /// When the response came, or the content was laid; RFC 3339.
    pub stored: String,
    /// Its age in seconds (RFC 9111 §4.2.3).
    pub age_s: u64,
    /// How long it is fresh, in seconds. Absent: it is content by hand that stays until it is reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime_s: Option<u64>,
    /// Whether it is fresh: within its lifetime, and not softly purged.
    #[serde(default)]
    pub fresh: bool,
    /// Whether its bytes are in memory.
    pub memory: bool,
    /// Whether it is on a volume.
    pub volume: bool,
    /// The name of that volume; absent for a token of some sites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_name: Option<String>,
    /// Whether it is content by hand.
    #[serde(default)]
    pub by_hand: bool,
    /// Whether requests are answered with this content by hand: not where its URL leads to another site by
    /// now, or to none, or it is damaged. Absent where it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<bool>,
}
