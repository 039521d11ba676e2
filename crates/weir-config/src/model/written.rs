//! `[pick.NAME]`: a pick that the administrator writes.

use crate::value::FilePath;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A pick that the administrator writes, used by its name in `pick`. It has exactly one of `least`, `pack`,
/// `script` and `distributor`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WrittenPick {
    /// A metric of the origins, or several with their factors: `{ cpu = 0.7, memory = 0.3 }`. An origin gets
    /// requests in proportion to what it has free: `full` less the metric, without what Weir's own requests
    /// cause. One whose value is missing counts as the mean of the others. Where no origin has a value, the
    /// next pick decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least: Option<Measured>,
    /// The same, but the origins are filled one after another, in the order of the configuration, each up to
    /// `mark`, so that the last ones can sleep. An origin whose value is missing counts as filled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pack: Option<Measured>,
    /// The value at which an origin has nothing free. Default: 1, which is right for `cpu`, `io_wait` and
    /// `memory`; other metrics need it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.000001, max = 1e15))]
    pub full: Option<f64>,
    /// The share of `full` up to which `pack` fills an origin. Default: 0.7.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.01, max = 1))]
    pub mark: Option<f64>,
    /// The file of a script that decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<FilePath>,
    /// The programs that are asked, one after another: `udp://10.0.0.5:10010`, `tcp://…`, `unix:/path`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub distributor: Vec<String>,
}

/// What is measured: a metric, or a sum of some.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Measured {
    /// One metric.
    One(String),
    /// Several, each with its factor.
    Sum(BTreeMap<String, f64>),
}

impl Measured {
    /// The metrics with their factors.
    pub fn parts(&self) -> Vec<(String, f64)> {
        match self {
            Measured::One(name) => vec![(name.clone(), 1.0)],
            Measured::Sum(parts) => parts.iter().map(|(name, factor)| (name.clone(), *factor)).collect(),
        }
    }

    /// Whether all are shares of 1.
    pub fn is_of_one(&self) -> bool {
        self.parts().iter().all(|(name, _)| ["cpu", "io_wait", "memory"].contains(&name.as_str()))
    }
}

impl WrittenPick {
    /// Whether it stands among picks that compare origins: it is no script and no distributor.
    pub fn is_of_metrics(&self) -> bool {
        self.least.is_some() || self.pack.is_some()
    }
}
