//! How much is held of what is about to be purged, where that is known without a search.

use weir_policy::CacheKey;
use weir_store::{Mark, Scope, Store};

use super::{Place, places};
use crate::plan::Plan;

/// Objects in memory up to which they are looked at one by one. A worker does it, with hits beside it.
const LOOKED_MAX: usize = 64;
/// The most comparisons of an object with a mark.
const COMPARED_MAX: usize = 4096;

/// How many objects a purge takes, of these URLs alone or by these marks; `None` where finding that out would
/// take a search.
pub(super) fn held(store: &Store, plan: &Plan, urls: Option<&[String]>, marks: &[Mark]) -> Option<u64> {
    let is_url = |mark: &Mark| matches!(mark.scope, Scope::Url { .. });
    let Some(urls) = urls.filter(|_| marks.iter().all(is_url)) else {
        let scopes: Vec<Scope> = marks.iter().map(|mark| mark.scope).collect();
        let looked_max = LOOKED_MAX.min(COMPARED_MAX / scopes.len().max(1));
        return store.count_in_memory(&scopes, looked_max);
    };
    let places = urls.iter().flat_map(|url| places(plan, url).unwrap_or_default());
    places.into_iter().try_fold(0, |sum, place| Some(sum + of_url(store, &place)?))
}

/// How many variants are held of a URL.
fn of_url(store: &Store, place: &Place<'_>) -> Option<u64> {
    let site = place.site;
    if site.routes().iter().any(|route| !route.rules.key.is_of_url()) {
        return None;
    }
    let mut count = 0;
    for name in place.names() {
        let key = CacheKey::new(name.text().to_owned().into());
        let in_memory = store.variants(key.digest, &key.full).len() as u64;
        // A volume may have variants that memory does not know.
        if in_memory == 0 && store.may_hold(key.digest, &key.full, site.mark) {
            return None;
        }
        count += in_memory;
    }
    Some(count)
}
