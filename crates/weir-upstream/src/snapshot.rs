//! What an upstream has done and holds, as plain values for metrics and `weir status`.

use std::time::Duration;

use crate::choice::pick::{PickWord, Reason};
use crate::health::ejection::Cause;
use crate::health::standing::Standing;

/// An upstream at one moment.
#[derive(Clone, Debug)]
pub struct UpstreamSnapshot {
    /// The upstream's name.
    pub name: String,
    /// Its origins in the order of the config.
    pub origins: Vec<OriginSnapshot>,
    /// Whether more of them are ejected than may be, so that all are used.
    pub is_panicking: bool,
    /// How often that began.
    pub panics: u64,
    /// How often requests were sent again, by the reason's word.
    pub retries: Vec<(&'static str, u64)>,
    /// How often the budget forbade that.
    pub retries_refused: u64,
    /// What became of its hedges, where it sends any.
    pub hedges: Option<HedgesSnapshot>,
    /// What became of its sessions, where they keep their origin.
    pub sessions: Option<SessionsSnapshot>,
}

/// Requests sent to a second origin because the first was slow, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HedgesSnapshot {
    /// They were sent.
    pub sent: u64,
    /// They answered first.
    pub won: u64,
    /// The budget forbade them.
    pub refused: u64,
}

/// Requests of sessions, since the start, by what became of the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionsSnapshot {
    /// It began.
    pub created: u64,
    /// It was at its origin.
    pub kept: u64,
    /// Its origin was gone, and it went to another one.
    pub moved: u64,
    /// What the request said of a session was not Weir's, was out of date, or named no origin.
    pub refused: u64,
}

/// An origin at one moment. Counts are since the start.
#[derive(Clone, Debug)]
pub struct OriginSnapshot {
    /// The origin as configured, e.g. `https://a.example:443`.
    pub name: String,
    /// Whether it takes a share.
    pub standing: Standing,
    /// Requests under way, those that wait for a connection included, tunnels left out.
    pub in_flight: u32,
    /// Requests sent, retries included.
    pub requests: u64,
    /// Requests that failed through the origin's fault, also while the body arrived.
    pub failures: u64,
    /// Requests retried after failing here.
    pub retries: u64,
    /// Connections made.
    pub connects: u64,
    /// Requests sent on a connection that had served before.
    pub reuses: u64,
    /// Requests turned away because all connections were in use.
    pub busy: u64,
    /// The causes for which it can be ejected, and how often it was.
    pub ejections: [(&'static str, u64); Cause::ALL.len()],
    /// Connections open now, idle ones included.
    pub connections_open: usize,
    /// Connections idle now.
    pub connections_idle: usize,
    /// Requests waiting for a connection now.
    pub waiting: usize,
    /// Tunnels and event streams now, which are not among the connections.
    pub streams: usize,
    /// Addresses known now; 0 for a name that was never looked up.
    pub addresses: usize,
    /// How long it is still left out; `None` while it takes its share.
    pub ejected_for: Option<Duration>,
    /// Why it is left out, as a phrase; `None` while it takes its share.
    pub ejected_as: Option<&'static str>,
    /// What its checks have said, where it is checked.
    pub check: Option<CheckSnapshot>,
    /// What its agent has said, where it has one.
    pub agent: Option<AgentSnapshot>,
    /// Why it is down or its agent holds it back; empty elsewhere.
    pub why: String,
    /// The time to the first byte: its moving average, raised at once by each peak; zero where it is not
    /// known.
    pub latency: Duration,
    /// How often it was picked, by pick and reason; those that happened.
    pub picks: Vec<(PickWord, Reason, u64)>,
}

/// The checks of an origin at one moment.
#[derive(Clone, Debug)]
pub struct CheckSnapshot {
    /// `unchecked`, `up` or `down`.
    pub state: &'static str,
    /// Checks that it has passed.
    pub passed: u64,
    /// Checks that it has failed.
    pub failed: u64,
    /// How long all of them took together.
    pub took: Duration,
    /// How many of them took up to so long, each bound with those below it.
    pub took_up_to: Vec<(Duration, u64)>,
    /// The last one.
    pub last: Option<LastCheck>,
}

/// A check that has ended.
#[derive(Clone, Debug)]
pub struct LastCheck {
    /// How long ago it ended.
    pub ago: Duration,
    /// How long it took.
    pub took: Duration,
    /// Why it failed; `None` where it passed.
    pub why: Option<String>,
}

/// The agent of an origin at one moment.
#[derive(Clone, Debug)]
pub struct AgentSnapshot {
    /// The last whole line, as visible ASCII; empty before the first.
    pub line: String,
    /// How long ago it came.
    pub ago: Option<Duration>,
    /// The factor on the weight, in percent.
    pub percent: u32,
    /// The connections that stand in place of the configured ones.
    pub connections: Option<u32>,
    /// Whether it cannot be reached, or says nothing whole.
    pub is_gone: bool,
    /// Lines that were understood.
    pub understood: u64,
    /// Lines with a word that means nothing.
    pub partly: u64,
    /// Connections without a whole line.
    pub broken: u64,
    /// Connections that could not be made.
    pub unreachable: u64,
}
