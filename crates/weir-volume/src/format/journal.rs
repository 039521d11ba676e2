//! The journal: the changes of the index, in frames of one epoch each.
//!
//! A frame is written after the segments that it names were synced, and its epoch is durable once the frame
//! is. A journal file continues the one before. When it is not known whether a frame arrived, the next file
//! has it again: applying the same changes twice, in order, makes no difference.

use std::io;
use std::sync::Arc;

use bytes::{Buf, BufMut, TryGetError};
use weir_disk::{Disk, DiskFile};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::format::superblock::{FILE_HEADER_BYTES, INDEX_VERSION, Superblock};
use crate::index::{KeyHash, LOCATION_BITS, Location};
use crate::numbers::Durable;
use crate::stock::Stock;

/// The folder of journals and checkpoints.
pub(crate) const FOLDER: &str = "index";
pub(crate) const JOURNAL_HEADER_BYTES: usize = FILE_HEADER_BYTES;
pub(crate) const FRAME_HEADER_BYTES: usize = 72;
/// The length of a change in bytes.
pub(crate) const CHANGE_BYTES: usize = 16;

/// The lower 56 bits of a change's second half.
const LOW_MAX: u64 = (1 << 56) - 1;
const MAGIC: &[u8; 8] = b"WeirJnl\n";
const FRAME_MAGIC: u32 = 0x6d72_4657; // "WFrm"

/// A change of the index or of what is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// A record entered the index under a hash.
    Add(KeyHash, Location),
    /// A record left the index.
    Remove(KeyHash, Location),
    /// A segment is durable up to a unit.
    Durable { segment: u64, unit: u32 },
    /// A segment was dropped with all that it held.
    Dropped { segment: u64 },
    /// What a segment holds of an owner by now. It takes two places in a frame.
    Stock { segment: u64, owner: u64, stock: Stock },
}

impl Change {
    fn write(self, out: &mut Vec<u8>) {
        let (code, first, second) = match self {
            Change::Add(hash, location) => (1, hash.0, location.bits()),
            Change::Remove(hash, location) => (2, hash.0, location.bits()),
            Change::Durable { segment, unit } => (3, segment, u64::from(unit)),
            Change::Dropped { segment } => (4, segment, 0),
            Change::Stock { segment, stock, .. } => (5, segment, stock.objects.min(LOW_MAX)),
        };
        out.put_u64_le(first);
        out.put_u64_le(code << 56 | second);
        if let Change::Stock { owner, stock, .. } = self {
            out.put_u64_le(owner);
            out.put_u64_le(stock.bytes);
        }
    }

    /// How many places of a frame the change takes.
    fn places(self) -> usize {
        if matches!(self, Change::Stock { .. }) { 2 } else { 1 }
    }

    fn read(cursor: &mut &[u8]) -> Result<Option<Change>, TryGetError> {
        let (first, second) = (cursor.try_get_u64_le()?, cursor.try_get_u64_le()?);
        let low = second & LOW_MAX;
        let location = (low >> LOCATION_BITS == 0).then_some(Location::of(low));
        Ok(match (second >> 56, location) {
            (1, Some(location)) => Some(Change::Add(KeyHash(first), location)),
            (2, Some(location)) => Some(Change::Remove(KeyHash(first), location)),
            (3, _) => u32::try_from(low).ok().map(|unit| Change::Durable { segment: first, unit }),
            (4, _) => Some(Change::Dropped { segment: first }),
            (5, _) => {
                let (owner, bytes) = (cursor.try_get_u64_le()?, cursor.try_get_u64_le()?);
                Some(Change::Stock { segment: first, owner, stock: Stock { objects: low, bytes } })
            }
            _ => None,
        })
    }
}

/// The changes of one epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) epoch: u64,
    /// The lowest number that no object has had yet.
    pub(crate) next_object: u64,
    /// No record that was written before has a larger stamp.
    pub(crate) stamp_max: u64,
    /// How far the ledger was durable when the frame was written.
    pub(crate) ledger: Durable,
    pub(crate) changes: Vec<Change>,
}

impl Frame {
    pub(crate) fn to_bytes(&self, superblock: &Superblock, journal: u64) -> Vec<u8> {
        let places: usize = self.changes.iter().map(|change| change.places()).sum();
        let mut out = Vec::with_capacity(FRAME_HEADER_BYTES + places * CHANGE_BYTES);
        out.put_u64_le(0);
        out.put_u32_le(FRAME_MAGIC);
        out.put_u32_le(u32::try_from(places).unwrap_or(u32::MAX));
        out.put_u64_le(self.epoch);
        out.put_u64_le(self.next_object);
        out.put_u64_le(self.stamp_max);
        out.put_u128_le(self.ledger.ledger);
        out.put_u64_le(self.ledger.number);
        out.put_u64_le(journal);
        self.changes.iter().for_each(|change| change.write(&mut out));
        let sum = xxh3_64_with_seed(&out[8..], superblock.secret);
        out[..8].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// The frame at the beginning of `bytes` and its length. `None` if there is no whole frame.
    fn read(bytes: &[u8], superblock: &Superblock, journal: u64) -> Option<(Frame, usize)> {
        let mut cursor: &[u8] = bytes;
        let sum = cursor.try_get_u64_le().ok()?;
        let magic = cursor.try_get_u32_le().ok()?;
        let count = cursor.try_get_u32_le().ok()? as usize;
        let epoch = cursor.try_get_u64_le().ok()?;
        let next_object = cursor.try_get_u64_le().ok()?;
        let stamp_max = cursor.try_get_u64_le().ok()?;
        let ledger =
            Durable { ledger: cursor.try_get_u128_le().ok()?, number: cursor.try_get_u64_le().ok()? };
        let own = cursor.try_get_u64_le().ok()?;
        let length = FRAME_HEADER_BYTES.checked_add(count.checked_mul(CHANGE_BYTES)?)?;
        let frame = bytes.get(..length)?;
        let is_sound = magic == FRAME_MAGIC
            && own == journal
            && sum == xxh3_64_with_seed(&frame[8..], superblock.secret);
        if !is_sound {
            return None;
        }
        let mut cursor: &[u8] = &frame[FRAME_HEADER_BYTES..];
        let mut changes = Vec::with_capacity(count);
        while !cursor.is_empty() {
            changes.push(Change::read(&mut cursor).ok().flatten()?);
        }
        Some((Frame { epoch, next_object, stamp_max, ledger, changes }, length))
    }
}

/// The path of a journal.
pub(crate) fn path(number: u64) -> String {
    format!("{FOLDER}/journal-{number:08}")
}

/// The number of the journal whose file has that name.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_prefix("journal-")?.parse().ok()?;
    (path(number) == format!("{FOLDER}/{name}")).then_some(number)
}

fn header(superblock: &Superblock, number: u64) -> Vec<u8> {
    superblock.file_header(MAGIC, INDEX_VERSION, number)
}

/// Reads a journal's frames up to the first that is not whole.
pub(crate) fn read(bytes: &[u8], superblock: &Superblock, number: u64) -> Vec<Frame> {
    let mut frames = Vec::new();
    if bytes.get(..JOURNAL_HEADER_BYTES) != Some(header(superblock, number).as_slice()) {
        return frames;
    }
    let mut at = JOURNAL_HEADER_BYTES;
    while let Some((frame, length)) = Frame::read(&bytes[at..], superblock, number) {
        frames.push(frame);
        at += length;
    }
    frames
}

/// A journal that is being written.
#[derive(Debug)]
pub(crate) struct Journal {
    file: Arc<dyn DiskFile>,
    pub(crate) number: u64,
    pub(crate) bytes: u64,
}

impl Journal {
    /// Begins a file. The file and its name are durable when this returns.
    ///
    /// # Errors
    /// Those of the drive.
    pub(crate) fn begin(disk: &dyn Disk, superblock: &Superblock, number: u64) -> io::Result<Journal> {
        let file = disk.create(&path(number))?;
        file.write_all_at(&[&header(superblock, number)], 0)?;
        file.sync_data()?;
        disk.sync_folder(FOLDER)?;
        Ok(Journal { file, number, bytes: JOURNAL_HEADER_BYTES as u64 })
    }

    /// Adds a frame and makes it durable. After an error the file must not be written again.
    ///
    /// # Errors
    /// Those of the drive.
    pub(crate) fn append(&mut self, frame: &[u8]) -> io::Result<()> {
        self.file.write_all_at(&[frame], self.bytes)?;
        self.file.sync_data()?;
        self.bytes += frame.len() as u64;
        Ok(())
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod fuzzed;
#[cfg(test)]
mod tests;
