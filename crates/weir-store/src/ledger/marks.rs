//! The marks in memory, their limits, and what they say of a response.
//!
//! Beyond a limit marks of purges become fewer and wider, never weaker: those of URLs, prefixes and tags
//! become marks of their sites, those of sites and of tags in all sites one of everything. A site pays for
//! what it marks itself: as long as it has no more than its part of a table, no purge of another site makes
//! its marks wider. Retentions of lifetimes are refused there ([`super::retentions`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use parking_lot::Mutex;
use weir_policy::{CacheKey, Now, Tags};

use super::record::Record;
use super::retentions::{Retentions, TooMany};
use super::scope::{Change, Force, Judged, Made, Mark, Scope, Stamp};
use super::tables::{Entry, Noted, Tables, prefix_name, tag_name};
use crate::digest::DigestMap;

/// The most marks of each kind; about 100 bytes each.
pub const MARKS_MAX: usize = 16_384;
/// The most different lengths of marked prefixes of one site. Each costs what that site holds a look-up where
/// a stamp is older than a mark.
pub const PREFIX_LENGTHS_MAX: usize = 64;
/// One site has one of so many parts of the room for marks of each kind, whatever others mark. Retentions get
/// no more than that; purges may use more while there is room.
pub(super) const PARTS: usize = 4;

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

/// The largest purges of one scope.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Purges {
    /// The number of the largest hard mark; 0 where there is none.
    hard: u64,
    soft: Option<Soft>,
}

/// The largest soft mark of a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Soft {
    number: u64,
    since: Instant,
    /// The same moment by the wall clock, for the file.
    at: SystemTime,
}

impl Purges {
    /// One mark.
    fn of(number: u64, force: Force, now: Now) -> Purges {
        match force {
            Force::Hard => Purges { hard: number, soft: None },
            Force::Soft => Purges { hard: 0, soft: Some(Soft { number, since: now.mono, at: now.wall }) },
            Force::Lifetime(_) => Purges::default(),
        }
    }

    /// With all marks of another scope.
    fn joined(mut self, other: &Purges) -> Purges {
        self.hard = self.hard.max(other.hard);
        self.soft = self.soft.into_iter().chain(other.soft).max_by_key(|soft| soft.number);
        self
    }
}

impl Noted for Purges {
    fn newest(&self) -> u64 {
        self.hard.max(self.soft.map_or(0, |soft| soft.number))
    }
}

/// What the purges looked at so far say.
struct Concern {
    stamp: u64,
    /// The number of the retention that concerns it; 0 for none.
    retention: u64,
    is_dead: bool,
    before: Option<Instant>,
    after: Option<Instant>,
}

impl Concern {
    fn add(&mut self, purges: &Purges) {
        self.is_dead |= self.stamp < purges.hard;
        if let Some(soft) = purges.soft.filter(|soft| self.stamp < soft.number) {
            let since = if soft.number < self.retention { &mut self.before } else { &mut self.after };
            *since = Some(since.map_or(soft.since, |since| since.min(soft.since)));
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
    purges: Tables<Purges>,
    retentions: Retentions,
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
            purges: Tables::new(),
            retentions: Retentions::new(marks_max),
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
        self.purges.count() + self.retentions.count()
    }

    pub(super) fn is_filling_up(&self) -> bool {
        self.purges.most() * 16 >= self.marks_max || self.retentions.is_filling_up() || self.is_crowded()
    }

    /// Whether purges are about to become wider. Retentions never do.
    pub(super) fn is_crowded(&self) -> bool {
        self.purges.most() * 2 >= self.marks_max || self.purges.most_lengths() * 2 >= PREFIX_LENGTHS_MAX
    }

    /// Whether there is room for the retentions among these marks.
    pub(super) fn check_room(&self, wanted: &[Mark]) -> Result<(), TooMany> {
        self.retentions.check_room(wanted)
    }

    /// Where to look for what the marks newer than `since` concern.
    pub(super) fn reach(&self, since: Stamp) -> Reach {
        let _making = self.making.lock();
        let mut reach = Reach::default();
        self.purges.reach(since, &mut reach);
        self.retentions.reach(since, &mut reach);
        // A mark without a site may concern any.
        reach.is_all |= reach.sites.contains(&0);
        reach
    }

    /// Makes marks and numbers them. `enter` is called for each, in the order of their numbers, with what has
    /// become wider so far.
    pub(super) fn make(
        &self,
        wanted: &[Mark],
        now: Now,
        mut enter: impl FnMut(Record, &BTreeSet<u64>),
    ) -> Made {
        let _making = self.making.lock();
        let mut wider = BTreeSet::new();
        let mut number = self.current.load(Ordering::Acquire);
        for mark in wanted {
            number += 1;
            let record = Record { number, mark: *mark, at: now.wall };
            self.apply(&record, now.mono, now, &mut wider);
            enter(record, &wider);
        }
        if !wanted.is_empty() {
            self.newest.store(number, Ordering::Release);
            self.current.store(number, Ordering::Release);
        }
        Made { stamp: Stamp(number), wider }
    }

    /// Restores a mark that was made before. [`Marks::resume`] sets the counter.
    pub(super) fn restore(&self, record: &Record, now: Now) {
        let _making = self.making.lock();
        let ago = now.wall.duration_since(record.at).unwrap_or_default();
        self.apply(record, now.mono.checked_sub(ago).unwrap_or(now.mono), now, &mut BTreeSet::new());
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

    /// Puts a mark in force that was made at the moment `made`. Adds to `wider` which sites go as wholes.
    fn apply(&self, record: &Record, made: Instant, now: Now, wider: &mut BTreeSet<u64>) {
        let Record { number, mark: Mark { scope, force }, at } = *record;
        if let Force::Lifetime(lifetime) = force {
            return self.retentions.apply(record, lifetime, now);
        }
        let tables = &self.purges;
        let own = Purges::of(number, force, Now { mono: made, wall: at });
        let (site, has_room) = match scope {
            Scope::All => (0, true),
            Scope::Site(site) => return self.apply_to_site(site, &own, wider),
            Scope::Tag { site, hash } => {
                let any = tables.any_tag.pin();
                any.insert(site, any.get(&site).copied().unwrap_or_default().joined(&own));
                (site, self.make_room(&tables.tags, (site, tag_name(site, hash)), wider))
            }
            Scope::Url { site, digest } => (site, self.make_room(&tables.urls, (site, digest), wider)),
            Scope::Prefix { site, digest, length } => {
                let name = (site, prefix_name(site, digest));
                let has_room = self.make_room(&tables.prefixes, name, wider);
                (site, has_room && tables.note_length(site, length, PREFIX_LENGTHS_MAX))
            }
        };
        if has_room {
            return tables.change(scope, |purges| purges.joined(&own));
        }
        wider.insert(site);
        self.apply_to_site(site, &own, wider);
    }

    /// Adds marks to those of a site, or to those of everything where the site is 0.
    fn apply_to_site(&self, site: u64, own: &Purges, wider: &mut BTreeSet<u64>) {
        if site == 0 {
            return self.purges.change_all(|all| all.joined(own));
        }
        let sites = self.purges.sites.pin();
        if !sites.contains_key(&site) && sites.len() >= self.marks_max {
            wider.insert(0);
            self.join_all(sites.values());
            sites.clear();
        }
        self.purges.change(Scope::Site(site), |purges| purges.joined(own));
    }

    /// Joins marks to those of everything. The caller removes them afterwards.
    fn join_all<'a>(&self, purges: impl Iterator<Item = &'a Purges>) {
        self.purges.change_all(|all| purges.fold(all, |joined, purges| joined.joined(purges)));
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// Makes room for a new mark of a site: where the table is full, all marks of a site become one mark of
    /// it ([`payer`]). False where there is no room all the same.
    fn make_room(
        &self,
        table: &DigestMap<Entry<Purges>>,
        (site, name): (u64, u128),
        wider: &mut BTreeSet<u64>,
    ) -> bool {
        let table = table.pin();
        if table.len() < self.marks_max || table.contains_key(&name) {
            return true;
        }
        if wider.contains(&site) {
            // It has paid already, and that was not enough.
            return false;
        }
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for entry in table.values() {
            *counts.entry(entry.site).or_default() += 1;
        }
        let paying = payer(&counts, site, self.marks_max / PARTS);
        let of_site = table.values().filter(|entry| entry.site == paying);
        let joined = of_site.fold(Purges::default(), |joined, entry| joined.joined(&entry.noted));
        wider.insert(paying);
        self.apply_to_site(paying, &joined, wider);
        self.version.fetch_add(1, Ordering::SeqCst);
        table.retain(|_, entry| entry.site != paying);
        self.purges.settle_lengths();
        table.len() < self.marks_max
    }

    pub(super) fn judge(&self, key: &CacheKey, tags: &Tags, stamp: Stamp) -> Judged {
        loop {
            let version = self.version.load(Ordering::SeqCst);
            let retention = self.retentions.newest_of(key, tags, stamp);
            let number = retention.map_or(0, |retention| retention.number);
            let mut concern =
                Concern { stamp: stamp.0, retention: number, is_dead: false, before: None, after: None };
            self.purges.look(key, tags, &mut |_, purges| concern.add(purges));
            if self.version.load(Ordering::SeqCst) != version {
                continue;
            }
            let Concern { before, after, .. } = concern;
            return match (concern.is_dead, retention.map(|retention| retention.until)) {
                (true, _) => Judged::Dead,
                (false, None) if after.is_none() => Judged::Alive,
                (false, until) => Judged::Changed(Change { before, until, after }),
            };
        }
    }

    /// Drops the marks up to a number, which becomes a mark of everything.
    pub(super) fn retire(&self, until: Stamp) {
        let _making = self.making.lock();
        self.purges.change_all(|all| Purges { hard: all.hard.max(until.0), ..all });
        self.version.fetch_add(1, Ordering::SeqCst);
        self.purges.retire(until);
        self.retentions.retire(until);
    }

    /// The counter, and all marks as records in the order of their numbers.
    pub(super) fn snapshot(&self) -> (u64, Vec<Record>) {
        let _making = self.making.lock();
        let mut records = Vec::with_capacity(self.count() + 2);
        self.purges.each(|scope, purges| {
            if purges.hard > 0 {
                let (mark, at) = (Mark::hard(scope), SystemTime::UNIX_EPOCH);
                records.push(Record { number: purges.hard, mark, at });
            }
            if let Some(soft) = purges.soft {
                records.push(Record { number: soft.number, mark: Mark::soft(scope), at: soft.at });
            }
        });
        self.retentions.each(|record| records.push(record));
        records.sort_by_key(|record| record.number);
        (self.current().0, records)
    }
}

/// Whose marks become wider for a new one of a site, in a table with so many of each site: those of the site
/// with the most, where that has more than its part and this one less; otherwise its own. A mark of no single
/// site (0) is an operator's, and pays last.
fn payer(counts: &BTreeMap<u64, usize>, site: u64, part: usize) -> u64 {
    let own = counts.get(&site).copied().unwrap_or(0);
    let busiest = counts.iter().filter(|(other, _)| **other != 0).max_by_key(|(_, count)| **count);
    match busiest {
        Some((busiest, count)) if own < part && (*count > part || site == 0) => *busiest,
        _ => site,
    }
}

#[cfg(test)]
mod tests;
