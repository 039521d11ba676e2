//! How much a volume holds of each owner of keys: objects, and bytes of bodies, exactly.
//!
//! An object counts in the segment that has its record, and each of its extents in the segment in which that lies, so that what
//! goes with a segment is known at once ([`Rows`]). The writer counts every change of the index ([`Books::count`],
//! [`Books::uncount`]), and the journal has what changed in the same frame: at every durable epoch both agree.
//!
//! Three views differ for moments. The *rows* are the journal's: what it will say with the next frame. The *totals*
//! (`Shared::stocks`) are memory's: without what lies in a segment that is being dropped, and without removals that the log does
//! not have yet. A *recount* follows memory's index, entry by entry ([`Recount`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use smallvec::SmallVec;

use crate::format::record::{Described, ExtentRef, Kind, Place};
use crate::index::Location;
use crate::read::reader::{ReadError, Wait};
use crate::shared::Shared;
use crate::stock::Stock;

/// What a cell of the table takes in memory, in bytes, about.
pub(crate) const CELL_BYTES: u64 = 64;

/// What an entry of the index counts for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) owner: u64,
    /// The segment of its record.
    segment: u64,
    /// Bytes of its body by the segment that has them.
    parts: SmallVec<[(u64, u64); 2]>,
}

impl Counted {
    /// An object whose record lies in `segment`, with those of its extents that are there.
    pub(crate) fn new(shared: &Shared, owner: u64, segment: u64, extents: &[ExtentRef]) -> Counted {
        let mut parts: SmallVec<[(u64, u64); 2]> = SmallVec::new();
        for extent in extents {
            let (number, bytes) = (extent.place.segment, u64::from(extent.length));
            match parts.iter_mut().rev().find(|(segment, _)| *segment == number) {
                Some((_, own)) => *own += bytes,
                None if shared.segments.has(number) => parts.push((number, bytes)),
                None => {}
            }
        }
        Counted { owner, segment, parts }
    }

    /// What it is in each segment.
    fn cells(&self) -> impl Iterator<Item = (u64, Stock)> + '_ {
        let own = std::iter::once((self.segment, Stock { objects: 1, bytes: 0 }));
        own.chain(self.parts.iter().map(|(segment, bytes)| (*segment, Stock { objects: 0, bytes: *bytes })))
    }

    /// How many bytes of its body there are.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|(_, bytes)| bytes).sum()
    }

    /// How many bytes of its body a segment has.
    pub(crate) fn bytes_in(&self, segment: u64) -> u64 {
        self.parts.iter().filter(|(number, _)| *number == segment).map(|(_, bytes)| bytes).sum()
    }

    /// What is left of it: without what lay in segments that are gone.
    fn there(&self, shared: &Shared) -> Counted {
        let mut left = self.clone();
        left.parts.retain(|(segment, _)| shared.segments.has(*segment));
        left
    }
}

impl Shared {
    /// What the record there counts for. Its body is not looked at.
    ///
    /// # Errors
    /// [`ReadError`]: its description cannot be read.
    pub(crate) fn counted_at(&self, location: Location) -> Result<Counted, ReadError> {
        let (segment, place) = self.segments.at(location).ok_or(ReadError::Gone)?;
        self.described(&segment, place, Wait::Device, |described, _| self.counted(described, place))?
            .ok_or(ReadError::Gone)
    }

    /// What a record counts for that lies there; `None` where it is none of an object.
    pub(crate) fn counted(&self, described: &Described<'_>, place: Place) -> Option<Counted> {
        let extents = match described.header.kind {
            Kind::Head => described.extents(),
            Kind::Object => vec![ExtentRef { offset: 0, length: described.header.count, place }],
            Kind::Extent | Kind::Gone => return None,
        };
        Some(Counted::new(self, (self.owner_of)(described.key), place.segment, &extents))
    }
}

/// Segment → owner → what the segment holds of it. Nothing is not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rows(BTreeMap<u64, HashMap<u64, Stock>>);

impl Rows {
    fn add(&mut self, counted: &Counted) {
        for (segment, stock) in counted.cells().filter(|(_, stock)| !stock.is_empty()) {
            *self.0.entry(segment).or_default().entry(counted.owner).or_default() += stock;
        }
    }

    fn subtract(&mut self, counted: &Counted) {
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

    /// A segment is no more.
    pub(crate) fn drop_row(&mut self, segment: u64) {
        self.0.remove(&segment);
    }

    /// The segments from one on that have records of an owner's objects, oldest first.
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
    fn totals(&self) -> HashMap<u64, Stock> {
        let mut totals: HashMap<u64, Stock> = HashMap::new();
        for (owner, stock) in self.0.values().flatten() {
            *totals.entry(*owner).or_default() += *stock;
        }
        totals
    }
}

/// The writer's books.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(crate) rows: Rows,
    /// Cells that have changed since the last frame.
    dirty: BTreeSet<(u64, u64)>,
    /// What was counted of records that were not synced yet: what is lost with them.
    fresh: HashMap<Location, Counted>,
    /// The segment that is being dropped: it counts no more.
    leaving: Option<u64>,
    recount: Option<Recount>,
}

/// A count of memory's index from its beginning, while it goes on changing: what lies before the cursor is followed.
#[derive(Debug)]
pub(crate) struct Recount {
    rows: Rows,
    /// What begins before it has been counted.
    pub(crate) cursor: Place,
}

impl Books {
    pub(crate) fn new(rows: Rows) -> Books {
        Books { rows, ..Books::default() }
    }

    /// An entry has come into the index.
    pub(crate) fn count(&mut self, shared: &Shared, location: Location, counted: &Counted) {
        self.rows.add(counted);
        self.dirty.extend(counted.cells().map(|(segment, _)| (segment, counted.owner)));
        self.fresh.insert(location, counted.clone());
        self.tell(shared, counted, |total, stock| *total += stock);
        if let Some(recount) = self.recount.as_mut().filter(|recount| recount.has(shared, location, counted))
        {
            recount.rows.add(counted);
        }
    }

    /// An entry has left the index.
    pub(crate) fn uncount(&mut self, shared: &Shared, location: Location, counted: &Counted) {
        self.uncount_in_memory(shared, location, counted);
        self.uncount_in_journal(shared, counted);
    }

    /// An entry has left the index in memory; the journal does not say so yet.
    pub(crate) fn uncount_in_memory(&mut self, shared: &Shared, location: Location, counted: &Counted) {
        self.fresh.remove(&location);
        self.tell(shared, counted, |total, stock| *total -= stock);
        if let Some(recount) = self.recount.as_mut().filter(|recount| recount.has(shared, location, counted))
        {
            recount.rows.subtract(counted);
        }
    }

    /// What left the index in memory before is said to the journal now.
    pub(crate) fn uncount_in_journal(&mut self, shared: &Shared, counted: &Counted) {
        self.rows.subtract(counted);
        let cells = counted.cells().filter(|(segment, _)| shared.segments.has(*segment));
        self.dirty.extend(cells.map(|(segment, _)| (segment, counted.owner)));
    }

    fn tell(&self, shared: &Shared, counted: &Counted, act: impl Fn(&mut Stock, Stock)) {
        let mut all = Stock::default();
        let there = counted.cells().filter(|(segment, _)| Some(*segment) != self.leaving);
        there.filter(|(segment, _)| shared.segments.has(*segment)).for_each(|(_, stock)| all += stock);
        shared.stocks.change(counted.owner, |total| act(total, all));
    }

    /// What was written until now is on the device.
    pub(crate) fn settle_fresh(&mut self) {
        self.fresh.clear();
    }

    /// Takes back what was counted of records that are lost.
    pub(crate) fn forget(&mut self, shared: &Shared, is_lost: impl Fn(Location) -> bool) {
        let lost: Vec<Location> = self.fresh.keys().copied().filter(|location| is_lost(*location)).collect();
        for location in lost {
            if let Some(counted) = self.fresh.get(&location).cloned() {
                self.uncount(shared, location, &counted);
            }
        }
    }

    /// A segment is on its way out: what lies in it is not held any more. `owed` are removals that were taken off already.
    pub(crate) fn begin_dropping<'a>(
        &mut self,
        shared: &Shared,
        number: u64,
        owed: impl Iterator<Item = &'a Counted>,
    ) {
        self.leaving = Some(number);
        for (owner, stock) in self.rows.row(number) {
            shared.stocks.change(owner, |total| *total -= stock);
        }
        for counted in owed {
            let own = counted.cells().filter(|(segment, _)| *segment == number);
            own.for_each(|(_, stock)| shared.stocks.change(counted.owner, |total| *total += stock));
        }
    }

    /// A segment is no more. What it held, if it was not being dropped, was nothing.
    pub(crate) fn drop_segment(&mut self, number: u64) {
        self.rows.drop_row(number);
        self.dirty.retain(|(segment, _)| *segment != number);
        self.leaving = self.leaving.filter(|leaving| *leaving != number);
        if let Some(recount) = &mut self.recount {
            recount.rows.drop_row(number);
        }
    }

    pub(crate) fn is_leaving(&self, segment: u64) -> bool {
        self.leaving == Some(segment)
    }

    /// Whether there is something that the journal does not have.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// How many cells have changed since the last frame.
    pub(crate) fn dirty_len(&self) -> usize {
        self.dirty.len()
    }

    /// The cells that have changed since the last frame, as they are now.
    pub(crate) fn dirty_cells(&self) -> impl Iterator<Item = (u64, u64, Stock)> + '_ {
        self.dirty.iter().map(|(segment, owner)| (*segment, *owner, self.rows.get(*segment, *owner)))
    }

    /// The journal has them.
    pub(crate) fn settle_dirty(&mut self, shared: &Shared) {
        self.dirty.clear();
        shared.stocks.set_cells(self.rows.len() as u64);
    }
}

impl Recount {
    /// Whether an entry is among what was counted.
    fn has(&self, shared: &Shared, location: Location, counted: &Counted) -> bool {
        let unit = shared.segments.geometry.unit(location);
        Place { segment: counted.segment, unit } < self.cursor
    }
}

impl Books {
    /// Begins to count anew, or begins that again.
    pub(crate) fn begin_recount(&mut self) {
        self.recount = Some(Recount { rows: Rows::default(), cursor: crate::read::log::LOG_BEGIN });
    }

    /// What was counted until now is forgotten; the books stay as they are.
    pub(crate) fn give_up_recount(&mut self) {
        self.recount = None;
    }

    /// Where a recount is, if one is under way.
    pub(crate) fn recounted_to(&self) -> Option<Place> {
        self.recount.as_ref().map(|recount| recount.cursor)
    }

    /// Goes on behind an entry, with what was found there.
    pub(crate) fn recounted(&mut self, counted: Option<&Counted>, cursor: Place) {
        if let Some(recount) = &mut self.recount {
            recount.cursor = cursor;
            if let Some(counted) = counted {
                recount.rows.add(counted);
            }
        }
    }

    /// All was counted: sets right what differs. Returns of how many owners that was anything. `owed` as for
    /// [`Books::begin_dropping`]; no segment is being dropped.
    pub(crate) fn end_recount<'a>(
        &mut self,
        shared: &Shared,
        owed: impl Iterator<Item = &'a Counted>,
    ) -> u64 {
        let Some(Recount { mut rows, .. }) = self.recount.take() else { return 0 };
        let mut differing = shared.stocks.correct(rows.totals());
        // The journal still has what is owed.
        owed.for_each(|counted| rows.add(&counted.there(shared)));
        let cells = |rows: &Rows| rows.cells().into_iter().collect::<BTreeSet<_>>();
        for (segment, owner, _) in cells(&rows).symmetric_difference(&cells(&self.rows)) {
            self.dirty.insert((*segment, *owner));
            differing.insert(*owner);
        }
        self.rows = rows;
        differing.len() as u64
    }

    /// Counts all that the index has, at once: before anything is changed. False where the drive has failed.
    pub(crate) fn recount_all(&mut self, shared: &Shared) -> bool {
        self.begin_recount();
        let mut is_whole = true;
        for shard in 0..shared.index.shards() {
            for entry in shared.index.shard(shard) {
                match shared.counted_at(Location::of(entry)) {
                    Ok(counted) => self.recounted(Some(&counted), crate::read::log::LOG_BEGIN),
                    Err(error) => is_whole &= !matches!(error, ReadError::Device(_)),
                }
            }
        }
        self.end_recount(shared, std::iter::empty());
        is_whole
    }

    /// Lets the totals be what the rows say: where nothing is being dropped and nothing is owed.
    pub(crate) fn publish(&self, shared: &Shared) {
        shared.stocks.correct(self.rows.totals());
        shared.stocks.set_cells(self.rows.len() as u64);
    }
}

/// What the volume holds of each owner, for everybody to read.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    owners: parking_lot::Mutex<HashMap<u64, Stock>>,
    cells: std::sync::atomic::AtomicU64,
}

impl Totals {
    fn change(&self, owner: u64, act: impl FnOnce(&mut Stock)) {
        let mut owners = self.owners.lock();
        let total = owners.entry(owner).or_default();
        act(total);
        if total.is_empty() {
            owners.remove(&owner);
        }
    }

    /// Sets all of them; the owners of whom something else was said.
    fn correct(&self, totals: HashMap<u64, Stock>) -> BTreeSet<u64> {
        let mut owners = self.owners.lock();
        let before = std::mem::replace(&mut *owners, totals);
        let all = before.keys().chain(owners.keys());
        all.filter(|owner| before.get(owner) != owners.get(owner)).copied().collect()
    }

    /// A copy.
    pub(crate) fn all(&self) -> HashMap<u64, Stock> {
        self.owners.lock().clone()
    }

    /// Of one owner.
    pub(crate) fn of(&self, owner: u64) -> Stock {
        self.owners.lock().get(&owner).copied().unwrap_or_default()
    }

    fn set_cells(&self, cells: u64) {
        self.cells.store(cells, std::sync::atomic::Ordering::Relaxed);
    }

    /// What the writer's table takes in memory, in bytes, about.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.cells.load(std::sync::atomic::Ordering::Relaxed) * CELL_BYTES
    }
}

#[cfg(test)]
impl Totals {
    /// Makes it wrong, for a recount to find.
    pub(crate) fn spoil_for_tests(&self, owner: u64) {
        self.change(owner, |total| total.bytes += 1);
    }
}
