//! Which conditions of a route hold by what maps say of a request, and which maps it uses. It must not know
//! what a condition leads to.

use std::collections::BTreeSet;

use weir_policy::value::{Placeholder, Value, What};
use weir_policy::{CacheRules, MapTrigger};

use crate::decide::Fulfilled;
use crate::values::{OfRequest, Said};

/// The conditions that hold. Where a map could have said something else to an origin that reads the request
/// in another way, those hold by which nothing is stored.
pub(super) fn fulfilled<'a>(rules: &CacheRules, known: impl FnOnce() -> OfRequest<'a>) -> Fulfilled {
    let (bypass, refresh, no_store) = (&rules.bypass.maps, &rules.refresh.maps, &rules.no_store.maps);
    if bypass.is_empty() && refresh.is_empty() && no_store.is_empty() {
        return Fulfilled::default();
    }
    let known = known();
    let holds = |triggers: &[MapTrigger], unsure: bool| {
        triggers.iter().any(|trigger| match known.said_by(&trigger.name) {
            Said::Unsure => unsure,
            Said::Result(result) => trigger.fits(result.map(str::as_bytes)),
        })
    };
    let of = |is_held: bool, condition| if is_held { condition } else { 0 };
    Fulfilled(
        of(holds(bypass, true), Fulfilled::BYPASS_MAP)
            | of(holds(refresh, false), Fulfilled::REFRESH)
            | of(holds(no_store, true), Fulfilled::NO_STORE),
    )
}

/// The maps that conditions, the key and some values name.
pub(super) fn names<'r>(rules: &'r CacheRules, values: impl Iterator<Item = &'r Value>) -> BTreeSet<&'r str> {
    let conditions = [&rules.bypass, &rules.refresh, &rules.no_store];
    let conditions = conditions.into_iter().flat_map(|triggers| &triggers.maps).map(|map| map.name.as_str());
    conditions.chain(values.flat_map(Value::placeholders).chain(&rules.key.values).filter_map(map)).collect()
}

fn map(placeholder: &Placeholder) -> Option<&str> {
    match &placeholder.what {
        What::Map(name) => Some(name),
        _ => None,
    }
}
