//! The bytes of a month's file, version 1; drawn in `docs/format/accounts.md`. It must not touch a file.
//!
//! A file is a header and frames. Each frame has a checksum of its own and can be found by its first bytes,
//! so that what was torn or damaged costs itself alone. Rows are absolute and only ever grow: of two of one
//! account and day the larger is taken, whatever their order.

use std::collections::BTreeMap;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::flows::{FLOWS, Flows};

const MAGIC: &[u8; 8] = b"WEIRACCT";
const VERSION: u32 = 1;
/// Magic, version, zeros.
const HEADER_BYTES: usize = 16;
const FRAME_MAGIC: &[u8; 4] = b"\xA5WAF";
/// Magic, length, checksum.
const FRAME_HEAD_BYTES: usize = 16;
/// The most that a frame's payload has.
const FRAME_BYTES_MAX: usize = 64 << 10;
/// A frame that is longer takes no further entry when it is written.
const FRAME_BYTES_FULL: usize = 16 << 10;
const NAME: u8 = 1;
const ROW: u8 = 2;
/// The longest name of an account in bytes; a longer one is cut.
const NAME_BYTES_MAX: usize = 255;
/// The number of a row that is of a whole month is 0.
const DAY_MAX: u8 = 31;

/// An account in a file: the hash of its name.
pub(crate) type Id = u64;

/// The number under which a name stands in the files.
pub(crate) fn id(name: &str) -> Id {
    xxh3_64(name.as_bytes())
}

/// What a month's file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sheet {
    /// Names by their hash.
    pub(crate) names: BTreeMap<Id, Arc<str>>,
    /// Rows by account and day; day 0 is the whole month.
    pub(crate) rows: BTreeMap<(Id, u8), Flows>,
}

/// A sheet and what is wrong with its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) sheet: Sheet,
    /// Bytes at the end with which a frame begins that is not whole: what was being written when it ended, or
    /// it was cut off.
    pub(crate) torn_bytes: u64,
    /// Other bytes that belong to no sound frame.
    pub(crate) damaged_bytes: u64,
}

impl Told {
    /// Whether all that was ever written to the file may be in the sheet. A file is made whole, with a row at
    /// least, and only then gets its name: one without is not as it was, even where no byte of it is unsound.
    pub(crate) fn is_sound(&self) -> bool {
        self.torn_bytes + self.damaged_bytes == 0 && !self.sheet.rows.is_empty()
    }
}

/// The file is of another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Foreign;

/// Reads a file.
pub(crate) fn read(bytes: &[u8]) -> Result<Told, Foreign> {
    let mut told = Told::default();
    if bytes.starts_with(MAGIC) && bytes.get(8..12).is_some_and(|version| version != VERSION.to_le_bytes()) {
        return Err(Foreign);
    }
    // No write that was cut off leaves a file without its header; frames say by themselves whether they are
    // sound.
    let mut at = if bytes.starts_with(&header()) { HEADER_BYTES } else { 0 };
    // The last place at which no sound frame begins, and the bytes before it of which that is true.
    let (mut last, mut bad) = (at, 0);
    while at < bytes.len() {
        match frame(&bytes[at..]).and_then(|payload| Some((payload.len(), entries(payload)?))) {
            Some((length, sheet)) => {
                told.sheet.take(sheet);
                told.damaged_bytes += std::mem::take(&mut bad);
                at += FRAME_HEAD_BYTES + length;
            }
            None => {
                let next = bytes[at + 1..].windows(FRAME_MAGIC.len()).position(|four| four == FRAME_MAGIC);
                let skipped = next.map_or(bytes.len() - at, |next| next + 1);
                bad += skipped as u64;
                (last, at) = (at, at + skipped);
            }
        }
    }
    if bad > 0 && last >= HEADER_BYTES && is_cut_off(&bytes[last..]) {
        told.torn_bytes = (bytes.len() - last) as u64;
    }
    told.damaged_bytes += bad - told.torn_bytes;
    Ok(told)
}

impl Sheet {
    fn take(&mut self, other: Sheet) {
        self.names.extend(other.names);
        for (key, flows) in other.rows {
            let row = self.rows.entry(key).or_default();
            *row = row.later(&flows);
        }
    }

    /// The whole file.
    pub(crate) fn file(&self) -> Vec<u8> {
        let mut out = header().to_vec();
        frames(&mut out, self.names.iter(), self.rows.iter());
        out
    }

    /// Frames with the rows of these keys, and the names of their accounts where they are `new`.
    pub(crate) fn addition<'k>(
        &self,
        keys: impl Iterator<Item = &'k (Id, u8)>,
        is_new: impl Fn(Id) -> bool,
    ) -> Vec<u8> {
        let rows: Vec<_> = keys.filter_map(|key| self.rows.get_key_value(key)).collect();
        let mut ids: Vec<Id> = rows.iter().map(|(key, _)| key.0).filter(|id| is_new(*id)).collect();
        ids.dedup();
        let mut out = Vec::new();
        frames(&mut out, ids.iter().filter_map(|id| self.names.get_key_value(id)), rows.into_iter());
        out
    }
}

fn header() -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header
}

fn frames<'e>(
    out: &mut Vec<u8>,
    names: impl Iterator<Item = (&'e Id, &'e Arc<str>)>,
    rows: impl Iterator<Item = (&'e (Id, u8), &'e Flows)>,
) {
    let mut payload = Vec::with_capacity(FRAME_BYTES_FULL);
    for (id, name) in names {
        payload.push(NAME);
        payload.extend_from_slice(&id.to_le_bytes());
        let name = &name[..name.floor_char_boundary(NAME_BYTES_MAX)];
        // Invariant: cut above.
        payload.push(u8::try_from(name.len()).unwrap_or(0));
        payload.extend_from_slice(name.as_bytes());
        close(out, &mut payload, FRAME_BYTES_FULL);
    }
    for ((id, day), flows) in rows {
        payload.push(ROW);
        payload.extend_from_slice(&id.to_le_bytes());
        payload.push(*day);
        for number in flows.numbers() {
            write_number(&mut payload, number);
        }
        close(out, &mut payload, FRAME_BYTES_FULL);
    }
    close(out, &mut payload, 1);
}

/// Puts the payload into a frame where it has come to so many bytes.
fn close(out: &mut Vec<u8>, payload: &mut Vec<u8>, bytes_min: usize) {
    if payload.len() < bytes_min {
        return;
    }
    assert!(payload.len() <= FRAME_BYTES_MAX, "an entry is shorter than what is left above a full frame");
    out.extend_from_slice(FRAME_MAGIC);
    // Invariant: asserted above.
    out.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(0).to_le_bytes());
    out.extend_from_slice(&xxh3_64(payload).to_le_bytes());
    out.append(payload);
}

/// The payload of the frame with which these bytes begin.
fn frame(bytes: &[u8]) -> Option<&[u8]> {
    let rest = bytes.strip_prefix(FRAME_MAGIC)?;
    let (length, rest) = rest.split_first_chunk()?;
    let (checksum, rest) = rest.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let payload = rest.get(..length).filter(|_| (1..=FRAME_BYTES_MAX).contains(&length))?;
    (xxh3_64(payload) == u64::from_le_bytes(*checksum)).then_some(payload)
}

/// Whether these bytes are what a write that was cut off leaves: a frame's beginning, or room that was not
/// filled any more.
fn is_cut_off(bytes: &[u8]) -> bool {
    let Some(rest) = bytes.strip_prefix(FRAME_MAGIC) else {
        return FRAME_MAGIC.starts_with(bytes) || bytes.iter().all(|byte| *byte == 0);
    };
    let Some((length, rest)) = rest.split_first_chunk() else { return true };
    let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let whole = FRAME_HEAD_BYTES - FRAME_MAGIC.len() - size_of::<u32>();
    (1..=FRAME_BYTES_MAX).contains(&length) && rest.len() < whole + length
}

fn entries(mut payload: &[u8]) -> Option<Sheet> {
    let mut sheet = Sheet::default();
    while let Some((kind, rest)) = payload.split_first() {
        let (id, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first()?;
        let id = u64::from_le_bytes(*id);
        payload = match *kind {
            NAME => {
                let (name, rest) = rest.split_at_checked(usize::from(*number))?;
                sheet.names.insert(id, std::str::from_utf8(name).ok()?.into());
                rest
            }
            ROW if *number <= DAY_MAX => {
                let (mut numbers, mut rest) = ([0; FLOWS], rest);
                for number in &mut numbers {
                    (*number, rest) = read_number(rest)?;
                }
                let row = sheet.rows.entry((id, *number)).or_default();
                *row = row.later(&Flows::of(numbers));
                rest
            }
            _ => return None,
        };
    }
    Some(sheet)
}

/// Seven bits a byte, the lowest first; all but the last have the highest bit set.
fn write_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push((number & 0x7f) as u8);
}

fn read_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0_u64;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        let shift = 7 * u32::try_from(at).ok()?;
        if bits.checked_shl(shift)? >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some((number, &bytes[at + 1..]));
        }
    }
    None
}

/// The body of the fuzz target.
pub mod fuzzed {
    /// Any bytes are read without a panic, and what was read is what is read again of what is written of it.
    pub fn accounts(bytes: &[u8]) {
        let Ok(told) = super::read(bytes) else { return };
        let again = super::read(&told.sheet.file());
        let expect = super::Told { sheet: told.sheet, ..super::Told::default() };
        assert_eq!(again, Ok(expect), "what is written is read");
    }
}

#[cfg(test)]
mod tests;
