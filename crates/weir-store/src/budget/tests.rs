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
