//! URLs of `[[warm]]` that lead to no site: each of them will fail. It must not ask any name.

use crate::model::Config;
use crate::resolve::ResolvedSite;
use crate::source::Sources;
use crate::tree::Node;

/// A warning for each URL whose host belongs to no site.
pub(crate) fn of_warm(
    sites: &[ResolvedSite],
    config: &Config,
    (tree, sources): (&Node, &Sources),
) -> Vec<String> {
    let mut warnings = Vec::new();
    for (warm, node) in config.warm.iter().zip(tree.list_of("warm")) {
        let listed = |key| node.get(key).map(Node::as_list).unwrap_or_default();
        let urls = warm.urls.iter().zip(listed("urls")).chain(warm.sitemaps.iter().zip(listed("sitemaps")));
        for (url, at) in urls.chain(warm.url.iter().zip(node.get("as"))) {
            let Some(host) = host(url).filter(|host| !is_own(sites, host)) else { continue };
            let place = sources.place(at.span);
            warnings.push(format!("{place}: no site has the host {host}, so that {url} cannot be warmed"));
        }
    }
    warnings
}

/// The host of a URL, without its port.
fn host(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?.to_ascii_lowercase();
    let end = authority.rfind(':').filter(|at| !authority[*at..].contains(']')).unwrap_or(authority.len());
    Some(authority[..end].to_owned()).filter(|host| !host.is_empty())
}

fn is_own(sites: &[ResolvedSite], host: &str) -> bool {
    sites.iter().flat_map(|site| &site.hosts).any(|pattern| pattern.fits(host))
}
