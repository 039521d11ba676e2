//! Walking through a segment from record to record.

use std::io;
use std::sync::Arc;

use super::record::{Described, HEADER_BYTES, Header, Place, UNIT_BYTES};
use super::segment::Segment;
use super::shared::Shared;

/// What is read of the file at a time, in bytes.
const CHUNK_BYTES: u64 = 1 << 20;

/// How closely records are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Headers, keys, heads and tables.
    Descriptions,
    /// Bodies, too.
    Bodies,
}

/// A record that was come across. Its description is sound; its body is if `is_sound` says so, or was not looked at.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    pub(crate) described: Described<'a>,
    pub(crate) place: Place,
    pub(crate) is_sound: bool,
}

/// Walks from byte `from` on, up to the first place that is no record; returns where that is.
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
    let mut window = Window { segment, start: from, bytes: Vec::new() };
    let mut at = from;
    loop {
        let Some(header) = window.read(at, HEADER_BYTES as u64)?.and_then(Header::read) else {
            return Ok(at);
        };
        let described_bytes = header.described_bytes();
        let fits = header.record_bytes() <= segment.end().saturating_sub(at);
        let place = Place { segment: segment.number, unit: (at / UNIT_BYTES) as u32 };
        if !fits {
            return Ok(at);
        }
        let wanted = match depth {
            Depth::Bodies => described_bytes + header.body_bytes(),
            Depth::Descriptions => described_bytes,
        };
        let Some(bytes) = window.read(at, wanted)? else { return Ok(at) };
        let Some(described) = Described::read(bytes, shared.superblock.secret, place) else { return Ok(at) };
        let is_sound = depth == Depth::Descriptions || described.is_body(&bytes[described_bytes as usize..]);
        found(&Found { described, place, is_sound });
        at += header.record_bytes();
    }
}

/// A part of the file in memory.
struct Window<'a> {
    segment: &'a Segment,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// `length` bytes at `at`; `None` where the records end before.
    fn read(&mut self, at: u64, length: u64) -> io::Result<Option<&[u8]>> {
        let end = self.segment.end();
        if length > end.saturating_sub(at) {
            return Ok(None);
        }
        let has = self.start + self.bytes.len() as u64;
        if at < self.start || at + length > has {
            let wanted = length.max(CHUNK_BYTES).min(end - at);
            self.bytes.resize(wanted as usize, 0);
            self.start = at;
            super::disk::read_exact_at(&*self.segment.file, &mut self.bytes, at)?;
        }
        let from = (at - self.start) as usize;
        Ok(self.bytes.get(from..from + length as usize))
    }
}
