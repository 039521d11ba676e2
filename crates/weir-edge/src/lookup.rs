//! Looking up: the request's key, and what is held under it. RFC 9111 §2, §4.1. A look-up loads what the
//! volume holds into the memory's index.

use std::sync::Arc;

use bytes::Bytes;
use weir_policy::value::Known;
use weir_policy::{CacheKey, KeyParts, Stored, matches, write_key};
use weir_store::{Found, Generation, Head as HeldHead, Visitor};

use crate::exchange::{Exchange, Note};
use crate::plan::Route;
use weir_fill::refetch::strong;

/// What is held for a request.
pub(crate) struct Held {
    /// The generation that the request selects.
    pub(crate) generation: Option<Arc<Generation>>,
    /// Whether other variants are held, where the request selects none. The origin is not asked about them:
    /// a 304 applies to what its request selects (RFC 9111 §4.3.4).
    pub(crate) has_siblings: bool,
}

/// The result of a look-up.
enum Looked {
    /// It was in memory's index.
    Held(Held),
    /// The volume may hold more, and has to be asked.
    Ask(weir_store::Ask),
}

/// Finds the generation that the request selects. The volume is asked where memory has none.
pub(crate) async fn find(exchange: &Exchange<'_, '_>, route: &Route) -> Held {
    let held = match look(exchange, route) {
        Looked::Held(held) => held,
        Looked::Ask(ask) => match ask.run().await {
            Some(visitor) => received(exchange, route, &visitor),
            None => at_hand(exchange, route),
        },
    };
    match &held.generation {
        // A generation whose bytes turned out to be gone is no longer whole.
        Some(below)
            if below.is_on_disk() && below.is_whole() && !exchange.core.shared.store.prime(below).await =>
        {
            at_hand(exchange, route)
        }
        _ => held,
    }
}

/// What was loaded for this request alone. Memory keeps it where the request has no use for it.
fn received(exchange: &Exchange<'_, '_>, route: &Route, visitor: &Visitor) -> Held {
    let (store, generation) = (&exchange.core.shared.store, visitor.generation());
    let selects = |head: &HeldHead| matches(&head.stored.variant, exchange.selecting(route));
    let is_wanted = is_of_site(exchange, generation) && selects(&generation.head());
    if is_wanted && store.visit(visitor) {
        return Held { generation: Some(Arc::clone(generation)), has_siblings: false };
    }
    store.keep(generation);
    at_hand(exchange, route)
}

/// Finds the generation that the request selects among those in memory's index.
pub(crate) fn at_hand(exchange: &Exchange<'_, '_>, route: &Route) -> Held {
    match look(exchange, route) {
        Looked::Held(held) => held,
        Looked::Ask(_) => {
            let key = key(exchange, route);
            among_variants(exchange, route, key.digest, &key.full)
        }
    }
}

/// Whether a whole generation of the selected variant is held.
pub(crate) fn at_hand_is_whole(exchange: &Exchange<'_, '_>, route: &Route) -> bool {
    at_hand(exchange, route).generation.is_some_and(|held| held.is_whole())
}

fn look(exchange: &Exchange<'_, '_>, route: &Route) -> Looked {
    let core = exchange.core;
    let mut key = core.key.borrow_mut();
    key.clear();
    let digest = write(exchange, route, &mut key);
    let selects = |stored: &Stored| matches(&stored.variant, exchange.selecting(route));
    match core.shared.store.find(digest, &key, site(exchange), &selects) {
        Found::Ready(Some(generation)) if is_usable(&generation) && is_of_site(exchange, &generation) => {
            Looked::Held(Held { generation: Some(generation), has_siblings: false })
        }
        Found::Ready(_) => Looked::Held(among_variants(exchange, route, digest, &key)),
        Found::Ask(ask) => Looked::Ask(ask),
    }
}

/// The first match may still be filling while an older generation is whole.
fn among_variants(exchange: &Exchange<'_, '_>, route: &Route, digest: u128, key: &[u8]) -> Held {
    let headers = exchange.selecting(route);
    let mut variants = exchange.core.shared.store.variants(digest, key);
    variants.retain(|generation| is_usable(generation) && is_of_site(exchange, generation));
    let is_selected = |generation: &&Arc<Generation>| matches(&generation.head().stored.variant, headers);
    let whole = variants.iter().find(|generation| generation.is_whole() && is_selected(generation));
    match whole.or_else(|| variants.iter().find(is_selected)) {
        Some(generation) => Held { generation: Some(generation.clone()), has_siblings: false },
        None => Held { generation: None, has_siblings: !variants.is_empty() },
    }
}

/// Whether a generation can answer: it is whole, or its missing bytes can be brought.
pub(crate) fn is_usable(generation: &Generation) -> bool {
    // The missing bytes of a part can only be brought with a validator that proves the same version.
    let is_partable =
        || generation.is_unvalidated_part() || strong(&generation.head().stored.headers).is_some();
    generation.is_whole() || (generation.is_part() && is_partable())
}

/// Whether it was stored while its host belonged to another site. Such an object is not used: a purge of the
/// present site would not reach it.
pub(crate) fn is_of_site(exchange: &Exchange<'_, '_>, generation: &Generation) -> bool {
    generation.key().site == site(exchange)
}

fn site(note: &Note<'_>) -> u64 {
    note.site.map_or(0, |site| site.mark)
}

/// Appends the request's key to `out`.
fn write(note: &Note<'_>, route: &Route, out: &mut Vec<u8>) -> u128 {
    let known = route.keyed(|| note.known(route));
    let known = known.as_ref().map(|known| known as &dyn Known);
    let parts = KeyParts { target: route.key_target(note.rewritten.as_ref()), known };
    write_key(&route.rules.key, &note.view(), parts, out)
}

/// The request's key where the route shows it.
pub(crate) fn shown_key(note: &Note<'_>, route: &Route) -> Option<CacheKey> {
    route.show_key.then(|| key(note, route))
}

/// The request's key, as a value of its own.
pub(crate) fn key(note: &Note<'_>, route: &Route) -> CacheKey {
    let mut key = Vec::with_capacity(128);
    let digest = write(note, route, &mut key);
    CacheKey { digest, full: Bytes::from(key), site: site(note) }
}
