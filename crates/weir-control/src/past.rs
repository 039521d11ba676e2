//! What `/v1/log/past` shows: the last requests that failed, were cut, whose client left, or that were slow.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_observe::PastList;

use crate::status::rfc3339;

/// Requests of the past.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PastShown {
    /// Since when requests are kept, RFC 3339: the start of this process. An upgrade begins again.
    pub since: String,
    /// The process.
    pub pid: u32,
    /// The requests in the order in which they ended, as in the log; `kept` says why each is kept: `failed`,
    /// `cut`, `client-gone` or `slow`.
    pub requests: Vec<Value>,
}

impl PastShown {
    pub(crate) fn of(list: &PastList) -> PastShown {
        PastShown {
            since: rfc3339(list.since),
            pid: std::process::id(),
            requests: list.lines.iter().filter_map(|line| serde_json::from_slice(line).ok()).collect(),
        }
    }
}
