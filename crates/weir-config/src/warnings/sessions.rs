//! Warnings about upstreams that are to keep clients at their origins, while no route to them says which GETs
//! are one client's. Must not look at routes that only pass.

use crate::model::{AffinityBy, Config, PickEntry, PickWord, Upstream};
use crate::resolve::{Action, ResolvedRoute, ResolvedSite};
use crate::source::Sources;
use crate::tree::Node;
use crate::value::HashOf;
use http::Method;

/// The warnings, a sentence for each upstream.
pub(super) fn of_upstreams(
    sites: &[ResolvedSite],
    config: &Config,
    (tree, sources): (&Node, &Sources),
) -> Vec<String> {
    let mut warnings = Vec::new();
    for (name, upstream) in &config.upstream {
        let routes = || sites.iter().flat_map(|site| &site.routes).filter(|route| leads_to(route, name));
        if !routes().any(fills) || routes().any(tells_sessions) {
            continue;
        }
        let Some(node) = tree.get("upstream").and_then(|node| node.get(name)) else { continue };
        let found = of_affinity(upstream, node).or_else(|| {
            let goes_by_pick = routes().any(|route| route.pick.is_none() && fills(route));
            of_pick(upstream, node).filter(|_| goes_by_pick)
        });
        if let Some((node, sentence)) = found {
            let place = sources.place(node.span);
            warnings.push(format!("{place}: the upstream {name}: {sentence} (docs/guide/sessions.md)"));
        }
    }
    warnings
}

/// A hash is for origins that can load any session.
fn of_affinity<'n>(upstream: &Upstream, node: &'n Node) -> Option<(&'n Node, &'static str)> {
    let affinity = upstream.affinity.as_ref().filter(|affinity| affinity.by != AffinityBy::Hash)?;
    let node = node.get("affinity")?;
    // What is written has been decided.
    if affinity.bypass || node.get("bypass").is_some() {
        return None;
    }
    let sentence = "a GET that is not known yet is first fetched for all, by no session, and then from the \
                    session's origin as well; write `bypass = { cookies = [\"…\"] }` on the site, with the \
                    cookie of the application's sessions, or `affinity.bypass = false` if this is right";
    Some((node, sentence))
}

/// What is fetched for all has no client.
fn of_pick<'n>(upstream: &Upstream, node: &'n Node) -> Option<(&'n Node, &'static str)> {
    if upstream.affinity.is_some() || upstream.origins.len() < 2 {
        return None;
    }
    let is_of_client = match upstream.pick.list().first()? {
        PickEntry::Word(word) => *word == PickWord::ClientAddress,
        PickEntry::Hash(table) => matches!(table.hash.of, HashOf::Cookie(_)),
        PickEntry::Written(_) => false,
    };
    let sentence = "`pick` goes by the client for passed requests alone; a GET that is not known yet is \
                    fetched for all, by no client, and keeps no user signed in; `affinity` does, with \
                    `bypass = { cookies = [\"…\"] }` on the site";
    is_of_client.then(|| node.get("pick")).flatten().map(|node| (node, sentence))
}

fn leads_to(route: &ResolvedRoute, name: &str) -> bool {
    match &route.action {
        Action::Forward { upstream, .. } => upstream == name,
        Action::Choose { upstreams, .. } => upstreams.iter().any(|(upstream, _)| upstream == name),
        _ => false,
    }
}

/// Whether it asks the cache.
fn fills(route: &ResolvedRoute) -> bool {
    let methods = &route.conditions.methods;
    methods.is_empty() || methods.contains(&Method::GET) || methods.contains(&Method::HEAD)
}

/// Whether it says which requests are one client's.
fn tells_sessions(route: &ResolvedRoute) -> bool {
    let bypass = &route.cache.bypass;
    !(bypass.cookies.is_empty()
        && bypass.headers.is_empty()
        && bypass.paths.is_empty()
        && bypass.maps.is_empty())
}

#[cfg(test)]
mod tests;
