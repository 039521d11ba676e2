//! What a row of a table of metrics is: the name without `_total`, the help, and how to read the value. It
//! must not format anything.

use super::family::{Family, Labels, Series};

/// How a value is read: as a counter, which only grows, or as a level.
pub(super) enum Read<T> {
    Count(fn(&T) -> u64),
    Level(fn(&T) -> f64),
}

/// A family in which each thing (an origin, a volume, all of Weir) has one series.
pub(super) struct Row<T> {
    name: &'static str,
    help: &'static str,
    read: Read<T>,
}

pub(super) const fn count<T>(name: &'static str, help: &'static str, read: fn(&T) -> u64) -> Row<T> {
    Row { name, help, read: Read::Count(read) }
}

pub(super) const fn level<T>(name: &'static str, help: &'static str, read: fn(&T) -> f64) -> Row<T> {
    Row { name, help, read: Read::Level(read) }
}

/// Adds the families of a table, each with a series of every thing.
pub(super) fn rows<'a, T>(
    out: &mut Vec<Family<'a>>,
    table: &[Row<T>],
    labels: &'static [&'static str],
    things: &[(Labels<'a>, &T)],
) {
    for Row { name, help, read } in table {
        let series = match read {
            Read::Count(read) => {
                Series::Counts(things.iter().map(|(labels, of)| (labels.clone(), read(of))).collect())
            }
            Read::Level(read) => {
                Series::Levels(things.iter().map(|(labels, of)| (labels.clone(), read(of))).collect())
            }
        };
        out.push(Family { name, help, labels, series });
    }
}

pub(super) fn one_if(is: bool) -> f64 {
    if is { 1.0 } else { 0.0 }
}
