//! An upgrade as it is ordered and reported.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// An upgrade that is ordered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct UpgradeOrder {
    /// The program; `None`: the one that now lies where this one was started from.
    pub program: Option<PathBuf>,
}

/// A process that has taken over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Upgraded {
    /// Its pid.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// The pid of the old process, which finishes its requests.
    pub old_pid: u32,
    /// From the order to the upgrade, in milliseconds.
    pub took_ms: u64,
    /// For how long no request could begin, in milliseconds.
    pub paused_ms: u64,
}

/// A process that was replaced and finishes its requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct OldProcess {
    /// Its pid.
    pub pid: u32,
    /// When it was replaced, RFC 3339.
    pub since: String,
    /// Its connections; absent, like what follows, where it does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u64>,
    /// What it holds of the memory for its readers, in bytes. This process has as much less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_bytes: Option<u64>,
    /// When it ends at the latest, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<String>,
    /// How long that is from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends_in_s: Option<u64>,
}
