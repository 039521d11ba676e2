//! Listing what is cached: turns a question in words into hashes and texts of keys, and the results into
//! words again. [`wanted`] reads the conditions, `by_hand` has the content by hand.

mod by_hand;
mod wanted;

use std::sync::Arc;

use weir_clock as clock;
use weir_policy::tags;
use weir_store::volume::EachDone;
use weir_store::{Form, Listed, Listing, Page, PlaceOf, Store, Sum, UrlMatch, Wanted};

use crate::purge::{self, Name};
use crate::shared::Shared;

pub use by_hand::ListedByHand;

use by_hand::ByHand;

/// What to list. Several conditions must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOrder {
    /// Only objects of this site, by its name or one of its hosts.
    pub site: Option<String>,
    /// Only URLs that begin with this text; without a scheme: of http and of https.
    pub prefix: Option<String>,
    /// Only objects with this tag.
    pub tag: Option<String>,
    /// Only URLs that this glob takes as a whole, or behind `~` a regular expression in part.
    pub matching: Option<String>,
    /// Only these statuses: `404,5xx`.
    pub status: Option<String>,
    /// Only these media types: `text/html,image/*`.
    pub media_type: Option<String>,
    /// Only so many bytes held: `1MiB..`.
    pub size: Option<String>,
    /// Only of that age: `..1h`.
    pub age: Option<String>,
    /// `fresh`, `stale`, or a time: what expires within it.
    pub freshness: Option<String>,
    /// `part` or `whole`.
    pub held: Option<String>,
    /// `memory`, or a volume's name.
    pub place: Option<String>,
    /// Only content by hand, or only what is not.
    pub by_hand: Option<bool>,
    /// What comes first: `url`, `size`, `age` or `expires`.
    pub sort: Option<String>,
    /// Whether only the sum of all is wanted.
    pub is_sum: bool,
    /// The most objects.
    pub limit: usize,
    /// Where the previous page ended.
    pub after: Vec<u8>,
}

/// A cached object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    /// The name of its site; `None` where the configuration no longer has it. Of content by hand: the site
    /// that it was laid for.
    pub site: Option<Arc<str>>,
    /// What the store says about it.
    pub listed: Listed,
    /// Content by hand, where it is that.
    pub by_hand: Option<ListedByHand>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CachedPage {
    /// Objects.
    pub objects: Vec<Cached>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<Vec<u8>>,
    /// The sum of all that fits, where an order or a sum is wanted.
    pub sum: Option<Sum>,
    /// The volumes that are walked, since they have no rows that are up to date.
    pub walked: Vec<Arc<str>>,
}

/// Checks that there is such a volume.
///
/// # Errors
/// A sentence with the names of those that there are.
fn check_volume(store: &Store, name: &str) -> Result<(), String> {
    let volumes = store.volumes();
    if volumes.iter().any(|volume| *volume.name == *name) {
        return Ok(());
    }
    let names: Vec<_> = volumes.iter().map(|volume| &*volume.name).collect();
    Err(match names.is_empty() {
        true => format!("no volume has the name {name}: there is none, so name memory"),
        false => format!("no volume has the name {name}: name memory or {}", names.join(", ")),
    })
}

/// The prefixes of keys that may have these names, none of which is another's; and `wanted` takes no others.
fn narrowed(names: Vec<Name>, wanted: &mut Wanted) -> Vec<(u64, String)> {
    let mut texts: Vec<(u64, String)> =
        names.iter().map(|name| (name.site, name.text().to_owned())).collect();
    texts.sort_unstable();
    texts.dedup_by(|(site, text), (before, begin)| site == before && text.starts_with(begin.as_str()));
    if names.len() > texts.len() || names.iter().any(Name::is_whole) {
        let of_words = wanted.url.take();
        wanted.url = Some(UrlMatch(Arc::new(move |url| {
            names.iter().any(|name| name.has(url)) && of_words.as_ref().is_none_or(|of| (of.0)(url))
        })));
    }
    texts
}

/// Lists what is cached. `each` is called for each object looked at, and may end it.
pub(crate) fn list(shared: &Shared, order: &ListOrder, each: EachDone<'_>) -> Result<CachedPage, String> {
    let running = shared.running.load_full();
    let plan = &running.plan;
    let site = order.site.as_ref().map(|name| purge::site(plan, name)).transpose()?;
    let mut names = order.prefix.as_ref().map(|text| purge::prefix_names(plan, text)).transpose()?;
    let form = match (wanted::sorted(order)?, order.is_sum) {
        (_, true) => Form::Sum,
        (Some(first), false) => Form::First(first),
        (None, false) => Form::Page,
    };
    if form != Form::Page && !order.after.is_empty() {
        let most = weir_store::LISTED_MAX;
        return Err(format!(
            "an order and a sum have one page: raise limit, up to {most}, or narrow the search"
        ));
    }
    let mut wanted = wanted::wanted(order)?;
    if let Some(PlaceOf::Volume(name)) = &wanted.place {
        check_volume(&shared.store, name)?;
    }
    let mut is_by_hand_alone = order.by_hand == Some(true);
    if let (Some(site), Some(names)) = (site, &mut names) {
        // Nothing of another site is looked at: where a page ends is a key.
        names.retain(|name| name.site == site.mark);
        is_by_hand_alone |= names.is_empty();
    }
    let now = clock::now();
    let by_hand = ByHand::find(&shared.content, order, site, wanted.url.as_ref(), now)?;
    if is_by_hand_alone {
        if wanted.place.is_some() {
            let sum = (form != Form::Page).then(Sum::default);
            return Ok(CachedPage { sum, ..CachedPage::default() });
        }
        wanted.place = Some(PlaceOf::Besides);
    }
    let listing = Listing {
        site: site.map(|site| site.mark),
        prefixes: names.map(|names| narrowed(names, &mut wanted)).unwrap_or_default(),
        tag: order.tag.as_ref().map(|tag| tags::tag_hash(tag.trim_ascii().as_bytes())),
        wanted,
        form,
        limit: order.limit,
        after: order.after.clone(),
    };
    let found = shared.store.list(&listing, &mut by_hand.listed(), now, each);
    let found = found.map_err(|error| error.to_string())?;
    let Page { objects, next, sum, walked } = found;
    let named = |listed: Listed| {
        if let Some(shown) = by_hand.shown(&listed, &running) {
            return Cached { site: Some(Arc::clone(&shown.entry.site)), listed, by_hand: Some(shown) };
        }
        let site = plan.sites().iter().find(|site| site.mark == listed.key.site);
        Cached { site: site.map(|site| Arc::clone(&site.name)), listed, by_hand: None }
    };
    Ok(CachedPage { objects: objects.into_iter().map(named).collect(), next, sum, walked })
}
