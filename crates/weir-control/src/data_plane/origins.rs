//! Upstreams and their origins, as values for the API and metrics.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{AgentState, CheckState, PicksCount};

/// An upstream and its origins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UpstreamState {
    /// Its name.
    pub name: String,
    /// Its origins in the order of the configuration.
    pub origins: Vec<OriginState>,
    /// Whether more of its origins are ejected than may be, so that all are used.
    pub panic: bool,
    /// How often that began.
    pub panics: u64,
    /// How often requests were sent again, by reason.
    pub retries: BTreeMap<String, u64>,
    /// How often the budget of retries forbade that.
    pub retries_refused: u64,
    /// What became of its hedges, where it sends any (`retry.hedge`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hedges: Option<HedgesState>,
    /// What became of its sessions, where they keep their origin (`affinity`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<SessionsState>,
}

/// Requests sent to a second origin because the first was slow, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HedgesState {
    /// They were sent.
    pub sent: u64,
    /// They answered first.
    pub won: u64,
    /// The budget of retries forbade them.
    pub refused: u64,
}

/// Passed requests by what became of their session, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SessionsState {
    /// It began with the response.
    pub created: u64,
    /// Its origin answered.
    pub kept: u64,
    /// Its origin was gone, and another one answered.
    pub moved: u64,
    /// What the request said of a session was not Weir's, was out of date, or named no origin.
    pub refused: u64,
}

/// An origin now; counts are since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OriginState {
    /// The origin as configured.
    pub name: String,
    /// Whether it gets its share of the requests.
    pub available: bool,
    /// For how long it stays ejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ejected_s: Option<u64>,
    /// Requests sent.
    pub requests: u64,
    /// Requests that it failed.
    pub failures: u64,
    /// Requests tried again after it failed them.
    pub retries: u64,
    /// Connections opened.
    pub connections_opened: u64,
    /// Requests sent on a reused connection.
    pub connections_reused: u64,
    /// Requests turned away because all connections were in use.
    pub busy: u64,
    /// Times that it was ejected, whatever the cause.
    pub ejections: u64,
    /// Connections open now.
    pub connections_open: usize,
    /// Connections idle now.
    pub connections_idle: usize,
    /// Requests waiting for a connection now.
    pub queued: usize,
    /// Tunnels and event streams now.
    pub streams: usize,
    /// How often it was picked, by pick and reason.
    pub picks: Vec<PicksCount>,
    /// Times that it was ejected, by cause.
    pub ejections_by_cause: BTreeMap<String, u64>,
    /// How it stands: `ready`, `ejected`, `down`, `draining` or `maintenance`.
    pub standing: String,
    /// Why it is down, or what its agent holds it back for.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub why: String,
    /// What its checks have said; absent where it is not checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckState>,
    /// What its agent has said; absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentState>,
}
