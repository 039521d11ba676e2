//! `[distributor]`: what `weir distributor` answers, and where.

use super::pick::PickRule;
use crate::value::{DistributorUrl, FilePath, ListenAddress, TrustedProxy};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What `weir distributor` answers, and where. `weir run` does not read it, so one file can be for both.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DistributorServer {
    /// Where it listens: `udp://127.0.0.1:10010`, `tcp://…`, `unix:/path`.
    #[cfg_attr(test, schemars(length(min = 1, max = 16)))]
    pub listen: Vec<DistributorUrl>,
    /// A file with one key on each line, at least 32 characters of chance, as on the side that asks. The
    /// first line signs, all lines are accepted. Users other than owner and group must have no access to it.
    /// Default: nothing is signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_file: Option<FilePath>,
    /// What questions look like.
    #[serde(default)]
    pub form: AskForm,
    /// Networks that may ask over UDP and TCP. Default: this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<TrustedProxy>>,
    /// The most questions of one address in a second, on each thread.
    #[serde(default = "rate_default")]
    #[cfg_attr(test, schemars(range(min = 1, max = 100000000)))]
    pub rate: u32,
    /// The listener for metrics and status. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin: Option<ListenAddress>,
    /// Policies by their names: each an upstream, and picks where they are not the upstream's. The name of an
    /// upstream is a policy as well.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policy: BTreeMap<String, PolicyRule>,
}

fn rate_default() -> u32 {
    1_000_000
}

/// A policy: which origins there are, and which of them an answer names.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PolicyRule {
    /// The upstream whose origins there are.
    pub upstream: String,
    /// The picks that decide. Default: the upstream's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pick: Option<PickRule>,
}

/// What questions to a distributor look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AskForm {
    /// With numbers and, where there are keys, signatures: `docs/format/distributor.md`.
    #[default]
    Full,
    /// For simple programs: a line with the policy, a line with the client's address and port, the request's
    /// head; the answer is a bare `address:port`.
    Plain,
}
