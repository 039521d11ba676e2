//! Verifies a whole volume: does everything that the index names exist, and is it what was stored?

use std::ops::ControlFlow;

use crate::format::record::Place;
use crate::index::{KeyHash, Location};
use crate::read::reader::{ReadError, Record};
use crate::shared::Shared;

/// Called for each object that a long search has done. A break ends the search.
pub type EachDone<'a> = &'a dyn Fn() -> ControlFlow<()>;

/// What a verification found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verified {
    /// Objects whose bytes are all what was stored.
    pub objects: u64,
    /// Objects among them that are held in part.
    pub partial: u64,
    /// The bytes of their bodies.
    pub body_bytes: u64,
    /// Entries of the index whose record or body was not what was stored. They were dropped.
    pub damaged: u64,
    /// Entries that were dropped, or moved, during the search.
    pub moved: u64,
    /// Sites whose count was wrong. It was corrected.
    pub stocks_wrong: u64,
    /// Rows that the catalogue lacked. They were added. 0 without a catalogue.
    pub rows_missing: u64,
    /// Rows of the catalogue that were of no use any more. They were removed.
    pub rows_superfluous: u64,
    /// Whether it was ended before it had looked at everything.
    pub is_cut: bool,
}

/// Checks all entries of the index, segment by segment, and hands the wrong ones to `drop_damaged`. Reads
/// everything from the drive: for a thread that may block. A break of `each` ends it early.
///
/// # Errors
/// [`ReadError::Device`] if the drive fails.
pub(crate) fn verify(
    shared: &Shared,
    each: EachDone<'_>,
    mut drop_damaged: impl FnMut(KeyHash, Location, Place),
) -> Result<Verified, ReadError> {
    let mut report = Verified::default();
    for number in shared.segments.numbers() {
        for (shard, entry) in entries_of(shared, number) {
            let location = Location::of(entry);
            let Some((_, place)) = shared.segments.at(location) else {
                report.moved += 1;
                continue;
            };
            let hash = shared.index.hash_of(shard, entry);
            match check(shared, location, shard, entry) {
                Ok(Some(record)) => report.add(shared, &record),
                Err(ReadError::Device(error)) => return Err(ReadError::Device(error)),
                Ok(None) | Err(_) if place.segment == number && shared.index.has(hash, location) => {
                    report.damaged += 1;
                    drop_damaged(hash, location, place);
                }
                Ok(None) | Err(_) => report.moved += 1,
            }
            if each().is_break() {
                return Ok(Verified { is_cut: true, ..report });
            }
        }
    }
    Ok(report)
}

/// Hands the records of all entries from a place on to `each`, until `each` breaks.
///
/// # Errors
/// [`ReadError::Device`] if the drive fails.
pub(crate) fn walk(
    shared: &Shared,
    from: Place,
    mut each: impl FnMut(&Record) -> ControlFlow<()>,
) -> Result<u64, ReadError> {
    let mut count = 0;
    let geometry = shared.segments.geometry;
    for number in shared.segments.numbers().into_iter().filter(|number| *number >= from.segment) {
        let first = if number == from.segment { from.unit } else { 0 };
        for (_, entry) in entries_of(shared, number) {
            let location = Location::of(entry);
            if geometry.unit(location) < first {
                continue;
            }
            match shared.any_record(location) {
                Ok(record) => {
                    count += 1;
                    if each(&record).is_break() {
                        return Ok(count);
                    }
                }
                Err(ReadError::Device(error)) => return Err(ReadError::Device(error)),
                // The record was dropped in the meantime, or is damaged: its next reader reports that.
                Err(ReadError::Gone | ReadError::NotResident) => {}
            }
        }
    }
    Ok(count)
}

/// The entries of a segment, each with its shard, in the order of their places.
pub(crate) fn entries_of(shared: &Shared, number: u64) -> Vec<(usize, u64)> {
    let segments = &shared.segments;
    let slot = segments.geometry.slot_of(number);
    let mut found = Vec::new();
    for shard in 0..shared.index.shards() {
        let entries = shared.index.shard(shard);
        let own = entries.into_iter().filter(|entry| segments.geometry.slot(Location::of(*entry)) == slot);
        found.extend(own.map(|entry| (shard, entry)));
    }
    found.sort_unstable_by_key(|(_, entry)| Location::of(*entry));
    found
}

/// The record, if it belongs to that entry's hash and its whole body is what was stored.
fn check(shared: &Shared, location: Location, shard: usize, entry: u64) -> Result<Option<Record>, ReadError> {
    let record = shared.any_record(location)?;
    let is_of = shared.index.is_of(shard, entry, KeyHash::of(record.digest));
    let is_key = xxhash_rust::xxh3::xxh3_128(&record.key) == record.digest;
    Ok((is_of && is_key && shared.is_sound(&record)?).then_some(record))
}

impl Verified {
    fn add(&mut self, shared: &Shared, record: &Record) {
        let held = shared.held(record).length();
        self.objects += 1;
        self.body_bytes += held;
        self.partial += u64::from(record.length != Some(held));
    }
}
