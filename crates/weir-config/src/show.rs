//! `weir check --show`: each site and route with what it inherits and from where, for people and as JSON.
//! Must not show the content of a variable or file: texts are shown as they were written.

use crate::{
    load::Loaded,
    resolve::{Action, JOINED, Layer, Layers, ResolvedRoute},
    shape::{CONFIG, Shape},
    source::Span,
    tree::{HIDDEN, Node, Table, Value, is_secret, toml_key},
};
use serde_json::{Value as Json, json};
use std::fmt::Write;

/// Characters of a value in the text.
const VALUE_CHARS_MAX: usize = 60;

/// One line: a key, its value as written, and its place.
struct Setting {
    key: String,
    value: String,
    layer: Layer,
    span: Span,
}

/// All sites and routes as a text.
pub fn show(loaded: &Loaded) -> String {
    let mut out = String::new();
    for of_tls in loaded.tree.list_of("listen").iter().filter(|listen| listen.get("tls").is_some()) {
        whole(&mut out, loaded, "listen", of_tls);
    }
    for certificate in loaded.tree.list_of("certificate") {
        whole(&mut out, loaded, "certificate", certificate);
    }
    if let Some(acme) = loaded.tree.get("acme") {
        whole(&mut out, loaded, "acme", acme);
    }
    for (site, layers) in sites(loaded) {
        let hosts: Vec<String> = site.hosts.iter().map(ToString::to_string).collect();
        line(&mut out, 0, &format!("site {}", hosts.join(", ")), "", &site.place.to_string());
        for setting in of_site(layers) {
            let text = format!("{} = {}", setting.key, shortened(&setting.value));
            let place = loaded.sources.place(setting.span).to_string();
            line(&mut out, 2, &text, layer_name(setting.layer), &place);
        }
        for (number, route) in site.routes.iter().enumerate() {
            let layers = layers_of(layers, number);
            let title = match layers.route {
                Some(_) => format!("route {}  {}", number + 1, route.conditions),
                None => "otherwise".to_owned(),
            };
            line(&mut out, 2, &title, "", &route.place.to_string());
            for setting in &settings(layers, route) {
                let text = format!("{} = {}", setting.key, shortened(&setting.value));
                let place = loaded.sources.place(setting.span).to_string();
                line(&mut out, 4, &text, layer_name(setting.layer), &place);
            }
            if matches!(route.action, Action::NotFound) {
                line(&mut out, 4, "answer = 404, as there is no upstream", "", "");
            }
        }
        out.push('\n');
    }
    out
}

/// A table with all its keys.
fn whole(out: &mut String, loaded: &Loaded, title: &str, node: &Node) {
    line(out, 0, title, "", &loaded.sources.place(node.span).to_string());
    for entry in node.as_table().iter().flat_map(|table| &table.entries) {
        let value = entry.node.to_toml();
        // The key of an account at an authority.
        let value = if value.contains("hmac_key") { "(not shown)".to_owned() } else { shortened(&value) };
        let text = format!("{} = {value}", toml_key(&entry.key));
        line(out, 2, &text, "", &loaded.sources.place(entry.node.span).to_string());
    }
    out.push('\n');
}

/// The keys about TLS that a site has and no route inherits.
const OF_SITE: [&str; 4] = ["certificate", "https", "hsts", "client_certificate"];

fn of_site(layers: Layers<'_>) -> Vec<Setting> {
    let mut out = Vec::new();
    for key in OF_SITE {
        if let Some(node) = layers.site.get(key) {
            push(&mut out, key.to_owned(), node, Layer::Site);
        }
    }
    out
}

/// All sites and routes as JSON.
pub fn show_json(loaded: &Loaded) -> Json {
    let site = |(site, layers): (&crate::resolve::ResolvedSite, Layers<'_>)| {
        let routes = site.routes.iter().enumerate();
        let settings = of_site(layers).into_iter().map(|setting| setting_json(loaded, setting));
        json!({
            "hosts": site.hosts.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "customer": site.customer,
            "description": site.description,
            "quota_bytes": site.quota_bytes,
            "place": site.place.to_string(),
            "settings": settings.collect::<Vec<_>>(),
            "routes": routes
                .map(|(number, route)| route_json(loaded, route, layers_of(layers, number)))
                .collect::<Vec<_>>(),
        })
    };
    Json::Array(sites(loaded).map(site).collect())
}

fn route_json(loaded: &Loaded, route: &ResolvedRoute, layers: Layers<'_>) -> Json {
    let settings = settings(layers, route).into_iter().map(|setting| setting_json(loaded, setting));
    json!({
        "conditions": route.conditions.to_string(),
        "place": route.place.to_string(),
        "settings": settings.collect::<Vec<_>>(),
    })
}

fn setting_json(loaded: &Loaded, setting: Setting) -> Json {
    json!({
        "key": setting.key,
        "value": setting.value,
        "from": layer_name(setting.layer),
        "place": loaded.sources.place(setting.span).to_string(),
    })
}

fn sites(loaded: &Loaded) -> impl Iterator<Item = (&crate::resolve::ResolvedSite, Layers<'_>)> {
    let defaults = loaded.tree.get("defaults");
    let nodes = loaded.tree.list_of("site").iter();
    loaded
        .sites
        .iter()
        .zip(nodes)
        .map(move |(site, node)| (site, Layers { route: None, site: node, defaults }))
}

fn layers_of(site: Layers<'_>, number: usize) -> Layers<'_> {
    Layers { route: site.site.list_of("route").get(number), ..site }
}

fn layer_name(layer: Layer) -> &'static str {
    match layer {
        Layer::Route => "route",
        Layer::Site => "site",
        Layer::Defaults => "defaults",
    }
}

/// A long value, shortened.
fn shortened(value: &str) -> String {
    match value.char_indices().nth(VALUE_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &value[..at]),
        None => value.to_owned(),
    }
}

fn line(out: &mut String, indent: usize, text: &str, layer: &str, place: &str) {
    let width = 64usize.saturating_sub(indent);
    // Invariant: writing to a String does not fail.
    let _ = writeln!(out, "{}", format!("{:indent$}{text:<width$}  {layer:<8}  {place}", "").trim_end());
}

/// What holds for a route, each key once, from the nearest layer that has it.
fn settings(layers: Layers<'_>, route: &ResolvedRoute) -> Vec<Setting> {
    let mut out: Vec<Setting> = Vec::new();
    let is_answered =
        layers.route.is_some_and(|route| route.get("answer").is_some() || route.get("redirect").is_some());
    let mut undone: Vec<String> = Vec::new();
    for (layer, table) in layers.all() {
        let known = undone.clone();
        undone.extend(removals(table));
        for entry in &table.entries {
            let own = layer == Layer::Route && matches!(entry.key.as_str(), "answer" | "redirect");
            if !own && !is_rule(&entry.key) {
                continue;
            }
            let useless = is_answered && matches!(entry.key.as_str(), "upstream" | "host" | "pick");
            // A route that names its own upstream, or answers itself, inherits no files.
            let is_of_files = matches!(entry.key.as_str(), "root" | "fallback" | "files");
            if useless || (is_of_files && route.files.is_none()) {
                continue;
            }
            match entry.node.as_table().filter(|_| JOINED.contains(&entry.key.as_str())) {
                Some(inner) => push_inner(&mut out, &toml_key(&entry.key), inner, layer),
                None => push(&mut out, toml_key(&entry.key), &entry.node, layer),
            }
        }
        out.retain(|setting| setting.layer != layer || !known.contains(&setting.key.to_ascii_lowercase()));
    }
    out
}

/// The settings of farther layers that the removals of this one undo.
fn removals(table: &Table) -> Vec<String> {
    let mut out = Vec::new();
    for edits in ["request_headers", "response_headers"] {
        let removed = table.get(edits).map_or(&[][..], |edits| edits.list_of("remove"));
        let names = removed.iter().filter_map(Node::as_text);
        out.extend(names.map(|name| format!("{edits}.set.{}", name.to_ascii_lowercase())));
    }
    out
}

fn push_inner(out: &mut Vec<Setting>, prefix: &str, table: &Table, layer: Layer) {
    for entry in &table.entries {
        let key = format!("{prefix}.{}", toml_key(&entry.key));
        match entry.node.as_table().filter(|_| entry.key == "set") {
            Some(inner) => push_inner(out, &key, inner, layer),
            None => push(out, key, &entry.node, layer),
        }
    }
}

fn push(out: &mut Vec<Setting>, key: String, node: &Node, layer: Layer) {
    if out.iter().any(|known| known.key.eq_ignore_ascii_case(&key)) {
        return;
    }
    out.push(Setting { value: shown(&key, node), key, layer, span: node.span });
}

/// A value as it was written, but for one that its name says is a secret.
fn shown(key: &str, node: &Node) -> String {
    // A variable is named, and no secret.
    let is_text = matches!(&node.value, Value::Text(text) if text.written.is_none());
    let name = key.rsplit_once('.').map(|(_, name)| name);
    match name.filter(|name| is_text && is_secret(name)) {
        Some(_) => format!("\"{HIDDEN}\""),
        None => node.to_toml(),
    }
}

/// Whether a key is one of those that are inherited.
fn is_rule(key: &str) -> bool {
    let Shape::Table(config) = &*CONFIG else { return false };
    let defaults = config.keys.iter().find(|(name, _)| name == "defaults");
    match defaults {
        Some((_, Shape::Table(rules))) => rules.keys.iter().any(|(name, _)| name == key),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
