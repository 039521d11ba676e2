//! What was read of one host at one moment: series by name. Bounded, whatever a source sends.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// The most names of a host.
pub(crate) const NAMES_MAX: usize = 4096;
/// The most series with labels of a host.
const SERIES_MAX: usize = 20_000;

/// The longest name that is kept, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// A series with its labels, in the order of their names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    pub(crate) labels: Vec<(Box<str>, Box<str>)>,
    pub(crate) value: f64,
}

/// The series of a name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Named {
    /// Those that are wanted with their labels.
    pub(crate) series: Vec<Series>,
    /// Of all: their sum and number.
    sum: f64,
    count: u32,
    /// What their source says of their age.
    pub(crate) times: Times,
}

/// What a source says of the age of a value when it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// How old it is.
    pub(crate) age: Duration,
    /// By how much it is older than a value of its kind becomes before it is sent again.
    pub(crate) overdue: Duration,
    /// When it ends, counted from now.
    pub(crate) ends_in: Option<Duration>,
}

impl Times {
    /// Those of a value that is made of two.
    pub(crate) fn with(self, other: Times) -> Times {
        Times {
            age: self.age.max(other.age),
            overdue: self.overdue.max(other.overdue),
            ends_in: self.ends_in.into_iter().chain(other.ends_in).min(),
        }
    }
}

impl Named {
    /// The mean of all series.
    pub(crate) fn mean(&self) -> f64 {
        self.sum / f64::from(self.count.max(1))
    }
}

/// The values of a host.
#[derive(Clone, Debug)]
pub(crate) struct Samples {
    /// When they were read.
    pub(crate) at: Instant,
    names: HashMap<Box<str>, Named>,
    names_max: usize,
    series: usize,
}

impl Samples {
    pub(crate) fn new(at: Instant) -> Samples {
        Samples::with_names(NAMES_MAX, at)
    }

    /// Those of so many names at most.
    pub(crate) fn with_names(names_max: usize, at: Instant) -> Samples {
        Samples { at, names: HashMap::new(), names_max, series: 0 }
    }

    /// Adds a value. What exceeds the bounds is left out.
    pub(crate) fn add(
        &mut self,
        name: &str,
        labels: Option<Vec<(Box<str>, Box<str>)>>,
        value: f64,
        times: Times,
    ) {
        if !value.is_finite() || name.len() > NAME_BYTES_MAX {
            return;
        }
        if !self.names.contains_key(name) && self.names.len() >= self.names_max {
            return;
        }
        let named = self.names.entry(name.into()).or_default();
        named.sum += value;
        named.count = named.count.saturating_add(1);
        named.times = named.times.with(times);
        if let Some(labels) = labels.filter(|_| self.series < SERIES_MAX) {
            self.series += 1;
            if named.series.is_empty() {
                // Most have one, and a vector makes room for four.
                named.series.reserve_exact(1);
            }
            named.series.push(Series { labels, value });
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Named> {
        self.names.get(name)
    }

    /// All names, in order.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.names.keys().map(|name| &**name).collect();
        names.sort_unstable();
        names
    }

    /// What a later look needs of them.
    pub(crate) fn kept(&self, names: &HashSet<String>) -> Samples {
        let kept = self.names.iter().filter(|(name, _)| names.contains(&***name));
        let names = kept.map(|(name, named)| (name.clone(), named.clone())).collect();
        Samples { at: self.at, names, names_max: self.names_max, series: self.series }
    }
}
