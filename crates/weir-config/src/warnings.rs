//! Warnings about rules: what is legal and has no effect, or deserves a second look. Must not report what is
//! wrong: those are mistakes.

mod clients;
mod debug;
mod files;
mod maps;
mod metrics;
mod redirects;
mod requests;
mod sessions;
mod warm;

pub(crate) use debug::of_debug;
pub(crate) use maps::of_maps as of_unused_maps;
pub(crate) use metrics::of_unused_metrics;
pub(crate) use warm::of_warm;

use crate::model::{Config, Volume};
use crate::resolve::{Layer, Layers, ResolvedRoute, ResolvedSite};
use crate::source::Sources;
use crate::tree::Node;
use crate::value::glob_meant;
use weir_policy::{Errors, Heuristics, Lifetimes, Statuses};

/// A warning: the keys that lead to what it is about, and a sentence.
type Warning = (&'static [&'static str], String);

/// The warnings about the rules of all routes, each once, with the place of the key that it is about.
pub(crate) fn of_rules(
    sites: &[ResolvedSite],
    config: &Config,
    (tree, sources): (&Node, &Sources),
) -> Vec<String> {
    let mut warnings = sessions::of_upstreams(sites, config, (tree, sources));
    let defaults = tree.get("defaults");
    for (site, node) in sites.iter().zip(tree.list_of("site")) {
        for (at, route) in site.routes.iter().enumerate() {
            let layers = Layers { route: node.list_of("route").get(at), site: node, defaults };
            let found = of_route(route, &config.cache.volume).into_iter();
            let found = found
                .chain(requests::of_route(route, &config.map))
                .chain(clients::of_route(route))
                .chain(files::of_route(route, layers))
                .chain(files::of_programs(site, at, redirects::first_for))
                .chain(redirects::of_route(site, at));
            for (key, sentence) in found {
                let (layer, span) = layers.key(key);
                let place = sources.place(span);
                let warning = match layer {
                    Layer::Defaults => format!("{place}: {sentence}"),
                    Layer::Site | Layer::Route => format!("{place}: the site {}: {sentence}", site.name),
                };
                if !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            }
        }
    }
    warnings
}

/// The warnings about the maps: whole texts that look like globs.
pub(crate) fn of_maps(tree: &Node, sources: &Sources) -> Vec<String> {
    let maps = tree.get("map").and_then(Node::as_table);
    let mut warnings = Vec::new();
    for entry in maps.iter().flat_map(|maps| &maps.entries) {
        for pattern in entry.node.list_of("rules").iter().filter_map(|rule| rule.as_list().first()) {
            let Some(text) = pattern.as_text() else { continue };
            if let Some(expression) = glob_meant(text) {
                let place = sources.place(pattern.span);
                warnings.push(format!(
                    "{place}: the map {}: `{text}` is a whole text, in which `*` is a star; as a glob it is \
                     the expression '{expression}'",
                    entry.key
                ));
            }
        }
    }
    warnings
}

fn of_route(route: &ResolvedRoute, volumes: &[Volume]) -> Vec<Warning> {
    let rules = &route.cache;
    let mut found: Vec<Warning> = Vec::new();
    if !rules.ignore.is_empty() {
        found.push((
            &["ignore"],
            "`ignore` stores what the origin means for one client or for no cache; make sure that such a \
             response is the same for every client without cookies"
                .to_owned(),
        ));
    }
    if rules.min_uses.volume > 1 && volumes.is_empty() {
        let sentence = "`min_uses.volume` has no effect, as there is no `[[cache.volume]]`".to_owned();
        found.push((&["min_uses", "volume"], sentence));
    }
    let lifetimes: [(&str, &'static [&'static str], &Lifetimes); 2] =
        [("ttl", &["ttl"], &rules.ttl), ("ttl_override", &["ttl_override"], &rules.ttl_override)];
    for (key, path, lifetimes) in lifetimes {
        let mut push = |sentence: String| found.push((path, sentence));
        if names_one(lifetimes, 400) && rules.errors != Errors::Store400 {
            push(format!("`{key}` names 400, which is stored with `errors = \"store_400\"` alone"));
        }
        if names_one(lifetimes, 414) && rules.heuristics != Heuristics::Whole {
            push(format!("`{key}` names 414, which is stored with `heuristics = \"whole\"` alone"));
        }
        if names_errors(lifetimes) && rules.errors == Errors::NoStore {
            push(format!("`{key}` names a 5xx, and `errors = \"no_store\"` stores none"));
        }
        if names_one(lifetimes, 401) {
            push(format!("`{key}` names 401: clients with credentials get the stored refusal as well"));
        }
    }
    found
}

fn names_one(lifetimes: &Lifetimes, code: u16) -> bool {
    lifetimes.0.iter().any(|(of, _)| matches!(of, Statuses::One(status) if status.as_u16() == code))
}

fn names_errors(lifetimes: &Lifetimes) -> bool {
    lifetimes.0.iter().any(|(of, _)| match of {
        Statuses::One(status) => status.is_server_error(),
        Statuses::Class(digit) => *digit == 5,
        Statuses::Any => false,
    })
}

#[cfg(test)]
mod tests;
