//! What is cached, as the control plane asks for it and shows it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
