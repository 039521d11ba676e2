//! Records: the self-describing pieces of a segment. Pure: bytes in, bytes out.
//!
//! A record is a header of 64 bytes, its *description* (key, head, table) and its body, padded to 64 bytes.
//! One checksum covers header and description. Its seed comes from the volume's secret and the record's
//! place: a body that was made to look like a record does not pass, and neither does a record from another
//! place. The body has a checksum for each block of 64 KiB.

use bytes::{Buf, BufMut, TryGetError};
use twox_hash::XxHash3_64;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::take;
use crate::BLOCK_BYTES;

/// The length of a header in bytes, and the unit of places in a segment.
pub(crate) const UNIT_BYTES: u64 = 64;
pub(crate) const HEADER_BYTES: usize = 64;
/// An entry of an extent table in bytes.
pub(crate) const EXTENT_ENTRY_BYTES: usize = 24;
/// A body of unknown length.
pub(crate) const LENGTH_UNKNOWN: u64 = u64::MAX;

const MAGIC: u32 = 0x6365_5257; // "WRec"

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An object whole: key, head, block checksums, body.
    Object,
    /// A run of a body: block checksums, body.
    Extent,
    /// Key, head, and where the extents are.
    Head,
    /// The removal of an object.
    Gone,
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Kind::Object => 1,
            Kind::Extent => 2,
            Kind::Head => 3,
            Kind::Gone => 4,
        }
    }

    fn of(code: u8) -> Option<Kind> {
        [Kind::Object, Kind::Extent, Kind::Head, Kind::Gone].into_iter().find(|kind| kind.code() == code)
    }
}

/// Where a record begins: a segment's number and the offset in units of 64 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The segment.
    pub segment: u64,
    /// Units of 64 bytes.
    pub unit: u32,
}

impl Place {
    /// Where the log begins.
    pub(crate) const BEGIN: Place = Place { segment: 0, unit: 0 };

    pub(crate) fn offset(self) -> u64 {
        u64::from(self.unit) * UNIT_BYTES
    }
}

/// A run of a body and the record that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExtentRef {
    /// Its first byte in the body.
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) place: Place,
}

impl ExtentRef {
    pub(crate) fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }
}

/// The fields of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) key_bytes: u16,
    /// The object's number: one for each generation.
    pub(crate) number: u64,
    pub(crate) stamp: u64,
    pub(crate) digest: u128,
    /// The length of the object's body, or [`LENGTH_UNKNOWN`]. Of an extent: its offset in the body.
    pub(crate) span: u64,
    pub(crate) head_bytes: u32,
    /// The bytes of the record's body. Of a head: the number of entries in its table.
    pub(crate) count: u32,
}

impl Header {
    /// The bytes of the body in this record.
    pub(crate) fn body_bytes(&self) -> u64 {
        match self.kind {
            Kind::Object | Kind::Extent => u64::from(self.count),
            Kind::Head | Kind::Gone => 0,
        }
    }

    /// The number of block checksums.
    pub(crate) fn blocks(&self) -> usize {
        self.body_bytes().div_ceil(BLOCK_BYTES as u64) as usize
    }

    fn table_bytes(&self) -> u64 {
        match self.kind {
            Kind::Object | Kind::Extent => self.blocks() as u64 * 8,
            Kind::Head => u64::from(self.count) * EXTENT_ENTRY_BYTES as u64,
            Kind::Gone => 0,
        }
    }

    /// The bytes of header, key, head and table. The body begins behind them.
    pub(crate) fn described_bytes(&self) -> u64 {
        HEADER_BYTES as u64 + u64::from(self.key_bytes) + u64::from(self.head_bytes) + self.table_bytes()
    }

    /// The record's length in bytes, padding included.
    pub(crate) fn record_bytes(&self) -> u64 {
        (self.described_bytes() + self.body_bytes()).next_multiple_of(UNIT_BYTES)
    }

    /// Sets the lengths of the description that is written behind it.
    pub(crate) fn fit(mut self, description: &Description<'_>) -> Header {
        // Invariant: callers refuse longer keys and heads when an object begins.
        self.key_bytes = u16::try_from(description.key.len()).unwrap_or(u16::MAX);
        self.head_bytes = u32::try_from(description.head.len()).unwrap_or(u32::MAX);
        if let Table::Extents(extents) = description.table {
            self.count = u32::try_from(extents.len()).unwrap_or(u32::MAX);
        }
        self
    }

    /// Reads the fields without checking them. [`Described::read`] checks them.
    pub(crate) fn read(bytes: &[u8]) -> Option<Header> {
        let (header, _) = read_fields(bytes).ok()??;
        Some(header)
    }
}

fn read_fields(bytes: &[u8]) -> Result<Option<(Header, u64)>, TryGetError> {
    let mut cursor: &[u8] = take(&mut { bytes }, HEADER_BYTES)?;
    let magic = cursor.try_get_u32_le()?;
    let kind = Kind::of(cursor.try_get_u8()?);
    let reserved = cursor.try_get_u8()?;
    let key_bytes = cursor.try_get_u16_le()?;
    let sum = cursor.try_get_u64_le()?;
    let Some(kind) = kind.filter(|_| magic == MAGIC && reserved == 0) else { return Ok(None) };
    let header = Header {
        kind,
        key_bytes,
        number: cursor.try_get_u64_le()?,
        stamp: cursor.try_get_u64_le()?,
        digest: cursor.try_get_u128_le()?,
        span: cursor.try_get_u64_le()?,
        head_bytes: cursor.try_get_u32_le()?,
        count: cursor.try_get_u32_le()?,
    };
    Ok(Some((header, sum)))
}

/// The seed of a record's checksum.
fn seed(secret: u64, place: Place, first: &[u8]) -> u64 {
    let first = first.iter().take(8).fold(0u64, |word, byte| word << 8 | u64::from(*byte));
    let place = (place.segment << 24) ^ u64::from(place.unit);
    let mixed = (secret ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(29);
    (mixed ^ first).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// A header and its description, checked against their checksum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Described<'a> {
    pub(crate) header: Header,
    pub(crate) key: &'a [u8],
    pub(crate) head: &'a [u8],
    table: &'a [u8],
}

impl<'a> Described<'a> {
    /// Reads a record's header and description from the beginning of `bytes`. `None` if they are not what was
    /// written at `place`.
    pub(crate) fn read(bytes: &'a [u8], secret: u64, place: Place) -> Option<Described<'a>> {
        let (header, sum) = read_fields(bytes).ok()??;
        let end = usize::try_from(header.described_bytes()).ok()?;
        let described = bytes.get(..end)?;
        if xxh3_64_with_seed(&described[16..], seed(secret, place, described)) != sum {
            return None;
        }
        let mut cursor: &[u8] = &described[HEADER_BYTES..];
        let key = take(&mut cursor, usize::from(header.key_bytes)).ok()?;
        let head = take(&mut cursor, header.head_bytes as usize).ok()?;
        let rest = cursor.len();
        let table = take(&mut cursor, rest).ok()?;
        Some(Described { header, key, head, table })
    }

    /// The checksum of a block of its body.
    pub(crate) fn block_sum(&self, number: usize) -> Option<u64> {
        let mut bytes = self.table.get(number * 8..number * 8 + 8)?;
        bytes.try_get_u64_le().ok()
    }

    /// Its block checksums.
    pub(crate) fn block_sums(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.header.blocks()).map_while(|number| self.block_sum(number))
    }

    /// Its extent table; empty unless it is a head.
    pub(crate) fn extents(&self) -> Vec<ExtentRef> {
        if self.header.kind != Kind::Head {
            return Vec::new();
        }
        let read = |entry: &[u8]| {
            let mut cursor: &[u8] = entry;
            let offset = cursor.try_get_u64_le()?;
            let length = cursor.try_get_u32_le()?;
            let unit = cursor.try_get_u32_le()?;
            let segment = cursor.try_get_u64_le()?;
            Ok::<_, TryGetError>(ExtentRef { offset, length, place: Place { segment, unit } })
        };
        let entries = self.table.chunks_exact(EXTENT_ENTRY_BYTES);
        let mut extents = Vec::with_capacity(entries.len());
        extents.extend(entries.map_while(|entry| read(entry).ok()));
        extents
    }

    /// Whether the body is the one that was written.
    pub(crate) fn is_body(&self, body: &[u8]) -> bool {
        body.len() as u64 == self.header.body_bytes()
            && body.chunks(BLOCK_BYTES).map(block_sum).eq(self.block_sums())
    }
}

/// What stands between a record's header and its body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Description<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) head: &'a [u8],
    pub(crate) table: Table<'a>,
}

impl<'a> Description<'a> {
    /// A description of checksums alone: the object's head names its key.
    pub(crate) fn of_blocks(sums: &'a [u64]) -> Description<'a> {
        Description { key: &[], head: &[], table: Table::Blocks(sums) }
    }
}

/// Header and description of a record as they are written at `place`. The lengths in `header` are set here.
pub(crate) fn describe(header: Header, description: &Description<'_>, secret: u64, place: Place) -> Vec<u8> {
    let header = header.fit(description);
    let mut out = Vec::with_capacity(header.described_bytes() as usize);
    out.put_u32_le(MAGIC);
    out.put_u8(header.kind.code());
    out.put_u8(0);
    out.put_u16_le(header.key_bytes);
    out.put_u64_le(0);
    out.put_u64_le(header.number);
    out.put_u64_le(header.stamp);
    out.put_u128_le(header.digest);
    out.put_u64_le(header.span);
    out.put_u32_le(header.head_bytes);
    out.put_u32_le(header.count);
    out.put_slice(description.key);
    out.put_slice(description.head);
    match description.table {
        Table::Blocks(sums) => sums.iter().for_each(|sum| out.put_u64_le(*sum)),
        Table::Extents(extents) => {
            for extent in extents {
                out.put_u64_le(extent.offset);
                out.put_u32_le(extent.length);
                out.put_u32_le(extent.place.unit);
                out.put_u64_le(extent.place.segment);
            }
        }
    }
    assert_eq!(out.len() as u64, header.described_bytes());
    let sum = xxh3_64_with_seed(&out[16..], seed(secret, place, &out));
    out[8..16].copy_from_slice(&sum.to_le_bytes());
    out
}

/// The last piece of a description. It says of what the body consists.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Table<'a> {
    /// The checksums of its blocks.
    Blocks(&'a [u64]),
    /// Where the object's extents are.
    Extents(&'a [ExtentRef]),
}

/// The checksum of a block: XXH3, 64 bits, by the widest instructions that the processor has.
pub(crate) fn block_sum(block: &[u8]) -> u64 {
    XxHash3_64::oneshot(block)
}

/// The checksums of a body that comes in pieces, block by block.
pub(crate) fn block_sums<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<u64> {
    let mut sums = Vec::new();
    let mut open: Option<Box<xxhash_rust::xxh3::Xxh3>> = None;
    let mut filled = 0;
    for mut piece in pieces {
        while !piece.is_empty() {
            let (part, rest) = piece.split_at(piece.len().min(BLOCK_BYTES - filled));
            piece = rest;
            if part.len() == BLOCK_BYTES {
                sums.push(block_sum(part));
                continue;
            }
            filled += part.len();
            let hasher = open.get_or_insert_default();
            hasher.update(part);
            if filled == BLOCK_BYTES {
                sums.push(hasher.digest());
                hasher.reset();
                filled = 0;
            }
        }
    }
    if filled > 0
        && let Some(hasher) = open
    {
        sums.push(hasher.digest());
    }
    sums
}

/// The first bytes of a segment's file.
pub(crate) mod preamble {
    use xxhash_rust::xxh3::xxh3_64_with_seed;

    use crate::format::superblock::{FILE_HEADER_BYTES, Superblock, VERSION};
    use crate::format::take;
    use bytes::{Buf, TryGetError};

    /// Its length in bytes: records begin behind it.
    pub(crate) const SEGMENT_HEADER_BYTES: usize = FILE_HEADER_BYTES;
    const MAGIC: &[u8; 8] = b"WeirSeg\n";

    pub(crate) fn to_bytes(superblock: &Superblock, segment: u64) -> Vec<u8> {
        superblock.file_header(MAGIC, VERSION, segment)
    }

    /// Whether these bytes begin segment `segment` of that volume.
    pub(crate) fn is_of(bytes: &[u8], superblock: &Superblock, segment: u64) -> bool {
        read(bytes, superblock, segment) == Ok(true)
    }

    fn read(bytes: &[u8], superblock: &Superblock, segment: u64) -> Result<bool, TryGetError> {
        let mut cursor: &[u8] = take(&mut { bytes }, SEGMENT_HEADER_BYTES)?;
        let magic = take(&mut cursor, MAGIC.len())?;
        let version = cursor.try_get_u32_le()?;
        cursor.try_get_u32_le()?;
        let id = cursor.try_get_u128_le()?;
        let number = cursor.try_get_u64_le()?;
        take(&mut cursor, 16)?;
        let sum = cursor.try_get_u64_le()?;
        Ok(magic == MAGIC
            && version == VERSION
            && id == superblock.id
            && number == segment
            && sum == xxh3_64_with_seed(&bytes[..SEGMENT_HEADER_BYTES - 8], superblock.secret))
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod fuzzed;
#[cfg(test)]
mod tests;
