//! Watches a turn: a row each second of what modules did and the server used, and a line for people.

use std::io::{IsTerminal, Write};
use std::sync::PoisonError;
use std::time::Duration;

use crate::clock::Clock;
use crate::recorder::Second;
use crate::scenario::process::Usage;
use crate::scenario::stage::Stage;

/// The most rows of a run. Later seconds have none.
const ROWS_MAX: usize = 2_000_000;
const SECOND_NS: u64 = 1_000_000_000;
const LOOK: Duration = Duration::from_millis(5);
/// Seconds between lines where they are not written over each other.
const LINES_APART: u64 = 10;

/// A second of one module on one server.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// Since the run began.
    pub(crate) at_s: f64,
    /// Since the turn began.
    pub(crate) turn_s: f64,
    /// How long it was: the last one of a turn is shorter.
    pub(crate) seconds: f64,
    pub(crate) module: String,
    pub(crate) server: String,
    pub(crate) round: u64,
    pub(crate) second: Second,
    /// What the server used in it, and holds.
    pub(crate) used: Usage,
    pub(crate) origin_requests: u64,
    pub(crate) origin_bytes: u64,
}

/// What a server used in a turn; the memory is the most that was seen.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    pub(crate) cpu_seconds: f64,
    pub(crate) resident_bytes: u64,
    pub(crate) anonymous_bytes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) drive_reads: u64,
    pub(crate) is_known: bool,
}

#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) rows: Vec<Row>,
    clock: Clock,
    says: bool,
    begun_ns: u64,
    second_ns: u64,
    round: u64,
    before: Usage,
    used: Used,
    origin: (u64, u64),
    origin_begun: (u64, u64),
    requests: u64,
    faults: u64,
}

impl Watch {
    pub(crate) fn new(says: bool) -> Self {
        Self {
            rows: Vec::new(),
            clock: Clock::start(),
            says,
            begun_ns: 0,
            second_ns: 0,
            round: 0,
            before: Usage::default(),
            used: Used::default(),
            origin: (0, 0),
            origin_begun: (0, 0),
            requests: 0,
            faults: 0,
        }
    }

    /// A turn begins.
    pub(crate) fn begin(&mut self, stages: &[Stage], round: u64) {
        self.begun_ns = self.clock.nanoseconds();
        self.second_ns = self.begun_ns;
        self.round = round;
        let usage = usage(stages);
        self.used = Used { is_known: usage.is_some(), ..Used::default() };
        self.before = usage.unwrap_or_default();
        self.origin = stages[0].catalogue.totals();
        self.origin_begun = self.origin;
        (self.requests, self.faults) = (0, 0);
    }

    /// Makes rows until the turn is over.
    pub(crate) fn look_until(&mut self, is_over: impl Fn() -> bool, stages: &[Stage]) {
        while !is_over() {
            std::thread::sleep(LOOK);
            if self.clock.nanoseconds() >= self.second_ns + SECOND_NS {
                self.row(stages);
                self.say(stages);
            }
        }
    }

    /// The turn is over.
    ///
    /// Returns what the server used, and requests to the origin and bytes of content from it.
    pub(crate) fn end(&mut self, stages: &[Stage]) -> (Used, (u64, u64)) {
        self.row(stages);
        let mut origin = (self.origin.0 - self.origin_begun.0, self.origin.1 - self.origin_begun.1);
        if let [stage] = stages {
            self.take_span(stage, &mut origin);
        }
        if self.says && std::io::stderr().is_terminal() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        (self.used, origin)
    }

    /// Where the module said what of its turn is measured, that alone was used.
    fn take_span(&mut self, stage: &Stage, origin: &mut (u64, u64)) {
        let points = stage.span.lock().unwrap_or_else(PoisonError::into_inner).points();
        let Some((begun, ended)) = points else { return };
        *origin = (ended.origin.0 - begun.origin.0, ended.origin.1 - begun.origin.1);
        let (Some(begun), Some(ended)) = (begun.usage, ended.usage) else { return };
        let used = ended.since(&begun);
        self.used.cpu_seconds = used.cpu_seconds;
        self.used.read_bytes = used.read_bytes;
        self.used.written_bytes = used.written_bytes;
        self.used.drive_reads = used.drive_reads;
    }

    fn row(&mut self, stages: &[Stage]) {
        let now_ns = self.clock.nanoseconds();
        let seconds = (now_ns - self.second_ns) as f64 / 1e9;
        let now = usage(stages).unwrap_or(self.before);
        // A server that was started again begins at zero.
        let before = if now.cpu_seconds < self.before.cpu_seconds { Usage::default() } else { self.before };
        let used = now.since(&before);
        self.used.add(&used);
        let origin = stages[0].catalogue.totals();
        for stage in stages {
            let second = stage.recorder.take();
            self.requests += second.requests;
            self.faults += second.faults;
            if self.rows.len() < ROWS_MAX {
                self.rows.push(Row {
                    at_s: now_ns as f64 / 1e9,
                    turn_s: (now_ns - self.begun_ns) as f64 / 1e9,
                    seconds,
                    module: stage.name.clone(),
                    server: stage.settings.name.clone(),
                    round: self.round,
                    second,
                    used,
                    origin_requests: origin.0 - self.origin.0,
                    origin_bytes: origin.1 - self.origin.1,
                });
            }
        }
        (self.origin, self.before, self.second_ns) = (origin, now, now_ns);
    }

    fn say(&self, stages: &[Stage]) {
        if !self.says {
            return;
        }
        let turn_s = (self.second_ns - self.begun_ns) / SECOND_NS;
        let names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
        let line = format!(
            "{} on {}: {turn_s} s, {} responses, {} faults, {:.0} MB resident",
            names.join(" + "),
            stages[0].settings.name,
            self.requests,
            self.faults,
            self.before.resident_bytes as f64 / 1e6
        );
        let mut out = std::io::stderr();
        let _ = match out.is_terminal() {
            true => write!(out, "\r\x1b[K{line}"),
            false if turn_s.is_multiple_of(LINES_APART) => writeln!(out, "{line}"),
            false => Ok(()),
        };
    }
}

impl Used {
    fn add(&mut self, one: &Usage) {
        self.cpu_seconds += one.cpu_seconds;
        self.read_bytes += one.read_bytes;
        self.written_bytes += one.written_bytes;
        self.drive_reads += one.drive_reads;
        self.resident_bytes = self.resident_bytes.max(one.resident_bytes);
        self.anonymous_bytes = self.anonymous_bytes.max(one.anonymous_bytes);
    }
}

/// What the server has used so far. A module that restarts it holds it for that time.
fn usage(stages: &[Stage]) -> Option<Usage> {
    match stages[0].server.try_lock() {
        Ok(server) => server.usage(),
        Err(std::sync::TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned).usage(),
        Err(std::sync::TryLockError::WouldBlock) => None,
    }
}
