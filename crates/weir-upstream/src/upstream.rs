//! An upstream: its origins, their changes, and what tends them. Requests are sent by `send`.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use weir_client::{AttemptEnd, Resolver, system_resolver};
use weir_share::Client;

use crate::again::track::{AttemptLog, Turn};
use crate::choice::adjust::{self, Adjustments, Before, Change, ChangeError, Finds, Found, Wanted};
use crate::choice::dns;
use crate::choice::guests::Guests;
use crate::choice::listed::{self, UpstreamListed};
use crate::choice::names;
use crate::choice::pick::Pick;
use crate::choice::roster::{Awaits, Member, Roster, Signal};
use crate::clock;
use crate::error::UpstreamError;
use crate::gauges::Gauges;
use crate::health::check::CheckLog;
use crate::health::check::tend::tend as tend_checks;
use crate::health::ramp::Ramp;
use crate::health::standing::Naming;
use crate::origin::Origin;
use crate::sessions::affinity::{Affinity, By, OriginId};
use crate::sessions::node;
use crate::settings::{
    AgentSettings, Bounds, CheckSettings, OriginAddress, OriginSettings, RetryOn, Role, Timeouts,
    UpstreamSettings,
};
use crate::snapshot::{HedgesSnapshot, UpstreamSnapshot};

/// One `[upstream.NAME]`.
pub struct Upstream {
    name: String,
    roster: ArcSwap<Roster>,
    /// What is laid over the settings. Held while another roster is made.
    said: Mutex<Said>,
    pub(crate) settings: UpstreamSettings,
    pub(crate) resolver: Resolver,
    pub(crate) signal: Arc<Signal>,
    pub(crate) picks: Vec<Pick>,
    pub(crate) affinity: Option<Affinity>,
    pub(crate) timeouts: Timeouts,
    pub(crate) bounds: Bounds,
    pub(crate) check: Option<Arc<CheckSettings>>,
    pub(crate) agent: Option<Arc<AgentSettings>>,
    /// Origins that deciders name beside its own.
    pub(crate) guests: Guests,
    /// Its place in the line of [`Signal::follow`], until it is dropped.
    token: Option<Arc<()>>,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        // Its checks end, and those of the one before may go on.
        self.token = None;
        self.signal.wake();
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("name", &self.name)
            .field("roster", &self.roster)
            .finish_non_exhaustive()
    }
}

/// The values of an origin.
#[derive(Clone, Debug)]
pub struct Gauged {
    /// Its name.
    pub origin: Arc<str>,
    /// Where it is.
    pub address: OriginAddress,
    /// Its name in session ids, if it has one.
    pub id: Option<String>,
    /// The one address that it is at, of those that its name has.
    pub at: Option<SocketAddr>,
    /// The addresses that are known of it.
    pub ips: Vec<IpAddr>,
    /// The values.
    pub gauges: Arc<Gauges>,
}

/// What others than the file say about the origins of an upstream.
#[derive(Clone, Debug, Default)]
struct Said {
    adjustments: Adjustments,
    finds: Finds,
}

impl Said {
    /// Whether operators have removed all that the file wants, and it is used all the same.
    fn is_overruled(&self, settings: &UpstreamSettings) -> bool {
        adjust::is_overruled(&settings.origins, &self.adjustments, &self.finds)
    }
}

fn tell_overruled(upstream: &str) {
    tracing::error!(
        upstream,
        "the origins that were removed at run time are used all the same: no other one is left"
    );
}

impl Upstream {
    /// Makes an upstream. Certificates are read; nothing is looked up and nothing connected, so that it
    /// succeeds while origins or DNS are down.
    ///
    /// # Errors
    /// When the settings contradict themselves or a certificate file cannot be used.
    pub fn new(settings: UpstreamSettings) -> Result<Arc<Self>, UpstreamError> {
        Self::adjusted(settings, Adjustments::new())
    }

    /// As [`Upstream::new`], with what operators have changed.
    ///
    /// # Errors
    /// Those of [`Upstream::new`].
    pub fn adjusted(
        settings: UpstreamSettings,
        adjustments: Adjustments,
    ) -> Result<Arc<Self>, UpstreamError> {
        Self::made(settings, Past::Adjusted(adjustments), &system_resolver())
    }

    /// As [`Upstream::adjusted`], while Weir runs: its origins wait for their first checks.
    ///
    /// # Errors
    /// Those of [`Upstream::new`].
    pub fn added(settings: UpstreamSettings, adjustments: Adjustments) -> Result<Arc<Self>, UpstreamError> {
        Self::made(settings, Past::Added(adjustments), &system_resolver())
    }

    /// Makes the upstream that takes the place of another one. Origins that both have keep their connections,
    /// their health and what was counted. What operators have changed stays changed.
    ///
    /// # Errors
    /// Those of [`Upstream::new`].
    pub fn succeed(old: &Upstream, settings: UpstreamSettings) -> Result<Arc<Self>, UpstreamError> {
        Self::made(settings, Past::Upstream(old), &system_resolver())
    }

    pub(crate) fn made(
        settings: UpstreamSettings,
        past: Past<'_>,
        resolver: &Resolver,
    ) -> Result<Arc<Self>, UpstreamError> {
        check(&settings)?;
        let by_servers =
            settings.each_by.as_ref().map(|each| dns::by_servers(each, settings.timeouts.connect));
        let resolver = by_servers.as_ref().unwrap_or(resolver);
        let alone = |adjustments| (Arc::default(), Said { adjustments, finds: Finds::new() });
        let (signal, said, known) = match past {
            Past::Adjusted(adjustments) => {
                let (signal, said) = alone(adjustments);
                (signal, said, None)
            }
            Past::Added(adjustments) => {
                let (signal, said) = alone(adjustments);
                (signal, said, Some(Vec::new().into()))
            }
            Past::Upstream(old) => {
                let mut said = old.said.lock().clone();
                if settings.each_by.is_none() {
                    said.finds.clear();
                }
                (old.signal.clone(), said, Some(old.roster().members.clone()))
            }
        };
        let known: Option<Arc<[Member]>> = known;
        let members = members(&settings, &said, known.as_deref(), (&signal, resolver))?;
        if said.is_overruled(&settings) {
            tell_overruled(&settings.name);
        }
        // Origins that stay have not said themselves what is new about them.
        signal.change();
        Ok(Arc::new(Self {
            roster: ArcSwap::from_pointee(Roster::new(members.into(), signal.changes())),
            said: Mutex::new(said),
            resolver: resolver.clone(),
            token: Some(signal.follow()),
            guests: Guests::default(),
            signal,
            affinity: settings.affinity.clone(),
            check: settings.check.clone().map(Arc::new),
            agent: settings.agent.clone().map(Arc::new),
            picks: settings.picks.clone(),
            name: settings.name.clone(),
            timeouts: settings.timeouts,
            bounds: settings.bounds,
            settings,
        }))
    }

    /// Whether origins come to their share step by step.
    pub(crate) fn is_ramping_up(&self) -> bool {
        !self.settings.ejection.slow_start.is_zero()
    }

    /// Whether another one has taken its place.
    pub(crate) fn is_succeeded(&self) -> bool {
        self.token.as_ref().is_none_or(|token| !self.signal.is_last(token))
    }

    /// The name in the config.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many origins there are.
    pub fn origins_count(&self) -> usize {
        self.roster.load().members.len()
    }

    /// The origins as they stand now. The first request that sees a change makes another roster; others take
    /// the old one meanwhile.
    pub(crate) fn roster(&self) -> Arc<Roster> {
        let roster = self.roster.load_full();
        if roster.changes == self.signal.changes() {
            return roster;
        }
        let Some(_changing) = self.said.try_lock() else { return roster };
        let members = self.roster.load().members.clone();
        self.renew(members)
    }

    /// Puts another roster in place; `said` is held.
    fn renew(&self, members: Arc<[Member]>) -> Arc<Roster> {
        // Read before the origins are: a change in between makes yet another roster.
        let changes = self.signal.changes();
        let roster = Arc::new(Roster::new(members, changes));
        let before = self.roster.swap(roster.clone());
        roster.report(&before, &self.name, &self.signal);
        // What looked meanwhile has seen the one before.
        self.signal.moves.change();
        if before.awaits != Awaits::Nothing {
            self.signal.wake();
        }
        roster
    }

    /// How long each step may take.
    pub fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    /// What it has done and holds.
    pub fn snapshot(&self) -> UpstreamSnapshot {
        let now = clock::now();
        let told = (self.check.is_some(), self.agent.is_some());
        let roster = self.roster();
        let of = |member: &Member| member.origin.snapshot(now, told);
        let origins = roster.members.iter().map(of).collect();
        let (is_panicking, panics) = (roster.is_panicking, self.signal.panics());
        let sessions = self.affinity.as_ref().map(|_| self.signal.sessions.snapshot());
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let again = RetryOn::ALL.iter().zip(&self.signal.again);
        UpstreamSnapshot {
            name: self.name.clone(),
            origins,
            is_panicking,
            panics,
            retries: again.map(|(reason, count)| (reason.word(), of(count))).collect(),
            retries_refused: of(&self.signal.refused),
            hedges: self.settings.retries.hedge_per_mille.map(|_| HedgesSnapshot {
                sent: of(&self.signal.hedges.sent),
                won: of(&self.signal.hedges.won),
                refused: of(&self.signal.hedges.refused),
            }),
            sessions,
        }
    }

    /// What operators have changed so far.
    pub fn adjustments(&self) -> Adjustments {
        self.said.lock().adjustments.clone()
    }

    /// The name of the origin that is meant by its name or its name in session ids, and what operators have
    /// changed once this is changed too. Changes nothing itself.
    ///
    /// # Errors
    /// The change makes no sense.
    pub fn changed(&self, origin: &str, change: Change) -> Result<(String, Adjustments), ChangeError> {
        let Said { adjustments, finds } = self.said.lock().clone();
        let (upstream, file) = (&*self.name, &self.settings.origins[..]);
        let is_named = matches!(&self.affinity, Some(Affinity { by: By::Suffix { .. }, .. }));
        let before = Before { upstream, file, is_named, adjustments: &adjustments, finds: &finds };
        Ok((before.meant(origin), before.changed(origin, change)?))
    }

    /// Puts what operators have changed in force for all requests that begin from now on.
    ///
    /// # Errors
    /// An origin cannot be made; then nothing has changed.
    pub fn adjust(&self, adjustments: Adjustments) -> Result<(), UpstreamError> {
        let mut said = self.said.lock();
        let next = Said { adjustments, finds: said.finds.clone() };
        self.put(&mut said, next)
    }

    fn put(&self, said: &mut Said, next: Said) -> Result<(), UpstreamError> {
        let before = self.roster.load_full();
        let members = members(&self.settings, &next, Some(&before.members), (&self.signal, &self.resolver))?;
        if !said.is_overruled(&self.settings) && next.is_overruled(&self.settings) {
            tell_overruled(&self.name);
        }
        *said = next;
        self.signal.change();
        self.renew(members.into());
        Ok(())
    }

    /// Its origins with what operators have changed of them, those that were removed last.
    pub fn listed(&self) -> UpstreamListed {
        let Said { adjustments, .. } = self.said.lock().clone();
        listed::listed(
            &self.name,
            &self.roster(),
            &self.settings.origins,
            (&adjustments, (self.check.is_some(), self.agent.is_some())),
        )
    }

    /// The name servers to ask for every address of a name; `None` where a name is one origin.
    pub(crate) fn nameservers(&self) -> Option<&[SocketAddr]> {
        self.settings.each_by.as_deref()
    }

    /// How often names are looked up where DNS says nothing of it.
    pub(crate) fn refresh(&self) -> Duration {
        self.settings.resolve_every
    }

    /// Whether it stands for all addresses of its name until they are known.
    fn is_name(&self, origin: &Origin) -> bool {
        self.settings.each_by.is_some() && origin.at().is_none() && origin.address().is_named()
    }

    /// The origins that are names.
    pub(crate) fn names(&self) -> Vec<OriginSettings> {
        let said = self.said.lock();
        let all = adjust::wanted(&self.settings.origins, &said.adjustments, &Finds::new());
        let names = all.into_iter().map(|wanted| wanted.settings);
        names.filter(|origin| origin.address.is_named()).collect()
    }

    /// The addresses known of a name.
    pub(crate) fn found(&self, name: &str) -> Vec<Found> {
        self.said.lock().finds.get(name).cloned().unwrap_or_default()
    }

    /// Puts the addresses of a name in force.
    pub(crate) fn find(&self, name: &str, found: Vec<Found>) -> Result<(), UpstreamError> {
        let mut said = self.said.lock();
        let mut next = said.clone();
        next.finds.insert(name.to_owned(), found);
        self.put(&mut said, next)
    }

    /// Whether origins that operators have removed are used all the same, as no other one is left.
    pub fn is_overruled(&self) -> bool {
        self.said.lock().is_overruled(&self.settings)
    }

    /// The adjustments that mean no origin now: the file no longer has it.
    pub fn idle_adjustments(&self) -> Vec<String> {
        let said = self.said.lock().clone();
        let all = adjust::wanted(&self.settings.origins, &said.adjustments, &said.finds);
        let is_known = |name: &String| {
            self.settings.origins.iter().any(|origin| origin.name() == *name)
                || all.iter().any(|wanted| wanted.settings.name() == *name)
        };
        said.adjustments.into_keys().filter(|name| !is_known(name)).collect()
    }

    /// How many of `all` transfers at this upstream one client may have under way: its share, and no more
    /// than its connections.
    pub fn client_max(&self, all: usize) -> usize {
        let roster = self.roster.load();
        let connections: usize = roster.members.iter().map(|member| member.origin.pool().client_max()).sum();
        roster.members.first().map_or(all, |member| member.origin.pool().share_of(all)).min(connections)
    }

    /// The sources of its origins' values.
    pub fn sources(&self) -> &[Arc<str>] {
        &self.settings.sources
    }

    /// The values of each origin, with its name, where it is, and the one address that it is at of those that
    /// its name has.
    pub fn gauges(&self) -> Vec<Gauged> {
        let of = |member: &Member| Gauged {
            origin: member.origin.name_shared().clone(),
            address: member.origin.address().clone(),
            id: member.node.clone(),
            at: member.origin.at(),
            ips: member.origin.server.addresses().map(|addresses| addresses.ips()).unwrap_or_default(),
            gauges: member.origin.gauges().clone(),
        };
        self.roster().members.iter().map(of).collect()
    }

    /// Whether a client has used up its share of the connections, at every origin.
    pub fn is_spent(&self, client: Option<Client>) -> bool {
        self.roster.load().members.iter().all(|member| member.origin.pool().is_spent(client))
    }

    /// Renews the addresses until the upstream is dropped: to be spawned once, off the data plane. Without it
    /// requests renew them. It begins with a lookup of each name and warns of those that fail.
    pub fn tend(self: &Arc<Self>) -> impl Future<Output = ()> + Send + 'static {
        let upstream = Arc::downgrade(self);
        let every = self.settings.resolve_every.max(Duration::from_secs(1));
        async move {
            tokio::join!(
                tend(upstream.clone(), every),
                names::tend(upstream.clone()),
                Upstream::judge_origins(upstream.clone()),
                Upstream::grow_shares(upstream)
            );
        }
    }

    /// Whether it is checked, so that a [`Upstream::probe`] would say nothing new.
    pub fn is_checked(&self) -> bool {
        self.check.is_some()
    }

    /// Checks the origins, and asks their agents, until the upstream is dropped: to be spawned once, off the
    /// data plane.
    pub fn watch(self: &Arc<Self>, log: CheckLog) -> impl Future<Output = ()> + Send + 'static {
        self.begin_watch();
        tend_checks(Arc::downgrade(self), log)
    }

    /// Origins that the upstream before has handed over are looked at as this one wants.
    fn begin_watch(&self) {
        for member in self.roster.load().members.iter() {
            match &self.check {
                Some(check) => member.origin.checks.lock().pace.hasten(check.every),
                None => member.origin.forget_checks(),
            }
            match &self.agent {
                Some(agent) => member.origin.agent.lock().pace.hasten(agent.every),
                None => member.origin.forget_agent(),
            }
        }
    }

    /// Connects to each origin, off the data plane, to warn of those that are down at the start, and closes
    /// the connections again. Returns how many are down. The log is told of each connection.
    pub async fn probe(&self, log: Option<Arc<dyn AttemptLog>>) -> usize {
        let mut down = 0;
        for member in self.roster().members.iter() {
            let origin = &member.origin;
            // One that a reload has kept is known.
            if origin.pool().usage().connects > 0 || self.is_name(origin) {
                continue;
            }
            let mut trace = log.as_ref().map(|log| origin.track(log, Turn::FIRST, clock::now()));
            match origin.server.single(self.timeouts.connect, &mut trace).await {
                Ok(single) => single.end(),
                Err(error) => {
                    origin.tell_gone(&error);
                    trace.into_iter().for_each(|trace| trace.ended(AttemptEnd::Failed(error.word())));
                    down += 1;
                }
            }
        }
        down
    }
}

async fn tend(upstream: Weak<Upstream>, every: Duration) {
    loop {
        let Some(alive) = upstream.upgrade() else { return };
        for member in alive.roster().members.iter() {
            if let Some(addresses) =
                member.origin.server.addresses().filter(|_| !alive.is_name(&member.origin))
            {
                // The lookup itself warns; the old addresses stay.
                let _ = addresses.renew().await;
            }
        }
        drop(alive);
        tokio::time::sleep(every).await;
    }
}

/// What an upstream begins with.
pub(crate) enum Past<'u> {
    /// Nothing but what operators have changed.
    Adjusted(Adjustments),
    /// The same, while Weir runs.
    Added(Adjustments),
    /// The upstream whose place it takes.
    Upstream(&'u Upstream),
}

/// Whether a name stood for it until now.
fn is_of_name(origin: &Origin, known: &[Member]) -> bool {
    let is_it = |name: &Origin| name.at().is_none() && name.address() == origin.address();
    origin.at().is_some() && known.iter().any(|member| is_it(&member.origin))
}

/// The members that there are to be: those of `known` where they are the same, new ones elsewhere. Without
/// `known` Weir begins.
fn members(
    settings: &UpstreamSettings,
    said: &Said,
    known: Option<&[Member]>,
    (signal, resolver): (&Arc<Signal>, &Resolver),
) -> Result<Vec<Member>, UpstreamError> {
    let by_name: HashMap<&str, &Member> =
        known.unwrap_or_default().iter().map(|member| (member.origin.name(), member)).collect();
    let all = adjust::wanted(&settings.origins, &said.adjustments, &said.finds);
    let mut orders = Vec::with_capacity(all.len());
    let mut members = Vec::with_capacity(all.len());
    for Wanted { settings: wanted, order, is_gone } in all {
        let same = by_name.get(wanted.name().as_str());
        let origin = match same.filter(|member| member.origin.is_made_of(&wanted, settings)) {
            Some(member) => member.origin.clone(),
            None => {
                let origin = Origin::new(&wanted, settings, (signal, resolver))?;
                if known.is_some() && settings.check.is_some() {
                    origin.await_check();
                }
                if known.is_some_and(|known| !is_of_name(&origin, known)) {
                    *origin.ramp.lock() = Ramp::Out;
                }
                if settings.each_by.is_some() && is_name(&wanted) {
                    origin.mark(|marks| marks.dns = Naming::Sought);
                }
                Arc::new(origin)
            }
        };
        orders.push((order, is_gone));
        let node = node::of(&wanted);
        let id = node.as_deref().map_or_else(|| OriginId::of_address(&wanted.name()), OriginId::of_node);
        members.push(Member { origin, weight: wanted.weight, role: wanted.role, id, node });
    }
    // Only now, when nothing can fail any more.
    for (member, (order, is_gone)) in members.iter().zip(orders) {
        member.origin.follow(settings);
        member.origin.mark(|marks| {
            marks.order = order;
            marks.dns = match marks.dns {
                naming if is_gone && naming.is_gone() => naming,
                _ if is_gone => Naming::Gone,
                naming if naming.is_gone() => Naming::Named,
                // A name that is one origin finds its addresses itself.
                naming if naming.is_unknown() && settings.each_by.is_none() => Naming::Named,
                naming => naming,
            };
        });
    }
    Ok(members)
}

/// Whether it stands for all addresses of its name.
fn is_name(settings: &OriginSettings) -> bool {
    settings.at.is_none() && settings.address.is_named()
}

fn check(settings: &UpstreamSettings) -> Result<(), UpstreamError> {
    let name = || settings.name.clone();
    if !settings.origins.iter().any(|origin| origin.role == Role::Primary) {
        return Err(UpstreamError::NoPrimary { name: name() });
    }
    if settings.origins.iter().any(|origin| !(1..=1000).contains(&origin.weight)) {
        return Err(UpstreamError::Range { name: name(), what: "weight", range: "1 to 1000" });
    }
    if let Some(Affinity { by: By::Own(own), .. }) = &settings.affinity
        && own.keys.is_empty()
    {
        return Err(UpstreamError::NoKey { name: name() });
    }
    if settings.bounds.connections_max == 0 {
        return Err(UpstreamError::Range { name: name(), what: "connections", range: "at least 1" });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
