//! Mistakes of tables by status: a status in two entries, a table without entries.

use crate::{
    mistake::Mistake,
    source::Span,
    tree::{Node, Table},
    value::statuses,
};
use weir_policy::Statuses;

/// Checks the tables by status of one layer.
pub(super) fn check(layer: &Node, mistakes: &mut Vec<Mistake>) {
    let windows = layer.get("stale").and_then(|stale| stale.get("if_status"));
    let tables = ["ttl", "ttl_override", "ignore"].map(|key| (key, layer.get(key)));
    for (key, node) in tables.into_iter().chain([("stale.if_status", windows)]) {
        if let Some((node, table)) = node.and_then(|node| Some((node, node.as_table()?))) {
            one(key, node.span, table, mistakes);
        }
    }
    if let Some(node) = layer.get("ignore") {
        directives(node, mistakes);
        let lists = node.as_table().map_or(&[][..], |table| &table.entries);
        lists.iter().for_each(|entry| directives(&entry.node, mistakes));
    }
}

/// No status may have two values, and a table must have some.
fn one(key: &str, span: Span, table: &Table, mistakes: &mut Vec<Mistake>) {
    if table.entries.is_empty() && !table.is_damaged {
        let mistake = Mistake::at(span, format!("`{key}` is empty"));
        mistakes.push(mistake.label("needs at least one status"));
    }
    let mut known: Vec<(Statuses, Span)> = Vec::new();
    for entry in &table.entries {
        for of in statuses(&entry.key) {
            match known.iter().find(|(known, _)| *known == of) {
                Some((_, first)) => mistakes.push(
                    Mistake::at(entry.key_span, format!("`{}` appears twice in `{key}`", word(of)))
                        .label("here again")
                        .other(*first, "first here"),
                ),
                None => known.push((of, entry.key_span)),
            }
        }
    }
}

/// No directive may stand twice in a list.
fn directives(list: &Node, mistakes: &mut Vec<Mistake>) {
    let mut known: Vec<(&str, Span)> = Vec::new();
    for node in list.as_list() {
        let Some(name) = node.as_text() else { continue };
        match known.iter().find(|(known, _)| *known == name) {
            Some((_, first)) => mistakes.push(
                Mistake::at(node.span, format!("`{name}` appears twice in `ignore`"))
                    .label("here again")
                    .other(*first, "first here"),
            ),
            None => known.push((name, node.span)),
        }
    }
}

fn word(of: Statuses) -> String {
    match of {
        Statuses::One(status) => status.as_str().to_owned(),
        Statuses::Class(digit) => format!("{digit}xx"),
        Statuses::Any => "any".to_owned(),
    }
}
