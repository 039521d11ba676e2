//! What each mode admits, and how budget and room change it.

use proptest::prelude::*;
use xxhash_rust::xxh3::xxh3_128;

use super::sketch::{Extent, FREQUENCY_MAX, Sketch};
use super::{AHEAD_MAX, Admission, AdmissionMode, FREQUENCY_DEMANDED_MAX, Room, demanded};

fn digest(number: u64) -> u128 {
    xxh3_128(&number.to_le_bytes())
}

fn admission(mode: AdmissionMode) -> Admission {
    Admission::with(mode, Sketch::new(Extent::of(1024, u64::MAX)))
}

const ROOM: Room = Room { is_left: true, ahead: 0, is_half_spent: false };
const FULL: Room = Room { is_left: false, ..ROOM };

/// The first request, counted from one, at which a key is admitted.
fn first_admitted(mode: AdmissionMode, room: Room) -> Option<u32> {
    let admission = admission(mode);
    (1..=2 * FREQUENCY_MAX).find(|_| {
        admission.note(digest(1));
        admission.judge(digest(1), room)
    })
}

#[test]
fn always_admits_all() {
    assert_eq!(first_admitted(AdmissionMode::Always, ROOM), Some(1));
    assert_eq!(first_admitted(AdmissionMode::Always, Room { ahead: 1000, ..FULL }), Some(1));
}

#[test]
fn second_admits_what_was_asked_for_before() {
    assert_eq!(first_admitted(AdmissionMode::Second, ROOM), Some(2));
    assert_eq!(first_admitted(AdmissionMode::Second, Room { ahead: 1000, ..FULL }), Some(2));
}

#[test]
fn auto_admits_all_while_there_is_room_and_by_frequency_afterwards() {
    let auto = |room| first_admitted(AdmissionMode::Auto, room);
    assert_eq!(auto(ROOM), Some(1));
    assert_eq!(auto(FULL), Some(2));
    assert_eq!(auto(Room { is_half_spent: true, ..ROOM }), Some(2), "the other half is for what comes again");
    assert_eq!(auto(Room { ahead: 1, ..ROOM }), Some(2), "room, but too much was written");
    assert_eq!(auto(Room { ahead: 3, ..FULL }), Some(4));
    assert_eq!(auto(Room { ahead: AHEAD_MAX + 1, ..ROOM }), None);
}

proptest! {
    #[test]
    fn what_is_demanded_grows_with_what_is_ahead_and_is_bounded(
        is_left: bool, ahead in 0u64..20, is_half_spent: bool,
    ) {
        let room = Room { is_left, ahead, is_half_spent };
        let (now, later) = (demanded(room), demanded(Room { ahead: ahead + 1, ..room }));
        prop_assert!(now.is_none_or(|now| (1..=FREQUENCY_DEMANDED_MAX).contains(&now)));
        let demand = |demanded: Option<u32>| demanded.unwrap_or(u32::MAX);
        prop_assert!(demand(now) <= demand(later));
    }
}

#[test]
fn a_mode_can_be_changed_and_the_memory_stays() {
    let admission = admission(AdmissionMode::Always);
    admission.note(digest(1));
    admission.note(digest(1));
    admission.note(digest(2));
    admission.set_mode(AdmissionMode::Second);
    assert_eq!(admission.mode(), AdmissionMode::Second);
    assert!(admission.judge(digest(1), ROOM) && !admission.judge(digest(2), ROOM));
}
