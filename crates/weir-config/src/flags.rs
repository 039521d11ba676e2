//! A configuration of one site from the flags of `weir run --origin`. It is made as a tree, like a file's, so
//! that bad values give the same reports. Must not know a flag's default: the model has that.

use crate::{
    load::{Loaded, finish},
    mistake::Mistakes,
    source::{Source, Sources, Span},
    tree::Node,
    value::OriginUrl,
};
use std::path::Path;

/// The flags of `weir run --origin`, as typed. A missing flag has the model's default.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--origin URL`.
    pub origin: String,
    /// `--listen ADDRESS`, any number of times.
    pub listen: Vec<String>,
    /// Listeners with TLS; `--host` makes them.
    pub listen_tls: Vec<String>,
    /// `--host NAME`, any number of times: the site's hosts, for which certificates are ordered.
    pub hosts: Vec<String>,
    /// `--admin ADDRESS`.
    pub admin: Option<String>,
    /// `--cache DIR`: the volume is `DIR/volume`, the state folder `DIR/state`.
    pub cache: Option<String>,
    /// `--disk SIZE`, with `--cache`.
    pub disk: Option<String>,
    /// `--state DIR`, which overrides `--cache`.
    pub state: Option<String>,
    /// `--memory SIZE`.
    pub memory: Option<String>,
    /// `--ttl DURATION`: the lifetime where the origin names none.
    pub ttl: Option<String>,
    /// `--ttl-override DURATION`.
    pub ttl_override: Option<String>,
    /// `--log json|combined`.
    pub log: Option<String>,
}

/// The command line as text, so that mistakes can point into it.
struct CommandLine {
    text: String,
}

impl CommandLine {
    /// Adds a flag with its value; the node is the value with its place.
    fn add(&mut self, flag: &str, value: &str) -> Node {
        self.text.push(' ');
        self.text.push_str(flag);
        self.text.push(' ');
        let start = self.text.len() as u32;
        self.text.push_str(value);
        Node::text(Span { file: 0, start, end: self.text.len() as u32 }, value)
    }

    fn add_if(&mut self, flag: &str, value: Option<&String>) -> Option<Node> {
        value.map(|value| self.add(flag, value))
    }
}

/// Makes the configuration of one site for `weir run --origin URL`: every host, one upstream. Where the
/// origin has a DNS name, Weir sends it as Host, and rewrites a `Location` that names it.
///
/// # Errors
/// All values that do not parse, each with its place on the command line.
pub fn from_flags(flags: &Flags) -> Result<Loaded, Mistakes> {
    let mut line = CommandLine { text: "weir run".into() };
    let origin = line.add("--origin", &flags.origin);
    let at = origin.span;
    let host = match flags.origin.parse::<OriginUrl>() {
        Ok(url) if url.dns_name().is_some() => "origin",
        _ => "client",
    };
    let upstream =
        Node::table(at, vec![("origins", Node::list(at, vec![origin])), ("host", Node::text(at, host))]);
    let hosts: Vec<Node> = flags.hosts.iter().map(|host| line.add("--host", host)).collect();
    let is_ordering = !hosts.is_empty();
    let hosts = if is_ordering { hosts } else { vec![Node::text(at, "*")] };
    let mut site = vec![("hosts", Node::list(at, hosts)), ("upstream", Node::text(at, "origin"))];
    let plain = flags.listen.iter().map(|address| line.add("--listen", address));
    let mut listen: Vec<Node> =
        plain.map(|address| Node::table(address.span, vec![("address", address)])).collect();
    listen.extend(flags.listen_tls.iter().map(|address| {
        let address = Node::text(at, address);
        Node::table(at, vec![("address", address), ("tls", Node::truth(at, true))])
    }));
    let mut root = vec![("upstream", Node::table(at, vec![("origin", upstream)]))];
    if is_ordering {
        root.push(("acme", Node::table(at, Vec::new())));
    }
    if !listen.is_empty() {
        root.push(("listen", Node::list(at, listen)));
    }
    let mut table = |name: &'static str, key: &'static str, value: Option<Node>| {
        root.extend(value.map(|value| (name, Node::table(value.span, vec![(key, value)]))));
    };
    table("admin", "listen", line.add_if("--admin", flags.admin.as_ref()));
    table("log", "access", line.add_if("--log", flags.log.as_ref()));
    let cache = line.add_if("--cache", flags.cache.as_ref()).zip(flags.cache.as_ref());
    let below = |name: &str| {
        let (given, folder) = cache.as_ref()?;
        Some(Node::text(given.span, Path::new(folder).join(name).to_string_lossy()))
    };
    let state = flags.state.as_ref().map(|state| line.add("--state", state)).or_else(|| below("state"));
    table("state", "path", state);
    let mut kept =
        Vec::from_iter(line.add_if("--memory", flags.memory.as_ref()).map(|size| ("memory", size)));
    if let Some(path) = below("volume") {
        let mut volume = vec![("path", path)];
        volume.extend(line.add_if("--disk", flags.disk.as_ref()).map(|size| ("size", size)));
        kept.push(("volume", Node::list(at, vec![Node::table(at, volume)])));
    }
    if !kept.is_empty() {
        root.push(("cache", Node::table(at, kept)));
    }
    site.extend(line.add_if("--ttl", flags.ttl.as_ref()).map(|ttl| ("ttl", ttl)));
    site.extend(line.add_if("--ttl-override", flags.ttl_override.as_ref()).map(|ttl| ("ttl_override", ttl)));
    root.push(("site", Node::list(at, vec![Node::table(at, site)])));
    let sources = Sources(vec![Source::new("command line", None, line.text)]);
    let tree = Node::table(Span::default(), root);
    let no_environment = |_: &str| None;
    finish(tree, sources, &no_environment, Vec::new())
}

#[cfg(test)]
mod tests;
