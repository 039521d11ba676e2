//! What admission remembers over a restart, in the state folder: the sketch.
//!
//! Losing it only costs hits: a sketch that is missing, torn, or of another size counts as empty.
//! `docs/format/admission.md` draws it byte by byte. It is read and written by threads that may block.

use std::io;

use weir_disk::Disk;
use xxhash_rust::xxh3::xxh3_64;

use super::sketch::{Extent, Sketch};

const SKETCH: &str = "frequencies";
const SKETCH_MAGIC: &[u8; 8] = b"WeirFrq\n";
/// The version of both.
const VERSION: u64 = 1;
/// Magic, version, three numbers of the extent, two of the age.
const SKETCH_HEADER_WORDS: usize = 7;

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

/// Reads a sketch; `None` for other bytes, or another size.
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

/// Reads the sketch from the state folder, if it has this size.
pub(super) fn read(disk: &dyn Disk, wanted: Extent) -> Option<Sketch> {
    let most = wanted.memory_bytes() + 8 * (SKETCH_HEADER_WORDS as u64 + 2);
    from_bytes(&disk.read(SKETCH, most).ok()??, wanted)
}

/// Writes the sketch, in place of the one before.
///
/// # Errors
/// Those of the system; the one before stays.
pub(super) fn write(disk: &dyn Disk, sketch: &Sketch) -> io::Result<()> {
    disk.replace(SKETCH, &to_bytes(sketch)).map(drop)
}

#[cfg(test)]
mod tests;
