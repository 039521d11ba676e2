//! Mistakes of cookies by name: names that the same table takes out of requests and then asks for, and rules
//! for the attributes of responses' cookies that contradict each other or are never reached.

use crate::{
    mistake::Mistake,
    tree::{Node, Table},
};
use weir_policy::cookies::CookieRule;
use weir_policy::set_cookie::is_within;

/// Checks the rules of one layer.
pub(super) fn check(layer: &Node, mistakes: &mut Vec<Mistake>) {
    if let Some(node) = layer.get("set_cookie") {
        set_cookie(node, mistakes);
    }
    let Some(table) = layer.get("cookies").and_then(Node::as_table).filter(|table| !table.is_damaged) else {
        return;
    };
    let Some(entry) = table.entry("keep").or_else(|| table.entry("drop")) else { return };
    let rule = rule(table);
    for (key, why) in [
        ("key", "it is never in the key"),
        ("bypass", "this condition never holds"),
        ("refresh", "this condition never holds"),
        ("no_store", "this condition never holds"),
    ] {
        let Some(named) = layer.get(key) else { continue };
        for node in named.list_of("cookies") {
            let name = node.as_text().map(|text| text.split('=').next().unwrap_or_default());
            let Some(name) = name.filter(|name| rule.never_keeps(name)) else { continue };
            let title = format!("`{key}` names the cookie `{name}`, which `cookies` takes out");
            mistakes.push(Mistake::at(node.span, title).label(why).other(entry.key_span, "by this list"));
        }
    }
}

/// Checks what is said of responses' cookies by name.
fn set_cookie(node: &Node, mistakes: &mut Vec<Mistake>) {
    let Some(table) = node.as_table().filter(|table| !table.is_damaged) else { return };
    if table.entries.is_empty() {
        let mistake = Mistake::at(node.span, "`set_cookie` is empty");
        mistakes.push(mistake.label("needs `strip` or `flags`"));
    }
    let mut earlier: Vec<(&str, &Node, &str)> = Vec::new();
    earlier.extend(names(node, "strip").map(|(name, node)| (name, node, "it is taken out here")));
    for rule in node.list_of("flags") {
        let Some(table) = rule.as_table().filter(|table| !table.is_damaged) else { continue };
        flags(rule, table, mistakes);
        for (name, node) in names(rule, "cookies") {
            if let Some((_, first, why)) = earlier.iter().find(|(before, ..)| is_within(name, before)) {
                let mistake = Mistake::at(node.span, format!("the cookie `{name}` never has these flags"));
                mistakes.push(mistake.other(first.span, *why));
            }
        }
        earlier.extend(names(rule, "cookies").map(|(name, node)| (name, node, "an earlier rule has it")));
    }
}

fn names<'n>(table: &'n Node, key: &str) -> impl Iterator<Item = (&'n str, &'n Node)> {
    table.list_of(key).iter().filter_map(|node| Some((node.as_text()?, node)))
}

/// No attribute may be said twice, and one must be.
fn flags(rule: &Node, table: &Table, mistakes: &mut Vec<Mistake>) {
    let mut known: Vec<(&str, &Node)> = Vec::new();
    for (text, node) in ["add", "remove"].into_iter().flat_map(|key| names(rule, key)) {
        let name = text.split('=').next().unwrap_or_default();
        match known.iter().find(|(known, _)| *known == name) {
            Some((_, first)) => mistakes.push(
                Mistake::at(node.span, format!("a rule of `flags` names `{name}` twice"))
                    .label("here again")
                    .other(first.span, "first here"),
            ),
            None => known.push((name, node)),
        }
    }
    if known.is_empty() && table.get("cookies").is_some() {
        let mistake = Mistake::at(rule.span, "this rule changes nothing");
        mistakes.push(mistake.label("needs `add` or `remove`"));
    }
}

fn rule(table: &Table) -> CookieRule {
    let names = |key: &str| -> Option<Vec<String>> {
        let list = table.get(key)?.as_list().iter();
        Some(list.filter_map(|node| node.as_text().map(str::to_owned)).collect())
    };
    match (names("keep"), names("drop")) {
        (Some(keep), _) => CookieRule::Keep(keep),
        (None, Some(drop)) => CookieRule::Drop(drop),
        (None, None) => CookieRule::All,
    }
}

#[cfg(test)]
mod tests;
