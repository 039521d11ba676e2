//! Warnings about maps that nothing names.

use crate::source::Sources;
use crate::tree::{Node, Value};

/// The warnings about the maps of a configuration, a sentence each.
pub(crate) fn of_maps(tree: &Node, sources: &Sources) -> Vec<String> {
    let maps = tree.get("map").and_then(Node::as_table);
    let unused = maps.iter().flat_map(|maps| &maps.entries).filter(|map| !is_used(tree, &map.key));
    unused
        .map(|map| format!("{}: nothing names the map `{}`", sources.place(map.key_span), map.key))
        .collect()
}

/// Whether a placeholder or a condition names a map.
fn is_used(node: &Node, name: &str) -> bool {
    match &node.value {
        Value::Text(text) => mentions(&text.text, name),
        Value::List(list) => list.iter().any(|node| is_used(node, name)),
        Value::Table(table) => table.entries.iter().any(|entry| {
            let is_condition = |node: &Node| {
                node.as_text().is_some_and(|text| text.split('=').next().is_some_and(|of| of.trim() == name))
            };
            (entry.key == "map" && entry.node.as_list().iter().any(is_condition))
                || is_used(&entry.node, name)
        }),
        _ => false,
    }
}

fn mentions(text: &str, name: &str) -> bool {
    text.split("{map.").skip(1).any(|rest| {
        let end = rest.find(|c: char| c == '}' || c == '|' || c.is_whitespace()).unwrap_or(rest.len());
        rest[..end] == *name
    })
}
