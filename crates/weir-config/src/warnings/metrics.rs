//! Warnings about sources of metrics that no upstream names, and picks by metrics without a source.

use crate::model::{Config, Upstream, WrittenPick};
use crate::source::Sources;
use crate::tree::Node;

/// The warnings about the sources of a configuration, a sentence each.
pub(crate) fn of_unused_metrics(config: &Config, tree: &Node, sources: &Sources) -> Vec<String> {
    let table = tree.get("metrics").and_then(Node::as_table);
    let is_used = |name: &String| config.upstream.values().any(|upstream| upstream.metrics.contains(name));
    let unused = table.iter().flat_map(|table| &table.entries).filter(|entry| !is_used(&entry.key));
    let unused = unused.map(|entry| {
        format!("{}: no upstream names the source `{}`", sources.place(entry.key_span), entry.key)
    });
    unused.chain(of_picks_without_values(config, tree, sources)).collect()
}

/// Upstreams that are picked by metrics and name no source.
fn of_picks_without_values<'c>(
    config: &'c Config,
    tree: &'c Node,
    sources: &'c Sources,
) -> impl Iterator<Item = String> + 'c {
    let goes_by_metrics = |upstream: &Upstream| {
        let list = upstream.pick.list();
        let mut picks = list.iter().filter_map(|entry| config.pick.get(entry.written()?));
        picks.any(WrittenPick::is_of_metrics)
    };
    let without = config.upstream.iter().filter(move |(_, upstream)| {
        upstream.metrics.is_empty() && upstream.agent.is_none() && goes_by_metrics(upstream)
    });
    without.filter_map(move |(name, _)| {
        let node = tree.get("upstream")?.get(name)?.get("pick")?;
        let place = sources.place(node.span);
        Some(format!(
            "{place}: this pick goes by metrics, and the upstream names no source in `metrics`: only what is \
             pushed counts"
        ))
    })
}

#[cfg(test)]
mod tests {
    use crate::sample::good;

    #[test]
    fn a_pick_by_metrics_needs_values() {
        let text = |more: &str| {
            format!(
                "[pick.calm]\nleast = \"cpu\"\n[metrics.m]\norca = true\n[upstream.a]\n\
                 origins = [\"http://a\"]\npick = [\"calm\", \"random\"]\n{more}\n[[site]]\nhosts = [\"*\"]\n\
                 upstream = \"a\"\n"
            )
        };
        let warnings = |more: &str| good(&text(more)).warnings();
        assert!(warnings("").iter().any(|text| text.contains(":7: this pick goes by metrics")));
        assert!(warnings("metrics = [\"m\"]").is_empty());
    }
}
