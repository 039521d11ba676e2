//! The ledger's file, byte by byte: `docs/format/ledger.md`. It does no I/O.

use std::time::{Duration, SystemTime};

use xxhash_rust::xxh3::xxh3_64;

use super::scope::{Force, Mark, Scope};

/// The bytes of the header, and of each record.
pub(super) const RECORD_BYTES: usize = 64;
/// The largest file that is read, in bytes: many times that of a compacted ledger.
pub(super) const FILE_BYTES_MAX: u64 = 64 << 20;

const MAGIC: &[u8; 8] = b"WEIRLEDG";
const END_MAGIC: &[u8; 8] = b"WEIRLEND";
const VERSION: u32 = 3;
/// The version before: it has no retentions.
const VERSION_PURGES: u32 = 2;
/// The version before that: it has no identity, and no second file that says where it ends.
const VERSION_UNNAMED: u32 = 1;
const END_VERSION: u32 = 1;
/// Where the checksum of a header or record begins.
const SUM_AT: usize = RECORD_BYTES - 8;

/// A file that is no ledger of this version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It does not begin as a ledger does.
    #[error(
        "the file `ledger` in the state folder is no ledger, or its header is damaged; put a copy of it in \
        its place, or move it \
         away: without it what the volumes hold is not used any more"
    )]
    Foreign,
    /// It was written by a newer Weir.
    #[error(
        "the file `ledger` in the state folder is of version {0}, which this Weir does not know; start the \
        Weir that wrote it"
    )]
    Newer(u32),
}

/// One mark, as it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) number: u64,
    pub(super) mark: Mark,
    /// When it was made; meaningless for hard marks.
    pub(super) at: SystemTime,
}

/// What a file begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// The counter when the file was made.
    pub(super) base: u64,
    /// Its identity: a random number for as long as it lives. `None` in a file of version 1.
    pub(super) id: Option<u128>,
    /// What was asked for before this number is revalidated before it is used: marks may have been lost.
    pub(super) suspect_before: u64,
    /// It had no identity when the file was made.
    pub(super) is_adopted: bool,
    /// The records that the file was made with; 0 in a file of version 1.
    pub(super) count: u32,
}

/// What a file says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) header: Header,
    pub(super) records: Vec<Record>,
    pub(super) end: End,
}

/// How a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// With its last record.
    Whole,
    /// With something that is no record: torn while it was written, or damaged. Or before the records that it
    /// was made with.
    Torn,
    /// Good records follow a damaged one: marks after this number may be lost.
    Damaged { whole_to: u64 },
}

/// The number up to which no mark is missing: records stand in the order of their numbers, behind those that
/// the file was made with.
fn whole_to(header: &Header, sound: &[Record]) -> u64 {
    match sound.last() {
        _ if sound.len() < header.count as usize => 0,
        Some(last) => last.number.max(header.base),
        None => header.base,
    }
}

/// The header of a file.
pub(super) fn header(of: Header) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&(RECORD_BYTES as u32).to_le_bytes());
    bytes[16..24].copy_from_slice(&of.base.to_le_bytes());
    bytes[24..40].copy_from_slice(&of.id.unwrap_or_default().to_le_bytes());
    bytes[40..48].copy_from_slice(&of.suspect_before.to_le_bytes());
    bytes[48] = u8::from(of.is_adopted);
    bytes[52..56].copy_from_slice(&of.count.to_le_bytes());
    summed(bytes)
}

/// The second file, which says how far the ledger of this identity is durable.
pub(super) fn end_to_bytes(id: u128, number: u64) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    bytes[..8].copy_from_slice(END_MAGIC);
    bytes[8..12].copy_from_slice(&END_VERSION.to_le_bytes());
    bytes[16..24].copy_from_slice(&number.to_le_bytes());
    bytes[24..40].copy_from_slice(&id.to_le_bytes());
    summed(bytes)
}

/// The identity and the number; `None` for bytes that [`end_to_bytes`] did not write.
pub(super) fn end_of_bytes(bytes: &[u8]) -> Option<(u128, u64)> {
    let bytes: &[u8; RECORD_BYTES] = bytes.try_into().ok()?;
    let end = (u128::from_le_bytes(part(bytes, 24)), u64_at(bytes, 16));
    (*bytes == end_to_bytes(end.0, end.1)).then_some(end)
}

impl Record {
    pub(super) fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let Mark { scope, force } = self.mark;
        let (kind, digest, site, length) = match scope {
            Scope::All => (0, 0, 0, 0),
            Scope::Site(site) => (1, 0, site, 0),
            Scope::Prefix { site, digest, length } => (2, digest, site, length),
            Scope::Tag { site, hash } => (3, u128::from(hash), site, 0),
            Scope::Url { site, digest } => (4, digest, site, 0),
        };
        let since_epoch = self.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let at_ms = u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX);
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..16].copy_from_slice(&at_ms.to_le_bytes());
        bytes[16..32].copy_from_slice(&digest.to_le_bytes());
        bytes[32..40].copy_from_slice(&site.to_le_bytes());
        bytes[40..44].copy_from_slice(&length.to_le_bytes());
        bytes[44] = kind;
        let (force, lifetime) = match force {
            Force::Hard => (0, Duration::ZERO),
            Force::Soft => (1, Duration::ZERO),
            Force::Lifetime(lifetime) => (2, lifetime),
        };
        bytes[45] = force;
        let lifetime_ms = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
        bytes[48..56].copy_from_slice(&lifetime_ms.to_le_bytes());
        summed(bytes)
    }

    /// `None` for bytes that are no record, or a torn one.
    pub(super) fn of_bytes(bytes: &[u8; RECORD_BYTES]) -> Option<Record> {
        if !is_sound(bytes) {
            return None;
        }
        let digest = u128::from_le_bytes(part(bytes, 16));
        let site = u64_at(bytes, 32);
        let length = u32::from_le_bytes(part(bytes, 40));
        let scope = match bytes[44] {
            0 => Scope::All,
            1 => Scope::Site(site),
            2 => Scope::Prefix { site, digest, length },
            3 => Scope::Tag { site, hash: u64::try_from(digest).ok()? },
            4 => Scope::Url { site, digest },
            _ => return None,
        };
        let force = match bytes[45] {
            0 => Force::Hard,
            1 => Force::Soft,
            2 => Force::Lifetime(Duration::from_millis(u64_at(bytes, 48))),
            _ => return None,
        };
        let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(u64_at(bytes, 8)))?;
        Some(Record { number: u64_at(bytes, 0), mark: Mark { scope, force }, at })
    }
}

impl Mark {
    /// Marks as bytes for another process, in the form of the file's records but without numbers: each
    /// process has its own.
    pub fn to_bytes(marks: &[Mark]) -> Vec<u8> {
        let record = |mark: &Mark| Record { number: 0, mark: *mark, at: SystemTime::UNIX_EPOCH }.to_bytes();
        marks.iter().flat_map(record).collect()
    }

    /// The marks that [`Mark::to_bytes`] wrote; `None` for other bytes.
    pub fn of_bytes(bytes: &[u8]) -> Option<Vec<Mark>> {
        let (pieces, rest) = bytes.as_chunks::<RECORD_BYTES>();
        let marks = pieces.iter().map(|piece| Record::of_bytes(piece).map(|record| record.mark));
        if rest.is_empty() { marks.collect() } else { None }
    }
}

/// Reads a whole file.
pub(super) fn read(bytes: &[u8]) -> Result<Content, Unreadable> {
    let (pieces, torn) = bytes.as_chunks::<RECORD_BYTES>();
    let Some((header, pieces)) = pieces.split_first() else { return Err(Unreadable::Foreign) };
    if &header[..8] != MAGIC || !is_sound(header) {
        return Err(Unreadable::Foreign);
    }
    let version = u32::from_le_bytes(part(header, 8));
    let base = u64_at(header, 16);
    let header = match version {
        VERSION | VERSION_PURGES => Header {
            base,
            id: Some(u128::from_le_bytes(part(header, 24))),
            suspect_before: u64_at(header, 40),
            is_adopted: header[48] != 0,
            count: u32::from_le_bytes(part(header, 52)),
        },
        VERSION_UNNAMED => Header { base, id: None, suspect_before: 0, is_adopted: false, count: 0 },
        _ => return Err(Unreadable::Newer(version)),
    };
    let good = pieces.iter().map_while(Record::of_bytes);
    let mut records: Vec<Record> = good.collect();
    let sound = records.len();
    records.extend(pieces.iter().skip(sound + 1).filter_map(Record::of_bytes));
    let is_short = (pieces.len() as u64) < u64::from(header.count);
    let end = match records.len() > sound {
        true => End::Damaged { whole_to: whole_to(&header, &records[..sound]) },
        false if is_short || sound < pieces.len() || !torn.is_empty() => End::Torn,
        false => End::Whole,
    };
    Ok(Content { header, records, end })
}

fn summed(mut bytes: [u8; RECORD_BYTES]) -> [u8; RECORD_BYTES] {
    let sum = xxh3_64(&bytes[..SUM_AT]);
    bytes[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn is_sound(bytes: &[u8; RECORD_BYTES]) -> bool {
    xxh3_64(&bytes[..SUM_AT]) == u64_at(bytes, SUM_AT)
}

fn u64_at(bytes: &[u8; RECORD_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(part(bytes, at))
}

fn part<const N: usize>(bytes: &[u8; RECORD_BYTES], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[at..at + N]);
    part
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod fuzzed;
#[cfg(test)]
mod tests;
