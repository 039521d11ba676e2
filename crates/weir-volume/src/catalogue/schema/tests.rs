//! The rows' bytes.

use super::{Marker, Named, Row, key_of, of_site, of_tag, read_key};
use crate::Place;

const MARK: Marker =
    Marker { volume: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff, covered: Place { segment: 7, unit: 9 } };
const ROW: Row =
    Row { place: Place { segment: 3, unit: 0x0102_0304 }, hash: 0x1122_3344_5566_7788, stamp: 5 };
const NAMES: [Named<'static>; 3] = [
    Named::Key { site: 0x0102_0304_0506_0708, full: b"http://example.test/a?b\naccept:c" },
    Named::Tag(0x1112_1314_1516_1718),
    Named::ManyTags,
];

/// Every kind of row, each key and value behind its length.
fn all() -> Vec<u8> {
    let mut out = Vec::new();
    let mut add = |bytes: &[u8]| {
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(bytes);
    };
    add(super::MARKER);
    add(&MARK.to_bytes());
    for name in NAMES {
        add(&key_of(name, 0x2122_2324_2526_2728));
        add(&ROW.to_bytes());
    }
    out
}

#[test]
fn the_golden_file_is_what_is_written_and_read() {
    assert_eq!(all(), crate::testing::samples::golden("catalogue-2.bin", &all()));
    assert_eq!(Marker::read(&MARK.to_bytes()), Some(MARK));
    assert_eq!(Row::read(&ROW.to_bytes()), Some(ROW));
    for name in NAMES {
        assert_eq!(read_key(&key_of(name, 77)), Some((name, 77)));
    }
}

#[test]
fn what_is_of_another_length_or_version_is_not_read() {
    let (marker, row) = (MARK.to_bytes(), ROW.to_bytes());
    for length in 0..marker.len() {
        assert_eq!(Marker::read(&marker[..length]), None);
    }
    for length in 0..row.len() {
        assert_eq!(Row::read(&row[..length]), None);
    }
    assert_eq!(Marker::read(&[marker.as_slice(), &[0]].concat()), None);
    assert_eq!(Row::read(&[row.as_slice(), &[0]].concat()), None);
    // Rows of version 1 lack fields of tags: the log is read again.
    assert_eq!(Marker::read(&[&[1], &marker[1..]].concat()), None);
    assert_eq!(Marker::read(&[&[3], &marker[1..]].concat()), None);
    for key in [&b""[..], b"\0", b"\x01", b"\x021234567", b"\x0212345678123", b"\x031234567", b"\x0812345678"]
    {
        assert_eq!(read_key(key), None, "{key:?}");
    }
}

#[test]
fn rows_are_in_the_order_of_site_and_key() {
    let key = |site, full, object| key_of(Named::Key { site, full }, object);
    let ordered = [
        vec![0],
        key(1, b"http://a.test/", 9),
        key(1, b"http://a.test/b", 1),
        key(1, b"http://a.test/b", 300),
        key(1, b"http://b.test/", 2),
        key(256, b"http://a.test/", 1),
        key_of(Named::Tag(1), 5),
        key_of(Named::Tag(256), 1),
        key_of(Named::ManyTags, 1),
    ];
    assert!(ordered.is_sorted_by(|left, right| left < right));
    assert!(key(1, b"http://a.test/b", 1).starts_with(&of_site(1, b"http://a.test/")));
    assert!(key_of(Named::Tag(3), 1).starts_with(&of_tag(3)));
}

/// DESIGN: beside its key, a row takes at most 48 bytes; and so does one by tag in all.
#[test]
fn rows_are_lean() {
    assert!(ROW.to_bytes().len() + 8 + 9 <= 48);
    assert!(key_of(Named::Tag(1), 1).len() + ROW.to_bytes().len() <= 48);
}
