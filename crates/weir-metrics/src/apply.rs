//! What was read of a host becomes the values of an origin: what the configuration computes, then what has
//! its own name, then what is known.

use std::collections::BTreeSet;
use std::time::Instant;

use weir_config::value::MetricExpression;
use weir_upstream::{NAMES_MAX, Setting};

use crate::evaluate::{Given, Value, evaluate};
use crate::hosts::Target;
use crate::samples::{Samples, Times};
use crate::source::Source;
use crate::status::MissingValue;

/// Puts the values of a host into the gauges of its origin. Returns what is missing.
pub(crate) fn apply(
    source: &Source,
    target: &Target,
    (now, before): (&Samples, Option<&Samples>),
) -> Vec<MissingValue> {
    let part = |name: &str| target.part(name);
    let given = Given { now, before, part: &part };
    let (mut missing, mut done, mut all) = (Vec::new(), BTreeSet::new(), Vec::new());
    let mut miss = |name: &str, why: String| missing.push(MissingValue { name: Some(name.to_owned()), why });
    for (name, expression) in &source.values {
        match evaluate(expression, given) {
            Ok(value) => all.push(setting(source, (name, value), now.at)),
            Err(why) => miss(name, why.to_string()),
        }
        done.insert(name.as_str());
    }
    for (name, ways) in source.known() {
        if done.contains(name) || now.get(name).is_some() {
            continue;
        }
        match first(ways, given) {
            Ok(value) => all.push(setting(source, (name, value), now.at)),
            Err(why) => miss(name, why),
        }
        done.insert(name);
    }
    let room = NAMES_MAX.saturating_sub(done.len());
    let others = now.names().into_iter().filter(|name| !done.contains(name));
    for (name, named) in others.take(room).filter_map(|name| Some((name, now.get(name)?))) {
        let value = Value { value: named.mean(), times: named.times };
        all.push(setting(source, (name, value), now.at));
    }
    // A name that no metric may have, or one too many, is left out.
    let _ = target.gauged.gauges.set_all(&source.name, all);
    missing
}

/// The first way that has a value.
fn first(ways: &[MetricExpression], given: Given<'_>) -> Result<Value, String> {
    let mut why = String::new();
    for way in ways {
        match evaluate(way, given) {
            Ok(value) => return Ok(value),
            Err(other) if why.is_empty() => why = other.to_string(),
            Err(_) => {}
        }
    }
    Err(why)
}

fn setting<'n>(source: &Source, (name, value): (&'n str, Value), read: Instant) -> Setting<'n> {
    let Value { value, times: Times { age, overdue, ends_in } } = value;
    let measured = read.checked_sub(age).unwrap_or(read);
    // Where nothing else is said, what the source holds back on purpose is not old.
    let old = if source.is_age_set { age } else { overdue };
    let stale = read.checked_add(source.stale_after).map(|at| at.checked_sub(old).unwrap_or(read));
    let ends = ends_in.and_then(|left| read.checked_add(left));
    Setting { name, value, measured, good_until: stale.into_iter().chain(ends).min() }
}
