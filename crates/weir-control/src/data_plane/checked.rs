//! What the checks and the agent of an origin have said, as values for the API and metrics.

use serde::{Deserialize, Serialize};

/// The checks of an origin; counts are since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CheckState {
    /// `unchecked`, `up` or `down`.
    pub state: String,
    /// Checks that it has passed.
    pub passed: u64,
    /// Checks that it has failed.
    pub failed: u64,
    /// How long all of them took together.
    pub took_s: f64,
    /// How many of them took up to so long.
    pub took_up_to: Vec<TookUpTo>,
    /// How long ago the last one ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_ago_s: Option<f64>,
    /// How long the last one took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_took_s: Option<f64>,
    /// Why the last one failed; absent where it passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
}

/// Checks that took up to so long, those of the bounds below included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TookUpTo {
    /// The bound.
    pub s: f64,
    /// How many.
    pub checks: u64,
}

/// The agent of an origin; counts are since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AgentState {
    /// The last whole line.
    pub line: String,
    /// How long ago it came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_ago_s: Option<f64>,
    /// The factor on the weight, in percent.
    pub percent: u32,
    /// The connections in place of the configured ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Whether the last connection to it brought a line.
    pub reachable: bool,
    /// Lines that were understood.
    pub understood: u64,
    /// Lines with a word that means nothing.
    pub partly: u64,
    /// Connections without a whole line.
    pub broken: u64,
    /// Connections that could not be made.
    pub unreachable: u64,
}
