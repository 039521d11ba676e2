//! Retentions: until when what a scope concerns is fresh. The newest that concerns a generation decides.
//!
//! They have tables of their own, so that they never make a purge wider. Nor does a retention become wider
//! where there are too many: it would lengthen lifetimes that it was not given for. It is refused instead.
//! One site may take a part of the room, so that it refuses nothing to others.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use weir_policy::{CacheKey, Now, Tags};

use super::marks::{PARTS, PREFIX_LENGTHS_MAX, Reach};
use super::record::Record;
use super::scope::{Force, Mark, Scope, Stamp};
use super::tables::{Entry, Noted, Tables, prefix_name, tag_name};
use crate::digest::DigestMap;

/// The longest lifetime of a retention.
pub const LIFETIME_MAX: Duration = Duration::from_secs(1 << 31);

/// An order that lies further ahead of the clock counts as ended: the clock was set back while Weir was down,
/// and how much of its time has passed is not known. Otherwise it would have all of it after each restart.
const AHEAD_MAX: Duration = Duration::from_secs(60);

/// There are too many retentions that are not written into the heads yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooMany {
    /// Of one kind, in all or of one site.
    #[error(
        "there is room for {most} lifetimes of {kind}{whose} at a time, and {kept} wait to be written into \
         what they concern; try again in some seconds, or name a tag, a prefix or a site"
    )]
    Retentions {
        /// The kind, in the plural.
        kind: &'static str,
        /// Empty, or words for one site.
        whose: &'static str,
        /// How many there may be.
        most: usize,
        /// How many there are.
        kept: usize,
    },
    /// Prefixes of too many lengths of one site.
    #[error(
        "there is room for lifetimes of prefixes of {most} different lengths of one site at a time; try \
         again in some seconds, or name a tag or a site"
    )]
    Lengths {
        /// How many there may be.
        most: usize,
    },
}

/// What a limit says that is for each site.
const OF_A_SITE: &str = " of one site";

/// One retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Retention {
    pub(super) number: u64,
    pub(super) until: Instant,
    /// When it was given, and for how long: for the file.
    at: SystemTime,
    lifetime: Duration,
}

impl Retention {
    /// A retention given at `at`. It counts from there, by the wall clock where the process began later. One
    /// that lies far ahead has ended ([`AHEAD_MAX`]).
    fn new(number: u64, lifetime: Duration, at: SystemTime, now: Now) -> Retention {
        let lifetime = lifetime.min(LIFETIME_MAX);
        let is_ahead = at.duration_since(now.wall).is_ok_and(|ahead| ahead > AHEAD_MAX);
        let until = match (at + lifetime).duration_since(now.wall) {
            Ok(_) if is_ahead => now.mono,
            Ok(left) => now.mono + left.min(lifetime),
            Err(ago) => now.mono.checked_sub(ago.duration()).unwrap_or(now.mono),
        };
        Retention { number, until, at, lifetime }
    }
}

impl Noted for Option<Retention> {
    fn newest(&self) -> u64 {
        self.map_or(0, |retention| retention.number)
    }
}

/// What retentions are asked for by, each with its site.
type Names = BTreeMap<u128, u64>;
type Table = DigestMap<Entry<Option<Retention>>>;

/// The retentions in force.
#[derive(Debug)]
pub(super) struct Retentions {
    tables: Tables<Option<Retention>>,
    retentions_max: usize,
}

impl Retentions {
    /// At most `retentions_max` of each kind.
    pub(super) fn new(retentions_max: usize) -> Retentions {
        Retentions { tables: Tables::new(), retentions_max: retentions_max.max(1) }
    }

    pub(super) fn count(&self) -> usize {
        self.tables.count()
    }

    /// Whether those that concern nothing any more should be dropped.
    pub(super) fn is_filling_up(&self) -> bool {
        self.tables.most() * 16 >= self.retentions_max || self.tables.most_lengths() * 2 >= PREFIX_LENGTHS_MAX
    }

    /// Whether there is room for more.
    pub(super) fn check_room(&self, wanted: &[Mark]) -> Result<(), TooMany> {
        let tables = &self.tables;
        let (mut tags, mut urls, mut prefixes) = (Names::new(), Names::new(), Names::new());
        let (mut sites, mut lengths) = (BTreeSet::new(), BTreeSet::new());
        for mark in wanted.iter().filter(|mark| matches!(mark.force, Force::Lifetime(_))) {
            match mark.scope {
                Scope::All => {}
                Scope::Site(site) => {
                    sites.insert(site);
                }
                Scope::Tag { site, hash } => {
                    tags.insert(tag_name(site, hash), site);
                }
                Scope::Url { site, digest } => {
                    urls.insert(digest, site);
                }
                Scope::Prefix { site, digest, length } => {
                    prefixes.insert(prefix_name(site, digest), site);
                    lengths.insert((site, length));
                }
            }
        }
        let kept = tables.sites.len();
        sites.retain(|site| !tables.sites.pin().contains_key(site));
        if !sites.is_empty() && kept + sites.len() > self.retentions_max {
            return Err(TooMany::Retentions { kind: "sites", whose: "", most: self.retentions_max, kept });
        }
        self.check_table("tags", &tables.tags, tags)?;
        self.check_table("URLs", &tables.urls, urls)?;
        self.check_table("prefixes", &tables.prefixes, prefixes)?;
        self.check_lengths(lengths)
    }

    fn check_table(&self, kind: &'static str, table: &Table, mut new: Names) -> Result<(), TooMany> {
        let (table, kept) = (table.pin(), table.len());
        new.retain(|name, _| !table.contains_key(name));
        if new.is_empty() {
            return Ok(());
        }
        let most = self.retentions_max;
        if kept + new.len() > most {
            return Err(TooMany::Retentions { kind, whose: "", most, kept });
        }
        let most = (most / PARTS).max(1);
        let mut of_sites: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
        new.values().for_each(|site| of_sites.entry(*site).or_default().0 += 1);
        for entry in table.values() {
            of_sites.entry(entry.site).and_modify(|(_, kept)| *kept += 1);
        }
        // What is of no single site was ordered by somebody who may do all.
        of_sites.remove(&0);
        match of_sites.values().find(|(new, kept)| new + kept > most) {
            Some((_, kept)) => Err(TooMany::Retentions { kind, whose: OF_A_SITE, most, kept: *kept }),
            None => Ok(()),
        }
    }

    fn check_lengths(&self, wanted: BTreeSet<(u64, u32)>) -> Result<(), TooMany> {
        let of_sites = self.tables.lengths.pin();
        let mut new: BTreeMap<u64, usize> = BTreeMap::new();
        for (site, length) in wanted {
            let is_kept = |kept: &Vec<u32>| kept.binary_search(&length).is_ok();
            if !of_sites.get(&site).is_some_and(is_kept) {
                *new.entry(site).or_default() += 1;
            }
        }
        let kept = |site: &u64| of_sites.get(site).map_or(0, Vec::len);
        match new.iter().any(|(site, new)| kept(site) + new > PREFIX_LENGTHS_MAX) {
            true => Err(TooMany::Lengths { most: PREFIX_LENGTHS_MAX }),
            false => Ok(()),
        }
    }

    /// Adds a retention that was given at `at`. Those of the file, and of another process, were checked when
    /// they were given: there may be as many again.
    pub(super) fn apply(&self, record: &Record, lifetime: Duration, now: Now) {
        if let Scope::Prefix { site, length, .. } = record.mark.scope {
            self.tables.note_length(site, length, usize::MAX);
        }
        let retention = Retention::new(record.number, lifetime, record.at, now);
        let newer =
            |kept: Option<Retention>| kept.filter(|kept| kept.number > retention.number).or(Some(retention));
        self.tables.change(record.mark.scope, newer);
    }

    /// The newest retention that concerns a response and is newer than its stamp. Of a response with more
    /// tags than are kept, those that are kept count.
    pub(super) fn newest_of(&self, key: &CacheKey, tags: &Tags, stamp: Stamp) -> Option<Retention> {
        let mut newest: Option<Retention> = None;
        self.tables.look(key, tags, &mut |site, noted| {
            let is_meant = site == 0 || site == key.site;
            let retention = noted.filter(|retention| is_meant && retention.number > stamp.0);
            newest = newest.into_iter().chain(retention).max_by_key(|retention| retention.number);
        });
        newest
    }

    pub(super) fn reach(&self, since: Stamp, reach: &mut Reach) {
        self.tables.reach(since, reach);
    }

    pub(super) fn retire(&self, until: Stamp) {
        self.tables.retire(until);
        self.tables.change_all(|retention| retention.filter(|retention| retention.number > until.0));
    }

    /// All as records, in no order.
    pub(super) fn each(&self, mut each: impl FnMut(Record)) {
        self.tables.each(|scope, noted| {
            if let Some(Retention { number, at, lifetime, .. }) = *noted {
                each(Record { number, mark: Mark::lifetime(scope, lifetime), at });
            }
        });
    }
}
