//! The bounds hold, and one site leaves the others theirs.

use std::time::UNIX_EPOCH;

use super::*;

const KIB: u64 = 1024;

fn site(name: &str) -> Arc<str> {
    name.into()
}

fn entry(name: &str, body_bytes: u64) -> Entry {
    Entry {
        number: 1,
        url: "u".into(),
        site: name.into(),
        content_type: "t/t".into(),
        body_bytes,
        digest: 0,
        laid: UNIX_EPOCH,
        ends: None,
    }
}

#[test]
fn bytes_are_bounded_with_what_is_on_its_way() {
    let mut room = Room::new(100 * KIB);
    room.add(&entry("a", 40 * KIB));
    let mut first = room.begin(&site("b"), 40 * KIB, Share::Whole).unwrap();
    assert_eq!(room.begin(&site("c"), 9 * KIB, Share::Whole).unwrap_err(), NoRoom::Full(8 * KIB));
    let second = room.begin(&site("c"), 0, Share::Whole).unwrap();
    assert_eq!(room.grow(&mut first, 48 * KIB + 1), Err(NoRoom::Full(4 * KIB)));
    room.grow(&mut first, 48 * KIB).unwrap();
    assert_eq!(room.usage().used_bytes, 44 * KIB + 52 * KIB + 4 * KIB);
    assert_eq!(room.grow(&mut first, 100 * KIB), Err(NoRoom::TooLarge(96 * KIB)));
    room.give_back(&first);
    room.give_back(&second);
    room.remove(&entry("a", 40 * KIB));
    assert_eq!(room.usage(), Usage { size_bytes: 100 * KIB, ..Usage::default() });
    assert!(room.stocks().is_empty());
}

#[test]
fn the_pieces_are_bounded() {
    let mut room = Room::new(u64::MAX);
    (0..ENTRIES_MAX).for_each(|_| room.add(&entry("a", 1)));
    assert_eq!(room.begin(&site("b"), 1, Share::Whole).unwrap_err(), NoRoom::Entries);
}

#[test]
fn a_site_has_its_part_and_leaves_the_others_theirs() {
    let mut room = Room::new(96 * KIB);
    let share = Share::OneOf(4);
    let refused = |room: &mut Room, name, bytes| room.begin(&site(name), bytes, share).unwrap_err();
    assert_eq!(refused(&mut room, "a", 21 * KIB), NoRoom::TooLarge(20 * KIB));
    for name in ["a", "b", "c", "d"] {
        room.begin(&site(name), 20 * KIB, share).unwrap();
        assert_eq!(refused(&mut room, name, 1), NoRoom::Full(0));
    }
    // All of them together have filled it.
    assert_eq!(room.begin(&site("e"), 1, Share::Whole).unwrap_err(), NoRoom::Full(0));
}

#[test]
fn uploads_of_some_sites_leave_places_to_the_others() {
    let mut room = Room::new(u64::MAX / 2);
    let share = Share::OneOf(100);
    let held = room.begin(&site("a"), 1, share).unwrap();
    room.begin(&site("a"), 1, share).unwrap();
    assert_eq!(room.begin(&site("a"), 1, share).unwrap_err(), NoRoom::Uploads);
    for number in 0..14 {
        room.begin(&site(&format!("b{number}")), 1, share).unwrap();
    }
    assert_eq!(room.begin(&site("c"), 1, share).unwrap_err(), NoRoom::Uploads);
    for _ in 0..8 {
        room.begin(&site("c"), 1, Share::Whole).unwrap();
    }
    assert_eq!(room.begin(&site("c"), 1, Share::Whole).unwrap_err(), NoRoom::Uploads);
    room.give_back(&held);
    room.begin(&site("c"), 1, share).unwrap();
}
