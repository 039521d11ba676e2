//! Checks that need the whole configuration: names that lead nowhere, duplicates, routes that no request
//! reaches. Must not check what one value alone shows.

mod acme;
mod affinity;
mod certificates;
mod checks;
mod cookies;
mod eject;
mod exclusive;
mod limits;
pub(crate) mod maps;
mod metrics;
mod origins;
mod picks;
mod rewrites;
mod routes;
mod statuses;
mod vary;
mod warm;

use self::exclusive::exclusive;
use crate::{
    check::suggest,
    mistake::Mistake,
    model::{Config, Upstream},
    nearest::nearest,
    source::Span,
    tree::{Node, Table, Value},
    upstreams::Upstreams,
    value::{ByteRate, HostPattern, ListenAddress, LogTarget, Size},
};
use std::collections::HashMap;
use std::path::Path;

/// Fields that Weir writes itself, so that a configuration cannot set them.
const OWN_FIELDS: [&str; 9] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Fields that requests have for other purposes.
const KNOWN_FIELDS: [&str; 12] = [
    "accept",
    "accept-encoding",
    "authorization",
    "cache-control",
    "cookie",
    "forwarded",
    "origin",
    "range",
    "referer",
    "user-agent",
    "via",
    "x-forwarded-for",
];

/// Bodies are held in units of this many bytes.
const CHUNK_UNIT_BYTES: u64 = 64 << 10;
const CHUNK_BYTES_MAX: u64 = 1 << 30;

/// Checks the whole configuration. `tree` is what `config` was made of, so that positions in lists agree.
/// `upstreams` are the names that were written, whether or not their tables are correct.
pub(crate) fn check(config: &Config, tree: &Node, upstreams: &Upstreams, mistakes: &mut Vec<Mistake>) {
    let mut whole = Whole { config, upstreams, mistakes };
    if let Some(defaults) = tree.get("defaults") {
        whole.rules(defaults);
        limits::check(defaults, &config.limits, tree, whole.mistakes);
        maps::layer(defaults, config, upstreams, whole.mistakes);
        rewrites::check(defaults, None, whole.mistakes);
    }
    for (site, node) in config.site.iter().zip(tree.list_of("site")) {
        whole.rules(node);
        limits::check(node, &config.limits, tree, whole.mistakes);
        maps::layer(node, config, upstreams, whole.mistakes);
        rewrites::check(node, None, whole.mistakes);
        for (model, route) in site.route.iter().zip(node.list_of("route")) {
            whole.rules(route);
            limits::check(route, &config.limits, tree, whole.mistakes);
            maps::layer(route, config, upstreams, whole.mistakes);
            rewrites::check(route, Some(model), whole.mistakes);
            routes::one(route, whole.mistakes);
        }
        routes::unreachable(site, node, whole.mistakes);
        routes::places(site, node, &config.listen, whole.mistakes);
    }
    volumes(tree, mistakes);
    if let Some(events) = tree.get("events").and_then(Node::as_table) {
        exclusive(events, &["file", "socket"], mistakes);
    }
    logs(config, tree, mistakes);
    hosts(config, tree, mistakes);
    listeners(config, tree, mistakes);
    certificates::check(config, tree, mistakes);
    acme::check(config, tree, mistakes);
    affinity::check(config, tree, mistakes);
    maps::check(config, tree, mistakes);
    picks::written(config, tree, mistakes);
    metrics::check(config, tree, mistakes);
    distributors::check(config, tree, mistakes);
    warm::check(config, tree, mistakes);
    for (name, upstream) in &config.upstream {
        if let Some(node) = tree.get("upstream").and_then(|node| node.get(name)) {
            upstream_tables(upstream, node, config, mistakes);
            checks::check(upstream, node, mistakes);
        }
    }
    if config.site.is_empty() && config.distributor.is_none() && mistakes.is_empty() {
        let help = "add one: [[site]] with hosts = [\"*\"] and upstream = \"NAME\"";
        mistakes.push(
            Mistake::nowhere("there is no `[[site]]`, so every request would be answered 421").help(help),
        );
    }
}

/// A volume must be alone in its folder.
fn volumes(tree: &Node, mistakes: &mut Vec<Mistake>) {
    let Some(cache) = tree.get("cache") else { return };
    let mut before: Vec<(&Path, &Node)> = Vec::new();
    for volume in cache.list_of("volume") {
        let Some((path, node)) = volume.get("path").and_then(|node| Some((Path::new(node.as_text()?), node)))
        else {
            continue;
        };
        let inside = before.iter().find(|(other, _)| path.starts_with(other) || other.starts_with(path));
        if let Some((other, first)) = inside {
            let sentence = match path == *other {
                true => "two volumes have the same folder",
                false => "one volume's folder is inside another's",
            };
            let mistake = Mistake::at(node.span, sentence).help("give each volume a drive of its own");
            mistakes.push(mistake.other(first.span, "the other one is here"));
        }
        before.push((path, node));
    }
    if before.len() > VOLUMES_MAX {
        let (_, node) = before[VOLUMES_MAX];
        mistakes.push(Mistake::at(node.span, format!("there are at most {VOLUMES_MAX} volumes")));
    }
}

/// Each look-up that memory cannot answer asks all volumes.
const VOLUMES_MAX: usize = 64;

struct Whole<'a> {
    config: &'a Config,
    upstreams: &'a Upstreams,
    mistakes: &'a mut Vec<Mistake>,
}

impl Whole<'_> {
    /// Checks the rules of one layer.
    fn rules(&mut self, layer: &Node) {
        if let Some(node) = layer.get("upstream") {
            self.upstream(node);
        }
        if let Some(query) = layer.get("key").and_then(|key| key.get("query")).and_then(Node::as_table) {
            self.exclusive(query, &["keep", "drop"]);
        }
        if let Some(table) = layer.get("cookies").and_then(Node::as_table) {
            self.exclusive(table, &["keep", "drop"]);
        }
        cookies::check(layer, self.mistakes);
        picks::check(layer, self.config, self.mistakes);
        vary::check(layer, self.mistakes);
        statuses::check(layer, self.mistakes);
        if let Some(node) = layer.get("range").and_then(|range| range.get("chunk")) {
            self.chunk(node);
        }
        if let Some(uses) = layer.get("min_uses").and_then(Node::as_table) {
            self.min_uses(uses);
        }
        if let Some(rate) = layer.get("rate").and_then(Node::as_table) {
            self.rate(rate);
        }
        let key = layer.get("purge").and_then(|purge| purge.get("key"));
        if let Some(header) = key.and_then(|key| key.get("header")) {
            self.purge_header(header);
        }
        for edits in ["request_headers", "response_headers"] {
            if let Some(set) = layer.get(edits).and_then(|edits| edits.get("set")).and_then(Node::as_table) {
                self.own_fields(set);
            }
        }
    }

    /// Origins do not get the field of `purge.key`, so that it must be none that they need.
    fn purge_header(&mut self, header: &Node) {
        let name = header.as_text().unwrap_or_default().to_ascii_lowercase();
        if OWN_FIELDS.contains(&name.as_str()) || KNOWN_FIELDS.contains(&name.as_str()) {
            let mistake =
                Mistake::at(header.span, format!("`{name}` has another meaning, and no origin gets it then"));
            self.mistakes.push(mistake.help("a field of its own: header = \"X-Purge-Key\""));
        }
    }

    /// What is not stored at all is on no volume.
    fn min_uses(&mut self, uses: &Table) {
        let number = |key: &str| match uses.get(key)?.value {
            Value::Integer(number) => Some(number),
            _ => None,
        };
        if let (Some(memory), Some(volume)) = (number("memory"), number("volume"))
            && volume <= memory
            && let (Some(first), Some(entry)) = (uses.entry("memory"), uses.entry("volume"))
        {
            let mistake =
                Mistake::at(entry.node.span, "`volume` is not more than `memory`, and has no effect");
            self.mistakes.push(mistake.other(first.node.span, "nothing is stored before"));
        }
    }

    /// Reports bounds without effect, and a cap by which a client that asks gets less than one that does not.
    fn rate(&mut self, rate: &Table) {
        if rate.is_damaged {
            return;
        }
        let has = |key: &str| rate.get(key).is_some();
        if let Some(cap) = rate.entry("query_max").filter(|_| !has("query")) {
            let mistake = Mistake::at(cap.key_span, "`query_max` needs `query` beside it");
            self.mistakes.push(mistake.help("the parameter by which clients ask: query = \"rate\""));
        }
        if let Some(burst) = rate.entry("burst").filter(|_| !has("limit") && !has("query")) {
            let mistake = Mistake::at(burst.key_span, "`burst` needs `limit` or `query` beside it");
            self.mistakes.push(match has("media") {
                true => mistake.label("with `media` it is the first 60 s of what is played"),
                false => mistake.label("without them nothing is held back"),
            });
        }
        let bytes = |key: &str| rate.get(key)?.as_text()?.parse::<ByteRate>().ok();
        if let (Some(limit), Some(cap)) = (bytes("limit"), bytes("query_max"))
            && cap < limit
            && let (Some(cap), Some(limit)) = (rate.entry("query_max"), rate.entry("limit"))
        {
            let mistake = Mistake::at(cap.node.span, "`query_max` is less than `limit`");
            self.mistakes.push(
                mistake
                    .label("a client that asks would get less than one that does not")
                    .other(limit.node.span, "without asking a client gets this"),
            );
        }
    }

    fn upstream(&mut self, node: &Node) {
        let Upstreams { names, is_complete } = self.upstreams;
        let Some(name) = node.as_text().filter(|name| !names.contains(*name) && !name.contains('{')) else {
            return;
        };
        let mistake = Mistake::at(node.span, format!("there is no upstream `{name}`"));
        // Where a file is missing, it may have the name, unless the name is close to a known one.
        if !is_complete && nearest(name, names.iter().map(String::as_str)).is_none() {
            return;
        }
        self.mistakes.push(match names.is_empty() {
            true => mistake.help(format!("add one: [upstream.{name}] with origins = [\"http://…\"]")),
            false => suggest(mistake, name, names.iter().map(String::as_str)),
        });
    }

    fn chunk(&mut self, node: &Node) {
        let Some(Size(bytes)) = node.as_text().and_then(|text| text.parse().ok()) else { return };
        if bytes == 0 || bytes % CHUNK_UNIT_BYTES != 0 || bytes > CHUNK_BYTES_MAX {
            let title = "a chunk is a multiple of 64 KiB, and at most 1 GiB";
            self.mistakes.push(Mistake::at(node.span, title).help("chunk = \"1MiB\""));
        }
    }

    fn own_fields(&mut self, set: &Table) {
        for entry in &set.entries {
            let lower = entry.key.to_ascii_lowercase();
            if !OWN_FIELDS.contains(&lower.as_str()) {
                continue;
            }
            let mistake = Mistake::at(entry.key_span, format!("the field `{}` cannot be set", entry.key));
            self.mistakes.push(match lower.as_str() {
                "host" => mistake.help("the Host that an origin is sent is chosen with `host`"),
                _ => mistake.label("Weir writes it itself"),
            });
        }
    }

    fn exclusive(&mut self, table: &Table, keys: &[&str]) {
        exclusive(table, keys, self.mistakes);
    }
}

/// The logs need a file each, and one that is rotated needs room for some lines.
fn logs(config: &Config, tree: &Node, mistakes: &mut Vec<Mistake>) {
    let Some(log) = tree.get("log").and_then(Node::as_table) else { return };
    exclusive(log, &["access", "format"], mistakes);
    if let Some(entry) = log.entry("max_size")
        && config.log.max_size.is_some_and(|size| size.0 < LOG_BYTES_MIN)
    {
        mistakes.push(Mistake::at(entry.node.span, "`max_size` is at least 64KiB"));
    }
    let is_file = matches!(config.log.path, LogTarget::File(_));
    if let (Some(access), Some(upstream)) = (log.entry("path"), log.entry("upstream"))
        && is_file
        && config.log.upstream.as_ref() == Some(&config.log.path)
    {
        let mistake = Mistake::at(upstream.node.span, "both logs have the same file");
        mistakes.push(mistake.other(access.node.span, "the access log goes here"));
    }
}

/// The smallest file that a log is rotated at.
const LOG_BYTES_MIN: u64 = 64 << 10;

/// No host may belong to two sites.
fn hosts(config: &Config, tree: &Node, mistakes: &mut Vec<Mistake>) {
    let mut known: HashMap<&HostPattern, Span> = HashMap::new();
    for (site, node) in config.site.iter().zip(tree.list_of("site")) {
        for (host, host_node) in site.hosts.iter().zip(node.list_of("hosts")) {
            let Some(first) = known.get(host) else {
                known.insert(host, host_node.span);
                continue;
            };
            mistakes.push(
                Mistake::at(host_node.span, format!("the host `{host}` appears twice"))
                    .label("here again")
                    .other(*first, "first here"),
            );
        }
    }
}

/// No two listeners may have one address, the admin listener included.
fn listeners(config: &Config, tree: &Node, mistakes: &mut Vec<Mistake>) {
    let mut known: Vec<(&ListenAddress, Span)> = Vec::new();
    if let Some(node) = tree.get("admin").and_then(|admin| admin.get("listen")) {
        known.push((&config.admin.listen, node.span));
    }
    for (listen, node) in config.listen.iter().zip(tree.list_of("listen")) {
        let Some(address) = node.get("address") else { continue };
        match known.iter().find(|(known, _)| known.is_same_place(&listen.address)) {
            Some((_, first)) if !has_port_zero(&listen.address) => mistakes.push(
                Mistake::at(address.span, format!("`{}` is listened on twice", listen.address))
                    .label("here again")
                    .other(*first, "first here"),
            ),
            _ => known.push((&listen.address, address.span)),
        }
    }
}

/// Port 0 asks the system for any free port.
fn has_port_zero(address: &ListenAddress) -> bool {
    matches!(address, ListenAddress::Tcp(address) if address.port() == 0)
}

fn upstream_tables(upstream: &Upstream, node: &Node, config: &Config, mistakes: &mut Vec<Mistake>) {
    picks::check(node, config, mistakes);
    origins::check(upstream, node, mistakes);
    if let Some(entry) = node.as_table().and_then(|node| node.entry("nameservers"))
        && upstream.resolve != crate::model::Resolve::Each
    {
        let title = "`nameservers` has no use without `resolve = \"each\"`";
        mistakes.push(Mistake::at(entry.key_span, title));
    }
    if let Some(tls) = node.get("tls").and_then(Node::as_table) {
        for (given, needed) in [("client_cert", "client_key"), ("client_key", "client_cert")] {
            if let Some(entry) = tls.entry(given)
                && tls.get(needed).is_none()
            {
                let title = format!("`{given}` needs `{needed}` beside it");
                mistakes.push(Mistake::at(entry.key_span, title));
            }
        }
        let verify_off = tls.entry("verify").filter(|_| !upstream.tls.verify);
        if let (Some(entry), Some(ca)) = (verify_off, tls.entry("ca_file")) {
            let mistake = Mistake::at(ca.key_span, "`ca_file` has no use while `verify` is false");
            mistakes.push(mistake.other(entry.key_span, "verification is off"));
        }
    }
    if upstream.origins.iter().all(|origin| origin.is_backup())
        && let Some(origins) = node.get("origins")
    {
        mistakes.push(Mistake::at(origins.span, "all origins are backups").help("at least one must not be"));
    }
    eject::check(upstream, node, mistakes);
}

#[cfg(test)]
mod contradictions;
mod distributors;
#[cfg(test)]
mod tests;
