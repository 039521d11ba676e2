//! Keys of one table that exclude each other.

use crate::{mistake::Mistake, tree::Table};

/// Reports keys that exclude each other.
pub(super) fn exclusive(table: &Table, keys: &[&str], mistakes: &mut Vec<Mistake>) {
    let mut given = keys.iter().filter_map(|key| table.entry(key));
    let Some(first) = given.next() else { return };
    for second in given {
        mistakes.push(
            Mistake::at(second.key_span, format!("`{}` and `{}` exclude each other", first.key, second.key))
                .label("only one of them may be given")
                .other(first.key_span, format!("`{}` is given here", first.key)),
        );
    }
}
