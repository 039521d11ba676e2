//! What a process knows of its origins and hands to the one that takes its place. It must not know how.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::choice::adjust::Found;
use crate::choice::roster::Member;
use crate::clock;
use crate::health::agent::record::Record;
use crate::health::agent::said::Said;
use crate::health::check::state::State;
use crate::health::ejection::{Against, Cause, Health};
use crate::health::standing::Order;
use crate::origin::Origin;
use crate::settings::Role;
use crate::upstream::Upstream;

/// The longest that a process believes another that an origin is ejected, or that DNS does not name it.
const PAST_MAX: Duration = Duration::from_secs(24 * 3600);

/// An origin as another process knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CarriedOrigin {
    /// Its name.
    pub name: String,
    /// Where it is ejected: for how long still, and how long that is in all.
    pub ejected: Option<(Duration, Duration)>,
    /// Whether its checks fail.
    pub is_down: bool,
    /// What its checks say; `None` where it is not checked.
    pub check: Option<CarriedCheck>,
    /// What its agent says; `None` where it has none.
    pub agent: Option<CarriedAgent>,
    /// How DNS found it; `None` where it did not.
    pub found: Option<CarriedFind>,
    /// The average time to the first byte; zero where it is not known.
    pub latency: Duration,
}

/// What the checks of an origin say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarriedCheck {
    /// It was not checked yet, and counts as up.
    Assumed,
    /// It was not checked yet, and waits for that.
    New,
    /// It passes them.
    Up,
    /// It fails them.
    Down,
}

/// What the agent of an origin says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedAgent {
    /// Its `ready`, `drain` or `maint`.
    pub order: Order,
    /// Whether it said that the origin is down.
    pub is_down: bool,
    /// The factor on the weight, in percent.
    pub percent: u32,
    /// In place of the configured `connections`.
    pub connections: Option<u32>,
    /// Its last line.
    pub line: String,
    /// The reason in that.
    pub reason: String,
}

/// How DNS found an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedFind {
    /// The origin whose name was looked up, as the file has it.
    pub of: String,
    /// The address.
    pub at: SocketAddr,
    /// The weight that DNS gave it.
    pub weight: Option<u32>,
    /// The role that DNS gave it.
    pub role: Option<Role>,
    /// For how long DNS has not named it any more.
    pub gone_for: Option<Duration>,
}

impl Upstream {
    /// What is known of the origins.
    pub fn carried(&self) -> Vec<CarriedOrigin> {
        let roster = self.roster();
        let of = |member: &Member| {
            let origin = &member.origin;
            let check = self.check.as_ref().map(|_| CarriedCheck::of(origin.checks.lock().state));
            let agent = self.agent.as_ref().and_then(|_| CarriedAgent::of(&origin.agent.lock()));
            CarriedOrigin { check, agent, found: self.found_at(origin), ..origin.carried() }
        };
        roster.members.iter().map(of).collect()
    }

    /// How DNS has found an origin.
    fn found_at(&self, origin: &Origin) -> Option<CarriedFind> {
        let (of, at, now) = (origin.address().to_string(), origin.at()?, clock::now());
        let found = self.found(&of).into_iter().find(|found| found.at == at)?;
        let Found { weight, role, gone, .. } = found;
        Some(CarriedFind {
            of,
            at,
            weight,
            role,
            gone_for: gone.map(|gone| now.saturating_duration_since(gone)),
        })
    }

    /// Begins with what another process knew, before it is tended. What that does not say, or of origins that
    /// there are not, changes nothing. Where that process has checked origins, one that it did not know waits
    /// for its first check.
    pub fn carry(&self, known: &[CarriedOrigin]) {
        self.carry_finds(known);
        let is_checked = self.check.is_some() && known.iter().any(|carried| carried.check.is_some());
        for member in self.roster().members.iter() {
            let origin = &member.origin;
            match known.iter().find(|carried| carried.name == origin.name()) {
                Some(carried) => self.carry_origin(origin, carried),
                None if is_checked => origin.await_check(),
                None => {}
            }
        }
    }

    /// The addresses of names that the other process knew.
    fn carry_finds(&self, known: &[CarriedOrigin]) {
        if self.nameservers().is_none() {
            return;
        }
        let mut finds: BTreeMap<&str, Vec<Found>> = BTreeMap::new();
        for find in known.iter().filter_map(|carried| carried.found.as_ref()) {
            finds.entry(&find.of).or_default().push(find.found());
        }
        for origin in self.names() {
            let name = origin.name();
            // Without these it begins as one that was never there.
            if let Some(found) = finds.remove(&*name)
                && let Err(error) = self.find(&name, found)
            {
                tracing::warn!(origin = name, %error, "cannot use the addresses that the running Weir knows");
            }
        }
    }

    fn carry_origin(&self, origin: &Origin, carried: &CarriedOrigin) {
        origin.carry(carried);
        match (&self.check, carried.check) {
            (None, _) => {}
            (Some(_), Some(check)) => origin.carry_check(check.state()),
            (Some(_), None) if carried.is_down => origin.await_check(),
            (Some(_), None) => origin.forget_checks(),
        }
        if let (Some(_), Some(agent)) = (&self.agent, &carried.agent) {
            origin.agent.lock().carry(agent.said(), (&agent.line, &agent.reason), clock::now());
            origin.heed(agent.said());
        }
    }
}

impl CarriedFind {
    fn found(&self) -> Found {
        let now = clock::now();
        let gone = self.gone_for.map(|time| now.checked_sub(time.min(PAST_MAX)).unwrap_or(now));
        let weight = self.weight.filter(|weight| (1..=1000).contains(weight));
        Found { gone, ..Found::of(self.at, weight, self.role) }
    }
}

impl CarriedCheck {
    fn of(state: State) -> CarriedCheck {
        match state {
            State::Assumed => CarriedCheck::Assumed,
            State::New => CarriedCheck::New,
            State::Up { .. } => CarriedCheck::Up,
            State::Down { .. } => CarriedCheck::Down,
        }
    }

    fn state(self) -> State {
        match self {
            CarriedCheck::Assumed => State::Assumed,
            CarriedCheck::New => State::New,
            CarriedCheck::Up => State::Up { failures: 0 },
            CarriedCheck::Down => State::Down { successes: 0 },
        }
    }
}

impl CarriedAgent {
    /// What an agent has said, if it has said anything.
    fn of(record: &Record) -> Option<CarriedAgent> {
        let Said { order, is_down, percent, connections } = record.said;
        let (line, reason) = (record.line().to_owned(), record.reason().to_owned());
        (!line.is_empty()).then_some(CarriedAgent { order, is_down, percent, connections, line, reason })
    }

    fn said(&self) -> Said {
        let CarriedAgent { order, is_down, percent, connections, .. } = *self;
        Said { order, is_down, percent, connections }
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
        let (name, is_down, latency) = (self.name().to_owned(), self.is_down(), self.latency(now));
        CarriedOrigin { name, ejected, is_down, latency, ..CarriedOrigin::default() }
    }

    fn carry(&self, carried: &CarriedOrigin) {
        if let Some((left, backoff)) = carried.ejected {
            let until = clock::now() + left.min(PAST_MAX);
            self.set_health(Health::Ejected {
                until,
                backoff: backoff.min(PAST_MAX),
                cause: Cause::Failures,
                against: Against::default(),
            });
        }
        if !carried.latency.is_zero() {
            self.set_latency(carried.latency);
        }
        if self.is_unnamed() {
            // Its sessions may have asked just now.
            self.follow_session(clock::now());
        }
    }
}

#[cfg(test)]
mod tests;
