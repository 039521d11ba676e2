//! The marks in memory: a table for each kind of scope, read without a lock, and the limits of each.
//!
//! Beyond a limit marks become fewer and wider, never weaker: those of URLs, prefixes and tags become marks
//! of their sites, those of sites and of tags in all sites one of everything.

use std::collections::{BTreeSet, HashMap as StdHashMap};
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use arc_swap::ArcSwap;
use papaya::HashMap;
use parking_lot::Mutex;
use weir_policy::{CacheKey, Now, Tags};
use xxhash_rust::xxh3::Xxh3;

use super::record::Record;
use super::scope::{Force, Judged, Mark, Scope, Stamp};
use crate::digest::{DigestMap, Folded, digest_map};

/// The most marks of each kind; about 100 bytes each.
pub const MARKS_MAX: usize = 16_384;
/// The most different lengths of marked prefixes. Each costs a look-up where a stamp is older than a mark.
pub const PREFIX_LENGTHS_MAX: usize = 64;

type HashedMap<V> = HashMap<u64, V, BuildHasherDefault<Folded>>;

/// Where marks may concern something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Anywhere.
    pub(crate) is_all: bool,
    /// In these sites. It includes marks of prefixes and URLs, of which only a hash is known.
    pub(crate) sites: BTreeSet<u64>,
    /// Among what has these tags, or more tags than are kept.
    pub(crate) tags: BTreeSet<u64>,
}

/// The largest marks of one scope.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// The number of the largest hard mark; 0 where there is none.
    hard: u64,
    soft: Option<Soft>,
    /// The site whose mark it becomes where marks are too many; 0 for that of everything.
    site: u64,
    /// The prefix's length in bytes.
    length: u32,
}

/// The largest soft mark of a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Soft {
    number: u64,
    since: Instant,
    /// The same moment by the wall clock, for the file.
    at: SystemTime,
}

impl Entry {
    /// With one more mark.
    fn with(mut self, number: u64, force: Force, now: Now) -> Entry {
        match force {
            Force::Hard => self.hard = self.hard.max(number),
            Force::Soft => self.soft = newer(self.soft, Some(Soft { number, since: now.mono, at: now.wall })),
        }
        self
    }

    /// With all marks of another scope.
    fn joined(mut self, other: &Entry) -> Entry {
        self.hard = self.hard.max(other.hard);
        self.soft = newer(self.soft, other.soft);
        self
    }

    fn newest(&self) -> u64 {
        self.hard.max(self.soft.map_or(0, |soft| soft.number))
    }
}

fn newer(one: Option<Soft>, other: Option<Soft>) -> Option<Soft> {
    one.into_iter().chain(other).max_by_key(|soft| soft.number)
}

/// The name of a tag in a site: the tag's hash below the site's. No two tags of one site share one.
fn tag_name(site: u64, hash: u64) -> u128 {
    u128::from(site) << 64 | u128::from(hash)
}

/// What the marks looked at so far say.
struct Concern {
    stamp: u64,
    is_dead: bool,
    since: Option<Instant>,
}

impl Concern {
    fn add(&mut self, entry: &Entry) {
        self.is_dead |= self.stamp < entry.hard;
        if let Some(soft) = entry.soft.filter(|soft| self.stamp < soft.number) {
            self.since = Some(self.since.map_or(soft.since, |since| since.min(soft.since)));
        }
    }
}

/// The marks and the counter.
#[derive(Debug)]
pub(super) struct Marks {
    current: AtomicU64,
    /// The largest mark of any kind. A stamp that is not smaller needs no look-up.
    newest: AtomicU64,
    /// Grows when marks are joined or dropped, so that a concurrent reader looks again.
    version: AtomicU64,
    all: ArcSwap<Entry>,
    /// The largest marks of any tag of each site, for responses with more tags than are kept; under 0 those
    /// of tags in all sites.
    any_tag: HashedMap<Entry>,
    sites: HashedMap<Entry>,
    /// By [`tag_name`].
    tags: DigestMap<Entry>,
    urls: DigestMap<Entry>,
    prefixes: DigestMap<Entry>,
    /// The lengths of `prefixes`, in order.
    lengths: ArcSwap<Vec<u32>>,
    /// Held while marks are made, joined or dropped.
    making: Mutex<()>,
    marks_max: usize,
}

impl Marks {
    pub(super) fn new(marks_max: usize) -> Marks {
        Marks {
            current: AtomicU64::new(1),
            newest: AtomicU64::new(0),
            version: AtomicU64::new(0),
            all: ArcSwap::default(),
            any_tag: HashMap::with_hasher(BuildHasherDefault::default()),
            sites: HashMap::with_hasher(BuildHasherDefault::default()),
            tags: digest_map(),
            urls: digest_map(),
            prefixes: digest_map(),
            lengths: ArcSwap::default(),
            making: Mutex::new(()),
            marks_max: marks_max.max(1),
        }
    }

    pub(super) fn current(&self) -> Stamp {
        Stamp(self.current.load(Ordering::Acquire))
    }

    pub(super) fn newest(&self) -> Stamp {
        Stamp(self.newest.load(Ordering::Acquire))
    }

    pub(super) fn count(&self) -> usize {
        self.sites.len() + self.tags.len() + self.urls.len() + self.prefixes.len()
    }

    pub(super) fn is_filling_up(&self) -> bool {
        self.most() * 16 >= self.marks_max || self.is_crowded()
    }

    /// The most marks of one kind.
    fn most(&self) -> usize {
        self.sites.len().max(self.tags.len()).max(self.urls.len()).max(self.prefixes.len())
    }

    pub(super) fn is_crowded(&self) -> bool {
        self.most() * 2 >= self.marks_max || self.lengths.load().len() * 2 >= PREFIX_LENGTHS_MAX
    }

    /// Where to look for what the marks newer than `since` concern.
    pub(super) fn reach(&self, since: Stamp) -> Reach {
        let _making = self.making.lock();
        let is_new = |entry: &Entry| entry.newest() > since.0;
        let mut reach = Reach { is_all: is_new(&self.all.load()), ..Reach::default() };
        reach.sites.extend(self.sites.pin().iter().filter(|(_, entry)| is_new(entry)).map(|(site, _)| *site));
        for table in [&self.urls, &self.prefixes] {
            reach.sites.extend(table.pin().values().filter(|entry| is_new(entry)).map(|entry| entry.site));
        }
        let tags = self.tags.pin();
        reach.tags.extend(tags.iter().filter(|(_, entry)| is_new(entry)).map(|(name, _)| *name as u64));
        // A mark without a site may concern any.
        reach.is_all |= reach.sites.contains(&0);
        reach
    }

    /// Makes marks and numbers them. `enter` is called for each, in the order of their numbers.
    pub(super) fn make(&self, wanted: &[Mark], now: Now, mut enter: impl FnMut(Record)) -> Stamp {
        let _making = self.making.lock();
        let mut number = self.current.load(Ordering::Acquire);
        for mark in wanted {
            number += 1;
            self.apply(*mark, number, now);
            enter(Record { number, mark: *mark, at: now.wall });
        }
        if !wanted.is_empty() {
            self.newest.store(number, Ordering::Release);
            self.current.store(number, Ordering::Release);
        }
        Stamp(number)
    }

    /// Restores a mark that was made before. [`Marks::resume`] sets the counter.
    pub(super) fn restore(&self, record: &Record, now: Now) {
        let _making = self.making.lock();
        let ago = now.wall.duration_since(record.at).unwrap_or_default();
        let mono = now.mono.checked_sub(ago).unwrap_or(now.mono);
        self.apply(record.mark, record.number, Now { mono, wall: record.at });
        self.newest.fetch_max(record.number, Ordering::AcqRel);
    }

    /// Lets the counter go on from this number.
    pub(super) fn resume(&self, number: u64) {
        self.current.fetch_max(number, Ordering::AcqRel);
    }

    /// Lets the counter go on from this number at least. True if it was smaller.
    pub(super) fn raise(&self, number: u64) -> bool {
        let _making = self.making.lock();
        self.current.fetch_max(number, Ordering::AcqRel) < number
    }

    /// Takes a further number that is no mark's. It is not written: after a crash the numbers begin far
    /// beyond.
    pub(super) fn step(&self) -> Stamp {
        let _making = self.making.lock();
        Stamp(self.current.fetch_add(1, Ordering::AcqRel) + 1)
    }

    fn apply(&self, mark: Mark, number: u64, now: Now) {
        let Mark { scope, force } = mark;
        match scope {
            Scope::All => self.all.store(Arc::new(self.all.load().with(number, force, now))),
            Scope::Site(site) => self.apply_to_site(site, &Entry::default().with(number, force, now)),
            Scope::Tag { site, hash } => {
                let any = self.any_tag.pin();
                let entry = any.get(&site).copied().unwrap_or_default();
                any.insert(site, entry.with(number, force, now));
                let name = tag_name(site, hash);
                self.make_room(&self.tags, name);
                let tags = self.tags.pin();
                let entry = tags.get(&name).copied().unwrap_or_default();
                tags.insert(name, Entry { site, ..entry }.with(number, force, now));
            }
            Scope::Url { site, digest } => {
                self.make_room(&self.urls, digest);
                let urls = self.urls.pin();
                let entry = urls.get(&digest).copied().unwrap_or_default();
                urls.insert(digest, Entry { site, ..entry }.with(number, force, now));
            }
            Scope::Prefix { site, digest, length } => {
                if !self.note_length(length) {
                    return self.apply_to_site(site, &Entry::default().with(number, force, now));
                }
                self.make_room(&self.prefixes, digest);
                let prefixes = self.prefixes.pin();
                let entry = prefixes.get(&digest).copied().unwrap_or_default();
                prefixes.insert(digest, Entry { site, length, ..entry }.with(number, force, now));
            }
        }
    }

    /// Adds marks to those of a site, or to those of everything where the site is 0.
    fn apply_to_site(&self, site: u64, marks: &Entry) {
        if site == 0 {
            return self.all.store(Arc::new(self.all.load().joined(marks)));
        }
        let sites = self.sites.pin();
        let entry = sites.get(&site).copied();
        if entry.is_none() && sites.len() >= self.marks_max {
            self.join_all(sites.values());
            sites.clear();
        }
        sites.insert(site, entry.unwrap_or_default().joined(marks));
    }

    /// Joins marks to those of everything. The caller removes them afterwards.
    fn join_all<'a>(&self, entries: impl Iterator<Item = &'a Entry>) {
        let joined = entries.fold(**self.all.load(), |joined, entry| joined.joined(entry));
        self.all.store(Arc::new(joined));
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// Where a table is full, all marks of the site with the most become that site's mark.
    fn make_room(&self, table: &DigestMap<Entry>, wanted: u128) {
        let table = table.pin();
        if table.len() < self.marks_max || table.contains_key(&wanted) {
            return;
        }
        let mut counts: StdHashMap<u64, usize> = StdHashMap::new();
        for entry in table.values() {
            *counts.entry(entry.site).or_default() += 1;
        }
        let Some((busiest, _)) = counts.into_iter().max_by_key(|(_, count)| *count) else { return };
        let of_site = table.values().filter(|entry| entry.site == busiest);
        let joined = of_site.fold(Entry::default(), |joined, entry| joined.joined(entry));
        self.apply_to_site(busiest, &joined);
        self.version.fetch_add(1, Ordering::SeqCst);
        table.retain(|_, entry| entry.site != busiest);
    }

    /// Notes a length of marked prefixes. False where there are too many lengths.
    fn note_length(&self, length: u32) -> bool {
        let mut lengths = Vec::clone(&self.lengths.load());
        let Err(place) = lengths.binary_search(&length) else { return true };
        if lengths.len() >= PREFIX_LENGTHS_MAX {
            return false;
        }
        lengths.insert(place, length);
        self.lengths.store(Arc::new(lengths));
        true
    }

    pub(super) fn judge(&self, key: &CacheKey, tags: &Tags, stamp: Stamp) -> Judged {
        loop {
            let version = self.version.load(Ordering::SeqCst);
            let mut concern = Concern { stamp: stamp.0, is_dead: false, since: None };
            self.look(key, tags, &mut concern);
            if self.version.load(Ordering::SeqCst) != version {
                continue;
            }
            return match (concern.is_dead, concern.since) {
                (true, _) => Judged::Dead,
                (false, Some(since)) => Judged::Stale(since),
                (false, None) => Judged::Alive,
            };
        }
    }

    fn look(&self, key: &CacheKey, tags: &Tags, concern: &mut Concern) {
        concern.add(&self.all.load());
        if let Some(entry) = self.sites.pin().get(&key.site) {
            concern.add(entry);
        }
        if !self.urls.is_empty()
            && let Some(entry) = self.urls.pin().get(&key.url_digest())
        {
            concern.add(entry);
        }
        if !self.tags.is_empty() || !tags.is_complete() {
            self.look_by_tag(key.site, tags, concern);
        }
        let lengths = self.lengths.load();
        if !lengths.is_empty() {
            let (url, marked) = (key.url(), self.prefixes.pin());
            let mut hasher = Xxh3::new();
            let mut from = 0;
            for length in lengths.iter().map(|length| *length as usize).take_while(|end| *end <= url.len()) {
                hasher.update(&url[from..length]);
                from = length;
                if let Some(entry) = marked.get(&hasher.digest128()) {
                    concern.add(entry);
                }
            }
        }
    }

    fn look_by_tag(&self, site: u64, tags: &Tags, concern: &mut Concern) {
        let (any, marked) = (self.any_tag.pin(), self.tags.pin());
        for site in [0, site] {
            if !tags.is_complete() {
                any.get(&site).into_iter().for_each(|entry| concern.add(entry));
            }
            let of_site = tags.hashes().iter().filter_map(|tag| marked.get(&tag_name(site, *tag)));
            of_site.for_each(|entry| concern.add(entry));
        }
    }

    /// Drops the marks up to a number, which becomes a mark of everything.
    pub(super) fn retire(&self, until: Stamp) {
        let _making = self.making.lock();
        let all = **self.all.load();
        self.all.store(Arc::new(Entry { hard: all.hard.max(until.0), ..all }));
        self.version.fetch_add(1, Ordering::SeqCst);
        self.sites.pin().retain(|_, entry| entry.newest() > until.0);
        self.any_tag.pin().retain(|_, entry| entry.newest() > until.0);
        self.tags.pin().retain(|_, entry| entry.newest() > until.0);
        self.urls.pin().retain(|_, entry| entry.newest() > until.0);
        self.prefixes.pin().retain(|_, entry| entry.newest() > until.0);
        let mut lengths: Vec<u32> = self.prefixes.pin().values().map(|entry| entry.length).collect();
        lengths.sort_unstable();
        lengths.dedup();
        self.lengths.store(Arc::new(lengths));
    }

    /// The counter, and all marks as records in the order of their numbers.
    pub(super) fn snapshot(&self) -> (u64, Vec<Record>) {
        let _making = self.making.lock();
        let mut records = Vec::with_capacity(self.count() + 2);
        let mut add = |scope: Scope, entry: &Entry| {
            if entry.hard > 0 {
                records.push(Record {
                    number: entry.hard,
                    mark: Mark::hard(scope),
                    at: SystemTime::UNIX_EPOCH,
                });
            }
            if let Some(soft) = entry.soft {
                records.push(Record { number: soft.number, mark: Mark::soft(scope), at: soft.at });
            }
        };
        add(Scope::All, &self.all.load());
        self.sites.pin().iter().for_each(|(site, entry)| add(Scope::Site(*site), entry));
        for (name, entry) in &self.tags.pin() {
            add(Scope::Tag { site: entry.site, hash: *name as u64 }, entry);
        }
        for (digest, entry) in &self.urls.pin() {
            add(Scope::Url { site: entry.site, digest: *digest }, entry);
        }
        for (digest, entry) in &self.prefixes.pin() {
            add(Scope::Prefix { site: entry.site, digest: *digest, length: entry.length }, entry);
        }
        records.sort_by_key(|record| record.number);
        (self.current().0, records)
    }
}

#[cfg(test)]
mod tests;
