//! The ledger's file: what is written is read, what is torn is left out, and the form changes only with its
//! version.

use super::*;
use proptest::prelude::*;

/// A file of each kind of record, as `docs/format/ledger.md` draws it.
const GOLDEN: &[u8] = include_bytes!("golden-3.ledger");
/// The same in version 2, without the lifetimes.
const GOLDEN_2: &[u8] = include_bytes!("golden-2.ledger");
/// The same in version 1.
const GOLDEN_1: &[u8] = include_bytes!("golden-1.ledger");

fn at(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
}

fn golden() -> (Header, Vec<Record>) {
    let scopes = [
        Scope::All,
        Scope::Site(0x1122_3344_5566_7788),
        Scope::Prefix { site: 1, digest: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff, length: 24 },
        Scope::Tag { site: 0, hash: 0x99aa_bbcc_ddee_ff00 },
        Scope::Url { site: u64::MAX, digest: u128::MAX - 1 },
        Scope::Tag { site: 0x8877_6655_4433_2211, hash: 0x99aa_bbcc_ddee_ff00 },
    ];
    let record = |(index, scope): (u64, Scope)| {
        let mark = if index % 2 == 0 { Mark::hard(scope) } else { Mark::soft(scope) };
        Record { number: 42 + index, mark, at: at(1_790_000_000_123 + index) }
    };
    let id = Some(0xfeed_0000_0000_0000_0000_0000_0000_0001);
    let header = Header { base: 41, id, suspect_before: 40, is_adopted: true, count: 2 };
    let mut records: Vec<Record> = (0..).zip(scopes).map(record).collect();
    let lifetimes = [(Scope::Site(7), 600_000), (Scope::Url { site: 7, digest: 8 }, 0)];
    let order = |(index, (scope, ms)): (u64, (Scope, u64))| Record {
        number: 48 + index,
        mark: Mark::lifetime(scope, Duration::from_millis(ms)),
        at: at(1_790_000_000_129 + index),
    };
    records.extend((0..).zip(lifetimes).map(order));
    (header, records)
}

fn file(of: Header, records: &[Record]) -> Vec<u8> {
    let mut bytes = header(of).to_vec();
    records.iter().for_each(|record| bytes.extend_from_slice(&record.to_bytes()));
    bytes
}

#[test]
fn the_form_is_that_of_the_golden_file() {
    let (header, records) = golden();
    if std::env::var_os("WEIR_REWRITE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/ledger/record/golden-3.ledger");
        std::fs::write(path, file(header, &records)).unwrap();
    }
    assert_eq!(file(header, &records), GOLDEN);
    assert_eq!(read(GOLDEN), Ok(Content { header, records, end: End::Whole }));
}

#[test]
fn one_of_version_2_is_read_as_before() {
    let (header, records) = golden();
    let records = records[..6].to_vec();
    assert_eq!(read(GOLDEN_2), Ok(Content { header, records, end: End::Whole }));
}

#[test]
fn one_of_version_1_is_read_and_has_no_id() {
    let header = Header { base: 41, id: None, suspect_before: 0, is_adopted: false, count: 0 };
    // It had no tags of one site.
    let records = golden().1[..5].to_vec();
    assert_eq!(read(GOLDEN_1), Ok(Content { header, records, end: End::Whole }));
    assert_eq!(read(&GOLDEN[..6 * RECORD_BYTES]).unwrap().records, golden().1[..5]);
}

#[test]
fn the_second_place_is_what_was_written_or_nothing() {
    let bytes = end_to_bytes(u128::MAX - 5, 1 << 61);
    assert_eq!(bytes[..32], *b"WEIRLEND\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x20\xfa\xff\xff\xff\xff\xff\xff\xff");
    assert_eq!(end_of_bytes(&bytes), Some((u128::MAX - 5, 1 << 61)));
    for length in 0..bytes.len() {
        assert_eq!(end_of_bytes(&bytes[..length]), None);
    }
    assert_eq!(end_of_bytes(&[&bytes[..], b"x"].concat()), None);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(end_of_bytes(&flipped), None, "bit {bit}");
    }
}

#[test]
fn what_is_no_ledger_is_refused() {
    let mut newer = GOLDEN.to_vec();
    newer[8] = 4;
    let header = summed(newer[..RECORD_BYTES].try_into().unwrap());
    newer[..RECORD_BYTES].copy_from_slice(&header);
    assert_eq!(read(&newer), Err(Unreadable::Newer(4)));
    let mut bent = GOLDEN.to_vec();
    bent[20] ^= 1;
    for bytes in [&b""[..], &GOLDEN[..63], &bent, &[0; 200], b"#!/bin/sh\n"] {
        assert_eq!(read(bytes), Err(Unreadable::Foreign));
    }
}

#[test]
fn a_torn_tail_is_left_out_and_seen() {
    let (header, records) = golden();
    for length in RECORD_BYTES..=GOLDEN.len() {
        let content = read(&GOLDEN[..length]).unwrap();
        let whole = length / RECORD_BYTES - 1;
        let is_whole = length % RECORD_BYTES == 0 && whole >= 2;
        let end = if is_whole { End::Whole } else { End::Torn };
        assert_eq!(content, Content { header, records: records[..whole].to_vec(), end });
    }
    let mut zeros = GOLDEN.to_vec();
    let last = zeros.len() - RECORD_BYTES;
    zeros[last..].fill(0);
    zeros.extend_from_slice(&[0; 4096]);
    assert_eq!(read(&zeros).unwrap().records, records[..records.len() - 1]);
    assert_eq!(read(&zeros).unwrap().end, End::Torn);
}

#[test]
fn a_flipped_bit_is_seen() {
    let records = golden().1;
    for at in RECORD_BYTES..GOLDEN.len() {
        let mut bytes = GOLDEN.to_vec();
        bytes[at] ^= 4;
        let content = read(&bytes).unwrap();
        let bent = at / RECORD_BYTES - 1;
        let is_last = bent == records.len() - 1;
        assert_eq!(content.end == End::Torn, is_last, "{at}");
        assert_eq!(matches!(content.end, End::Damaged { .. }), !is_last, "{at}");
        assert_eq!(content.records.len(), records.len() - 1);
        assert!(!content.records.contains(&records[bent]));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        keep in 0..400_usize,
    ) {
        let mut file = GOLDEN[..keep.min(GOLDEN.len())].to_vec();
        file.extend_from_slice(&bytes);
        let _ = read(&file);
    }

    #[test]
    fn any_record_comes_back(
        number: u64, digest: u128, site: u64, length: u32,
        kind in 0..5_u8, force in 0..3_u8, ms in 0..1_u64 << 50, lifetime_ms: u64,
    ) {
        let scope = match kind {
            0 => Scope::All,
            1 => Scope::Site(site),
            2 => Scope::Prefix { site, digest, length },
            3 => Scope::Tag { site, hash: digest as u64 },
            _ => Scope::Url { site, digest },
        };
        let mark = match force {
            0 => Mark::hard(scope),
            1 => Mark::soft(scope),
            _ => Mark::lifetime(scope, Duration::from_millis(lifetime_ms)),
        };
        let record = Record { number, mark, at: at(ms) };
        prop_assert_eq!(Record::of_bytes(&record.to_bytes()), Some(record));
    }
}
