//! How often a key was asked for lately: a count-min sketch behind doors (Einziger, Friedman and Manes,
//! "TinyLFU", ACM TOS '17).
//!
//! The first time that a key is noted opens its door (a Bloom filter). From the second time on it counts in
//! the sketch, in four counters of four bits, of which the smallest says how often. So a key that is asked
//! for once takes bits, not counters. After a period of notes the sketch ages: counters are halved, and the
//! doors of the period before are shut. So it knows what was noted within the last whole period, and forgets
//! what was noted long ago.
//!
//! Noting and asking take no lock. Between two agings an estimate is never less than the truth, up to
//! [`FREQUENCY_MAX`].

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest estimate: a door, and a counter of four bits.
#[cfg(test)]
pub(crate) const FREQUENCY_MAX: u32 = 16;
/// How many counters, and bits of a door, a key has.
const HASHES: u64 = 4;
/// Counters in a word of the sketch.
const COUNTERS_A_WORD: u64 = 16;
const COUNTER_BITS: u64 = 4;
const COUNTER_MAX: u64 = 15;
/// The mask for the counters of a word after they are halved.
const HALVED_MASK: u64 = 0x7777_7777_7777_7777;
/// Notes between two agings, for each object that the sketch is made for.
const PERIOD_PER_OBJECT: u64 = 2;
/// Bits of a door for each note of a period: with four hashes one key in sixty is mistaken for another.
const DOOR_BITS_PER_NOTE: u64 = 10;
/// Counters for each object.
const COUNTERS_PER_OBJECT: u64 = 8;
/// Words that are made together when the first of them is written: 4 KiB.
const PAGE_WORDS: usize = 512;
/// The fewest objects that a sketch is sized for.
const OBJECTS_MIN: u64 = 1 << 10;

/// How large a sketch is. It is the same when it is written and read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Words of counters; a power of two.
    pub(crate) counter_words: u64,
    /// Words of each of the two doors; a power of two.
    pub(crate) door_words: u64,
    /// Notes between two agings.
    pub(crate) period: u64,
}

impl Extent {
    /// For so many objects, in at most so much memory.
    pub(crate) fn of(objects: u64, bytes_max: u64) -> Extent {
        let mut objects = objects.max(OBJECTS_MIN);
        loop {
            let extent = Extent::exactly(objects);
            if extent.memory_bytes() <= bytes_max || objects == OBJECTS_MIN {
                return extent;
            }
            objects = (objects / 2).max(OBJECTS_MIN);
        }
    }

    fn exactly(objects: u64) -> Extent {
        let period = objects * PERIOD_PER_OBJECT;
        Extent {
            counter_words: (objects * COUNTERS_PER_OBJECT).div_ceil(COUNTERS_A_WORD).next_power_of_two(),
            door_words: (period * DOOR_BITS_PER_NOTE).div_ceil(64).next_power_of_two(),
            period,
        }
    }

    /// What a sketch of this size takes, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.counter_words + 2 * self.door_words) * 8
    }
}

/// The sketch.
#[derive(Debug)]
pub(crate) struct Sketch {
    extent: Extent,
    counters: Words,
    doors: [Words; 2],
    /// Notes since the last aging.
    noted: AtomicU64,
    /// How often it has aged. Its lowest bit says which doors are this period's.
    age: AtomicU64,
}

/// The two hashes that give all places of a key (Kirsch and Mitzenmacher, "Less hashing, same performance").
#[derive(Clone, Copy)]
struct Hashes {
    first: u64,
    step: u64,
}

impl Hashes {
    fn of(digest: u128) -> Hashes {
        Hashes { first: digest as u64, step: (digest >> 64) as u64 | 1 }
    }

    fn all(self) -> impl Iterator<Item = u64> {
        // The step is multiplied, so that the places of a key in small tables do not lie in a row.
        (1..=HASHES)
            .map(move |number| self.first.wrapping_add(self.step.wrapping_mul(number)).rotate_left(17))
    }
}

/// Words that are 0 until they are written. Those of a volume that nobody asks take no memory.
#[derive(Debug)]
struct Words {
    pages: Box<[OnceLock<Box<[AtomicU64]>>]>,
    count: usize,
}

impl Words {
    fn new(count: u64) -> Words {
        let count = count as usize;
        Words { pages: (0..count.div_ceil(PAGE_WORDS)).map(|_| OnceLock::new()).collect(), count }
    }

    fn load(&self, at: usize) -> u64 {
        let page = self.pages[at / PAGE_WORDS].get();
        page.map_or(0, |page| page[at % PAGE_WORDS].load(Ordering::Relaxed))
    }

    /// A word that is to be written.
    fn word(&self, at: usize) -> &AtomicU64 {
        let make = || (0..PAGE_WORDS).map(|_| AtomicU64::new(0)).collect();
        &self.pages[at / PAGE_WORDS].get_or_init(make)[at % PAGE_WORDS]
    }

    /// Those that may have been written.
    fn written(&self) -> impl Iterator<Item = &AtomicU64> {
        self.pages.iter().filter_map(OnceLock::get).flatten()
    }

    fn all(&self) -> impl Iterator<Item = u64> {
        (0..self.count).map(|at| self.load(at))
    }

    fn restore(&self, words: &mut dyn Iterator<Item = u64>) {
        for (at, value) in (0..self.count).zip(words) {
            if value != 0 {
                self.word(at).store(value, Ordering::Relaxed);
            }
        }
    }
}

impl Sketch {
    /// An empty sketch.
    pub(crate) fn new(extent: Extent) -> Sketch {
        let doors = [Words::new(extent.door_words), Words::new(extent.door_words)];
        let (noted, age) = (AtomicU64::new(0), AtomicU64::new(0));
        Sketch { counters: Words::new(extent.counter_words), extent, doors, noted, age }
    }

    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// Notes that a key was asked for.
    pub(crate) fn note(&self, digest: u128) {
        let hashes = Hashes::of(digest);
        let current = self.age.load(Ordering::Relaxed) as usize & 1;
        let was_known = self.is_behind(current ^ 1, hashes);
        if !self.open(current, hashes) || was_known {
            for hash in hashes.all() {
                self.count(hash);
            }
        }
        self.noted.fetch_add(1, Ordering::Relaxed);
    }

    /// How often a key was asked for lately, at most [`FREQUENCY_MAX`].
    pub(crate) fn frequency(&self, digest: u128) -> u32 {
        let hashes = Hashes::of(digest);
        if !self.is_behind(0, hashes) && !self.is_behind(1, hashes) {
            return 0;
        }
        let least = hashes.all().map(|hash| {
            let (word, shift) = self.counter(hash);
            self.counters.load(word) >> shift & COUNTER_MAX
        });
        1 + least.min().unwrap_or(0) as u32
    }

    /// Whether a period has passed since it aged.
    pub(crate) fn is_due(&self) -> bool {
        self.noted.load(Ordering::Relaxed) >= self.extent.period
    }

    /// Halves the counters, and shuts the doors of the period before. Never by two threads at once.
    pub(crate) fn grow_old(&self) {
        self.noted.store(0, Ordering::Relaxed);
        for word in self.counters.written() {
            // Invariant: the closure never refuses.
            let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |counters| {
                Some(counters >> 1 & HALVED_MASK)
            });
        }
        let previous = self.age.load(Ordering::Relaxed) as usize & 1 ^ 1;
        self.doors[previous].written().for_each(|word| word.store(0, Ordering::Relaxed));
        self.age.fetch_add(1, Ordering::Relaxed);
    }

    /// The word and the shift of a counter.
    fn counter(&self, hash: u64) -> (usize, u64) {
        let word = hash & (self.extent.counter_words - 1);
        (word as usize, (hash >> 60) * COUNTER_BITS)
    }

    fn count(&self, hash: u64) {
        let (word, shift) = self.counter(hash);
        // A counter that is full stays full.
        let _ = self.counters.word(word).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |counters| {
            (counters >> shift & COUNTER_MAX < COUNTER_MAX).then(|| counters + (1 << shift))
        });
    }

    /// The word and the bit of a door.
    fn bit(&self, hash: u64) -> (usize, u64) {
        let bit = hash >> 5 & (self.extent.door_words * 64 - 1);
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    fn is_behind(&self, door: usize, hashes: Hashes) -> bool {
        hashes.all().all(|hash| {
            let (word, bit) = self.bit(hash);
            self.doors[door].load(word) & bit != 0
        })
    }

    /// Opens a key's door. True where it was shut.
    fn open(&self, door: usize, hashes: Hashes) -> bool {
        let mut was_shut = false;
        for hash in hashes.all() {
            let (word, bit) = self.bit(hash);
            if self.doors[door].load(word) & bit == 0 {
                was_shut |= self.doors[door].word(word).fetch_or(bit, Ordering::Relaxed) & bit == 0;
            }
        }
        was_shut
    }

    /// Notes since the last aging, and how often it has aged.
    pub(crate) fn course(&self) -> (u64, u64) {
        (self.noted.load(Ordering::Relaxed), self.age.load(Ordering::Relaxed))
    }

    /// All words: the counters, then both doors.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> {
        let [first, second] = &self.doors;
        self.counters.all().chain(first.all()).chain(second.all())
    }

    /// One of those words, as [`Sketch::words`] and [`Sketch::course`] returned them.
    pub(crate) fn restored(
        extent: Extent,
        (noted, age): (u64, u64),
        words: &mut dyn Iterator<Item = u64>,
    ) -> Sketch {
        let sketch = Sketch::new(extent);
        let [first, second] = &sketch.doors;
        for part in [&sketch.counters, first, second] {
            part.restore(words);
        }
        sketch.noted.store(noted, Ordering::Relaxed);
        sketch.age.store(age, Ordering::Relaxed);
        sketch
    }
}

#[cfg(test)]
mod tests;
