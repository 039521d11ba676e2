//! Expressions over what was read of a host, now and the time before. Pure.

use std::collections::HashMap;

use weir_config::value::expression::{Aggregate, Filter, MetricExpression, Operator, Selector, Term, Test};

use crate::samples::{Samples, Series, Times};

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Why {
    /// No series passes.
    #[error("no series {0}")]
    NoSeries(String),
    /// A rate needs two reads.
    #[error("rate({0}) needs a second read")]
    Once(String),
    /// No series of both sides belong together.
    #[error("no series of both sides have the same labels")]
    NoPair,
    /// Division by zero.
    #[error("it is no number: a division by zero")]
    NoNumber,
}

/// What an expression is computed from.
#[derive(Clone, Copy)]
pub(crate) struct Given<'g> {
    pub(crate) now: &'g Samples,
    pub(crate) before: Option<&'g Samples>,
    /// What `{host}`, `{port}` and `{id}` stand for.
    pub(crate) part: &'g dyn Fn(&str) -> Option<String>,
}

/// A value, and what is said of its age.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Value {
    pub(crate) value: f64,
    pub(crate) times: Times,
}

/// Computes an expression: one number; several series become their mean.
///
/// # Errors
/// It has no value.
pub(crate) fn evaluate(expression: &MetricExpression, given: Given<'_>) -> Result<Value, Why> {
    let value = match of(&expression.term, given)? {
        Found::One(value) => value,
        Found::Many(series) => aggregate(Aggregate::Mean, &series),
    };
    if !value.is_finite() {
        return Err(Why::NoNumber);
    }
    let names = expression.term.selectors();
    let used = || names.iter().filter_map(|selector| given.now.get(&selector.name));
    Ok(Value { value, times: used().fold(Times::default(), |times, named| times.with(named.times)) })
}

/// Values by labels.
type ByLabels<'s> = HashMap<&'s [(Box<str>, Box<str>)], f64>;

enum Found {
    One(f64),
    /// At least one.
    Many(Vec<Series>),
}

fn of(term: &Term, given: Given<'_>) -> Result<Found, Why> {
    match term {
        Term::Number(number) => Ok(Found::One(*number)),
        Term::Series(selector) => selected(selector, given.now, given).map(Found::Many),
        Term::Rate(selector) => rate(selector, given).map(Found::Many),
        Term::Of(how, inner) => Ok(match of(inner, given)? {
            Found::One(value) => Found::One(value),
            Found::Many(series) => Found::One(aggregate(*how, &series)),
        }),
        Term::Both(operator, left, right) => both(*operator, of(left, given)?, of(right, given)?),
    }
}

fn aggregate(how: Aggregate, series: &[Series]) -> f64 {
    let values = series.iter().map(|one| one.value);
    match how {
        Aggregate::Sum => values.sum(),
        Aggregate::Mean => values.sum::<f64>() / series.len() as f64,
        Aggregate::Max => values.fold(f64::NEG_INFINITY, f64::max),
        Aggregate::Min => values.fold(f64::INFINITY, f64::min),
    }
}

fn selected(selector: &Selector, samples: &Samples, given: Given<'_>) -> Result<Vec<Series>, Why> {
    let all = samples.get(&selector.name).map_or(&[][..], |named| &named.series);
    let passes = |one: &&Series| selector.filters.iter().all(|filter| passes(filter, one, given));
    let found: Vec<Series> = all.iter().filter(passes).cloned().collect();
    if found.is_empty() { Err(Why::NoSeries(selector.to_string())) } else { Ok(found) }
}

fn passes(filter: &Filter, series: &Series, given: Given<'_>) -> bool {
    let label = series.labels.iter().find(|(label, _)| **label == *filter.label);
    let value = label.map_or("", |(_, value)| value);
    let is_it = match &filter.test {
        Test::Text(text) if text.contains('{') => filled(text, given.part) == value,
        Test::Text(text) => text == value,
        Test::Pattern(pattern) => pattern.is_match(value),
    };
    is_it != filter.is_not
}

/// A text with the parts of the origin.
fn filled(text: &str, part: &dyn Fn(&str) -> Option<String>) -> String {
    ["host", "port", "id"].into_iter().fold(text.to_owned(), |text, name| {
        let placeholder = format!("{{{name}}}");
        match text.contains(&placeholder) {
            true => text.replace(&placeholder, &part(name).unwrap_or_default()),
            false => text,
        }
    })
}

/// How fast counters have grown since the read before, a second. One that has fallen began at zero again.
fn rate(selector: &Selector, given: Given<'_>) -> Result<Vec<Series>, Why> {
    let mut now = selected(selector, given.now, given)?;
    let once = || Why::Once(selector.to_string());
    let before = given.before.ok_or_else(once)?;
    let seconds = given.now.at.saturating_duration_since(before.at).as_secs_f64();
    let known = before.get(&selector.name).map_or(&[][..], |named| &named.series);
    let by_labels: ByLabels<'_> = known.iter().map(|one| (&*one.labels, one.value)).collect();
    now.retain_mut(|one| {
        let Some(earlier) = by_labels.get(&*one.labels) else { return false };
        let grown = if one.value >= *earlier { one.value - earlier } else { one.value };
        one.value = grown / seconds;
        seconds > 0.0
    });
    if now.is_empty() { Err(once()) } else { Ok(now) }
}

fn both(operator: Operator, left: Found, right: Found) -> Result<Found, Why> {
    let apply = |left: f64, right: f64| match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
    };
    let each = |mut series: Vec<Series>, with: &dyn Fn(f64) -> f64| {
        series.iter_mut().for_each(|one| one.value = with(one.value));
        Found::Many(series)
    };
    Ok(match (left, right) {
        (Found::One(left), Found::One(right)) => Found::One(apply(left, right)),
        (Found::Many(left), Found::One(right)) => each(left, &|value| apply(value, right)),
        (Found::One(left), Found::Many(right)) => each(right, &|value| apply(left, value)),
        (Found::Many(mut left), Found::Many(right)) => {
            let by_labels: ByLabels<'_> = right.iter().map(|one| (&*one.labels, one.value)).collect();
            left.retain_mut(|one| {
                let Some(other) = by_labels.get(&*one.labels) else { return false };
                one.value = apply(one.value, *other);
                true
            });
            if left.is_empty() {
                return Err(Why::NoPair);
            }
            Found::Many(left)
        }
    })
}

/// Promises of expressions, for fuzz targets.
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing {
    use super::{Given, evaluate};
    use crate::exposition::fuzzing::read;
    use weir_config::value::MetricExpression;

    const PAGE: &[u8] =
        b"a 1\na{x=\"1\"} 2\na{x=\"2\",y=\"3\"} 0\nnode_cpu_seconds_total{mode=\"idle\"} 7\nb 1\n";

    /// An expression is read again as it is shown, and has a finite value or none.
    pub fn expression(bytes: &[u8]) {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        match MetricExpression::parse(text) {
            Ok(expression) => {
                let Ok(samples) = read(PAGE, 100) else { unreachable!("the page is fine") };
                let given = Given { now: &samples, before: Some(&samples), part: &|_| None };
                if let Ok(found) = evaluate(&expression, given) {
                    assert!(found.value.is_finite());
                }
                assert_eq!(MetricExpression::parse(&expression.to_string()), Ok(expression));
            }
            Err((place, _)) => assert!(text.get(place).is_some()),
        }
    }
}

#[cfg(test)]
mod tests;
