//! How often origins were picked, as values.

use serde::{Deserialize, Serialize};

/// How often an origin was picked by one pick for one reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PicksCount {
    /// The pick, by its word.
    pub pick: String,
    /// Why this origin: `turn`, `least`, `hash`, `retry` and so on.
    pub reason: String,
    /// How often since the start.
    pub count: u64,
}
