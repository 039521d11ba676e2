//! The index: key digest → places of records, eight bytes each, in RAM.
//!
//! A digest's hash chooses a shard and gives a tag of 24 bits. An entry is the tag and a location (40 bits,
//! in units of 64 bytes). A shard is a sorted list without empty slots, so that an object costs 8 bytes and
//! the slack of growth (an eighth). The tag is a hint: readers compare the full key at the record. Only the
//! volume's writer changes the index.

pub(crate) mod pending_removals;
pub(crate) mod segment;
pub(crate) mod stocks;
pub(crate) mod uses;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use smallvec::SmallVec;

/// The bits of a location.
pub(crate) const LOCATION_BITS: u32 = 40;
const TAG_BITS: u32 = 64 - LOCATION_BITS;
const LOCATION_MASK: u64 = (1 << LOCATION_BITS) - 1;
/// A shard grows by this part of its length, and by a few entries.
const GROWTH_PART: usize = 8;
const GROWTH_MIN: usize = 4;
/// What an allocation costs beside its bytes, about, in bytes.
const ALLOCATION_BYTES: u64 = 16;

/// Where a record begins: the segment's slot and the unit in it, in 40 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Location(u64);

impl Location {
    pub(crate) fn of(bits: u64) -> Location {
        Location(bits & LOCATION_MASK)
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }
}

/// The half of a digest that the index uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(pub u64);

impl KeyHash {
    /// The hash of a digest.
    pub fn of(digest: u128) -> KeyHash {
        KeyHash((digest >> 64) as u64)
    }
}

#[derive(Debug)]
pub(crate) struct Index {
    shards: Box<[RwLock<Vec<u64>>]>,
    shard_bits: u32,
    count: AtomicU64,
}

/// The locations that may hold a digest's records.
pub(crate) type Locations = SmallVec<[Location; 4]>;

impl Index {
    pub(crate) fn new(shard_bits: u32) -> Index {
        let shards = (0..1usize << shard_bits).map(|_| RwLock::new(Vec::new())).collect();
        Index { shards, shard_bits, count: AtomicU64::new(0) }
    }

    fn place(&self, hash: KeyHash) -> (usize, u64) {
        let shard = hash.0 >> (64 - self.shard_bits);
        let tag = (hash.0 << self.shard_bits) >> (64 - TAG_BITS);
        (shard as usize, tag << LOCATION_BITS)
    }

    /// The locations of that digest's records, perhaps with others that share its tag. The newest place comes
    /// last, unless slots were used again.
    pub(crate) fn find(&self, hash: KeyHash) -> Locations {
        let (shard, tag) = self.place(hash);
        let entries = self.shards[shard].read();
        let first = first_of(&entries, tag);
        let same = entries[first..].iter().take_while(|entry| *entry & !LOCATION_MASK == tag);
        same.map(|entry| Location::of(*entry)).collect()
    }

    /// Whether the index has exactly this entry.
    pub(crate) fn has(&self, hash: KeyHash, location: Location) -> bool {
        let (shard, tag) = self.place(hash);
        search(&self.shards[shard].read(), tag | location.0).is_ok()
    }

    /// Whether a shard still has an entry.
    pub(crate) fn has_entry(&self, shard: usize, entry: u64) -> bool {
        search(&self.shards[shard].read(), entry).is_ok()
    }

    /// Adds an entry. False if it was there already.
    pub(crate) fn insert(&self, hash: KeyHash, location: Location) -> bool {
        let (shard, tag) = self.place(hash);
        let mut entries = self.shards[shard].write();
        let Err(at) = search(&entries, tag | location.0) else { return false };
        if entries.len() == entries.capacity() {
            let more = entries.len() / GROWTH_PART + GROWTH_MIN;
            entries.reserve_exact(more);
        }
        entries.insert(at, tag | location.0);
        self.count.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Removes an entry. False if it was not there.
    pub(crate) fn remove(&self, hash: KeyHash, location: Location) -> bool {
        let (shard, tag) = self.place(hash);
        let mut entries = self.shards[shard].write();
        let Ok(at) = search(&entries, tag | location.0) else { return false };
        entries.remove(at);
        self.count.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// Keeps the entries of a shard for which `is_kept` holds. Returns how many were removed.
    pub(crate) fn retain(&self, shard: usize, mut is_kept: impl FnMut(Location) -> bool) -> u64 {
        let mut entries = self.shards[shard].write();
        let before = entries.len();
        entries.retain(|entry| is_kept(Location::of(*entry)));
        let gone = (before - entries.len()) as u64;
        if entries.len() < entries.capacity() / 2 {
            let room = entries.len() + entries.len() / GROWTH_PART;
            entries.shrink_to(room);
        }
        self.count.fetch_sub(gone, Ordering::Relaxed);
        gone
    }

    /// The entries of a shard in the form in which a checkpoint has them, sorted.
    pub(crate) fn shard(&self, shard: usize) -> Vec<u64> {
        self.shards[shard].read().clone()
    }

    /// Whether `is_one` holds for an entry of a shard.
    pub(crate) fn any(&self, shard: usize, is_one: impl Fn(Location) -> bool) -> bool {
        self.shards[shard].read().iter().any(|entry| is_one(Location::of(*entry)))
    }

    pub(crate) fn shard_len(&self, shard: usize) -> usize {
        self.shards[shard].read().len()
    }

    /// Fills an empty shard with sorted entries. False if the shard is not empty or the entries are not
    /// sorted.
    pub(crate) fn fill(&self, shard: usize, entries: Vec<u64>) -> bool {
        let mut own = self.shards[shard].write();
        if !own.is_empty() || !entries.is_sorted_by(|left, right| left < right) {
            return false;
        }
        self.count.fetch_add(entries.len() as u64, Ordering::Relaxed);
        *own = entries;
        true
    }

    /// Whether an entry of a shard may belong to a hash.
    pub(crate) fn is_of(&self, shard: usize, entry: u64, hash: KeyHash) -> bool {
        self.place(hash) == (shard, entry & !LOCATION_MASK)
    }

    /// A hash that an entry of a shard may belong to: the bits that the index knows of it.
    pub(crate) fn hash_of(&self, shard: usize, entry: u64) -> KeyHash {
        let tag = entry >> LOCATION_BITS;
        KeyHash((shard as u64) << (64 - self.shard_bits) | tag << (64 - self.shard_bits - TAG_BITS))
    }

    /// Removes all entries, and gives their memory back.
    pub(crate) fn forget(&self) {
        for shard in &self.shards {
            let entries = std::mem::take(&mut *shard.write());
            self.count.fetch_sub(entries.len() as u64, Ordering::Relaxed);
        }
    }

    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    pub(crate) fn shard_bits(&self) -> u32 {
        self.shard_bits
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Its memory in bytes, by capacity. Walks over the shards.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let own = self.shards.len() * size_of::<RwLock<Vec<u64>>>();
        let lists = self.shards.iter().map(|shard| shard.read().capacity() as u64 * 8 + ALLOCATION_BYTES);
        own as u64 + lists.sum::<u64>()
    }
}

/// Where an entry stands among the sorted ones, or would stand.
fn search(entries: &[u64], entry: u64) -> Result<usize, usize> {
    let at = first_of(entries, entry);
    if entries.get(at) == Some(&entry) { Ok(at) } else { Err(at) }
}

/// The position of the first of the sorted entries that is not below `wanted`: an entry, or a tag without a
/// location. Tags are spread evenly, so a guess comes close; from there the search goes in steps that
/// double.
fn first_of(entries: &[u64], wanted: u64) -> usize {
    let guess = ((wanted >> LOCATION_BITS) as usize * entries.len()) >> TAG_BITS;
    let (mut low, mut high) = (guess, guess);
    let mut step = FIRST_STEP;
    while low > 0 && entries[low - 1] >= wanted {
        high = low - 1;
        low = low.saturating_sub(step);
        step *= 2;
    }
    step = FIRST_STEP;
    while high < entries.len() && entries[high] < wanted {
        low = high + 1;
        high = (high + step).min(entries.len());
        step *= 2;
    }
    low + entries[low..high].partition_point(|entry| *entry < wanted)
}

/// A cache line of entries.
const FIRST_STEP: usize = 8;

#[cfg(test)]
mod tests;
