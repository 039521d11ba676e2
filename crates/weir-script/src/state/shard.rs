//! One shard of a state: entries, whose they are, and how one is chosen that goes. Times are arguments, in
//! milliseconds of the state's own clock. It must not do more work for an entry when it is full than when it
//! is not, but for a constant.

use std::collections::HashMap;

use weir_share::ByClient;

use super::{Kept, Owner, Remembered, counter_lifetime};

/// What an entry costs besides its key and value: the map's share, the list's, and its owner's.
const OVERHEAD_BYTES: usize = 192;
/// So many entries are looked at where one must go.
const LOOKED_AT: usize = 16;
/// A window is counted in so many slots.
const SLOTS: usize = 8;

/// The entries whose keys fall here.
#[derive(Debug)]
pub(super) struct Shard {
    entries_max: usize,
    bytes_max: usize,
    /// The place of each key in `entries`.
    places: HashMap<Box<str>, usize>,
    entries: Vec<Entry>,
    bytes: usize,
    /// The bytes of each client, and of nobody.
    owned: ByClient<u64>,
    nobodys: u64,
    evicted: u64,
    /// The last number of the sequence by which entries are looked at.
    drawn: u64,
}

#[derive(Debug)]
struct Entry {
    key: Box<str>,
    owner: Owner,
    until_ms: u64,
    bytes: usize,
    what: What,
}

#[derive(Debug)]
enum What {
    Value(Kept),
    Counter(Box<Counter>),
}

/// How often in the last so many milliseconds, in slots: the oldest slot counts by the part of it that is
/// still in the window.
#[derive(Debug)]
struct Counter {
    slot_ms: u64,
    /// The number of the newest slot.
    newest: u64,
    /// The newest slot and those before it, by their numbers modulo their count.
    slots: [u32; SLOTS + 1],
}

impl Counter {
    fn new(seconds: u64, now_ms: u64) -> Counter {
        let slot_ms = seconds * 1000 / SLOTS as u64;
        Counter { slot_ms, newest: now_ms / slot_ms, slots: [0; SLOTS + 1] }
    }

    /// Empties the slots whose time is over.
    fn turn(&mut self, now_ms: u64) {
        let number = now_ms / self.slot_ms;
        let passed = number.saturating_sub(self.newest).min(SLOTS as u64 + 1);
        for step in 1..=passed {
            self.slots[((self.newest + step) % (SLOTS as u64 + 1)) as usize] = 0;
        }
        self.newest = self.newest.max(number);
        if passed > SLOTS as u64 {
            self.slots = [0; SLOTS + 1];
        }
    }

    fn add(&mut self, now_ms: u64) {
        self.turn(now_ms);
        let slot = &mut self.slots[(self.newest % (SLOTS as u64 + 1)) as usize];
        *slot = slot.saturating_add(1);
    }

    fn sum(&mut self, now_ms: u64) -> u32 {
        self.turn(now_ms);
        let oldest = ((self.newest + 1) % (SLOTS as u64 + 1)) as usize;
        let whole: u64 = self.slots.iter().map(|count| u64::from(*count)).sum();
        let old = u64::from(self.slots[oldest]);
        // So much of the oldest slot has left the window.
        let left = old * (now_ms % self.slot_ms) / self.slot_ms;
        u32::try_from(whole - left).unwrap_or(u32::MAX)
    }
}

impl Shard {
    pub(super) fn new(entries_max: usize, bytes_max: usize) -> Shard {
        Shard {
            entries_max,
            bytes_max,
            places: HashMap::new(),
            entries: Vec::new(),
            bytes: 0,
            owned: ByClient::default(),
            nobodys: 0,
            evicted: 0,
            drawn: 1,
        }
    }

    /// Counts a use; `None` where there is no room for one counter.
    pub(super) fn count(&mut self, key: &str, seconds: u64, whose: Owner, now_ms: u64) -> Option<u32> {
        let until_ms = now_ms + counter_lifetime(seconds).as_millis() as u64;
        if let Some(entry) = self.living(key, now_ms)
            && let What::Counter(counter) = &mut entry.what
        {
            counter.add(now_ms);
            entry.until_ms = until_ms;
            return Some(counter.sum(now_ms));
        }
        let mut counter = Box::new(Counter::new(seconds, now_ms));
        counter.add(now_ms);
        let bytes = key.len() + OVERHEAD_BYTES + size_of::<Counter>();
        let entry = Entry { key: key.into(), owner: whose, until_ms, bytes, what: What::Counter(counter) };
        self.insert(entry, now_ms).then_some(1)
    }

    /// How often a key was counted.
    pub(super) fn counted(&mut self, key: &str, now_ms: u64) -> u32 {
        match self.living(key, now_ms).map(|entry| &mut entry.what) {
            Some(What::Counter(counter)) => counter.sum(now_ms),
            _ => 0,
        }
    }

    /// The value of a key.
    pub(super) fn value(&self, key: &str, now_ms: u64) -> Option<&Kept> {
        let entry = &self.entries[*self.places.get(key)?];
        match &entry.what {
            What::Value(kept) if entry.until_ms > now_ms => Some(kept),
            _ => None,
        }
    }

    /// Keeps a value; whether there is room for one.
    pub(super) fn set(
        &mut self,
        key: &str,
        kept: Kept,
        (owner, now_ms, until_ms): (Owner, u64, u64),
    ) -> bool {
        self.remove(key);
        let bytes = key.len() + kept.bytes() + OVERHEAD_BYTES;
        self.insert(Entry { key: key.into(), owner, until_ms, bytes, what: What::Value(kept) }, now_ms)
    }

    /// Forgets a key.
    pub(super) fn remove(&mut self, key: &str) {
        if let Some(at) = self.places.get(key).copied() {
            self.remove_at(at);
        }
    }

    pub(super) fn remembered(&self) -> Remembered {
        Remembered { entries: self.entries.len(), bytes: self.bytes, evicted: self.evicted }
    }

    fn living(&mut self, key: &str, now_ms: u64) -> Option<&mut Entry> {
        let at = *self.places.get(key)?;
        if self.entries[at].until_ms <= now_ms {
            self.remove_at(at);
            return None;
        }
        Some(&mut self.entries[at])
    }

    fn insert(&mut self, entry: Entry, now_ms: u64) -> bool {
        if entry.bytes > self.bytes_max {
            return false;
        }
        self.change(entry.owner, |bytes| *bytes += entry.bytes as u64);
        self.bytes += entry.bytes;
        self.places.insert(entry.key.clone(), self.entries.len());
        self.entries.push(entry);
        while self.entries.len() > self.entries_max || self.bytes > self.bytes_max {
            // The newest is the last one. It stays.
            let victim = self.victim(now_ms);
            if self.entries[victim].until_ms > now_ms {
                self.evicted += 1;
            }
            self.remove_at(victim);
        }
        true
    }

    /// An entry that goes: an expired one, else one of the client that has the most here; of its entries the
    /// one that would end first. The newest entry is never it.
    fn victim(&mut self, now_ms: u64) -> usize {
        let count = self.entries.len() - 1;
        if count == 0 {
            return 0;
        }
        let looked_at = [(); LOOKED_AT].map(|()| self.draw() % count);
        let rank = |at: &usize| {
            let entry = &self.entries[*at];
            let owned = entry.owner.0.map_or(self.nobodys, |client| self.owned.used(client, |bytes| *bytes));
            (entry.until_ms <= now_ms, owned, std::cmp::Reverse(entry.until_ms))
        };
        looked_at.into_iter().max_by_key(rank).unwrap_or(0)
    }

    /// The next number of a sequence that no client can steer (Knuth's MMIX).
    fn draw(&mut self) -> usize {
        self.drawn =
            self.drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.drawn >> 33) as usize
    }

    fn remove_at(&mut self, at: usize) {
        let entry = self.entries.swap_remove(at);
        self.places.remove(&entry.key);
        if let Some(moved) = self.entries.get(at)
            && let Some(place) = self.places.get_mut(&moved.key)
        {
            *place = at;
        }
        self.bytes -= entry.bytes;
        self.change(entry.owner, |bytes| *bytes -= entry.bytes as u64);
    }

    fn change(&mut self, owner: Owner, by: impl Fn(&mut u64)) {
        match owner.0 {
            Some(client) => self.owned.change(client, by),
            None => by(&mut self.nobodys),
        }
    }
}
