//! `[upstream.NAME.eject]`: when Weir leaves out an origin for what it does with requests.

use crate::value::{Duration, Percent, StatusRanges};
use serde::Deserialize;

/// When Weir leaves out a failing origin for a while. It still tries an origin that has no other beside it.
/// Where all are left out, it tries the one whose time ends first.
///
/// Failures of one client alone or of one URL alone leave out no origin: failures in a row must be of three
/// clients with three URLs, also where another origin answered the same requests well. No client can be the
/// cause of a connection that is refused. For `share` and `slow` each client counts once for each
/// URL, and what two clients together with two URLs can be the reason for leaves out no origin. Requests
/// without a client (refreshes) count as those of one.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Eject {
    /// After how many failures in a row: refused or broken connections, timeouts, malformed responses, and
    /// the responses that `status` names. 0: never.
    #[cfg_attr(test, schemars(range(min = 0, max = 1000)))]
    pub failures: u32,
    /// A failure older than this does not count.
    pub within: Duration,
    /// How long at first. Each further time in a row lasts twice as long.
    pub time: Duration,
    /// The longest time.
    pub time_max: Duration,
    /// Which responses are failures, too: `500-599`, `500,502-504`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<StatusRanges>,
    /// The share of failed requests within `within` that leaves an origin out. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<Percent>,
    /// So many requests within `within` are needed for `share` and `slow`.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub least: u32,
    /// So many times the others' median time to the first byte leaves an origin out, where it takes more than
    /// 10 ms. Default: none.
    #[cfg_attr(test, schemars(range(min = 1.1, max = 1000.0)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow: Option<f64>,
    /// The most of an upstream's origins that are left out at once, but always one. Where more would be, Weir
    /// uses all of them again, says so and counts it. It counts primaries and backups apart. Primaries may
    /// all be left out while a backup is up.
    pub at_most: Percent,
}

impl Default for Eject {
    fn default() -> Eject {
        Eject {
            failures: 5,
            within: Duration::seconds(10),
            time: Duration::seconds(1),
            time_max: Duration::seconds(30),
            status: None,
            share: None,
            least: 20,
            slow: None,
            at_most: Percent(50),
        }
    }
}
