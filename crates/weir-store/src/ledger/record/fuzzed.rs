//! Promises of the ledger's reader for any bytes: no panic; what was read is what would be written; a torn
//! file says less, never something else.

use super::{Content, End, Header, RECORD_BYTES, Record, header, read, summed};

/// Any bytes as a ledger's file: as they are, and with every checksum made right.
pub fn ledger(data: &[u8]) {
    check(data);
    let (pieces, rest) = data.as_chunks::<RECORD_BYTES>();
    let mut sound: Vec<u8> = pieces.iter().flat_map(|piece| summed(*piece)).collect();
    sound.extend_from_slice(rest);
    check(&sound);
}

fn check(bytes: &[u8]) {
    let Ok(content) = read(bytes) else { return };
    assert!((content.records.len() + 1) * RECORD_BYTES <= bytes.len(), "more records than there is room for");
    // A file of version 1 is written with an identity.
    let count = content.records.len() as u32;
    let of = Header { id: content.header.id.or(Some(0)), count, ..content.header };
    let mut again = header(of).to_vec();
    content.records.iter().for_each(|record| again.extend(Record::to_bytes(*record)));
    let same = Content { header: of, records: content.records, end: End::Whole };
    assert_eq!(read(&again).as_ref(), Ok(&same), "what is written again reads otherwise");
    let Some(torn) = bytes.get(..bytes.len() - 1).and_then(|torn| read(torn).ok()) else { return };
    assert!(same.records.starts_with(&torn.records), "a torn file says something else");
}
