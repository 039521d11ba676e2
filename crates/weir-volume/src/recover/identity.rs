//! Which volume a folder is. Two copies of the superblock lie in a file each, so that neither a wrong bit nor
//! a lost file costs the volume. The sound copy is used, and the other is written again.

use std::io;
use std::path::Path;

use weir_disk::{Disk, read_exact_at};

use super::error::{OpenError, failed};
use crate::format::superblock::{NotAVolume, PATHS, SUPERBLOCK_BYTES, Superblock};
use crate::index::segment;
use crate::random;
use crate::settings::VolumeSettings;

/// The longest superblock that is read.
const READ_BYTES_MAX: u64 = 4096;

/// Whether a folder has files of a volume.
pub fn is_made(folder: &Path) -> bool {
    PATHS.iter().any(|path| folder.join(path).exists())
}

/// Reads the superblock. Makes one if the folder is empty.
pub(super) fn superblock_of(disk: &dyn Disk, settings: &VolumeSettings) -> Result<Superblock, OpenError> {
    let copies = PATHS.map(|path| read(disk, path));
    if let Some(version) = copies.iter().find_map(other_version) {
        return Err(OpenError::Superblock(NotAVolume::Version(version)));
    }
    if let Some(superblock) = copies.iter().find_map(|copy| copy.as_ref().ok().copied().flatten()) {
        for (path, copy) in PATHS.into_iter().zip(copies) {
            if !matches!(copy, Ok(Some(own)) if own == superblock) {
                // If this fails, one copy is enough until the next opening.
                let _ = write(disk, path, &superblock);
            }
        }
        return Ok(superblock);
    }
    let [first, second] = copies;
    first?;
    second?;
    let names = disk.list(segment::FOLDER).map_err(failed("reading the superblock"))?;
    if names.iter().any(|name| segment::number_of(name).is_some()) {
        return Err(OpenError::NoSuperblock);
    }
    let (id, secret) = settings.identity.unwrap_or_else(|| (random::identity(), random::word()));
    let superblock = Superblock {
        id,
        secret,
        segment_bytes: settings.segment_bytes(),
        shard_bits: settings.shard_bits(),
        made_for_bytes: settings.size_bytes,
    };
    let act = failed("writing the superblock");
    PATHS.into_iter().try_for_each(|path| write(disk, path, &superblock)).map_err(act)?;
    Ok(superblock)
}

fn other_version(copy: &Result<Option<Superblock>, OpenError>) -> Option<u32> {
    match copy {
        Err(OpenError::Superblock(NotAVolume::Version(version))) => Some(*version),
        _ => None,
    }
}

/// One copy; `None` if there is none.
fn read(disk: &dyn Disk, path: &str) -> Result<Option<Superblock>, OpenError> {
    let act = failed("reading the superblock");
    let file = match disk.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(act(error)),
    };
    let length = file.length().map_err(&act)?.min(READ_BYTES_MAX);
    let mut bytes = vec![0; length as usize];
    read_exact_at(&*file, &mut bytes, 0).map_err(&act)?;
    Superblock::read(&bytes).map(Some).map_err(OpenError::Superblock)
}

fn write(disk: &dyn Disk, path: &str, superblock: &Superblock) -> io::Result<()> {
    let bytes = superblock.to_bytes();
    assert_eq!(bytes.len(), SUPERBLOCK_BYTES);
    disk.replace(path, &bytes).map(drop)
}

#[cfg(test)]
mod tests;
