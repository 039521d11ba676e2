//! An object as it is listed, and what is made of many. It is all values.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use weir_policy::CacheKey;

/// In which form objects are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Form {
    /// Page by page, in the order in which they are found.
    #[default]
    Page,
    /// The first of an order, and the sum of all.
    First(Order),
    /// The sum of all.
    Sum,
}

/// An object that is cached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its key.
    pub key: CacheKey,
    /// The length of its body in bytes, if known.
    pub body_bytes: Option<u64>,
    /// Bytes of the body in memory and on volumes, each counted once.
    pub held_bytes: u64,
    /// The status.
    pub status: u16,
    /// The media type without parameters, in lower case.
    pub media_type: Option<Box<str>>,
    /// When the response came.
    pub received: SystemTime,
    /// Its age (RFC 9111 §4.2.3).
    pub age: Duration,
    /// Its freshness lifetime, as soft purges and retentions have left it.
    pub lifetime: Duration,
    /// Whether it is fresh: within its lifetime, and not softly purged.
    pub is_fresh: bool,
    /// Whether its bytes are in memory.
    pub is_in_memory: bool,
    /// The volume that it is on.
    pub volume: Option<Arc<str>>,
    /// Its number with the caller, where it is listed besides what the store has.
    pub besides: Option<usize>,
}

impl Listed {
    /// True when some of its body is missing: it is held in part.
    pub fn is_part(&self) -> bool {
        self.body_bytes != Some(self.held_bytes)
    }
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Objects: of a page, or the first of an order.
    pub objects: Vec<Listed>,
    /// What to ask for next; `None` on the last page.
    pub next: Option<Vec<u8>>,
    /// The sum of all that fits, unless a page was wanted.
    pub sum: Option<Sum>,
    /// The volumes that were walked, or are to be, since they have no rows that are up to date.
    pub walked: Vec<Arc<str>>,
}

/// Why nothing can be listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unlisted {
    /// No page ended there, or what it was made from has changed.
    #[error("no page ends there; begin again")]
    After,
    /// The caller has ended it.
    #[error("it was ended early")]
    Ended,
    /// The volume or its catalogue cannot be read.
    #[error("the volume cannot be read: {0}")]
    Volume(String),
}

/// What comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// URLs in the order of their bytes.
    Url,
    /// The most bytes held first.
    Size,
    /// The oldest first.
    Age,
    /// What has expired longest ago, or expires next.
    Expires,
}

/// How much fits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Objects.
    pub objects: u64,
    /// Bytes of their bodies that are held.
    pub held_bytes: u64,
}
