//! One origin of an upstream: where it is, its connections, its health, and what was counted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;
use weir_client::{
    Blame, ExchangeError, Failure, Pool, PoolBounds, Resolver, Seen, Server, ServerSettings, SetupError,
    Stage, Trace,
};

use crate::again::track::{AttemptLog, Track, Turn};
use crate::choice::load::Load;
use crate::choice::pick::{self, PickCounts};
use crate::choice::roster::Signal;
use crate::clock;
use crate::gauges::Gauges;
use crate::health::agent;
use crate::health::agent::said::Said;
use crate::health::check::record::Record;
use crate::health::check::state::State;
use crate::health::conduct::{Conduct, Met};
use crate::health::ejection::{Cause, Event, Health, Suspect, Verdict};
use crate::health::notice::Notice;
use crate::health::ramp::Ramp;
use crate::health::standing::{Marks, Naming, Order, Standing};
use crate::settings::{Ejection, OriginAddress, OriginSettings, TlsSettings, UpstreamSettings};
use crate::snapshot::OriginSnapshot;

/// One origin of an upstream.
#[derive(Debug)]
pub struct Origin {
    name: Arc<str>,
    address: OriginAddress,
    at: Option<SocketAddr>,
    pub(crate) server: Server,
    /// What its TLS was made of.
    tls: TlsSettings,
    ejection: ArcSwap<Ejection>,
    /// How it has answered of late, where it is left out for that.
    pub(crate) conduct: ArcSwapOption<Conduct>,
    marks: Mutex<Marks>,
    pub(crate) load: Load,
    /// The number of its name.
    pub(crate) seed: u64,
    pub(crate) picks: PickCounts,
    /// When a session's request was sent here last, in seconds of the upstream's clock, and one more; 0 where
    /// none was.
    followed_s: AtomicU32,
    signal: Arc<Signal>,
    health: Mutex<Health>,
    /// What operators were told last, with the error.
    notice: Mutex<(Notice, String)>,
    /// Why DNS has found no address of its name.
    missing: Mutex<String>,
    /// Whether `health` is anything but up without failures. Where it is not, the lock is not taken.
    troubled: AtomicBool,
    pub(crate) counts: Counts,
    pub(crate) checks: Mutex<Record>,
    /// How far it is with its share.
    pub(crate) ramp: Mutex<Ramp>,
    pub(crate) agent: Mutex<agent::record::Record>,
    gauges: Arc<Gauges>,
}

/// What happened since the start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) retries: AtomicU64,
    /// By [`Cause`].
    pub(crate) ejections: [AtomicU64; Cause::ALL.len()],
}

/// A request under way at an origin, until it is dropped.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Origin>);

impl Busy {
    /// A request begins.
    pub(crate) fn begin(origin: &Arc<Origin>) -> Busy {
        origin.load.begin();
        Busy(origin.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.load.end();
        if !self.0.signal.moves.is_empty() {
            self.0.signal.moves.offer(&self.0);
        }
    }
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Origin {
    /// The origin as configured, e.g. `https://a.example:443`, for logs and metrics.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// [`Origin::name`], shared.
    pub fn name_shared(&self) -> &Arc<str> {
        &self.name
    }

    /// Where it is.
    pub fn address(&self) -> &OriginAddress {
        &self.address
    }

    /// What is known of it besides what Weir sees itself.
    pub fn gauges(&self) -> &Arc<Gauges> {
        &self.gauges
    }

    /// The one address that it is at, of those that its name has.
    pub(crate) fn at(&self) -> Option<SocketAddr> {
        self.at
    }

    /// Whether DNS does not name it any more.
    pub(crate) fn is_unnamed(&self) -> bool {
        self.naming().is_gone()
    }

    /// What DNS says of it.
    pub(crate) fn naming(&self) -> Naming {
        self.marks.lock().dns
    }

    /// Makes an origin; nothing is looked up or connected.
    pub(crate) fn new(
        settings: &OriginSettings,
        upstream: &UpstreamSettings,
        (signal, resolver): (&Arc<Signal>, &Resolver),
    ) -> Result<Self, SetupError> {
        let name: Arc<str> = settings.name().into();
        let load = signal.board.add(upstream.bounds.connections_max);
        let server = ServerSettings {
            address: &settings.address,
            at: settings.at,
            tls: &upstream.tls,
            resolve_every: upstream.resolve_every,
            resolve_max: upstream.timeouts.connect,
            bounds: PoolBounds::of(&upstream.bounds, upstream.timeouts.queue),
        };
        let server = Server::new(&server, resolver, Some(Arc::new(load.clone())))?;
        Ok(Self {
            seed: pick::seed(&name),
            name,
            address: settings.address.clone(),
            at: settings.at,
            server,
            tls: upstream.tls.clone(),
            ejection: ArcSwap::from_pointee(upstream.ejection.clone()),
            conduct: ArcSwapOption::empty(),
            marks: Mutex::default(),
            load,
            picks: PickCounts::default(),
            followed_s: AtomicU32::new(0),
            signal: signal.clone(),
            health: Mutex::new(Health::new(clock::now())),
            notice: Mutex::new((Notice::NONE, String::new())),
            missing: Mutex::default(),
            troubled: AtomicBool::new(false),
            counts: Counts::default(),
            checks: Mutex::default(),
            ramp: Mutex::new(Ramp::Whole),
            agent: Mutex::default(),
            gauges: Arc::default(),
        })
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        self.server.pool()
    }

    /// An attempt here begins, of which a log is to be told.
    pub(crate) fn track(&self, log: &Arc<dyn AttemptLog>, turn: Turn, begun: Instant) -> Box<dyn Trace> {
        Track::begin(log, (&self.name, self.server.only_address()), (turn, begun))
    }

    /// Whether it is this origin in an upstream of these settings: its connections and its health are what
    /// those of a new one would become.
    pub(crate) fn is_made_of(&self, wanted: &OriginSettings, upstream: &UpstreamSettings) -> bool {
        let is_same_tls = !matches!(self.address, OriginAddress::Https { .. }) || self.tls == upstream.tls;
        (&self.address, self.at) == (&wanted.address, wanted.at) && is_same_tls
    }

    /// Whether it is at this address.
    pub(crate) fn is_at(&self, socket: SocketAddr) -> bool {
        self.server.addresses().is_some_and(|addresses| addresses.has(socket))
    }

    /// Takes over what other settings say that concerns no connection.
    pub(crate) fn follow(&self, upstream: &UpstreamSettings) {
        self.pool().rebind(PoolBounds::of(&upstream.bounds, upstream.timeouts.queue));
        self.load.set_room(self.pool().open_max());
        self.ejection.store(Arc::new(upstream.ejection.clone()));
        self.begin_conduct(&upstream.ejection);
        self.gauges.follow(&upstream.sources);
        self.gauges.follow_reports(upstream.reports.as_ref());
        if let Some(addresses) = self.server.addresses() {
            addresses.retime(upstream.resolve_every, upstream.timeouts.connect);
        }
    }

    /// How it stands now.
    pub(crate) fn standing(&self) -> Standing {
        self.marks.lock().standing(self.health().is_up())
    }

    /// Whether it takes requests of its sessions.
    pub(crate) fn takes_sessions(&self) -> bool {
        self.marks.lock().takes_sessions(self.health().is_up())
    }

    /// Changes what is said of it.
    pub(crate) fn mark(&self, change: impl FnOnce(&mut Marks)) {
        let mut marks = self.marks.lock();
        let before = *marks;
        change(&mut marks);
        let is_other = *marks != before;
        drop(marks);
        if is_other {
            self.signal.change();
        }
    }

    /// Its name was looked up in vain, and no address is known of it.
    pub(crate) fn miss(&self, why: &str) {
        why.clone_into(&mut self.missing.lock());
        self.mark(|marks| marks.dns = Naming::Unfound);
    }

    /// It takes no share before its first successful check.
    pub(crate) fn await_check(&self) {
        self.checks.lock().state = State::New;
        self.mark(|marks| marks.is_down = true);
    }

    /// Whether it waits for its first check.
    pub(crate) fn is_unchecked(&self) -> bool {
        self.is_down() && self.checks.lock().is_awaited()
    }

    /// Its first check has failed: requests need not wait for it any longer.
    pub(crate) fn tell_checked(&self) {
        self.signal.change();
    }

    /// Puts another process's knowledge of its checks in place.
    pub(crate) fn carry_check(&self, state: State) {
        self.checks.lock().state = state;
        self.mark(|marks| marks.is_down = !state.is_up());
    }

    /// It is checked no longer.
    pub(crate) fn forget_checks(&self) {
        *self.checks.lock() = Record::default();
        self.mark(|marks| marks.is_down = false);
    }

    /// It has no agent any more.
    pub(crate) fn forget_agent(&self) {
        *self.agent.lock() = agent::record::Record::default();
        self.heed(Said::default());
    }

    /// What its agent has said is in force from now on.
    pub(crate) fn heed(&self, said: Said) {
        self.pool().limit(said.connections);
        self.load.set_room(self.pool().open_max());
        self.mark(|marks| marks.agent = said);
    }

    /// The factor of its agent on its weight, in percent.
    pub(crate) fn percent(&self) -> u32 {
        self.marks.lock().agent.percent
    }

    /// Whether nothing is under way: no request, tunnel or event stream.
    pub(crate) fn is_empty(&self) -> bool {
        self.load.requests() == 0 && self.pool().usage().streams == 0
    }

    /// Its health now.
    pub(crate) fn health(&self) -> Health {
        *self.health.lock()
    }

    /// Whether its checks say that it is down.
    pub(crate) fn is_down(&self) -> bool {
        self.marks.lock().is_down
    }

    /// The average time to the first byte; zero where it is not known.
    pub(crate) fn latency(&self, now: Instant) -> Duration {
        Duration::from_micros(self.load.latency_us(self.signal.time_ms(now)).into())
    }

    /// Puts another process's average in place.
    pub(crate) fn set_latency(&self, latency: Duration) {
        let us = u32::try_from(latency.as_micros()).unwrap_or(u32::MAX);
        self.load.measure(us, self.signal.time_ms(clock::now()));
    }

    /// Puts another process's knowledge of its health in place.
    pub(crate) fn set_health(&self, health: Health) {
        *self.health.lock() = health;
        self.troubled.store(true, Ordering::Relaxed);
        self.signal.change();
    }

    /// A request is sent here for its session.
    pub(crate) fn follow_session(&self, now: Instant) {
        self.followed_s.store(self.signal.time_s(now).saturating_add(1), Ordering::Relaxed);
    }

    /// For how long no session's request was sent here; `None` where none ever was.
    pub(crate) fn unfollowed_for(&self, now: Instant) -> Option<Duration> {
        let last_s = self.followed_s.load(Ordering::Relaxed).checked_sub(1)?;
        Some(Duration::from_secs(self.signal.time_s(now).saturating_sub(last_s).into()))
    }

    /// Begins a trial with a request if one is due. At most one request in each backoff begins one.
    pub(crate) fn begin_trial(&self, suspect: Suspect, now: Instant) -> bool {
        if !self.troubled.load(Ordering::Relaxed) {
            return false;
        }
        let mut health = self.health.lock();
        let due = health.is_due(now) && health.may_try(suspect);
        if due {
            // It stays out of its lane until the trial has ended.
            *health = health.on(Event::TrialBegun, now, &self.ejection.load());
        }
        due
    }

    /// Whether the next request would begin a trial.
    pub(crate) fn is_trial_due(&self, now: Instant) -> bool {
        self.troubled.load(Ordering::Relaxed) && self.health.lock().is_due(now)
    }

    /// Notes that a response's head came after so long.
    pub(crate) fn measure(&self, waited: Duration, now: Instant) {
        let us = u32::try_from(waited.as_micros()).unwrap_or(u32::MAX);
        self.load.measure(us, self.signal.time_ms(now));
    }

    /// Notes that no response came in this time.
    pub(crate) fn measure_failure(&self, waited: Duration) {
        let us = u32::try_from(waited.as_micros()).unwrap_or(u32::MAX);
        self.load.measure_failure(us, self.signal.time_ms(clock::now()));
    }

    /// When it is left out.
    pub(crate) fn ejection(&self) -> Arc<Ejection> {
        self.ejection.load_full()
    }

    /// What a status says about it.
    pub(crate) fn verdict(&self, status: http::StatusCode) -> Verdict {
        if self.ejection.load().is_failure(status) { Verdict::Bad } else { Verdict::Good }
    }

    /// Notes how an exchange has ended.
    pub(crate) fn note(&self, event: Event) {
        self.note_with(event, Cause::Failures);
    }

    /// Notes how an exchange has ended, and why the origin is ejected if it is.
    pub(crate) fn note_with(&self, event: Event, cause: Cause) {
        if matches!(event, Event::Success | Event::Answered) && !self.troubled.load(Ordering::Relaxed) {
            return;
        }
        if matches!(event, Event::Success | Event::Answered) {
            self.tell_back();
        }
        let now = clock::now();
        let mut health = self.health.lock();
        let before = *health;
        *health = before.on(event, now, &self.ejection.load());
        if let (Event::Failure(_), Health::Ejected { cause: of, .. }) = (event, &mut *health)
            && !matches!(before, Health::Ejected { .. })
        {
            *of = cause;
        }
        let after = *health;
        drop(health);
        let is_told = self.notice.lock().0.is_gone();
        self.troubled.store(is_told || !matches!(after, Health::Up { failures: 0, .. }), Ordering::Relaxed);
        if before.is_up() != after.is_up() {
            self.conduct.load().iter().for_each(|conduct| conduct.forget());
            self.signal.change();
        }
        if let Health::Ejected { backoff, .. } = after
            && !matches!(before, Health::Ejected { .. })
        {
            count(&self.counts.ejections[cause as usize]);
            let backoff_ms = backoff.as_millis() as u64;
            tracing::info!(origin = %self.name, cause = cause.word(), backoff_ms, "origin ejected");
        }
    }

    /// Notes a failed attempt, if it counts against the origin ([`Failure::counts`]), with what may have
    /// caused it besides the origin.
    pub(crate) fn failed_attempt(&self, failure: &Failure, suspect: Option<Suspect>) {
        if failure.counts() {
            count(&self.counts.failures);
            self.note(Event::Failure(suspect));
            if failure.stage == Stage::NotConnected || !self.health().is_up() {
                self.tell_gone(&failure.error);
            }
        }
    }

    /// Warns that the origin cannot be used, unless that was done already.
    pub(crate) fn tell_gone(&self, seen: &ExchangeError) {
        let mut notice = self.notice.lock();
        let (next, is_said) = notice.0.gone(clock::now());
        notice.0 = next;
        if is_said {
            notice.1 = Seen(seen).to_string();
        }
        drop(notice);
        // One failure that a single client may have caused leaves its health as it was.
        self.troubled.store(true, Ordering::Relaxed);
        if is_said {
            tracing::warn!(origin = %self.name, seen = %Seen(seen), "origin is gone; it is still tried");
        }
    }

    /// The error with which it was reported as gone; `None` where it is back.
    pub(crate) fn failing(&self) -> Option<String> {
        let notice = self.notice.lock();
        notice.0.is_gone().then(|| notice.1.clone())
    }

    fn tell_back(&self) {
        let mut notice = self.notice.lock();
        let (next, lasted) = notice.0.answered(clock::now());
        notice.0 = next;
        drop(notice);
        if let Some(lasted) = lasted {
            tracing::warn!(origin = %self.name, gone_ms = lasted.as_millis() as u64, "origin is back");
        }
    }

    /// Notes a response with a bad status, with what may have caused it besides the origin.
    pub(crate) fn answered_badly(&self, suspect: Option<Suspect>) {
        count(&self.counts.failures);
        self.note_with(Event::Failure(suspect), Cause::Status);
    }

    /// Notes that a body broke off, with what may have caused it besides the origin.
    pub(crate) fn failed(&self, error: &ExchangeError, suspect: Suspect) {
        if error.blame() == Blame::Origin {
            count(&self.counts.failures);
            self.met(Met::Break, suspect, clock::now());
            self.note(Event::Failure(suspect.of_break()));
            if !self.health().is_up() {
                self.tell_gone(error);
            }
        }
    }

    /// Why it takes no share, as far as checks and the agent are the reason.
    fn why(&self) -> String {
        let marks = *self.marks.lock();
        let standing = marks.standing(self.health().is_up());
        match marks.dns {
            Naming::Sought if standing == Standing::Down => {
                return "its name was not looked up yet".to_owned();
            }
            Naming::Unfound if standing == Standing::Down => {
                return format!("its name was not found yet: {}", self.missing.lock());
            }
            _ => {}
        }
        if standing == Standing::Down && marks.is_down {
            return self.checks.lock().why_down();
        }
        let is_agents = match standing {
            Standing::Down => true,
            Standing::Maintenance => marks.order < marks.agent.order,
            Standing::Draining => marks.order < marks.agent.order.max(Order::Drain) && !marks.dns.is_gone(),
            Standing::Ready | Standing::Ejected => false,
        };
        if !is_agents {
            return String::new();
        }
        let agent = self.agent.lock();
        match agent.reason() {
            "" => "its agent says so".to_owned(),
            reason => format!("its agent says: {reason}"),
        }
    }

    /// What it has done and holds.
    pub(crate) fn snapshot(&self, now: Instant, (is_checked, has_agent): (bool, bool)) -> OriginSnapshot {
        let usage = self.pool().usage();
        let check = is_checked.then(|| self.checks.lock().snapshot(now));
        let agent = has_agent.then(|| self.agent.lock().snapshot(now));
        let counts = &self.counts;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        OriginSnapshot {
            name: self.name.to_string(),
            standing: self.standing(),
            in_flight: self.load.requests(),
            requests: of(&counts.requests),
            failures: of(&counts.failures),
            retries: of(&counts.retries),
            connects: usage.connects,
            reuses: usage.reuses,
            busy: usage.busy,
            ejections: Cause::ALL.map(|cause| (cause.word(), of(&counts.ejections[cause as usize]))),
            connections_open: usage.open,
            connections_idle: usage.idle,
            waiting: usage.waiting,
            streams: usage.streams,
            addresses: self.server.addresses().map_or(1, |addresses| addresses.count()),
            ejected_for: match self.health() {
                Health::Up { .. } => None,
                health => Some(health.due(now).saturating_duration_since(now)),
            },
            ejected_as: self.health().phrase(),
            check,
            agent,
            why: self.why(),
            latency: self.latency(now),
            picks: self.picks.counted(),
        }
    }
}
