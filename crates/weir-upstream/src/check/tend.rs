//! Begins the checks of an upstream when they are due, until the upstream is dropped. While a successor of it
//! lives, that one checks. It must not run on the data plane.

use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::ask::{CheckLog, ask};
use super::state::State;
use crate::clock;
use crate::origin::Origin;
use crate::settings::{Bounds, CheckSettings};
use crate::upstream::Upstream;

/// The most checks of an upstream at once.
pub(crate) const RUNNING_MAX: usize = 256;
/// Checks that are due within this time begin together.
const GRAIN: Duration = Duration::from_millis(20);
/// How long to wait where nothing is known to be due.
const IDLE: Duration = Duration::from_secs(3600);

/// Checks the origins of an upstream when they are due.
pub(crate) async fn tend(upstream: Weak<Upstream>, log: CheckLog) {
    let mut running = JoinSet::new();
    let Some(signal) = upstream.upgrade().map(|upstream| upstream.signal.clone()) else { return };
    loop {
        let mut woken = pin!(signal.woken());
        // A change from here on is seen.
        woken.as_mut().enable();
        let Some(alive) = upstream.upgrade() else { return };
        while running.try_join_next().is_some() {}
        let (due, next) = due(&alive, RUNNING_MAX - running.len().min(RUNNING_MAX), clock::now());
        // The time of those that begin now is set by their begin.
        let next = if due.is_empty() { next } else { clock::now() + GRAIN };
        for origin in due {
            let Some(settings) = alive.check.clone() else { break };
            running.spawn(check(Running::begin(origin, &settings), settings, alive.bounds, log.clone()));
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

/// At most so many origins whose check is due, the longest due first, and when to look again.
fn due(upstream: &Upstream, count_max: usize, now: Instant) -> (Vec<Arc<Origin>>, Instant) {
    let idle = now + IDLE;
    if upstream.check.is_none() || upstream.is_succeeded() {
        return (Vec::new(), idle);
    }
    let roster = upstream.roster();
    let mut due = Vec::new();
    let mut next = idle;
    for member in roster.members.iter() {
        let record = member.origin.checks.lock();
        let at = record.due(now, now + GRAIN);
        if record.is_due(now) {
            due.push((at, member.origin.clone()));
        } else {
            next = next.min(at);
        }
    }
    due.sort_by_key(|(at, _)| *at);
    due.truncate(count_max);
    (due.into_iter().map(|(_, origin)| origin).collect(), next.max(now + GRAIN))
}

/// A check under way, until it is dropped.
struct Running(Arc<Origin>);

impl Running {
    fn begin(origin: Arc<Origin>, settings: &CheckSettings) -> Running {
        origin.checks.lock().begin(clock::now(), settings.every, fastrand::f64());
        Running(origin)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.checks.lock().leave();
    }
}

async fn check(running: Running, settings: Arc<CheckSettings>, bounds: Bounds, log: CheckLog) {
    let origin = &running.0;
    let limit = settings.timeout.min(settings.every);
    let result = ask(origin, (&settings.ask, limit), &bounds, &log).await;
    let why = result.err().map(|fault| fault.to_string());
    let rise_and_fall = (settings.rise, settings.fall);
    let (before, after) = origin.checks.lock().end(clock::now(), why.clone(), rise_and_fall);
    tell(origin, before, after, why.as_deref());
    origin.mark(|marks| marks.is_down = !after.is_up());
}

fn tell(origin: &Origin, before: State, after: State, why: Option<&str>) {
    let origin = origin.name();
    match (before.is_up(), after.is_up(), why) {
        (true, false, Some(why)) => tracing::warn!(origin, why, "origin is down: its checks fail"),
        (false, true, _) => tracing::info!(origin, "origin is up: it passes its checks"),
        _ => {}
    }
}
