//! Segments: files of records, and the table of those that exist.
//!
//! A segment is written once, from front to back. Its number is never used again. An index entry names its
//! *slot*, which is the number modulo the count of slots. A reader has the file open for the length of one
//! read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use weir_disk::DiskFile;

use crate::format::record::{Place, UNIT_BYTES};
use crate::index::{LOCATION_BITS, Location};

/// The bytes on the drive that all files of a volume take together.
#[derive(Debug, Default)]
pub(crate) struct Space {
    used: AtomicU64,
}

impl Space {
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    pub(crate) fn charge(self: &Arc<Space>, bytes: u64) -> Charge {
        self.used.fetch_add(bytes, Ordering::AcqRel);
        Charge { space: Arc::clone(self), bytes: AtomicU64::new(bytes) }
    }
}

/// The bytes on the drive that a file takes. They are given back when the last holder of the file drops it.
#[derive(Debug)]
pub struct Charge {
    space: Arc<Space>,
    bytes: AtomicU64,
}

impl Charge {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, bytes: u64) {
        let before = self.bytes.swap(bytes, Ordering::AcqRel);
        self.space.used.fetch_add(bytes, Ordering::AcqRel);
        self.space.used.fetch_sub(before, Ordering::AcqRel);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.space.used.fetch_sub(self.bytes(), Ordering::AcqRel);
    }
}

/// A file of records.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) file: Arc<dyn DiskFile>,
    /// Where the records end, in bytes.
    end: AtomicU64,
    /// The journal has the records before this offset, in bytes.
    durable: AtomicU64,
    /// Grows with each head that names its bytes, in whichever segment that is written.
    named: AtomicU64,
    charge: Charge,
}

/// What [`Segment::seen`] tells: while it stays the same, a segment of no use is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    end: u64,
    named: u64,
}

impl Segment {
    pub(crate) fn new(number: u64, file: Arc<dyn DiskFile>, end: u64, charge: Charge) -> Segment {
        let (end, durable, named) = (AtomicU64::new(end), AtomicU64::new(0), AtomicU64::new(0));
        Segment { number, file, end, durable, named, charge }
    }

    /// Notes that a head names its bytes, once the index has that head.
    pub(crate) fn note_named(&self) {
        self.named.fetch_add(1, Ordering::AcqRel);
    }

    /// Its state. Take it before a look at what the segment is of use for.
    pub(crate) fn seen(&self) -> Seen {
        Seen { end: self.end(), named: self.named.load(Ordering::Acquire) }
    }

    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    pub(crate) fn set_end(&self, end: u64) {
        self.end.store(end, Ordering::Release);
    }

    /// The offset before which all records come back after any crash: segment and journal are durable up to
    /// it. In bytes.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire).min(self.end())
    }

    pub(crate) fn set_durable(&self, durable: u64) {
        self.durable.store(durable, Ordering::Release);
    }

    /// The bytes it takes on the drive.
    pub(crate) fn bytes(&self) -> u64 {
        self.charge.bytes()
    }

    /// Charges the segment's real length: nothing more will be written to it.
    pub(crate) fn settle(&self) {
        self.charge.set(self.end());
    }
}

/// The path of a segment's file.
pub(crate) fn path(number: u64) -> String {
    format!("{FOLDER}/{number:08}.seg")
}

/// The number of the segment whose file has that name.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".seg")?;
    let number = digits.parse().ok()?;
    (path(number) == format!("{FOLDER}/{name}")).then_some(number)
}

/// The folder of the segments.
pub(crate) const FOLDER: &str = "segments";

/// Converts between places in segments and locations in the index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry {
    pub(crate) segment_bytes: u64,
    unit_bits: u32,
}

impl Geometry {
    /// The geometry of segments of `segment_bytes`, a power of two.
    pub(crate) fn new(segment_bytes: u64) -> Geometry {
        assert!(segment_bytes.is_power_of_two());
        Geometry { segment_bytes, unit_bits: (segment_bytes / UNIT_BYTES).trailing_zeros() }
    }

    pub(crate) fn slots(&self) -> u64 {
        1 << (LOCATION_BITS - self.unit_bits)
    }

    pub(crate) fn slot_of(&self, segment: u64) -> u32 {
        (segment % self.slots()) as u32
    }

    pub(crate) fn slot(&self, location: Location) -> u32 {
        (location.bits() >> self.unit_bits) as u32
    }

    pub(crate) fn unit(&self, location: Location) -> u32 {
        (location.bits() & ((1 << self.unit_bits) - 1)) as u32
    }

    pub(crate) fn location(&self, place: Place) -> Location {
        Location::of(u64::from(self.slot_of(place.segment)) << self.unit_bits | u64::from(place.unit))
    }
}

type Table = BTreeMap<u32, Arc<Segment>>;

/// The segments that exist, by slot, and those that were removed and are kept for their readers, by number.
/// Readers take no lock; only the writer changes it.
#[derive(Debug)]
pub(crate) struct Segments {
    pub(crate) geometry: Geometry,
    table: ArcSwap<Table>,
    kept: ArcSwap<BTreeMap<u64, Arc<Segment>>>,
}

impl Segments {
    pub(crate) fn new(geometry: Geometry) -> Segments {
        Segments { geometry, table: ArcSwap::default(), kept: ArcSwap::default() }
    }

    /// The segment with an index entry's record, and the record's place in it.
    pub(crate) fn at(&self, location: Location) -> Option<(Arc<Segment>, Place)> {
        let table = self.table.load();
        let segment = table.get(&self.geometry.slot(location))?;
        let place = Place { segment: segment.number, unit: self.geometry.unit(location) };
        Some((Arc::clone(segment), place))
    }

    /// The place that an index entry names.
    pub(crate) fn place(&self, location: Location) -> Option<Place> {
        let table = self.table.load();
        let segment = table.get(&self.geometry.slot(location))?;
        Some(Place { segment: segment.number, unit: self.geometry.unit(location) })
    }

    /// The segment of that number.
    pub(crate) fn segment(&self, number: u64) -> Option<Arc<Segment>> {
        let table = self.table.load();
        table.get(&self.geometry.slot_of(number)).filter(|segment| segment.number == number).cloned()
    }

    pub(crate) fn has(&self, number: u64) -> bool {
        let table = self.table.load();
        table.get(&self.geometry.slot_of(number)).is_some_and(|segment| segment.number == number)
    }

    /// The segment of that number, also where it was removed and is kept for its readers.
    pub(crate) fn readable(&self, number: u64) -> Option<Arc<Segment>> {
        // In this order: the writer keeps a segment before it removes it.
        self.segment(number).or_else(|| self.kept.load().get(&number).cloned())
    }

    /// Whether a segment can be read, by its readers or by all.
    pub(crate) fn is_readable(&self, number: u64) -> bool {
        self.has(number) || self.kept.load().contains_key(&number)
    }

    pub(crate) fn is_free(&self, number: u64) -> bool {
        !self.table.load().contains_key(&self.geometry.slot_of(number))
    }

    /// A snapshot of all segments, by slot.
    pub(crate) fn all(&self) -> Guard<Arc<Table>> {
        self.table.load()
    }

    /// The numbers of all segments, oldest first.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.table.load().values().map(|segment| segment.number).collect();
        numbers.sort_unstable();
        numbers
    }

    pub(crate) fn len(&self) -> usize {
        self.table.load().len()
    }

    pub(crate) fn oldest(&self) -> Option<u64> {
        self.table.load().values().map(|segment| segment.number).min()
    }

    pub(crate) fn add(&self, segment: Arc<Segment>) {
        let mut table = Table::clone(&self.table.load());
        table.insert(self.geometry.slot_of(segment.number), segment);
        self.table.store(Arc::new(table));
    }

    pub(crate) fn remove(&self, number: u64) {
        let mut table = Table::clone(&self.table.load());
        table.remove(&self.geometry.slot_of(number));
        self.table.store(Arc::new(table));
    }

    /// Keeps a segment for its readers. No entry of the index leads there.
    pub(crate) fn keep(&self, segment: Arc<Segment>) {
        let mut kept = BTreeMap::clone(&self.kept.load());
        kept.insert(segment.number, segment);
        self.kept.store(Arc::new(kept));
    }

    /// Keeps a segment no longer.
    pub(crate) fn release(&self, number: u64) -> Option<Arc<Segment>> {
        let mut kept = BTreeMap::clone(&self.kept.load());
        let segment = kept.remove(&number);
        self.kept.store(Arc::new(kept));
        segment
    }

    /// How many bytes each kept segment takes on the drive.
    pub(crate) fn kept(&self) -> BTreeMap<u64, u64> {
        self.kept.load().iter().map(|(number, segment)| (*number, segment.bytes())).collect()
    }

    /// The bytes that all kept segments take on the drive.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.kept.load().values().map(|segment| segment.bytes()).sum()
    }
}
