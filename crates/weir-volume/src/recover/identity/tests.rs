//! Two copies of the superblock, damaged in every way.

use super::*;
use crate::settings::Clock;
use crate::testing::CrashDisk;
use crate::testing::samples;

fn settings() -> VolumeSettings {
    VolumeSettings::of(64 << 20, Clock::new(std::time::Duration::default))
}

fn made() -> (CrashDisk, Superblock) {
    let disk = CrashDisk::new(1);
    let superblock = superblock_of(&disk, &settings()).unwrap();
    (disk, superblock)
}

fn put(disk: &CrashDisk, path: &str, bytes: &[u8]) {
    disk.create(path).unwrap().write_all_at(&[bytes], 0).unwrap();
}

/// Both copies are what they were.
fn check_both(disk: &CrashDisk, superblock: &Superblock) {
    for path in PATHS {
        assert_eq!(disk.content(path), Some(superblock.to_bytes()), "{path}");
    }
}

#[test]
fn a_wrong_bit_in_either_copy_is_corrected_from_the_other() {
    let (disk, superblock) = made();
    check_both(&disk, &superblock);
    for path in PATHS {
        for bit in 0..SUPERBLOCK_BYTES * 8 {
            let mut bytes = superblock.to_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            put(&disk, path, &bytes);
            assert_eq!(superblock_of(&disk, &settings()).unwrap(), superblock, "bit {bit} of {path}");
            check_both(&disk, &superblock);
        }
    }
}

#[test]
fn a_missing_or_broken_copy_is_written_again() {
    let (disk, superblock) = made();
    for path in PATHS {
        for length in 0..SUPERBLOCK_BYTES {
            put(&disk, path, &superblock.to_bytes()[..length]);
            assert_eq!(superblock_of(&disk, &settings()).unwrap(), superblock);
            check_both(&disk, &superblock);
        }
        disk.unlink(path).unwrap();
        assert_eq!(superblock_of(&disk, &settings()).unwrap(), superblock);
        check_both(&disk, &superblock);
    }
    disk.fail_at(2, crate::testing::Fault::Io);
    assert_eq!(superblock_of(&disk, &settings()).unwrap(), superblock);
}

#[test]
fn a_copy_that_cannot_be_rewritten_is_no_obstacle() {
    let (disk, superblock) = made();
    disk.unlink(PATHS[0]).unwrap();
    // The operations before are: opening the first copy, and opening, measuring and reading the second.
    for at in 4..9 {
        disk.fail_no_more();
        disk.fail_at(at, crate::testing::Fault::Full);
        assert_eq!(superblock_of(&disk, &settings()).unwrap(), superblock);
    }
    disk.fail_no_more();
    assert_eq!(superblock_of(&disk, &settings()).unwrap(), superblock);
    check_both(&disk, &superblock);
}

#[test]
fn the_golden_volume_with_one_copy_gets_the_second() {
    let disk = CrashDisk::new(1);
    put(&disk, PATHS[0], &samples::golden("superblock-1.bin", &[]));
    let superblock = superblock_of(&disk, &settings()).unwrap();
    assert_eq!(superblock.id, 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);
    check_both(&disk, &superblock);
}

#[test]
fn without_a_sound_copy_nothing_is_made_in_its_place() {
    let (disk, superblock) = made();
    for path in PATHS {
        put(&disk, path, b"");
    }
    assert!(matches!(superblock_of(&disk, &settings()), Err(OpenError::Superblock(NotAVolume::Foreign))));
    for path in PATHS {
        disk.unlink(path).unwrap();
    }
    put(&disk, &segment::path(1), b"");
    assert!(matches!(superblock_of(&disk, &settings()), Err(OpenError::NoSuperblock)));
    // One copy is of a newer format: the Weir that wrote it knows more.
    let mut newer = superblock.to_bytes();
    newer[8] = 2;
    let sum = xxhash_rust::xxh3::xxh3_64(&newer[..64]);
    newer[64..].copy_from_slice(&sum.to_le_bytes());
    put(&disk, PATHS[0], &newer);
    put(&disk, PATHS[1], &superblock.to_bytes());
    assert!(matches!(superblock_of(&disk, &settings()), Err(OpenError::Superblock(NotAVolume::Version(2)))));
    assert_eq!(disk.content(PATHS[0]), Some(newer));
}

#[test]
fn a_power_cut_while_it_is_made_leaves_one_volume_or_none() {
    for cut in 0.. {
        let disk = CrashDisk::new(cut);
        disk.fail_at(cut, crate::testing::Fault::PowerCut);
        let made = superblock_of(&disk, &settings());
        disk.restart();
        let found = superblock_of(&disk, &settings()).unwrap();
        check_both(&disk, &found);
        if let Ok(made) = made {
            assert_eq!(found, made);
            break;
        }
    }
}
