//! What is held of each owner: the writer's counts, which go to the journal and to the totals, and counting
//! again.

use std::collections::{BTreeSet, HashMap};

use crate::format::record::Place;
use crate::index::Location;
use crate::index::stocks::{Counted, Rows};
use crate::read::reader::ReadError;
use crate::shared::Shared;
use crate::stock::Stock;

/// The writer's counts.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(crate) rows: Rows,
    /// Cells that have changed since the last frame.
    dirty: BTreeSet<(u64, u64)>,
    /// What records counted for that are not synced yet: they may be lost.
    fresh: HashMap<Location, Counted>,
    /// The segment that is being dropped: it does not count any more.
    dropping: Option<u64>,
    recount: Option<Recount>,
}

/// A count of memory's index from its beginning while the index changes. Changes before the cursor are
/// followed.
#[derive(Debug)]
pub(crate) struct Recount {
    rows: Rows,
    /// All records that begin before it have been counted.
    pub(crate) cursor: Place,
}

impl Books {
    pub(crate) fn new(rows: Rows) -> Books {
        Books { rows, ..Books::default() }
    }

    /// Counts an entry that has entered the index.
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

    /// Counts an entry that has left the index.
    pub(crate) fn uncount(&mut self, shared: &Shared, location: Location, counted: &Counted) {
        self.uncount_in_memory(shared, location, counted);
        self.uncount_in_journal(shared, counted);
    }

    /// Counts an entry that has left the index in memory. The journal does not have its removal yet.
    pub(crate) fn uncount_in_memory(&mut self, shared: &Shared, location: Location, counted: &Counted) {
        self.fresh.remove(&location);
        self.tell(shared, counted, |total, stock| *total -= stock);
        if let Some(recount) = self.recount.as_mut().filter(|recount| recount.has(shared, location, counted))
        {
            recount.rows.subtract(counted);
        }
    }

    /// Tells the journal of an entry that left the index in memory before.
    pub(crate) fn uncount_in_journal(&mut self, shared: &Shared, counted: &Counted) {
        self.rows.subtract(counted);
        let cells = counted.cells().filter(|(segment, _)| shared.segments.has(*segment));
        self.dirty.extend(cells.map(|(segment, _)| (segment, counted.owner)));
    }

    fn tell(&self, shared: &Shared, counted: &Counted, act: impl Fn(&mut Stock, Stock)) {
        let mut all = Stock::default();
        let there = counted.cells().filter(|(segment, _)| Some(*segment) != self.dropping);
        there.filter(|(segment, _)| shared.segments.has(*segment)).for_each(|(_, stock)| all += stock);
        shared.stocks.change(counted.owner, |total| act(total, all));
    }

    /// What was written before this is on the device.
    pub(crate) fn settle_fresh(&mut self) {
        self.fresh.clear();
    }

    /// Takes back the counts of records that are lost.
    pub(crate) fn forget(&mut self, shared: &Shared, is_lost: impl Fn(Location) -> bool) {
        let lost: Vec<Location> = self.fresh.keys().copied().filter(|location| is_lost(*location)).collect();
        for location in lost {
            if let Some(counted) = self.fresh.get(&location).cloned() {
                self.uncount(shared, location, &counted);
            }
        }
    }

    /// Begins to drop a segment: what lies in it counts as held no more. `failed` has what failed removals
    /// have taken off already.
    pub(crate) fn begin_dropping<'a>(
        &mut self,
        shared: &Shared,
        number: u64,
        failed: impl Iterator<Item = &'a Counted>,
    ) {
        self.dropping = Some(number);
        for (owner, stock) in self.rows.row(number) {
            shared.stocks.change(owner, |total| *total -= stock);
        }
        for counted in failed {
            let own = counted.cells().filter(|(segment, _)| *segment == number);
            own.for_each(|(_, stock)| shared.stocks.change(counted.owner, |total| *total += stock));
        }
    }

    /// Forgets a segment that is gone. If it was not being dropped, it held nothing.
    pub(crate) fn drop_segment(&mut self, number: u64) {
        self.rows.drop_row(number);
        self.dirty.retain(|(segment, _)| *segment != number);
        self.dropping = self.dropping.filter(|dropping| *dropping != number);
        if let Some(recount) = &mut self.recount {
            recount.rows.drop_row(number);
        }
    }

    pub(crate) fn is_dropping(&self, segment: u64) -> bool {
        self.dropping == Some(segment)
    }

    /// Whether the journal lacks a change.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The number of cells that have changed since the last frame.
    pub(crate) fn dirty_len(&self) -> usize {
        self.dirty.len()
    }

    /// The cells that have changed since the last frame, with their present values.
    pub(crate) fn dirty_cells(&self) -> impl Iterator<Item = (u64, u64, Stock)> + '_ {
        self.dirty.iter().map(|(segment, owner)| (*segment, *owner, self.rows.get(*segment, *owner)))
    }

    /// Notes that the journal has all changes.
    pub(crate) fn settle_dirty(&mut self, shared: &Shared) {
        self.dirty.clear();
        shared.stocks.set_cells(self.rows.len() as u64);
    }
}

impl Recount {
    /// Whether the count has passed an entry already.
    fn has(&self, shared: &Shared, location: Location, counted: &Counted) -> bool {
        let unit = shared.segments.geometry.unit(location);
        Place { segment: counted.segment, unit } < self.cursor
    }
}

impl Books {
    /// Begins to count again, from the beginning.
    pub(crate) fn begin_recount(&mut self) {
        self.recount = Some(Recount { rows: Rows::default(), cursor: Place::BEGIN });
    }

    /// Gives up the count under way. The books stay as they are.
    pub(crate) fn give_up_recount(&mut self) {
        self.recount = None;
    }

    /// The cursor of the count under way, if there is one.
    pub(crate) fn recounted_to(&self) -> Option<Place> {
        self.recount.as_ref().map(|recount| recount.cursor)
    }

    /// Moves the cursor behind an entry and adds what the entry counts for.
    pub(crate) fn recounted(&mut self, counted: Option<&Counted>, cursor: Place) {
        if let Some(recount) = &mut self.recount {
            recount.cursor = cursor;
            if let Some(counted) = counted {
                recount.rows.add(counted);
            }
        }
    }

    /// Ends a count: corrects what differs, and returns for how many owners anything differed. `failed` is as
    /// in [`Books::begin_dropping`]. No segment is being dropped.
    pub(crate) fn end_recount<'a>(
        &mut self,
        shared: &Shared,
        failed: impl Iterator<Item = &'a Counted>,
    ) -> u64 {
        let Some(Recount { mut rows, .. }) = self.recount.take() else { return 0 };
        let mut differing = shared.stocks.correct(rows.totals());
        // The journal still has what failed removals took off.
        failed.for_each(|counted| rows.add(&counted.there(&shared.segments)));
        let cells = |rows: &Rows| rows.cells().into_iter().collect::<BTreeSet<_>>();
        for (segment, owner, _) in cells(&rows).symmetric_difference(&cells(&self.rows)) {
            self.dirty.insert((*segment, *owner));
            differing.insert(*owner);
        }
        self.rows = rows;
        differing.len() as u64
    }

    /// Counts all entries of the index at once, before anything changes. False if the drive failed.
    pub(crate) fn recount_all(&mut self, shared: &Shared) -> bool {
        self.begin_recount();
        let mut is_whole = true;
        for shard in 0..shared.index.shards() {
            for entry in shared.index.shard(shard) {
                match shared.counted_at(Location::of(entry)) {
                    Ok(counted) => self.recounted(Some(&counted), Place::BEGIN),
                    Err(error) => is_whole &= !matches!(error, ReadError::Device(_)),
                }
            }
        }
        self.end_recount(shared, std::iter::empty());
        is_whole
    }

    /// Sets the totals to the sums of the rows. No segment is being dropped, and no removal has failed.
    pub(crate) fn publish(&self, shared: &Shared) {
        shared.stocks.correct(self.rows.totals());
        shared.stocks.set_cells(self.rows.len() as u64);
    }
}
