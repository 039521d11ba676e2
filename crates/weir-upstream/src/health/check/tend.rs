//! Begins the checks of an upstream, and connections to its agents, when they are due, until the upstream is
//! dropped. While a successor of it lives, that one does. It must not run on the data plane.

use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::ask::{CheckLog, ask};
use super::pace::Pace;
use super::state::State;
use super::tempo::{Late, Tempo, TempoChange};
use crate::choice::roster::{Awaits, Member};
use crate::clock;
use crate::health::agent::hear::hear;
use crate::health::agent::record::{Heard, News};
use crate::origin::Origin;
use crate::settings::{AgentSettings, Bounds, CheckSettings};
use crate::upstream::Upstream;

/// The most checks and connections to agents of an upstream at once: those of a thousand origins that all are
/// silent.
pub(crate) const RUNNING_MAX: usize = 1024;
/// What is due within this time begins together.
const GRAIN: Duration = Duration::from_millis(20);
/// How long to wait where nothing is known to be due.
const IDLE: Duration = Duration::from_secs(3600);

/// Checks the origins of an upstream, and asks their agents, when they are due.
pub(crate) async fn tend(upstream: Weak<Upstream>, log: CheckLog) {
    let mut running = JoinSet::new();
    let watched = upstream.upgrade().filter(|upstream| upstream.check.is_some() || upstream.agent.is_some());
    let Some(signal) = watched.map(|upstream| upstream.signal.clone()) else { return };
    let (mut is_any_up, mut tempo) = (true, Tempo::default());
    loop {
        let mut woken = pin!(signal.woken());
        // A change from here on is seen.
        woken.as_mut().enable();
        let Some(alive) = upstream.upgrade() else { return };
        is_any_up = report(&alive, is_any_up);
        while running.try_join_next().is_some() {}
        let (due, late, next) = due(&alive, RUNNING_MAX - running.len().min(RUNNING_MAX), clock::now());
        tell_tempo(alive.name(), tempo.look(late));
        // The time of those that begin now is set by their begin.
        let next = if due.is_empty() { next } else { clock::now() + GRAIN };
        for job in due {
            running.spawn(run(Running::begin(job), alive.bounds, log.clone()));
        }
        drop(alive);
        let is_full = running.len() >= RUNNING_MAX;
        tokio::select! {
            () = tokio::time::sleep_until(next.into()), if !is_full => {}
            _ = running.join_next(), if is_full => {}
            () = woken => tokio::time::sleep(GRAIN).await,
        }
    }
}

/// Reports that no origin takes a share any more, or that one does again. Whether one does.
fn report(upstream: &Upstream, was_any_up: bool) -> bool {
    let roster = upstream.roster();
    let is_any_up = roster.members.iter().any(|member| member.origin.standing().takes_share());
    // DNS, or the first checks, have still to say.
    if !is_any_up && roster.awaits != Awaits::Nothing {
        return was_any_up;
    }
    let upstream = upstream.name();
    match (was_any_up, is_any_up) {
        (true, false) => tracing::error!(upstream, "{}", said_of(roster.members.iter())),
        (false, true) => tracing::warn!(upstream, "an origin of the upstream is up again"),
        _ => {}
    }
    is_any_up
}

/// What is said where no origin takes a share.
fn said_of<'m>(mut members: impl Iterator<Item = &'m Member>) -> &'static str {
    match members.any(|member| member.origin.standing().is_last_resort()) {
        true => "no origin of the upstream is up; Weir still tries one",
        false => "no origin of the upstream takes requests: all drain or are in maintenance",
    }
}

/// What is done to an origin again and again.
#[derive(Clone)]
enum Kind {
    Check(Arc<CheckSettings>),
    Agent(Arc<AgentSettings>),
}

/// It, at one origin.
struct Job {
    kind: Kind,
    origin: Arc<Origin>,
}

impl Job {
    /// Its times.
    fn pace<T>(&self, with: impl FnOnce(&mut Pace) -> T) -> T {
        match self.kind {
            Kind::Check(_) => with(&mut self.origin.checks.lock().pace),
            Kind::Agent(_) => with(&mut self.origin.agent.lock().pace),
        }
    }
}

/// Says that checks begin too late, and that they no longer do.
fn tell_tempo(upstream: &str, change: Option<TempoChange>) {
    match change {
        Some(TempoChange::Behind(waiting)) => tracing::warn!(
            upstream,
            waiting,
            at_once = RUNNING_MAX,
            "checks begin too late: as many are under way as may be; raise `every` or lower `timeout`"
        ),
        Some(TempoChange::Kept) => tracing::warn!(upstream, "checks begin in time again"),
        None => {}
    }
}

/// At most so many jobs that are due, the longest due first; how many more are, for how long; and when to
/// look again.
fn due(upstream: &Upstream, count_max: usize, now: Instant) -> (Vec<Job>, Late, Instant) {
    let mut next = now + IDLE;
    if upstream.is_succeeded() {
        return (Vec::new(), Late::default(), next);
    }
    let kinds = [upstream.check.clone().map(Kind::Check), upstream.agent.clone().map(Kind::Agent)];
    let roster = upstream.roster();
    let mut due = Vec::new();
    for kind in kinds.into_iter().flatten() {
        for member in roster.members.iter() {
            let job = Job { kind: kind.clone(), origin: member.origin.clone() };
            let of = |pace: &mut Pace| (pace.is_due(now), pace.begun.is_some(), pace.due(now, now + GRAIN));
            let (is_due, is_later, at) = job.pace(of);
            match is_due {
                true => due.push((is_later, at, job)),
                false => next = next.min(at),
            }
        }
    }
    // A first one comes before all others.
    due.sort_by_key(|(is_later, at, _)| (*is_later, *at));
    let late = due.split_off(count_max.min(due.len()));
    let since = late.iter().map(|(_, at, _)| *at).min().unwrap_or(now);
    let late = Late { waiting: late.len(), time: now.saturating_duration_since(since) };
    (due.into_iter().map(|(_, _, job)| job).collect(), late, next.max(now + GRAIN))
}

/// A job under way, until it is dropped.
struct Running(Job);

impl Running {
    fn begin(job: Job) -> Running {
        let every = match &job.kind {
            Kind::Check(settings) => settings.every,
            Kind::Agent(settings) => settings.every,
        };
        job.pace(|pace| pace.begin(clock::now(), every, fastrand::f64()));
        Running(job)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.pace(Pace::leave);
    }
}

async fn run(running: Running, bounds: Bounds, log: CheckLog) {
    let origin = &running.0.origin;
    match &running.0.kind {
        Kind::Check(settings) => check(origin, settings, &bounds, &log).await,
        Kind::Agent(settings) => listen(origin, settings).await,
    }
}

async fn check(origin: &Origin, settings: &CheckSettings, bounds: &Bounds, log: &CheckLog) {
    let limit = settings.timeout.min(settings.every);
    let result = ask(origin, (&settings.ask, limit), bounds, log).await;
    let why = result.err().map(|fault| fault.to_string());
    let rise_and_fall = (settings.rise, settings.fall);
    let mut record = origin.checks.lock();
    let was_awaited = record.is_awaited();
    let (before, after) = record.end(clock::now(), why.clone(), rise_and_fall);
    drop(record);
    tell(origin, before, after, why.as_deref());
    origin.mark(|marks| marks.is_down = !after.is_up());
    if was_awaited && !after.is_up() {
        origin.tell_checked();
    }
}

fn tell(origin: &Origin, before: State, after: State, why: Option<&str>) {
    let origin = origin.name();
    match (before.is_up(), after.is_up(), why) {
        (true, false, Some(why)) => tracing::warn!(origin, why, "origin is down: its checks fail"),
        (false, true, _) => tracing::warn!(origin, "origin is up: it passes its checks"),
        _ => {}
    }
}

async fn listen(origin: &Origin, settings: &AgentSettings) {
    let heard = hear(&origin.server, settings).await;
    let mut record = origin.agent.lock();
    let news = record.hear(&heard, clock::now());
    let (said, line) = (record.said, record.line().to_owned());
    drop(record);
    if matches!(heard, Heard::Line(_)) {
        origin.gauges().hear_agent(said.percent, settings.every);
    }
    let name = origin.name();
    match news {
        Some(News::Says) => tracing::info!(origin = name, line, "the origin's agent speaks"),
        Some(News::Scales) => tracing::debug!(origin = name, line, "the origin's agent speaks"),
        Some(News::Wonders(word)) => {
            tracing::warn!(origin = name, line, word, "the origin's agent says a word that means nothing");
        }
        Some(News::Gone) => {
            tracing::warn!(origin = name, "the origin's agent says nothing; what it said last still holds");
        }
        None => {}
    }
    origin.heed(said);
}
