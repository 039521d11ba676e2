//! Mistakes of `origins`: one that stands twice, and service names that nobody asks DNS for. Must not look a
//! name up.

use crate::{
    mistake::Mistake,
    model::{Resolve, Upstream},
    tree::Node,
    value::{OriginScheme, OriginUrl},
};
use std::collections::HashMap;
use std::net::IpAddr;

/// Checks the origins of one upstream.
pub(super) fn check(upstream: &Upstream, node: &Node, mistakes: &mut Vec<Mistake>) {
    let Some(list) = node.get("origins") else { return };
    let mut known: HashMap<(OriginScheme, String, u16), &Node> = HashMap::new();
    for (origin, node) in upstream.origins.iter().zip(list.as_list()) {
        let (url, node) = (origin.url(), node.get("url").unwrap_or(node));
        if let Some(first) = known.insert(place(url), node) {
            let mistake = Mistake::at(node.span, format!("the origin `{url}` appears twice"));
            let mistake = mistake.label("here again").other(first.span, "first here");
            mistakes.push(mistake.help("leave one out; for a larger share it has a `weight`"));
        }
        if url.is_service() {
            service(url, upstream.resolve, node, mistakes);
        }
    }
}

/// Where an origin is: an address is the same in all its spellings.
fn place(url: &OriginUrl) -> (OriginScheme, String, u16) {
    let host = url.host.parse::<IpAddr>().map_or_else(|_| url.host.clone(), |address| address.to_string());
    (url.scheme, host, url.port)
}

/// A service name stands for SRV records, which `resolve = "each"` alone asks for and which have the ports.
fn service(url: &OriginUrl, resolve: Resolve, node: &Node, mistakes: &mut Vec<Mistake>) {
    if resolve != Resolve::Each {
        let title = format!("`{}` is the name of a service, which has no address of its own", url.host);
        let help = "write `resolve = \"each\"` beside `origins`, so that Weir asks DNS for its SRV records";
        mistakes.push(Mistake::at(node.span, title).help(help));
    }
    let Some((_, written)) = node.as_text().and_then(|text| text.split_once("://")) else { return };
    if written.contains(':') {
        let scheme = if url.scheme == OriginScheme::Https { "https" } else { "http" };
        let title = "a service name has no port here: its SRV records say the ports";
        mistakes.push(Mistake::at(node.span, title).help(format!("write `{scheme}://{}`", url.host)));
    }
}

#[cfg(test)]
mod tests;
