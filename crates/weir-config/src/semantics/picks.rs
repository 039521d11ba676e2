//! Mistakes of `pick`: a hash of nothing, a pick that stands twice, one that is never reached, a name that
//! means none; and mistakes of `[pick.NAME]`.

use super::exclusive::exclusive;
use crate::{
    check::suggest,
    mistake::Mistake,
    model::{Config, PickWord, WrittenPick},
    neighbours::in_place_of_value,
    tree::Node,
};

/// Checks the `pick` of an upstream or of a layer of rules.
pub(super) fn check(holder: &Node, config: &Config, mistakes: &mut Vec<Mistake>) {
    let Some(node) = holder.get("pick") else { return };
    let one = std::slice::from_ref(node);
    let list = if node.as_list().is_empty() { one } else { node.as_list() };
    let mut before: Vec<(String, &Node)> = Vec::new();
    for node in list {
        if node.as_text() == Some("hash") {
            let mistake = Mistake::at(node.span, "a hash of nothing");
            mistakes
                .push(mistake.help("write `{ hash = { of = \"uri\" } }`, or another part of the request"));
            continue;
        }
        if let Some(word) = node.as_text().filter(|word| !is_known(word, config)) {
            mistakes.push(unknown(node, word, config));
            continue;
        }
        let written = node.to_toml();
        let is_asked = |text: &str| config.pick.get(text.trim_matches('"')).is_some_and(is_asked);
        if let Some((_, first)) = before.iter().find(|(known, _)| *known == written) {
            let mistake = Mistake::at(node.span, format!("{written} appears twice in `pick`"));
            mistakes.push(mistake.label("here again").other(first.span, "first here"));
        } else if let Some((_, last)) = before.iter().find(|(known, _)| decides_all(known)) {
            let mistake = Mistake::at(node.span, "this pick is never asked");
            mistakes.push(mistake.other(last.span, "this one leaves nothing open"));
        } else if is_asked(&written)
            && let Some((_, other)) = before.iter().find(|(known, _)| !is_asked(known))
        {
            let title = format!("{written} is asked before all other picks, and must stand before them");
            mistakes.push(Mistake::at(node.span, title).other(other.span, "this one stands before it"));
        }
        before.push((written, node));
    }
}

/// Whether a pick always leaves one origin alone.
fn decides_all(written: &str) -> bool {
    ["\"round_robin\"", "\"random\"", "\"two_choices\"", "\"first\""].contains(&written)
}

/// Whether it is asked before origins are compared.
fn is_asked(pick: &WrittenPick) -> bool {
    !pick.is_of_metrics()
}

fn is_known(word: &str, config: &Config) -> bool {
    PickWord::WORDS.contains(&word) || config.pick.contains_key(word)
}

fn unknown(node: &Node, word: &str, config: &Config) -> Mistake {
    let mistake = Mistake::at(node.span, format!("unknown value `{word}` for `pick`"));
    if let Some(meant) = in_place_of_value(&["pick".to_owned()], word) {
        return mistake.help(meant);
    }
    suggest(mistake, word, PickWord::WORDS.into_iter().chain(config.pick.keys().map(String::as_str)))
}

/// Checks `[pick.NAME]`.
pub(super) fn written(config: &Config, tree: &Node, mistakes: &mut Vec<Mistake>) {
    let Some(table) = tree.get("pick").and_then(Node::as_table) else { return };
    for entry in &table.entries {
        let Some(pick) = config.pick.get(&entry.key) else { continue };
        if PickWord::WORDS.contains(&&*entry.key) {
            let title = format!("`{}` is a built-in pick, and cannot be the name of another", entry.key);
            mistakes.push(Mistake::at(entry.key_span, title));
        }
        one(pick, &entry.node, mistakes);
    }
}

/// What a written pick may be.
const KINDS: [&str; 4] = ["least", "pack", "script", "distributor"];

/// The keys that have a use with one kind alone.
const OF_KIND: [(&str, &[&str]); 11] = [
    ("full", &["least", "pack"]),
    ("mark", &["pack"]),
    ("values", &["script"]),
    ("policy", &["distributor"]),
    ("timeout", &["distributor"]),
    ("tries", &["distributor"]),
    ("send", &["distributor"]),
    ("key_file", &["distributor"]),
    ("allow", &["distributor"]),
    ("keep", &["distributor"]),
    ("form", &["distributor"]),
];

fn one(pick: &WrittenPick, node: &Node, mistakes: &mut Vec<Mistake>) {
    let Some(table) = node.as_table().filter(|table| !table.is_damaged) else { return };
    exclusive(table, &KINDS, mistakes);
    if KINDS.iter().all(|kind| table.entry(kind).is_none()) {
        let mistake = Mistake::at(node.span, "this pick does not say how it decides");
        mistakes.push(mistake.help("give it one of `least`, `pack`, `script` and `distributor`"));
        return;
    }
    for (key, kinds) in OF_KIND {
        let has_use = kinds.iter().any(|kind| table.entry(kind).is_some());
        if let Some(entry) = table.entry(key).filter(|_| !has_use) {
            let title = format!("`{key}` has no use without `{}`", kinds.join("` or `"));
            mistakes.push(Mistake::at(entry.key_span, title));
        }
    }
    let measured = pick.least.as_ref().or(pick.pack.as_ref());
    let Some((measured, entry)) = measured.zip(table.entry("least").or(table.entry("pack"))) else { return };
    let parts = measured.parts();
    if parts.is_empty() || parts.iter().any(|(name, _)| name.is_empty()) {
        mistakes.push(Mistake::at(entry.node.span, format!("`{}` names no metric", entry.key)));
    } else if parts.iter().any(|(_, factor)| !factor.is_finite() || *factor <= 0.0) {
        mistakes.push(Mistake::at(entry.node.span, "a factor is more than 0"));
    } else if pick.full.is_none() && !measured.is_of_one() {
        let title = "Weir does not know at which value of this metric an origin is full";
        mistakes.push(Mistake::at(entry.node.span, title).help("say it: `full = 8`"));
    }
}

#[cfg(test)]
mod tests;
