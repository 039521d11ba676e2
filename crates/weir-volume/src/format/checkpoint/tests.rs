//! A checkpoint's bytes: golden file, cuts and flips, and an index that changes meanwhile.

use std::collections::BTreeMap;

use weir_disk::Disk;

use super::{Preface, Step, Writing, bytes_for, path, read};
use crate::format::superblock::Superblock;
use crate::index::stocks::Rows;
use crate::index::{Index, KeyHash, Location};
use crate::numbers::Durable;
use crate::stock::Stock;
use crate::testing::CrashDisk;

fn superblock() -> Superblock {
    Superblock { id: 77, secret: 5, segment_bytes: 1 << 20, shard_bits: 4, made_for_bytes: 1 << 30 }
}

fn preface() -> Preface {
    let segments = BTreeMap::from([(3, 900), (4, 17)]);
    let mut stocks = Rows::default();
    stocks.set(3, 0xfeed, Stock { objects: 5, bytes: 70_000 });
    stocks.set(3, 1, Stock { objects: 0, bytes: 9 });
    stocks.set(4, u64::MAX, Stock { objects: 1, bytes: 0 });
    let (next_object, stamp_max) = (90, 1 << 60);
    let ledger = Durable { ledger: 7 << 100, number: 1 << 59 };
    Preface {
        number: 2,
        journal: 6,
        epoch: 7,
        next_object,
        stamp_max,
        ledger,
        shard_bits: 4,
        segments,
        stocks,
    }
}

fn index(entries: u64) -> Index {
    let index = Index::new(4);
    for number in 0..entries {
        index.insert(KeyHash(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)), Location::of(number));
    }
    index
}

fn write(disk: &CrashDisk, index: &Index, mut between: impl FnMut()) -> Vec<u8> {
    let mut writing = Writing::begin(disk, &superblock(), preface()).unwrap();
    while writing.step(disk, &superblock(), index, |_, location| location.bits() < 1 << 30).unwrap()
        == Step::More
    {
        between();
    }
    assert!(writing.bytes <= bytes_for(index.len(), index.shards(), 2, 3));
    disk.content(&path(2)).unwrap()
}

fn parse(bytes: &[u8]) -> Option<(Preface, Index)> {
    let disk = CrashDisk::new(1);
    let file = disk.create("f").unwrap();
    file.write_all_at(&[bytes], 0).unwrap();
    read(&*file, &superblock(), 2)
}

#[test]
fn the_golden_file_is_what_is_written_and_read() {
    let index = index(20);
    let bytes = write(&CrashDisk::new(1), &index, || {});
    let golden = crate::testing::samples::golden("checkpoint-3.bin", &bytes);
    assert_eq!(bytes, golden);
    let (preface, read) = parse(&golden).unwrap();
    assert_eq!(preface, super::tests::preface());
    assert_eq!(read.len(), 20);
    assert!((0..16).all(|shard| read.shard(shard) == index.shard(shard)));
}

#[test]
fn those_of_older_formats_are_not_read() {
    for name in ["checkpoint-1.bin", "checkpoint-2.bin"] {
        let golden = crate::testing::samples::golden(name, &[]);
        assert_eq!(&golden[8..16], b"WeirCkp\n");
        assert!(parse(&golden).is_none(), "the index is made again");
    }
}

#[test]
fn nothing_that_was_cut_or_flipped_is_read() {
    let bytes = write(&CrashDisk::new(1), &index(20), || {});
    for length in 0..bytes.len() {
        assert!(parse(&bytes[..length]).is_none());
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(parse(&flipped).is_none(), "bit {bit}");
    }
}

#[test]
fn it_comes_in_parts_and_leaves_out_what_is_not_durable() {
    let index = index(200_000);
    let late = Location::of(1 << 35);
    let mut steps = 0;
    let bytes = write(&CrashDisk::new(1), &index, || {
        steps += 1;
        index.insert(KeyHash(steps << 60), late);
    });
    assert!(steps > 5, "{steps}");
    let (_, read) = parse(&bytes).unwrap();
    assert_eq!(read.len(), 200_000);
}
