//! Content by hand, as the control plane orders and shows it.

use serde::{Deserialize, Serialize};

/// Content that is to be laid over a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentOrder {
    /// The URL, with its scheme or without.
    pub url: String,
    /// Its media type; none: by the ending of the URL's path.
    pub content_type: Option<String>,
    /// After how many seconds it ends by itself; none: it stays until it is reset.
    pub ttl_s: Option<u64>,
    /// How many bytes come, where that is known.
    pub body_bytes: Option<u64>,
    /// The sites that the caller is for alone, by name; none: all.
    pub sites: Option<Vec<String>>,
}

/// The sites that a URL has to do with, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentSites {
    /// The one that it leads to now.
    pub now: Option<String>,
    /// The one that what lies over it was laid for.
    pub laid: Option<String>,
}

/// Content on its way in. One that is dropped before it is finished leaves nothing.
pub trait ContentUpload: Send {
    /// Adds bytes. Blocks.
    ///
    /// # Errors
    /// See [`ContentRefusal`].
    fn write(&mut self, bytes: &[u8]) -> Result<(), ContentRefusal>;

    /// Lays the content. It is durable when this returns. Blocks.
    ///
    /// # Errors
    /// See [`ContentRefusal`]: what was there before stays.
    fn finish(self: Box<Self>) -> Result<ContentLaid, ContentRefusal>;
}

/// Why content is not laid or reset; each a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentRefusal {
    /// The order makes no sense.
    Unfit(String),
    /// The URL is none of the caller's sites.
    OtherSite(String),
    /// It is larger than it may be.
    TooLarge(String),
    /// There is no room in `[content] size`.
    Full(String),
    /// There is no room on the drive.
    DiskFull(String),
    /// Too many uploads are under way.
    Busy(String),
    /// A new process is taking over.
    Moving(String),
    /// The folder cannot be written.
    Failed(String),
}

/// A piece of content by hand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ContentShown {
    /// Its URL, without a scheme: it is there for both.
    pub url: String,
    /// The site that it was laid for.
    pub site: String,
    /// Its media type.
    pub content_type: String,
    /// Its length in bytes.
    pub body_bytes: u64,
    /// Its entity tag.
    pub etag: String,
    /// When it was laid, RFC 3339.
    pub laid: String,
    /// When it ends by itself, RFC 3339; absent: it stays until it is reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<String>,
    /// Whether requests are answered with it. Not where its URL leads to another site by now, or to none, it
    /// is damaged, or newer content covers it.
    pub shown: bool,
    /// Whether its bytes are not those that were laid, or could not be read when it was asked for last. It is
    /// then as if not laid.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub damaged: bool,
    /// The URL of newer content that requests for this one get: the route's keys are the same for both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covered_by: Option<String>,
}

/// Content that was laid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ContentLaid {
    /// Whether it replaces other content by hand.
    pub replaced: bool,
    /// It.
    #[serde(flatten)]
    pub content: ContentShown,
}

/// How much content by hand there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ContentUse {
    /// Pieces.
    pub objects: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Bytes that are used of `size_bytes`, what is on its way in included.
    pub used_bytes: u64,
    /// `[content] size`.
    pub size_bytes: u64,
}

/// Which content is listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentWanted {
    /// Only that of this site, by its name or one of its hosts.
    pub site: Option<String>,
    /// Only that of these sites, by name.
    pub sites: Option<Vec<String>>,
    /// Only URLs that begin with this text.
    pub prefix: Option<String>,
    /// The most pieces.
    pub limit: usize,
    /// Where the page before ended.
    pub after: Option<String>,
}

/// A page of content by hand, by URL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ContentListing {
    /// Some pieces.
    pub content: Vec<ContentShown>,
    /// Where the next page begins; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// How much there is; absent for a token of some sites.
    #[serde(default, rename = "use", skip_serializing_if = "Option::is_none")]
    pub in_use: Option<ContentUse>,
}
