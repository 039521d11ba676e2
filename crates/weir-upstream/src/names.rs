//! Names whose every address is an origin: when they are looked up, and what an answer changes. It runs off
//! the data plane.
//!
//! What fails or lies keeps the known addresses. An address that DNS no longer names is drained, and leaves
//! once nothing is under way there and its sessions have come to an end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::adjust::Found;
use crate::affinity::{Affinity, By};
use crate::clock;
use crate::dns::{self, Answer};
use crate::origin::Origin;
use crate::settings::OriginSettings;
use crate::standing::Naming;
use crate::upstream::Upstream;

/// Whatever its TTL, an answer counts for so long at least, and at most.
const TTLS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
/// Between two looks what is due.
const LOOK_PAUSE: Duration = Duration::from_millis(250);
/// The most addresses of a name that are drained. Some more may be that went at one moment.
const GONE_MAX: usize = 1000;
/// An address that DNS does not name stays while its sessions ask there at least so often,
const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
/// and no longer than this.
const SESSIONS_MAX: Duration = Duration::from_secs(24 * 3600);
/// The most lookups of an upstream at once.
const RUNNING_MAX: usize = 16;

impl Found {
    pub(crate) fn of(at: SocketAddr, weight: Option<u32>, role: Option<crate::settings::Role>) -> Found {
        Found { at, weight, role, gone: None }
    }
}

/// What is known of a name after an answer; `None` where nothing has changed. Pure.
pub(crate) fn learnt(before: &[Found], answer: &Answer, now: Instant) -> Option<Vec<Found>> {
    let mut after = answer.found.clone();
    for old in before {
        if answer.found.iter().any(|found| found.at == old.at) {
            continue;
        }
        let is_known = if old.at.is_ipv4() { answer.is_known.0 } else { answer.is_known.1 };
        let gone = if is_known { Some(old.gone.unwrap_or(now)) } else { old.gone };
        after.push(Found { gone, ..old.clone() });
    }
    // Those that have been gone for longest are let go where there are too many.
    let mut gone: Vec<Instant> = after.iter().filter_map(|found| found.gone).collect();
    if gone.len() > GONE_MAX {
        gone.sort();
        let first = gone[gone.len() - GONE_MAX];
        after.retain(|found| found.gone.is_none_or(|gone| gone >= first));
    }
    after.sort_by_key(|found| found.at);
    (after != before).then_some(after)
}

/// Looks the names of an upstream up when they are due, until it is dropped.
pub(crate) async fn tend(upstream: Weak<Upstream>) {
    let mut due: BTreeMap<String, Instant> = BTreeMap::new();
    loop {
        let Some(alive) = upstream.upgrade() else { return };
        let Some(nameservers) = alive.nameservers().filter(|_| !alive.is_succeeded()) else {
            drop(alive);
            tokio::time::sleep(LOOK_PAUSE).await;
            continue;
        };
        let now = clock::now();
        let names = alive.names();
        due.retain(|name, _| names.iter().any(|origin| origin.name() == *name));
        let mut running = JoinSet::new();
        for origin in names {
            if due.get(&origin.name()).is_none_or(|due| *due <= now) && running.len() < RUNNING_MAX {
                let (nameservers, patience) = (nameservers.to_vec(), alive.timeouts.connect);
                running.spawn(ask(origin, nameservers, patience));
            }
        }
        while let Some(asked) = running.join_next().await {
            let Ok((name, answer)) = asked else { continue };
            let again = alive.heed(&name, answer);
            due.insert(name, clock::now() + again);
        }
        alive.forget_gone();
        drop(alive);
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

async fn ask(
    origin: OriginSettings,
    nameservers: Vec<SocketAddr>,
    patience: Duration,
) -> (String, Result<Answer, String>) {
    let name = origin.name();
    let Some((host, port)) = origin.address.host_and_port() else { return (name, Err(String::new())) };
    // The resolver has its own limit for each name server.
    let limit = patience * 4;
    let looking = dns::look_up(host, port, &nameservers, patience);
    let answer = tokio::time::timeout(limit, looking).await;
    (name, answer.unwrap_or_else(|_| Err("the name servers do not answer".to_owned())))
}

impl Upstream {
    /// Takes an answer in; returns when the name is to be looked up again.
    fn heed(self: &Arc<Self>, name: &str, answer: Result<Answer, String>) -> Duration {
        let refresh = self.refresh().max(TTLS.0);
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                let kept = self.found(name).len();
                tracing::warn!(
                    origin = name,
                    kept,
                    error,
                    "cannot look up the addresses of the origin's name"
                );
                self.sought(name);
                return refresh.min(Duration::from_secs(30));
            }
        };
        if answer.left_out > 0 {
            let (used, left_out) = (answer.found.len(), answer.left_out);
            tracing::warn!(origin = name, used, left_out, "the origin's name has too many addresses");
        }
        let before = self.found(name);
        if let Some(after) = learnt(&before, &answer, clock::now()) {
            let gone = after.iter().filter(|found| found.gone.is_some()).count();
            let named = after.len() - gone;
            match self.find(name, after) {
                Ok(()) => tracing::info!(
                    origin = name,
                    named,
                    gone,
                    "the addresses of the origin's name have changed"
                ),
                Err(error) => {
                    tracing::error!(origin = name, %error, "cannot use the addresses of the origin's name")
                }
            }
        }
        self.sought(name);
        answer.ttl.map_or(refresh, |ttl| ttl.clamp(TTLS.0, TTLS.1))
    }

    /// A name was looked up: what it has shown is known now.
    fn sought(&self, name: &str) {
        for member in self.roster().members.iter().filter(|member| member.origin.name() == name) {
            member.origin.mark(|marks| marks.dns = Naming::Named);
        }
    }

    /// Lets go of addresses that DNS has not named for a while, and where nothing is under way.
    fn forget_gone(&self) {
        let (now, roster, stay) = (clock::now(), self.roster(), self.stay());
        for origin in self.names() {
            let name = origin.name();
            let before = self.found(&name);
            let is_over = |found: &Found| {
                let Some(gone) = found.gone else { return false };
                let own = OriginSettings { at: Some(found.at), ..origin.clone() }.name();
                let mut of_name = roster.members.iter().filter(|member| member.origin.name() == own);
                of_name.all(|member| stay.is_over(now.saturating_duration_since(gone), &member.origin, now))
            };
            let after: Vec<Found> = before.iter().filter(|found| !is_over(found)).cloned().collect();
            // The last ones stay: nothing better is known.
            if after.len() != before.len() && !after.is_empty() && self.find(&name, after).is_err() {
                return;
            }
        }
    }

    /// How long addresses stay that DNS does not name any more.
    fn stay(&self) -> Stay {
        let (idle, most) = match &self.affinity {
            Some(Affinity { by: By::Own(own), .. }) => {
                let lifetime = own.lifetime.unwrap_or(SESSIONS_MAX).min(SESSIONS_MAX);
                (SESSION_IDLE.min(lifetime), lifetime)
            }
            Some(Affinity { by: By::Suffix { .. }, .. }) => (SESSION_IDLE, SESSIONS_MAX),
            // A hash does not tell sessions that began there from others.
            Some(Affinity { by: By::Hash(_), .. }) | None => (Duration::ZERO, Duration::ZERO),
        };
        Stay { grace: self.refresh(), idle, most }
    }
}

/// How long addresses stay that DNS does not name any more.
#[derive(Clone, Copy, Debug)]
struct Stay {
    /// So long at least: an answer may be a mistake.
    grace: Duration,
    /// Longer while sessions ask there at least so often,
    idle: Duration,
    /// but no longer than this.
    most: Duration,
}

impl Stay {
    /// Whether an origin that has been gone for this time may leave. After the longest time it takes no
    /// sessions any more.
    fn is_over(self, gone_for: Duration, origin: &Origin, now: Instant) -> bool {
        if self.is_forgotten(gone_for) {
            origin.mark(|marks| marks.dns = Naming::Forgotten);
        }
        let unfollowed = origin.unfollowed_for(now).filter(|_| origin.takes_sessions());
        self.are_sessions_over(gone_for, unfollowed) && origin.is_empty()
    }

    /// The same of one to which no session's request was sent for that time; `None` where it gets none. Pure.
    fn are_sessions_over(self, gone_for: Duration, unfollowed: Option<Duration>) -> bool {
        gone_for >= self.grace && unfollowed.is_none_or(|time| time >= self.idle)
    }

    /// Whether sessions are over, however often they ask. Pure.
    fn is_forgotten(self, gone_for: Duration) -> bool {
        gone_for >= self.grace.max(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(at: &str) -> Found {
        Found::of(at.parse().unwrap(), None, None)
    }

    #[test]
    fn an_address_stays_for_its_sessions_for_a_while() {
        let s = Duration::from_secs;
        let stay = Stay { grace: s(30), idle: s(1800), most: s(7200) };
        for (gone_for, unfollowed, expect) in [
            (29, None, false),
            (30, None, true),
            (30, Some(0), false),
            (7199, Some(1799), false),
            (1900, Some(1800), true),
        ] {
            assert_eq!(stay.are_sessions_over(s(gone_for), unfollowed.map(s)), expect, "{gone_for}");
        }
        assert!(!stay.is_forgotten(s(7199)) && stay.is_forgotten(s(7200)));
        let hashed = Stay { idle: s(0), most: s(0), ..stay };
        assert!(!hashed.is_forgotten(s(29)) && hashed.are_sessions_over(s(30), Some(s(0))));
    }

    #[test]
    fn no_more_than_so_many_are_drained() {
        let now = clock::now();
        let gone = |number: u16| {
            let [high, low] = number.to_be_bytes();
            let gone = Some(now + Duration::from_secs(number.into()));
            Found { gone, ..found(&format!("10.0.{high}.{low}:80")) }
        };
        let before: Vec<Found> = (0..1500).map(gone).collect();
        let answer =
            Answer { found: vec![found("10.1.0.0:80")], is_known: (true, true), ..Answer::default() };
        let after = learnt(&before, &answer, now).unwrap();
        assert_eq!(after.len(), GONE_MAX + 1);
        assert_eq!(after[0], before[500], "those stay that went last");
    }

    #[test]
    fn what_is_not_named_any_more_is_gone_and_comes_back() {
        let (now, later) = (clock::now(), clock::now() + Duration::from_secs(5));
        let (a, b, six) = (found("10.0.0.1:80"), found("10.0.0.2:80"), found("[::1]:80"));
        let answer = |found: &[Found], six| Answer {
            found: found.to_vec(),
            is_known: (true, six),
            ..Answer::default()
        };
        let all = learnt(&[], &answer(&[a.clone(), b.clone(), six.clone()], true), now).unwrap();
        assert_eq!(learnt(&all, &answer(&all, true), now), None);
        let less = learnt(&all, &answer(std::slice::from_ref(&a), false), now).unwrap();
        assert_eq!(less[1].gone, Some(now));
        assert_eq!(less[2].gone, None, "nothing is known of the other family");
        let still = learnt(&less, &answer(std::slice::from_ref(&a), true), later).unwrap();
        assert_eq!((still[1].gone, still[2].gone), (Some(now), Some(later)));
        assert_eq!(learnt(&still, &answer(&[a, b, six], true), later), Some(all));
    }
}
