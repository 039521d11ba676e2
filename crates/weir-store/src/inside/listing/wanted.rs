//! What is to be listed: which site, prefix and tag, and what else must hold of an object. Pure.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use weir_policy::{CacheKey, Tags};

use super::listed::{Form, Listed};
use crate::catalogue::{Search, schema};

/// The most objects of a page, or of an order.
pub const LISTED_MAX: usize = 10_000;

/// What to list.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Only of this site, by its hash.
    pub site: Option<u64>,
    /// Only keys that begin with one of these, each with its site. Empty: all keys.
    pub prefixes: Vec<(u64, String)>,
    /// Only what has this tag, by its hash.
    pub tag: Option<u64>,
    /// What else must hold.
    pub wanted: Wanted,
    /// In which form it is wanted.
    pub form: Form,
    /// The most objects; between 1 and [`LISTED_MAX`].
    pub limit: usize,
    /// The `next` of the page before; empty for the first page. Only for pages.
    pub after: Vec<u8>,
}

impl Listing {
    /// Whether key and tags are wanted.
    pub(super) fn wants(&self, key: &CacheKey, tags: &Tags) -> bool {
        let url = key.url();
        let of_prefix = |(site, text): &(u64, String)| *site == key.site && url.starts_with(text.as_bytes());
        self.site.is_none_or(|site| site == key.site)
            && (self.prefixes.is_empty() || self.prefixes.iter().any(of_prefix))
            && self.tag.is_none_or(|tag| tags.hashes().binary_search(&tag).is_ok())
    }

    /// The searches for the rows that may be wanted, in order.
    pub(super) fn searches(&self) -> Vec<Search> {
        let mut keys: Vec<Vec<u8>> = match (self.tag, self.site) {
            (Some(tag), _) => return vec![Search::Tag(tag)],
            (None, _) if !self.prefixes.is_empty() => {
                self.prefixes.iter().map(|(site, text)| schema::of_site(*site, text.as_bytes())).collect()
            }
            (None, Some(site)) => vec![schema::of_site(site, b"")],
            (None, None) => vec![schema::KEYS.to_vec()],
        };
        keys.sort_unstable();
        keys.dedup();
        keys.into_iter().map(Search::Keys).collect()
    }
}

/// Conditions; those that are set must all hold.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Only these statuses; empty: all.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// Only these media types; empty: all.
    pub media_types: Vec<MediaRange>,
    /// Only so many bytes held.
    pub held_bytes: Option<RangeInclusive<u64>>,
    /// Only of that age.
    pub age: Option<RangeInclusive<Duration>>,
    /// Only what is fresh, stale, or about to expire.
    pub freshness: Option<Freshness>,
    /// Only parts, or only wholes.
    pub extent: Option<Extent>,
    /// Only what lies there.
    pub place: Option<PlaceOf>,
    /// Only URLs that this takes.
    pub url: Option<UrlMatch>,
}

/// A media type, or all of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaRange {
    /// `text/html`.
    One(String),
    /// `image/*`: what begins with `image/`.
    Of(String),
}

/// A condition on freshness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// It is fresh.
    Fresh,
    /// It is stale.
    Stale,
    /// It is fresh, and is not once so much time has passed.
    ExpiresWithin(Duration),
}

/// How much of a body is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Some bytes are missing.
    Part,
    /// All of it is there.
    Whole,
}

/// Where an object lies. It may lie in both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaceOf {
    /// In memory.
    Memory,
    /// On the volume of that name.
    Volume(String),
    /// Not in the store: what is listed besides.
    Besides,
}

/// A judge of URLs. It is asked for each object, and must take time in proportion to the URL.
#[derive(Clone)]
pub struct UrlMatch(pub Arc<dyn Fn(&[u8]) -> bool + Send + Sync>);

impl fmt::Debug for UrlMatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("UrlMatch")
    }
}

impl MediaRange {
    fn takes(&self, media_type: Option<&str>) -> bool {
        match self {
            MediaRange::One(own) => media_type == Some(own),
            MediaRange::Of(begin) => media_type.is_some_and(|named| named.starts_with(begin.as_str())),
        }
    }
}

impl Freshness {
    fn takes(self, object: &Listed) -> bool {
        match self {
            Freshness::Fresh => object.is_fresh,
            Freshness::Stale => !object.is_fresh,
            Freshness::ExpiresWithin(time) => {
                object.is_fresh && object.lifetime.saturating_sub(object.age) <= time
            }
        }
    }
}

impl Wanted {
    /// Whether an object is wanted. Numbers are compared first.
    pub(super) fn takes(&self, object: &Listed) -> bool {
        self.takes_by_all_but_url(object) && self.url.as_ref().is_none_or(|url| (url.0)(object.key.url()))
    }

    /// The same, for an object whose URL is wanted.
    pub(super) fn takes_by_all_but_url(&self, object: &Listed) -> bool {
        let has_status = |range: &RangeInclusive<u16>| range.contains(&object.status);
        (self.statuses.is_empty() || self.statuses.iter().any(has_status))
            && self.held_bytes.as_ref().is_none_or(|range| range.contains(&object.held_bytes))
            && self.age.as_ref().is_none_or(|range| range.contains(&object.age))
            && self.freshness.is_none_or(|freshness| freshness.takes(object))
            && self.extent.is_none_or(|extent| (extent == Extent::Part) == object.is_part())
            && self.place.as_ref().is_none_or(|place| place.has(object))
            && self.has_media_type(object)
    }

    fn has_media_type(&self, object: &Listed) -> bool {
        let named = object.media_type.as_deref();
        self.media_types.is_empty() || self.media_types.iter().any(|range| range.takes(named))
    }

    /// Whether something on that volume may be wanted.
    pub(super) fn may_be_on(&self, volume: &str) -> bool {
        self.place.as_ref().is_none_or(|place| match place {
            PlaceOf::Memory => true,
            PlaceOf::Volume(own) => own == volume,
            PlaceOf::Besides => false,
        })
    }

    /// Whether something in memory may be wanted.
    pub(super) fn may_be_in_memory(&self) -> bool {
        matches!(self.place, None | Some(PlaceOf::Memory))
    }
}

impl PlaceOf {
    fn has(&self, object: &Listed) -> bool {
        match self {
            PlaceOf::Memory => object.is_in_memory,
            PlaceOf::Volume(own) => object.volume.as_deref() == Some(own),
            PlaceOf::Besides => object.besides.is_some(),
        }
    }
}
