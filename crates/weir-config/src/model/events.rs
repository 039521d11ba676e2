//! `[events]`: what happens to what is stored, told as JSON lines.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::value::PathText;

/// What happens to what is stored, told to others while it does: a JSON object a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Events {
    /// A file that they are appended to, made with mode 0640. SIGUSR1 opens it anew. Default: nothing is
    /// told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathText>,
    /// A unix socket on which somebody listens who wants them; it is connected to anew when that one has
    /// gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathText>,
    /// So many wait while they cannot be written; those beyond are counted as lost.
    pub buffer: NonZeroU32,
    /// What is told. Default: all of it.
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

/// What may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A response was stored.
    Stored,
    /// An origin said of something stored that it is unchanged.
    Revalidated,
    /// Something had to go.
    Evicted,
    /// Something that was past its lifetime went.
    Expired,
    /// Something was purged.
    Purged,
    /// A volume changed its state.
    Volume,
    /// An origin changed its state.
    Origin,
}
