//! Listing what is cached: turns a question in words into hashes and texts of keys, and the results into
//! words again.

use std::sync::Arc;
use std::time::Duration;

use weir_policy::tags;
use weir_store::{Listed, Listing, Page, Store};

use crate::plan::Plan;
use crate::purge;
use weir_clock as clock;

/// How long a page without an object is gone on from.
const SEARCH_MAX: Duration = Duration::from_secs(1);

/// What to list. Several conditions must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOrder {
    /// Only objects of this site, by its name or one of its hosts.
    pub site: Option<String>,
    /// Only URLs that begin with this text; without a scheme: of http and of https.
    pub prefix: Option<String>,
    /// Only objects with this tag.
    pub tag: Option<String>,
    /// The most objects in a page.
    pub limit: usize,
    /// Where the previous page ended.
    pub after: Vec<u8>,
}

/// A cached object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    /// The name of its site; `None` where the configuration no longer has it.
    pub site: Option<Arc<str>>,
    /// What the store says about it.
    pub listed: Listed,
}

/// A page of objects, and where it ends unless it is the last one.
pub(crate) fn list(
    plan: &Plan,
    store: &Store,
    order: &ListOrder,
) -> Result<(Vec<Cached>, Option<Vec<u8>>), String> {
    let site = order.site.as_ref().map(|name| purge::site(plan, name)).transpose()?;
    let mut prefixes = order.prefix.as_ref().map(|text| purge::texts(plan, text)).transpose()?;
    if let (Some(site), Some(prefixes)) = (site, &mut prefixes) {
        // Nothing of another site is looked at: where a page ends is a key.
        prefixes.retain(|(of, _)| *of == site.mark);
        if prefixes.is_empty() {
            return Ok((Vec::new(), None));
        }
    }
    let mut listing = Listing {
        site: site.map(|site| site.mark),
        prefixes: prefixes.unwrap_or_default(),
        tag: order.tag.as_ref().map(|tag| tags::tag_hash(tag.trim_ascii().as_bytes())),
        limit: order.limit,
        after: order.after.clone(),
    };
    let begun = clock::now();
    let (objects, next) = loop {
        let Page { objects, next } = store.list(&listing, clock::now()).map_err(|error| error.to_string())?;
        match next {
            // Nothing of what was looked at is wanted.
            Some(next) if objects.is_empty() && clock::now().since(begun.mono) < SEARCH_MAX => {
                listing.after = next;
            }
            next => break (objects, next),
        }
    };
    let named = |listed: Listed| {
        let site = plan.sites().iter().find(|site| site.mark == listed.key.site);
        Cached { site: site.map(|site| Arc::clone(&site.name)), listed }
    };
    Ok((objects.into_iter().map(named).collect(), next))
}
