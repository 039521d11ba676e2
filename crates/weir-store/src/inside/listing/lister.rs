//! Lists: merges what memory and rows have, walks over volumes without rows, and says of each object what is
//! shown of it.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use roaring::RoaringTreemap;
use weir_policy::{CacheKey, Facts, Intervals, Now, Stored, StoredFlags, media_type};

use super::listed::{Listed, Page, Unlisted};
use super::streams::{InMemory, OfRows};
use super::taken::Taken;
use super::token::{At, Token};
use super::wanted::Listing;
use crate::catalogue::{Catalogue, Seen};
use crate::generation::{Generation, Residence};
use crate::inside::Inside;
use crate::ledger::{Judged, Stamp};
use crate::tier::VolumeTier;
use crate::volume::VolumeState;
use crate::volume::{EachDone, Named, Place, Record, codec, key};

/// How often, and how far apart, the catalogue is asked whether it has covered all that was written.
const COVERED_TRIES: u32 = 100;
const COVERED_PAUSE: Duration = Duration::from_millis(20);
/// A catalogue that is so far behind will not have covered that soon.
const BEHIND_BYTES_MAX: u64 = 256 << 20;
/// How many objects are looked at without a pause, and then between two pauses.
const EAGER: u64 = 20_000;
const LOOKED_AT_ONCE: u64 = 4096;
/// A pause is as long as the work before it, up to this.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Lists what is cached. Blocks for as long as that takes, with pauses once it takes longer; calls `each` for
/// each object looked at, and ends where that breaks. `besides` is listed first: see [`crate::Store::list`].
///
/// # Errors
/// [`Unlisted`].
pub(crate) fn list(
    inside: &Arc<Inside>,
    listing: &Listing,
    besides: &mut dyn Iterator<Item = Listed>,
    now: Now,
    each: EachDone<'_>,
) -> Result<Page, Unlisted> {
    let mut tiers: Vec<Arc<VolumeTier>> = inside.volumes.tiers.all().iter().map(Arc::clone).collect();
    tiers.retain(|tier| tier.state() != VolumeState::Ejected && listing.wanted.may_be_on(tier.name()));
    tiers.sort_unstable_by_key(|tier| tier.volume().id());
    let token = match listing.after.as_slice() {
        [] => first(&tiers),
        after => Token::read(after)?,
    };
    let pace = Pace { each, looked: 0, since: None };
    let mut lister = Lister {
        inside,
        listing,
        now,
        numbers_end: token.numbers_end,
        pace,
        taken: Taken::new(listing),
        met: HashSet::new(),
    };
    let (walked, merged): (Vec<_>, Vec<_>) =
        tiers.iter().partition(|tier| token.walked.contains(&tier.volume().id()));
    let mut next = None;
    if let At::Besides(after) = &token.at {
        next = lister.besides(besides, after)?.map(At::Besides);
    }
    let mut from = (0, Place { segment: 0, unit: 0 });
    match &token.at {
        At::Besides(_) if next.is_none() => next = lister.merge(&merged, &walked, &[])?.map(At::Merged),
        At::Besides(_) => {}
        At::Merged(after) => next = lister.merge(&merged, &walked, after)?.map(At::Merged),
        At::Walked(id, place) => from = (*id, *place),
    }
    if next.is_none() {
        next = lister.walk_all(&walked, from)?;
    }
    let next = next.map(|at| Token { at, ..token.clone() }.to_bytes());
    let (objects, sum) = lister.taken.into_parts();
    let walked = walked.iter().map(|tier| Arc::clone(tier.name())).collect();
    Ok(Page { objects, next, sum, walked })
}

/// Where the first page begins: which volumes have rows that are up to date is settled here.
fn first(tiers: &[Arc<VolumeTier>]) -> Token {
    let numbers_end = tiers.iter().map(|tier| tier.volume().next_number()).max().unwrap_or(u64::MAX);
    let without = tiers.iter().filter(|tier| !has_rows_in_time(tier));
    let walked = without.map(|tier| tier.volume().id()).collect();
    Token { numbers_end, walked, at: At::Besides(Vec::new()) }
}

/// Whether there is a catalogue that covers all that has been written, now or soon: it follows what is
/// durable, which the latest objects become within a second.
fn has_rows_in_time(tier: &VolumeTier) -> bool {
    let Some(catalogue) = &tier.catalogue else { return false };
    let end = tier.volume().written_end();
    for _ in 0..COVERED_TRIES {
        if catalogue.has_covered(end) {
            return true;
        }
        if catalogue.is_broken() || catalogue.behind_bytes() > BEHIND_BYTES_MAX {
            return false;
        }
        std::thread::sleep(COVERED_PAUSE);
    }
    false
}

/// Counts what is looked at, and pauses.
struct Pace<'a> {
    each: EachDone<'a>,
    looked: u64,
    since: Option<Now>,
}

impl Pace<'_> {
    fn note(&mut self, count: usize, clock: impl Fn() -> Now) -> Result<(), Unlisted> {
        for _ in 0..count {
            if (self.each)().is_break() {
                return Err(Unlisted::Ended);
            }
        }
        let before = self.looked / LOOKED_AT_ONCE;
        self.looked += count as u64;
        if self.looked < EAGER || self.looked / LOOKED_AT_ONCE == before {
            return Ok(());
        }
        let now = clock();
        if let Some(since) = self.since {
            std::thread::sleep(now.since(since.mono).min(PAUSE_MAX));
        }
        self.since = Some(clock());
        Ok(())
    }
}

struct Lister<'a> {
    inside: &'a Arc<Inside>,
    listing: &'a Listing,
    now: Now,
    /// Objects from this number on were begun after the first page.
    numbers_end: u64,
    pace: Pace<'a>,
    taken: Taken,
    /// The numbers of objects in memory that were listed.
    met: HashSet<u64>,
}

/// What a head says that is shown.
struct Shown {
    status: u16,
    media_type: Option<Box<str>>,
    facts: Facts,
}

impl Lister<'_> {
    /// What is listed besides, behind a key. Returns where the next page begins.
    fn besides(
        &mut self,
        besides: &mut dyn Iterator<Item = Listed>,
        after: &[u8],
    ) -> Result<Option<Vec<u8>>, Unlisted> {
        let mut last = Bytes::copy_from_slice(after);
        for listed in besides.filter(|listed| *listed.key.full > *after) {
            if self.taken.is_full() {
                return Ok(Some(last.to_vec()));
            }
            if (self.pace.each)().is_break() {
                return Err(Unlisted::Ended);
            }
            last = listed.key.full.clone();
            if self.listing.wanted.takes_by_all_but_url(&listed) {
                self.taken.take(listed);
            }
        }
        Ok(None)
    }

    /// What memory has and the rows say, in the order of names, behind a name. Returns where the next page
    /// begins.
    fn merge(
        &mut self,
        merged: &[&Arc<VolumeTier>],
        walked: &[&Arc<VolumeTier>],
        after: &[u8],
    ) -> Result<Option<Vec<u8>>, Unlisted> {
        let limit = self.taken.limit();
        let mut rows = Vec::new();
        for tier in merged {
            match tier.catalogue.as_ref().filter(is_of_use) {
                Some(own) => rows.push(OfRows::new(tier, own, self.listing, after, limit)),
                // It came meanwhile, or its rows have failed.
                None if self.listing.after.is_empty() => {}
                None => return Err(Unlisted::After),
            }
        }
        let may_be = self.listing.wanted.may_be_in_memory();
        let mut memory = if may_be { InMemory::new(limit) } else { InMemory::none() };
        let mut last = after.to_vec();
        while let Some(name) = self.next_name(&mut memory, &mut rows, &last)? {
            if self.taken.is_full() {
                return Ok(Some(last));
            }
            let generation = memory.take(&name);
            let mut seen = None;
            for own in &mut rows {
                if let Some(found) = own.take(&name) {
                    // While it is moved an object lies on two volumes.
                    seen.get_or_insert((own.tier, found));
                }
            }
            let listed = match (seen, generation) {
                (Some((tier, seen)), _) => self.of_row(tier, seen),
                (None, Some(generation)) => self.of_memory(&generation, merged, walked),
                (None, None) => None,
            };
            self.offer(listed);
            last = name;
        }
        Ok(None)
    }

    /// The first name of all, behind `last`.
    fn next_name(
        &mut self,
        memory: &mut InMemory,
        rows: &mut [OfRows<'_>],
        last: &[u8],
    ) -> Result<Option<Vec<u8>>, Unlisted> {
        let mut next = memory.peek(&self.inside.memory, self.listing, last);
        for own in rows {
            let tier = own.tier;
            let name = own.peek(&mut |count| self.pace.note(count, || tier.now()))?;
            next = next.into_iter().chain(name).min();
        }
        Ok(next.map(<[u8]>::to_vec))
    }

    fn offer(&mut self, listed: Option<Listed>) {
        if let Some(listed) = listed.filter(|listed| self.listing.wanted.takes(listed)) {
            self.taken.take(listed);
        }
    }

    /// What volumes without rows have, one after another by identity, from a place on.
    fn walk_all(&mut self, walked: &[&Arc<VolumeTier>], from: (u128, Place)) -> Result<Option<At>, Unlisted> {
        let mut seen = RoaringTreemap::new();
        for tier in walked.iter().filter(|tier| tier.volume().id() >= from.0) {
            let id = tier.volume().id();
            let begin = if id == from.0 { from.1 } else { Place { segment: 0, unit: 0 } };
            if self.taken.is_full() {
                return Ok(Some(At::Walked(id, begin)));
            }
            if let Some(place) = self.walk(tier, begin, &mut seen)? {
                return Ok(Some(At::Walked(id, place)));
            }
        }
        Ok(None)
    }

    fn walk(
        &mut self,
        tier: &Arc<VolumeTier>,
        from: Place,
        seen: &mut RoaringTreemap,
    ) -> Result<Option<Place>, Unlisted> {
        let (mut next, mut failed) = (None, None);
        let walked = tier.volume().walk_from(from, |record| {
            if self.taken.is_full() {
                next = Some(record.place());
                return ControlFlow::Break(());
            }
            if let Err(error) = self.pace.note(1, || tier.now()) {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            let number = record.number;
            // One whose head is written during the walk is met again behind.
            let is_wanted = number < self.numbers_end && !self.met.contains(&number);
            if is_wanted && tier.volume().is_current(record) && seen.insert(number) {
                let listed = self.of_record(tier, record);
                self.offer(listed);
            }
            ControlFlow::Continue(())
        });
        walked.map_err(|error| Unlisted::Volume(error.to_string()))?;
        failed.map_or(Ok(next), Err)
    }

    /// An object that memory has and no row names.
    fn of_memory(
        &mut self,
        generation: &Weak<Generation>,
        merged: &[&Arc<VolumeTier>],
        walked: &[&Arc<VolumeTier>],
    ) -> Option<Listed> {
        let own = generation.upgrade().filter(|own| own.residence() == Residence::Resident)?;
        let number = own.object();
        let is_met = number != 0 && self.met.contains(&number);
        let is_walked =
            number != 0 && number < self.numbers_end && walked.iter().any(|tier| tier.holds(&own));
        let judged = self.inside.memory.judge(&own.label);
        if is_met || is_walked || judged == Judged::Dead {
            return None;
        }
        if number != 0 {
            self.met.insert(number);
        }
        let shown = Shown::of(&own.head().stored);
        let volume = merged.iter().find(|tier| tier.holds(&own)).map(|tier| Arc::clone(tier.name()));
        let listed = self.listed(own.key().clone(), shown, judged);
        Some(Listed {
            body_bytes: own.length(),
            held_bytes: own.held_bytes(),
            is_in_memory: true,
            volume,
            ..listed
        })
    }

    /// An object that a row names, if it lives.
    fn of_row(&mut self, tier: &Arc<VolumeTier>, seen: Seen) -> Option<Listed> {
        let Seen { site, full, number, row, summary, has_moved, .. } = seen;
        let key = CacheKey::new(full).of_site(site);
        let held = tier.volume().held_bytes(&summary);
        let (Some(tags), Some(held), false) = (&summary.tags, held, has_moved) else {
            return self.by_number(tier, &key, number);
        };
        // Rows by tag have other sites and keys too.
        if !self.listing.wants(&key, tags) || row.stamp < tier.dead_before().number() {
            return None;
        }
        let stamp = Stamp::of(row.stamp.max(tier.volume().swept()));
        let judged = self.inside.memory.ledger.judge(&key, tags, stamp);
        if judged == Judged::Dead || self.is_superseded(tier, &key, number) {
            return None;
        }
        if let Some(own) = self.generation(&key, number) {
            let bytes = (summary.length, held);
            let volume = tier.volume();
            let records = || volume.records_of(named(&key, number));
            let on_disk = || records().first().map(|record| volume.held(record));
            return self.of_both(tier, &own, bytes, on_disk);
        }
        let mut facts = summary.facts(self.now);
        if row.stamp < tier.suspect_before().number() {
            suspect(&mut facts, self.now);
        }
        let shown = Shown { status: summary.status, media_type: summary.media_type, facts };
        let listed = self.listed(key, shown, judged);
        let volume = Some(Arc::clone(tier.name()));
        Some(Listed { body_bytes: summary.length, held_bytes: held, volume, ..listed })
    }

    /// An object on a volume, by its newest record.
    fn by_number(&mut self, tier: &Arc<VolumeTier>, key: &CacheKey, number: u64) -> Option<Listed> {
        let record = tier.volume().records_of(named(key, number)).into_iter().next()?;
        self.of_record(tier, &record)
    }

    /// The object of a record, if it is wanted and lives.
    fn of_record(&mut self, tier: &Arc<VolumeTier>, record: &Record) -> Option<Listed> {
        let (site, full) = key::split(&record.key)?;
        let mut stored = codec::decode(&record.head, tier.now()).ok()?;
        let key = key::cache_key(site, full);
        let judged = self.inside.memory.ledger.judge(&key, &stored.tags, Stamp::of(record.stamp));
        let is_dead = judged == Judged::Dead || record.asked < tier.dead_before().number();
        let is_wanted = self.listing.wants(&key, &stored.tags);
        if is_dead || !is_wanted || self.is_superseded(tier, &key, record.number) {
            return None;
        }
        let held = tier.volume().held(record);
        if let Some(own) = self.generation(&key, record.number) {
            return self.of_both(tier, &own, (record.length, held.length()), || Some(held));
        }
        if record.asked < tier.suspect_before().number() {
            suspect(&mut stored.facts, self.now);
        }
        let listed = self.listed(key, Shown::of(&stored), judged);
        let (held_bytes, volume) = (held.length(), Some(Arc::clone(tier.name())));
        Some(Listed { body_bytes: record.length, held_bytes, volume, ..listed })
    }

    /// An object on a volume that memory has as well: its newest head may be there alone. `bytes` are its
    /// length and what the volume holds of it.
    fn of_both(
        &mut self,
        tier: &VolumeTier,
        own: &Generation,
        (length, held): (Option<u64>, u64),
        on_disk: impl FnOnce() -> Option<Intervals>,
    ) -> Option<Listed> {
        self.met.insert(own.object());
        let judged = self.inside.memory.judge(&own.label);
        let head = own.head();
        if judged == Judged::Dead || !self.listing.wants(own.key(), &head.stored.tags) {
            return None;
        }
        let held_bytes = match length {
            Some(length) if length == held => held,
            _ => {
                let mut all = on_disk().unwrap_or_default();
                own.held().iter().for_each(|run| all.insert(run));
                all.length()
            }
        };
        let listed = self.listed(own.key().clone(), Shown::of(&head.stored), judged);
        let (is_in_memory, volume) = (!own.is_on_disk(), Some(Arc::clone(tier.name())));
        Some(Listed { body_bytes: length.or(own.length()), held_bytes, is_in_memory, volume, ..listed })
    }

    /// The generation of that number in memory.
    fn generation(&self, key: &CacheKey, number: u64) -> Option<Arc<Generation>> {
        self.inside.memory.index.all(key.digest).into_iter().find(|own| own.object() == number)
    }

    fn is_superseded(&self, tier: &VolumeTier, key: &CacheKey, number: u64) -> bool {
        tier.is_superseded(key::digest(&key.full, key.site), number)
    }

    fn listed(&self, key: CacheKey, shown: Shown, judged: Judged) -> Listed {
        let Shown { status, media_type, mut facts } = shown;
        judged.apply(&mut facts);
        let age = facts.initial_age + self.now.since(facts.received_mono);
        Listed {
            key,
            body_bytes: None,
            held_bytes: 0,
            status,
            media_type,
            received: facts.received_wall,
            age,
            lifetime: facts.lifetime,
            is_fresh: age < facts.lifetime && !judged.is_purged(&facts),
            is_in_memory: false,
            volume: None,
            besides: None,
        }
    }
}

impl Shown {
    fn of(stored: &Stored) -> Shown {
        let media_type = media_type(&stored.headers).map(String::into_boxed_str);
        Shown { status: stored.status.as_u16(), media_type, facts: stored.facts }
    }
}

fn is_of_use(catalogue: &&Catalogue) -> bool {
    !catalogue.is_broken() && catalogue.has_covered(Place { segment: 0, unit: 0 })
}

/// As [`Stored::suspect`].
fn suspect(facts: &mut Facts, now: Now) {
    facts.outdate(now.mono);
    facts.flags.insert(StoredFlags::SUSPECT);
}

fn named(key: &CacheKey, number: u64) -> Named {
    Named { digest: key::digest(&key.full, key.site), object: number }
}
