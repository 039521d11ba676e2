//! Records' bytes: golden file, round trip, damage.

use proptest::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use super::*;
use crate::format::superblock::Superblock;

const SECRET: u64 = 0x0123_4567_89ab_cdef;

fn header(kind: Kind) -> Header {
    Header {
        kind,
        key_bytes: 0,
        number: 7,
        stamp: 3,
        digest: 0xfeed << 64 | 5,
        span: 9,
        head_bytes: 0,
        count: 0,
    }
}

fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(64), 0);
    bytes
}

/// A segment of one record of each kind.
fn segment() -> Vec<u8> {
    let superblock = Superblock {
        id: 1 << 100 | 2,
        secret: SECRET,
        segment_bytes: 16 << 20,
        shard_bits: 12,
        made_for_bytes: 1 << 30,
    };
    let mut out = preamble::to_bytes(&superblock, 5);
    let place = |out: &Vec<u8>| Place { segment: 5, unit: (out.len() / 64) as u32 };
    let body = b"a small body";
    let object = Header { span: body.len() as u64, count: body.len() as u32, ..header(Kind::Object) };
    let sums = [xxh3_64(body)];
    let described = describe(
        object,
        &Description { key: b"http://a/", head: b"head", table: Table::Blocks(&sums) },
        SECRET,
        place(&out),
    );
    out.extend(padded([described.as_slice(), body].concat()));
    let extent_place = place(&out);
    let extent = Header { span: 65_536, count: body.len() as u32, ..header(Kind::Extent) };
    let described = describe(
        extent,
        &Description { key: b"", head: b"", table: Table::Blocks(&sums) },
        SECRET,
        extent_place,
    );
    out.extend(padded([described.as_slice(), body].concat()));
    let extents = [ExtentRef { offset: 65_536, length: body.len() as u32, place: extent_place }];
    let head = header(Kind::Head);
    out.extend(padded(describe(
        head,
        &Description { key: b"http://b/", head: b"head", table: Table::Extents(&extents) },
        SECRET,
        place(&out),
    )));
    let gone = header(Kind::Gone);
    out.extend(padded(describe(
        gone,
        &Description { key: b"", head: b"", table: Table::Blocks(&[]) },
        SECRET,
        place(&out),
    )));
    out
}

#[test]
fn the_golden_segment_is_what_is_written_and_read() {
    let golden = crate::testing::samples::golden("segment-1.bin", &segment());
    assert_eq!(segment(), golden);
    let mut unit = 1;
    let mut kinds = Vec::new();
    while unit * 64 < golden.len() {
        let bytes = &golden[unit * 64..];
        let place = Place { segment: 5, unit: unit as u32 };
        let described = Described::read(bytes, SECRET, place).unwrap();
        let header = described.header;
        assert_eq!((header.number, header.stamp, header.digest), (7, 3, 0xfeed << 64 | 5));
        match header.kind {
            Kind::Object => assert_eq!((described.key, described.head), (&b"http://a/"[..], &b"head"[..])),
            Kind::Extent => assert_eq!(header.span, 65_536),
            Kind::Head => assert_eq!(described.extents()[0].place.unit, 3),
            Kind::Gone => assert_eq!(header.record_bytes(), 64),
        }
        let body = &bytes[header.described_bytes() as usize..][..header.body_bytes() as usize];
        assert!(described.is_body(body));
        kinds.push(header.kind);
        unit += (header.record_bytes() / 64) as usize;
    }
    assert_eq!(kinds, [Kind::Object, Kind::Extent, Kind::Head, Kind::Gone]);
}

#[test]
fn a_record_is_valid_only_at_its_place_and_under_its_secret() {
    let place = Place { segment: 5, unit: 1 };
    let bytes = describe(
        header(Kind::Head),
        &Description { key: b"key", head: b"head", table: Table::Extents(&[]) },
        SECRET,
        place,
    );
    assert!(Described::read(&bytes, SECRET, place).is_some());
    assert!(Described::read(&bytes, SECRET ^ 1, place).is_none());
    assert!(Described::read(&bytes, SECRET, Place { unit: 2, ..place }).is_none());
    assert!(Described::read(&bytes, SECRET, Place { segment: 6, ..place }).is_none());
}

#[test]
fn every_flipped_bit_and_every_cut_is_seen() {
    let place = Place { segment: 1, unit: 9 };
    let extents = [ExtentRef { offset: 0, length: 10, place }];
    let bytes = describe(
        header(Kind::Head),
        &Description { key: b"key", head: b"head", table: Table::Extents(&extents) },
        SECRET,
        place,
    );
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Described::read(&flipped, SECRET, place).is_none(), "bit {bit}");
    }
    for length in 0..bytes.len() {
        assert!(Described::read(&bytes[..length], SECRET, place).is_none());
    }
}

proptest! {
    #[test]
    fn block_sums_do_not_depend_on_the_pieces(
        length in 0usize..200_000,
        cuts in proptest::collection::vec(0usize..200_000, 0..8),
    ) {
        let body = crate::testing::samples::body(length as u64, 0, length);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(length)).collect();
        cuts.extend([0, length]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|cut| &body[cut[0]..cut[1]]);
        let expected: Vec<u64> = body.chunks(65_536).map(xxh3_64).collect();
        prop_assert_eq!(block_sums(pieces), expected);
    }

    #[test]
    fn what_was_described_is_read(
        key in proptest::collection::vec(any::<u8>(), 0..9000),
        head in proptest::collection::vec(any::<u8>(), 0..3000),
        entries in proptest::collection::vec((any::<u64>(), any::<u32>(), any::<u64>(), any::<u32>()), 0..20),
        number: u64, stamp: u64, digest: u128, span: u64, secret: u64, segment: u64, unit: u32,
    ) {
        let place = Place { segment, unit };
        let extents: Vec<ExtentRef> = entries
            .into_iter()
            .map(|(offset, length, segment, unit)| {
                ExtentRef { offset, length, place: Place { segment, unit } }
            })
            .collect();
        let given = Header { number, stamp, digest, span, ..header(Kind::Head) };
        let description = Description { key: &key, head: &head, table: Table::Extents(&extents) };
        let bytes = describe(given, &description, secret, place);
        let read = Described::read(&bytes, secret, place).unwrap();
        prop_assert_eq!((read.key, read.head), (&key[..], &head[..]));
        prop_assert_eq!(read.extents(), extents);
        prop_assert_eq!((read.header.number, read.header.stamp), (number, stamp));
        prop_assert_eq!((read.header.digest, read.header.span), (digest, span));
    }

    #[test]
    fn noise_is_never_a_record(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let place = Place { segment: 0, unit: 1 };
        prop_assert!(Described::read(&bytes, SECRET, place).is_none());
    }
}
