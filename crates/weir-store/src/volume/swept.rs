//! Up to which mark of the ledger a volume was swept: a file of its own, so that it is durable before a mark is retired.
//!
//! What is on the volume and was asked for before that number was judged by all marks up to it: what they made dead was taken
//! out, durably. Where the file is lost or damaged nothing was swept, which makes things die, never live.

use std::io;

use super::disk::{Disk, read_exact_at};
use super::number::Cursor;
use super::superblock::{FILE_HEADER_BYTES, Superblock, VERSION};

const PATH: &str = "swept";
const NEW_PATH: &str = "swept.new";
const MAGIC: &[u8; 8] = b"WeirSwp\n";

fn to_bytes(superblock: &Superblock, until: u64) -> Vec<u8> {
    superblock.file_header(MAGIC, VERSION, until)
}

fn number(superblock: &Superblock, bytes: &[u8]) -> Option<u64> {
    let until = Cursor::new(bytes.get(32..40)?).u64().ok()?;
    (bytes == to_bytes(superblock, until)).then_some(until)
}

/// The number that the file says; 0 where there is none.
pub(crate) fn read(disk: &dyn Disk, superblock: &Superblock) -> u64 {
    let Ok(file) = disk.open(PATH) else { return 0 };
    let mut bytes = [0; FILE_HEADER_BYTES];
    match read_exact_at(&*file, &mut bytes, 0) {
        Ok(()) => number(superblock, &bytes).unwrap_or(0),
        Err(_) => 0,
    }
}

/// Writes the number down; it is durable once this returns.
///
/// # Errors
/// Those of the drive: the old number stays, or the new one counts.
pub(crate) fn write(disk: &dyn Disk, superblock: &Superblock, until: u64) -> io::Result<()> {
    let file = disk.create(NEW_PATH)?;
    file.write_all_at(&[&to_bytes(superblock, until)], 0)?;
    file.sync_data()?;
    disk.rename(NEW_PATH, PATH)?;
    disk.sync_folder("")
}

#[cfg(test)]
mod tests;
