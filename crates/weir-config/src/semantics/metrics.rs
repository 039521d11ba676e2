//! Mistakes of `[metrics.NAME]` and of the upstreams' `metrics`: sources that are none or several, keys that
//! mean nothing, names that lead nowhere.

use crate::{
    check::suggest,
    mistake::Mistake,
    model::{Config, Metrics, OriginEntry},
    tree::Node,
    value::Duration,
};

/// The shortest time between two reads.
const EVERY_MIN: Duration = Duration(std::time::Duration::from_millis(100));
/// The most sources of an upstream.
const SOURCES_MAX: usize = 8;

/// Checks all sources, and the upstreams that name them.
pub(super) fn check(config: &Config, tree: &Node, mistakes: &mut Vec<Mistake>) {
    let sources = tree.get("metrics");
    for (name, metrics) in &config.metrics {
        if let Some(node) = sources.and_then(|sources| sources.get(name)) {
            source(metrics, node, mistakes);
            hosts((name, metrics), node, config, mistakes);
        }
    }
    let written: Vec<&str> = sources
        .and_then(Node::as_table)
        .map_or(Vec::new(), |table| table.entries.iter().map(|entry| entry.key.as_str()).collect());
    for (name, upstream) in &config.upstream {
        let node = tree.get("upstream").and_then(|all| all.get(name));
        let Some(node) = node.and_then(|node| node.get("metrics")) else { continue };
        for (at, name) in node.as_list().iter().enumerate() {
            let Some(word) = name.as_text() else { continue };
            if upstream.metrics[..at.min(upstream.metrics.len())].iter().any(|before| before == word) {
                mistakes.push(Mistake::at(name.span, format!("the source `{word}` stands twice")));
            } else if !written.contains(&word) {
                let mistake = Mistake::at(name.span, format!("there is no source of metrics `{word}`"));
                mistakes.push(match (word, written.is_empty()) {
                    ("push" | "agent", _) => mistake.help("it needs no entry: leave it out"),
                    (_, true) => mistake.help(format!(
                        "add one: [metrics.{word}] with url = \"http://{{host}}:9100/metrics\""
                    )),
                    (_, false) => suggest(mistake, word, written.iter().copied()),
                });
            }
        }
        if node.as_list().len() > SOURCES_MAX {
            mistakes.push(Mistake::at(node.span, format!("an upstream has at most {SOURCES_MAX} sources")));
        }
    }
}

fn source(metrics: &Metrics, node: &Node, mistakes: &mut Vec<Mistake>) {
    let kinds: Vec<(&str, &Node)> = ["ganglia", "url", "orca"]
        .into_iter()
        .filter_map(|key| Some((key, node.get(key)?)))
        .filter(|(key, _)| *key != "orca" || metrics.orca)
        .collect();
    match kinds.as_slice() {
        [] if node.as_table().is_some_and(|table| !table.is_damaged) => {
            let mistake = Mistake::at(node.span, "this source says nothing of where its values are");
            mistakes.push(mistake.help("add `ganglia = [\"HOST\"]`, `url = \"…\"` or `orca = true`"));
        }
        [(first, one), (second, other), ..] => {
            let title = format!("a source has either `{first}` or `{second}`");
            mistakes.push(Mistake::at(other.span, title).other(one.span, "the other one is here"));
        }
        _ => {}
    }
    if metrics.orca {
        for key in ["every", "timeout", "values", "hosts"] {
            if let Some(node) = node.get(key) {
                let title = format!("`{key}` means nothing with `orca`: values come with responses");
                mistakes.push(Mistake::at(node.span, title));
            }
        }
    } else if metrics.ganglia.is_empty()
        && let Some(node) = node.get("hosts")
    {
        mistakes.push(Mistake::at(node.span, "`hosts` is for `ganglia` alone"));
    }
    if let Some(node) = node.get("every").filter(|_| metrics.every < EVERY_MIN) {
        mistakes.push(Mistake::at(node.span, format!("`every` is at least {EVERY_MIN}")));
    }
    if let Some(node) = node.get("timeout").filter(|_| metrics.timeout.0.is_zero()) {
        mistakes.push(Mistake::at(node.span, "`timeout` is zero: nothing could ever be read"));
    }
    let shortest = if metrics.orca { EVERY_MIN } else { metrics.every };
    if let (Some(age), Some(node)) = (metrics.stale_after, node.get("stale_after"))
        && age < shortest
    {
        let title = format!("`stale_after` ({age}) is shorter than the time between two reads ({shortest})");
        mistakes.push(Mistake::at(node.span, title).help("a value would be missing most of the time"));
    }
}

/// Each host is an origin of an upstream that has the source.
fn hosts((name, metrics): (&str, &Metrics), node: &Node, config: &Config, mistakes: &mut Vec<Mistake>) {
    let upstreams =
        config.upstream.values().filter(|upstream| upstream.metrics.iter().any(|one| one == name));
    let origins: Vec<&OriginEntry> = upstreams.flat_map(|upstream| &upstream.origins).collect();
    let mut known: Vec<String> = origins.iter().map(|origin| origin.url().to_string()).collect();
    known.extend(origins.iter().filter_map(|origin| origin.id().map(str::to_owned)));
    for (host, origin) in &metrics.hosts {
        let url = origin.parse::<crate::value::OriginUrl>().map(|url| url.to_string());
        let meant = url.as_ref().unwrap_or(origin);
        if known.contains(meant) {
            continue;
        }
        let Some(node) = node.get("hosts").and_then(|hosts| hosts.get(host)) else { continue };
        let title = format!("no upstream with the source `{name}` has the origin `{origin}`");
        mistakes.push(suggest(Mistake::at(node.span, title), origin, known.iter().map(String::as_str)));
    }
}

#[cfg(test)]
mod tests;
