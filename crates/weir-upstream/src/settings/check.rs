//! How origins are asked whether they are up, and how their agents are.

use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};

/// An upstream's active checks.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckSettings {
    /// What an origin is asked.
    pub ask: CheckAsk,
    /// From the begin of one check of an origin to the next.
    pub every: Duration,
    /// How long a check may take, connecting included; at most `every`.
    pub timeout: Duration,
    /// So many successes in a row bring an origin back that was down.
    pub rise: u32,
    /// So many failures in a row bring one down.
    pub fall: u32,
}

/// What a check does.
#[derive(Clone, Debug, PartialEq)]
pub enum CheckAsk {
    /// It connects, TLS included.
    Connect,
    /// It sends a request.
    Request(Box<CheckRequest>),
}

/// The request of a check, and what is expected.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckRequest {
    /// The method.
    pub method: Method,
    /// The target in origin-form.
    pub target: Bytes,
    /// `Host`; `None` for the origin's own name.
    pub host: Option<String>,
    /// More fields.
    pub headers: HeaderMap,
    /// Statuses that pass.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// What the body must contain; empty where anything passes.
    pub body: Bytes,
}

/// The agents beside the origins, which say how much each can take (HAProxy's agent-check).
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSettings {
    /// The agent's port, at the origin's address.
    pub port: u16,
    /// What is sent first.
    pub send: Bytes,
    /// From one connection to the next.
    pub every: Duration,
}
