//! Opening a volume: superblock, newest whole checkpoint, journal, then what the segments have beyond it.
//!
//! The journal names only what was durable. Recovery reads and checks whole records, with their bodies, from
//! the journal's last word in each segment on. Where no checkpoint can be read, it makes the index again from
//! all segments: it checks all heads, and the bodies of the newest segment. Other bodies are checked when
//! they are read, as always.

mod error;
pub(crate) mod identity;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_disk::{Disk, DiskFile, read_exact_at};

pub use self::error::OpenError;
use self::error::failed;
use self::identity::superblock_of;
use crate::format::checkpoint;
use crate::format::journal;
use crate::format::journal::{Change, Frame};
use crate::format::record::preamble;
use crate::format::record::preamble::SEGMENT_HEADER_BYTES;
use crate::format::record::{ExtentRef, Kind, Place, UNIT_BYTES};
use crate::format::single::SWEPT;
use crate::format::superblock::Superblock;
use crate::index::segment;
use crate::index::segment::{Charge, Geometry, Segment, Segments, Space};
use crate::index::stocks::{Counted, Rows};
use crate::index::{Index, KeyHash, Location};
use crate::numbers::Durable;
use crate::read::scan::{Depth, Found, scan};
use crate::settings::{JOURNAL_BYTES_MAX, SIZE_BYTES_MAX, SIZE_BYTES_MIN, VolumeSettings};
use crate::shared::{Read, Shared};
use crate::usage::Counters;
use crate::write::books::Books;
use crate::write::engine::{Engine, Start};

/// What opening a volume found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Objects in the index after opening.
    pub objects: u64,
    /// Segments that are there.
    pub segments: u64,
    /// Frames of the journal that were applied.
    pub frames: u64,
    /// Whole records that were found behind the journal's last word.
    pub scanned: u64,
    /// Records behind it that are not whole, or that belong to no object.
    pub refused: u64,
    /// The index was made again from the segments.
    pub was_rebuilt: bool,
}

/// What is known of the index before recovery reads the segments.
struct Known {
    index: Index,
    durable: BTreeMap<u64, u32>,
    stocks: Rows,
    epoch: u64,
    next_object: u64,
    stamp_max: u64,
    ledger: Durable,
    frames: u64,
    /// A segment up to this number exists only if it is in `durable`.
    newest: Option<u64>,
    was_rebuilt: bool,
    /// The journal lacks frames.
    has_gap: bool,
}

/// Opens a volume, or makes a new one.
pub(crate) fn open(
    disk: Arc<dyn Disk>,
    settings: &VolumeSettings,
) -> Result<(Arc<Shared>, Engine, Recovered), OpenError> {
    if !(SIZE_BYTES_MIN..=SIZE_BYTES_MAX).contains(&settings.size_bytes) {
        return Err(OpenError::Size(settings.size_bytes));
    }
    disk.make_folder(segment::FOLDER).map_err(failed("making the folder of the segments"))?;
    disk.make_folder(journal::FOLDER).map_err(failed("making the folder of the index"))?;
    let superblock = superblock_of(&*disk, settings)?;
    let space = Arc::new(Space::default());
    let (journals, checkpoints) = index_files(&*disk)?;
    let (known, base) = known(&*disk, &superblock, &checkpoints, &journals);
    let segments = open_segments(&*disk, &superblock, &space, &known)?;
    let swept = SWEPT.read(&*disk, &superblock);
    let next_segment = highest_segment(&*disk)?.max(known.newest).map_or(1, |newest| newest + 1);
    let read = Read {
        superblock,
        index: known.index,
        segments,
        space,
        swept,
        stamp_max: known.stamp_max,
        ledger: known.ledger,
    };
    let shared = Arc::new(Shared::new(disk, settings, read));
    let mut recovery = Recovery {
        shared: &shared,
        durable: known.durable,
        pending: Vec::new(),
        next_object: known.next_object,
        tails: HashMap::new(),
        sound: HashSet::new(),
        books: Books::new(known.stocks),
        has_miscounted: known.has_gap,
        report: Recovered { frames: known.frames, ..Recovered::default() },
    };
    recovery.forget_missing();
    recovery.read_tails(known.was_rebuilt);
    recovery.settle_books();
    let (journal_charges, checkpoint_charges) = charges(&shared, &journals, &checkpoints, base);
    let start = Start {
        next_segment,
        next_object: recovery.next_object,
        next_file: journals.iter().chain(&checkpoints).max().map_or(1, |newest| newest + 1),
        journal_charges,
        checkpoint_charges,
        pending: recovery.pending,
        durable: recovery.durable,
        epoch: known.epoch,
        books: recovery.books,
        wants_recount: recovery.has_miscounted,
        wants_checkpoint: known.was_rebuilt || known.has_gap,
        // A process that was killed may have left file names that are not durable.
        are_names_new: true,
        journal_bytes_min: settings.journal_bytes_min(),
    };
    let mut report = recovery.report;
    report.objects = shared.index.len();
    report.segments = shared.segments.len() as u64;
    report.was_rebuilt = known.was_rebuilt && report.segments > 0;
    shared.counters.durable_epoch.store(known.epoch, Ordering::Relaxed);
    let engine = Engine::new(Arc::clone(&shared), start, settings.clock.now());
    Ok((shared, engine, report))
}

/// The numbers of the journals and of the checkpoints.
fn index_files(disk: &dyn Disk) -> Result<(Vec<u64>, Vec<u64>), OpenError> {
    let names = disk.list(journal::FOLDER).map_err(failed("listing the index"))?;
    let journals = sorted(names.iter().filter_map(|name| journal::number_of(name)));
    Ok((journals, sorted(names.iter().filter_map(|name| checkpoint::number_of(name)))))
}

fn sorted(numbers: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

/// Reads checkpoint and journals. Also returns the numbers of those that are still needed.
fn known(
    disk: &dyn Disk,
    superblock: &Superblock,
    checkpoints: &[u64],
    journals: &[u64],
) -> (Known, Option<(u64, u64)>) {
    let whole = checkpoints.iter().rev().find_map(|number| {
        let file = disk.open(&checkpoint::path(*number)).ok()?;
        let read = checkpoint::read(&*file, superblock, *number)?;
        // After a kill the file may lie in the page cache alone. What is built on it must not.
        file.sync_data().ok()?;
        Some(read)
    });
    let Some((preface, index)) = whole else {
        let index = Index::new(superblock.shard_bits);
        let known = Known {
            index,
            durable: BTreeMap::new(),
            stocks: Rows::default(),
            epoch: 0,
            next_object: 1,
            stamp_max: 0,
            // Whatever else the journals lack, what they say of the ledger was true.
            ledger: journals
                .iter()
                .flat_map(|number| read_journal(disk, superblock, *number).unwrap_or_default())
                .max_by_key(|frame| frame.epoch)
                .map_or_else(Durable::default, |frame| frame.ledger),
            frames: 0,
            newest: None,
            was_rebuilt: true,
            has_gap: false,
        };
        return (known, None);
    };
    let base = (preface.number, preface.journal);
    let mut known = Known {
        index,
        newest: preface.segments.keys().max().copied(),
        durable: preface.segments,
        stocks: preface.stocks,
        epoch: preface.epoch,
        next_object: preface.next_object,
        stamp_max: preface.stamp_max,
        ledger: preface.ledger,
        frames: 0,
        was_rebuilt: false,
        has_gap: false,
    };
    let geometry = Geometry::new(superblock.segment_bytes);
    for number in journals.iter().filter(|number| **number >= base.1) {
        let frames = read_journal(disk, superblock, *number).unwrap_or_default();
        for (at, frame) in frames.into_iter().enumerate() {
            // The first frame of a file may repeat one that may not have arrived in the file before.
            let follows = frame.epoch == known.epoch + 1 || at == 0 && frame.epoch == known.epoch;
            if !follows {
                // Frames in between are lost. The segments have what was in them; a later file may continue
                // from here.
                known.has_gap = true;
                break;
            }
            known.take(frame, geometry);
        }
    }
    (known, Some(base))
}

fn read_journal(disk: &dyn Disk, superblock: &Superblock, number: u64) -> io::Result<Vec<Frame>> {
    let file = disk.open(&journal::path(number))?;
    // No file that Weir wrote is longer. Its beginning counts.
    let length = file.length()?.min(2 * JOURNAL_BYTES_MAX);
    let mut bytes = vec![0; length as usize];
    read_exact_at(&*file, &mut bytes, 0)?;
    file.sync_data()?;
    Ok(journal::read(&bytes, superblock, number))
}

impl Known {
    fn take(&mut self, frame: Frame, geometry: Geometry) {
        self.epoch = self.epoch.max(frame.epoch);
        self.next_object = self.next_object.max(frame.next_object);
        self.stamp_max = self.stamp_max.max(frame.stamp_max);
        self.ledger = frame.ledger;
        self.frames += 1;
        for change in frame.changes {
            match change {
                Change::Add(hash, location) => {
                    self.index.insert(hash, location);
                }
                Change::Remove(hash, location) => {
                    self.index.remove(hash, location);
                }
                Change::Durable { segment, unit } => {
                    self.durable.insert(segment, unit);
                    self.newest = self.newest.max(Some(segment));
                }
                Change::Dropped { segment } => {
                    let slot = geometry.slot_of(segment);
                    if self.durable.remove(&segment).is_some() {
                        for shard in 0..self.index.shards() {
                            self.index.retain(shard, |location| geometry.slot(location) != slot);
                        }
                    }
                    self.stocks.drop_row(segment);
                    self.newest = self.newest.max(Some(segment));
                }
                Change::Stock { segment, owner, stock } => self.stocks.set(segment, owner, stock),
            }
        }
    }
}

fn highest_segment(disk: &dyn Disk) -> Result<Option<u64>, OpenError> {
    let names = disk.list(segment::FOLDER).map_err(failed("listing the segments"))?;
    Ok(names.iter().filter_map(|name| segment::number_of(name)).max())
}

/// Opens the segments that exist. Unlinks files that are none, or that were dropped.
fn open_segments(
    disk: &dyn Disk,
    superblock: &Superblock,
    space: &Arc<Space>,
    known: &Known,
) -> Result<Segments, OpenError> {
    let segments = Segments::new(Geometry::new(superblock.segment_bytes));
    let names = disk.list(segment::FOLDER).map_err(failed("listing the segments"))?;
    for number in sorted(names.iter().filter_map(|name| segment::number_of(name))) {
        let path = segment::path(number);
        let file = disk.open(&path).map_err(failed("opening a segment"))?;
        let length = file.length().map_err(failed("opening a segment"))?;
        let is_dropped =
            known.newest.is_some_and(|newest| number <= newest) && !known.durable.contains_key(&number);
        let is_one = !is_dropped && is_segment(&*file, superblock, number, length)?;
        if !is_one || !segments.is_free(number) {
            if !disk.is_sealed() {
                disk.unlink(&path).map_err(failed("unlinking what is no segment"))?;
            }
            continue;
        }
        let end = length.min(superblock.segment_bytes);
        let charge = space.charge(length);
        segments.add(Arc::new(Segment::new(number, file, end - end % UNIT_BYTES, charge)));
    }
    Ok(segments)
}

fn is_segment(
    file: &dyn DiskFile,
    superblock: &Superblock,
    number: u64,
    length: u64,
) -> Result<bool, OpenError> {
    if length < SEGMENT_HEADER_BYTES as u64 {
        return Ok(false);
    }
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    read_exact_at(file, &mut bytes, 0).map_err(failed("reading a segment"))?;
    Ok(preamble::is_of(&bytes, superblock, number))
}

type Charges = BTreeMap<u64, Charge>;

/// Charges the files of the index. Unlinks those that are not needed any more.
fn charges(
    shared: &Shared,
    journals: &[u64],
    checkpoints: &[u64],
    base: Option<(u64, u64)>,
) -> (Charges, Charges) {
    let charge = |path: String| {
        let length = shared.disk.open(&path).and_then(|file| file.length()).unwrap_or(0);
        shared.space.charge(length)
    };
    let unlink = |path: String| {
        if !shared.disk.is_sealed()
            && let Err(error) = shared.disk.unlink(&path)
        {
            shared.counters.note_write(&error);
        }
    };
    let (mut own_journals, mut own_checkpoints) = (Charges::new(), Charges::new());
    for number in journals {
        let path = journal::path(*number);
        match base {
            Some((_, first)) if *number >= first => drop(own_journals.insert(*number, charge(path))),
            _ => unlink(path),
        }
    }
    for number in checkpoints {
        let path = checkpoint::path(*number);
        match base {
            Some((only, _)) if *number == only => drop(own_checkpoints.insert(*number, charge(path))),
            _ => unlink(path),
        }
    }
    (own_journals, own_checkpoints)
}

/// The last step: what the segments themselves say.
struct Recovery<'a> {
    shared: &'a Arc<Shared>,
    durable: BTreeMap<u64, u32>,
    pending: Vec<Change>,
    next_object: u64,
    /// The unit from which each segment was read.
    tails: HashMap<u64, u32>,
    /// The extents in that part whose bytes are those that were written.
    sound: HashSet<Place>,
    books: Books,
    /// An entry was lost of which it is not known what it counted for.
    has_miscounted: bool,
    report: Recovered,
}

impl Recovery<'_> {
    /// Removes from the index the entries whose segments are missing, or shorter than they were.
    fn forget_missing(&mut self) {
        let shared = self.shared;
        let geometry = shared.segments.geometry;
        let mut ends: HashMap<u32, u32> = HashMap::new();
        for (slot, segment) in shared.segments.all().iter() {
            let length = (segment.end() / UNIT_BYTES) as u32;
            let known = self.durable.get(&segment.number).copied().unwrap_or(0);
            self.has_miscounted |= known > length;
            ends.insert(*slot, known.min(length));
            segment.set_durable(u64::from(known.min(length)) * UNIT_BYTES);
        }
        let gone: Vec<u64> =
            self.durable.keys().copied().filter(|number| !shared.segments.has(*number)).collect();
        let oldest = shared.segments.oldest();
        for number in gone {
            self.durable.remove(&number);
            // Extents in older segments may count for heads that lay in it.
            self.has_miscounted |= oldest.is_some_and(|oldest| oldest < number);
            self.books.drop_segment(number);
            self.pending.push(Change::Dropped { segment: number });
        }
        // Entries are sorted by tag, not by slot. The last slot that was looked up is often the next one as
        // well.
        let mut last = (u32::MAX, 0);
        let oldest_slot = oldest.map(|oldest| geometry.slot_of(oldest));
        let mut in_oldest = 0;
        for shard in 0..shared.index.shards() {
            shared.index.retain(shard, |location| {
                let slot = geometry.slot(location);
                if slot != last.0 {
                    last = (slot, ends.get(&slot).copied().unwrap_or(0));
                }
                let stays = geometry.unit(location) < last.1;
                in_oldest += u64::from(stays && Some(slot) == oldest_slot);
                stays
            });
        }
        // A checkpoint that was written while a segment was dropped has some of the segment's entries and all
        // of its counts.
        let counted = |oldest| self.books.rows.row(oldest).map(|(_, stock)| stock.objects).sum::<u64>();
        self.has_miscounted |= oldest.map_or(0, counted) != in_oldest;
    }

    /// Reads what lies behind the journal's last word in each segment.
    fn read_tails(&mut self, is_rebuilt: bool) {
        let numbers = self.shared.segments.numbers();
        let newest = numbers.last().copied();
        for number in numbers {
            let Some(segment) = self.shared.segments.segment(number) else { continue };
            let known = self.durable.get(&number).map(|unit| u64::from(*unit) * UNIT_BYTES);
            let from = known.unwrap_or(SEGMENT_HEADER_BYTES as u64);
            // The journal learns of a segment that it does not know even if that has no record: readers of
            // the log wait for each segment to be durable.
            if known.is_some() && from >= segment.end() {
                continue;
            }
            let depth =
                if is_rebuilt && Some(number) != newest { Depth::Descriptions } else { Depth::Bodies };
            self.read_tail(&segment, from, depth);
        }
    }

    fn read_tail(&mut self, segment: &Arc<Segment>, from: u64, depth: Depth) {
        self.tails.insert(segment.number, (from / UNIT_BYTES) as u32);
        self.books.settle_fresh();
        // What is journalled from here on must be on the device. After a failed sync nothing that was read
        // proves that.
        let synced = segment.file.sync_data();
        let shared = self.shared;
        let scanned = synced.and_then(|()| scan(shared, segment, from, depth, |found| self.take(found)));
        match scanned {
            Ok(end) => {
                // Cuts off what is not a record.
                let is_cut = end < segment.end() && !shared.disk.is_sealed();
                if is_cut && segment.file.truncate(end).is_err() {
                    Counters::add(&shared.counters.write_errors, 1);
                }
                segment.set_end(end);
                segment.settle();
            }
            Err(_) => {
                Counters::add(&shared.counters.read_errors, 1);
                self.forget_tail(segment, from);
            }
        }
        let unit = (segment.end() / UNIT_BYTES) as u32;
        self.pending.push(Change::Durable { segment: segment.number, unit });
    }

    /// Forgets all records that were found from there on.
    fn forget_tail(&mut self, segment: &Segment, from: u64) {
        segment.set_end(from);
        let geometry = self.shared.segments.geometry;
        let slot = geometry.slot_of(segment.number);
        let is_lost = |location: Location| {
            geometry.slot(location) == slot && u64::from(geometry.unit(location)) * UNIT_BYTES >= from
        };
        for shard in 0..self.shared.index.shards() {
            self.shared.index.retain(shard, |location| !is_lost(location));
        }
        self.books.forget(self.shared, is_lost);
        self.pending.retain(|change| !matches!(change, Change::Add(_, location) if is_lost(*location)));
    }

    fn take(&mut self, found: &Found<'_>) {
        let header = found.described.header;
        self.next_object = self.next_object.max(header.number.saturating_add(1));
        self.shared.note_stamp(header.stamp);
        let is_sound = found.is_sound && self.are_sound(&found.described.extents());
        if !is_sound {
            self.report.refused += 1;
            return;
        }
        self.report.scanned += 1;
        match header.kind {
            Kind::Object | Kind::Head => {
                if header.kind == Kind::Object {
                    self.sound.insert(found.place);
                }
                let counted = self.shared.counted(&found.described, found.place);
                self.replace(header.digest, header.number, counted.map(|counted| (found.place, counted)));
            }
            Kind::Gone => self.replace(header.digest, header.number, None),
            Kind::Extent => {
                self.sound.insert(found.place);
            }
        }
    }

    /// Whether the extents that lie in the part just read are what was written.
    fn are_sound(&self, extents: &[ExtentRef]) -> bool {
        extents.iter().all(|extent| {
            let is_read =
                self.tails.get(&extent.place.segment).is_some_and(|from| *from <= extent.place.unit);
            !is_read || self.sound.contains(&extent.place)
        })
    }

    /// Indexes a record in place of the object's older one.
    fn replace(&mut self, digest: u128, object: u64, newer: Option<(Place, Counted)>) {
        let hash = KeyHash::of(digest);
        for older in self.shared.locate(digest, object) {
            let counted = self.shared.counted_at(older);
            if self.shared.index.remove(hash, older) {
                self.pending.push(Change::Remove(hash, older));
                match counted {
                    Ok(counted) => self.books.uncount(self.shared, older, &counted),
                    Err(_) => self.has_miscounted = true,
                }
            }
        }
        if let Some((place, counted)) = newer {
            let location = self.shared.segments.geometry.location(place);
            if self.shared.index.insert(hash, location) {
                self.pending.push(Change::Add(hash, location));
                self.books.count(self.shared, location, &counted);
            }
        }
    }

    /// Ends with the counts of each owner: known, or to be counted again.
    fn settle_books(&mut self) {
        self.books.settle_fresh();
        // If the drive fails even now, the engine counts between other work.
        self.has_miscounted = self.has_miscounted && !self.books.recount_all(self.shared);
        self.books.publish(self.shared);
    }
}
