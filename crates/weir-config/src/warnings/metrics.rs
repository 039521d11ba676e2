//! Warnings about sources of metrics that no upstream names.

use crate::model::Config;
use crate::source::Sources;
use crate::tree::Node;

/// The warnings about the sources of a configuration, a sentence each.
pub(crate) fn of_unused_metrics(config: &Config, tree: &Node, sources: &Sources) -> Vec<String> {
    let table = tree.get("metrics").and_then(Node::as_table);
    let is_used = |name: &String| config.upstream.values().any(|upstream| upstream.metrics.contains(name));
    let unused = table.iter().flat_map(|table| &table.entries).filter(|entry| !is_used(&entry.key));
    unused
        .map(|entry| {
            format!("{}: no upstream names the source `{}`", sources.place(entry.key_span), entry.key)
        })
        .collect()
}
