//! How much a volume holds of each owner of keys: objects, and bytes of bodies, exactly.
//!
//! An object counts in the segment that has its record. Each of its extents counts in the segment that has
//! the extent, so that the writer knows at once what goes with a segment ([`Rows`]). The writer counts every
//! change of the index ([`Books::count`], [`Books::uncount`]). The journal has the change of the count in the
//! same frame, so that both agree at every durable epoch.
//!
//! Three views differ for moments. The *rows* are the journal's: what the next frame will say. The *totals*
//! (`Shared::stocks`) are memory's: they leave out a segment that is being dropped, and removals that the log
//! does not have yet. A *recount* follows memory's index, entry by entry ([`Recount`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use smallvec::SmallVec;

use crate::format::record::ExtentRef;
use crate::index::segment::Segments;
use crate::stock::Stock;

/// About what a cell of the table takes in memory, in bytes.
pub(crate) const CELL_BYTES: u64 = 64;

/// What an entry of the index counts for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) owner: u64,
    /// The segment of its record.
    pub segment: u64,
    /// The bytes of its body in each segment.
    parts: SmallVec<[(u64, u64); 2]>,
}

impl Counted {
    /// An object whose record lies in `segment`, with those of its extents whose segments exist.
    pub(crate) fn new(segments: &Segments, owner: u64, segment: u64, extents: &[ExtentRef]) -> Counted {
        let mut parts: SmallVec<[(u64, u64); 2]> = SmallVec::new();
        for extent in extents {
            let (number, bytes) = (extent.place.segment, u64::from(extent.length));
            match parts.iter_mut().rev().find(|(segment, _)| *segment == number) {
                Some((_, own)) => *own += bytes,
                None if segments.has(number) => parts.push((number, bytes)),
                None => {}
            }
        }
        Counted { owner, segment, parts }
    }

    /// What it counts for in each segment.
    pub(crate) fn cells(&self) -> impl Iterator<Item = (u64, Stock)> + '_ {
        let own = std::iter::once((self.segment, Stock { objects: 1, bytes: 0 }));
        own.chain(self.parts.iter().map(|(segment, bytes)| (*segment, Stock { objects: 0, bytes: *bytes })))
    }

    /// The bytes of its body that are held.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|(_, bytes)| bytes).sum()
    }

    /// The bytes of its body that a segment has.
    pub(crate) fn bytes_in(&self, segment: u64) -> u64 {
        self.parts.iter().filter(|(number, _)| *number == segment).map(|(_, bytes)| bytes).sum()
    }

    /// The same without what lay in segments that are gone.
    pub(crate) fn there(&self, segments: &Segments) -> Counted {
        let mut left = self.clone();
        left.parts.retain(|(segment, _)| segments.has(*segment));
        left
    }
}

/// Segment → owner → what the segment holds of the owner. Empty cells are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rows(BTreeMap<u64, HashMap<u64, Stock>>);

impl Rows {
    pub(crate) fn add(&mut self, counted: &Counted) {
        for (segment, stock) in counted.cells().filter(|(_, stock)| !stock.is_empty()) {
            *self.0.entry(segment).or_default().entry(counted.owner).or_default() += stock;
        }
    }

    pub(crate) fn subtract(&mut self, counted: &Counted) {
        for (segment, stock) in counted.cells() {
            let Some(row) = self.0.get_mut(&segment) else { continue };
            let Some(cell) = row.get_mut(&counted.owner) else { continue };
            *cell -= stock;
            if cell.is_empty() {
                row.remove(&counted.owner);
            }
            if row.is_empty() {
                self.0.remove(&segment);
            }
        }
    }

    /// Sets a cell to what the journal says.
    pub(crate) fn set(&mut self, segment: u64, owner: u64, stock: Stock) {
        if !stock.is_empty() {
            self.0.entry(segment).or_default().insert(owner, stock);
        } else if let Some(row) = self.0.get_mut(&segment) {
            row.remove(&owner);
            if row.is_empty() {
                self.0.remove(&segment);
            }
        }
    }

    pub(crate) fn get(&self, segment: u64, owner: u64) -> Stock {
        self.0.get(&segment).and_then(|row| row.get(&owner)).copied().unwrap_or_default()
    }

    /// What a segment holds, by owner.
    pub(crate) fn row(&self, segment: u64) -> impl Iterator<Item = (u64, Stock)> + '_ {
        self.0.get(&segment).into_iter().flatten().map(|(owner, stock)| (*owner, *stock))
    }

    /// Forgets a segment.
    pub(crate) fn drop_row(&mut self, segment: u64) {
        self.0.remove(&segment);
    }

    /// The segments that have records of an owner's objects, oldest first, beginning with segment `from`.
    pub(crate) fn segments_of(&self, owner: u64, from: u64) -> Vec<u64> {
        let has = |row: &HashMap<u64, Stock>| row.get(&owner).is_some_and(|stock| stock.objects > 0);
        self.0.range(from..).filter(|(_, row)| has(row)).map(|(segment, _)| *segment).collect()
    }

    /// All cells, by segment and owner, in order.
    pub(crate) fn cells(&self) -> Vec<(u64, u64, Stock)> {
        let of_row = |(segment, row): (&u64, &HashMap<u64, Stock>)| {
            let segment = *segment;
            row.iter().map(|(owner, stock)| (segment, *owner, *stock)).collect::<Vec<_>>()
        };
        let mut cells: Vec<(u64, u64, Stock)> = self.0.iter().flat_map(of_row).collect();
        cells.sort_unstable_by_key(|(segment, owner, _)| (*segment, *owner));
        cells
    }

    /// How many cells there are.
    pub(crate) fn len(&self) -> usize {
        self.0.values().map(HashMap::len).sum()
    }

    /// What all segments hold, by owner.
    pub(crate) fn totals(&self) -> HashMap<u64, Stock> {
        let mut totals: HashMap<u64, Stock> = HashMap::new();
        for (owner, stock) in self.0.values().flatten() {
            *totals.entry(*owner).or_default() += *stock;
        }
        totals
    }
}

/// What the volume holds of each owner. Any thread may read it.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    owners: parking_lot::Mutex<HashMap<u64, Stock>>,
    cells: std::sync::atomic::AtomicU64,
}

impl Totals {
    pub(crate) fn change(&self, owner: u64, act: impl FnOnce(&mut Stock)) {
        let mut owners = self.owners.lock();
        let total = owners.entry(owner).or_default();
        act(total);
        if total.is_empty() {
            owners.remove(&owner);
        }
    }

    /// Replaces all totals. Returns the owners whose totals were different.
    pub(crate) fn correct(&self, totals: HashMap<u64, Stock>) -> BTreeSet<u64> {
        let mut owners = self.owners.lock();
        let before = std::mem::replace(&mut *owners, totals);
        let all = before.keys().chain(owners.keys());
        all.filter(|owner| before.get(owner) != owners.get(owner)).copied().collect()
    }

    /// A copy of all totals.
    pub(crate) fn all(&self) -> HashMap<u64, Stock> {
        self.owners.lock().clone()
    }

    /// The total of one owner.
    pub(crate) fn of(&self, owner: u64) -> Stock {
        self.owners.lock().get(&owner).copied().unwrap_or_default()
    }

    pub(crate) fn set_cells(&self, cells: u64) {
        self.cells.store(cells, std::sync::atomic::Ordering::Relaxed);
    }

    /// About what the writer's table takes in memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.cells.load(std::sync::atomic::Ordering::Relaxed) * CELL_BYTES
    }
}

#[cfg(test)]
impl Totals {
    /// Makes a total wrong, for a recount to find.
    pub(crate) fn corrupt_for_tests(&self, owner: u64) {
        self.change(owner, |total| total.bytes += 1);
    }
}
