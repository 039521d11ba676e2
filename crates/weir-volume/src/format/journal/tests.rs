//! The journal's bytes: golden file, cuts and flips.

use std::sync::Arc;

use weir_disk::Disk;

use super::{Change, Frame, Journal, read};
use crate::format::superblock::Superblock;
use crate::index::{KeyHash, Location};
use crate::numbers::Durable;
use crate::stock::Stock;
use crate::testing::CrashDisk;

pub(crate) fn superblock() -> Superblock {
    Superblock { id: 77, secret: 5, segment_bytes: 1 << 20, shard_bits: 4, made_for_bytes: 1 << 30 }
}

fn frames() -> Vec<Frame> {
    let first = vec![
        Change::Durable { segment: 3, unit: 900 },
        Change::Add(KeyHash(0xfeed_0000_0000_0001), Location::of(3 << 20 | 4)),
        Change::Remove(KeyHash(u64::MAX), Location::of((1 << 40) - 1)),
    ];
    let stock = Stock { objects: 12, bytes: 1 << 60 };
    let second =
        vec![Change::Dropped { segment: 2 }, Change::Stock { segment: 3, owner: u64::MAX - 1, stock }];
    vec![
        Frame {
            epoch: 8,
            next_object: 100,
            stamp_max: 7,
            ledger: Durable { ledger: 9 << 100, number: 5 },
            changes: first,
        },
        Frame {
            epoch: 9,
            next_object: 101,
            stamp_max: u64::MAX,
            ledger: Durable { ledger: 1, number: 6 },
            changes: second,
        },
        Frame {
            epoch: 10,
            next_object: 101,
            stamp_max: u64::MAX,
            ledger: Durable { ledger: 1, number: 6 },
            changes: Vec::new(),
        },
    ]
}

fn written() -> Vec<u8> {
    let disk: Arc<dyn Disk> = Arc::new(CrashDisk::new(1));
    let mut journal = Journal::begin(&*disk, &superblock(), 6).unwrap();
    for frame in frames() {
        journal.append(&frame.to_bytes(&superblock(), 6)).unwrap();
    }
    let file = disk.open("index/journal-00000006").unwrap();
    let mut bytes = vec![0; journal.bytes as usize];
    weir_disk::read_exact_at(&*file, &mut bytes, 0).unwrap();
    bytes
}

#[test]
fn the_golden_file_is_what_is_written_and_read() {
    let golden = crate::testing::samples::golden("journal-3.bin", &written());
    assert_eq!(written(), golden);
    assert_eq!(read(&golden, &superblock(), 6), frames());
    assert!(read(&golden, &superblock(), 7).is_empty(), "another file's");
    assert!(read(&golden, &Superblock { secret: 6, ..superblock() }, 6).is_empty(), "another volume's");
}

#[test]
fn those_of_older_formats_are_not_read() {
    for name in ["journal-1.bin", "journal-2.bin"] {
        let golden = crate::testing::samples::golden(name, &[]);
        assert!(golden.starts_with(b"WeirJnl\n") && read(&golden, &superblock(), 6).is_empty());
    }
}

#[test]
fn a_cut_journal_has_the_frames_before_the_cut() {
    let bytes = written();
    let ends = [64 + 72 + 48, 64 + 72 + 48 + 120, 64 + 72 + 48 + 120 + 72];
    assert_eq!(bytes.len(), ends[2]);
    for length in 0..bytes.len() {
        let whole = ends.iter().filter(|end| **end <= length).count();
        assert_eq!(read(&bytes[..length], &superblock(), 6), frames()[..whole]);
    }
}

#[test]
fn a_flipped_bit_ends_the_journal_before_its_frame() {
    let bytes = written();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let whole = match bit / 8 {
            0..64 => 0,
            64..184 => 0,
            184..304 => 1,
            _ => 2,
        };
        assert_eq!(read(&flipped, &superblock(), 6), frames()[..whole], "bit {bit}");
    }
}
