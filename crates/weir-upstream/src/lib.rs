//! Reaching origins: picks one, keeps connections to it, sends a request, and hands back the response as a
//! stream.
//!
//! It knows no cache, and of a client only which share of the connections it uses. It must not alter a
//! header, follow a redirect, buffer a body, or use a connection again after anything unexpected happened on
//! it (RFC 9110 §9.2.2, RFC 9112 §9, RFC 9209).
//!
//! A request goes through [`Upstream::send`] → `pick` → `pool` (idle connection, or a permit and `connect`) →
//! `exchange` (head, body) → [`OriginResponse`], whose [`OriginBody`] gives the connection back once the body
//! has come whole.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod address;
mod adjust;
pub mod affinity;
mod agent;
mod answer;
mod attempt;
mod body;
mod budget;
mod carry;
mod check;
mod clock;
mod conduct;
mod connect;
mod connection;
mod decided;
mod decider;
mod dns;
mod error;
mod exchange;
mod explain;
mod gauges;
mod guests;
mod health;
mod hedge;
mod homes;
mod listed;
mod load;
mod login;
mod moves;
mod named;
mod names;
mod node;
mod notice;
mod once;
mod orca;
mod origin;
mod outgoing;
mod page;
mod pick;
mod pool;
mod ramp;
mod request;
mod response;
mod retry;
mod roster;
mod seat;
mod send;
mod service;
mod session;
mod session_end;
mod settings;
pub mod simulated;
mod snapshot;
mod standing;
mod tally;
mod tended;
mod timer;
mod tls;
mod transport;
mod tunnel;
mod upstream;
mod wait;
mod waits;

#[cfg(test)]
mod tests;

pub use adjust::{ADDED_MAX, Adjustment, Adjustments, Change, ChangeError, name_of};
pub use attempt::{Attempt, AttemptEnd, AttemptLog, Link};
pub use body::OriginBody;
pub use carry::{CarriedAgent, CarriedCheck, CarriedFind, CarriedOrigin};
pub use check::CheckLog;
pub use decider::{
    About, Decider, DeciderForm, DeciderSnapshot, Deciders, Deciding, Decision, Denial, Kind, OriginView,
    Origins, Question,
};
pub use error::{Blame, Bound, OriginError, UpstreamError};
pub use explain::{Explained, ExplainedOrigin, WhyNot};
pub use gauges::{
    AGENT, Gauge, GaugeError, Gauges, NAME_BYTES_MAX, NAMES_MAX, PUSHED, Reading, ReportSettings, Setting,
    is_name as is_metric_name,
};
pub use listed::{OriginListed, UpstreamListed};
pub use login::{Carries, LoginUse, Logins, logs_in};
pub use origin::Origin;
pub use page::{Feed, PageFault, PageServer};
pub use pick::{
    Asked, HashOf, Metered, MeteredSettings, Pick, PickWord, Picked, Picking, Reason, Whose, host_point,
};
pub use request::{Hurry, Interim, InterimSender, OriginRequest, OutBody, OutPart, Retry, Share, UNNAMED};
pub use response::{Length, OriginResponse, Times};
pub use session_end::SessionEnd;
pub use settings::{
    AgentSettings, Bounds, CheckAsk, CheckRequest, CheckSettings, ClientCertificate, Ejection, OriginAddress,
    OriginSettings, Retries, RetryOn, Role, Timeouts, TlsSettings, UpstreamSettings, Verify,
};
pub use snapshot::{
    AgentSnapshot, CheckSnapshot, HedgesSnapshot, LastCheck, OriginSnapshot, SessionsSnapshot,
    UpstreamSnapshot,
};
pub use standing::{Order, Standing};
pub use tally::Tally;
pub use tunnel::Tunnel;
pub use upstream::{Gauged, Upstream};

/// What fuzz targets call.
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing {
    pub use crate::affinity::fuzzing::sessions;
    pub use crate::agent::fuzzing::agent_line;
    pub use crate::orca::fuzzing::orca;
}
