//! Origins and requests that are made up: for sample runs, for the tests beside a script, and for trials by
//! hand. They must not be mistaken for an upstream's: nothing is sent to them.

use std::time::Instant;

use http::{HeaderMap, Method};

use crate::asked::{Asked, Row};
use crate::frame::Frame;
use crate::mistake::Failure;
use crate::program::{Answer, Program};
use crate::state::State;
use weir_upstream::About;

/// An origin that is made up.
#[derive(Debug, Clone, PartialEq)]
pub struct MadeOrigin {
    /// Its URL.
    pub name: String,
    /// Its name in sessions.
    pub id: Option<String>,
    /// Its weight.
    pub weight: f64,
    /// Whether it is a backup.
    pub is_backup: bool,
    /// Whether it may get requests.
    pub is_up: bool,
    /// Requests under way.
    pub in_flight: u32,
    /// The time to the first byte in milliseconds.
    pub latency_ms: f64,
    /// Its metrics.
    pub metrics: Metrics,
}

/// What is known of a made origin.
#[derive(Debug, Clone, PartialEq)]
pub enum Metrics {
    /// Name, value and age in seconds of each; stale where the age is negative.
    Listed(Vec<(String, f64, f64)>),
    /// Every metric has this value.
    Every(f64),
}

impl MadeOrigin {
    /// An origin that is up, idle, and of which nothing is known.
    pub fn new(name: impl Into<String>) -> MadeOrigin {
        MadeOrigin {
            name: name.into(),
            id: None,
            weight: 1.0,
            is_backup: false,
            is_up: true,
            in_flight: 0,
            latency_ms: 0.0,
            metrics: Metrics::Listed(Vec::new()),
        }
    }

    /// With another metric.
    pub fn with(mut self, name: &str, value: f64) -> MadeOrigin {
        match &mut self.metrics {
            Metrics::Listed(list) => list.push((name.to_owned(), value, 0.0)),
            Metrics::Every(_) => self.metrics = Metrics::Listed(vec![(name.to_owned(), value, 0.0)]),
        }
        self
    }

    fn found(&self, name: &str) -> Option<(f64, f64)> {
        match &self.metrics {
            Metrics::Every(value) => Some((*value, 1.0)),
            Metrics::Listed(list) => {
                let found = list.iter().find(|(own, ..)| own == name);
                found.map(|(_, value, age)| (*value, *age))
            }
        }
    }
}

/// A list of made origins as a row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MadeRow(pub Vec<MadeOrigin>);

impl Row for MadeRow {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn name(&self, at: usize) -> &str {
        &self.0[at].name
    }

    fn id(&self, at: usize) -> Option<&str> {
        self.0[at].id.as_deref()
    }

    fn weight(&self, at: usize) -> f64 {
        self.0[at].weight
    }

    fn is_backup(&self, at: usize) -> bool {
        self.0[at].is_backup
    }

    fn standing(&self, at: usize) -> &'static str {
        if self.0[at].is_up { "ready" } else { "down" }
    }

    fn is_up(&self, at: usize) -> bool {
        self.0[at].is_up
    }

    fn in_flight(&self, at: usize) -> u32 {
        self.0[at].in_flight
    }

    fn latency_ms(&self, at: usize) -> f64 {
        self.0[at].latency_ms
    }

    fn metric(&self, at: usize, name: &str, _: Instant) -> Option<f64> {
        self.0[at].found(name).filter(|(_, age)| *age >= 0.0).map(|(value, _)| value)
    }

    fn age_s(&self, at: usize, name: &str, _: Instant) -> Option<f64> {
        self.0[at].found(name).map(|(_, age)| age.abs())
    }
}

/// A request that is made up.
#[derive(Debug, Clone)]
pub struct MadeRequest {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub target: Vec<u8>,
    /// The fields.
    pub headers: HeaderMap,
    /// What is known besides.
    pub about: About,
}

/// What came of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// What the script said.
    pub answer: Result<Answer, Failure>,
    /// The operations that it took.
    pub operations: u64,
    /// What it has printed.
    pub printed: Vec<String>,
}

impl MadeRequest {
    /// Asks a script about it.
    pub fn ask(
        &self,
        program: &Program,
        row: &MadeRow,
        state: &State,
        (now, chance): (Instant, u64),
    ) -> Tried {
        let asked =
            Asked { method: &self.method, target: &self.target, headers: &self.headers, about: &self.about };
        let mut frame = Frame::new(asked, row, state, now, chance);
        frame.printed = Some(Default::default());
        let answer = program.call(&frame);
        let printed = frame.printed.take().map(std::cell::RefCell::into_inner).unwrap_or_default();
        Tried { answer, operations: frame.operations.get(), printed }
    }
}
