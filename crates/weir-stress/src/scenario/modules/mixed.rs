//! `mixed`: a recorded log, or a description of traffic, played at its own or a given speed.
//!
//! Requests begin when they are due, and their times count from then: a server that stalls is not spared the
//! requests that it held up.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;

use serde::Deserialize;
use xxhash_rust::xxh3::xxh3_64;

use crate::args::Pick;
use crate::pick::Picker;
use crate::plan::StressError;
use crate::scenario::catalogue::Part;
use crate::scenario::client::{Ask, Client};
use crate::scenario::module::{Module, check_time, check_users};
use crate::scenario::playlog::{self, Log, Row};
use crate::scenario::sizes::{Bytes, Sizes};
use crate::scenario::stage::{Measured, Stage};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Mixed {
    /// A recorded log: lines of the common or combined log format, or JSON lines with `time`, `path` and
    /// `bytes`.
    log: Option<PathBuf>,
    /// How much faster than recorded.
    speed: f64,
    /// Ends after so many seconds; a log that is shorter begins again.
    seconds: Option<f64>,
    /// A description instead of a log.
    traffic: Vec<Kind>,
    /// Requests a second, with a description.
    rate: f64,
    /// The most requests at a time.
    users: usize,
    timeout: f64,
}

/// One kind of request of a description.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    /// With `{}` for the object's number.
    path: String,
    #[serde(default = "one_weight")]
    weight: f64,
    #[serde(default = "hundred")]
    objects: u64,
    #[serde(default = "zipf")]
    pick: Pick,
    #[serde(default)]
    wonders: f64,
    /// The share of these requests that ask for a range, which begins and ends anywhere.
    #[serde(default)]
    ranges: f64,
    /// The share that asks with `Cache-Control: no-cache` (RFC 9111 §5.2.1.4).
    #[serde(default)]
    no_cache: f64,
    /// The share whose clients take `take` bytes a second.
    #[serde(default)]
    slow: f64,
    #[serde(default = "megabyte")]
    take: Bytes,
    /// The share whose clients leave in the middle of the body.
    #[serde(default)]
    leave: f64,
    /// The size of these objects, where no part of the origin has them.
    #[serde(default)]
    size: Option<Sizes>,
}

impl Default for Mixed {
    fn default() -> Self {
        let (speed, rate, users, timeout) = (1.0, 100.0, 256, 30.0);
        Self { log: None, speed, seconds: None, traffic: Vec::new(), rate, users, timeout }
    }
}

fn one_weight() -> f64 {
    1.0
}

fn hundred() -> u64 {
    100
}

fn megabyte() -> Bytes {
    Bytes(1_000_000)
}

fn zipf() -> Pick {
    Pick::Zipf(0.9)
}

impl Module for Mixed {
    fn check(&self) -> Result<(), String> {
        check_users(self.users)?;
        check_time("timeout", self.timeout)?;
        self.seconds.map_or(Ok(()), |seconds| check_time("seconds", seconds))?;
        let is_some = |number: f64| number.is_finite() && number > 0.0;
        if !is_some(self.speed) || !is_some(self.rate) {
            return Err("`speed` and `rate` are above 0".to_owned());
        }
        if self.log.is_some() != self.traffic.is_empty() {
            return Err("write either `log` or `[[module.traffic]]`".to_owned());
        }
        if let Some(log) = &self.log {
            let opened = std::fs::File::open(log);
            opened.map_err(|error| format!("`log`: {}: {error}", log.display()))?;
        }
        for kind in &self.traffic {
            let shares = [kind.wonders, kind.ranges, kind.no_cache, kind.slow, kind.leave];
            let is_right = kind.path.starts_with('/')
                && is_some(kind.weight)
                && kind.objects > 0
                && kind.take.0 > 0
                && shares.iter().all(|share| (0.0..=1.0).contains(share));
            if !is_right {
                return Err(format!(
                    "traffic `{}`: a path begins with /, `weight`, `objects` and `take` are above 0, \
                     `wonders`, `ranges`, `no_cache`, `slow` and `leave` are shares from 0 to 1",
                    kind.path
                ));
            }
        }
        Ok(())
    }

    fn run(&self, stage: &Stage) -> Result<Measured, StressError> {
        let mut said = None;
        let script = match &self.log {
            Some(path) => {
                let log = self.recorded(stage, path)?;
                said = log.first_passed_over.map(|first| {
                    let (lines, played) = (log.passed_over, log.rows.len());
                    format!("lines of the log: {played} are played, {lines} passed over, the first: {first}")
                });
                Script::Log(log.rows)
            }
            None => Script::Described(self.described(stage)),
        };
        let seconds = self.seconds.unwrap_or_else(|| script.seconds(self));
        let end_ns = stage.end_ns(seconds);
        let player = Rc::new(Player {
            begun_ns: stage.clock.nanoseconds(),
            next: Cell::new(0),
            script: std::cell::RefCell::new(script),
            settings: self.clone(),
        });
        let mut measured = stage.measure(self.users, |_, sheet| {
            let (stage, player) = (stage.clone(), player.clone());
            async move {
                let mut client = stage.client(player.settings.timeout);
                while let Some((due_ns, step)) = player.next() {
                    if due_ns >= end_ns || stage.is_stopped() {
                        return;
                    }
                    match stage.due(due_ns, player.settings.timeout).await {
                        Ok(late_ns) => step.play(&stage, &mut client, late_ns, &sheet).await,
                        Err(failure) => sheet.borrow_mut().fault(&failure),
                    }
                }
            }
        })?;
        measured.count("left", 0.0);
        said.into_iter().for_each(|text| measured.note(text));
        self.traffic.iter().for_each(|kind| stage.note_uncompared(&kind.path, &mut measured));
        Ok(measured)
    }
}

/// What is played.
enum Script {
    Log(Vec<Row>),
    Described(Vec<(Kind, Picker)>),
}

struct Player {
    begun_ns: u64,
    next: Cell<u64>,
    script: std::cell::RefCell<Script>,
    settings: Mixed,
}

/// One request.
#[derive(Default)]
struct Step {
    path: String,
    /// Where it begins and ends, as shares of the object.
    range: Option<(f64, f64)>,
    is_no_cache: bool,
    /// Bytes a second that its client takes.
    take: Option<u64>,
    leaves: bool,
}

impl Mixed {
    /// Reads the log. The origin has its paths, with the lengths that it says.
    fn recorded(&self, stage: &Stage, path: &std::path::Path) -> Result<Log, StressError> {
        let bad = |what: String| StressError::File { file: path.display().to_string(), what };
        let log = playlog::read(path).map_err(bad)?;
        let known: HashMap<u64, u64> =
            log.rows.iter().filter_map(|row| Some((xxh3_64(row.path.as_bytes()), row.bytes?))).collect();
        let mut part = Part::new("/", Sizes::Cdn);
        part.known = known;
        stage.catalogue.add(part);
        Ok(log)
    }

    fn described(&self, stage: &Stage) -> Vec<(Kind, Picker)> {
        let picker = |(at, kind): (usize, &Kind)| {
            if let Some(size) = &kind.size {
                let prefix = kind.path.split("{}").next().unwrap_or("/");
                stage.catalogue.add(Part::new(prefix, size.clone()));
            }
            let seed = stage.seed ^ (at as u64) << 48;
            (kind.clone(), Picker::new(kind.pick, 0, kind.objects, kind.wonders, seed))
        };
        self.traffic.iter().enumerate().map(picker).collect()
    }
}

impl Script {
    /// How long it takes by itself.
    fn seconds(&self, settings: &Mixed) -> f64 {
        match self {
            Self::Log(rows) => rows.last().map_or(0.0, |row| row.at_s) / settings.speed + 0.001,
            Self::Described(_) => 10.0,
        }
    }
}

impl Player {
    /// The next request, and when it is due by the stage's clock.
    fn next(&self) -> Option<(u64, Step)> {
        let at = self.next.get();
        self.next.set(at + 1);
        let after_s = |seconds: f64| self.begun_ns + (seconds * 1e9) as u64;
        match &mut *self.script.borrow_mut() {
            Script::Log(rows) => {
                let count = rows.len() as u64;
                let (round, row) = (at / count, &rows[(at % count) as usize]);
                if round > 0 && self.settings.seconds.is_none() {
                    return None;
                }
                // Rounds are as long as the log, a second at least.
                let length_s = rows.last().map_or(1.0, |row| row.at_s).max(1.0);
                let due_s = (row.at_s + round as f64 * length_s) / self.settings.speed;
                Some((after_s(due_s), Step { path: row.path.clone(), ..Step::default() }))
            }
            Script::Described(kinds) => {
                let due_s = at as f64 / (self.settings.rate * self.settings.speed);
                let mut rng = fastrand::Rng::with_seed(at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let all: f64 = kinds.iter().map(|(kind, _)| kind.weight).sum();
                let mut left = rng.f64() * all;
                let last = kinds.len() - 1;
                let found = kinds.iter().position(|(kind, _)| {
                    left -= kind.weight;
                    left < 0.0
                });
                let (kind, picker) = &mut kinds[found.unwrap_or(last)];
                let path = kind.path.replace("{}", &picker.next().to_string());
                Some((after_s(due_s), Step::draw(path, kind, &mut rng)))
            }
        }
    }
}

impl Step {
    /// One of a kind.
    fn draw(path: String, kind: &Kind, rng: &mut fastrand::Rng) -> Step {
        let (begins, ends) = (rng.f64(), rng.f64());
        Step {
            path,
            range: (rng.f64() < kind.ranges).then_some((begins.min(ends), begins.max(ends))),
            is_no_cache: rng.f64() < kind.no_cache,
            take: (rng.f64() < kind.slow).then_some(kind.take.0),
            leaves: rng.f64() < kind.leave,
        }
    }

    /// Asks, and writes down what came of it, so late as it was begun.
    async fn play(
        &self,
        stage: &Stage,
        client: &mut Client,
        late_ns: u64,
        sheet: &crate::scenario::stage::Sheet,
    ) {
        let path = &self.path;
        let bytes = stage.catalogue.expected(path.as_bytes(), 0).map_or(0, |expected| expected.bytes);
        let mut ask = Ask::get(path.clone());
        let range = self.range.filter(|_| bytes > 1).map(|(begins, ends)| {
            let start = ((bytes - 1) as f64 * begins) as u64;
            (start, (bytes as f64 * ends).ceil().max((start + 1) as f64) as u64)
        });
        if let Some((start, end)) = range {
            // One that reaches to the end is open.
            let last = if end == bytes { String::new() } else { (end - 1).to_string() };
            ask = ask.with("Range", format!("bytes={start}-{last}"));
        }
        if self.is_no_cache {
            ask = ask.with("Cache-Control", "no-cache");
        }
        let asked_bytes = range.map_or(bytes, |(start, end)| end - start);
        client.pace.leave_after = self.leaves.then_some(asked_bytes / 2);
        if let Some(take) = self.take {
            client.slow_down(take);
        }
        let got = client.ask(&ask, stage.expect(path)).await;
        if self.take.is_some() {
            client.speed_up();
        }
        let mut sheet = sheet.borrow_mut();
        let judged = got.and_then(|mut response| {
            response.begin_earlier(late_ns);
            if response.is_left {
                sheet.count("left", 1.0);
                return crate::scenario::stage::judge_bytes(path, &response);
            }
            sheet.response(&response);
            match range {
                Some(range) if response.status == 206 => judge_range(path, (range, bytes), &response),
                _ => stage.judge(path, &response),
            }
        });
        if let Err(failure) = judged {
            sheet.fault(&failure);
        }
    }
}

fn judge_range(
    path: &str,
    ((start, end), whole): ((u64, u64), u64),
    response: &crate::scenario::client::Response,
) -> Result<(), crate::scenario::client::Failure> {
    use crate::scenario::client::failure;
    let said = response.range;
    if said != Some((start, end, whole)) || response.body.received != end - start {
        let received = response.body.received;
        let what = format!("{start}..{end} of {path} was answered {said:?} with {received} bytes");
        return Err(failure(crate::tally::Fault::Range, what));
    }
    crate::scenario::stage::judge_bytes(path, response)
}
