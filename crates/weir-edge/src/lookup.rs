//! Looking up: the request's key, and what is held under it. RFC 9111 §2, §4.1. A look-up loads what the
//! volume holds into the memory's index.

use std::sync::Arc;

use bytes::Bytes;
use weir_policy::value::Known;
use weir_policy::{CacheKey, KeyParts, Stored, matches, write_key};
use weir_store::{Found, Generation, Head as HeldHead, Visitor};

use crate::exchange::{Asked, Chosen};
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
pub(crate) async fn find(asked: &Asked<'_>, chosen: &Chosen<'_>) -> Held {
    let held = match look(asked, chosen) {
        Looked::Held(held) => held,
        Looked::Ask(ask) => match ask.run().await {
            Some(visitor) => received(asked, chosen, &visitor),
            None => at_hand(asked, chosen),
        },
    };
    match &held.generation {
        // A generation whose bytes turned out to be gone is no longer whole.
        Some(below)
            if below.is_on_disk() && below.is_whole() && !asked.core.shared.store.prime(below).await =>
        {
            at_hand(asked, chosen)
        }
        _ => held,
    }
}

/// What was loaded for this request alone. Memory keeps it where the request has no use for it.
fn received(asked: &Asked<'_>, chosen: &Chosen<'_>, visitor: &Visitor) -> Held {
    let (store, generation) = (&asked.core.shared.store, visitor.generation());
    let selects = |head: &HeldHead| matches(&head.stored.variant, chosen.selecting(asked));
    let is_wanted = is_of_site(chosen, generation) && selects(&generation.head());
    if is_wanted && store.visit(visitor) {
        return Held { generation: Some(Arc::clone(generation)), has_siblings: false };
    }
    store.keep(generation);
    at_hand(asked, chosen)
}

/// Finds the generation that the request selects among those in memory's index.
pub(crate) fn at_hand(asked: &Asked<'_>, chosen: &Chosen<'_>) -> Held {
    match look(asked, chosen) {
        Looked::Held(held) => held,
        Looked::Ask(_) => {
            let key = key(asked, chosen);
            among_variants(asked, chosen, key.digest, &key.full)
        }
    }
}

/// Whether a whole generation of the selected variant is held.
pub(crate) fn at_hand_is_whole(asked: &Asked<'_>, chosen: &Chosen<'_>) -> bool {
    at_hand(asked, chosen).generation.is_some_and(|held| held.is_whole())
}

fn look(asked: &Asked<'_>, chosen: &Chosen<'_>) -> Looked {
    let core = asked.core;
    let mut key = core.key.borrow_mut();
    key.clear();
    let digest = write(asked, chosen, &mut key);
    let selects = |stored: &Stored| matches(&stored.variant, chosen.selecting(asked));
    match core.shared.store.find(digest, &key, chosen.site.mark, &selects) {
        Found::Ready(Some(generation)) if is_usable(&generation) && is_of_site(chosen, &generation) => {
            Looked::Held(Held { generation: Some(generation), has_siblings: false })
        }
        Found::Ready(_) => Looked::Held(among_variants(asked, chosen, digest, &key)),
        Found::Ask(ask) => Looked::Ask(ask),
    }
}

/// The first match may still be filling while an older generation is whole.
fn among_variants(asked: &Asked<'_>, chosen: &Chosen<'_>, digest: u128, key: &[u8]) -> Held {
    let headers = chosen.selecting(asked);
    let mut variants = asked.core.shared.store.variants(digest, key);
    variants.retain(|generation| is_usable(generation) && is_of_site(chosen, generation));
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
pub(crate) fn is_of_site(chosen: &Chosen<'_>, generation: &Generation) -> bool {
    generation.key().site == chosen.site.mark
}

/// Appends the request's key to `out`.
fn write(asked: &Asked<'_>, chosen: &Chosen<'_>, out: &mut Vec<u8>) -> u128 {
    let known = chosen.route.keyed(|| chosen.known(asked));
    let known = known.as_ref().map(|known| known as &dyn Known);
    let parts = KeyParts { target: chosen.route.key_target(chosen.rewritten()), known };
    write_key(&chosen.route.rules.key, &asked.view(), parts, out)
}

/// The request's key where the route shows it.
pub(crate) fn shown_key(asked: &Asked<'_>, chosen: &Chosen<'_>) -> Option<CacheKey> {
    chosen.route.show_key.then(|| key(asked, chosen))
}

/// The request's key, as a value of its own.
pub(crate) fn key(asked: &Asked<'_>, chosen: &Chosen<'_>) -> CacheKey {
    let mut key = Vec::with_capacity(128);
    let digest = write(asked, chosen, &mut key);
    CacheKey { digest, full: Bytes::from(key), site: chosen.site.mark }
}
