//! Captures and maps that a route's values name, and the pattern that has the captures. Must not match a
//! path.

use super::{Action, Conditions, Layers, PathRule, ResolvedRoute};
use crate::{maps::no_map, mistake::Mistake, model::Config, source::Span, tree::Node, value::Capturing};
use http::HeaderName;
use weir_policy::value::{Placeholder, Value, What};

/// What captures the parts of a path, where conditions say what it must be.
pub(super) fn capturing(conditions: &Conditions) -> Option<Capturing> {
    match &conditions.path {
        PathRule::Any => None,
        PathRule::Glob(glob) => Capturing::of_glob(glob),
        PathRule::Prefix(prefix) => Capturing::of_prefix(prefix),
        PathRule::Regex(regex) => Some(Capturing::of_regex(regex)),
    }
}

/// Gives the route what captures, where one of its values names a capture; reports those that it does not
/// have.
pub(super) fn join(route: &mut ResolvedRoute, layers: Layers<'_>, mistakes: &mut Vec<Mistake>) {
    let used = used(route, layers);
    if used.is_empty() {
        return;
    }
    let capturing = capturing(&route.conditions);
    let count = capturing.as_ref().map_or(0, Capturing::count);
    for (number, span) in used {
        if usize::from(number) <= count {
            continue;
        }
        let title = format!("`{{{number}}}` stands for nothing here: {}", had(&route.conditions, count));
        mistakes.push(Mistake::at(span, title).help(HELP));
    }
    route.capturing = capturing;
}

const HELP: &str = "`{1}` is what the first `*` or `**` of the route's `path` has matched, or the first \
                    group in parentheses of its `regex`, or what follows its `prefix`";

fn had(conditions: &Conditions, count: usize) -> String {
    match (&conditions.path, count) {
        (PathRule::Any, _) => "the route has no `path`, `prefix` or `regex`".to_owned(),
        (PathRule::Glob(glob), 0) => format!("`{glob}` has no `*`"),
        (PathRule::Glob(glob), count) => format!("`{glob}` has {count} `*`"),
        (PathRule::Prefix(_), _) => "a prefix has `{1}` alone".to_owned(),
        (PathRule::Regex(regex), count) => format!("`{regex}` has {count} groups"),
    }
}

/// The highest capture of each value that names one, and the value's place.
fn used(route: &ResolvedRoute, layers: Layers<'_>) -> Vec<(u8, Span)> {
    let mut used = Vec::new();
    for (edits, key) in
        [(&route.request_edits, "request_headers"), (&route.response_edits, "response_headers")]
    {
        let named = edits.values.iter().map(|(name, value)| (value, field(layers, &[key, "set"], name)));
        used.extend(named.map(|(value, span)| (value.capture_max(), span)));
    }
    for placeholder in &route.cache.key.values {
        if let What::Capture(number) = placeholder.what {
            used.push((number, layers.span(&["key", "values"])));
        }
    }
    match &route.action {
        Action::Redirect { to, .. } => used.push((Value::capture_max(to), layers.span(&["redirect"]))),
        Action::Answer { values, .. } => {
            let place = |name| field(layers, &["answer", "headers"], name);
            used.extend(values.iter().map(|(name, value)| (value.capture_max(), place(name))));
        }
        Action::Forward { .. } | Action::Choose { .. } | Action::Files | Action::NotFound => {}
    }
    used.retain(|(number, _)| *number > 0);
    used
}

/// The place of a field's nearest value.
fn field(layers: Layers<'_>, path: &[&str], name: &HeaderName) -> Span {
    let named = layers.all().find_map(|(_, table)| {
        let (first, rest) = path.split_first()?;
        let set = rest.iter().try_fold(table.get(first)?, |node, key| node.get(key))?;
        let entries = &set.as_table()?.entries;
        entries.iter().find(|entry| entry.key.eq_ignore_ascii_case(name.as_str())).map(|entry| &entry.node)
    });
    named.map_or_else(|| layers.span(path), |node: &Node| node.span)
}

/// Reports maps that there are not, and those without a default where nothing must not happen.
pub(super) fn check_maps(
    route: &ResolvedRoute,
    layers: Layers<'_>,
    config: &Config,
    mistakes: &mut Vec<Mistake>,
) {
    for (placeholder, span) in placeholders(route, layers) {
        let What::Map(name) = &placeholder.what else { continue };
        if !config.map.contains_key(name) {
            mistakes.push(no_map(span, name, config));
        }
    }
    let of_paths = route.rewrite.iter().flat_map(|rule| rule.to.placeholders());
    for placeholder in of_paths {
        if let What::Map(name) = &placeholder.what
            && config.map.get(name).is_some_and(|map| map.default.is_none())
        {
            let title = format!("the map `{name}` has no `default`, and chooses a path");
            mistakes.push(Mistake::at(layers.span(&["rewrite"]), title));
        }
    }
}

/// The placeholders of a route, with their places.
fn placeholders<'r>(route: &'r ResolvedRoute, layers: Layers<'_>) -> Vec<(&'r Placeholder, Span)> {
    let mut used = Vec::new();
    for (edits, key) in
        [(&route.request_edits, "request_headers"), (&route.response_edits, "response_headers")]
    {
        for (name, value) in &edits.values {
            let span = field(layers, &[key, "set"], name);
            used.extend(value.placeholders().map(|placeholder| (placeholder, span)));
        }
    }
    used.extend(
        route.cache.key.values.iter().map(|placeholder| (placeholder, layers.span(&["key", "values"]))),
    );
    let paths = route.rewrite.iter().flat_map(|rule| rule.to.placeholders());
    used.extend(paths.map(|placeholder| (placeholder, layers.span(&["rewrite"]))));
    match &route.action {
        Action::Redirect { to, .. } => {
            used.extend(to.placeholders().map(|placeholder| (placeholder, layers.span(&["redirect"]))));
        }
        Action::Answer { values, .. } => {
            for (name, value) in values {
                let span = field(layers, &["answer", "headers"], name);
                used.extend(value.placeholders().map(|placeholder| (placeholder, span)));
            }
        }
        Action::Forward { .. } | Action::Choose { .. } | Action::Files | Action::NotFound => {}
    }
    used
}
