//! The sum of all workers' counters at one moment, as plain values: what the metrics and the status page
//! show.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::counters::{Counters, SiteCells, Words};
use super::counts::{Counts, Level, SiteCount, SiteCounts};
use super::latency::Latency;
use super::record::Outcome;
use super::site::{SiteId, SiteName};

/// The name for what belongs to no site.
const NOWHERE: &str = "-";

/// What a site has served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteSnapshot {
    /// The site's name.
    pub name: SiteName,
    /// Requests, in the order of [`Outcome::ALL`].
    pub requests: [u64; Outcome::ALL.len()],
    /// Its counters.
    pub counts: SiteCounts,
}

impl SiteSnapshot {
    fn new(name: SiteName) -> SiteSnapshot {
        SiteSnapshot { name, requests: Default::default(), counts: SiteCounts::default() }
    }

    fn add(&mut self, cells: &SiteCells) {
        add_all(&mut self.requests, &cells.requests);
        self.counts.add(&cells.counts);
    }
}

/// The sums of these workers for each site, and last of what belongs to no site.
pub(super) fn sites<'c>(
    workers: impl Iterator<Item = &'c Counters>,
    names: &Arc<Vec<Arc<str>>>,
) -> Vec<SiteSnapshot> {
    let mut sums = Vec::with_capacity(names.len() + 1);
    sums.extend(SiteName::each(names).map(SiteSnapshot::new));
    let mut nowhere = SiteSnapshot::new(NOWHERE.into());
    for from in workers {
        for (index, sum) in sums.iter_mut().enumerate() {
            if let Some(cells) = from.seen_site(SiteId::new(index)) {
                sum.add(cells);
            }
        }
        nowhere.add(&from.nowhere);
    }
    sums.push(nowhere);
    sums
}

/// What Weir has counted since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Finished requests, in the order of [`Outcome::ALL`].
    pub requests: [u64; Outcome::ALL.len()],
    /// Finished requests by the first digit of the status on the wire; the first entry are those without one.
    pub statuses: [u64; 6],
    /// The counters.
    pub counts: Counts,
    /// Time to the first byte, in the order of [`Outcome::ALL`].
    pub first_byte: [Latency; Outcome::ALL.len()],
    /// Time to the last byte, in the order of [`Outcome::ALL`].
    pub total: [Latency; Outcome::ALL.len()],
    /// Responses that were not stored, by reason.
    pub not_stored: BTreeMap<&'static str, u64>,
    /// Requests that were not hits, by reason.
    pub details: BTreeMap<&'static str, u64>,
    /// Errors by word.
    pub errors: BTreeMap<&'static str, u64>,
    /// What each site has served, in the order in which the sites were first seen; last, as `-`, what belongs
    /// to no site.
    pub sites: Vec<SiteSnapshot>,
}

impl Snapshot {
    /// Requests of one outcome.
    pub fn requests_of(&self, outcome: Outcome) -> u64 {
        self.requests[outcome as usize]
    }

    /// Adds one worker's counters.
    pub(super) fn merge(&mut self, from: &Counters) {
        self.merge_numbers(from);
        add_words(&mut self.not_stored, &from.not_stored);
        add_words(&mut self.details, &from.details);
        add_words(&mut self.errors, &from.errors);
    }

    /// Adds one worker's counters, but for those by words.
    pub(super) fn merge_numbers(&mut self, from: &Counters) {
        add_all(&mut self.requests, &from.requests);
        add_all(&mut self.statuses, &from.statuses);
        for (sum, cells) in self.first_byte.iter_mut().zip(&from.first_byte) {
            sum.merge(cells);
        }
        for (sum, cells) in self.total.iter_mut().zip(&from.total) {
            sum.merge(cells);
        }
        self.counts.add(&from.counts);
    }

    /// How many of a [`Level`] there are now.
    pub fn now(&self, level: &Level) -> u64 {
        level.now(&self.counts)
    }

    /// A counter of sites, summed over all of them.
    pub fn over_sites(&self, count: SiteCount) -> u64 {
        self.sites.iter().map(|site| site.counts[count]).sum()
    }
}

fn add_all(sums: &mut [u64], cells: &[AtomicU64]) {
    for (sum, cell) in sums.iter_mut().zip(cells) {
        *sum += cell.load(Ordering::Relaxed);
    }
}

fn add_words(sums: &mut BTreeMap<&'static str, u64>, words: &Words) {
    words.each(|word, count| *sums.entry(word).or_default() += count);
}
