//! A bounded list of what weighs most in a stream. It must not know what it lists.
//!
//! These are the counters of Misra and Gries ("Finding repeated elements", 1982) with the bounds of
//! Space-Saving (Metwally, Agrawal and El Abbadi, ICDT 2005), pruned in batches as in Anderson et al. ("A
//! high-performance algorithm for identifying frequent items in data streams", IMC 2017), and merged as in
//! Agarwal et al. ("Mergeable summaries", PODS 2012). Of a stream with the weight N, a sketch that keeps m
//! rows has every item that weighs more than N/m. It knows the weight of each row to N/m, however many items
//! there are, in whatever order they come, and however often sketches were merged.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// A sketch of items `I`, each with a key of 64 bits.
#[derive(Clone, Debug)]
pub(super) struct Sketch<I> {
    rows: HashMap<u64, Row<I>>,
    kept: usize,
    /// What an item weighs at most that has no row.
    floor: u64,
    /// The weight of all.
    total: u64,
}

/// What is known of an item: it weighs between `low` and `high`.
#[derive(Clone, Debug)]
pub(super) struct Row<I> {
    pub(super) item: I,
    pub(super) low: u64,
    pub(super) high: u64,
    /// The variance of the weight that sampling brings in.
    pub(super) variance: f64,
}

/// What is added to an item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Added {
    pub(super) weight: u64,
    pub(super) variance: f64,
}

impl<I: Clone> Sketch<I> {
    /// One that keeps so many rows; up to twice as many between two prunings.
    pub(super) fn new(kept: usize) -> Sketch<I> {
        Sketch { rows: HashMap::new(), kept, floor: 0, total: 0 }
    }

    /// The weight of all that was added.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Adds to the item of this key.
    pub(super) fn add(&mut self, key: u64, item: impl FnOnce() -> I, added: Added) {
        let Added { weight, variance } = added;
        self.total = self.total.saturating_add(weight);
        match self.rows.entry(key) {
            Entry::Occupied(row) => row.into_mut().add(weight, weight, variance),
            Entry::Vacant(place) => {
                let high = self.floor.saturating_add(weight);
                place.insert(Row { item: item(), low: weight, high, variance });
            }
        }
        if self.rows.len() >= 2 * self.kept {
            self.prune();
        }
    }

    /// Adds all of another sketch.
    pub(super) fn merge(&mut self, other: &Sketch<I>) {
        for (key, row) in &mut self.rows {
            if !other.rows.contains_key(key) {
                row.high = row.high.saturating_add(other.floor);
            }
        }
        for (key, added) in &other.rows {
            match self.rows.entry(*key) {
                Entry::Occupied(row) => row.into_mut().add(added.low, added.high, added.variance),
                Entry::Vacant(place) => {
                    let high = self.floor.saturating_add(added.high);
                    place.insert(Row { high, ..added.clone() });
                }
            }
        }
        self.floor = self.floor.saturating_add(other.floor);
        self.total = self.total.saturating_add(other.total);
        self.prune();
    }

    /// Drops the lightest rows beyond those that are kept.
    fn prune(&mut self) {
        if self.rows.len() <= self.kept {
            return;
        }
        let mut highs: Vec<u64> = self.rows.values().map(|row| row.high).collect();
        let (_, cut, _) = highs.select_nth_unstable_by(self.kept, |a, b| b.cmp(a));
        let cut = *cut;
        let heavier = highs[..self.kept].iter().filter(|high| **high > cut).count();
        // Of those that weigh the same as the first one dropped, as many stay as there is room for.
        let mut room = self.kept - heavier;
        self.rows.retain(|_, row| {
            let stays = row.high > cut || (row.high == cut && room > 0);
            if row.high == cut {
                room = room.saturating_sub(1);
            }
            stays
        });
        self.floor = self.floor.max(cut);
    }

    /// Prunes, and gives back what room it no longer needs.
    pub(super) fn settle(&mut self) {
        self.prune();
        self.rows.shrink_to_fit();
    }

    /// The rows in no order.
    pub(super) fn rows(&self) -> impl Iterator<Item = (u64, &Row<I>)> {
        self.rows.iter().map(|(key, row)| (*key, row))
    }

    /// How many rows there is room for.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.rows.capacity()
    }
}

impl<I> Row<I> {
    pub(super) fn add(&mut self, low: u64, high: u64, variance: f64) {
        self.low = self.low.saturating_add(low);
        self.high = self.high.saturating_add(high);
        self.variance += variance;
    }

    /// How far the weight may be from `low`: what the sketch does not know, and twice the standard deviation
    /// of the sampling.
    pub(super) fn error(&self) -> u64 {
        (self.high - self.low).saturating_add((2.0 * self.variance.sqrt()).ceil() as u64)
    }
}
