//! What a process knows of its origins and hands to the one that takes its place. It must not know how.

use std::time::Duration;

use crate::clock;
use crate::health::Health;
use crate::origin::Origin;
use crate::upstream::Upstream;

/// The longest that a process believes another that an origin is ejected.
const EJECTED_MAX: Duration = Duration::from_secs(24 * 3600);

/// An origin as another process knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CarriedOrigin {
    /// Its name.
    pub name: String,
    /// Where it is ejected: for how long still, and how long that is in all.
    pub ejected: Option<(Duration, Duration)>,
    /// Whether its checks fail.
    pub is_down: bool,
    /// The average time to the first byte; zero where it is not known.
    pub latency: Duration,
}

impl Upstream {
    /// What is known of the origins, of which there is anything to say.
    pub fn carried(&self) -> Vec<CarriedOrigin> {
        let roster = self.roster();
        let all = roster.members.iter().map(|member| member.origin.carried());
        all.filter(|carried| carried.ejected.is_some() || carried.is_down || !carried.latency.is_zero())
            .collect()
    }

    /// Begins with what another process knew. What it does not say, or of origins that there are not, changes
    /// nothing.
    pub fn carry(&self, known: &[CarriedOrigin]) {
        let roster = self.roster();
        for carried in known {
            for member in roster.members.iter().filter(|member| member.origin.name() == carried.name) {
                member.origin.carry(carried, self.check.is_some());
            }
        }
    }
}

impl Origin {
    fn carried(&self) -> CarriedOrigin {
        let now = clock::now();
        let health = self.health();
        let ejected = match health {
            Health::Up { .. } => None,
            Health::Ejected { backoff, .. } | Health::Trial { backoff, .. } => {
                Some((health.due(now).saturating_duration_since(now), backoff))
            }
        };
        let latency = self.latency(now);
        CarriedOrigin { name: self.name().to_owned(), ejected, is_down: self.is_down(), latency }
    }

    fn carry(&self, carried: &CarriedOrigin, is_checked: bool) {
        if let Some((left, backoff)) = carried.ejected {
            let until = clock::now() + left.min(EJECTED_MAX);
            self.set_health(Health::Ejected { until, backoff: backoff.min(EJECTED_MAX) });
        }
        if !carried.latency.is_zero() {
            self.set_latency(carried.latency);
        }
        if carried.is_down && is_checked {
            self.await_check();
        }
    }
}
