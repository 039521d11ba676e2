//! Promises of the reader of records that hold for any bytes: no panic; nothing outside of the bytes; what
//! was read is what would be written at that place, and at no other.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{Described, Description, Header, Kind, Place, Table, UNIT_BYTES, describe, seed};

const SECRET: u64 = 0x0123_4567_89ab_cdef;
const PLACE: Place = Place { segment: 5, unit: 1 };

/// Reads any bytes as a segment's record, as they are and with a correct checksum.
pub fn record(data: &[u8]) {
    check(data);
    let Some(end) = Header::read(data).and_then(|header| usize::try_from(header.described_bytes()).ok())
    else {
        return;
    };
    let Some(described) = data.get(..end) else { return };
    let mut sound = data.to_vec();
    let sum = xxh3_64_with_seed(&described[16..], seed(SECRET, PLACE, described));
    sound[8..16].copy_from_slice(&sum.to_le_bytes());
    check(&sound);
    let is_read = |place| Described::read(&sound, SECRET, place).is_some();
    assert!(is_read(PLACE), "a sound record is refused");
    assert!(!is_read(Place { unit: 2, ..PLACE }), "a record is one at another place, too");
    assert!(!is_read(Place { segment: 6, ..PLACE }), "a record is one in another segment, too");
}

fn check(bytes: &[u8]) {
    let Some(read) = Described::read(bytes, SECRET, PLACE) else { return };
    let header = read.header;
    let described = header.described_bytes();
    assert!(described <= bytes.len() as u64, "a description longer than what is there");
    assert!(header.record_bytes() >= described && header.record_bytes().is_multiple_of(UNIT_BYTES));
    let (extents, sums) = (read.extents(), read.block_sums().collect::<Vec<u64>>());
    assert_eq!(sums.len(), header.blocks());
    let table = match header.kind {
        Kind::Head => Table::Extents(&extents),
        Kind::Object | Kind::Extent | Kind::Gone => Table::Blocks(&sums),
    };
    let description = Description { key: read.key, head: read.head, table };
    let again = describe(header, &description, SECRET, PLACE);
    assert_eq!(again, bytes[..described as usize], "what is written again differs");
    let body = bytes.get(described as usize..).and_then(|rest| rest.get(..header.body_bytes() as usize));
    if let Some(body) = body.filter(|body| !body.is_empty() && read.is_body(body)) {
        let mut other = body.to_vec();
        other[0] ^= 1;
        assert!(!read.is_body(&other), "another body passes for the one that was written");
    }
}
