//! `origin-faults`: the scenario's own origin is slow, truncates, lies about ranges, changes in the middle,
//! fails, hangs up, dies and comes back. Whatever it does, no client may get a wrong byte or a cut body that
//! seems whole, and afterwards everything is served again.

use std::time::Duration;

use serde::Deserialize;

use crate::plan::StressError;
use crate::scenario::catalogue::{Lifetime, Part, Wrong};
use crate::scenario::client::{Ask, Failure, Response, failure};
use crate::scenario::module::{Module, check_time, check_users};
use crate::scenario::sizes::{Bytes, Sizes};
use crate::scenario::stage::{Measured, Stage, judge_bytes};
use crate::tally::Fault;

/// A pause after a request that failed, so that a server is not stormed.
const REST: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct OriginFaults {
    users: usize,
    /// Seconds of each fault.
    seconds: f64,
    /// What happens, one after the other.
    faults: Vec<Kind>,
    size: Bytes,
    objects: u64,
    /// Seconds within which everything must be served again once the origin is well.
    recovery: f64,
    timeout: f64,
}

impl Default for OriginFaults {
    fn default() -> Self {
        let faults = Kind::ALL.to_vec();
        let (size, recovery, timeout) = (Bytes(300_000), 15.0, 10.0);
        Self { users: 8, seconds: 2.0, faults, size, objects: 20, recovery, timeout }
    }
}

/// What the origin does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Slow,
    Truncates,
    Lies,
    Changes,
    Fails,
    HangsUp,
    Dies,
}

impl Kind {
    const ALL: [Self; 7] =
        [Self::Slow, Self::Truncates, Self::Lies, Self::Changes, Self::Fails, Self::HangsUp, Self::Dies];

    fn word(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Truncates => "truncates",
            Self::Lies => "lies",
            Self::Changes => "changes",
            Self::Fails => "fails",
            Self::HangsUp => "hangs_up",
            Self::Dies => "dies",
        }
    }

    fn wrong(self) -> Wrong {
        match self {
            Self::Slow | Self::Dies => Wrong::Nothing,
            Self::Truncates => Wrong::Truncates,
            Self::Lies => Wrong::Lies,
            Self::Changes => Wrong::Changes,
            Self::Fails => Wrong::Fails,
            Self::HangsUp => Wrong::HangsUp,
        }
    }
}

impl Module for OriginFaults {
    fn check(&self) -> Result<(), String> {
        check_users(self.users)?;
        for (name, seconds) in
            [("seconds", self.seconds), ("recovery", self.recovery), ("timeout", self.timeout)]
        {
            check_time(name, seconds)?;
        }
        match !self.faults.is_empty() && self.objects > 0 && self.size.0 > 1 {
            true => Ok(()),
            false => Err("`faults` has one or more, `objects` and `size` are above 0".to_owned()),
        }
    }

    fn runs_alone(&self) -> bool {
        self.faults.contains(&Kind::Dies)
    }

    fn run(&self, stage: &Stage) -> Result<Measured, StressError> {
        let mut all = Measured::new(stage);
        for kind in &self.faults {
            let mut one = self.run_one(stage, *kind)?;
            all.tally.add(&one.tally);
            all.figures.append(&mut one.figures);
            all.notes.append(&mut one.notes);
        }
        Ok(all)
    }
}

impl OriginFaults {
    fn run_one(&self, stage: &Stage, kind: Kind) -> Result<Measured, StressError> {
        let prefix = stage.cold(kind.word());
        let mut part = Part::new(&prefix, Sizes::One(self.size.0));
        part.lifetime = Lifetime::Seconds(1);
        if kind == Kind::Slow {
            part.rate = Some((self.size.0 as f64 / self.seconds).ceil() as u64);
        }
        part.set_wrong(kind.wrong());
        let part = stage.catalogue.add(part);
        if kind == Kind::Dies {
            stage.origin.die();
        }
        let mut measured = self.ask_around(stage, kind, &prefix)?;
        part.set_wrong(Wrong::Nothing);
        if kind == Kind::Slow {
            let mut quick = Part::new(&prefix, Sizes::One(self.size.0));
            quick.lifetime = part.lifetime;
            stage.catalogue.add(quick);
        }
        if kind == Kind::Dies {
            stage.origin.come_back();
        }
        // What the origin changed meanwhile, and its lies, are over: all must be right again.
        let (took_s, failures) = self.recover(stage, &prefix)?;
        for failure in failures {
            let detail = format!("after `{}` was over: {}", kind.word(), failure.detail);
            measured.fault(&Failure { detail, ..failure });
        }
        measured.figure(format!("{}_recovery_s", kind.word()), took_s);
        Ok(measured)
    }

    /// Users that ask while the fault lasts.
    fn ask_around(&self, stage: &Stage, kind: Kind, prefix: &str) -> Result<Measured, StressError> {
        let end_ns = stage.end_ns(self.seconds);
        let mut measured = stage.measure(self.users, |at, sheet| {
            let (stage, settings, prefix) = (stage.clone(), self.clone(), prefix.to_owned());
            async move {
                let mut client = stage.client(settings.timeout);
                let mut rng = fastrand::Rng::with_seed(stage.seed ^ at as u64);
                while !stage.is_past(end_ns) {
                    let path = format!("{prefix}{}", rng.u64(..settings.objects));
                    let asked = settings.asked(kind, &mut rng);
                    let mut ask = Ask::get(path.clone());
                    if let Some((start, end)) = asked {
                        ask = ask.with("Range", format!("bytes={start}-{}", end - 1));
                    }
                    let got = client.ask(&ask, stage.expect(&path)).await;
                    let judged = verdict(&stage, &path, asked, got);
                    write_down(kind, judged, &mut sheet.borrow_mut());
                    tokio::time::sleep(REST).await;
                }
            }
        })?;
        for name in ["whole", "visible"] {
            measured.count(&format!("{}_{name}", kind.word()), 0.0);
        }
        Ok(measured)
    }

    /// The range that is asked for: the origin lies about those alone.
    fn asked(&self, kind: Kind, rng: &mut fastrand::Rng) -> Option<(u64, u64)> {
        let start = rng.u64(0..self.size.0 / 2);
        (kind == Kind::Lies).then_some((start, start + self.size.0 / 4))
    }

    /// Asks for every object until all are right. Returns how long that took, and what was still wrong when
    /// the time was over.
    fn recover(&self, stage: &Stage, prefix: &str) -> Result<(f64, Vec<Failure>), StressError> {
        let begun_ns = stage.clock.nanoseconds();
        let end_ns = stage.end_ns(self.recovery);
        let measured = stage.measure(1, |_, sheet| {
            let (stage, settings, prefix) = (stage.clone(), self.clone(), prefix.to_owned());
            async move {
                let mut client = stage.client(settings.timeout);
                for at in 0..settings.objects {
                    let path = format!("{prefix}{at}");
                    loop {
                        let got = client.ask(&Ask::get(path.clone()), stage.expect(&path)).await;
                        let Err(failure) = got.and_then(|response| stage.judge(&path, &response)) else {
                            break;
                        };
                        let is_wrong = matches!(failure.fault, Fault::Content | Fault::Length | Fault::Old);
                        if is_wrong || stage.is_past(end_ns) {
                            sheet.borrow_mut().note(format!("{}|{}", failure.fault.word(), failure.detail));
                            break;
                        }
                        tokio::time::sleep(REST).await;
                    }
                }
            }
        })?;
        let took_s = (stage.clock.nanoseconds() - begun_ns) as f64 / 1e9;
        let failures = measured.notes.iter().filter_map(|note| {
            let (word, detail) = note.split_once('|')?;
            let fault = Fault::ALL.into_iter().find(|fault| fault.word() == word)?;
            Some(failure(fault, detail))
        });
        Ok((took_s, failures.collect()))
    }
}

/// Judges what a client got while the origin was unwell. A failure that the client can see is none of the
/// server's; it is counted. What seems whole must be right.
fn verdict(
    stage: &Stage,
    path: &str,
    asked: Option<(u64, u64)>,
    got: Result<Response, Failure>,
) -> Result<(&'static str, Option<Response>), Failure> {
    let response = match got {
        Ok(response) if response.status >= 500 => return Ok(("visible", Some(response))),
        Ok(response) => response,
        Err(failure) => {
            return match failure.fault {
                Fault::Short | Fault::Closed | Fault::Timeout => Ok(("visible", None)),
                _ => Err(failure),
            };
        }
    };
    match (asked, response.range) {
        (Some((start, end)), Some((from, to, _))) if response.status == 206 => {
            judge_bytes(path, &response)?;
            let received = response.body.received;
            if received != to - from {
                return Err(failure(Fault::Range, format!("{from}..{to} of {path} has {received} bytes")));
            }
            // The head says truly that it is another range: a client can see that.
            if (from, to) != (start, end) {
                return Ok(("visible", Some(response)));
            }
        }
        _ => stage.judge(path, &response)?,
    }
    Ok(("whole", Some(response)))
}

/// Counts what a client got.
fn write_down(kind: Kind, judged: Result<(&'static str, Option<Response>), Failure>, sheet: &mut Measured) {
    match judged {
        Ok((name, response)) => {
            if let Some(response) = response {
                sheet.response(&response);
            }
            sheet.count(&format!("{}_{name}", kind.word()), 1.0);
        }
        Err(failure) => sheet.fault(&failure),
    }
}
