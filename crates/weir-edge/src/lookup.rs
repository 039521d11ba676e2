//! Looking up: the request's key, and what is held under it. RFC 9111 §2, §4.1. It writes nothing.

use std::sync::Arc;

use bytes::Bytes;
use weir_policy::{CacheKey, matches, write_key};
use weir_store::{Found, Generation};

use crate::exchange::Exchange;
use crate::plan::Route;

/// What is held for a request.
pub(crate) struct Held {
    /// The generation that the request selects.
    pub(crate) generation: Option<Arc<Generation>>,
    /// The other variants that are held whole, where none was selected.
    pub(crate) others: Vec<Arc<Generation>>,
}

/// Finds the generation that the request selects.
pub(crate) fn find(exchange: &Exchange<'_>, route: &Route) -> Held {
    let worker = exchange.worker;
    let mut key = worker.key.borrow_mut();
    key.clear();
    let digest = write_key(&route.rules.key, &exchange.view(), &mut key);
    let headers = &exchange.head.headers;
    match worker.plane.store.find(digest, &key, &|stored| matches(&stored.variant, headers)) {
        Found::Ready(generation) => match generation {
            Some(generation) if generation.is_whole() && is_of_site(exchange, &generation) => {
                Held { generation: Some(generation), others: Vec::new() }
            }
            _ => among_variants(exchange, digest, &key),
        },
        // A tier that must be asked comes with the disk; until then what is not at hand is a miss.
        _ => Held { generation: None, others: Vec::new() },
    }
}

/// What is found first may still be filling, while an older generation is whole.
fn among_variants(exchange: &Exchange<'_>, digest: u128, key: &[u8]) -> Held {
    let headers = &exchange.head.headers;
    let mut variants = exchange.worker.plane.store.variants(digest, key);
    variants.retain(|generation| generation.is_whole() && is_of_site(exchange, generation));
    let selected = |generation: &&Arc<Generation>| matches(&generation.head().stored.variant, headers);
    match variants.iter().find(selected) {
        Some(generation) => Held { generation: Some(generation.clone()), others: Vec::new() },
        None => Held { generation: None, others: variants.into_vec() },
    }
}

/// What was stored while its host belonged to another site is not that site's any more: a purge of this one would not
/// reach it.
pub(crate) fn is_of_site(exchange: &Exchange<'_>, generation: &Generation) -> bool {
    generation.key().site == site(exchange)
}

fn site(exchange: &Exchange<'_>) -> u64 {
    exchange.site.map_or(0, |site| site.mark)
}

/// The request's key where the route shows it.
pub(crate) fn shown_key(exchange: &Exchange<'_>, route: &Route) -> Option<CacheKey> {
    route.show_key.then(|| key(exchange, route))
}

/// The request's key, to be kept.
pub(crate) fn key(exchange: &Exchange<'_>, route: &Route) -> CacheKey {
    let mut key = Vec::with_capacity(128);
    let digest = write_key(&route.rules.key, &exchange.view(), &mut key);
    CacheKey { digest, full: Bytes::from(key), site: site(exchange) }
}
