//! Mistakes of routes: conditions that exclude each other, and routes behind one that takes every request.

use super::exclusive;
use crate::{
    mistake::Mistake,
    model::Site,
    resolve::{Conditions, PathRule, conditions},
    tree::Node,
};

const REDIRECT_STATUSES: [i64; 5] = [301, 302, 303, 307, 308];

/// Checks one route by itself.
pub(super) fn one(route: &Node, mistakes: &mut Vec<Mistake>) {
    let Some(table) = route.as_table() else { return };
    exclusive(table, &["path", "prefix", "regex"], mistakes);
    exclusive(table, &["answer", "redirect", "upstream"], mistakes);
    if let Some(answer) = table.get("answer").and_then(Node::as_table) {
        exclusive(answer, &["body", "body_file"], mistakes);
    }
    let status = table.get("redirect").and_then(|redirect| redirect.get("status"));
    if let Some(node) = status
        && let crate::tree::Value::Integer(status) = node.value
        && !REDIRECT_STATUSES.contains(&status)
    {
        let mistake = Mistake::at(node.span, format!("{status} is not a redirect status"));
        mistakes.push(mistake.label("use one of 301, 302, 303, 307 and 308"));
    }
}

/// Reports each route that gets no request because of an earlier one, and routes without an upstream.
pub(super) fn unreachable(site: &Site, node: &Node, mistakes: &mut Vec<Mistake>) {
    let mut earlier: Vec<(Conditions, &Node)> = Vec::new();
    for (route, route_node) in site.route.iter().zip(node.list_of("route")) {
        if is_damaged(route_node) {
            continue;
        }
        let now = conditions(route);
        if let Some((_, first)) = earlier.iter().find(|(before, _)| covers(before, &now)) {
            mistakes.push(
                Mistake::at(route_node.span, "this route is never reached")
                    .label("an earlier one takes all of its requests")
                    .other(first.span, "this one"),
            );
            continue;
        }
        earlier.push((now, route_node));
    }
}

/// Whether a mistake was removed from a table, so that its conditions are not known.
fn is_damaged(node: &Node) -> bool {
    node.as_table().is_none_or(|table| table.is_damaged)
}

/// Whether `before` certainly takes every request that `now` would take. Expressions are only compared for
/// equality.
fn covers(before: &Conditions, now: &Conditions) -> bool {
    let methods = before.methods.is_empty()
        || (!now.methods.is_empty() && now.methods.iter().all(|method| before.methods.contains(method)));
    let scheme = before.scheme.is_none() || before.scheme == now.scheme;
    methods && scheme && path_covers(&before.path, &now.path)
}

fn path_covers(before: &PathRule, now: &PathRule) -> bool {
    if before == now {
        return true;
    }
    let prefix = match before {
        PathRule::Any => return true,
        PathRule::Prefix(prefix) => prefix.as_str(),
        PathRule::Glob(glob) => match glob.strip_suffix("**") {
            Some(rest) if !rest.contains('*') => rest,
            _ => return false,
        },
        PathRule::Regex(_) => return false,
    };
    let literal = match now {
        PathRule::Any => "",
        PathRule::Prefix(prefix) => prefix,
        PathRule::Glob(glob) => glob.split('*').next().unwrap_or_default(),
        PathRule::Regex(_) => "",
    };
    prefix.is_empty() || prefix == "/" || literal.starts_with(prefix)
}
