//! Mistakes of `pick`: a hash of nothing, a pick that stands twice, one that is never reached.

use crate::{mistake::Mistake, tree::Node};

/// Checks the `pick` of an upstream or of a layer of rules.
pub(super) fn check(holder: &Node, mistakes: &mut Vec<Mistake>) {
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
        let written = node.to_toml();
        if let Some((_, first)) = before.iter().find(|(known, _)| *known == written) {
            let mistake = Mistake::at(node.span, format!("{written} appears twice in `pick`"));
            mistakes.push(mistake.label("here again").other(first.span, "first here"));
        } else if let Some((_, last)) = before.iter().find(|(known, _)| decides_all(known)) {
            let mistake = Mistake::at(node.span, "this pick is never asked");
            mistakes.push(mistake.other(last.span, "this one leaves nothing open"));
        }
        before.push((written, node));
    }
}

/// Whether a pick always leaves one origin alone.
fn decides_all(written: &str) -> bool {
    ["\"round_robin\"", "\"random\"", "\"two_choices\"", "\"first\""].contains(&written)
}

#[cfg(test)]
mod tests;
