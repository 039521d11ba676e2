//! Orders of lifetimes: until when what a scope concerns is fresh. The newest that concerns a generation
//! decides.
//!
//! They have tables of their own, so that they never make a purge wider. Nor does an order become wider where
//! there are too many: it would lengthen lifetimes that it was not given for. It is refused instead.

use std::time::{Duration, Instant, SystemTime};

use weir_policy::{CacheKey, Now, Tags};

use super::marks::{PREFIX_LENGTHS_MAX, Reach};
use super::record::Record;
use super::scope::{Force, Mark, Scope, Stamp};
use super::tables::{Noted, Tables, tag_name};

/// The longest lifetime of an order.
pub const LIFETIME_MAX: Duration = Duration::from_secs(1 << 31);

/// There are too many orders of lifetimes that are not written into the heads yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooMany {
    /// Of one kind.
    #[error(
        "the ledger has room for {most} lifetimes of {kind} at a time, and {kept} wait to be written into \
         what they concern; try again in some seconds, or name a tag, a prefix or a site"
    )]
    Orders {
        /// The kind, in the plural.
        kind: &'static str,
        /// How many there may be.
        most: usize,
        /// How many there are.
        kept: usize,
    },
    /// Prefixes of too many lengths.
    #[error(
        "the ledger has room for lifetimes of prefixes of {PREFIX_LENGTHS_MAX} different lengths at a time; \
         try again in some seconds, or name a tag or a site"
    )]
    Lengths,
}

/// One order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) number: u64,
    pub(super) until: Instant,
    /// When it was given, and for how long: for the file.
    at: SystemTime,
    lifetime: Duration,
}

impl Order {
    /// An order given at `at`. It counts from there, by the wall clock where the process began later.
    fn new(number: u64, lifetime: Duration, at: SystemTime, now: Now) -> Order {
        let lifetime = lifetime.min(LIFETIME_MAX);
        let until = match (at + lifetime).duration_since(now.wall) {
            Ok(left) => now.mono + left.min(lifetime),
            Err(ago) => now.mono.checked_sub(ago.duration()).unwrap_or(now.mono),
        };
        Order { number, until, at, lifetime }
    }
}

impl Noted for Option<Order> {
    fn newest(&self) -> u64 {
        self.map_or(0, |order| order.number)
    }
}

/// The orders in force.
#[derive(Debug)]
pub(super) struct Orders {
    tables: Tables<Option<Order>>,
    orders_max: usize,
}

impl Orders {
    /// At most `orders_max` of each kind.
    pub(super) fn new(orders_max: usize) -> Orders {
        Orders { tables: Tables::new(), orders_max: orders_max.max(1) }
    }

    pub(super) fn count(&self) -> usize {
        self.tables.count()
    }

    /// Whether those that concern nothing any more should be dropped.
    pub(super) fn is_filling_up(&self) -> bool {
        self.tables.most() * 16 >= self.orders_max
            || self.tables.lengths.load().len() * 2 >= PREFIX_LENGTHS_MAX
    }

    /// Whether there is room for more.
    pub(super) fn check_room(&self, wanted: &[Mark]) -> Result<(), TooMany> {
        let tables = &self.tables;
        let mut new = [0_usize; 4];
        let mut lengths = Vec::clone(&tables.lengths.load());
        for mark in wanted.iter().filter(|mark| matches!(mark.force, Force::Lifetime(_))) {
            match mark.scope {
                Scope::All => {}
                Scope::Site(site) => new[0] += usize::from(!tables.sites.pin().contains_key(&site)),
                Scope::Tag { site, hash } => {
                    new[1] += usize::from(!tables.tags.pin().contains_key(&tag_name(site, hash)));
                }
                Scope::Url { digest, .. } => {
                    new[2] += usize::from(!tables.urls.pin().contains_key(&digest));
                }
                Scope::Prefix { digest, length, .. } => {
                    new[3] += usize::from(!tables.prefixes.pin().contains_key(&digest));
                    lengths.push(length);
                }
            }
        }
        let kept = [tables.sites.len(), tables.tags.len(), tables.urls.len(), tables.prefixes.len()];
        for (at, kind) in ["sites", "tags", "URLs", "prefixes"].into_iter().enumerate() {
            if new[at] > 0 && kept[at] + new[at] > self.orders_max {
                return Err(TooMany::Orders { kind, most: self.orders_max, kept: kept[at] });
            }
        }
        lengths.sort_unstable();
        lengths.dedup();
        let is_longer = lengths.len() > tables.lengths.load().len();
        if is_longer && lengths.len() > PREFIX_LENGTHS_MAX { Err(TooMany::Lengths) } else { Ok(()) }
    }

    /// Adds an order that was given at `at`. Where there is no room for the length of its prefix it is left
    /// out: see [`Orders::check_room`].
    pub(super) fn apply(&self, record: &Record, lifetime: Duration, now: Now) {
        if let Scope::Prefix { length, .. } = record.mark.scope
            && !self.tables.note_length(length)
        {
            return;
        }
        let order = Order::new(record.number, lifetime, record.at, now);
        let newer = |kept: Option<Order>| kept.filter(|kept| kept.number > order.number).or(Some(order));
        self.tables.change(record.mark.scope, newer);
    }

    /// The newest order that concerns a response and is newer than its stamp. Of a response with more tags
    /// than are kept, those that are kept count.
    pub(super) fn newest_of(&self, key: &CacheKey, tags: &Tags, stamp: Stamp) -> Option<Order> {
        let mut newest: Option<Order> = None;
        self.tables.look(key, tags, &mut |site, noted| {
            let is_meant = site == 0 || site == key.site;
            let order = noted.filter(|order| is_meant && order.number > stamp.0);
            newest = newest.into_iter().chain(order).max_by_key(|order| order.number);
        });
        newest
    }

    pub(super) fn reach(&self, since: Stamp, reach: &mut Reach) {
        self.tables.reach(since, reach);
    }

    pub(super) fn retire(&self, until: Stamp) {
        self.tables.retire(until);
        self.tables.change_all(|order| order.filter(|order| order.number > until.0));
    }

    /// All as records, in no order.
    pub(super) fn each(&self, mut each: impl FnMut(Record)) {
        self.tables.each(|scope, noted| {
            if let Some(Order { number, at, lifetime, .. }) = *noted {
                each(Record { number, mark: Mark::lifetime(scope, lifetime), at });
            }
        });
    }
}
