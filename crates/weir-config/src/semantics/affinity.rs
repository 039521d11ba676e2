//! Mistakes of `[upstream.NAME.affinity]`: what a way of telling sessions needs, what it has no use for, keys
//! that are none, and names that two origins or two upstreams have.

use crate::{
    mistake::Mistake,
    model::{Affinity, AffinityBy, Config, SameSite, Upstream},
    session_keys,
    tree::{Node, Table},
};
use std::collections::HashMap;

/// The keys that Weir's own cookie has alone.
const OF_OWN: [&str; 7] = ["key_file", "secure", "http_only", "same_site", "lifetime", "path", "domain"];

/// Checks all upstreams.
pub(super) fn check(config: &Config, tree: &Node, mistakes: &mut Vec<Mistake>) {
    let mut names: HashMap<String, &str> = HashMap::new();
    for (name, upstream) in &config.upstream {
        let Some(node) = tree.get("upstream").and_then(|node| node.get(name)) else { continue };
        ids(node, mistakes);
        let (Some(affinity), Some(table)) =
            (&upstream.affinity, node.get("affinity").and_then(Node::as_table))
        else {
            continue;
        };
        one(affinity, table, mistakes);
        match affinity.by {
            AffinityBy::Own => own(affinity, table, mistakes),
            AffinityBy::Suffix => named(upstream, node, mistakes),
            AffinityBy::Hash => {}
        }
        if affinity.by == AffinityBy::Own
            && let Some(cookie) = affinity.cookie_name(name)
            && let Some(other) = names.insert(cookie.clone(), name)
            && let Some(entry) = table.entry("cookie")
        {
            let title = format!("the cookie `{cookie}` would name origins of `{other}` and of `{name}`");
            let help = "each upstream needs a cookie of its own";
            mistakes.push(Mistake::at(entry.node.span, title).help(help));
        }
    }
}

/// What each way needs, and what it has no use for.
fn one(affinity: &Affinity, table: &Table, mistakes: &mut Vec<Mistake>) {
    let Some(by) = table.entry("by") else { return };
    let (word, needed, help): (_, _, &str) = match affinity.by {
        AffinityBy::Own => {
            ("own", "key_file", "openssl rand -base64 32 > FILE; chmod 640 FILE; the same file on all Weirs")
        }
        AffinityBy::Suffix => ("suffix", "cookie", "cookie = \"JSESSIONID\""),
        AffinityBy::Hash => ("hash", "of", "of = \"cookie:sid\" or \"header:X-Session\""),
    };
    if table.get(needed).is_none() && !table.is_damaged {
        let title = format!("`by = \"{word}\"` needs `{needed}`");
        mistakes.push(Mistake::at(by.node.span, title).help(help));
    }
    let useless: Vec<&str> = match affinity.by {
        AffinityBy::Own => vec!["of", "parameter"],
        AffinityBy::Suffix => [&["of"], &OF_OWN[..]].concat(),
        AffinityBy::Hash => [&["cookie", "parameter"], &OF_OWN[..]].concat(),
    };
    for entry in useless.into_iter().filter_map(|key| table.entry(key)) {
        let title = format!("`{}` has no use with `by = \"{word}\"`", entry.key);
        mistakes.push(Mistake::at(entry.key_span, title).other(by.node.span, "chosen here"));
    }
}

/// The keys and attributes of Weir's own cookie.
fn own(affinity: &Affinity, table: &Table, mistakes: &mut Vec<Mistake>) {
    if let (Some(file), Some(node)) = (&affinity.key_file, table.get("key_file"))
        && let Err(fault) = session_keys::read(&file.0)
    {
        let title = "this is no file of keys for sessions";
        mistakes.push(Mistake::at(node.span, title).label(fault.to_string()));
    }
    if let Some(entry) = table.entry("lifetime")
        && affinity.lifetime.is_some_and(|lifetime| lifetime.0.as_secs() == 0)
    {
        mistakes.push(Mistake::at(entry.node.span, "`lifetime` is at least 1s"));
    }
    if let Some(entry) = table.entry("secure")
        && affinity.secure == Some(false)
        && affinity.same_site == SameSite::None
    {
        let title = "browsers refuse a cookie with `same_site = \"none\"` that is not `secure`";
        mistakes.push(Mistake::at(entry.node.span, title));
    }
    let Some((cookie, entry)) = affinity.cookie.as_ref().zip(table.entry("cookie")) else { return };
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
    if !cookie.0.bytes().all(is_token) {
        let title =
            format!("`{}` cannot name a cookie of Weir's: it is no token (RFC 6265 §4.1.1)", cookie.0);
        mistakes.push(Mistake::at(entry.node.span, title));
    }
    let lower = cookie.0.to_ascii_lowercase();
    let is_secure = affinity.secure == Some(true);
    let is_of_one_host = is_secure && affinity.domain.is_none() && affinity.path == "/";
    if lower.starts_with("__host-") && !is_of_one_host {
        let title =
            "browsers refuse a cookie `__Host-…` unless it is `secure`, with the path `/` and no domain";
        mistakes.push(Mistake::at(entry.node.span, title));
    } else if lower.starts_with("__secure-") && !is_secure {
        let title = "browsers refuse a cookie `__Secure-…` that is not `secure`";
        mistakes.push(Mistake::at(entry.node.span, title));
    }
}

/// Session ids name origins by their `id`: each needs one.
fn named(upstream: &Upstream, node: &Node, mistakes: &mut Vec<Mistake>) {
    let Some(origins) = node.get("origins") else { return };
    let mut free = (1..).map(|number| format!("node{number}"));
    let is_taken = |id: &str| upstream.origins.iter().any(|origin| origin.id() == Some(id));
    for (origin, node) in upstream.origins.iter().zip(origins.as_list()) {
        let is_damaged = node.as_table().is_some_and(|table| table.is_damaged);
        if origin.id().is_none() && !is_damaged {
            let id = free.find(|id| !is_taken(id)).unwrap_or_default();
            let help = format!("{{ url = \"{}\", id = \"{id}\" }}", origin.url());
            let title = "this origin has no `id`, by which session ids name it";
            mistakes.push(Mistake::at(node.span, title).help(help));
        }
    }
}

/// No two origins of an upstream may have one `id`.
fn ids(upstream: &Node, mistakes: &mut Vec<Mistake>) {
    let mut known: HashMap<&str, &Node> = HashMap::new();
    for origin in upstream.get("origins").map(Node::as_list).unwrap_or_default() {
        let Some((id, node)) = origin.get("id").and_then(|node| Some((node.as_text()?, node))) else {
            continue;
        };
        if let Some(first) = known.insert(id, node) {
            let title = format!("two origins have the id `{id}`");
            mistakes.push(Mistake::at(node.span, title).label("here again").other(first.span, "first here"));
        }
    }
}

#[cfg(test)]
mod tests;
