//! The settings of an upstream: origins, limits and times, as plain values with the defaults of the
//! reference.
//!
//! It must not read files or look up names: [`crate::Upstream::new`] does.

mod check;
mod eject;
mod retries;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::choice::decider::Deciders;
use crate::choice::pick::Pick;
use crate::gauges::ReportSettings;
use crate::sessions::affinity::Affinity;

pub use weir_client::{Bounds, ClientCertificate, OriginAddress, Timeouts, TlsSettings, Verify};

pub use check::{AgentSettings, CheckAsk, CheckRequest, CheckSettings};
pub use eject::Ejection;
pub use retries::{Retries, RetryOn};

/// One upstream: a name, its origins, and how Weir talks to them.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamSettings {
    /// The name in the config, used in logs and metrics.
    pub name: String,
    /// At least one origin, at least one of them not a backup.
    pub origins: Vec<OriginSettings>,
    /// How one is picked: what the first leaves open the next decides.
    pub picks: Vec<Pick>,
    /// What is asked before the picks.
    pub deciders: Deciders,
    /// How long each step may take.
    pub timeouts: Timeouts,
    /// Whether sessions keep their origin, and how they are told apart.
    pub affinity: Option<Affinity>,
    /// Ceilings of connections, queue and response heads.
    pub bounds: Bounds,
    /// When an origin is left out for failing.
    pub ejection: Ejection,
    /// When a request is sent again.
    pub retries: Retries,
    /// How `https` origins are verified.
    pub tls: TlsSettings,
    /// The age at which addresses are looked up again.
    pub resolve_every: Duration,
    /// Where every address of a name is an origin: the name servers to ask, the system's where there is none.
    pub each_by: Option<Vec<SocketAddr>>,
    /// How Weir checks the origins on its own.
    pub check: Option<CheckSettings>,
    /// The agents beside the origins.
    pub agent: Option<AgentSettings>,
    /// The sources of the origins' values, in the order in which they count.
    pub sources: Vec<Arc<str>>,
    /// The source of the loads that origins report in their responses, where it is among them.
    pub reports: Option<ReportSettings>,
}

impl UpstreamSettings {
    /// An upstream of one origin, everything else at its default.
    pub fn single(name: impl Into<String>, address: OriginAddress) -> Self {
        Self {
            name: name.into(),
            origins: vec![OriginSettings::new(address)],
            picks: vec![Pick::default()],
            deciders: Deciders::default(),
            timeouts: Timeouts::default(),
            affinity: None,
            bounds: Bounds::default(),
            ejection: Ejection::default(),
            retries: Retries::default(),
            tls: TlsSettings::default(),
            resolve_every: Duration::from_secs(30),
            each_by: None,
            check: None,
            agent: None,
            sources: Vec::new(),
            reports: None,
        }
    }
}

/// One origin of an upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct OriginSettings {
    /// Where it is.
    pub address: OriginAddress,
    /// Its share of the requests relative to the others, 1 to 1,000.
    pub weight: u32,
    /// Whether it is used always or only when no primary is up.
    pub role: Role,
    /// The one address that it is at, of those that its name has.
    pub at: Option<SocketAddr>,
    /// Its name in sessions; its address where it has none.
    pub node: Option<String>,
}

/// What an origin is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Takes its share of the requests.
    #[default]
    Primary,
    /// Takes requests only while no primary is up.
    Backup,
}

impl OriginSettings {
    /// A primary of weight 1.
    pub fn new(address: OriginAddress) -> Self {
        Self { address, weight: 1, role: Role::Primary, at: None, node: None }
    }

    /// Its name in logs, metrics and orders: the address as configured, and where it is one of several of a
    /// name, `http://name@192.0.2.1:80`.
    pub fn name(&self) -> String {
        match (self.at, &self.address) {
            (Some(at), OriginAddress::Http { host, .. }) => format!("http://{host}@{at}"),
            (Some(at), OriginAddress::Https { host, .. }) => format!("https://{host}@{at}"),
            _ => self.address.to_string(),
        }
    }
}
