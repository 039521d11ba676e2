//! How much is held of each site: in memory, on volumes, and of both together.
//!
//! A volume counts what it holds itself, exactly, at every change; what is purged counts until it is swept.
//! What memory holds is counted on demand, by a walk over the index, without what is purged. What is still
//! usable ([`Live`]) needs every head, and is counted on demand as well.

mod lately;

pub(crate) use self::lately::Lately;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use weir_policy::{Now, Stored};

use self::lately::{BySite, InMemory};
use super::Inside;
use crate::generation::{Generation, Residence};
use crate::ledger::{Judged, Scope, Stamp};
use crate::tier::VolumeTier;
use crate::volume::{EachDone, ReadError, Record, Stock, codec, key};

/// Up to so many objects in memory are counted while one waits, in a few milliseconds.
const AT_ONCE_MAX: usize = 1 << 14;

/// What is held of a site. Purged objects count until their volume is swept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SiteStocks {
    /// The site, by its hash.
    pub site: u64,
    /// Objects with bytes in memory, and those bytes.
    pub memory: Stock,
    /// Objects on volumes, and their bytes.
    pub volume: Stock,
    /// Both together: each object and each byte once.
    pub held: Stock,
}

/// What is held of each site, as it was counted last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StocksSeen {
    /// As [`Store::stocks`](crate::Store::stocks).
    pub sites: Vec<SiteStocks>,
    /// When memory was counted. `None` before the first count: then volumes alone are in it.
    pub as_of: Option<SystemTime>,
}

/// What is held and usable: not purged, and within its freshness lifetime (RFC 9111 §4.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    /// When it was counted. Changes during the count may be in it or not.
    pub as_of: SystemTime,
    /// By the hash of the site, in order. Sites without a usable object are left out.
    pub sites: Vec<(u64, Stock)>,
}

/// What is held of each site, in the order of their hashes. Reads memory's index, and the record of each
/// object that is in memory and on a volume. May block.
pub(crate) fn stocks(inside: &Inside) -> Vec<SiteStocks> {
    joined(inside, &in_memory_by_site(inside))
}

/// The same for scrapes: memory, where it holds many objects, was counted a while ago. Never blocks for long.
pub(crate) fn stocks_lately(inside: &Arc<Inside>, clock: fn() -> Now) -> StocksSeen {
    if inside.memory.index.len() <= AT_ONCE_MAX {
        return StocksSeen { sites: stocks(inside), as_of: Some(clock().wall) };
    }
    let own = Arc::clone(inside);
    let (memory, as_of) = inside.lately.seen(clock, move || in_memory_by_site(&own)).unzip();
    StocksSeen { sites: joined(inside, memory.as_deref().map_or(&[], Vec::as_slice)), as_of }
}

/// What volumes hold of each site now, with what memory holds.
fn joined(inside: &Inside, memory: &[(u64, InMemory)]) -> Vec<SiteStocks> {
    let in_memory = |&(site, held): &(u64, InMemory)| SiteStocks {
        site,
        memory: held.own,
        volume: Stock::default(),
        held: held.beyond,
    };
    let mut sites: Vec<SiteStocks> = memory.iter().map(in_memory).collect();
    for tier in inside.volumes.tiers.all().iter() {
        let on_volume =
            |(site, stock)| SiteStocks { site, volume: stock, held: stock, ..SiteStocks::default() };
        sites.extend(tier.volume().stocks().into_iter().map(on_volume));
    }
    // Each part is in order, which a stable sort makes use of.
    sites.sort_by_key(|site| site.site);
    sites.dedup_by(|more, own| {
        let is_same = more.site == own.site;
        if is_same {
            own.memory += more.memory;
            own.volume += more.volume;
            own.held += more.held;
        }
        is_same
    });
    sites.retain(|site| !site.memory.is_empty() || !site.held.is_empty());
    sites
}

/// What memory holds of each site. Purged and unswept objects count for nothing; a volume knows them only
/// when it is swept.
fn in_memory_by_site(inside: &Inside) -> BySite {
    let mut sites: BTreeMap<u64, InMemory> = BTreeMap::new();
    inside.memory.index.each(|generation| {
        if !is_at_rest(generation) || inside.memory.judge(&generation.label) == Judged::Dead {
            return;
        }
        let of = sites.entry(generation.key().site).or_default();
        of.own += in_memory(generation);
        of.beyond += beyond_volume(generation);
    });
    sites.into_iter().collect()
}

/// Whether purged objects may still be counted on a volume.
pub(crate) fn is_unswept(inside: &Inside) -> bool {
    let newest = inside.memory.ledger.newest().number();
    inside.volumes.tiers.all().iter().any(|tier| newest > tier.volume().swept())
}

/// What is held of each site and usable. Reads every head, and blocks for as long as that takes.
///
/// # Errors
/// The drive fails.
pub(crate) fn live(inside: &Inside, now: Now) -> Result<Live, ReadError> {
    let mut sites: BTreeMap<u64, Stock> = BTreeMap::new();
    for tier in inside.volumes.tiers.all().iter() {
        tier.volume().walk(|record| {
            if let Some(site) = site_if_live(inside, tier, record, now) {
                let bytes = tier.volume().held(record).length();
                *sites.entry(site).or_default() += Stock { objects: 1, bytes };
            }
            std::ops::ControlFlow::Continue(())
        })?;
    }
    for generation in at_rest(inside) {
        let judged = inside.memory.judge(&generation.label);
        let beyond = beyond_volume(&generation);
        if !beyond.is_empty() && is_fresh(&generation.head().stored, judged, now) {
            *sites.entry(generation.key().site).or_default() += beyond;
        }
    }
    Ok(Live { as_of: now.wall, sites: sites.into_iter().collect() })
}

/// What a purge of these scopes would take, in memory and on volumes, each object once. Reads every head, and
/// blocks for as long as that takes; a break of `each` ends it early.
///
/// # Errors
/// The drive fails.
pub(crate) fn count(
    inside: &Inside,
    scopes: &[Scope],
    now: Now,
    each: EachDone<'_>,
) -> Result<Stock, ReadError> {
    let mut sum = Stock::default();
    for tier in inside.volumes.tiers.all().iter() {
        tier.volume().walk(|record| {
            if is_concerned(inside, scopes, record, now) {
                sum += Stock { objects: 1, bytes: tier.volume().held(record).length() };
            }
            each()
        })?;
    }
    for generation in at_rest(inside) {
        if may_go(inside, scopes, &generation) {
            sum += beyond_volume(&generation);
        }
        if each().is_break() {
            break;
        }
    }
    Ok(sum)
}

/// How many objects a purge of these scopes would take; `None` where volumes hold some, or memory more than
/// `looked_max`.
pub(crate) fn count_in_memory(inside: &Inside, scopes: &[Scope], looked_max: usize) -> Option<u64> {
    if !inside.volumes.tiers.all().is_empty() || inside.memory.index.len() > looked_max {
        return None;
    }
    let mut count = 0;
    inside.memory.index.each(|generation| count += u64::from(may_go(inside, scopes, generation)));
    Some(count)
}

/// Whether a generation lives, and one of the scopes concerns it.
fn may_go(inside: &Inside, scopes: &[Scope], generation: &Generation) -> bool {
    inside.memory.judge(&generation.label) != Judged::Dead
        && scopes.iter().any(|scope| scope.concerns(generation.key(), &generation.head().stored.tags))
}

/// The same for a record of a volume.
fn is_concerned(inside: &Inside, scopes: &[Scope], record: &Record, now: Now) -> bool {
    let Some((site, full)) = key::split(&record.key) else { return false };
    let Ok(stored) = codec::decode(&record.head, now) else { return false };
    let key = key::cache_key(site, full);
    let judged = inside.memory.ledger.judge(&key, &stored.tags, Stamp::of(record.stamp));
    judged != Judged::Dead && scopes.iter().any(|scope| scope.concerns(&key, &stored.tags))
}

/// Gives each volume its share of the quotas, by weight.
pub(crate) fn share_quotas(inside: &Inside) {
    let quotas = inside.volumes.quotas.lock();
    let layout = inside.volumes.tiers.all();
    let all: u128 = layout.iter().map(|tier| u128::from(tier.weight())).sum();
    for tier in layout.iter() {
        let weight = u128::from(tier.weight());
        let share = |quota: u64| match all {
            0 => quota,
            all => (u128::from(quota) * weight / all) as u64,
        };
        tier.volume().set_quotas(quotas.iter().map(|(site, quota)| (*site, share(*quota))).collect());
    }
}

/// The generations at rest in memory.
fn at_rest(inside: &Inside) -> Vec<Arc<Generation>> {
    let mut found = Vec::new();
    inside.memory.index.each(|generation| {
        if is_at_rest(generation) {
            found.push(Arc::clone(generation));
        }
    });
    found
}

fn is_at_rest(generation: &Generation) -> bool {
    generation.residence() == Residence::Resident
}

/// What memory has of a generation; nothing where all its bytes lie on a volume.
fn in_memory(generation: &Generation) -> Stock {
    let bytes = generation.held_bytes();
    Stock { objects: u64::from(bytes > 0 || !generation.is_on_disk()), bytes }
}

/// What memory has of a generation that no volume has.
fn beyond_volume(generation: &Generation) -> Stock {
    let own = in_memory(generation);
    if own.is_empty() {
        return own;
    }
    match generation.home().and_then(|home| home.held_on_disk(generation)) {
        None => own,
        Some(on_disk) => {
            let of_run = |run| on_disk.gaps(run).map(|gap| gap.end - gap.start).sum::<u64>();
            Stock { objects: 0, bytes: generation.held().iter().map(of_run).sum() }
        }
    }
}

/// The site of a record, if its object is usable.
fn site_if_live(inside: &Inside, tier: &Arc<VolumeTier>, record: &Record, now: Now) -> Option<u64> {
    let (site, full) = key::split(&record.key)?;
    let stored = codec::decode(&record.head, now).ok()?;
    let key = key::cache_key(site, full);
    let judged = inside.memory.ledger.judge(&key, &stored.tags, Stamp::of(record.stamp));
    // A newer head may be in memory only.
    let above = inside.memory.index.all(key.digest);
    let is_here = |generation: &Generation| generation.home().is_some_and(|home| Arc::ptr_eq(&home, tier));
    let own = above.iter().find(|generation| generation.object() == record.number && is_here(generation));
    let is_of_use = match own {
        Some(own) => is_fresh(&own.head().stored, inside.memory.judge(&own.label), now),
        None => is_fresh(&stored, judged, now),
    };
    is_of_use.then_some(site)
}

/// Whether it lives, is within its freshness lifetime (RFC 9111 §4.2) and not softly purged.
fn is_fresh(stored: &Stored, judged: Judged, now: Now) -> bool {
    let mut facts = stored.facts;
    judged.apply(&mut facts);
    let age = facts.initial_age + now.since(facts.received_mono);
    age < facts.lifetime && !judged.is_purged(&facts)
}

#[cfg(test)]
mod tests;
