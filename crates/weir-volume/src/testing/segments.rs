//! Segments as a crash may leave them.

use weir_disk::Disk;

use super::CrashDisk;
use crate::format::record::preamble;
use crate::format::superblock::{PATHS, Superblock};
use crate::index::segment;

/// Leaves a segment that has its header and no record, durably.
pub fn leave_header(disk: &CrashDisk, number: u64) {
    let superblock = Superblock::read(&disk.content(PATHS[0]).unwrap()).unwrap();
    let file = disk.create(&segment::path(number)).unwrap();
    file.write_all_at(&[&preamble::to_bytes(&superblock, number)], 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_folder(segment::FOLDER).unwrap();
}
