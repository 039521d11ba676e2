//! What a catalogue and a sweep need of a volume: its durable log in the order in which it was written, what
//! is still of use, the number up to which it was swept, and a way to free segments of no use.

use std::collections::HashSet;
use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::catalogue::summary::{Held, Summary};
use crate::format::record::preamble::SEGMENT_HEADER_BYTES;
use crate::format::record::{Described, Kind, LENGTH_UNKNOWN, Place, UNIT_BYTES};
use crate::format::single::{OPENED, SWEPT};
use crate::index::segment::{Charge, Segment};
use crate::index::{KeyHash, Location};
use crate::numbers::{Bears, Opening, Reached};
use crate::read::reader::{ReadError, Record};
use crate::read::scan::{Depth, scan, scan_some};
use crate::read::verify::walk;
use crate::shared::Shared;
use crate::usage::Counters;
use crate::volume::Volume;
use crate::write::intake::Command;
use crate::write::running::Named;

/// A head in the log: the object at the moment of writing.
#[derive(Debug)]
pub(crate) struct Logged<'a> {
    pub(crate) place: Place,
    pub(crate) number: u64,
    pub(crate) stamp: u64,
    pub(crate) digest: u128,
    pub(crate) key: &'a [u8],
    pub(crate) head: &'a [u8],
    /// The length of the body in bytes, if it is known.
    pub(crate) length: Option<u64>,
    pub(crate) held: Held,
}

impl<'a> Logged<'a> {
    /// The same of a record that was read.
    pub(crate) fn of(record: &'a Record) -> Logged<'a> {
        let Record { number, stamp, digest, ref key, ref head, length, ref extents, .. } = *record;
        let (place, held) = (record.place(), Held::of(extents, record.segment(), length));
        Logged { place, number, stamp, digest, key, head, length, held }
    }

    fn described(described: &Described<'a>, place: Place) -> Logged<'a> {
        let Described { header, key, head, .. } = *described;
        let length = (header.span != LENGTH_UNKNOWN).then_some(header.span);
        let held = match header.kind {
            Kind::Head => Held::of(&described.extents(), place.segment, length),
            Kind::Object | Kind::Extent | Kind::Gone => Held::Whole,
        };
        let (number, stamp, digest) = (header.number, header.stamp, header.digest);
        Logged { place, number, stamp, digest, key, head, length, held }
    }
}

impl Volume {
    /// The volume's identity.
    pub fn id(&self) -> u128 {
        self.shared.superblock.id
    }

    /// Hands the durable heads of the log from a place on to `each`, until `each` breaks. Returns the place
    /// to continue from. Skips segments that are gone.
    ///
    /// # Errors
    /// Those of the drive.
    pub(crate) fn read_log(
        &self,
        from: Place,
        mut each: impl FnMut(&Logged<'_>) -> ControlFlow<()>,
    ) -> Result<Place, ReadError> {
        let numbers = self.shared.segments.numbers();
        let mut at = from;
        for number in numbers.into_iter().filter(|number| *number >= from.segment) {
            let Some(segment) = self.shared.segments.segment(number) else { continue };
            let begin = if number == from.segment { from.offset() } else { 0 };
            let until = segment.durable();
            let mut reached = begin;
            let mut is_broken = false;
            if begin < until {
                let start = begin.max(SEGMENT_HEADER_BYTES as u64);
                (reached, is_broken) = self.read_segment(&segment, start..until, &mut each)?;
            }
            at = Place { segment: number, unit: (reached / UNIT_BYTES) as u32 };
            // A later segment begins only once this one is closed, but this one may not be durable yet.
            if is_broken || reached < segment.end() {
                break;
            }
        }
        Ok(at)
    }

    /// Reads a part of a segment. Returns the place to continue from, and whether `each` broke.
    fn read_segment(
        &self,
        segment: &Arc<Segment>,
        range: Range<u64>,
        each: &mut dyn FnMut(&Logged<'_>) -> ControlFlow<()>,
    ) -> Result<(u64, bool), ReadError> {
        let mut is_broken = false;
        let end = range.end;
        let failed = |error| {
            Counters::add(&self.shared.counters.read_errors, 1);
            ReadError::Device(error)
        };
        let reached = scan_some(&self.shared, segment, range, |found| {
            if !matches!(found.described.header.kind, Kind::Object | Kind::Head) {
                return ControlFlow::Continue(());
            }
            let flow = each(&Logged::described(&found.described, found.place));
            is_broken = flow.is_break();
            flow
        });
        let mut reached = reached.map_err(failed)?;
        // Behind a damaged record the index knows where the next ones begin.
        while !is_broken && reached < end {
            let from = (reached / UNIT_BYTES) as u32;
            let Some(place) = self.shared.next_entry(segment.number, from) else { break };
            if place.offset() >= end {
                break;
            }
            reached = place.offset() + UNIT_BYTES;
            match self.shared.any_record(self.shared.segments.geometry.location(place)) {
                Ok(record) => is_broken = each(&Logged::of(&record)).is_break(),
                Err(ReadError::Device(error)) => return Err(ReadError::Device(error)),
                // The record is damaged, or was dropped in the meantime.
                Err(ReadError::Gone | ReadError::NotResident) => {}
            }
        }
        Ok((if is_broken { reached } else { end }, is_broken))
    }

    /// The bytes of the log behind a place, durable or not.
    pub(crate) fn log_bytes_behind(&self, place: Place) -> u64 {
        let all = self.shared.segments.all();
        let behind = |segment: &Arc<Segment>| match segment.number {
            number if number < place.segment => 0,
            number if number == place.segment => segment.end().saturating_sub(place.offset()),
            _ => segment.end(),
        };
        all.values().map(behind).sum()
    }

    /// Whether the index has a record of that hash at that place.
    pub(crate) fn has_record(&self, hash: u64, place: Place) -> bool {
        self.shared.has_record(hash, place)
    }

    /// Whether the index has a record of that hash at or behind a place: rows that were made before may not
    /// know of it.
    pub(crate) fn has_behind(&self, hash: u64, place: Place) -> bool {
        let locations = self.shared.index.find(KeyHash(hash));
        locations
            .into_iter()
            .filter_map(|location| self.shared.segments.place(location))
            .any(|own| own >= place)
    }

    /// How many bytes of a body are held, as a row knows them; `None` where it does not.
    pub fn held_bytes(&self, summary: &Summary) -> Option<u64> {
        match &summary.held {
            Held::Whole => summary.length,
            Held::In(segments) => {
                let there = segments.iter().filter(|(segment, _)| self.shared.segments.has(*segment));
                Some(there.map(|(_, bytes)| bytes).sum())
            }
            Held::Elsewhere => None,
        }
    }

    /// Whether a record is there, or may come back after a crash.
    pub(crate) fn may_be(&self, hash: u64, place: Place) -> bool {
        self.shared.may_return(hash, place)
    }

    /// Whether the index was made again from the segments at opening.
    pub(crate) fn was_rebuilt(&self) -> bool {
        self.was_rebuilt
    }

    /// The end of the durable log.
    pub fn durable_end(&self) -> Place {
        self.newest_end(Segment::durable)
    }

    /// The end of what is written, durable or not. Where nothing is written any more it is the durable end:
    /// what is behind that never becomes durable.
    pub fn written_end(&self) -> Place {
        if !self.shared.counters.state().is_writable() {
            return self.durable_end();
        }
        self.newest_end(Segment::end)
    }

    fn newest_end(&self, end_of: fn(&Segment) -> u64) -> Place {
        let segments = self.shared.segments.all();
        let newest = segments.values().map(|segment| (segment.number, end_of(segment))).max();
        newest.map_or(Place::BEGIN, |(segment, end)| Place { segment, unit: (end / UNIT_BYTES) as u32 })
    }

    /// How many bytes of all kinds were written since it was opened. Grows while the drive makes progress.
    pub fn written_bytes(&self) -> u64 {
        self.shared.written_bytes()
    }

    /// Whether one or two more segments fit without dropping another. False once much was dropped for lack of
    /// room.
    pub fn has_room(&self) -> bool {
        let segment_bytes = self.shared.segments.geometry.segment_bytes;
        let free = self.size_bytes().saturating_sub(self.used_bytes());
        let was_full = self.shared.counters.segments_dropped.load(Ordering::Relaxed) > 0;
        free >= if was_full { (3 * segment_bytes).max(self.size_bytes() / 8) } else { 2 * segment_bytes }
    }

    /// How far the log has come. It never falls, unless the volume is another's copy or has lost something.
    pub fn reached(&self) -> Reached {
        let Place { segment, unit } = self.durable_end();
        let epoch = self.shared.counters.durable_epoch.load(Ordering::Relaxed);
        Reached { epoch, end: segment << u32::BITS | u64::from(unit) }
    }

    /// How far the log had come at opening: all that was found there, and nothing written since.
    pub fn found(&self) -> Reached {
        self.found
    }

    /// Writes the number of this opening to the volume. Where there is no room it removes the old number;
    /// where nothing can be written the old number stays. Blocks.
    pub fn renew_opening(&self, own: u64) -> Opening {
        let shared = &self.shared;
        let found = OPENED.read(&*shared.disk, &shared.superblock);
        if shared.disk.is_sealed() {
            return Opening { found, own: found };
        }
        match OPENED.write(&*shared.disk, &shared.superblock, own) {
            Ok(()) => Opening { found, own },
            Err(_) if OPENED.remove(&*shared.disk).is_ok() => Opening { found, own: 0 },
            Err(_) => Opening { found, own: found },
        }
    }

    /// The ceiling in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.shared.size_bytes()
    }

    /// What all files take, in bytes.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.shared.space.used_bytes()
    }

    /// Returns a judge that says of a record whether it exists or may come back after a crash.
    pub(crate) fn may_return(&self) -> impl Fn(u64, Place) -> bool + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move |hash, place| shared.may_return(hash, place)
    }

    /// The record at a place, if the index has it under that hash. May wait for the drive.
    ///
    /// # Errors
    /// As [`Volume::record`].
    pub fn record_at(&self, hash: u64, place: Place) -> Result<Option<Record>, ReadError> {
        if !self.has_record(hash, place) {
            return Ok(None);
        }
        let location = self.shared.segments.geometry.location(place);
        let record = self.shared.any_record(location)?;
        Ok((record.place() == place && KeyHash::of(record.digest).0 == hash).then_some(record))
    }

    /// The records that the index has of an object, the newest first: at most one, and the older one in the
    /// moment in which a head takes the place of another.
    pub fn records_of(&self, named: Named) -> Vec<Record> {
        let locations = self.shared.locate(named.digest, named.object);
        let records = locations.into_iter().filter_map(|location| self.shared.any_record(location).ok());
        let mut records: Vec<Record> = records.filter(|record| record.number == named.object).collect();
        records.sort_unstable_by_key(|record| std::cmp::Reverse(record.place()));
        records
    }

    /// Whether another record has taken the place of one that was read. Do not judge the object by the older
    /// one: it may tell the stamp that was stored with it in place of the judged one. May wait for the drive.
    pub fn is_replaced(&self, record: &Record) -> bool {
        !self.is_current(record) && self.has_object(Named { digest: record.digest, object: record.number })
    }

    /// Whether the index has a record that was read: it was not replaced, and has not left.
    pub fn is_current(&self, record: &Record) -> bool {
        self.has_record(KeyHash::of(record.digest).0, record.place())
    }

    /// Whether the index has a record of an object. May wait for the drive.
    pub fn has_object(&self, named: Named) -> bool {
        !self.shared.locate(named.digest, named.object).is_empty()
    }

    /// As [`Volume::walk`], from a place on.
    ///
    /// # Errors
    /// As [`Volume::walk`].
    pub fn walk_from(
        &self,
        from: Place,
        each: impl FnMut(&Record) -> ControlFlow<()>,
    ) -> Result<u64, ReadError> {
        walk(&self.shared, from, each)
    }

    /// Objects that are being stored and were requested before the floor of the sweep under way.
    pub fn older_running(&self) -> Vec<Named> {
        self.running.older()
    }

    /// Objects of [`Volume::older_running`] that have ended since the last call.
    pub fn take_ended(&self) -> Vec<Named> {
        self.running.take_ended()
    }

    /// Refuses from here on to store what was requested before that number of the ledger.
    pub fn raise_floor(&self, floor: u64) {
        self.shared.floor.fetch_max(floor, Ordering::AcqRel);
        self.running.raise_floor(floor);
    }

    /// The numbers of a ledger that are stored on the volume.
    pub fn bears(&self) -> Bears {
        let reached = self.shared.ledger_durable();
        Bears { largest: self.shared.stamp_max().max(self.swept()).max(reached.number), reached }
    }

    /// Sets, once, the ledger that the volume is used with and where to read how far it is durable. Each
    /// frame notes how far; the first frame is written at once. Each start advances the ledger, so that frame
    /// alone tells an older copy of it from this one.
    pub fn follow(&self, id: u128, number: Arc<AtomicU64>) {
        self.shared.follow(id, number);
        let (done, _) = crossbeam_channel::bounded(1);
        let _ = self.say(Command::Sync(done));
    }

    /// The number of the ledger up to which all was judged.
    pub fn swept(&self) -> u64 {
        self.shared.swept.load(Ordering::Acquire)
    }

    /// Notes that every object requested before `until` was judged by the marks up to it, and that the dead
    /// ones were removed durably.
    ///
    /// # Errors
    /// Those of the drive: nothing has changed.
    pub fn set_swept(&self, until: u64) -> io::Result<()> {
        let shared = &self.shared;
        SWEPT.write(&*shared.disk, &shared.superblock, until).inspect_err(|error| {
            shared.counters.note_write(error);
        })?;
        shared.swept.fetch_max(until, Ordering::AcqRel);
        Ok(())
    }

    /// Charges bytes to the volume that are kept beside its files.
    pub(crate) fn charge_beside(&self) -> Charge {
        self.shared.space.charge(0)
    }

    /// Frees the segments in which nothing is of use. Returns how many were offered; the writer decides.
    ///
    /// # Errors
    /// Those of the drive.
    pub fn reclaim(&self) -> io::Result<u64> {
        self.shared.reclaim(|free| self.say(free).is_ok())
    }

    /// Removes an object as [`Volume::remove`] does, and counts it as swept.
    pub fn sweep_out(&self, named: Named) -> bool {
        let is_said = self.remove(named.digest, named.object).is_ok();
        if is_said {
            Counters::add(&self.shared.counters.swept, 1);
        }
        is_said
    }
}

/// The use of a segment without entries in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Nothing,
    /// It has records of removals.
    Removals,
    /// It has bytes of bodies whose heads lie elsewhere.
    Bodies,
}

impl Shared {
    /// As [`Volume::reclaim`]; `say` tells the writer.
    pub(crate) fn reclaim(&self, mut say: impl FnMut(Command) -> bool) -> io::Result<u64> {
        let geometry = self.segments.geometry;
        let mut used = HashSet::new();
        for shard in 0..self.index.shards() {
            used.extend(self.index.shard(shard).into_iter().map(|entry| geometry.slot(Location::of(entry))));
        }
        let (mut count, mut is_first) = (0, true);
        for number in self.segments.numbers() {
            let is_empty = !used.contains(&geometry.slot_of(number));
            let free = match self.segments.segment(number).filter(|_| is_empty) {
                Some(segment) => self.free_of(&segment, is_first)?,
                None => None,
            };
            if free.is_some_and(&mut say) {
                count += 1;
            } else {
                is_first = false;
            }
        }
        Ok(count)
    }

    /// The first record that the index has in a segment, from a unit on.
    fn next_entry(&self, number: u64, from: u32) -> Option<Place> {
        let geometry = self.segments.geometry;
        let slot = geometry.slot_of(number);
        let of_shard = |shard| {
            let locations = self.index.shard(shard).into_iter().map(Location::of);
            let own = locations.filter(|location| geometry.slot(*location) == slot);
            own.map(|location| geometry.unit(location)).filter(|unit| *unit >= from).min()
        };
        let unit = (0..self.index.shards()).filter_map(of_shard).min()?;
        Some(Place { segment: number, unit })
    }

    fn has_record(&self, hash: u64, place: Place) -> bool {
        self.segments.has(place.segment)
            && self.index.has(KeyHash(hash), self.segments.geometry.location(place))
    }

    fn may_return(&self, hash: u64, place: Place) -> bool {
        // The writer adds to the pending removals before it removes from the index.
        self.has_record(hash, place)
            || self.pending_removals.has(place.segment, self.segments.geometry.location(place))
    }

    /// The command that frees a segment without entries in the index; `None` where it is of use.
    fn free_of(&self, segment: &Arc<Segment>, is_first: bool) -> io::Result<Option<Command>> {
        let seen = segment.seen();
        let free = |has_gone| Command::Free { segment: segment.number, seen, has_gone };
        Ok(match self.use_of(segment)? {
            Use::Nothing => Some(free(false)),
            // Removals must stay in the log for as long as there are older segments.
            Use::Removals if is_first => Some(free(true)),
            Use::Removals | Use::Bodies => None,
        })
    }

    fn use_of(&self, segment: &Arc<Segment>) -> io::Result<Use> {
        let mut found_use = Use::Nothing;
        let end = scan(self, segment, SEGMENT_HEADER_BYTES as u64, Depth::Descriptions, |found| {
            let header = found.described.header;
            match header.kind {
                Kind::Object | Kind::Extent if found_use != Use::Bodies => {
                    if !self.locate(header.digest, header.number).is_empty() {
                        found_use = Use::Bodies;
                    }
                }
                Kind::Gone if found_use == Use::Nothing => found_use = Use::Removals,
                Kind::Object | Kind::Extent | Kind::Gone | Kind::Head => {}
            }
        })?;
        // What lies behind a damaged record is unknown.
        Ok(if end < segment.end() { Use::Bodies } else { found_use })
    }
}
