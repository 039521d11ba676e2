//! Mistakes of routes: conditions that exclude each other, and routes behind one that takes every request.

use super::exclusive::exclusive;
use crate::{
    mistake::Mistake,
    model::{Listen, Site},
    resolve::{Conditions, PathRule, conditions},
    tree::{Node, Value},
    value::{ListenAddress, RouteHost},
};
use std::collections::BTreeSet;

const REDIRECT_STATUSES: [i64; 5] = [301, 302, 303, 307, 308];

/// Checks one route by itself.
pub(super) fn one(route: &Node, mistakes: &mut Vec<Mistake>) {
    let Some(table) = route.as_table() else { return };
    exclusive(table, &["path", "prefix", "regex"], mistakes);
    exclusive(table, &["answer", "redirect", "upstream"], mistakes);
    exclusive(table, &["answer", "redirect", "root"], mistakes);
    if let Some(answer) = table.get("answer").and_then(Node::as_table) {
        exclusive(answer, &["body", "body_file"], mistakes);
        if let Some(status) = answer.get("status").filter(|node| matches!(node.value, Value::Integer(444))) {
            let mistake =
                Mistake::at(status.span, "444 is nginx's word for no answer, and Weir always answers");
            mistakes.push(mistake.help("use 403, 404 or 410"));
        }
    }
    let status = table.get("redirect").and_then(|redirect| redirect.get("status"));
    if let Some(node) = status
        && let Value::Integer(status) = node.value
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
    let hosts = before.hosts.is_empty() || is_within(&now.hosts, &before.hosts);
    let ports = before.ports.is_empty() || is_within(&now.ports, &before.ports);
    methods && scheme && hosts && ports && path_covers(&before.path, &now.path)
}

/// Whether each of some, of which there are, is one of others.
fn is_within<T: PartialEq>(some: &[T], others: &[T]) -> bool {
    !some.is_empty() && some.iter().all(|one| others.contains(one))
}

/// Reports hosts of routes that their site does not have, and ports that no listener has.
pub(super) fn places(site: &Site, node: &Node, listeners: &[Listen], mistakes: &mut Vec<Mistake>) {
    let ports = listeners.iter().filter_map(|listen| match &listen.address {
        ListenAddress::Tcp(address) => Some(address.port()),
        ListenAddress::Unix { .. } => None,
    });
    let ports: BTreeSet<u16> = ports.collect();
    for route in node.list_of("route") {
        for host in route.list_of("hosts") {
            let Some(Ok(named)) = host.as_text().map(str::parse::<RouteHost>) else { continue };
            if !site.hosts.iter().any(|own| named.is_below(own)) {
                let title = format!("this route is never reached: the site has no host `{named}`");
                let hosts: Vec<String> = site.hosts.iter().map(|host| format!("`{host}`")).collect();
                mistakes.push(Mistake::at(host.span, title).help(format!("it has {}", hosts.join(", "))));
            }
        }
        let Some(node) = route.get("port") else { continue };
        let named = match &node.value {
            Value::List(list) => list.iter().collect(),
            _ => vec![node],
        };
        // With port 0 the system chooses one.
        for node in named.into_iter().filter(|_| !ports.contains(&0)) {
            let Value::Integer(port) = node.value else { continue };
            if !u16::try_from(port).is_ok_and(|port| ports.contains(&port)) {
                let known: Vec<String> = ports.iter().map(ToString::to_string).collect();
                let mistake = Mistake::at(node.span, format!("no `[[listen]]` has the port {port}"));
                mistakes.push(mistake.help(format!("there are: {}", known.join(", "))));
            }
        }
    }
}

pub(super) fn path_covers(before: &PathRule, now: &PathRule) -> bool {
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
