//! What is cached, page by page: first what only memory has, in the order of keys, then what each volume has,
//! by its catalogue in the order of keys, or without one in the order of writing.
//!
//! A page reads at most [`LOOKED_MAX`] records of a volume, so that it may be short or empty without being
//! the last one. An object that comes or goes between two pages may be listed or not. No object is listed
//! twice, except one that is written to a volume meanwhile. What a purge has made dead is not listed.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::{Buf, BufMut};
use weir_policy::{CacheKey, Now, Stored};

use super::Inside;
use crate::catalogue::{Catalogue, schema};
use crate::generation::{Generation, Residence};
use crate::ledger::{Judged, Stamp};
use crate::tier::VolumeTier;
use crate::volume::VolumeState;
use crate::volume::{Place, ReadError, Record, codec, key};

/// The most objects of a page.
pub const LISTED_MAX: usize = 10_000;
/// The most records that a page looks at.
pub const LOOKED_MAX: usize = 20_000;

/// How many objects in memory a page considers at least. Those that lie on a volume as well are not of these
/// pages.
const CONSIDERED_MIN: usize = 4096;

const IN_MEMORY: u8 = 0;
const BY_ROWS: u8 = 1;
const BY_PLACE: u8 = 2;

/// What to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Only of this site, by its hash.
    pub site: Option<u64>,
    /// Only keys that begin with one of these, each with its site. Empty: all keys.
    pub prefixes: Vec<(u64, String)>,
    /// Only what has this tag, by its hash.
    pub tag: Option<u64>,
    /// The most objects; between 1 and [`LISTED_MAX`].
    pub limit: usize,
    /// The `next` of the page before; empty for the first page.
    pub after: Vec<u8>,
}

/// An object that is cached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its key.
    pub key: CacheKey,
    /// The length of its body in bytes, if known.
    pub body_bytes: Option<u64>,
    /// Bytes of the body in memory and on volumes, each counted once.
    pub held_bytes: u64,
    /// The status.
    pub status: u16,
    /// When the response came.
    pub received: SystemTime,
    /// Its age (RFC 9111 §4.2.3).
    pub age: Duration,
    /// Its freshness lifetime, by the marks that are not written into its head yet as well.
    pub lifetime: Duration,
    /// Whether its bytes are in memory.
    pub is_in_memory: bool,
    /// Whether it is on the volume.
    pub is_on_volume: bool,
}

impl Listed {
    /// True when some of its body is missing: it is held in part.
    pub fn is_part(&self) -> bool {
        self.body_bytes != Some(self.held_bytes)
    }
}

/// A page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Its objects.
    pub objects: Vec<Listed>,
    /// What to ask for next; `None` on the last page.
    pub next: Option<Vec<u8>>,
}

/// Why nothing can be listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unlisted {
    /// No page ended there.
    #[error("no page ends there; begin again")]
    After,
    /// The volume or its catalogue cannot be read.
    #[error("the volume cannot be read: {0}")]
    Volume(String),
}

impl Listing {
    fn wants(&self, key: &CacheKey, stored: &Stored) -> bool {
        let url = key.url();
        let of_prefix = |(site, text): &(u64, String)| *site == key.site && url.starts_with(text.as_bytes());
        self.site.is_none_or(|site| site == key.site)
            && (self.prefixes.is_empty() || self.prefixes.iter().any(of_prefix))
            && self.tag.is_none_or(|tag| stored.tags.hashes().binary_search(&tag).is_ok())
    }

    /// The prefixes of the rows that may be wanted, in order.
    fn row_prefixes(&self) -> Vec<Vec<u8>> {
        let mut prefixes = match (self.tag, self.site) {
            (Some(tag), _) => vec![schema::of_tag(tag)],
            (None, _) if !self.prefixes.is_empty() => {
                self.prefixes.iter().map(|(site, text)| schema::of_site(*site, text.as_bytes())).collect()
            }
            (None, Some(site)) => vec![schema::of_site(site, b"")],
            (None, None) => vec![schema::KEYS.to_vec()],
        };
        prefixes.sort_unstable();
        prefixes
    }
}

/// A page of what is cached. May block.
///
/// # Errors
/// [`Unlisted`].
pub(crate) fn list(inside: &Arc<Inside>, listing: &Listing, now: Now) -> Result<Page, Unlisted> {
    let limit = listing.limit.clamp(1, LISTED_MAX);
    let mut lister = Lister { inside, listing, now, limit, looked: 0, objects: Vec::new() };
    let next = match listing.after.split_first() {
        None => lister.in_memory(&[]),
        Some((&IN_MEMORY, after)) => lister.in_memory(after),
        Some((&BY_ROWS | &BY_PLACE, _)) => lister.on_volumes(&listing.after),
        Some(_) => Err(Unlisted::After),
    }?;
    Ok(Page { objects: lister.objects, next })
}

struct Lister<'a> {
    inside: &'a Arc<Inside>,
    listing: &'a Listing,
    now: Now,
    limit: usize,
    looked: usize,
    objects: Vec<Listed>,
}

impl Lister<'_> {
    fn is_full(&self) -> bool {
        self.objects.len() >= self.limit || self.looked >= LOOKED_MAX
    }

    /// What only memory has, from a key and sequence number on; then the volumes.
    fn in_memory(&mut self, after: &[u8]) -> Result<Option<Vec<u8>>, Unlisted> {
        let mut first: BTreeMap<Vec<u8>, Arc<Generation>> = BTreeMap::new();
        let considered_max = self.limit.max(CONSIDERED_MIN);
        let mut is_cut = false;
        self.inside.memory.index.each(|generation| {
            let name = name_of(generation);
            let head = generation.head();
            let is_wanted = generation.residence() == Residence::Resident
                && !generation.is_on_disk()
                && self.listing.wants(generation.key(), &head.stored)
                && name.as_slice() > after
                && self.inside.memory.judge(&generation.label) != Judged::Dead;
            if is_wanted {
                first.insert(name, Arc::clone(generation));
            }
            // Some of these lie on a volume as well, and will be left out.
            if first.len() > considered_max {
                is_cut = true;
                first.pop_last();
            }
        });
        let mut last = None;
        for (name, generation) in first {
            if !self.is_on_disk(&generation) {
                if self.objects.len() >= self.limit {
                    is_cut = true;
                    break;
                }
                let judged = self.inside.memory.judge(&generation.label);
                let listed = self.listed(generation.key(), &generation.head().stored, judged);
                self.objects.push(Listed {
                    body_bytes: generation.length(),
                    held_bytes: generation.held_bytes(),
                    is_in_memory: true,
                    ..listed
                });
            }
            last = Some(name);
        }
        match last.filter(|_| is_cut) {
            Some(name) => Ok(Some([&[IN_MEMORY], name.as_slice()].concat())),
            None => self.on_volumes(&[]),
        }
    }

    fn is_on_disk(&self, generation: &Generation) -> bool {
        self.inside.volumes.tiers.hold(generation)
    }

    /// What the volumes have, one after another by identity, from a place in one of them on.
    fn on_volumes(&mut self, after: &[u8]) -> Result<Option<Vec<u8>>, Unlisted> {
        let (mut kind, from, mut rest) = match after.split_first() {
            None => (None, 0, after),
            Some((kind, after)) => {
                let (id, rest) = after.split_first_chunk().ok_or(Unlisted::After)?;
                (Some(*kind), u128::from_be_bytes(*id), rest)
            }
        };
        let mut tiers: Vec<Arc<VolumeTier>> =
            self.inside.volumes.tiers.all().iter().map(Arc::clone).collect();
        tiers.retain(|tier| tier.volume().id() >= from && tier.state() != VolumeState::Ejected);
        tiers.sort_unstable_by_key(|tier| tier.volume().id());
        for tier in &tiers {
            let id = tier.volume().id();
            // A volume that left meanwhile took its place with it.
            let (of_kind, of_rest) = if id == from { (kind, rest) } else { (None, &[][..]) };
            (kind, rest) = (None, &[]);
            let next = match self.on(tier, of_kind, of_rest)? {
                None => continue,
                Some((kind, next)) => [&[kind], &id.to_be_bytes()[..], &next[..]].concat(),
            };
            return Ok(Some(next));
        }
        Ok(None)
    }

    /// What one volume has, from a place on. Returns where to go on and in which order, or `None` at the end.
    fn on(
        &mut self,
        tier: &VolumeTier,
        kind: Option<u8>,
        after: &[u8],
    ) -> Result<Option<(u8, Vec<u8>)>, Unlisted> {
        if self.is_full() {
            // The page was full before; the next one begins here.
            let first = if rows_in_time(tier).is_some() { BY_ROWS } else { BY_PLACE };
            return Ok(Some((kind.unwrap_or(first), after.to_vec())));
        }
        let next = match kind {
            None => match rows_in_time(tier) {
                Some(rows) => self.by_rows(tier, rows, &[])?.map(|next| (BY_ROWS, next)),
                None => self.by_place(tier, &[])?.map(|next| (BY_PLACE, next)),
            },
            Some(BY_ROWS) => match tier.catalogue.as_ref().filter(|rows| !rows.is_broken()) {
                Some(rows) => self.by_rows(tier, rows, after)?.map(|next| (BY_ROWS, next)),
                // A place in the order of rows means nothing in another order.
                None => return Err(Unlisted::After),
            },
            Some(_) => self.by_place(tier, after)?.map(|next| (BY_PLACE, next)),
        };
        Ok(next)
    }

    fn by_rows(
        &mut self,
        tier: &VolumeTier,
        rows: &Catalogue,
        after: &[u8],
    ) -> Result<Option<Vec<u8>>, Unlisted> {
        let mut from = after.to_vec();
        for prefix in self.listing.row_prefixes() {
            loop {
                let mut found = Vec::new();
                let mut looked = 0;
                rows.search(&prefix, &from, &mut |key, _, _, row| {
                    looked += 1;
                    found.push((key.to_vec(), row));
                    if looked < self.limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                })
                .map_err(|error| Unlisted::Volume(error.to_string()))?;
                let is_end = looked < self.limit;
                for (key, row) in found {
                    if self.is_full() {
                        return Ok(Some(from));
                    }
                    self.looked += 1;
                    match tier.volume().record_at(row.hash, row.place) {
                        Ok(Some(record)) => self.add(tier, &record),
                        Err(ReadError::Device(error)) => return Err(Unlisted::Volume(error.to_string())),
                        Ok(None) | Err(ReadError::Gone | ReadError::NotResident) => {}
                    }
                    from = key;
                    from.push(0);
                }
                if is_end {
                    break;
                }
            }
        }
        Ok(None)
    }

    fn by_place(&mut self, tier: &VolumeTier, after: &[u8]) -> Result<Option<Vec<u8>>, Unlisted> {
        let from = match after {
            [] => Place { segment: 0, unit: 0 },
            after => {
                let mut cursor: &[u8] = after;
                let (segment, unit) = (cursor.try_get_u64_le(), cursor.try_get_u32_le());
                let (Ok(segment), Ok(unit), 0) = (segment, unit, cursor.len()) else {
                    return Err(Unlisted::After);
                };
                Place { segment, unit }
            }
        };
        let mut next = None;
        let walked = tier.volume().walk_from(from, |record| {
            if self.is_full() {
                let mut token = Vec::new();
                token.put_u64_le(record.place().segment);
                token.put_u32_le(record.place().unit);
                next = Some(token);
                return ControlFlow::Break(());
            }
            self.looked += 1;
            self.add(tier, record);
            ControlFlow::Continue(())
        });
        walked.map_err(|error| Unlisted::Volume(error.to_string()))?;
        Ok(next)
    }

    /// Adds the object of a record, if it is wanted and lives.
    fn add(&mut self, tier: &VolumeTier, record: &Record) {
        let Some((site, full)) = key::split(&record.key) else { return };
        let Ok(stored) = codec::decode(&record.head, tier.now()) else { return };
        let key = key::cache_key(site, full);
        let judged = self.inside.memory.ledger.judge(&key, &stored.tags, Stamp::of(record.stamp));
        if !self.listing.wants(&key, &stored) || judged == Judged::Dead {
            return;
        }
        let above = self.inside.memory.index.all(key.digest);
        let own = above.iter().find(|generation| generation.object() == record.number);
        // A newer head may be in memory only.
        let listed = match own {
            Some(own) => self.listed(&key, &own.head().stored, self.inside.memory.judge(&own.label)),
            None => self.listed(&key, &stored, judged),
        };
        let mut held = tier.volume().held(record);
        if let Some(own) = own {
            own.held().iter().for_each(|run| held.insert(run));
        }
        self.objects.push(Listed {
            body_bytes: record.length,
            held_bytes: held.length(),
            is_in_memory: own.is_some_and(|own| !own.is_on_disk()),
            is_on_volume: true,
            ..listed
        });
    }

    /// What its head says, with what the marks make of it.
    fn listed(&self, key: &CacheKey, stored: &Stored, judged: Judged) -> Listed {
        let mut facts = stored.facts;
        judged.apply(&mut facts);
        Listed {
            key: key.clone(),
            body_bytes: None,
            held_bytes: 0,
            status: stored.status.as_u16(),
            received: facts.received_wall,
            age: facts.initial_age + self.now.since(facts.received_mono),
            lifetime: facts.lifetime,
            is_in_memory: false,
            is_on_volume: false,
        }
    }
}

/// How often, and how far apart, the catalogue is asked whether it has covered all that was written.
const COVERED_TRIES: u32 = 100;
const COVERED_PAUSE: Duration = Duration::from_millis(20);

/// The catalogue, if it covers all that has been written, now or soon: it follows what is durable, which the
/// latest objects become within a second.
fn rows_in_time(tier: &VolumeTier) -> Option<&Catalogue> {
    let catalogue = tier.catalogue.as_ref()?;
    let end = tier.volume().written_end();
    for _ in 0..COVERED_TRIES {
        if catalogue.has_covered(end) {
            return Some(catalogue);
        }
        if catalogue.is_broken() {
            return None;
        }
        std::thread::sleep(COVERED_PAUSE);
    }
    None
}

/// The order of generations in memory: site, key, sequence number.
fn name_of(generation: &Generation) -> Vec<u8> {
    let key = generation.key();
    let mut name = schema::of_site(key.site, &key.full);
    name.extend_from_slice(&generation.label.sequence.to_be_bytes());
    name
}

#[cfg(test)]
mod tests;
