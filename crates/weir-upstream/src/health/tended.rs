//! What origins have answered is counted and judged, and their shares grow: what a tended upstream does again
//! and again beside DNS. No request must wait for any of it.

use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use http::StatusCode;
use weir_client::{ExchangeError, Failure};

use crate::clock;
use crate::health::conduct::{Conduct, Counted, Met, slow};
use crate::health::ejection::{Cause, Event, Suspect, Verdict};
use crate::origin::Origin;
use crate::settings::{Ejection, Role};
use crate::upstream::Upstream;

impl Origin {
    /// What it answers is counted from now on, or no longer.
    pub(crate) fn begin_conduct(&self, rules: &Ejection) {
        if rules.is_by_conduct() != self.conduct.load().is_some() {
            let conduct = rules.is_by_conduct().then(|| Arc::new(Conduct::new(clock::now())));
            self.conduct.store(conduct);
        }
    }

    /// Counts what an exchange has shown, with what may be the cause besides the origin.
    pub(crate) fn met(&self, met: Met, suspect: Suspect, now: Instant) {
        if let Some(conduct) = &*self.conduct.load() {
            conduct.note(met, suspect, self.ejection().window, now);
        }
    }

    /// Counts a response's head, which came after so long.
    pub(crate) fn met_head(&self, status: StatusCode, (waited, now): (Duration, Instant), suspect: Suspect) {
        if self.conduct.load().is_some() {
            let met = match self.verdict(status) {
                Verdict::Good => Met::Answer(micros(waited)),
                Verdict::Bad => Met::Failure(None),
            };
            self.met(met, suspect, now);
        }
    }

    /// Counts a failed attempt, if it counts against the origin; `waited` for a response in vain.
    pub(crate) fn met_failure(&self, failure: &Failure, waited: Duration, suspect: Suspect) {
        if failure.counts() {
            let is_late = matches!(failure.error, ExchangeError::FirstByteTimeout);
            self.met(Met::Failure(is_late.then(|| micros(waited))), suspect, clock::now());
        }
    }

    /// What it has answered of late, where that is counted.
    fn counted(&self, now: Instant) -> Option<Counted> {
        let conduct = self.conduct.load_full()?;
        Some(conduct.counted(self.ejection().window, now))
    }

    /// What it takes of its share in percent, if it takes one now, and when that will be more.
    pub(crate) fn ramp(&self, takes_share: bool, now: Instant) -> (u32, Option<Instant>) {
        let over = self.ejection().slow_start;
        let mut ramp = self.ramp.lock();
        *ramp = ramp.on(takes_share, now, over);
        (ramp.percent(now, over), ramp.next(now, over))
    }

    /// Its answers together are bad: it is left out, if it is not already.
    fn condemn(&self, cause: Cause) {
        if self.health().is_up() {
            self.note_with(Event::Condemned(cause), cause);
        }
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

impl Upstream {
    /// Leaves out the origins whose answers together are bad.
    pub(crate) fn judge(&self, now: Instant) {
        let rules = &self.settings.ejection;
        let roster = self.roster();
        for role in [Role::Primary, Role::Backup] {
            let members = roster.members.iter().filter(|member| member.role == role);
            let (origins, counted): (Vec<_>, Vec<_>) =
                members.filter_map(|member| Some((&member.origin, member.origin.counted(now)?))).unzip();
            let slow = match rules.slow {
                Some(factor) => slow(&counted, factor, rules.least),
                None => vec![false; counted.len()],
            };
            for ((origin, counted), is_slow) in origins.into_iter().zip(counted).zip(slow) {
                let is_failing =
                    rules.share_percent.is_some_and(|percent| counted.is_failing(percent, rules.least));
                match (is_failing, is_slow) {
                    (true, _) => origin.condemn(Cause::Share),
                    (false, true) => origin.condemn(Cause::Slow),
                    (false, false) => {}
                }
            }
        }
    }

    /// Judges the origins again and again until the upstream is dropped.
    pub(crate) async fn judge_origins(upstream: Weak<Upstream>) {
        loop {
            let Some(alive) = upstream.upgrade() else { return };
            let rules = &alive.settings.ejection;
            if !rules.is_by_conduct() {
                return;
            }
            let pause = (rules.window / 20).clamp(Duration::from_millis(50), Duration::from_secs(1));
            if !alive.is_succeeded() {
                alive.judge(clock::now());
            }
            drop(alive);
            tokio::time::sleep(pause).await;
        }
    }

    /// Has rosters made while shares grow, until the upstream is dropped.
    pub(crate) async fn grow_shares(upstream: Weak<Upstream>) {
        let Some(signal) =
            upstream.upgrade().filter(|upstream| upstream.is_ramping_up()).map(|up| up.signal.clone())
        else {
            return;
        };
        loop {
            let mut woken = pin!(signal.woken());
            // A change from here on is seen.
            woken.as_mut().enable();
            let Some(alive) = upstream.upgrade() else { return };
            let next = alive.roster().next_step;
            drop(alive);
            let Some(next) = next else {
                woken.await;
                continue;
            };
            tokio::select! {
                () = tokio::time::sleep_until(next.into()) => {
                    if clock::now() >= next {
                        signal.change();
                    }
                }
                () = woken => {}
            }
        }
    }
}
