//! How much was written to a volume today, kept over a restart in the state folder.
//!
//! A lost count is zero: that costs only what the budget would have refused. `docs/format/admission.md` draws
//! the file.

use std::io;
use std::sync::Arc;

use weir_disk::{Disk, DiskFile, read_exact_at};
use xxhash_rust::xxh3::xxh3_64;

const SPENT_MAGIC: &[u8; 8] = b"WeirSpt\n";
const VERSION: u64 = 1;
/// A slot: magic, version, serial, volume (two words), day, bytes, checksum.
const SLOT_BYTES: usize = 64;

/// A day's count, as it is carried over a restart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Days since 1970, in UTC.
    pub day: u64,
    /// Bytes written in it.
    pub bytes: u64,
}

/// The file with today's count, in two slots that are written in turn: a torn one leaves the other.
#[derive(Debug)]
pub struct SpentFile {
    file: Arc<dyn DiskFile>,
    volume: u128,
    serial: u64,
    written: Spent,
    is_synced: bool,
}

impl SpentFile {
    /// Opens a volume's file, or makes it. Returns it with the count in it.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(disk: &dyn Disk, volume: u128) -> io::Result<(SpentFile, Option<Spent>)> {
        let path = format!("written-{volume:032x}");
        let file = match disk.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => disk.create(&path)?,
            opened => opened?,
        };
        let mut newest = None;
        for slot in 0..2u64 {
            let mut bytes = [0; SLOT_BYTES];
            if read_exact_at(&*file, &mut bytes, slot * SLOT_BYTES as u64).is_ok() {
                newest = newest.max(from_slot(&bytes, volume));
            }
        }
        let (serial, day, bytes) = newest.unwrap_or_default();
        let spent = Spent { day, bytes };
        let file = SpentFile { file, volume, serial, written: spent, is_synced: true };
        Ok((file, newest.map(|_| spent)))
    }

    /// Writes today's count, if it has changed.
    ///
    /// # Errors
    /// Those of the system. The count before stays.
    pub fn write(&mut self, spent: Spent) -> io::Result<()> {
        if spent == self.written {
            return Ok(());
        }
        let serial = self.serial + 1;
        let slot = to_slot(self.volume, serial, spent);
        self.file.write_all_at(&[&slot], serial % 2 * SLOT_BYTES as u64)?;
        (self.serial, self.written, self.is_synced) = (serial, spent, false);
        Ok(())
    }

    /// The file, if its last write is not synced yet. The caller syncs it; the next call returns none.
    pub fn unsynced(&mut self) -> Option<Arc<dyn DiskFile>> {
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

/// The serial, day and bytes of a slot.
fn from_slot(slot: &[u8; SLOT_BYTES], volume: u128) -> Option<(u64, u64, u64)> {
    let word = |at: usize| slot[8 * at..].first_chunk().map(|word| u64::from_le_bytes(*word));
    let (serial, day, bytes) = (word(2)?, word(5)?, word(6)?);
    (*slot == to_slot(volume, serial, Spent { day, bytes })).then_some((serial, day, bytes))
}

#[cfg(test)]
mod tests;
