//! Walks through a segment from record to record.

use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use crate::format::record::{Described, HEADER_BYTES, Header, Place, UNIT_BYTES};
use crate::index::segment::Segment;
use crate::shared::Shared;

/// The bytes that are read of the file at a time.
const CHUNK_BYTES: u64 = 1 << 20;
/// The same where bodies are skipped.
const SMALL_CHUNK_BYTES: u64 = 64 << 10;

/// How closely records are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Headers, keys, heads and tables.
    Descriptions,
    /// Bodies, too.
    Bodies,
}

/// A record of the walk. Its description is sound. Its body is sound if `is_sound` says so, and unchecked
/// otherwise.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    pub(crate) described: Described<'a>,
    pub(crate) place: Place,
    pub(crate) is_sound: bool,
}

/// Walks from byte `from` on to the first place without a record. Returns that place.
///
/// # Errors
/// Those of the drive.
pub(crate) fn scan(
    shared: &Shared,
    segment: &Arc<Segment>,
    from: u64,
    depth: Depth,
    mut found: impl FnMut(&Found<'_>),
) -> io::Result<u64> {
    let walk = Walk { shared, segment, depth, chunk_bytes: CHUNK_BYTES };
    walk.run(from..segment.end(), |record| {
        found(record);
        ControlFlow::Continue(())
    })
}

/// Walks over the descriptions in a range of bytes until `found` breaks. Returns where the next record would
/// begin. Reads little of what lies between the descriptions.
///
/// # Errors
/// Those of the drive.
pub(crate) fn scan_some(
    shared: &Shared,
    segment: &Arc<Segment>,
    range: Range<u64>,
    found: impl FnMut(&Found<'_>) -> ControlFlow<()>,
) -> io::Result<u64> {
    Walk { shared, segment, depth: Depth::Descriptions, chunk_bytes: SMALL_CHUNK_BYTES }.run(range, found)
}

struct Walk<'a> {
    shared: &'a Shared,
    segment: &'a Arc<Segment>,
    depth: Depth,
    chunk_bytes: u64,
}

impl Walk<'_> {
    fn run(
        &self,
        range: Range<u64>,
        mut found: impl FnMut(&Found<'_>) -> ControlFlow<()>,
    ) -> io::Result<u64> {
        let segment = self.segment;
        let mut window =
            Window { segment, start: range.start, bytes: Vec::new(), chunk_bytes: self.chunk_bytes };
        let mut at = range.start;
        while at < range.end {
            let Some(header) = window.read(at, HEADER_BYTES as u64)?.and_then(Header::read) else {
                return Ok(at);
            };
            let described_bytes = header.described_bytes();
            let fits = header.record_bytes() <= segment.end().saturating_sub(at);
            let place = Place { segment: segment.number, unit: (at / UNIT_BYTES) as u32 };
            if !fits {
                return Ok(at);
            }
            let wanted = match self.depth {
                Depth::Bodies => described_bytes + header.body_bytes(),
                Depth::Descriptions => described_bytes,
            };
            let Some(bytes) = window.read(at, wanted)? else { return Ok(at) };
            let secret = self.shared.superblock.secret;
            let Some(described) = Described::read(bytes, secret, place) else { return Ok(at) };
            let is_sound =
                self.depth == Depth::Descriptions || described.is_body(&bytes[described_bytes as usize..]);
            let flow = found(&Found { described, place, is_sound });
            at += header.record_bytes();
            if flow.is_break() {
                break;
            }
        }
        Ok(at)
    }
}

/// A part of the file in memory.
struct Window<'a> {
    segment: &'a Segment,
    start: u64,
    bytes: Vec<u8>,
    chunk_bytes: u64,
}

impl Window<'_> {
    /// The `length` bytes at `at`; `None` if the records end before.
    fn read(&mut self, at: u64, length: u64) -> io::Result<Option<&[u8]>> {
        let end = self.segment.end();
        if length > end.saturating_sub(at) {
            return Ok(None);
        }
        let has = self.start + self.bytes.len() as u64;
        if at < self.start || at + length > has {
            let wanted = length.max(self.chunk_bytes).min(end - at);
            self.bytes.resize(wanted as usize, 0);
            self.start = at;
            weir_disk::read_exact_at(&*self.segment.file, &mut self.bytes, at)?;
        }
        let from = (at - self.start) as usize;
        Ok(self.bytes.get(from..from + length as usize))
    }
}
