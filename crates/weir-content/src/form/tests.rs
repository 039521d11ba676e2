//! The form is the one that is drawn, and what is damaged is not believed.

use super::*;

fn entry() -> Entry {
    Entry {
        number: 0x0102,
        url: "a.test/x?y=1".into(),
        site: "a.test".into(),
        content_type: "text/html".into(),
        body_bytes: 5,
        digest: 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100,
        laid: time(1_700_000_000_123).unwrap(),
        ends: time(1_700_000_060_123),
    }
}

/// `docs/format/content.md` has these bytes. They must stay readable.
const GOLDEN: &str = "02010000000000007b68e5cf8b010000db52e6cf8b01000000010203040506070809\
                      0a0b0c0d0e0f0c00612e746573742f783f793d310600612e746573740900746578742f68746d6c\
                      5745495248414e4401000000490000000500000000000000328871518bb45488";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_bytes_are_those_of_version_1() {
    assert_eq!(hex(&write(&entry())), GOLDEN);
    let byte = |at| u8::from_str_radix(&GOLDEN[at..at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..GOLDEN.len()).step_by(2).map(byte).collect();
    assert_eq!(parsed(&bytes), Ok(entry()));
}

fn parsed(bytes: &[u8]) -> Result<Entry, Unread> {
    let (_, foot) = bytes.split_last_chunk::<FOOT_BYTES>().ok_or(Unread::Short)?;
    // The content, which is not looked at here.
    let foot = read_foot(foot, bytes.len() as u64 + 5)?;
    read(&foot, bytes)
}

#[test]
fn what_is_written_is_read() {
    let without_end = Entry { ends: None, ..entry() };
    for entry in [entry(), without_end] {
        assert_eq!(parsed(&write(&entry)), Ok(entry));
    }
}

#[test]
fn no_changed_bit_and_no_shorter_end_is_believed() {
    let sound = write(&entry());
    for at in 0..sound.len() {
        for bit in 0..8 {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << bit;
            assert!(parsed(&bytes).is_err(), "byte {at}, bit {bit}");
        }
        assert!(parsed(&sound[at + 1..]).is_err() && parsed(&sound[..at]).is_err(), "{at}");
    }
}

#[test]
fn a_newer_form_is_told_from_damage() {
    let mut bytes = write(&entry());
    let at = bytes.len() - FOOT_BYTES + 8;
    bytes[at] = 2;
    assert_eq!(parsed(&bytes), Err(Unread::Newer(2)));
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(0u8.., 0..200)) {
        fuzzed(&bytes);
        // With a foot that is nearly one.
        bytes.extend_from_slice(&write(&entry())[40..]);
        fuzzed(&bytes);
    }
}

/// What mutations insert, beside bytes of other seeds.
const WORDS: &[&[u8]] =
    &[b"WEIRHAND", b"\x01\0\0\0", b"\0\0\0\0", b"\xff\xff", b"\xff\xff\xff\xff", b"a.test"];

#[test]
fn no_bytes_of_a_drive_break_the_reader() {
    weir_testkit::fuzz("by_hand", WORDS, fuzzed);
}
