//! Listing what is cached: what is asked for in words becomes hashes and texts of keys; what is found becomes
//! words again.

use std::sync::Arc;

use weir_policy::tags;
use weir_store::{Listed, Listing, Page, Store};

use crate::plan::Plan;
use crate::purge;
use weir_clock as clock;

/// What is to be listed. Several together: what all of them say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOrder {
    /// Of this site alone, by its name or one of its hosts.
    pub site: Option<String>,
    /// What begins with this text alone; without a scheme: of http and of https.
    pub prefix: Option<String>,
    /// What bears this tag alone.
    pub tag: Option<String>,
    /// How many, at most.
    pub limit: usize,
    /// Where the page before ended.
    pub after: Vec<u8>,
}

/// Something that is cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    /// The name of its site; `None` where the configuration has none any more.
    pub site: Option<Arc<str>>,
    /// What the store says of it.
    pub listed: Listed,
}

/// A page: what is there, and where it ends unless it is the last one.
pub(crate) fn list(
    plan: &Plan,
    store: &Store,
    order: &ListOrder,
) -> Result<(Vec<Cached>, Option<Vec<u8>>), String> {
    let site = order.site.as_ref().map(|name| purge::site(plan, name)).transpose()?;
    let prefixes = order.prefix.as_ref().map(|text| purge::texts(plan, text)).transpose()?;
    let listing = Listing {
        site: site.map(|site| site.mark),
        prefixes: prefixes.unwrap_or_default(),
        tag: order.tag.as_ref().map(|tag| tags::tag_hash(tag.trim_ascii().as_bytes())),
        limit: order.limit,
        after: order.after.clone(),
    };
    let Page { objects, next } = store.list(&listing, clock::now()).map_err(|error| error.to_string())?;
    let named = |listed: Listed| {
        let site = plan.sites().iter().find(|site| site.mark == listed.key.site);
        Cached { site: site.map(|site| Arc::clone(&site.name)), listed }
    };
    Ok((objects.into_iter().map(named).collect(), next))
}
