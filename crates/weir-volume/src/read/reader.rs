//! Reading: from an index entry to a record, from a record to bytes that are proven to be those that were
//! stored.
//!
//! Every byte that leaves here was checked against the block checksum that was written with it: [`Checked`]
//! cannot be made otherwise. A file is held open for the length of one read. A segment that was dropped in
//! between is a gap, never other bytes.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use weir_disk::DiskFile;
use weir_policy::Interval;

use crate::format::record::{
    Described, ExtentRef, HEADER_BYTES, Header, Kind, LENGTH_UNKNOWN, Place, block_sum,
};
use crate::index::Location;
use crate::index::segment::Segment;
use crate::read::first::FIRST_READ_BYTES;
use crate::shared::Shared;
use crate::state::VolumeState;
use crate::usage::Counters;
use crate::{BLOCK_BYTES, PIECE_BYTES_MAX};

/// Bytes of a body that were checked against the checksum they were stored with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked(Bytes);

impl Checked {
    /// The bytes, shared.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// The bytes themselves.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

/// Why something cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The read would have to wait for the device. Ask again on a thread that may wait.
    #[error("not in memory")]
    NotResident,
    /// The record is not what was stored, or is gone. It leaves the index, or has left it already.
    #[error("the object is gone")]
    Gone,
    /// The device failed.
    #[error("reading from the volume")]
    Device(#[source] io::Error),
}

/// Whether a read may wait for the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// On a thread that may block.
    Device,
    /// Only what lies in the page cache.
    Never,
}

/// Where a key's record may be, as far as the index knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    pub(crate) location: Location,
    /// The record's place.
    pub place: Place,
}

/// An object as its record describes it.
#[derive(Debug, Clone)]
pub struct Record {
    /// The object's number: one for each generation that was ever stored in this volume.
    pub number: u64,
    /// The stamp that was stored with it, or the number up to which a sweep has judged it, whichever is
    /// larger.
    pub stamp: u64,
    /// The stamp that was stored with it.
    pub asked: u64,
    /// The digest of its key.
    pub digest: u128,
    /// The full key.
    pub key: Bytes,
    /// The head as it was stored.
    pub head: Bytes,
    /// The length of the body in bytes, if it is known.
    pub length: Option<u64>,
    pub(crate) location: Location,
    kind: Kind,
    place: Place,
    pub(crate) extents: Vec<ExtentRef>,
    /// A small body, which was read with the record.
    body: Option<Checked>,
    /// Where a body lies that is one record and was not read with it, and its checksums.
    own: Option<Arc<OpenExtent>>,
}

impl Record {
    /// The body, if it was read with the record: a small object's.
    pub fn body(&self) -> Option<&Checked> {
        self.body.as_ref()
    }

    /// Takes the body out, if it was read with the record.
    pub fn take_body(&mut self) -> Option<Checked> {
        self.body.take()
    }

    /// The record without key, head and body: what is needed to read the body.
    pub fn for_reading(self) -> Record {
        Record { key: Bytes::new(), head: Bytes::new(), body: None, ..self }
    }

    /// What the readers of a body need of a record that was just written.
    pub(crate) fn written(
        header: Header,
        (location, place): (Location, Place),
        extents: Vec<ExtentRef>,
    ) -> Record {
        Record {
            number: header.number,
            stamp: header.stamp,
            asked: header.stamp,
            digest: header.digest,
            key: Bytes::new(),
            head: Bytes::new(),
            length: (header.span != LENGTH_UNKNOWN).then_some(header.span),
            location,
            kind: header.kind,
            place,
            extents,
            body: None,
            own: None,
        }
    }

    /// Adds the extents of an older record where this one has nothing.
    pub(crate) fn with_older(mut self, older: &Record) -> Record {
        let mut merged = Vec::with_capacity(self.extents.len().max(older.extents.len()));
        let mut own = self.extents.iter().peekable();
        for extent in &older.extents {
            while let Some(before) = own.next_if(|own| own.offset < extent.end()) {
                merged.push(*before);
            }
            if merged.last().is_none_or(|last: &ExtentRef| last.end() <= extent.offset) {
                merged.push(*extent);
            }
        }
        merged.extend(own);
        self.extents = merged;
        self
    }

    /// From the first to the last byte of the body in each of the segments that are asked for.
    pub(crate) fn runs(&self, is_asked: impl Fn(u64) -> bool) -> BTreeMap<u64, Interval> {
        let mut runs = BTreeMap::<u64, Interval>::new();
        for extent in self.extents.iter().filter(|extent| is_asked(extent.place.segment)) {
            let run = runs.entry(extent.place.segment);
            run.or_insert(Interval { start: extent.offset, end: extent.end() }).end = extent.end();
        }
        runs
    }

    /// Its memory in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let text = self.key.len() + self.head.len() + self.body.as_ref().map_or(0, |body| body.0.len());
        let sums = self.own.as_ref().map_or(0, |own| size_of::<OpenExtent>() + own.sums.len() * 8);
        let extents = self.extents.capacity() * size_of::<ExtentRef>();
        (size_of::<Record>() + text + sums + extents) as u64
    }

    /// The segment that has the record. The object goes with this segment at the latest.
    pub fn segment(&self) -> u64 {
        self.place.segment
    }

    /// Whether its body lies with it in one record.
    pub(crate) fn is_object(&self) -> bool {
        self.kind == Kind::Object
    }

    /// Where it lies.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The run of the body around an offset that was written in one piece, and is lost in one piece.
    pub fn run_at(&self, offset: u64) -> Option<Interval> {
        let after = self.extents.partition_point(|extent| extent.offset <= offset);
        let extent = self.extents[..after].last().filter(|extent| offset < extent.end())?;
        Some(Interval { start: extent.offset, end: extent.end() })
    }

    /// Whether the body was whole when the record was written.
    pub fn was_whole(&self) -> bool {
        self.length == Some(self.extents.iter().map(|extent| u64::from(extent.length)).sum())
    }
}

/// What [`crate::Volume::read`] finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Bytes from the offset on.
    Bytes(Checked),
    /// The offset is the end of the body, or beyond.
    End,
    /// Nothing is held there.
    Gap,
}

/// What a reader remembers between two reads of one body. It holds no file open.
#[derive(Debug, Default)]
pub struct Position {
    open: Option<OpenExtent>,
    /// Memory for the next bytes, if there is any. It belongs to the thread that asks, not to the one that
    /// waits for the device.
    room: Vec<u8>,
}

impl Position {
    /// Reserves memory for the next bytes, enough for any piece. The allocator keeps a stock of memory for
    /// each thread and each size, and there are many of both.
    pub fn make_room(&mut self) {
        self.room.reserve_exact(PIECE_BYTES_MAX);
    }

    /// The reserved memory.
    #[cfg(test)]
    pub(crate) fn room_for_tests(&self) -> std::ops::Range<*const u8> {
        self.room.as_ptr()..self.room.as_ptr().wrapping_add(self.room.capacity())
    }
}

/// The blocks of an extent that one read takes: all around the wanted bytes, since each block has one
/// checksum.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// The beginning of the first block and the end of the last, in the extent.
    begin: u64,
    end: u64,
    /// The wanted bytes, in the extent.
    wanted_begin: u64,
    wanted_end: u64,
}

impl Run {
    /// The blocks for `max` bytes at `offset` of the body, which lies in the extent; at most
    /// [`PIECE_BYTES_MAX`].
    fn of(extent: ExtentRef, offset: u64, max: usize) -> Run {
        let block = BLOCK_BYTES as u64;
        let (within, length) = (offset - extent.offset, u64::from(extent.length));
        let begin = within / block * block;
        let wanted_end = within.saturating_add(max.clamp(1, PIECE_BYTES_MAX) as u64).min(length);
        // Allocates no more than the limit.
        let end = wanted_end.next_multiple_of(block).min(begin + PIECE_BYTES_MAX as u64).min(length);
        Run { begin, end, wanted_begin: within, wanted_end: wanted_end.min(end) }
    }

    /// A buffer for it: `room`, if that has any.
    fn room(&self, mut room: Vec<u8>) -> Vec<u8> {
        let length = (self.end - self.begin) as usize;
        if room.capacity() == 0 {
            return vec![0; length];
        }
        room.resize(length, 0);
        room
    }

    /// The range of the wanted bytes in the buffer.
    fn wanted(&self) -> std::ops::Range<usize> {
        (self.wanted_begin - self.begin) as usize..(self.wanted_end - self.begin) as usize
    }
}

/// An extent with its checksums.
#[derive(Debug)]
struct OpenExtent {
    extent: ExtentRef,
    /// The offset of its first byte in the segment's file.
    body_at: u64,
    sums: Vec<u64>,
}

impl OpenExtent {
    fn of(extent: ExtentRef, described: &Described<'_>) -> OpenExtent {
        let body_at = extent.place.offset() + described.header.described_bytes();
        // A reader keeps them for as long as it reads.
        let mut sums = Vec::with_capacity(described.header.blocks());
        sums.extend(described.block_sums());
        OpenExtent { extent, body_at, sums }
    }
}

thread_local! {
    /// Where records are read to before it is known what is kept of them.
    static SCRATCH: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
}

impl Shared {
    /// The places where that digest's records may be, newest first. Makes no system call.
    pub(crate) fn candidates(&self, digest: u128) -> smallvec::SmallVec<[Candidate; 4]> {
        if self.counters.state() == VolumeState::Ejected {
            return smallvec::SmallVec::new();
        }
        let locations = self.index.find(crate::index::KeyHash::of(digest));
        let with_place = |location: Location| {
            let place = self.segments.place(location)?;
            Some(Candidate { location, place })
        };
        let mut found: smallvec::SmallVec<[Candidate; 4]> =
            locations.into_iter().filter_map(with_place).collect();
        found.sort_unstable_by_key(|candidate| std::cmp::Reverse(candidate.place));
        found
    }

    /// The record of a candidate, if its key is `key`.
    pub(crate) fn record(
        &self,
        candidate: Candidate,
        key: &[u8],
        wait: Wait,
    ) -> Result<Option<Record>, ReadError> {
        let segment = self.segments.segment(candidate.place.segment).ok_or(ReadError::Gone)?;
        self.described(&segment, candidate.place, wait, |described, bytes| {
            (described.key == key).then(|| self.to_record(described, candidate, bytes)).transpose()
        })?
    }

    /// The record at a location, whatever its key.
    pub(crate) fn any_record(&self, location: Location) -> Result<Record, ReadError> {
        let (segment, place) = self.segments.at(location).ok_or(ReadError::Gone)?;
        let candidate = Candidate { location, place };
        self.described(&segment, place, Wait::Device, |described, bytes| {
            self.to_record(described, candidate, bytes)
        })?
    }

    /// The stamp that a record counts as having. A sweep may have removed what the index does not have any
    /// more.
    fn judged_stamp(&self, digest: u128, stamp: u64, location: Location) -> u64 {
        let swept = self.swept.load(std::sync::atomic::Ordering::Acquire);
        let is_judged = stamp < swept && self.index.has(crate::index::KeyHash::of(digest), location);
        if is_judged { swept } else { stamp }
    }

    fn to_record(
        &self,
        described: &Described<'_>,
        candidate: Candidate,
        bytes: &[u8],
    ) -> Result<Record, ReadError> {
        let header = described.header;
        let stamp = self.judged_stamp(header.digest, header.stamp, candidate.location);
        let (mut body, mut own_extent) = (None, None);
        let extents = match header.kind {
            Kind::Head => described.extents(),
            Kind::Object => {
                let start = header.described_bytes() as usize;
                if let Some(own) = bytes.get(start..start + header.body_bytes() as usize) {
                    if !described.is_body(own) {
                        return Err(ReadError::Gone);
                    }
                    body = Some(Checked(Bytes::copy_from_slice(own)));
                }
                let whole = ExtentRef { offset: 0, length: header.count, place: candidate.place };
                if body.is_none() {
                    own_extent = Some(Arc::new(OpenExtent::of(whole, described)));
                }
                if header.count == 0 { Vec::new() } else { vec![whole] }
            }
            Kind::Extent | Kind::Gone => return Err(ReadError::Gone),
        };
        let mut own = Vec::with_capacity(described.key.len() + described.head.len());
        own.extend_from_slice(described.key);
        own.extend_from_slice(described.head);
        let mut own = Bytes::from(own);
        Ok(Record {
            number: header.number,
            stamp,
            asked: header.stamp,
            digest: header.digest,
            key: own.split_to(described.key.len()),
            head: own,
            length: (header.span != LENGTH_UNKNOWN).then_some(header.span),
            location: candidate.location,
            kind: header.kind,
            place: candidate.place,
            extents,
            body,
            own: own_extent,
        })
    }

    /// Reads the header and the description at a place, and hands them to `act` with the bytes that came with
    /// them.
    pub(crate) fn described<T>(
        &self,
        segment: &Arc<Segment>,
        place: Place,
        wait: Wait,
        act: impl FnOnce(&Described<'_>, &[u8]) -> T,
    ) -> Result<T, ReadError> {
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.resize(FIRST_READ_BYTES, 0);
            let room = segment.end().saturating_sub(place.offset());
            let first = room.min(self.first_read.bytes() as u64) as usize;
            let first = self.fill_first(segment, &mut scratch[..first], place.offset(), wait)?;
            let header = Header::read(&scratch[..first]).ok_or(ReadError::Gone)?;
            if header.record_bytes() > room {
                return Err(ReadError::Gone);
            }
            // A small object is read whole.
            let wanted = match header.record_bytes() <= FIRST_READ_BYTES as u64 {
                true => header.record_bytes(),
                false => header.described_bytes(),
            };
            if wait == Wait::Device && header.kind != Kind::Extent {
                self.first_read.note(wanted as usize);
            }
            let mut read = first;
            if wanted as usize > first {
                scratch.resize((wanted as usize).max(FIRST_READ_BYTES), 0);
                let rest = &mut scratch[first..wanted as usize];
                self.fill(segment, rest, place.offset() + first as u64, wait)?;
                read = wanted as usize;
            }
            let bytes = &scratch[..read];
            let described = Described::read(bytes, self.superblock.secret, place).ok_or(ReadError::Gone)?;
            let result = act(&described, bytes);
            if scratch.capacity() > 4 * FIRST_READ_BYTES {
                *scratch = Vec::new();
            }
            Ok(result)
        })
    }

    /// Reads what a record begins with. What lies in the page cache may be less than asked for, and more than
    /// the record.
    fn fill_first(
        &self,
        segment: &Segment,
        into: &mut [u8],
        offset: u64,
        wait: Wait,
    ) -> Result<usize, ReadError> {
        if wait == Wait::Device {
            self.fill(segment, into, offset, wait)?;
            return Ok(into.len());
        }
        match segment.file.read_resident_at(into, offset) {
            Ok(count) if count >= HEADER_BYTES.min(into.len()) => Ok(count),
            Ok(_) => Err(ReadError::NotResident),
            Err(error) => Err(self.read_error(error)),
        }
    }

    /// Fills all of `into`.
    pub(super) fn fill(
        &self,
        segment: &Segment,
        into: &mut [u8],
        offset: u64,
        wait: Wait,
    ) -> Result<(), ReadError> {
        let result = match wait {
            Wait::Device => weir_disk::read_exact_at(&*segment.file, into, offset),
            Wait::Never => fill_resident(&*segment.file, into, offset),
        };
        result.map_err(|error| self.read_error(error))
    }

    fn read_error(&self, error: io::Error) -> ReadError {
        match error.kind() {
            io::ErrorKind::WouldBlock => ReadError::NotResident,
            io::ErrorKind::UnexpectedEof => ReadError::Gone,
            _ => {
                Counters::add(&self.counters.read_errors, 1);
                ReadError::Device(error)
            }
        }
    }

    /// Reads a body at `offset`: at most `max` bytes, and at most [`PIECE_BYTES_MAX`].
    pub(crate) fn read(
        &self,
        record: &Record,
        position: &mut Position,
        offset: u64,
        max: usize,
        wait: Wait,
    ) -> Result<Part, ReadError> {
        if record.length.is_some_and(|length| offset >= length) {
            return Ok(Part::End);
        }
        if self.counters.state() == VolumeState::Ejected {
            return Err(ReadError::Gone);
        }
        if let Some(body) = &record.body {
            let start = offset as usize;
            let end = body.0.len().min(start.saturating_add(max).min(start + PIECE_BYTES_MAX));
            return Ok(Part::Bytes(Checked(body.0.slice(start..end))));
        }
        let after = record.extents.partition_point(|extent| extent.offset <= offset);
        let extent = record.extents[..after].last().filter(|extent| offset < extent.end());
        let Some(extent) = extent else { return Ok(Part::Gap) };
        let Some(segment) = self.segments.readable(extent.place.segment) else { return Ok(Part::Gap) };
        let run = Run::of(*extent, offset, max);
        let mut bytes = run.room(std::mem::take(&mut position.room));
        let own = record.own.as_deref().filter(|own| own.extent == *extent);
        let read = match own {
            Some(own) => self.fill_run(&segment, own, run, &mut bytes, wait),
            None => self
                .open_extent(position, &segment, *extent, record, wait)
                .and_then(|open| self.fill_run(&segment, open, run, &mut bytes, wait)),
        };
        match read {
            Ok(()) => Ok(Part::Bytes(Checked(Bytes::from(bytes).slice(run.wanted())))),
            Err(error) => {
                if matches!(error, ReadError::NotResident) {
                    position.room = bytes;
                }
                Err(error)
            }
        }
    }

    /// An extent with its checksums, which are read unless the position has them already.
    fn open_extent<'a>(
        &self,
        position: &'a mut Position,
        segment: &Arc<Segment>,
        extent: ExtentRef,
        record: &Record,
        wait: Wait,
    ) -> Result<&'a OpenExtent, ReadError> {
        if position.open.as_ref().is_none_or(|open| open.extent != extent) {
            position.open = Some(self.read_extent(segment, extent, record, wait)?);
        }
        position.open.as_ref().ok_or(ReadError::Gone)
    }

    fn read_extent(
        &self,
        segment: &Arc<Segment>,
        extent: ExtentRef,
        record: &Record,
        wait: Wait,
    ) -> Result<OpenExtent, ReadError> {
        self.described(segment, extent.place, wait, |described, _| {
            let header = described.header;
            let is_it = match header.kind {
                Kind::Extent => header.span == extent.offset,
                Kind::Object => extent.offset == 0,
                Kind::Head | Kind::Gone => false,
            };
            if !is_it || header.number != record.number || header.count != extent.length {
                return Err(ReadError::Gone);
            }
            Ok(OpenExtent::of(extent, described))
        })?
    }

    /// Reads the blocks of a run and checks each.
    fn fill_run(
        &self,
        segment: &Segment,
        open: &OpenExtent,
        run: Run,
        bytes: &mut [u8],
        wait: Wait,
    ) -> Result<(), ReadError> {
        self.fill(segment, bytes, open.body_at + run.begin, wait)?;
        let first = (run.begin / BLOCK_BYTES as u64) as usize;
        for (at, part) in bytes.chunks(BLOCK_BYTES).enumerate() {
            if open.sums.get(first + at) != Some(&block_sum(part)) {
                return Err(ReadError::Gone);
            }
        }
        Ok(())
    }
}

fn fill_resident(file: &dyn DiskFile, into: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < into.len() {
        match file.read_resident_at(&mut into[done..], offset + done as u64)? {
            // The end of the file: a thread that may wait finds out.
            0 => return Err(io::ErrorKind::WouldBlock.into()),
            count => done += count,
        }
    }
    Ok(())
}
