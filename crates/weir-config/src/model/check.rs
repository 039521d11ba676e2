//! `check` and `agent` of `[upstream.NAME]`: how Weir learns without requests how its origins are.

use crate::value::{Authority, Duration, SentPath, StatusRanges};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Active checks: whether it connects, or a request.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(untagged)]
pub enum CheckRule {
    /// Weir connects to each origin, TLS included, and sends nothing.
    Word(CheckWord),
    /// Weir sends a request.
    Table(Check),
}

/// A check without a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CheckWord {
    /// Weir connects, TLS included.
    Tcp,
}

impl CheckRule {
    /// As a table; whether it sends a request.
    pub fn table(&self) -> (Check, bool) {
        match self {
            CheckRule::Word(CheckWord::Tcp) => (Check::default(), false),
            CheckRule::Table(check) => (check.clone(), true),
        }
    }
}

/// How Weir checks each origin on its own, with requests over connections that clients' requests do not use.
/// An origin is down after `fall` failures in a row and gets no requests; it is up again after `rise`
/// successes. At Weir's start all count as up until their first check, which decides and comes at once. An
/// origin that is added later gets no requests before its first success. Where all origins are down, Weir
/// still tries one.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Check {
    /// The path, with its query.
    pub path: SentPath,
    /// The method.
    pub method: CheckMethod,
    /// The `Host`. Default: the upstream's `host` where that is fixed, else the origin's own name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Authority>,
    /// More fields of the request.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(test, schemars(extend("propertyNames" = { "format": "weir-field-name" })))]
    pub headers: BTreeMap<String, CheckField>,
    /// Statuses that pass.
    pub status: StatusRanges,
    /// A text that the body must contain. The whole body is read in any case, and one of more than 256 KiB
    /// fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The time between two checks of an origin, give or take a tenth.
    pub every: Duration,
    /// The longest that a check may take, connecting included.
    pub timeout: Duration,
    /// After how many successes in a row an origin that was down is up.
    #[cfg_attr(test, schemars(range(min = 1, max = 1000)))]
    pub rise: u32,
    /// After how many failures in a row an origin is down.
    #[cfg_attr(test, schemars(range(min = 1, max = 1000)))]
    pub fall: u32,
}

impl Default for Check {
    fn default() -> Check {
        Check {
            path: SentPath("/".into()),
            method: CheckMethod::Get,
            host: None,
            headers: BTreeMap::new(),
            status: StatusRanges(vec![200..=399]),
            body: None,
            every: Duration::seconds(2),
            timeout: Duration::seconds(1),
            rise: 2,
            fall: 3,
        }
    }
}

/// The value of a field that a check sends.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(transparent)]
pub struct CheckField(#[cfg_attr(test, schemars(extend("format" = "weir-field-value")))] pub String);

/// The method of a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum CheckMethod {
    /// The body may be looked at.
    #[default]
    Get,
    /// There is no body.
    Head,
    /// What the origin can do.
    Options,
}

/// A program beside each origin that says how much it can take, as HAProxy's `agent-check` reads it: one line
/// with `75%` (of the weight), `maxconn:30` (in place of `connections`), `ready`, `drain`, `maint`, `up`,
/// `down`, `fail`, `stopped`, and `#` with a reason. What a line does not say stays as it was. An agent that
/// cannot be reached changes nothing.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// The agent's port, at the origin's address.
    #[cfg_attr(test, schemars(range(min = 1, max = 65535)))]
    pub port: u16,
    /// What Weir sends first; a line break is written `\n`. Default: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send: Option<String>,
    /// The time between two connections to an agent.
    #[serde(default = "every_default")]
    pub every: Duration,
}

fn every_default() -> Duration {
    Duration::seconds(2)
}
