//! An upstream: its origins, their changes, and what tends them. Requests are sent by `send`.

use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::address::{self, Resolver};
use crate::attempt::{AttemptEnd, AttemptLog, Turn};
use crate::check::CheckLog;
use crate::check::tend::tend as tend_checks;
use crate::clock;
use crate::error::UpstreamError;
use crate::once::new_connection;
use crate::origin::{Origin, Place};
use crate::pick::Pick;
use crate::roster::{Member, Roster, Signal};
use crate::settings::{Bounds, CheckSettings, Role, Timeouts, UpstreamSettings};
use crate::snapshot::UpstreamSnapshot;
use crate::standing::Order;

/// One `[upstream.NAME]`.
#[derive(Debug)]
pub struct Upstream {
    name: String,
    roster: ArcSwap<Roster>,
    /// Held while another roster is made.
    changing: Mutex<()>,
    pub(crate) signal: Arc<Signal>,
    pub(crate) picks: Vec<Pick>,
    pub(crate) timeouts: Timeouts,
    pub(crate) bounds: Bounds,
    resolve_every: Duration,
    pub(crate) check: Option<Arc<CheckSettings>>,
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

impl Upstream {
    /// Makes an upstream. Certificates are read; nothing is looked up and nothing connected, so that it
    /// succeeds while origins or DNS are down.
    ///
    /// # Errors
    /// When the settings contradict themselves or a certificate file cannot be used.
    pub fn new(settings: UpstreamSettings) -> Result<Arc<Self>, UpstreamError> {
        Self::made(settings, None, &address::system())
    }

    /// Makes the upstream that takes the place of another one. Origins that both have keep their connections,
    /// their health and what was counted.
    ///
    /// # Errors
    /// Those of [`Upstream::new`].
    pub fn succeed(old: &Upstream, settings: UpstreamSettings) -> Result<Arc<Self>, UpstreamError> {
        Self::made(settings, Some(old), &address::system())
    }

    pub(crate) fn made(
        settings: UpstreamSettings,
        old: Option<&Upstream>,
        resolver: &Resolver,
    ) -> Result<Arc<Self>, UpstreamError> {
        check(&settings)?;
        let signal = old.map_or_else(Arc::default, |old| old.signal.clone());
        let before = old.map(Upstream::roster);
        let mut members = Vec::with_capacity(settings.origins.len());
        for wanted in &settings.origins {
            let known = before.iter().flat_map(|before| before.members.iter());
            let mut same = known.filter(|member| member.origin.is_made_of(&wanted.address, &settings));
            let origin = match same.next() {
                Some(member) => member.origin.clone(),
                None => {
                    let origin = Origin::new(wanted, &settings, (&signal, resolver))?;
                    if old.is_some() && settings.check.is_some() {
                        origin.await_check();
                    }
                    Arc::new(origin)
                }
            };
            members.push(Member { origin, weight: wanted.weight, role: wanted.role });
        }
        Ok(Arc::new(Self {
            roster: ArcSwap::from_pointee(Roster::new(members.into(), signal.changes())),
            changing: Mutex::default(),
            token: Some(signal.follow()),
            signal,
            check: settings.check.map(Arc::new),
            picks: settings.picks,
            name: settings.name,
            timeouts: settings.timeouts,
            bounds: settings.bounds,
            resolve_every: settings.resolve_every,
        }))
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
        let Some(_changing) = self.changing.try_lock() else { return roster };
        let members = self.roster.load().members.clone();
        self.renew(members)
    }

    /// Puts another roster in place; `changing` is held.
    fn renew(&self, members: Arc<[Member]>) -> Arc<Roster> {
        // Read before the origins are: a change in between makes yet another roster.
        let changes = self.signal.changes();
        let roster = Arc::new(Roster::new(members, changes));
        self.roster.store(roster.clone());
        roster
    }

    /// How long each step may take.
    pub fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    /// What it has done and holds.
    pub fn snapshot(&self) -> UpstreamSnapshot {
        let now = clock::now();
        let origins = self
            .roster()
            .members
            .iter()
            .map(|member| member.origin.snapshot(now, self.check.is_some()))
            .collect();
        UpstreamSnapshot { name: self.name.clone(), origins }
    }

    /// Changes what an operator wants of the origin of this name. False where there is none.
    pub fn order(&self, origin: &str, order: Order) -> bool {
        let roster = self.roster.load();
        let mut of_name = roster.members.iter().filter(|member| member.origin.name() == origin).peekable();
        let is_known = of_name.peek().is_some();
        of_name.for_each(|member| member.origin.mark(|marks| marks.order = order));
        is_known
    }

    /// How many of `all` transfers at this upstream one client may have under way: its share, and no more
    /// than its connections.
    pub fn client_max(&self, all: usize) -> usize {
        let roster = self.roster.load();
        let connections: usize = roster.members.iter().map(|member| member.origin.pool().client_max()).sum();
        roster.members.first().map_or(all, |member| member.origin.pool().share_of(all)).min(connections)
    }

    /// Whether a client has used up its share of the connections, at every origin.
    pub fn is_spent(&self, client: Option<IpAddr>) -> bool {
        self.roster.load().members.iter().all(|member| member.origin.pool().is_spent(client))
    }

    /// Renews the addresses until the upstream is dropped: to be spawned once, off the data plane. Without it
    /// requests renew them. It begins with a lookup of each name and warns of those that fail.
    pub fn tend(self: &Arc<Self>) -> impl Future<Output = ()> + Send + 'static {
        let upstream = Arc::downgrade(self);
        let every = self.resolve_every.max(Duration::from_secs(1));
        async move { tend(upstream, every).await }
    }

    /// Whether it is checked, so that a [`Upstream::probe`] would say nothing new.
    pub fn is_checked(&self) -> bool {
        self.check.is_some()
    }

    /// Checks the origins until the upstream is dropped: to be spawned once, off the data plane.
    pub fn watch(self: &Arc<Self>, log: CheckLog) -> impl Future<Output = ()> + Send + 'static {
        self.begin_watch();
        tend_checks(Arc::downgrade(self), log)
    }

    /// Origins that the upstream before has handed over are looked at as this one wants.
    fn begin_watch(&self) {
        for member in self.roster.load().members.iter() {
            match &self.check {
                Some(check) => member.origin.checks.lock().hasten(check.every),
                None => member.origin.forget_checks(),
            }
        }
    }

    /// Connects to each origin, off the data plane, to warn of those that are down at the start, and closes
    /// the connections again. Returns how many are down. The log is told of each connection.
    pub async fn probe(&self, log: Option<Arc<dyn AttemptLog>>) -> usize {
        let mut down = 0;
        for member in self.roster().members.iter() {
            let origin = &member.origin;
            let mut track = log.as_ref().map(|log| origin.track(log, Turn::FIRST));
            match new_connection(origin, self.timeouts.connect, &mut track).await {
                Ok(_) => track.into_iter().for_each(|track| track.end(AttemptEnd::Whole)),
                Err(error) => {
                    origin.tell_gone(&error);
                    track.into_iter().for_each(|track| track.fail(&error));
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
            if let Place::Tcp { addresses, .. } = &member.origin.place {
                // The lookup itself warns; the old addresses stay.
                let _ = addresses.renew().await;
            }
        }
        drop(alive);
        tokio::time::sleep(every).await;
    }
}

fn check(settings: &UpstreamSettings) -> Result<(), UpstreamError> {
    let name = || settings.name.clone();
    if !settings.origins.iter().any(|origin| origin.role == Role::Primary) {
        return Err(UpstreamError::NoPrimary { name: name() });
    }
    if settings.origins.iter().any(|origin| !(1..=1000).contains(&origin.weight)) {
        return Err(UpstreamError::Range { name: name(), what: "weight", range: "1 to 1000" });
    }
    if settings.bounds.connections_max == 0 {
        return Err(UpstreamError::Range { name: name(), what: "connections", range: "at least 1" });
    }
    Ok(())
}
