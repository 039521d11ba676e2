//! The whole engine on the disk that crashes and fails, on a real one, and through its threads.

mod ceiling;
mod faults;
mod numbers;
mod power;
mod quota;
mod real;
mod saving;
mod scenes;
mod sealed;
mod stocks;
mod threads;
mod told;
mod world;

use super::record::preamble;
use super::superblock::{PATHS, Superblock};
use super::{CrashDisk, Disk, segment};

/// Leaves a segment that has its header and no record, durably.
pub(crate) fn leave_header(disk: &CrashDisk, number: u64) {
    let superblock = Superblock::read(&disk.content(PATHS[0]).unwrap()).unwrap();
    let file = disk.create(&segment::path(number)).unwrap();
    file.write_all_at(&[&preamble::to_bytes(&superblock, number)], 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_folder(segment::FOLDER).unwrap();
}
