//! Reaching origins: picks one, sends it a request, again where that is safe, and judges how it went.
//!
//! It knows no cache and no socket, and of a client only which share of the connections it uses. It must not
//! alter a header, follow a redirect or buffer a body (RFC 9110 §9.2.2, RFC 9209).
//!
//! A request goes through [`Upstream::send`] → `choice::pick` → `client::pool` (a slot: an idle connection,
//! or a permit and `connect`) → `client::slot` (head, body) → [`OriginResponse`], whose [`OriginBody`] notes
//! at its origin how the body has ended.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod again;
mod body;
mod carry;
mod choice;
mod clock;
mod error;
mod gauges;
mod health;
mod origin;
mod request;
mod response;
mod sessions;
mod settings;
mod snapshot;
mod upstream;

#[cfg(test)]
mod tests;

pub use again::track::{Attempt, AttemptLog};
pub use body::OriginBody;
pub use carry::{CarriedAgent, CarriedCheck, CarriedFind, CarriedOrigin};
pub use choice::adjust::{ADDED_MAX, Adjustment, Adjustments, Change, ChangeError, name_of};
pub use choice::decider::{
    About, Decider, DeciderForm, DeciderSnapshot, Deciders, Deciding, Decision, Denial, Kind, OriginView,
    Origins, Question,
};
pub use choice::explain::{Explained, ExplainedOrigin, WhyNot};
pub use choice::listed::{OriginListed, UpstreamListed};
pub use choice::pick::{
    Asked, HashOf, Metered, MeteredSettings, Pick, PickWord, Picked, Picking, Reason, Whose, host_point,
};
pub use choice::simulated;
pub use error::{OriginError, UpstreamError};
pub use gauges::{
    AGENT, Gauge, GaugeError, Gauges, NAME_BYTES_MAX, NAMES_MAX, PUSHED, Reading, ReportSettings, Setting,
    is_name as is_metric_name,
};
pub use health::check::CheckLog;
pub use health::standing::{Order, Standing};
pub use origin::Origin;
pub use request::{OriginRequest, Retry, UNNAMED};
pub use response::{OriginResponse, Times};
pub use sessions::affinity;
pub use sessions::session_end::SessionEnd;
pub use settings::{
    AgentSettings, Bounds, CheckAsk, CheckRequest, CheckSettings, ClientCertificate, Ejection, OriginAddress,
    OriginSettings, Retries, RetryOn, Role, Timeouts, TlsSettings, UpstreamSettings, Verify,
};
pub use snapshot::{
    AgentSnapshot, CheckSnapshot, HedgesSnapshot, LastCheck, OriginSnapshot, SessionsSnapshot,
    UpstreamSnapshot,
};
pub use upstream::{Gauged, Upstream};
pub use weir_client::{
    AttemptEnd, Blame, Bound, Carries, ExchangeError, Feed, Hurry, Interim, InterimSender, Length, Link,
    LoginUse, Logins, OutBody, OutPart, PageFault, PageServer, SetupError, Share, Tally, Tunnel, logs_in,
};

/// What fuzz targets call.
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing {
    pub use crate::gauges::orca::fuzzing::orca;
    pub use crate::health::agent::fuzzing::agent_line;
    pub use crate::sessions::affinity::fuzzing::sessions;
}
