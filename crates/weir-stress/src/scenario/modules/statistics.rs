//! `statistics`: what the server says of itself against what the tool counted at both ends, in five
//! situations: plain counting, a restart, the end of lifetimes, purges, and more objects than fit.
//!
//! The figures have the names of `says.figures`: `requests`, `client_bytes`, `origin_requests`,
//! `origin_bytes` (sums that only grow), `objects` and `stored_bytes` (what is held now). Those that a server
//! does not say are not compared.

use serde::Deserialize;

use crate::args::Pick;
use crate::plan::StressError;
use crate::scenario::catalogue::{Lifetime, Part};
use crate::scenario::client::{Ask, failure};
use crate::scenario::module::{Module, check_time};
use crate::scenario::says::{self, Figures};
use crate::scenario::server::{self, Ending};
use crate::scenario::settings::{Purge, ServerSettings, place};
use crate::scenario::sizes::{Bytes, Sizes};
use crate::scenario::stage::{Measured, Stage};
use crate::tally::{Fault, Tally};

/// How often a server that counts late is asked again.
const ASKED_AGAIN: usize = 20;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Statistics {
    tests: Vec<Test>,
    objects: u64,
    size: Bytes,
    /// How often each object is asked for.
    times: u64,
    users: usize,
    /// Seconds of lifetime in the test of expiry.
    lifetime: u64,
    /// What the server may hold at most, in the test that overfills it.
    capacity: Option<Bytes>,
    /// How far what is said may be from what was counted, as a share of it.
    tolerance: f64,
    /// Seconds within which what is said must be right.
    within: f64,
    timeout: f64,
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            tests: vec![Test::Count, Test::Restart, Test::Expiry, Test::Purge],
            objects: 100,
            size: Bytes(20_000),
            times: 5,
            users: 8,
            lifetime: 2,
            capacity: None,
            tolerance: 0.0,
            within: 5.0,
            timeout: 30.0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Test {
    Count,
    Restart,
    Expiry,
    Purge,
    Overfull,
}

impl Test {
    fn word(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Restart => "restart",
            Self::Expiry => "expiry",
            Self::Purge => "purge",
            Self::Overfull => "overfull",
        }
    }
}

/// What one pass over the objects came to, as the tool counted it.
struct Pass {
    counted: Figures,
    tally: Tally,
}

impl Module for Statistics {
    fn check(&self) -> Result<(), String> {
        check_time("timeout", self.timeout)?;
        check_time("within", self.within)?;
        if self.tests.contains(&Test::Overfull) && self.capacity.is_none() {
            return Err("`overfull` needs `capacity`, what the server may hold".to_owned());
        }
        match self.objects > 0 && self.times > 0 && self.users > 0 && self.tolerance >= 0.0 {
            true => Ok(()),
            false => Err("`objects`, `times` and `users` are above 0".to_owned()),
        }
    }

    fn check_server(&self, server: &ServerSettings) -> Result<(), String> {
        match server.says {
            Some(_) => Ok(()),
            None => Err("it needs `says`, where the server tells its figures".to_owned()),
        }
    }

    /// Others' requests would be in the server's figures.
    fn runs_alone(&self) -> bool {
        true
    }

    fn run(&self, stage: &Stage) -> Result<Measured, StressError> {
        let mut measured = Measured::new(stage);
        let begun_ns = stage.clock.nanoseconds();
        for test in &self.tests {
            let before = measured.tally.faults[Fault::Count as usize];
            self.run_one(stage, *test, &mut measured)?;
            let differences = measured.tally.faults[Fault::Count as usize] - before;
            measured.figure(format!("{}_differences", test.word()), differences as f64);
        }
        measured.tally.seconds = (stage.clock.nanoseconds() - begun_ns) as f64 / 1e9;
        Ok(measured)
    }
}

impl Statistics {
    fn run_one(&self, stage: &Stage, test: Test, measured: &mut Measured) -> Result<(), StressError> {
        let path = self.part(stage, test);
        let objects = match (test, self.capacity) {
            // Half as much again as fits.
            (Test::Overfull, Some(capacity)) => (capacity.0 * 3 / 2).div_ceil(self.size.0.max(1)),
            _ => self.objects,
        };
        let by_reading = self.by_reading(stage)?;
        let before = self.at_rest(stage, by_reading)?;
        let first = self.pass(stage, &path, objects, if test == Test::Count { self.times } else { 1 })?;
        measured.tally.add(&first.tally);
        let mut compare = Comparison { settings: self, stage, test, by_reading, measured };
        match test {
            Test::Count => compare.growth(&before, &first.counted, "the pass")?,
            Test::Restart => {
                if !stage.server().is_ours() {
                    compare.measured.note("restart: left out, the server has no `command`");
                    return Ok(());
                }
                stage.restart(Ending::Told)?;
                compare.held_again(&path, objects, "the pass after the restart")?;
            }
            Test::Expiry => {
                compare.growth(&before, &first.counted, "the first pass")?;
                std::thread::sleep(std::time::Duration::from_secs(self.lifetime + 1));
                let asked = compare.again_compared(&path, objects, "the pass after expiry")?;
                if asked < objects as f64 {
                    compare
                        .differs(&format!("{asked} of {objects} objects were asked for again when expired"));
                }
            }
            Test::Purge => {
                // What a server counts late would be missing from what it says before the purge.
                compare.growth(&before, &first.counted, "the pass")?;
                compare.purged(&path, objects)?;
            }
            Test::Overfull => compare.overfull(&path, objects)?,
        }
        Ok(())
    }

    /// Adds the test's objects to the origin, and returns their path.
    fn part(&self, stage: &Stage, test: Test) -> String {
        let prefix = stage.cold(&format!("statistics-{}", test.word()));
        let mut part = Part::new(&prefix, Sizes::One(self.size.0));
        if test == Test::Expiry {
            part.lifetime = Lifetime::Seconds(self.lifetime);
        }
        stage.catalogue.add(part);
        format!("{prefix}{{}}")
    }

    /// Asks for each object so many times and counts at both ends.
    fn pass(&self, stage: &Stage, path: &str, objects: u64, times: u64) -> Result<Pass, StressError> {
        let (requests, bytes) = stage.catalogue.totals();
        let mut args = stage.load_args(path);
        args.objects = objects;
        args.pick = Pick::Seq;
        args.requests = Some(objects * times);
        // Fewer than objects, so that an object is whole before it is asked for again.
        args.users = self.users.min((objects / 2).max(1) as usize);
        args.timeout = self.timeout;
        let tally = stage.load(&args)?;
        let (requests_after, bytes_after) = stage.catalogue.totals();
        let counted = [
            ("requests", tally.requests),
            ("client_bytes", tally.bytes),
            ("origin_requests", requests_after - requests),
            ("origin_bytes", bytes_after - bytes),
            ("objects", objects),
            ("stored_bytes", objects * self.size.0),
        ];
        Ok(Pass { counted: counted.map(|(name, value)| (name.to_owned(), value as f64)).into(), tally })
    }

    /// By how many requests a server grows that is asked for its figures: by one, as nginx, where it tells
    /// them at its own address and counts that; else by none.
    fn by_reading(&self, stage: &Stage) -> Result<f64, StressError> {
        let is_own = {
            let server = stage.server();
            let url = server.settings.says.as_ref().and_then(|says| says.url.as_deref());
            url.is_some_and(|url| place(&server.filled(url)) == server.settings.place())
        };
        if !is_own {
            return Ok(0.0);
        }
        // What was counted late comes between two readings, and hardly twice.
        let (mut grown, mut before) = (f64::MAX, self.said(stage)?);
        for _ in 0..2 {
            self.rest();
            let now = self.said(stage)?;
            if let Some((before, now)) = before.get("requests").zip(now.get("requests")) {
                grown = grown.min(now - before);
            }
            before = now;
        }
        Ok(if grown == 1.0 { 1.0 } else { 0.0 })
    }

    /// What the server says once it has counted all, as far as that can be seen: the same twice.
    fn at_rest(&self, stage: &Stage, by_reading: f64) -> Result<Figures, StressError> {
        let mut before = self.said(stage)?;
        for _ in 0..ASKED_AGAIN {
            self.rest();
            let now = self.said(stage)?;
            if let Some(requests) = before.get_mut("requests") {
                *requests += by_reading;
            }
            let is_same = now == before;
            before = now;
            if is_same {
                break;
            }
        }
        Ok(before)
    }

    /// A server that counts late is asked again after a while.
    fn rest(&self) {
        let pause_s = self.within / ASKED_AGAIN as f64;
        std::thread::sleep(std::time::Duration::from_nanos(crate::clock::nanoseconds(pause_s)));
    }

    fn said(&self, stage: &Stage) -> Result<Figures, StressError> {
        let server = stage.server();
        let Some(says) = &server.settings.says else { return Ok(Figures::new()) };
        says::ask(&server, says)
            .map_err(|what| StressError::Scenario(format!("server `{}` says: {what}", server.settings.name)))
    }
}

/// Compares, and writes differences down.
struct Comparison<'a> {
    settings: &'a Statistics,
    stage: &'a Stage,
    test: Test,
    /// By how much its requests grow when it is asked for its figures.
    by_reading: f64,
    measured: &'a mut Measured,
}

impl Comparison<'_> {
    fn differs(&mut self, what: &str) {
        let detail = format!("{}: {what}", self.test.word());
        self.measured.note(&*detail);
        self.measured.fault(&failure(Fault::Count, detail));
    }

    fn is_near(&self, said: f64, counted: f64) -> bool {
        (said - counted).abs() <= self.settings.tolerance * counted.abs() + 1e-9
    }

    /// What the server says has grown since `before` is what was counted.
    fn growth(&mut self, before: &Figures, counted: &Figures, during: &str) -> Result<(), StressError> {
        let mut wrong = Vec::new();
        for at in 0..ASKED_AGAIN {
            let after = self.settings.said(self.stage)?;
            wrong.clear();
            for (name, said) in &after {
                let (Some(counted), Some(before)) = (counted.get(name), before.get(name)) else { continue };
                let reads = if name == "requests" { self.by_reading * (at + 1) as f64 } else { 0.0 };
                let grown = said - before - reads;
                if !self.is_near(grown, *counted) {
                    wrong
                        .push(format!("{name} in {during}: the server says {grown}, {counted} were counted"));
                }
            }
            if wrong.is_empty() || at + 1 == ASKED_AGAIN {
                break;
            }
            self.settings.rest();
        }
        wrong.iter().for_each(|what| self.differs(what));
        Ok(())
    }

    /// One more pass, over objects that may be held or not. Returns what was counted, and how many requests
    /// came to the origin.
    fn again(&mut self, path: &str, objects: u64) -> Result<(Figures, f64), StressError> {
        let Pass { mut counted, tally } = self.settings.pass(self.stage, path, objects, 1)?;
        self.measured.tally.add(&tally);
        counted.remove("objects");
        counted.remove("stored_bytes");
        let asked = counted.get("origin_requests").copied().unwrap_or(0.0);
        Ok((counted, asked))
    }

    /// As [`Comparison::again`], and compares what was counted.
    fn again_compared(&mut self, path: &str, objects: u64, during: &str) -> Result<f64, StressError> {
        let before = self.settings.at_rest(self.stage, self.by_reading)?;
        let (counted, asked) = self.again(path, objects)?;
        self.growth(&before, &counted, during)?;
        Ok(asked)
    }

    /// What the server says it holds is what it answers without its origin.
    fn held_again(&mut self, path: &str, objects: u64, during: &str) -> Result<f64, StressError> {
        let said = self.settings.said(self.stage)?;
        let asked = self.again_compared(path, objects, during)?;
        let held = (objects as f64 - asked).max(0.0);
        self.measured.figure(format!("{}_held", self.test.word()), held);
        // Objects of earlier tests may be there as well, so that it may say more, but not less.
        if let Some(said) = said.get("objects").filter(|said| **said < held * (1.0 - self.settings.tolerance))
        {
            self.differs(&format!(
                "before {during} the server says {said} objects, and answered {held} without its origin"
            ));
        }
        Ok(held)
    }

    fn purged(&mut self, path: &str, objects: u64) -> Result<(), StressError> {
        let Some(purge) = self.stage.settings.purge.clone() else {
            self.measured.note("purge: left out, the server has no `purge`");
            return Ok(());
        };
        let before = self.settings.said(self.stage)?;
        let gone = objects.div_ceil(2);
        for at in 0..gone {
            self.purge(&purge, &path.replace("{}", &at.to_string()))?;
        }
        let mut said = None;
        for _ in 0..ASKED_AGAIN {
            let now = self.settings.said(self.stage)?;
            let fewer = before.get("objects").zip(now.get("objects")).map(|(before, now)| before - now);
            said = fewer;
            if fewer.is_none_or(|fewer| self.is_near(fewer, gone as f64)) {
                break;
            }
            self.settings.rest();
        }
        if let Some(fewer) = said.filter(|fewer| !self.is_near(*fewer, gone as f64)) {
            self.differs(&format!("the server says {fewer} objects fewer, {gone} were purged"));
        }
        let (_, asked) = self.again(path, objects)?;
        if !self.is_near(asked, gone as f64) {
            self.differs(&format!("{gone} objects were purged, and {asked} were asked for again"));
        }
        Ok(())
    }

    fn purge(&self, purge: &Purge, path: &str) -> Result<(), StressError> {
        let settings = &self.stage.settings;
        let failed = |what: String| {
            StressError::Scenario(format!("server `{}`: purge of {path}: {what}", settings.name))
        };
        if let Some(command) = &purge.command {
            let words = self.stage.server().filled_words(command);
            let words: Vec<String> = words.iter().map(|word| word.replace("{path}", path)).collect();
            return server::run(&words).map(|_| ()).map_err(failed);
        }
        let url = purge.url.as_ref().map_or(format!("{}{path}", self.stage.base()), |url| {
            self.stage.server().filled(url).replace("{path}", path)
        });
        let (base, target) = says::split(&url);
        let method = match purge.method.as_deref().unwrap_or("PURGE") {
            "PURGE" => "PURGE",
            "BAN" => "BAN",
            "DELETE" => "DELETE",
            "POST" => "POST",
            "GET" => "GET",
            other => return Err(failed(format!("`{other}` is none of PURGE, BAN, DELETE, POST, GET"))),
        };
        let ask = Ask { method, path: target, fields: Vec::new() };
        match says::fetch(settings, &base, ask, &purge.headers).map_err(failed)? {
            (200..=299, _) => Ok(()),
            (status, said) => Err(failed(format!("{status} {}", said.trim()))),
        }
    }

    /// More than fits: it says no more than its capacity, and no fewer objects than it answers.
    fn overfull(&mut self, path: &str, objects: u64) -> Result<(), StressError> {
        let capacity = self.settings.capacity.map_or(0, |bytes| bytes.0) as f64;
        let said = self.settings.said(self.stage)?;
        if let Some(bytes) = said.get("stored_bytes").filter(|bytes| **bytes > capacity) {
            self.differs(&format!("the server says that it holds {bytes} bytes, more than its {capacity}"));
        }
        let objects_said = said.get("objects").copied();
        let answered = self.answered_from_the_end(path, objects)?;
        self.measured.figure("overfull_held", answered);
        if let Some(said) = objects_said.filter(|said| *said < answered * (1.0 - self.settings.tolerance)) {
            self.differs(&format!(
                "the server says {said} objects, and answered {answered} without its origin"
            ));
        }
        Ok(())
    }

    /// How many objects are answered without the origin, the last first: asking for those that are gone
    /// pushes out others, the oldest with most servers.
    fn answered_from_the_end(&mut self, path: &str, objects: u64) -> Result<f64, StressError> {
        let mut answered = 0.0;
        for at in (0..objects).rev() {
            let one = path.replace("{}", &at.to_string());
            let before = self.stage.catalogue.asked(&one);
            let mut args = self.stage.load_args(&one);
            (args.users, args.requests, args.timeout) = (1, Some(1), self.settings.timeout);
            let tally = self.stage.load(&args)?;
            self.measured.tally.add(&tally);
            answered += f64::from(u8::from(self.stage.catalogue.asked(&one) == before));
        }
        Ok(answered)
    }
}
