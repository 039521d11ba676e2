//! The result of a load, for people and for programs.

use std::fmt;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::profile;
use crate::ratio::Ratio;
use crate::tally::{Fault, Tally};

/// The result of a load: one side, or several that were compared.
#[derive(Debug, Clone)]
pub struct Report {
    users: usize,
    sides: Vec<Side>,
}

/// The figures of one server over all its turns.
#[derive(Debug, Clone)]
pub struct Side {
    /// The requested URL.
    pub url: String,
    /// Whole responses.
    pub requests: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// Connections made.
    pub connections: u64,
    /// Seconds of all turns.
    pub seconds: f64,
    /// Requests a second: the median of the turns.
    pub rate: f64,
    /// TLS handshakes, and how many of them went on with an earlier session.
    pub handshakes: (u64, u64),
    /// The time of a handshake.
    pub handshake: Summary,
    /// Time to the first byte, a new connection's handshake included.
    pub first_byte: Summary,
    /// Time to the last byte.
    pub total: Summary,
    /// With a rate: requests that were due, and had no response at the end. The times have them with what
    /// they had waited until then.
    pub unanswered: u64,
    /// The number of responses with each status.
    pub statuses: Vec<(u16, u64)>,
    /// The number of faults of each kind.
    pub faults: Vec<(Fault, u64)>,
    /// The first fault, in words.
    pub first_fault: Option<String>,
    /// The load generator's own share of a CPU. Near 1, the generator itself was measured.
    pub client_share: f64,
    turns: Vec<Turn>,
}

/// What is compared of a turn.
#[derive(Debug, Clone, Copy)]
struct Turn {
    rate: f64,
    first_byte_p50_us: f64,
    total: Summary,
}

/// What of a turn.
type Of = fn(&Turn) -> f64;

/// What sides are compared by: its name in JSON, its name for people, and the value.
const COMPARED: [(&str, &str, Of); 5] = [
    ("requests_per_s", "requests/s", |turn| turn.rate),
    ("first_byte_p50", "first byte p50", |turn| turn.first_byte_p50_us),
    ("p50", "p50", |turn| turn.total.p50_us),
    ("p99", "p99", |turn| turn.total.p99_us),
    ("p99_9", "p99.9", |turn| turn.total.p99_9_us),
];

/// Percentiles in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Half are below.
    pub p50_us: f64,
    /// Nine of ten are below.
    pub p90_us: f64,
    /// All but one of a hundred are below.
    pub p99_us: f64,
    /// All but one of a thousand are below.
    pub p99_9_us: f64,
    /// The slowest.
    pub max_us: f64,
}

impl Report {
    pub(crate) fn new(users: usize, sides: Vec<Side>) -> Self {
        Self { users, sides }
    }

    /// The target, then the servers that it is compared with.
    pub fn sides(&self) -> &[Side] {
        &self.sides
    }

    /// Whether every response was complete and as expected.
    pub fn is_clean(&self) -> bool {
        self.sides.iter().all(|side| side.faults.is_empty() && side.requests > 0)
    }

    /// The report as one JSON object.
    pub fn json(&self) -> Value {
        let sides: Vec<Value> = self.sides.iter().map(Side::json).collect();
        let mut report = json!({
            "profile": profile::PROFILE,
            "shipped": profile::is_shipped(),
            "users": self.users,
            "clean": self.is_clean(),
            "sides": sides,
        });
        if let [a, b] = &self.sides[..] {
            report["ratio"] = json!({
                "requests_per_s": b.rate / a.rate,
                "first_byte_p50": b.first_byte.p50_us / a.first_byte.p50_us,
                "p50": b.total.p50_us / a.total.p50_us,
                "p99": b.total.p99_us / a.total.p99_us,
            });
        }
        let ratios = self.sides.iter().skip(1).map(|side| {
            let mut all = json!({ "of": side.url, "to": self.sides[0].url });
            for (name, _, ratio) in side.ratios(&self.sides[0]) {
                let interval = ratio.interval.map(|(low, high)| [low, high]);
                all[name] = json!({ "ratio": ratio.value, "interval": interval });
            }
            all
        });
        if self.sides.len() > 1 {
            report["ratios"] = ratios.collect();
        }
        report
    }
}

impl Side {
    pub(crate) fn new(url: &str, turns: &[Tally]) -> Self {
        let mut all = Tally::new();
        turns.iter().for_each(|turn| all.add(turn));
        let mut rates: Vec<f64> = turns.iter().map(|turn| turn.requests as f64 / turn.seconds).collect();
        rates.sort_by(f64::total_cmp);
        let middle = rates.len() / 2;
        let rate =
            if rates.len() % 2 == 1 { rates[middle] } else { (rates[middle - 1] + rates[middle]) / 2.0 };
        let statuses = all.statuses.iter().enumerate().filter(|(_, count)| **count > 0);
        Self {
            url: url.to_owned(),
            requests: all.requests,
            bytes: all.bytes,
            connections: all.connections,
            seconds: all.seconds,
            rate,
            handshakes: (all.handshake_ns.len(), all.resumed),
            handshake: Summary::of(&all.handshake_ns),
            first_byte: Summary::of(&all.first_byte_ns),
            total: Summary::of(&all.total_ns),
            statuses: statuses.map(|(status, count)| (status as u16, *count)).collect(),
            faults: Fault::ALL.into_iter().zip(all.faults).filter(|(_, count)| *count > 0).collect(),
            first_fault: all.first_fault,
            unanswered: all.unanswered,
            client_share: all.cpu_seconds / all.seconds,
            turns: turns.iter().map(Turn::of).collect(),
        }
    }

    /// How much this side is of `other`, turn by turn.
    fn ratios(&self, other: &Self) -> Vec<(&'static str, &'static str, Ratio)> {
        let values = |side: &Self, of: Of| side.turns.iter().map(of).collect::<Vec<f64>>();
        let ratio = |of| Ratio::of_turns(&values(self, of), &values(other, of));
        COMPARED.iter().filter_map(|(name, words, of)| Some((*name, *words, ratio(*of)?))).collect()
    }

    fn json(&self) -> Value {
        let statuses: serde_json::Map<String, Value> =
            self.statuses.iter().map(|(status, count)| (status.to_string(), json!(count))).collect();
        let faults: serde_json::Map<String, Value> =
            self.faults.iter().map(|(fault, count)| (fault.word().to_owned(), json!(count))).collect();
        json!({
            "url": self.url,
            "requests": self.requests,
            "bytes": self.bytes,
            "connections": self.connections,
            "seconds": self.seconds,
            "requests_per_s": self.rate,
            "bytes_per_s": self.bytes as f64 / self.seconds,
            "handshakes": self.handshakes.0,
            "resumed": self.handshakes.1,
            "handshake": self.handshake.json(),
            "first_byte": self.first_byte.json(),
            "total": self.total.json(),
            "statuses": statuses,
            "faults": faults,
            "first_fault": self.first_fault,
            "unanswered": self.unanswered,
            "client_cpu_share": self.client_share,
        })
    }
}

impl Turn {
    fn of(turn: &Tally) -> Self {
        Self {
            rate: turn.requests as f64 / turn.seconds,
            first_byte_p50_us: Summary::of(&turn.first_byte_ns).p50_us,
            total: Summary::of(&turn.total_ns),
        }
    }
}

impl Summary {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        let max_us = histogram.max() as f64 / 1e3;
        Self { p50_us: at(0.5), p90_us: at(0.9), p99_us: at(0.99), p99_9_us: at(0.999), max_us }
    }

    fn json(&self) -> Value {
        let (p99_9_us, max_us) = (self.p99_9_us, self.max_us);
        json!({
            "p50_us": self.p50_us, "p90_us": self.p90_us, "p99_us": self.p99_us, "p99_9_us": p99_9_us,
            "max_us": max_us,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", profile::line())?;
        for side in &self.sides {
            writeln!(f, "{}  {} users, {:.1} s", side.url, self.users, side.seconds)?;
            side.fmt(f)?;
        }
        for side in self.sides.iter().skip(1) {
            writeln!(f, "{} / first, in {} turns, with what 95 % sure means", side.url, side.turns.len())?;
            for (_, words, ratio) in side.ratios(&self.sides[0]) {
                writeln!(f, "  {words:<15} {ratio}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = self.bytes as f64 / self.seconds / 1e6;
        writeln!(
            f,
            "  {:.0} requests/s  {megabytes:.1} MB/s  {} responses over {} connections  client busy {:.0} %",
            self.rate,
            self.requests,
            self.connections,
            self.client_share * 100.0
        )?;
        if let (handshakes @ 1.., resumed) = self.handshakes {
            writeln!(f, "  handshake   {}  {handshakes}, {resumed} resumed", self.handshake)?;
        }
        writeln!(f, "  first byte  {}", self.first_byte)?;
        writeln!(f, "  whole       {}", self.total)?;
        let statuses: Vec<String> =
            self.statuses.iter().map(|(status, count)| format!("{status}: {count}")).collect();
        if self.unanswered > 0 {
            writeln!(
                f,
                "  unanswered  {} that were due; they count with what they had waited",
                self.unanswered
            )?;
        }
        writeln!(f, "  statuses    {}", statuses.join(", "))?;
        let faults: Vec<String> =
            self.faults.iter().map(|(fault, count)| format!("{}: {count}", fault.word())).collect();
        match &self.first_fault {
            None => writeln!(f, "  faults      none"),
            Some(first) => writeln!(f, "  faults      {}; the first was {first}", faults.join(", ")),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (p50, p90, p99, p99_9) = (self.p50_us, self.p90_us, self.p99_us, self.p99_9_us);
        let max = self.max_us;
        write!(f, "p50 {p50:.0} µs  p90 {p90:.0} µs  p99 {p99:.0} µs  p99.9 {p99_9:.0} µs  max {max:.0} µs")
    }
}
