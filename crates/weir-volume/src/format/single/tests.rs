//! The files that say one number each.

use super::{OPENED, SWEPT};
use crate::format::superblock::Superblock;
use crate::testing::{CrashDisk, Fault};

const SUPERBLOCK: Superblock = Superblock {
    id: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff,
    secret: 0x0123_4567_89ab_cdef,
    segment_bytes: 16 << 20,
    shard_bits: 12,
    made_for_bytes: 10 << 30,
};

#[test]
fn the_golden_file_is_what_is_written_and_read() {
    let bytes = SWEPT.to_bytes(&SUPERBLOCK, 0x0102_0304_0506_0708);
    assert_eq!(bytes, crate::testing::samples::golden("swept-1.bin", &bytes));
    assert_eq!(SWEPT.number(&SUPERBLOCK, &bytes), Some(0x0102_0304_0506_0708));
    let bytes = OPENED.to_bytes(&SUPERBLOCK, 0x0102_0304_0506_0708);
    assert_eq!(bytes, crate::testing::samples::golden("opened-1.bin", &bytes));
    assert_eq!(OPENED.number(&SUPERBLOCK, &bytes), Some(0x0102_0304_0506_0708));
    assert_eq!(SWEPT.number(&SUPERBLOCK, &bytes), None);
}

#[test]
fn a_damaged_or_foreign_file_is_read_as_zero() {
    let bytes = SWEPT.to_bytes(&SUPERBLOCK, 77);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(SWEPT.number(&SUPERBLOCK, &flipped), None, "bit {bit}");
    }
    assert_eq!(SWEPT.number(&SUPERBLOCK, &bytes[..63]), None);
    assert_eq!(SWEPT.number(&Superblock { id: 1, ..SUPERBLOCK }, &bytes), None);
    assert_eq!(SWEPT.number(&Superblock { secret: 1, ..SUPERBLOCK }, &bytes), None);
}

#[test]
fn a_power_cut_leaves_the_old_number_or_the_new_one() {
    for cut in 0.. {
        let disk = CrashDisk::new(cut);
        SWEPT.write(&disk, &SUPERBLOCK, 5).unwrap();
        disk.fail_at(cut, Fault::PowerCut);
        let is_written = SWEPT.write(&disk, &SUPERBLOCK, 9).is_ok();
        disk.restart();
        let found = SWEPT.read(&disk, &SUPERBLOCK);
        assert!(found == 9 || found == 5 && !is_written, "{found} after a cut at {cut}");
        if is_written {
            break;
        }
    }
}
