//! What a scenario came to: figures by module and server, ratios to the first server, limits, and whether all
//! of it is good. Tables, JSON and pages are made from it.

use serde_json::{Map, Value, json};

use crate::plan::StressError;
use crate::profile;
use crate::ratio::Ratio;
use crate::scenario::limits::Limit;
use crate::scenario::memcheck::Finding;
use crate::scenario::stage::Measured;
use crate::scenario::watch::{Row, Used};
use crate::tally::{Fault, Tally};

/// The result of a scenario.
#[derive(Debug)]
pub struct Outcome {
    pub(crate) name: String,
    pub(crate) machine: String,
    /// When it began.
    pub(crate) begun: String,
    /// Whether it ran to its end.
    pub(crate) is_whole: bool,
    /// Why it could not go on.
    pub(crate) gave_up: Option<StressError>,
    pub(crate) servers: Vec<ServerOutcome>,
    pub(crate) modules: Vec<ModuleOutcome>,
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug)]
pub(crate) struct ServerOutcome {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) version: Option<String>,
    pub(crate) findings: Vec<Finding>,
}

/// A module on all servers.
#[derive(Debug)]
pub(crate) struct ModuleOutcome {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) limits: Vec<Limit>,
    /// By server.
    pub(crate) sides: Vec<Side>,
}

/// A module on one server.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) turns: Vec<Turn>,
}

#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) measured: Measured,
    pub(crate) used: Used,
    /// Responses of all modules that ran side by side.
    pub(crate) beside: u64,
    pub(crate) origin_requests: u64,
    pub(crate) origin_bytes: u64,
}

/// What sides are compared by: a name, and the value of a turn.
type Of = fn(&Turn) -> f64;
const COMPARED: [(&str, Of); 6] = [
    ("requests_per_s", |turn| turn.measured.tally.requests as f64 / turn.measured.tally.seconds),
    ("connect_p50", |turn| turn.measured.tally.connect_ns.value_at_quantile(0.5) as f64),
    ("first_byte_p50", |turn| turn.measured.tally.first_byte_ns.value_at_quantile(0.5) as f64),
    ("whole_p50", |turn| turn.measured.tally.total_ns.value_at_quantile(0.5) as f64),
    ("whole_p99", |turn| turn.measured.tally.total_ns.value_at_quantile(0.99) as f64),
    ("cpu_per_request", |turn| turn.used.cpu_seconds / turn.beside as f64),
];

/// The times of a tally, and the quantiles of each.
const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999), ("max", 1.0)];

/// Whether a limit is kept.
#[derive(Debug)]
pub(crate) struct Judged<'a> {
    pub(crate) limit: &'a Limit,
    pub(crate) server: &'a str,
    pub(crate) value: Option<f64>,
    pub(crate) is_kept: bool,
}

/// Own figures of modules of which the least is the worst.
const BETTER_HIGH: [&str; 2] = ["kept_percent", "restart_held"];

impl Side {
    /// All turns added up.
    pub(crate) fn tally(&self) -> Tally {
        let mut all = Tally::new();
        self.turns.iter().for_each(|turn| all.add(&turn.measured.tally));
        all
    }

    /// Its figures by name; own figures of the module are those of the worst turn: the largest, but for
    /// [`BETTER_HIGH`].
    pub(crate) fn figures(&self) -> Vec<(String, f64)> {
        let tally = self.tally();
        let mut all: Vec<(String, f64)> = Vec::new();
        let mut add = |name: &str, value: f64| all.push((name.to_owned(), value));
        add("requests", tally.requests as f64);
        add("requests_per_s", tally.requests as f64 / tally.seconds.max(1e-9));
        add("bytes", tally.bytes as f64);
        add("bytes_per_s", tally.bytes as f64 / tally.seconds.max(1e-9));
        add("connections", tally.connections as f64);
        for (name, times) in
            [("connect", &tally.connect_ns), ("first_byte", &tally.first_byte_ns), ("whole", &tally.total_ns)]
        {
            for (quantile, at) in QUANTILES.iter().filter(|_| !times.is_empty()) {
                add(&format!("{name}_{quantile}_ms"), times.value_at_quantile(*at) as f64 / 1e6);
            }
        }
        add("unanswered", tally.unanswered as f64);
        add("faults", tally.faults.iter().sum::<u64>() as f64);
        for (fault, count) in Fault::ALL.iter().zip(tally.faults) {
            if count > 0 {
                add(&format!("faults_{}", fault.word()), count as f64);
            }
        }
        self.used(&mut add);
        add("client_share", tally.cpu_seconds / tally.seconds.max(1e-9));
        self.own(&mut all);
        all
    }

    fn used(&self, add: &mut impl FnMut(&str, f64)) {
        let sum = |of: fn(&Turn) -> f64| self.turns.iter().map(of).fold(0.0, |sum, one| sum + one);
        let most = |of: fn(&Turn) -> u64| self.turns.iter().map(of).max().unwrap_or(0) as f64;
        add("origin_requests", sum(|turn| turn.origin_requests as f64));
        add("origin_bytes", sum(|turn| turn.origin_bytes as f64));
        if self.turns.iter().any(|turn| turn.used.is_known) {
            let beside = sum(|turn| turn.beside as f64);
            let cpu_s = sum(|turn| turn.used.cpu_seconds);
            add("cpu_s", cpu_s);
            add("cpu_us_per_request", cpu_s * 1e6 / beside.max(1.0));
            add("resident_mb", most(|turn| turn.used.resident_bytes) / 1e6);
            add("anonymous_mb", most(|turn| turn.used.anonymous_bytes) / 1e6);
            add("disk_read_mb", sum(|turn| turn.used.read_bytes as f64) / 1e6);
            add("disk_written_mb", sum(|turn| turn.used.written_bytes as f64) / 1e6);
            add("drive_reads", sum(|turn| turn.used.drive_reads as f64));
            add("drive_reads_per_request", sum(|turn| turn.used.drive_reads as f64) / beside.max(1.0));
        }
    }

    fn own(&self, all: &mut Vec<(String, f64)>) {
        let from = all.len();
        for (name, value) in self.turns.iter().flat_map(|turn| &turn.measured.figures) {
            match all[from..].iter_mut().find(|(known, _)| known == name) {
                Some((_, worst)) if BETTER_HIGH.contains(&name.as_str()) => *worst = worst.min(*value),
                Some((_, worst)) => *worst = worst.max(*value),
                None => all.push((name.clone(), *value)),
            }
        }
    }

    /// The least of an own figure of the module, where there is one: what a limit from below is about.
    fn least(&self, name: &str) -> Option<f64> {
        let own = self.turns.iter().flat_map(|turn| &turn.measured.figures);
        own.filter(|(known, _)| known == name).map(|(_, value)| *value).reduce(f64::min)
    }

    /// The names of the module's own figures.
    pub(crate) fn own_figures(&self) -> Vec<(String, f64)> {
        let mut all = Vec::new();
        self.own(&mut all);
        all
    }

    /// What people should know; each once, however many turns say it.
    pub(crate) fn notes(&self) -> impl Iterator<Item = &String> {
        let mut all: Vec<&String> = Vec::new();
        for note in self.turns.iter().flat_map(|turn| &turn.measured.notes) {
            if !all.contains(&note) {
                all.push(note);
            }
        }
        all.into_iter()
    }

    /// How much this side is of another, turn by turn.
    pub(crate) fn ratios(&self, to: &Self) -> Vec<(&'static str, Ratio)> {
        let values = |side: &Self, of: Of| side.turns.iter().map(of).collect::<Vec<f64>>();
        let ratio = |of| Ratio::of_turns(&values(self, of), &values(to, of));
        COMPARED.iter().filter_map(|(name, of)| Some((*name, ratio(*of)?))).collect()
    }
}

impl ModuleOutcome {
    /// Whether it has run on any server.
    pub(crate) fn is_begun(&self) -> bool {
        self.sides.iter().any(|side| !side.turns.is_empty())
    }

    /// The server that others are compared with: the first that it ran on.
    pub(crate) fn first(&self) -> usize {
        self.sides.iter().position(|side| !side.turns.is_empty()).unwrap_or(0)
    }

    /// How much a server is of the first.
    pub(crate) fn ratios(&self, at: usize) -> Vec<(&'static str, Ratio)> {
        self.sides[at].ratios(&self.sides[self.first()])
    }

    /// The servers that it ran on.
    pub(crate) fn ran_on<'a>(
        &self,
        servers: &'a [ServerOutcome],
    ) -> impl Iterator<Item = (usize, &'a ServerOutcome)> {
        let ran: Vec<bool> = self.sides.iter().map(|side| !side.turns.is_empty()).collect();
        servers.iter().enumerate().filter(move |(at, _)| ran[*at])
    }

    /// The figures of a server, and its ratios to the first as `ratio_…`.
    pub(crate) fn figures(&self, at: usize) -> Vec<(String, f64)> {
        let mut all = self.sides[at].figures();
        if at != self.first() {
            let ratios = self.ratios(at);
            all.extend(ratios.into_iter().map(|(name, ratio)| (format!("ratio_{name}"), ratio.value)));
        }
        all
    }

    /// The limits of this module on all servers.
    pub(crate) fn judged<'a>(&'a self, servers: &'a [ServerOutcome]) -> Vec<Judged<'a>> {
        let mut all = Vec::new();
        for (at, server) in self.ran_on(servers) {
            let figures = self.figures(at);
            for limit in self.limits.iter().filter(|limit| limit.is_for(&server.name)) {
                // The first has no ratio to itself.
                if at == self.first() && limit.server.is_none() && limit.figure.starts_with("ratio_") {
                    continue;
                }
                let found = figures.iter().find(|(name, _)| *name == limit.figure).map(|(_, value)| *value);
                let least = || self.sides[at].least(&limit.figure).filter(|_| limit.is_from_below());
                let found = least().or(found);
                // Kinds of faults that did not happen, and counts, are zero.
                let value = found.or(limit.figure.starts_with("faults").then_some(0.0));
                all.push(Judged { limit, server: &server.name, value, is_kept: limit.is_kept(value) });
            }
        }
        all
    }

    /// Whether nothing was wrong on this server: no fault, unless a limit says how many there may be, and
    /// something was measured.
    pub(crate) fn is_clean(&self, at: usize, server: &str) -> bool {
        let side = &self.sides[at];
        let tally = side.tally();
        let is_allowed =
            self.limits.iter().any(|limit| limit.is_for(server) && limit.figure.starts_with("faults"));
        let is_clean = tally.faults.iter().all(|count| *count == 0);
        let is_something = tally.requests > 0 || side.own_figures().iter().any(|(_, value)| *value > 0.0);
        (is_clean || is_allowed) && (is_something || side.turns.is_empty())
    }
}

impl Outcome {
    /// Whether it ran to its end.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether all responses were right, all limits are kept, no checker found anything, and it ran to its
    /// end.
    pub fn is_good(&self) -> bool {
        let kept = |module: &ModuleOutcome| {
            let limits = module.judged(&self.servers).iter().all(|one| one.is_kept);
            let clean = self.servers.iter().enumerate().all(|(at, server)| module.is_clean(at, &server.name));
            limits && clean
        };
        let found = self.servers.iter().any(|server| !server.findings.is_empty());
        self.is_whole && !found && !self.modules.is_empty() && self.modules.iter().all(kept)
    }

    /// The outcome as one JSON object.
    pub fn json(&self) -> Value {
        let servers: Vec<Value> = self.servers.iter().map(ServerOutcome::json).collect();
        let modules: Vec<Value> = self.modules.iter().map(|module| self.module_json(module)).collect();
        json!({
            "scenario": self.name,
            "machine": self.machine,
            "begun": self.begun,
            "version": env!("CARGO_PKG_VERSION"),
            "profile": profile::PROFILE,
            "shipped": profile::is_shipped(),
            "good": self.is_good(),
            "whole": self.is_whole,
            "gave_up": self.gave_up.as_ref().map(StressError::to_string),
            "servers": servers,
            "modules": modules,
        })
    }

    /// The rows of all seconds, as CSV with a line of names.
    pub fn csv(&self) -> String {
        crate::scenario::csv::write(&self.rows)
    }

    /// A page that stands alone.
    pub fn html(&self) -> String {
        crate::scenario::page::write(self)
    }

    fn module_json(&self, module: &ModuleOutcome) -> Value {
        let sides = module.ran_on(&self.servers).map(|(at, server)| {
            let side = &module.sides[at];
            let tally = side.tally();
            let figures: Map<String, Value> =
                module.figures(at).into_iter().map(|(name, value)| (name, json!(value))).collect();
            let ratios: Map<String, Value> = match at == module.first() {
                true => Map::new(),
                false => {
                    module.ratios(at).into_iter().map(|(name, ratio)| (name.to_owned(), of(ratio))).collect()
                }
            };
            json!({
                "server": server.name,
                "turns": side.turns.len(),
                "clean": module.is_clean(at, &server.name),
                "first_fault": tally.first_fault,
                "statuses": statuses(&tally),
                "figures": figures,
                "ratios": ratios,
                "notes": side.notes().collect::<Vec<_>>(),
            })
        });
        let limits = module.judged(&self.servers).into_iter().map(|one| {
            json!({
                "limit": one.limit.to_string(),
                "server": one.server,
                "value": one.value,
                "kept": one.is_kept,
            })
        });
        json!({
            "module": module.name,
            "kind": module.kind,
            "sides": sides.collect::<Vec<_>>(),
            "limits": limits.collect::<Vec<_>>(),
        })
    }
}

impl ServerOutcome {
    fn json(&self) -> Value {
        let findings: Vec<Value> =
            self.findings.iter().map(|one| json!({ "title": one.title, "lines": one.lines })).collect();
        json!({ "name": self.name, "url": self.url, "version": self.version, "findings": findings })
    }
}

fn of(ratio: Ratio) -> Value {
    json!({ "ratio": ratio.value, "interval": ratio.interval.map(|(low, high)| [low, high]) })
}

/// The number of responses with each status.
pub(crate) fn statuses(tally: &Tally) -> Map<String, Value> {
    let counts = tally.statuses.iter().enumerate().filter(|(_, count)| **count > 0);
    counts.map(|(status, count)| (status.to_string(), json!(count))).collect()
}
