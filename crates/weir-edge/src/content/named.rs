//! What a URL in words means for content by hand: its text without a scheme, its site, and what requests for
//! it have in the index.

use bytes::Bytes;
use http::{HeaderMap, Method};
use weir_policy::{RequestView, write_url};
use weir_wire::{Host, Scheme};

use crate::plan::{Plan, Site};
use crate::purge::{Written, written};
use crate::route::Unknown;

/// What stands for both schemes in the index.
pub(super) const SCHEME: &str = "http";

/// A URL as content by hand has it: host, with its port where that is not the default one, path and query.
/// Content answers under both schemes.
///
/// # Errors
/// A sentence.
pub(crate) fn canonical(text: &str) -> Result<String, String> {
    let Written { schemes, authority, path_and_query } = written(text)?;
    let host = host(authority, *schemes.first().unwrap_or(&Scheme::Http))?;
    Ok(format!("{}{path_and_query}", host.as_str()))
}

fn host(authority: &str, scheme: Scheme) -> Result<Host, String> {
    Host::parse(&Bytes::copy_from_slice(authority.as_bytes()), Some(scheme))
        .map_err(|refusal| format!("{authority} is not a host ({})", refusal.reason()))
}

/// The site that a canonical URL leads to.
///
/// # Errors
/// A sentence: there is none.
pub(super) fn site_of<'p>(plan: &'p Plan, url: &str) -> Result<&'p Site, String> {
    let host = host(split(url).0, Scheme::Http)?;
    let site = plan.site(host.name()).ok_or_else(|| format!("no site has the host {}", host.name()))?;
    Ok(site)
}

/// What requests for a canonical URL have in the index: one key for each way in which a route of its site
/// reads the query. Empty where no route takes them.
pub(super) fn keys(site: &Site, url: &str) -> Vec<Box<[u8]>> {
    let (host, path_and_query) = split(url);
    let headers = HeaderMap::new();
    let mut keys: Vec<Box<[u8]>> = Vec::with_capacity(1);
    for method in [Method::GET, Method::HEAD] {
        for scheme in [Scheme::Http, Scheme::Https] {
            let view = RequestView {
                method: &method,
                scheme: scheme.as_str(),
                host,
                path_and_query,
                headers: &headers,
                has_body: false,
                is_trusted: false,
            };
            // Each of our ports may lead to another route.
            for route in site.candidates(&view, Unknown::Port) {
                let mut key = site.mark.to_le_bytes().to_vec();
                write_url(&route.rules.key, &RequestView { scheme: SCHEME, ..view }, None, &mut key);
                if !keys.iter().any(|known| **known == *key) {
                    keys.push(key.into());
                }
            }
        }
    }
    keys
}

/// The host of a canonical URL, and the rest.
pub(super) fn split(url: &str) -> (&str, &str) {
    url.split_at(url.find('/').unwrap_or(url.len()))
}
