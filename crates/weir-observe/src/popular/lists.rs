//! What is listed: the sketches of one slice of time, by what they list and by what they weigh. It must not
//! know how long a slice is.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use weir_share::Client;

use super::sketch::{Added, Sketch};
use crate::record::{Facts, Outcome, Storing};
use crate::site::SiteId;

/// Rows that a slice keeps of URLs in each order: seven eighths of a power of two fill a table.
const URLS_KEPT: usize = 448;
/// Rows that a slice keeps of anything else in each order.
const OTHERS_KEPT: usize = 112;
/// Bytes of a URL that are kept; what is cut off still tells it from others.
const URL_BYTES_MAX: usize = 200;

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopBy {
    /// URLs.
    Url,
    /// Clients: an IPv4 address, or an IPv6 network of 64 bits.
    Client,
    /// Sites.
    Site,
    /// Origins that answered.
    Origin,
}

impl TopBy {
    /// All, in the order of keys.
    pub const ALL: [TopBy; 4] = [TopBy::Url, TopBy::Client, TopBy::Site, TopBy::Origin];

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            TopBy::Url => "url",
            TopBy::Client => "client",
            TopBy::Site => "site",
            TopBy::Origin => "origin",
        }
    }
}

/// What a list is ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopOrder {
    /// Requests.
    Asked,
    /// Requests with the outcome miss.
    Missed,
    /// Bytes of bodies that were sent.
    Bytes,
    /// Requests whose response was fetched and not stored, by reason.
    NotStored,
}

impl TopOrder {
    /// All, in the order of keys.
    pub const ALL: [TopOrder; 4] = [TopOrder::Asked, TopOrder::Missed, TopOrder::Bytes, TopOrder::NotStored];

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            TopOrder::Asked => "asked",
            TopOrder::Missed => "missed",
            TopOrder::Bytes => "bytes",
            TopOrder::NotStored => "not-stored",
        }
    }
}

/// The texts of a request that is looked at more closely.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Its URL, where it is known.
    pub url: Option<String>,
    /// The client: an IPv4 address, or the first address of an IPv6 network of 64 bits.
    pub client: Option<Client>,
    /// The origin that was asked.
    pub origin: Option<Arc<str>>,
}

/// A request that stands for `weight` requests.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) weight: u64,
    pub(super) facts: Facts,
    pub(super) seen: Seen,
    /// Of the whole URL.
    url_hash: u64,
}

impl Sample {
    pub(super) fn new(weight: u64, facts: &Facts, mut seen: Seen, hashed: &RandomState) -> Sample {
        let url_hash = seen.url.as_ref().map_or(0, |url| hashed.hash_one(url));
        if let Some(url) = seen.url.as_mut().filter(|url| url.len() > URL_BYTES_MAX) {
            url.truncate(url.floor_char_boundary(URL_BYTES_MAX));
            url.push('…');
            url.shrink_to_fit();
        }
        Sample { weight, facts: *facts, seen, url_hash }
    }
}

/// An item of a list.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Its site; none in a list over all sites.
    pub(super) site: SiteId,
    pub(super) what: What,
    /// Why it was not stored; empty in other orders.
    pub(super) why: &'static str,
}

/// What an item is.
#[derive(Clone, Debug)]
pub(super) enum What {
    Url(Arc<str>),
    Client(Client),
    Site,
    Origin(Arc<str>),
}

/// What a list has rows of. Clients and origins have two: over all sites, and for each site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Url,
    Client,
    ClientOfSite,
    Site,
    Origin,
    OriginOfSite,
}

impl Kind {
    const ALL: [Kind; 6] =
        [Kind::Url, Kind::Client, Kind::ClientOfSite, Kind::Site, Kind::Origin, Kind::OriginOfSite];

    /// The list that is asked, for all sites or for some.
    pub(super) fn of(by: TopBy, is_of_sites: bool) -> Kind {
        match (by, is_of_sites) {
            (TopBy::Url, _) => Kind::Url,
            (TopBy::Client, false) => Kind::Client,
            (TopBy::Client, true) => Kind::ClientOfSite,
            (TopBy::Site, _) => Kind::Site,
            (TopBy::Origin, false) => Kind::Origin,
            (TopBy::Origin, true) => Kind::OriginOfSite,
        }
    }

    /// How many rows a slice keeps.
    pub(super) fn kept(self) -> usize {
        if self == Kind::Url { URLS_KEPT } else { OTHERS_KEPT }
    }

    /// The key and the item of a sample, where it has one.
    fn item(self, sample: &Sample, why: &'static str, hashed: &RandomState) -> Option<(u64, Item)> {
        let site = match self {
            Kind::Client | Kind::Origin => SiteId::NONE,
            _ => sample.facts.site,
        };
        let (own, what) = match self {
            Kind::Url => (sample.url_hash, What::Url(sample.seen.url.as_deref()?.into())),
            Kind::Site => (0, What::Site),
            Kind::Client | Kind::ClientOfSite => {
                let client = sample.seen.client?;
                (hashed.hash_one(client), What::Client(client))
            }
            Kind::Origin | Kind::OriginOfSite => {
                let origin = sample.seen.origin.clone()?;
                (hashed.hash_one(&origin), What::Origin(origin))
            }
        };
        Some((hashed.hash_one((own, site, why)), Item { site, what, why }))
    }
}

/// The sketches of one slice of time.
#[derive(Debug)]
pub(super) struct Lists {
    /// By kind, then by order.
    all: [[Sketch<Item>; 4]; 6],
}

impl Lists {
    pub(super) fn new() -> Lists {
        let of = |kind: Kind| [(); 4].map(|()| Sketch::new(kind.kept()));
        Lists { all: Kind::ALL.map(of) }
    }

    pub(super) fn list(&self, kind: Kind, order: TopOrder) -> &Sketch<Item> {
        &self.all[kind as usize][order as usize]
    }

    pub(super) fn add(&mut self, sample: &Sample, hashed: &RandomState) {
        for kind in Kind::ALL {
            let lists = &mut self.all[kind as usize];
            let Some((key, item)) = kind.item(sample, "", hashed) else { continue };
            let mut add = |order: TopOrder, key: u64, item: &Item, amount: u64| {
                lists[order as usize].add(key, || item.clone(), sample.added(amount));
            };
            add(TopOrder::Asked, key, &item, 1);
            if sample.facts.outcome == Outcome::Miss {
                add(TopOrder::Missed, key, &item, 1);
            }
            if sample.facts.body_bytes > 0 {
                add(TopOrder::Bytes, key, &item, sample.facts.body_bytes);
            }
            if let Storing::NotStored(why) = sample.facts.storing
                && let Some((key, item)) = kind.item(sample, why, hashed)
            {
                add(TopOrder::NotStored, key, &item, 1);
            }
        }
    }

    /// Adds all of another slice.
    pub(super) fn merge(&mut self, other: &Lists) {
        let others = other.all.iter().flatten();
        self.all.iter_mut().flatten().zip(others).for_each(|(own, other)| own.merge(other));
    }

    /// Gives back what room is no longer needed.
    pub(super) fn settle(&mut self) {
        self.all.iter_mut().flatten().for_each(Sketch::settle);
    }

    /// Bytes that these lists may have at most, once they are settled.
    #[cfg(test)]
    pub(super) fn bytes_max() -> usize {
        let rows: usize = Kind::ALL.iter().map(|kind| (kind.kept() * 8).div_ceil(7)).sum();
        // A row with its key and a byte of the table; a text with its two counts and the allocation.
        let row = size_of::<(u64, super::sketch::Row<Item>)>() + 1;
        4 * (rows * row + URLS_KEPT * (URL_BYTES_MAX + 3 + 16 + 16))
    }

    /// Bytes that these lists have now.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let row = size_of::<(u64, super::sketch::Row<Item>)>() + 1;
        let text = |item: &Item| match &item.what {
            What::Url(text) => text.len() + 32,
            _ => 0,
        };
        let of = |sketch: &Sketch<Item>| {
            let texts: usize = sketch.rows().map(|(_, row)| text(&row.item)).sum();
            texts + row * (sketch.capacity() * 8).div_ceil(7)
        };
        self.all.iter().flatten().map(of).sum()
    }
}

impl Sample {
    /// What a request with so much adds: it was chosen with a probability of 1/weight (Horvitz and Thompson,
    /// 1952).
    fn added(&self, amount: u64) -> Added {
        let (weight, each) = (self.weight as f64, amount as f64);
        Added { weight: amount.saturating_mul(self.weight), variance: weight * (weight - 1.0) * each * each }
    }
}
