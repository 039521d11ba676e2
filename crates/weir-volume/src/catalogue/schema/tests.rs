//! The rows' bytes.

use super::{Marker, Named, Row, key_of, of_site, of_tag, read_by_key, read_by_number, read_key};
use crate::Place;
use crate::catalogue::summary::tests::{full, plain};

const MARK: Marker =
    Marker { volume: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff, covered: Place { segment: 7, unit: 9 } };
const ROW: Row =
    Row { place: Place { segment: 3, unit: 0x0102_0304 }, hash: 0x1122_3344_5566_7788, stamp: 5 };
const SITE: u64 = 0x0102_0304_0506_0708;
const FULL: &[u8] = b"http://example.test/a?b\naccept:c";
const NAMES: [Named<'static>; 4] = [
    Named::Key { site: SITE, full: FULL },
    Named::Tag(0x1112_1314_1516_1718),
    Named::ManyTags,
    Named::Object,
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
        match name {
            Named::Key { .. } => add(&ROW.by_key(Some(&full()))),
            Named::Object => add(&ROW.by_number(&plain(), SITE, FULL)),
            Named::Tag(_) | Named::ManyTags => add(&ROW.to_bytes()),
        }
    }
    add(&ROW.by_key(None));
    out
}

#[test]
fn the_golden_file_is_what_is_written_and_read() {
    assert_eq!(all(), crate::testing::samples::golden("catalogue-3.bin", &all()));
    assert_eq!(Marker::read(&MARK.to_bytes()), Some(MARK));
    assert_eq!(Row::read(&ROW.to_bytes()), Some(ROW));
    for summary in [full(), plain()] {
        let (by_key, by_number) = (ROW.by_key(Some(&summary)), ROW.by_number(&summary, SITE, FULL));
        assert_eq!(read_by_key(&by_key), Some((ROW, summary.clone())));
        assert_eq!(read_by_number(&by_number), Some((ROW, summary, SITE, FULL)));
        assert_eq!((Row::read(&by_key), Row::read(&by_number)), (Some(ROW), Some(ROW)));
    }
    assert_eq!((Row::read(&ROW.by_key(None)), read_by_key(&ROW.by_key(None))), (Some(ROW), None));
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
    let (by_key, by_number) = (ROW.by_key(Some(&full())), ROW.by_number(&full(), SITE, b""));
    assert!((0..by_key.len()).all(|length| read_by_key(&by_key[..length]).is_none()));
    assert!((0..by_number.len()).all(|length| read_by_number(&by_number[..length]).is_none()));
    assert_eq!(read_by_key(&[by_key.as_slice(), &[0]].concat()), None);
    assert_eq!(Marker::read(&[marker.as_slice(), &[0]].concat()), None);
    let before = crate::testing::samples::golden("catalogue-2.bin", &[]);
    let marker_before = &before[4 + 1 + 4..][..marker.len()];
    assert!(marker_before[4..] == marker[4..] && Marker::read(marker_before).is_none());
    // Rows of versions 1 and 2 lack what is searched: the log is read again.
    for version in [1, 2, 4] {
        assert_eq!(Marker::read(&[&[version], &marker[1..]].concat()), None);
    }
    for key in [
        &b""[..],
        b"\0",
        b"\x01",
        b"\x021234567",
        b"\x0212345678123",
        b"\x031234567",
        b"\x0812345678",
        b"\x04123456789",
    ] {
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
        key_of(Named::Object, 1),
    ];
    assert!(ordered.is_sorted_by(|left, right| left < right));
    assert!(key(1, b"http://a.test/b", 1).starts_with(&of_site(1, b"http://a.test/")));
    assert!(key_of(Named::Tag(3), 1).starts_with(&of_tag(3)));
}

/// DESIGN: beside its key a row takes at most 96 bytes without tags, and one by tag at most 48 in all.
#[test]
fn rows_are_lean() {
    assert!(ROW.by_key(Some(&plain())).len() + 8 + 9 <= 96);
    assert!(key_of(Named::Tag(1), 1).len() + ROW.to_bytes().len() <= 48);
}
