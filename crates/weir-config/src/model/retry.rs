//! `[upstream.NAME.retry]`: when Weir sends a request again.

use crate::value::{Percent, Percentile};
use serde::Deserialize;

/// When Weir sends a request again, to another origin if there is one: before the first byte of a response,
/// or in place of one that `on` names. It sends again only idempotent requests whose body it still has, and
/// others only if no origin has seen a byte of them. If nothing better comes, the client gets the last
/// response.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// After what. `[]`: never.
    pub on: Vec<RetryOn>,
    /// How often. Origins that cannot be connected to do not count: Weir tries three.
    #[cfg_attr(test, schemars(range(min = 0, max = 10)))]
    pub times: u32,
    /// The most that Weir sends again, as a share of the upstream's requests of the last ten seconds, so that
    /// retries cannot amplify an overload. 30 in ten seconds are always allowed. One client gets at most half
    /// of what the others have left. What no origin has seen does not count.
    pub budget: Percent,
    /// When no byte of a response has come after this percentile of the upstream's recent times to answer,
    /// Weir sends a second request to another origin, and drops the slower one: `"p95"` does so for the
    /// slowest twentieth. `budget` bounds it. See [hedges](health.md#hedges).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hedge: Option<Percentile>,
}

/// What Weir sends a request again after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RetryOn {
    /// The origin cannot be connected to.
    Connect,
    /// The connection ended before a byte of a response.
    Closed,
    /// No response within `first_byte`, or the origin stopped reading the request.
    Timeout,
    /// A response of this status.
    #[serde(rename = "502")]
    BadGateway,
    /// A response of this status.
    #[serde(rename = "503")]
    Unavailable,
    /// A response of this status.
    #[serde(rename = "504")]
    GatewayTimeout,
}

impl Default for Retry {
    fn default() -> Retry {
        Retry { on: vec![RetryOn::Connect, RetryOn::Closed], times: 1, budget: Percent(20), hedge: None }
    }
}
