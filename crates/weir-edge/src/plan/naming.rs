//! How the keys of a site name what clients ask for, by its routes, as a value that can be compared. It must
//! not know a plan.

use std::collections::BTreeSet;

use weir_config::model::Config;
use weir_config::{Action, ResolvedRoute, ResolvedSite};
use weir_policy::value::{Value, What};

/// What the keys of a site have of URLs, by its routes. Two that are equal name every URL alike.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Naming(Vec<(String, String)>);

impl Naming {
    pub(super) fn of(site: &ResolvedSite, config: &Config) -> Naming {
        let mut all = Vec::with_capacity(site.routes.len());
        for (at, route) in site.routes.iter().enumerate() {
            let is_last = at + 1 == site.routes.len();
            let conditions = if is_last { String::new() } else { format!("{:?}", route.conditions) };
            match never_stores(&route.action) {
                // What lies there has no other name than its URL.
                true if is_last => all.push((conditions, of_route(None, config))),
                true => {}
                false => all.push((conditions, of_route(Some(route), config))),
            }
        }
        // A route that names all as those behind it need not be told apart.
        while let [.., (_, before), (_, last)] = all.as_slice()
            && before == last
        {
            all.remove(all.len() - 2);
        }
        Naming(all)
    }
}

/// Whether nothing is ever stored for a route, also when it is open again.
pub(crate) fn never_stores(action: &Action) -> bool {
    !matches!(action, Action::Forward { .. } | Action::Choose { .. })
}

/// All that decides what the keys of a route have of a URL.
fn of_route(route: Option<&ResolvedRoute>, config: &Config) -> String {
    let key = route.map(|route| &route.cache.key).cloned().unwrap_or_default();
    let query = format!("{:?} {:?}", key.query, key.order);
    let Some(route) = route.filter(|route| route.key_path_rewritten && !route.rewrite.is_empty()) else {
        return query;
    };
    let rules: Vec<&str> = route.rewrite.iter().map(|rule| rule.text.as_str()).collect();
    let placeholders = || route.rewrite.iter().map(|rule| &rule.to).flat_map(Value::placeholders);
    let maps: BTreeSet<&String> = placeholders().filter_map(map_name).collect();
    let maps: Vec<_> = maps.into_iter().map(|name| (name, config.map.get(name))).collect();
    let upstream = placeholders().any(|placeholder| placeholder.what == What::Upstream);
    format!("{query} {rules:?} {maps:?} {:?}", upstream.then_some(&route.action))
}

fn map_name(placeholder: &weir_policy::value::Placeholder) -> Option<&String> {
    match &placeholder.what {
        What::Map(name) => Some(name),
        _ => None,
    }
}
