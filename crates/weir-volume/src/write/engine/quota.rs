//! Quotas: an owner's oldest content is removed, in small steps, while the owner is above its quota.
//!
//! The books say which segments have objects of an owner. The oldest of those is read once, and its objects
//! are kept as a list, so that a site that is always at its quota costs one removal for each new object and
//! no search. Objects that are still arriving are left alone until they have ended.

use std::collections::VecDeque;

use super::Engine;
use crate::eviction::Eviction;
use crate::format::record::Place;
use crate::index::Location;
use crate::read::verify::entries_of;
use crate::usage::Counters;
use crate::write::tasks::Oldest;

/// How many records one step looks at, or removes.
const RECORDS_A_STEP: usize = 64;
/// The most owners whose lists are kept.
const LISTS_MAX: usize = 64;

impl Engine {
    /// Removes some of what is held above a quota. True while there is more to do at once.
    pub(super) fn step_quota(&mut self) -> bool {
        let quotas = self.shared.quotas.load();
        if quotas.is_empty() || self.may_write().is_err() || !self.failed_removals.is_empty() {
            return false;
        }
        let is_over = |(owner, quota): &(&u64, &u64)| {
            let held = self.shared.stocks.of(**owner);
            held.bytes > **quota || **quota == 0 && held.objects > 0
        };
        let over: Vec<(u64, u64)> =
            quotas.iter().filter(is_over).map(|(owner, quota)| (*owner, *quota)).collect();
        drop(quotas);
        let mut is_more = false;
        for (owner, quota) in over {
            if !self.oldest_of.contains_key(&owner) && self.oldest_of.len() >= LISTS_MAX {
                self.oldest_of.clear();
            }
            let mut oldest = self.oldest_of.remove(&owner).unwrap_or_default();
            is_more |= self.trim(owner, quota, &mut oldest);
            self.oldest_of.insert(owner, oldest);
        }
        is_more
    }

    /// Takes some steps for one owner. True while it holds too much and something can be removed.
    fn trim(&mut self, owner: u64, quota: u64, oldest: &mut Oldest) -> bool {
        for _ in 0..RECORDS_A_STEP {
            let held = self.shared.stocks.of(owner);
            if held.bytes <= quota && (quota > 0 || held.objects == 0) {
                return false;
            }
            if let Some((shard, entry)) = oldest.unknown.pop_front() {
                if self.is_owners(owner, oldest.segment, shard, entry) {
                    oldest.own.push_back((shard, entry));
                }
            } else if let Some((shard, entry)) = oldest.own.pop_front() {
                self.trim_entry(oldest.segment, shard, entry);
            } else if !self.list_next(owner, oldest) {
                // The rest is still arriving. The next look begins at the beginning.
                *oldest = Oldest::default();
                return false;
            }
        }
        true
    }

    fn is_owners(&self, owner: u64, segment: u64, shard: usize, entry: u64) -> bool {
        let is_there = self.shared.segments.has(segment) && self.shared.index.has_entry(shard, entry);
        let location = Location::of(entry);
        is_there && self.shared.counted_at(location).is_ok_and(|counted| counted.owner == owner)
    }

    fn trim_entry(&mut self, segment: u64, shard: usize, entry: u64) {
        if !self.shared.segments.has(segment) || !self.shared.index.has_entry(shard, entry) {
            return;
        }
        // A record that cannot be read is removed when a reader reports it.
        let Ok(record) = self.shared.any_record(Location::of(entry)) else { return };
        if self.puts.contains_key(&record.number) {
            return;
        }
        let is_listening = self.shared.listener.is_listening();
        let bytes = if is_listening { self.shared.held(&record).length() } else { 0 };
        self.remove(record.number, record.digest);
        Counters::add(&self.shared.over_quota, 1);
        if is_listening {
            self.shared.listener.evicted(&record.key, bytes, Eviction::Quota);
        }
    }

    /// Lists the oldest segment that has objects of the owner and is not listed yet. False if there is none.
    fn list_next(&mut self, owner: u64, oldest: &mut Oldest) -> bool {
        let from = Place { segment: oldest.segment, unit: oldest.listed_to };
        for segment in self.books.rows.segments_of(owner, from.segment) {
            let first = if segment == from.segment { from.unit } else { 0 };
            let mut entries = entries_of(&self.shared, segment);
            let unit = |entry: u64| self.shared.segments.geometry.unit(Location::of(entry));
            entries.retain(|(_, entry)| unit(*entry) >= first);
            if let Some((_, last)) = entries.last() {
                *oldest = Oldest {
                    segment,
                    listed_to: unit(*last) + 1,
                    unknown: entries.into(),
                    own: VecDeque::new(),
                };
                return true;
            }
        }
        false
    }
}
