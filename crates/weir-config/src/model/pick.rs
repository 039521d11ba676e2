//! `pick`: which origin of an upstream gets a request.

use crate::value::HashOf;
use serde::Deserialize;

/// Which origin of an upstream gets a request: one pick, or several of which each decides what those before
/// it leave open.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(untagged)]
pub enum PickRule {
    /// One, by its word.
    Word(PickWord),
    /// By a hash.
    Hash(PickTable),
    /// One of `[pick.NAME]`, by its name.
    Written(PickName),
    /// Several.
    List(#[cfg_attr(test, schemars(length(min = 1)))] Vec<PickEntry>),
}

impl Default for PickRule {
    fn default() -> PickRule {
        PickRule::Word(PickWord::RoundRobin)
    }
}

impl PickRule {
    /// As a list.
    pub fn list(&self) -> Vec<PickEntry> {
        match self {
            PickRule::Word(word) => vec![PickEntry::Word(*word)],
            PickRule::Hash(table) => vec![PickEntry::Hash(table.clone())],
            PickRule::Written(name) => vec![PickEntry::Written(name.clone())],
            PickRule::List(list) => list.clone(),
        }
    }
}

/// One of several picks.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(untagged)]
pub enum PickEntry {
    /// By its word.
    Word(PickWord),
    /// By a hash.
    Hash(PickTable),
    /// One of `[pick.NAME]`, by its name.
    Written(PickName),
}

impl PickEntry {
    /// The name of the `[pick.NAME]` that it is, if it is one.
    pub fn written(&self) -> Option<&str> {
        match self {
            PickEntry::Written(PickName(name)) => Some(name),
            PickEntry::Word(_) | PickEntry::Hash(_) => None,
        }
    }
}

/// The name of a `[pick.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(transparent)]
#[cfg_attr(test, schemars(extend("format" = "weir-pick")))]
pub struct PickName(pub String);

/// A pick by its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PickWord {
    /// In turn, by weight.
    RoundRobin,
    /// At random, by weight.
    Random,
    /// The fewest requests under way, for its weight.
    LeastRequests,
    /// Two at random, by weight: the one with fewer requests under way, for its weight.
    TwoChoices,
    /// The lowest product of the time to the first byte and the requests under way, for its weight.
    Latency,
    /// The fewest requests so far, for its weight (Apache's `byrequests`).
    ByRequests,
    /// The fewest bytes so far, for its weight (Apache's `bytraffic`).
    ByTraffic,
    /// The fewest requests under way, then the fewest so far, for its weight (Apache's `bybusyness`).
    ByBusyness,
    /// By the client's address.
    ClientAddress,
    /// By a hash, which needs a table that says of what.
    Hash,
    /// The first that has room.
    First,
}

impl PickWord {
    /// The words of all of them.
    pub const WORDS: [&str; 11] = [
        "round_robin",
        "random",
        "least_requests",
        "two_choices",
        "latency",
        "by_requests",
        "by_traffic",
        "by_busyness",
        "client_address",
        "hash",
        "first",
    ];
}

/// A pick that has settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PickTable {
    /// By a hash of a part of the request: the same goes to the same origin.
    pub hash: Hash,
}

/// A pick by the hash of a part of the request: the same goes to the same origin, in all Weirs that have the
/// same origins. One that comes or leaves moves its own share alone.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Hash {
    /// The part, as the origin gets it: `uri`, `path`, `host` (that of the client), `header:NAME`,
    /// `cookie:NAME`, `query:NAME`. Where a request lacks it, the next pick decides, and at last the less
    /// busy of two. What Weir fetches for all clients has neither a header nor a cookie here.
    pub of: HashOf,
    /// How many times its share of the requests under way an origin may have. What is above goes to the next
    /// one for the same part.
    #[serde(default = "bound_default")]
    #[cfg_attr(test, schemars(range(min = 1, max = 1000)))]
    pub bound: f64,
}

fn bound_default() -> f64 {
    1.25
}
