//! An event as a value.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum EventKind {
    /// A response was stored.
    Stored = 1,
    /// An origin confirmed that a stored response is unchanged.
    Revalidated = 2,
    /// A response was evicted from memory or from a volume.
    Evicted = 4,
    /// A response past its lifetime was removed.
    Expired = 8,
    /// A response was purged.
    Purged = 16,
    /// A volume changed its state.
    Volume = 32,
    /// An origin changed its state.
    Origin = 64,
    /// A certificate came into use, failed or nears its end.
    Certificate = 128,
    /// The lifetime of stored responses was changed.
    Retained = 256,
}

impl EventKind {
    /// All kinds.
    pub const ALL: [EventKind; 9] = [
        EventKind::Stored,
        EventKind::Revalidated,
        EventKind::Evicted,
        EventKind::Expired,
        EventKind::Purged,
        EventKind::Volume,
        EventKind::Origin,
        EventKind::Certificate,
        EventKind::Retained,
    ];

    /// Its name in the JSON.
    pub fn word(self) -> &'static str {
        match self {
            EventKind::Stored => "stored",
            EventKind::Revalidated => "revalidated",
            EventKind::Evicted => "evicted",
            EventKind::Expired => "expired",
            EventKind::Purged => "purged",
            EventKind::Volume => "volume",
            EventKind::Origin => "origin",
            EventKind::Certificate => "certificate",
            EventKind::Retained => "retained",
        }
    }
}

/// One event.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its kind.
    pub kind: EventKind,
    /// Its time.
    pub wall: SystemTime,
    /// The site's mark; 0 without a site.
    pub site: u64,
    /// The key: the URL, and what else is in it, one line each; for other kinds the name of the subject.
    pub key: Vec<u8>,
    /// Bytes of the body, where known.
    pub bytes: Option<u64>,
    /// The reason.
    pub why: &'static str,
    /// The volume, for events of a volume.
    pub volume: Option<Arc<str>>,
    /// What was purged or retained, and by whose order.
    pub purge: Option<Box<PurgeTold>>,
}

/// A purge or a retention that was ordered.
#[derive(Clone, Debug)]
pub struct PurgeTold {
    /// What it concerned, as JSON: as in the history.
    pub scope: Value,
    /// Who ordered it: as in the history.
    pub actor: String,
    /// The sites that it concerned; none where it went beyond single sites.
    pub sites: Vec<String>,
}
