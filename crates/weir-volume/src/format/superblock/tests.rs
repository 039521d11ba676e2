//! The superblock's bytes.

use super::{NotAVolume, SUPERBLOCK_BYTES, Superblock};

fn superblock() -> Superblock {
    Superblock {
        id: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff,
        secret: 0x0123_4567_89ab_cdef,
        segment_bytes: 16 << 20,
        shard_bits: 12,
        made_for_bytes: 10 << 30,
    }
}

#[test]
fn the_golden_file_is_what_is_written_and_read() {
    let golden = crate::testing::samples::golden("superblock-1.bin", &superblock().to_bytes());
    assert_eq!(superblock().to_bytes(), golden);
    assert_eq!(Superblock::read(&golden), Ok(superblock()));
}

#[test]
fn nothing_that_was_cut_or_flipped_is_read() {
    let bytes = superblock().to_bytes();
    for length in 0..SUPERBLOCK_BYTES {
        assert!(Superblock::read(&bytes[..length]).is_err());
    }
    for bit in 0..SUPERBLOCK_BYTES * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Superblock::read(&flipped).is_err(), "bit {bit}");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert_eq!(Superblock::read(&longer), Err(NotAVolume::Damaged));
}

#[test]
fn another_version_is_named() {
    let mut bytes = superblock().to_bytes();
    bytes[8] = 2;
    assert_eq!(Superblock::read(&bytes), Err(NotAVolume::Damaged));
    let sum = xxhash_rust::xxh3::xxh3_64(&bytes[..64]);
    bytes[64..].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(Superblock::read(&bytes), Err(NotAVolume::Version(2)));
}
