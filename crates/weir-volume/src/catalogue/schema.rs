//! What the rows of a catalogue say, byte by byte: `docs/format/catalogue.md`. It does no I/O.
//!
//! A row names a record of the log by its place. Whether that is the newest of its object only the index
//! knows, so that a row is believed where the index has that very entry, and is of no use any more where it
//! cannot come back.

use bytes::{Buf, BufMut};

use super::summary::Summary;
use crate::Place;

/// The version of the schema.
pub(crate) const VERSION: u32 = 3;
/// The key of the marker.
pub(crate) const MARKER: &[u8] = &[0];
const BY_KEY: u8 = 1;
const BY_TAG: u8 = 2;
const BY_MANY: u8 = 3;
const BY_OBJECT: u8 = 4;
/// The bytes of an object's number at the end of a key.
const NUMBER_BYTES: usize = 8;
const PLACE_BYTES: usize = 12;
const MARKER_BYTES: usize = 4 + 16 + PLACE_BYTES;

/// How far the rows go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Marker {
    /// Which volume they are of.
    pub(crate) volume: u128,
    /// What the log has before this place is in the rows.
    pub(crate) covered: Place,
}

/// What a row says of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Where the record is.
    pub place: Place,
    /// The upper half of the digest of the record's key: what the index goes by.
    pub hash: u64,
    /// The record's stamp.
    pub stamp: u64,
}

/// By what a row is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named<'a> {
    /// Its site and full key.
    Key {
        /// The site.
        site: u64,
        /// The full key.
        full: &'a [u8],
    },
    /// One of its tags.
    Tag(u64),
    /// It has more tags than are kept.
    ManyTags,
    /// Its number alone: where a row by tag leads to.
    Object,
}

impl Marker {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(MARKER_BYTES);
        out.put_u32_le(VERSION);
        out.put_u128_le(self.volume);
        put_place(&mut out, self.covered);
        out
    }

    /// `None` for what is none of this version.
    pub(crate) fn read(bytes: &[u8]) -> Option<Marker> {
        let mut cursor: &[u8] = bytes;
        let is_known = bytes.len() == MARKER_BYTES && cursor.try_get_u32_le() == Ok(VERSION);
        let volume = cursor.try_get_u128_le().ok()?;
        let covered = place(&mut cursor)?;
        is_known.then_some(Marker { volume, covered })
    }
}

impl Row {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(PLACE_BYTES + 16);
        put_place(&mut out, self.place);
        out.put_u64_le(self.hash);
        out.put_u64_le(self.stamp);
        out
    }

    /// What every row begins with.
    pub(crate) fn read(bytes: &[u8]) -> Option<Row> {
        Row::begin(&mut { bytes })
    }

    fn begin(cursor: &mut &[u8]) -> Option<Row> {
        let place = place(cursor)?;
        Some(Row { place, hash: cursor.try_get_u64_le().ok()?, stamp: cursor.try_get_u64_le().ok()? })
    }

    /// The value of a row by key. Without a summary for a head that cannot be read.
    pub(crate) fn by_key(self, summary: Option<&Summary>) -> Vec<u8> {
        let mut out = self.to_bytes();
        if let Some(summary) = summary {
            summary.put(&mut out);
        }
        out
    }

    /// The value of a row by number: what a row by key says in key and value.
    pub(crate) fn by_number(self, summary: &Summary, site: u64, full: &[u8]) -> Vec<u8> {
        let mut out = self.by_key(Some(summary));
        out.put_u64_le(site);
        out.put_slice(full);
        out
    }
}

/// The row by key and its summary; `None` for another's value, and where the head could not be read.
pub(crate) fn read_by_key(value: &[u8]) -> Option<(Row, Summary)> {
    let mut cursor: &[u8] = value;
    let row = Row::begin(&mut cursor)?;
    let summary = Summary::read(&mut cursor)?;
    cursor.is_empty().then_some((row, summary))
}

/// The row by number, its summary, and the site and full key of its object.
pub(crate) fn read_by_number(value: &[u8]) -> Option<(Row, Summary, u64, &[u8])> {
    let mut cursor: &[u8] = value;
    let row = Row::begin(&mut cursor)?;
    let summary = Summary::read(&mut cursor)?;
    let site = cursor.try_get_u64_le().ok()?;
    Some((row, summary, site, cursor))
}

fn put_place(out: &mut Vec<u8>, place: Place) {
    out.put_u64_le(place.segment);
    out.put_u32_le(place.unit);
}

fn place(cursor: &mut &[u8]) -> Option<Place> {
    Some(Place { segment: cursor.try_get_u64_le().ok()?, unit: cursor.try_get_u32_le().ok()? })
}

/// Where the rows of a site begin whose full key begins with that text.
pub fn of_site(site: u64, full: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + 8 + full.len() + NUMBER_BYTES);
    key.push(BY_KEY);
    key.extend_from_slice(&site.to_be_bytes());
    key.extend_from_slice(full);
    key
}

/// What the keys of all rows by key begin with.
pub const KEYS: &[u8] = &[BY_KEY];
/// What the keys of the rows of objects begin with whose tags are too many.
pub const MANY: &[u8] = &[BY_MANY];
/// What the keys of all rows by number begin with.
pub(crate) const OBJECTS: &[u8] = &[BY_OBJECT];

/// What the keys of a tag's rows begin with.
pub fn of_tag(tag: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + 8 + NUMBER_BYTES);
    key.push(BY_TAG);
    key.extend_from_slice(&tag.to_be_bytes());
    key
}

/// The key of an object's row by that name.
pub(crate) fn key_of(named: Named<'_>, object: u64) -> Vec<u8> {
    let mut key = match named {
        Named::Key { site, full } => of_site(site, full),
        Named::Tag(tag) => of_tag(tag),
        Named::ManyTags => MANY.to_vec(),
        Named::Object => OBJECTS.to_vec(),
    };
    key.extend_from_slice(&object.to_be_bytes());
    key
}

/// What a row's key says: by what it is found, and the object's number. `None` for the marker, and what is no
/// key.
pub(crate) fn read_key(key: &[u8]) -> Option<(Named<'_>, u64)> {
    let (kind, rest) = key.split_first()?;
    let (name, number) = rest.split_at_checked(rest.len().checked_sub(NUMBER_BYTES)?)?;
    let number = u64::from_be_bytes(number.try_into().ok()?);
    let named = match *kind {
        BY_KEY => {
            let (site, full) = name.split_first_chunk()?;
            Named::Key { site: u64::from_be_bytes(*site), full }
        }
        BY_TAG => Named::Tag(u64::from_be_bytes(name.try_into().ok()?)),
        BY_MANY if name.is_empty() => Named::ManyTags,
        BY_OBJECT if name.is_empty() => Named::Object,
        _ => return None,
    };
    Some((named, number))
}

#[cfg(test)]
mod tests;
