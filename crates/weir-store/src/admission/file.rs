//! What is remembered over a restart, in the state folder: the sketch, and what was written to each volume today.
//!
//! Both only ever cost by being lost: a sketch that is not there, torn, or of another size is an empty one, a count that is
//! not there is none. `docs/format/admission.md` draws them byte by byte. They are read and written by threads that may block.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::sketch::{Extent, Sketch};
use crate::scratch::{self, Scratch};
use crate::volume::Spent;

const SKETCH: &str = "frequencies";
const SKETCH_NEW: &str = "frequencies.new";
const SKETCH_MAGIC: &[u8; 8] = b"WeirFrq\n";
const SPENT_MAGIC: &[u8; 8] = b"WeirSpt\n";
/// The version of both.
const VERSION: u64 = 1;
/// Magic, version, three numbers of the extent, two of the course.
const SKETCH_HEADER_WORDS: usize = 7;
/// A count of what was written: magic, version, serial, volume (two), day, bytes, checksum.
const SLOT_BYTES: usize = 64;

/// The bytes of a sketch's file.
pub(super) fn to_bytes(sketch: &Sketch) -> Vec<u8> {
    let Extent { counter_words, door_words, period } = sketch.extent();
    let (noted, age) = sketch.course();
    let mut bytes = Vec::with_capacity(sketch.extent().memory_bytes() as usize + 8 * SKETCH_HEADER_WORDS + 8);
    bytes.extend_from_slice(SKETCH_MAGIC);
    let header = [VERSION, counter_words, door_words, period, noted, age];
    header.into_iter().chain(sketch.words()).for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
    bytes
}

/// The sketch that a file's bytes are, where they are one of that size.
pub(super) fn from_bytes(bytes: &[u8], wanted: Extent) -> Option<Sketch> {
    let (checked, sum) = bytes.split_last_chunk()?;
    if xxh3_64(checked) != u64::from_le_bytes(*sum) || !checked.starts_with(SKETCH_MAGIC) {
        return None;
    }
    let (words, rest) = checked.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word)).skip(1);
    let mut next = || words.next();
    let (version, counter_words, door_words, period) = (next()?, next()?, next()?, next()?);
    let (noted, age) = (next()?, next()?);
    let is_wanted = version == VERSION && Extent { counter_words, door_words, period } == wanted;
    let is_whole = rest.is_empty() && words.len() as u64 == counter_words + 2 * door_words;
    (is_wanted && is_whole).then(|| Sketch::restored(wanted, (noted, age), &mut words))
}

/// The sketch that is kept in a folder, where it is one of that size.
pub(super) fn read(folder: &Path, wanted: Extent) -> Option<Sketch> {
    let most = wanted.memory_bytes() + 8 * (SKETCH_HEADER_WORDS as u64 + 2);
    let mut bytes = Vec::new();
    scratch::open(&folder.join(SKETCH)).ok()??.take(most).read_to_end(&mut bytes).ok()?;
    from_bytes(&bytes, wanted)
}

/// Writes the sketch down, in place of the one before.
///
/// # Errors
/// As the system says: the one before stays.
pub(super) fn write(folder: &Path, sketch: &Sketch) -> io::Result<()> {
    let mut new = Scratch::create(folder, SKETCH_NEW, &to_bytes(sketch))?;
    new.file.sync_data()?;
    new.rename(folder.join(SKETCH))
}

/// What was written to a volume today, in two slots that are written by turns: a torn one leaves the other.
#[derive(Debug)]
pub(crate) struct SpentFile {
    file: Arc<File>,
    volume: u128,
    serial: u64,
    written: Spent,
    is_synced: bool,
}

impl SpentFile {
    /// Opens the file of a volume, or makes it; with what it says.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) fn open(folder: &Path, volume: u128) -> io::Result<(SpentFile, Option<Spent>)> {
        let path = folder.join(format!("written-{volume:032x}"));
        match scratch::check(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let mut newest = None;
        for slot in 0..2u64 {
            let mut bytes = [0; SLOT_BYTES];
            if file.read_exact_at(&mut bytes, slot * SLOT_BYTES as u64).is_ok() {
                newest = newest.max(from_slot(&bytes, volume));
            }
        }
        let (serial, day, bytes) = newest.unwrap_or_default();
        let spent = Spent { day, bytes };
        let file = SpentFile { file: Arc::new(file), volume, serial, written: spent, is_synced: true };
        Ok((file, newest.map(|_| spent)))
    }

    /// Writes down what was written today, where that has changed.
    ///
    /// # Errors
    /// As the system says: the one before stays.
    pub(crate) fn write(&mut self, spent: Spent) -> io::Result<()> {
        if spent == self.written {
            return Ok(());
        }
        let serial = self.serial + 1;
        let slot = to_slot(self.volume, serial, spent);
        self.file.write_all_at(&slot, serial % 2 * SLOT_BYTES as u64)?;
        (self.serial, self.written, self.is_synced) = (serial, spent, false);
        Ok(())
    }

    /// The file, where something that was written down is still to be synced: by who asks, once.
    pub(crate) fn unsynced(&mut self) -> Option<Arc<File>> {
        (!std::mem::replace(&mut self.is_synced, true)).then(|| self.file.clone())
    }
}

fn to_slot(volume: u128, serial: u64, spent: Spent) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    let words = [VERSION, serial, volume as u64, (volume >> 64) as u64, spent.day, spent.bytes];
    slot[..8].copy_from_slice(SPENT_MAGIC);
    for (place, word) in slot[8..].chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let sum = xxh3_64(&slot[..SLOT_BYTES - 8]);
    slot[SLOT_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
    slot
}

/// Serial, day and bytes of a slot.
fn from_slot(slot: &[u8; SLOT_BYTES], volume: u128) -> Option<(u64, u64, u64)> {
    let word = |at: usize| slot[8 * at..].first_chunk().map(|word| u64::from_le_bytes(*word));
    let (serial, day, bytes) = (word(2)?, word(5)?, word(6)?);
    (*slot == to_slot(volume, serial, Spent { day, bytes })).then_some((serial, day, bytes))
}

#[cfg(test)]
mod tests;
