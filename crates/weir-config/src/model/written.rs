//! `[pick.NAME]`: a pick that the administrator writes.

mod script;

pub use script::{ScriptItem, ScriptValue};

use super::distributor::AskForm;
use crate::value::{DistributorUrl, Duration, FieldName, FilePath, KeepAnswer, TrustedProxy};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A pick that the administrator writes, used by its name in `pick`. It has exactly one of `least`, `pack`,
/// `script` and `distributor`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
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
    #[cfg_attr(test, schemars(range(min = 0.000001, max = 1e15)))]
    pub full: Option<f64>,
    /// The share of `full` up to which `pack` fills an origin. Default: 0.7.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 0.01, max = 1)))]
    pub mark: Option<f64>,
    /// The file of a script in Rhai that decides. Weir runs it on sample requests before it takes it, and
    /// again when the file changes: a script that fails there is refused, and the old one stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<FilePath>,
    /// Values for constants of the script, by their names. Each constant of its first level can have another
    /// value here, of the same kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, ScriptValue>,
    /// The programs that are asked for each request to an origin, one after another until one answers:
    /// `udp://10.0.0.5:10010`, `tcp://…`, `unix:/path`. An answer is an origin's address and port, a denial,
    /// or nothing: then the next pick decides. Where none answers, a backup that is up gets the request, else
    /// the next pick decides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schemars(length(max = 16)))]
    pub distributor: Vec<DistributorUrl>,
    /// The policy that the distributor decides by. Default: the name of this pick.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(length(min = 1, max = 64)))]
    pub policy: Option<String>,
    /// How long a question waits for its answer before the next distributor is asked. Default: 20 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// How often a question is sent. Default: 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 10)))]
    pub tries: Option<u8>,
    /// Fields that the distributor gets although they are secret (`Cookie`, `Authorization` and
    /// `Proxy-Authorization` are left out otherwise), and the only ones that it gets where a head does not
    /// fit into a datagram. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub send: Vec<FieldName>,
    /// A file with one key on each line, at least 32 characters of chance. The first line signs questions
    /// (HMAC-SHA-256), and an answer that none of them has signed is dropped. Users other than owner and
    /// group must have no access to it. Default: nothing is signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<FilePath>,
    /// Networks of addresses that an answer may name although no origin of the upstream is there. Default:
    /// none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<TrustedProxy>,
    /// How long an answer with an address is used again: for the `session`, or for a time, for the same
    /// client, and for the same URL where Weir fetches for all. Default: each request is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<KeepAnswer>,
    /// What questions look like. Default: `full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<AskForm>,
}

/// What is measured: a metric, or a sum of some.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
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
