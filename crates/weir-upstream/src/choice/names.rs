//! Names whose every address is an origin: when they are looked up, and what an answer changes. It runs off
//! the data plane.
//!
//! What fails or lies keeps the known addresses. An address that DNS no longer names is drained, and leaves
//! once nothing is under way there and its sessions have come to an end.

mod learnt;
mod told;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Weak;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use self::learnt::learnt;
use self::told::Told;
use crate::choice::adjust::Found;
use crate::choice::dns::{self, Answer};
use crate::clock;
use crate::health::standing::Naming;
use crate::origin::Origin;
use crate::sessions::affinity::{Affinity, By};
use crate::settings::OriginSettings;
use crate::upstream::Upstream;

/// Whatever its TTL, an answer counts for so long at least, and at most.
const TTLS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
/// Between two looks what is due.
const LOOK_PAUSE: Duration = Duration::from_millis(250);
/// An address that DNS does not name stays while its sessions ask there at least so often,
const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
/// and no longer than this.
const SESSIONS_MAX: Duration = Duration::from_secs(24 * 3600);
/// The most lookups of an upstream at once.
const RUNNING_MAX: usize = 256;
/// A lookup without a result is begun again after this time.
const LOST_AFTER: Duration = Duration::from_secs(300);

/// A name that is looked up again and again.
struct Tended {
    /// When the next lookup begins. While one runs it lies beyond its end.
    due: Instant,
    told: Told,
}

/// Looks the names of an upstream up when they are due, each by itself, until it is dropped.
pub(crate) async fn tend(upstream: Weak<Upstream>) {
    let mut all: BTreeMap<String, Tended> = BTreeMap::new();
    let mut running: JoinSet<Asked> = JoinSet::new();
    let mut ended: Option<Asked> = None;
    loop {
        let Some(alive) = upstream.upgrade() else { return };
        if alive.nameservers().is_none() {
            // What it is configured with does not change: there is nothing to look up.
            return;
        }
        if alive.is_succeeded() {
            // Its successor looks them up.
            (running, ended) = (JoinSet::new(), None);
            drop(alive);
            tokio::time::sleep(LOOK_PAUSE).await;
            continue;
        }
        while let Some((name, answer)) = ended.take() {
            if let Some(tended) = all.get_mut(&name) {
                tended.due = clock::now() + alive.heed(&name, answer, &mut tended.told);
            }
            ended = running.try_join_next().and_then(Result::ok);
        }
        begin(&alive, &mut all, &mut running);
        alive.forget_gone();
        drop(alive);
        tokio::select! {
            () = tokio::time::sleep(LOOK_PAUSE) => {}
            Some(asked) = running.join_next() => ended = asked.ok(),
        }
    }
}

/// Begins the lookups that are due, those first that wait for longest.
fn begin(upstream: &Upstream, all: &mut BTreeMap<String, Tended>, running: &mut JoinSet<Asked>) {
    let (now, names) = (clock::now(), upstream.names());
    let known: HashSet<String> = names.iter().map(OriginSettings::name).collect();
    all.retain(|name, _| known.contains(name));
    let mut due: Vec<(Option<Instant>, OriginSettings)> = names
        .into_iter()
        .map(|origin| (all.get(&origin.name()).map(|tended| tended.due), origin))
        .filter(|(due, _)| due.is_none_or(|due| due <= now))
        .collect();
    due.sort_by_key(|(due, _)| *due);
    let Some(nameservers) = upstream.nameservers() else { return };
    for (_, origin) in due.into_iter().take(RUNNING_MAX.saturating_sub(running.len())) {
        let tended = all.entry(origin.name()).or_insert(Tended { due: now, told: Told::default() });
        tended.due = now + LOST_AFTER;
        running.spawn(ask(origin, nameservers.to_vec(), upstream.timeouts.connect));
    }
}

/// A name, and what came of a lookup.
type Asked = (String, Result<Answer, String>);

async fn ask(origin: OriginSettings, nameservers: Vec<SocketAddr>, patience: Duration) -> Asked {
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
    fn heed(&self, name: &str, answer: Result<Answer, String>, told: &mut Told) -> Duration {
        let (now, refresh) = (clock::now(), self.refresh().max(TTLS.0));
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                told.failed(name, (&error, self.found(name).len()), now);
                self.unfound(name, &error);
                return refresh.min(Duration::from_secs(30));
            }
        };
        told.left_out(name, &answer, now);
        let before = self.found(name);
        let after = learnt(&before, &answer, now);
        let has_changed = after.is_some();
        if let Some(Err(error)) = after.map(|after| self.find(name, after)) {
            tracing::error!(origin = name, %error, "cannot use the addresses of the origin's name");
            self.unfound(name, &error.to_string());
        }
        told.found(name, has_changed, || self.found(name), now);
        answer.ttl.map_or(refresh, |ttl| ttl.clamp(TTLS.0, TTLS.1))
    }

    /// A name was looked up in vain. Where no address is known of it yet, it takes no share.
    fn unfound(&self, name: &str, why: &str) {
        for member in self.roster().members.iter().filter(|member| member.origin.name() == name) {
            member.origin.miss(why);
        }
    }

    /// Lets go of addresses that DNS has not named for a while, and where nothing is under way.
    fn forget_gone(&self) {
        let (now, roster, stay) = (clock::now(), self.roster(), self.stay());
        let all = roster.members.iter().filter(|member| member.origin.is_unnamed());
        let by_name: HashMap<&str, &Origin> =
            all.map(|member| (member.origin.name(), &*member.origin)).collect();
        for origin in self.names() {
            let name = origin.name();
            let before = self.found(&name);
            let is_over = |found: &Found| {
                let Some(gone) = found.gone else { return false };
                let own = OriginSettings { at: Some(found.at), ..origin.clone() }.name();
                let gone_for = now.saturating_duration_since(gone);
                by_name.get(&*own).is_none_or(|origin| stay.is_over(gone_for, origin, now))
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
}
