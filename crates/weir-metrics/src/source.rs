//! A source as the configuration has it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use weir_config::model::Metrics;
use weir_config::value::expression::Term;
use weir_config::value::{Gmond, MetricExpression, MetricsUrl};

use crate::known::{GANGLIA, Known, PROMETHEUS};

/// Where the values are.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// gmonds or gmetads, tried in turn.
    Ganglia {
        /// Where they are.
        at: Vec<Gmond>,
        /// Which origin a host is, by its name or address: the origin's URL or id.
        hosts: BTreeMap<String, String>,
    },
    /// Pages in Prometheus' text.
    Pages(MetricsUrl),
    /// The origins' responses: nothing is read.
    Responses,
}

/// One `[metrics.NAME]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Its name.
    pub name: Arc<str>,
    /// Where the values are.
    pub place: Place,
    /// The time between two reads.
    pub every: Duration,
    /// The longest that a read may take.
    pub timeout: Duration,
    /// The age from which a value counts as missing.
    pub stale_after: Duration,
    /// Whether the configuration says so, also for values that a gmond holds back as they hardly change.
    pub is_age_set: bool,
    /// What is computed.
    pub values: BTreeMap<String, MetricExpression>,
}

impl Source {
    /// A source of the configuration.
    pub fn of(name: &str, metrics: &Metrics) -> Source {
        let place = match &metrics.url {
            _ if metrics.orca => Place::Responses,
            Some(url) => Place::Pages(url.clone()),
            None => Place::Ganglia { at: metrics.ganglia.clone(), hosts: metrics.hosts.clone() },
        };
        Source {
            name: name.into(),
            place,
            every: metrics.every.0,
            timeout: metrics.timeout.0,
            stale_after: metrics.stale_after(),
            is_age_set: metrics.stale_after.is_some(),
            values: metrics.values.clone(),
        }
    }

    /// What it is, in a word.
    pub fn kind(&self) -> &'static str {
        match self.place {
            Place::Ganglia { .. } => "ganglia",
            Place::Pages(_) => "prometheus",
            Place::Responses => "orca",
        }
    }

    /// What is known of sources of its kind.
    pub(crate) fn known(&self) -> &'static Known {
        match self.place {
            Place::Ganglia { .. } | Place::Responses => &GANGLIA,
            Place::Pages(_) => &PROMETHEUS,
        }
    }

    /// The names whose series are needed, and those of which the read before is needed too.
    pub(crate) fn needs(&self) -> (HashSet<String>, HashSet<String>) {
        let (mut all, mut before) = (HashSet::new(), HashSet::new());
        let known = self.known().iter().flat_map(|(_, ways)| ways);
        for expression in self.values.values().chain(known) {
            all.extend(expression.term.selectors().into_iter().map(|selector| selector.name.clone()));
            rates(&expression.term, &mut before);
        }
        (all, before)
    }
}

fn rates(term: &Term, found: &mut HashSet<String>) {
    match term {
        Term::Rate(selector) => drop(found.insert(selector.name.clone())),
        Term::Of(_, inner) => rates(inner, found),
        Term::Both(_, left, right) => {
            rates(left, found);
            rates(right, found);
        }
        Term::Number(_) | Term::Series(_) => {}
    }
}
