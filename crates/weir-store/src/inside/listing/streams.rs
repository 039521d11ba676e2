//! What memory and the rows of volumes have, each in the order of names and read some at a time.
//!
//! A name is where an object stands: site, key and number, or the number alone where a tag is searched. What
//! has no number, since it was never written to a volume, has its sequence number behind all numbers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

use super::listed::Unlisted;
use super::wanted::Listing;
use crate::catalogue::{Catalogue, Search, Seen, name_by_key};
use crate::generation::{Generation, Residence};
use crate::ledger::Judged;
use crate::memory::Memory;
use crate::tier::VolumeTier;

/// How many names of memory are read ahead, at least and at most, and the most bytes that they take.
const AHEAD_MIN: usize = 4096;
const AHEAD_MAX: usize = 65_536;
const AHEAD_BYTES_MAX: usize = 16 << 20;
/// How many rows are read at once.
const ROWS_AT_ONCE: usize = 2048;
/// Above all numbers of objects; as bytes it is still below any text of a key.
const UNNUMBERED: u64 = 1 << 56;

/// The name of an object.
fn name_of(listing: &Listing, generation: &Generation) -> Vec<u8> {
    let id = match generation.object() {
        0 => UNNUMBERED | generation.label.sequence,
        number => number,
    };
    if listing.tag.is_some() {
        return id.to_be_bytes().to_vec();
    }
    let key = generation.key();
    name_by_key(key.site, &key.full, id)
}

/// What memory has.
#[derive(Debug)]
pub(super) struct InMemory {
    ahead: VecDeque<(Vec<u8>, Weak<Generation>)>,
    most: usize,
    is_at_end: bool,
}

impl InMemory {
    /// `limit`: how many objects are wanted at most.
    pub(super) fn new(limit: Option<usize>) -> InMemory {
        let most = limit.map_or(AHEAD_MAX, |limit| (4 * limit).clamp(AHEAD_MIN, AHEAD_MAX));
        InMemory { ahead: VecDeque::new(), most, is_at_end: false }
    }

    /// Has no more.
    pub(super) fn none() -> InMemory {
        InMemory { ahead: VecDeque::new(), most: 0, is_at_end: true }
    }

    /// The next name behind `after`, if there is one.
    pub(super) fn peek(&mut self, memory: &Memory, listing: &Listing, after: &[u8]) -> Option<&[u8]> {
        if self.ahead.is_empty() && !self.is_at_end {
            self.read(memory, listing, after);
        }
        self.ahead.front().map(|(name, _)| name.as_slice())
    }

    /// What stands next, if it has that name.
    pub(super) fn take(&mut self, name: &[u8]) -> Option<Weak<Generation>> {
        self.ahead.pop_front_if(|(own, _)| own == name).map(|(_, generation)| generation)
    }

    /// Walks over the index of memory.
    fn read(&mut self, memory: &Memory, listing: &Listing, after: &[u8]) {
        let mut first: BTreeMap<Vec<u8>, Weak<Generation>> = BTreeMap::new();
        let (mut bytes, mut is_cut) = (0, false);
        memory.index.each(|generation| {
            let is_wanted = generation.residence() == Residence::Resident
                && listing.wants(generation.key(), &generation.head().stored.tags)
                && memory.judge(&generation.label) != Judged::Dead;
            if !is_wanted {
                return;
            }
            let name = name_of(listing, generation);
            let is_beyond = is_cut && first.last_key_value().is_some_and(|(last, _)| name > *last);
            if name.as_slice() <= after || is_beyond {
                return;
            }
            bytes += name.len();
            first.insert(name, Arc::downgrade(generation));
            while first.len() > self.most || (bytes > AHEAD_BYTES_MAX && first.len() > 1) {
                is_cut = true;
                if let Some((name, _)) = first.pop_last() {
                    bytes -= name.len();
                }
            }
        });
        self.is_at_end = !is_cut;
        self.ahead = first.into_iter().collect();
    }
}

/// What the rows of a volume say.
#[derive(Debug)]
pub(super) struct OfRows<'a> {
    pub(super) tier: &'a Arc<VolumeTier>,
    catalogue: &'a Catalogue,
    searches: VecDeque<Search>,
    from: Vec<u8>,
    ahead: VecDeque<Seen>,
    at_once: usize,
}

impl<'a> OfRows<'a> {
    /// The rows behind a name; an empty one is before all.
    pub(super) fn new(
        tier: &'a Arc<VolumeTier>,
        catalogue: &'a Catalogue,
        listing: &Listing,
        after: &[u8],
        limit: Option<usize>,
    ) -> OfRows<'a> {
        let from = if after.is_empty() { Vec::new() } else { [after, &[0]].concat() };
        let at_once = limit.map_or(ROWS_AT_ONCE, |limit| (limit + 1).min(ROWS_AT_ONCE));
        let searches = listing.searches().into();
        OfRows { tier, catalogue, searches, from, ahead: VecDeque::new(), at_once }
    }

    /// The next name, if there is one; `looked` is told how many rows were read for it.
    pub(super) fn peek(
        &mut self,
        looked: &mut dyn FnMut(usize) -> Result<(), Unlisted>,
    ) -> Result<Option<&[u8]>, Unlisted> {
        while self.ahead.is_empty() {
            let Some(search) = self.searches.front() else { break };
            let found = self.catalogue.objects(search, &self.from, self.at_once);
            let found = found.map_err(|error| Unlisted::Volume(error.to_string()))?;
            self.ahead = found.seen.into();
            match found.next {
                Some(next) => self.from = next,
                // Names of the next search come behind: the searches are in order.
                None => drop(self.searches.pop_front()),
            }
            self.at_once = ROWS_AT_ONCE;
            looked(found.looked)?;
        }
        Ok(self.ahead.front().map(|seen| seen.name.as_slice()))
    }

    /// What stands next, if it has that name.
    pub(super) fn take(&mut self, name: &[u8]) -> Option<Seen> {
        self.ahead.pop_front_if(|seen| seen.name == name)
    }
}
