//! What is noted of scopes, found by what concerns a generation: a table for each kind of scope, read without
//! a lock. It knows no limit, and not what is noted.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use arc_swap::ArcSwap;
use papaya::HashMap;
use weir_policy::{CacheKey, Tags};
use xxhash_rust::xxh3::Xxh3;

use super::marks::Reach;
use super::scope::{Scope, Stamp};
use crate::digest::{DigestMap, Folded, digest_map};

pub(super) type HashedMap<V> = HashMap<u64, V, BuildHasherDefault<Folded>>;

/// What is noted of one scope.
pub(super) trait Noted: Copy + Default {
    /// The largest mark of it.
    fn newest(&self) -> u64;
}

/// What is noted of one scope of many, and where it belongs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Entry<T> {
    pub(super) noted: T,
    /// The site that it is in; 0 for none.
    pub(super) site: u64,
    /// The prefix's length in bytes.
    length: u32,
}

/// The tables.
#[derive(Debug)]
pub(super) struct Tables<T> {
    pub(super) all: ArcSwap<T>,
    /// What is noted of any tag of each site, for responses with more tags than are kept; under 0 of tags in
    /// all sites.
    pub(super) any_tag: HashedMap<T>,
    pub(super) sites: HashedMap<T>,
    /// By [`tag_name`].
    pub(super) tags: DigestMap<Entry<T>>,
    pub(super) urls: DigestMap<Entry<T>>,
    /// By [`prefix_name`].
    pub(super) prefixes: DigestMap<Entry<T>>,
    /// The lengths of the `prefixes` of each site, in order: what one site marks costs others no look-up.
    pub(super) lengths: HashedMap<Vec<u32>>,
}

/// The name of a tag in a site: the tag's hash below the site's. No two tags of one site share one.
pub(super) fn tag_name(site: u64, hash: u64) -> u128 {
    u128::from(site) << 64 | u128::from(hash)
}

/// The name of a prefix in a site, from which the site makes its digest again.
pub(super) fn prefix_name(site: u64, digest: u128) -> u128 {
    digest ^ u128::from(site)
}

impl<T: Noted> Tables<T> {
    pub(super) fn new() -> Tables<T> {
        Tables {
            all: ArcSwap::from_pointee(T::default()),
            any_tag: HashMap::with_hasher(BuildHasherDefault::default()),
            sites: HashMap::with_hasher(BuildHasherDefault::default()),
            tags: digest_map(),
            urls: digest_map(),
            prefixes: digest_map(),
            lengths: HashMap::with_hasher(BuildHasherDefault::default()),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.sites.len() + self.tags.len() + self.urls.len() + self.prefixes.len()
    }

    /// The most of one kind.
    pub(super) fn most(&self) -> usize {
        self.sites.len().max(self.tags.len()).max(self.urls.len()).max(self.prefixes.len())
    }

    /// The most lengths of prefixes of one site.
    pub(super) fn most_lengths(&self) -> usize {
        self.lengths.pin().values().map(Vec::len).max().unwrap_or(0)
    }

    /// Adds where to look for what is noted by marks newer than `since`.
    pub(super) fn reach(&self, since: Stamp, reach: &mut Reach) {
        let is_new = |noted: &T| noted.newest() > since.0;
        reach.is_all |= is_new(&self.all.load());
        reach.sites.extend(self.sites.pin().iter().filter(|(_, noted)| is_new(noted)).map(|(site, _)| *site));
        for table in [&self.urls, &self.prefixes] {
            let table = table.pin();
            reach.sites.extend(table.values().filter(|entry| is_new(&entry.noted)).map(|entry| entry.site));
        }
        let tags = self.tags.pin();
        reach
            .tags
            .extend(tags.iter().filter(|(_, entry)| is_new(&entry.noted)).map(|(name, _)| *name as u64));
    }

    /// Changes what is noted of everything.
    pub(super) fn change_all(&self, change: impl FnOnce(T) -> T) {
        self.all.store(Arc::new(change(**self.all.load())));
    }

    /// Changes what is noted of a scope. Lengths of prefixes are noted before ([`Tables::note_length`]).
    pub(super) fn change(&self, scope: Scope, change: impl FnOnce(T) -> T) {
        match scope {
            Scope::All => self.change_all(change),
            Scope::Site(site) => {
                let sites = self.sites.pin();
                sites.insert(site, change(sites.get(&site).copied().unwrap_or_default()));
            }
            Scope::Tag { site, hash } => change_in(&self.tags, tag_name(site, hash), (site, 0), change),
            Scope::Url { site, digest } => change_in(&self.urls, digest, (site, 0), change),
            Scope::Prefix { site, digest, length } => {
                change_in(&self.prefixes, prefix_name(site, digest), (site, length), change);
            }
        }
    }

    /// Notes a length of marked prefixes of a site. False where it has `most` lengths already.
    pub(super) fn note_length(&self, site: u64, length: u32, most: usize) -> bool {
        let of_sites = self.lengths.pin();
        let mut lengths = of_sites.get(&site).cloned().unwrap_or_default();
        let Err(place) = lengths.binary_search(&length) else { return true };
        if lengths.len() >= most {
            return false;
        }
        lengths.insert(place, length);
        of_sites.insert(site, lengths);
        true
    }

    /// Hands to `add` all that concerns a response with this key and these tags, with the site that it is in;
    /// 0 where that is of no account.
    pub(super) fn look(&self, key: &CacheKey, tags: &Tags, add: &mut impl FnMut(u64, &T)) {
        add(0, &self.all.load());
        if let Some(noted) = self.sites.pin().get(&key.site) {
            add(0, noted);
        }
        if !self.urls.is_empty()
            && let Some(entry) = self.urls.pin().get(&key.url_digest())
        {
            add(entry.site, &entry.noted);
        }
        if !self.tags.is_empty() || !tags.is_complete() {
            self.look_by_tag(key.site, tags, add);
        }
        if !self.prefixes.is_empty() {
            self.look_by_prefix(key, add);
        }
    }

    fn look_by_prefix(&self, key: &CacheKey, add: &mut impl FnMut(u64, &T)) {
        let (url, of_sites, marked) = (key.url(), self.lengths.pin(), self.prefixes.pin());
        for site in [0, key.site] {
            let Some(lengths) = of_sites.get(&site) else { continue };
            let mut hasher = Xxh3::new();
            let mut from = 0;
            for length in lengths.iter().map(|length| *length as usize).take_while(|end| *end <= url.len()) {
                hasher.update(&url[from..length]);
                from = length;
                if let Some(entry) = marked.get(&prefix_name(site, hasher.digest128())) {
                    add(site, &entry.noted);
                }
            }
        }
    }

    fn look_by_tag(&self, site: u64, tags: &Tags, add: &mut impl FnMut(u64, &T)) {
        let (any, marked) = (self.any_tag.pin(), self.tags.pin());
        for site in [0, site] {
            if !tags.is_complete() {
                any.get(&site).into_iter().for_each(|noted| add(site, noted));
            }
            let of_site = tags.hashes().iter().filter_map(|tag| marked.get(&tag_name(site, *tag)));
            of_site.for_each(|entry| add(site, &entry.noted));
        }
    }

    /// Forgets what marks up to a number have noted, but for what is noted of everything.
    pub(super) fn retire(&self, until: Stamp) {
        let is_new = |noted: &T| noted.newest() > until.0;
        self.sites.pin().retain(|_, noted| is_new(noted));
        self.any_tag.pin().retain(|_, noted| is_new(noted));
        self.tags.pin().retain(|_, entry| is_new(&entry.noted));
        self.urls.pin().retain(|_, entry| is_new(&entry.noted));
        self.prefixes.pin().retain(|_, entry| is_new(&entry.noted));
        self.settle_lengths();
    }

    /// Forgets the lengths that no prefix has any more.
    pub(super) fn settle_lengths(&self) {
        let mut kept: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
        for entry in self.prefixes.pin().values() {
            kept.entry(entry.site).or_default().insert(entry.length);
        }
        let of_sites = self.lengths.pin();
        of_sites.retain(|site, _| kept.contains_key(site));
        for (site, lengths) in kept {
            of_sites.insert(site, lengths.into_iter().collect());
        }
    }

    /// Hands all to `each`, in no order.
    pub(super) fn each(&self, mut each: impl FnMut(Scope, &T)) {
        each(Scope::All, &self.all.load());
        self.sites.pin().iter().for_each(|(site, noted)| each(Scope::Site(*site), noted));
        for (name, entry) in &self.tags.pin() {
            each(Scope::Tag { site: entry.site, hash: *name as u64 }, &entry.noted);
        }
        for (digest, entry) in &self.urls.pin() {
            each(Scope::Url { site: entry.site, digest: *digest }, &entry.noted);
        }
        for (name, entry) in &self.prefixes.pin() {
            let (site, digest) = (entry.site, prefix_name(entry.site, *name));
            let scope = Scope::Prefix { site, digest, length: entry.length };
            each(scope, &entry.noted);
        }
    }
}

fn change_in<T: Noted>(
    table: &DigestMap<Entry<T>>,
    name: u128,
    (site, length): (u64, u32),
    change: impl FnOnce(T) -> T,
) {
    let table = table.pin();
    let noted = table.get(&name).map(|entry| entry.noted).unwrap_or_default();
    table.insert(name, Entry { noted: change(noted), site, length });
}
