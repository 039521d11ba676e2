//! Warnings about what a route takes out of requests, and what it leaves out of keys and variants.

use super::Warning;
use crate::model::Map;
use crate::resolve::ResolvedRoute;
use http::{HeaderName, Method};
use std::collections::BTreeMap;
use weir_policy::cookies::CookieRule;
use weir_policy::{HeadRequests, QueryRule, Triggers};

/// The maps of the configuration.
type Maps = BTreeMap<String, Map>;

/// The warnings about one route, a sentence each.
pub(super) fn of_route(route: &ResolvedRoute, maps: &Maps) -> Vec<Warning> {
    let rules = &route.cache;
    let mut found: Vec<Warning> = Vec::new();
    // No cookie at all is what files want, whatever their site says of its pages.
    let is_partial = rules.cookies != CookieRule::Keep(Vec::new());
    let conditions: [(&str, &'static [&'static str], &Triggers); 3] = [
        ("bypass", &["bypass", "cookies"], &rules.bypass),
        ("refresh", &["refresh", "cookies"], &rules.refresh),
        ("no_store", &["no_store", "cookies"], &rules.no_store),
    ];
    for (key, path, triggers) in conditions {
        let names = triggers.cookies.iter().map(|cookie| &cookie.name);
        for name in names.filter(|name| is_partial && rules.cookies.never_keeps(name)) {
            let sentence = format!(
                "`{key}` names the cookie `{name}`, which `cookies` takes out: it never holds, and visitors \
                 with that cookie get the pages of those without it"
            );
            found.push((path, sentence));
        }
    }
    found.extend(rules.vary_ignored.iter().map(|name| (&["vary", "ignore"][..], ignored(name))));
    if matches!(rules.key.query, QueryRule::Unkeyed(_)) {
        found.push((
            &["key", "query"],
            "`key.query = \"none\"` leaves the query out of the key, and the origin gets it: the query that \
             comes first decides what all clients get; `{ keep = [...] }` names the parameters that count"
                .to_owned(),
        ));
    }
    let beside: [(&str, &'static [&'static str], &Triggers); 2] =
        [("refresh", &["refresh"], &rules.refresh), ("no_store", &["no_store"], &rules.no_store)];
    for (key, path, triggers) in beside {
        if shares(triggers, &rules.bypass) {
            let sentence = format!(
                "`{key}` has a condition that `bypass` has as well, and such a request goes past the cache"
            );
            found.push((path, sentence));
        }
    }
    if matches!(rules.key.query, QueryRule::Unkeyed(_)) && route.key_path_rewritten {
        found.push((
            &["key", "path"],
            "`key.query = \"none\"` is for paths that no rule of `rewrite` fits: with \
             `key.path = \"rewritten\"` all that the origin is asked for is in the key, the query as well"
                .to_owned(),
        ));
    }
    if let Some(why) = never_fills(route).filter(|_| rules.head == HeadRequests::Fill) {
        found.push((&["head"], format!("`head = \"fill\"` has no effect: {why}")));
    }
    if is_open(&rules.refresh, maps) {
        found.push((
            &["refresh"],
            "`refresh` holds for any client that sends such a request, and it can have the origin asked each \
             time; `purge.allow` lets named clients do so with `Cache-Control: no-cache`"
                .to_owned(),
        ));
    }
    found
}

fn ignored(name: &HeaderName) -> String {
    let more = match name.as_str() {
        "origin" => {
            ": where the origin answers with `Access-Control-Allow-Origin` for one site, browsers on all \
             others are refused until the response is stale, and any site can cause that"
        }
        "user-agent" | "accept" | "accept-language" => {
            ": the first client decides in which form all others get the response"
        }
        _ => ": the response to the first request goes to all others, whatever that field has for them",
    };
    format!("`vary.ignore` has `{name}`{more}")
}

/// Whether two tables have a condition in common.
fn shares(one: &Triggers, other: &Triggers) -> bool {
    fn common<T: PartialEq>(one: &[T], other: &[T]) -> bool {
        one.iter().any(|condition| other.contains(condition))
    }
    common(&one.cookies, &other.cookies)
        || common(&one.query, &other.query)
        || common(&one.methods, &other.methods)
        || common(&one.headers, &other.headers)
        || common(&one.paths, &other.paths)
}

/// Why no HEAD of the route fills the cache.
fn never_fills(route: &ResolvedRoute) -> Option<&'static str> {
    let methods = &route.conditions.methods;
    if !methods.is_empty() && !methods.contains(&Method::HEAD) {
        return Some("the route does not take HEAD");
    }
    route.cache.bypass.methods.contains(&Method::HEAD).then_some("`bypass.methods` has HEAD")
}

/// Whether a client of any address can fulfil a condition.
fn is_open(triggers: &Triggers, known: &Maps) -> bool {
    let Triggers { cookies, query, methods, headers, paths, maps } = triggers;
    !(cookies.is_empty() && query.is_empty() && methods.is_empty() && headers.is_empty() && paths.is_empty())
        || maps.iter().filter_map(|map| known.get(&map.name)).any(|map| !map.of.is_of_client())
}
