//! What moving a body does to the store and to its readers.

use super::*;
use crate::samples::{body, find, put, read_from, until};
use crate::{Read, Store};

const MEMORY: u64 = 16 << 20;
const LENGTH: usize = 300_001;

fn hits(store: &Store, number: u64, way: Way, count: usize) {
    for _ in 0..count {
        store.note_sent(&find(store, number).unwrap(), LENGTH as u64, || way);
    }
}

fn is_in_file(store: &Store, number: u64) -> bool {
    find(store, number).unwrap().file().is_some()
}

#[test]
fn a_body_that_is_sent_often_moves_and_its_blocks_are_freed() {
    let store = Store::new(MEMORY);
    put(&store, 1, LENGTH);
    let before = store.usage().used_bytes;
    hits(&store, 1, Way::Plain, 3);
    assert!(!is_in_file(&store, 1));
    hits(&store, 1, Way::Plain, 1);
    until(|| is_in_file(&store, 1));
    let found = find(&store, 1).unwrap();
    assert!(found.is_whole_in_memory() && found.blocks().is_none());
    for max in [1000, 70_000, 1 << 20] {
        let (bytes, end) = read_from(&found, 0, max);
        assert!(bytes == body(1, 0, LENGTH) && matches!(end, Read::End));
    }
    assert_eq!(found.held_bytes(), LENGTH as u64);
    let usage = store.usage();
    assert_eq!((usage.files, usage.files_bytes), (1, LENGTH as u64));
    // The blocks go when the thread is done with them.
    until(|| store.usage().used_bytes < before + (8 << 10));
    drop(found);
    store.retire(&find(&store, 1).unwrap());
    until(|| store.usage().files == 0 && store.usage().used_bytes < 8 << 10);
}

#[test]
fn blocks_stay_for_a_reader_that_has_them() {
    let store = Store::new(MEMORY);
    let generation = put(&store, 1, LENGTH);
    let held = generation.blocks().unwrap();
    store.inside.move_to_file(&generation).unwrap();
    assert!(generation.file().is_some() && generation.blocks().is_none());
    assert!(held.concat() == body(1, 0, LENGTH));
    let charged = store.usage().used_bytes;
    assert!(charged > 2 * LENGTH as u64, "both are charged while both are there");
    drop(held);
    assert!(store.usage().used_bytes < charged - LENGTH as u64);
}

#[test]
fn a_body_stays_where_it_is_where_anything_is_lacking() {
    let store = Store::new(MEMORY);
    put(&store, 1, LENGTH);
    hits(&store, 1, Way::Other, 50);
    put(&store, 2, 3 << 20);
    hits(&store, 2, Way::Plain, 50);
    put(&store, 3, 60_000);
    hits(&store, 3, Way::Plain, 50);
    let gone = put(&store, 4, LENGTH);
    store.retire(&gone);
    store.inside.move_to_file(&gone).unwrap();
    assert_eq!(store.usage().files, 0);
}

#[test]
fn a_body_stays_in_blocks_where_readers_hold_the_memory() {
    let store = Store::new(MEMORY);
    let last = put(&store, 1, 1_900_000);
    let mut held = Vec::new();
    while store.usage().used_bytes < MEMORY - (3 << 19) {
        held.push(put(&store, 10 + held.len() as u64, 1 << 20));
    }
    store.inside.move_to_file(&last).unwrap();
    assert!(last.file().is_none());
    assert!(read_from(&last, 0, 1 << 20).0 == body(1, 0, 1_900_000));
    held.truncate(held.len() / 2);
    store.inside.move_to_file(&last).unwrap();
    assert!(last.file().is_some() && read_from(&last, 0, 1 << 20).0 == body(1, 0, 1_900_000));
}

#[test]
fn the_thread_ends_with_the_store() {
    let store = Store::new(MEMORY);
    put(&store, 1, LENGTH);
    hits(&store, 1, Way::Plain, 4);
    until(|| is_in_file(&store, 1));
    let weak = Arc::downgrade(&store.inside);
    drop(store);
    until(|| weak.upgrade().is_none());
}
