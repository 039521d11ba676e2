//! `pick` as the picks of `weir-upstream`, and what picks know of a request. It must not choose an origin.

use std::collections::HashMap;
use std::sync::Arc;

use weir_config::model::{Config, PickEntry, PickRule, PickWord, WrittenPick};
use weir_config::value;
use weir_upstream::{Decider, Deciders, HashOf, Metered, MeteredSettings, Pick, UpstreamSettings};

/// The scripts and distributors that `[pick.NAME]` stands for, by name.
#[derive(Debug, Default)]
pub struct WrittenPicks(pub HashMap<String, Arc<dyn Decider>>);

impl WrittenPicks {
    /// The picks of this rule and what is asked before them, for somebody who sends nothing itself.
    pub fn of_rule(&self, rule: &PickRule, config: &Config) -> (Arc<[Pick]>, Deciders) {
        (picks(rule, config).into(), self.deciders(rule))
    }

    /// The upstreams of a configuration, by name in order.
    pub fn upstreams(&self, config: &Config) -> Vec<UpstreamSettings> {
        super::upstreams::settings(config, self)
    }

    /// What is asked before the picks of this rule, in order.
    pub(crate) fn deciders(&self, rule: &PickRule) -> Deciders {
        let of = |entry: &PickEntry| self.0.get(entry.written()?).cloned();
        rule.list().iter().filter_map(of).collect()
    }
}

/// The picks of an upstream or a route, in order. Scripts and distributors are none.
pub(crate) fn picks(rule: &PickRule, config: &Config) -> Vec<Pick> {
    rule.list().iter().filter_map(|entry| pick(entry, config)).collect()
}

fn pick(entry: &PickEntry, config: &Config) -> Option<Pick> {
    Some(match entry {
        PickEntry::Written(name) => Pick::Metered(metered(&name.0, config.pick.get(&name.0)?)?),
        PickEntry::Hash(table) => Pick::Hash { of: of(&table.hash.of), bound: table.hash.bound },
        PickEntry::Word(word) => match word {
            PickWord::RoundRobin => Pick::RoundRobin,
            PickWord::Random => Pick::Random,
            PickWord::LeastRequests => Pick::LeastRequests,
            PickWord::TwoChoices => Pick::TwoChoices,
            PickWord::Latency => Pick::Latency,
            PickWord::ByRequests => Pick::ByRequests,
            PickWord::ByTraffic => Pick::ByTraffic,
            PickWord::ByBusyness => Pick::ByBusyness,
            PickWord::ClientAddress => Pick::ClientAddress,
            // The check of the configuration has refused a hash of nothing.
            PickWord::Hash => Pick::Hash { of: HashOf::Uri, bound: 1.25 },
            PickWord::First => Pick::First,
        },
    })
}

/// A pick by metrics; `None` for one that is asked.
fn metered(name: &str, pick: &WrittenPick) -> Option<Arc<Metered>> {
    let measured = pick.least.as_ref().or(pick.pack.as_ref())?;
    Some(Metered::new(MeteredSettings {
        name: name.to_owned(),
        parts: measured.parts(),
        full: pick.full.unwrap_or(1.0),
        mark: pick.pack.as_ref().map(|_| pick.mark.unwrap_or(MARK)),
    }))
}

/// The share up to which `pack` fills an origin.
const MARK: f64 = 0.7;

fn of(of: &value::HashOf) -> HashOf {
    match of {
        value::HashOf::Uri => HashOf::Uri,
        value::HashOf::Path => HashOf::Path,
        value::HashOf::Host => HashOf::Host,
        value::HashOf::Header(name) => HashOf::Header(name.0.clone()),
        value::HashOf::Cookie(name) => HashOf::Cookie(name.to_string()),
        value::HashOf::Query(name) => HashOf::Query(name.clone()),
    }
}
