//! Mistakes of `rewrite`: rules without a pattern, rules behind one that takes all of their paths, and rules
//! for paths that their route does not take.

use super::exclusive::exclusive;
use super::routes::path_covers;
use crate::{
    mistake::Mistake,
    model::Route,
    resolve::{PathRule, conditions},
    tree::Node,
};
use weir_policy::globs_overlap;

/// Checks the rules of one layer; `route` is the route that they stand in, if they stand in one.
pub(super) fn check(layer: &Node, route: Option<&Route>, mistakes: &mut Vec<Mistake>) {
    let mut earlier: Vec<(PathRule, &Node)> = Vec::new();
    let taken = route.map_or(PathRule::Any, |route| conditions(route).path);
    for node in layer.list_of("rewrite") {
        let Some(table) = node.as_table().filter(|table| !table.is_damaged) else { continue };
        exclusive(table, &["from", "regex"], mistakes);
        let text = |key: &str| table.get(key).and_then(Node::as_text);
        let rule = match (text("from"), text("regex").and_then(|regex| regex.parse().ok())) {
            (Some(glob), _) => PathRule::Glob(glob.to_owned()),
            (None, Some(regex)) => PathRule::Regex(regex),
            (None, None) => {
                let mistake = Mistake::at(node.span, "this rule says no path: `from` is missing");
                mistakes.push(mistake.help("a glob: from = \"/api/**\", or an expression: regex = '^/api/'"));
                continue;
            }
        };
        if let Some((_, first)) = earlier.iter().find(|(before, _)| path_covers(before, &rule)) {
            let mistake = Mistake::at(node.span, "this rule is never reached");
            let mistake = mistake.label("an earlier one takes all of its paths");
            mistakes.push(mistake.other(first.span, "this one"));
        } else if is_apart(&taken, &rule) {
            let mistake = Mistake::at(node.span, "this rule is never reached");
            mistakes.push(mistake.label("its route takes none of these paths"));
        }
        earlier.push((rule, node));
    }
}

/// Whether certainly no path can fit both: by the text that they begin with, and globs by the whole.
fn is_apart(one: &PathRule, other: &PathRule) -> bool {
    if let (Some(one), Some(other)) = (as_glob(one), as_glob(other)) {
        return !globs_overlap(&one, &other);
    }
    let (one, other) = (begins(one), begins(other));
    !one.starts_with(&other) && !other.starts_with(&one)
}

/// A glob whose stars may stand for any text, by which at least all paths of the rule fit.
fn as_glob(rule: &PathRule) -> Option<String> {
    match rule {
        PathRule::Glob(glob) => Some(glob.clone()),
        PathRule::Prefix(prefix) => Some(format!("{prefix}*")),
        PathRule::Any => Some("*".to_owned()),
        PathRule::Regex(_) => None,
    }
}

/// The text that all paths of the rule begin with.
fn begins(rule: &PathRule) -> String {
    match rule {
        PathRule::Glob(glob) => glob.split('*').next().unwrap_or_default().to_owned(),
        PathRule::Prefix(prefix) => prefix.clone(),
        PathRule::Any => String::new(),
        PathRule::Regex(regex) => literal(&regex.to_string()),
    }
}

/// The plain text that an expression demands at the beginning.
fn literal(regex: &str) -> String {
    let Some(rest) = regex.strip_prefix('^').filter(|rest| !rest.contains('|')) else { return String::new() };
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"/_-%~".contains(c)).unwrap_or(rest.len());
    // The last character may be one that need not be there.
    let end = if rest[end..].starts_with(['*', '?', '{']) { end.saturating_sub(1) } else { end };
    rest[..end].to_owned()
}
