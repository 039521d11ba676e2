//! What `budget` must do, by example.

use super::*;

#[test]
fn the_ceiling_is_never_passed() {
    let budget = Budget::new(100);
    let first = budget.charge(60).unwrap();
    assert!(budget.charge(41).is_none() && budget.charge(u64::MAX).is_none());
    let second = budget.charge(40).unwrap();
    assert_eq!(budget.used_bytes(), 100);
    drop((first, second));
    assert_eq!(budget.used_bytes(), 0);
}

#[test]
fn split_and_join_keep_the_sum() {
    let budget = Budget::new(100);
    let mut whole = budget.charge(100).unwrap();
    let part = whole.split(30);
    assert_eq!((whole.bytes(), part.bytes()), (70, 30));
    drop(whole);
    assert_eq!(budget.used_bytes(), 30);
    let mut rest = budget.nothing();
    rest.join(part);
    assert_eq!(budget.used_bytes(), 30);
    drop(rest);
    assert_eq!(budget.used_bytes(), 0);
}

#[test]
fn a_block_is_counted_until_its_last_clone() {
    let budget = Budget::new(1000);
    let charge = budget.charge(128).unwrap();
    let bytes = block(vec![7; 100].into_boxed_slice(), charge);
    let slice = bytes.slice(10..20);
    drop(bytes);
    assert_eq!(budget.used_bytes(), 128);
    assert_eq!(slice, [7; 10][..]);
    drop(slice);
    assert_eq!(budget.used_bytes(), 0);
}

#[test]
fn what_is_reserved_is_left_free_by_others() {
    let budget = Budget::new(100);
    let reserve = budget.reserve(40).unwrap();
    assert!(budget.reserve(11).is_none(), "half of the ceiling at most");
    let others = budget.charge(60).unwrap();
    assert!(budget.charge(1).is_none() && budget.reserve(1).is_none());
    assert_eq!((budget.lacking_bytes(1), budget.over_bytes(1)), (1, 0));
    let own = reserve.charge(0, 40).unwrap();
    assert!(reserve.charge(40, 1).is_none());
    assert_eq!((budget.lacking_bytes(1), budget.over_bytes(1)), (41, 1));
    assert_eq!(budget.used_bytes(), 100);
    drop(reserve);
    assert!(budget.charge(1).is_none());
    drop((others, own));
    assert!(budget.charge(100).is_some() && budget.used_bytes() == 0);
}

#[test]
fn the_room_of_whole_blocks_is_used_again() {
    let budget = Budget::new(1 << 20);
    let whole = |budget: &Arc<Budget>| {
        let charge = budget.charge(BLOCK_BYTES as u64).unwrap();
        let mut room = budget.room(BLOCK_BYTES);
        assert!(room.is_empty() && room.capacity() == BLOCK_BYTES);
        room.resize(BLOCK_BYTES, 7);
        block(room.into_boxed_slice(), charge)
    };
    let first = whole(&budget);
    let place = first.as_ptr();
    let second = whole(&budget);
    assert_ne!(second.as_ptr(), place);
    drop(first);
    assert_eq!(budget.used_bytes(), BLOCK_BYTES as u64, "what is in stock is nobody's charge");
    let short = budget.room(100);
    assert_ne!(short.as_ptr(), place, "a shorter one is as long as it is wanted");
    assert_eq!(whole(&budget).as_ptr(), place);
    // As many stay as were asked for lately, and none for which there is no room beside what is charged.
    let budget = Budget::new(64 << 20);
    drop(Vec::from_iter((0..100).map(|_| whole(&budget))));
    assert_eq!(budget.stock.bytes(), 100 * BLOCK_BYTES as u64);
    let most = budget.limit_bytes() + budget.stock.least_bytes();
    for bytes in std::iter::once(60 << 20).chain(std::iter::repeat_n((64 << 10) + 128, 63)) {
        std::mem::forget(budget.charge(bytes).unwrap());
        assert!(budget.used_bytes() + budget.stock.bytes() <= most);
    }
}
