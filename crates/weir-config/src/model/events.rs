//! `[events]`: events of what is stored, as JSON lines.

use std::num::NonZeroU32;

use serde::Deserialize;

use crate::value::PathText;

/// Events of what is stored, for other programs: one JSON object a line. A slow reader never delays requests.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Events {
    /// The file that Weir appends events to, with mode 0640. On SIGUSR1 Weir opens it again. Default: no
    /// events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathText>,
    /// A unix socket on which a reader listens. Weir connects again when the reader has gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathText>,
    /// How many undelivered events wait; those beyond are dropped and counted.
    pub buffer: NonZeroU32,
    /// Which events Weir writes. Default: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<EventKind>,
}

impl Default for Events {
    fn default() -> Events {
        Events { file: None, socket: None, buffer: BUFFER, kinds: Vec::new() }
    }
}

// Invariant: it is not zero.
const BUFFER: NonZeroU32 = match NonZeroU32::new(65_536) {
    Some(buffer) => buffer,
    None => NonZeroU32::MIN,
};

/// A kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A response was stored.
    Stored,
    /// An origin confirmed that a stored response is unchanged.
    Revalidated,
    /// A stored response was evicted for room.
    Evicted,
    /// A stored response left after the end of its lifetime.
    Expired,
    /// A stored response was purged.
    Purged,
    /// A volume changed its state.
    Volume,
    /// An origin changed its state.
    Origin,
    /// A certificate came into use, could not be used, or is near its end.
    Certificate,
    /// The lifetime of stored responses was changed.
    Retained,
}
