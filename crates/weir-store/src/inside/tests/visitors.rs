//! What a volume has for one request while memory is full: it visits, and pushes nothing out.

use std::sync::Arc;

use super::{Folder, MEMORY, bytes_of, find, open, put, wait};
use crate::inside::Visitor;
use crate::samples::{self, body, key, now};
use crate::{Found, Retirement, Scope, Store};

const LENGTH: usize = 15_000;
/// More than memory holds.
const OBJECTS: u64 = 400;
/// Asked for first, so that they fill it.
const FIRST: u64 = 300;

/// A store whose volume has all objects, and whose memory is filled with the first ones.
fn full(folder: &Folder) -> Store {
    full_of(folder, (FIRST, OBJECTS), LENGTH)
}

fn full_of(folder: &Folder, (first, objects): (u64, u64), length: usize) -> Store {
    let numbers: Vec<u64> = (0..objects).collect();
    for some in numbers.chunks(1_500_000 / length) {
        let store = open(folder);
        some.iter().for_each(|number| drop(put(&store, *number, length)));
        store.close();
    }
    let store = open(folder);
    for number in 0..first {
        assert!(find(&store, number).is_some(), "{number} is on the volume");
    }
    store
}

/// Asks the volume. What memory keeps is found there.
fn ask(store: &Store, number: u64) -> Option<Visitor> {
    let key = key(number);
    match store.find(key.digest, &key.full, key.site, &|_| true) {
        Found::Ask(ask) => wait(ask.run()),
        Found::Ready(_) => panic!("{number} was in memory"),
    }
}

fn held(store: &Store) -> Vec<u64> {
    (0..OBJECTS).filter(|number| samples::find(store, *number).is_some()).collect()
}

#[test]
fn what_is_asked_for_once_pushes_nothing_out() {
    let folder = Folder::new("visitors");
    let store = full(&folder);
    let (before, evicted, used) = (held(&store), store.usage().evicted, store.usage().used_bytes);
    assert!(before.len() > 200 && used > MEMORY / 16 * 14, "memory is full: {before:?}, {used}");
    for number in FIRST..FIRST + 50 {
        let visitor = ask(&store, number).expect("it visits");
        assert!(store.visit(&visitor), "nothing speaks against it");
        assert!(bytes_of(visitor.generation()).unwrap() == body(number, 0, LENGTH), "{number}");
        assert!(store.usage().used_bytes > used, "it is charged while it is there");
    }
    assert_eq!((held(&store), store.usage().evicted), (before, evicted));
    assert_eq!(store.usage().used_bytes, used, "and leaves nothing behind");
}

#[test]
fn what_returns_soon_stays() {
    let folder = Folder::new("visitors");
    let store = full(&folder);
    assert!(ask(&store, FIRST).is_some());
    assert!(ask(&store, FIRST).is_none(), "memory keeps it");
    let found = samples::find(&store, FIRST).unwrap();
    assert!(bytes_of(&found).unwrap() == body(FIRST, 0, LENGTH));
    assert!(store.usage().used_bytes <= MEMORY);
}

#[test]
fn many_visitors_at_once_stay_within_memory() {
    let folder = Folder::new("visitors");
    let store = full(&folder);
    // Those beyond what is set aside for them push others out, as they would without.
    let visitors: Vec<_> = (FIRST..OBJECTS).filter_map(|number| ask(&store, number)).collect();
    assert!(!visitors.is_empty() && store.usage().used_bytes <= MEMORY);
    for visitor in &visitors {
        assert!(bytes_of(visitor.generation()).is_some());
    }
}

#[test]
fn a_visitor_that_was_purged_meanwhile_is_not_received() {
    let folder = Folder::new("visitors");
    let store = full(&folder);
    let visitor = ask(&store, FIRST).unwrap();
    store.invalidate(Scope::All, now());
    assert!(!store.visit(&visitor));
    store.keep(visitor.generation());
    assert!(samples::find(&store, FIRST).is_none(), "what is dead is not added");
}

#[test]
fn a_visitor_that_was_replaced_meanwhile_is_not_received() {
    let folder = Folder::new("visitors");
    let store = full(&folder);
    let visitor = ask(&store, FIRST).unwrap();
    let newer = put(&store, FIRST, 1000);
    assert!(!store.visit(&visitor));
    store.keep(visitor.generation());
    let found = samples::find(&store, FIRST).unwrap();
    assert!(Arc::ptr_eq(&found, &newer), "the newer one stays");
}

#[test]
fn a_visitor_that_is_kept_is_found_by_others() {
    let folder = Folder::new("visitors");
    let store = full(&folder);
    let visitor = ask(&store, FIRST).unwrap();
    assert!(samples::find(&store, FIRST).is_none() && store.visit(&visitor));
    store.keep(visitor.generation());
    let found = samples::find(&store, FIRST).unwrap();
    assert!(Arc::ptr_eq(&found, visitor.generation()));
    store.keep(visitor.generation());
    assert!(samples::find(&store, FIRST).is_some(), "once more changes nothing");
}

#[test]
fn of_one_that_two_requests_loaded_there_is_one() {
    let folder = Folder::new("visitors");
    let store = full(&folder);
    let visitor = ask(&store, FIRST).unwrap();
    assert!(ask(&store, FIRST).is_none(), "the second time memory keeps it");
    let kept = samples::find(&store, FIRST).unwrap();
    assert!(!Arc::ptr_eq(&kept, visitor.generation()));
    assert!(Arc::ptr_eq(&store.keep(visitor.generation()).unwrap(), &kept));
    // A request that holds the first one still may have validated it.
    let generations = store.usage().generations;
    let head = visitor.generation().head().stored.clone();
    assert!(store.freshen(visitor.generation(), head, store.ledger().current()));
    assert!(Arc::ptr_eq(&samples::find(&store, FIRST).unwrap(), visitor.generation()));
    assert_eq!((kept.retirement(), store.usage().generations), (Some(Retirement::Evicted), generations));
    store.retire(visitor.generation());
    assert!(samples::find(&store, FIRST).is_none());
}

#[test]
fn what_is_asked_for_now_takes_the_place_of_what_was_there_first() {
    let folder = Folder::new("visitors");
    let (first, objects) = (2_000, 2_600);
    let store = full_of(&folder, (first, objects), 2_000);
    let of_first = || (0..first).filter(|number| samples::find(&store, *number).is_some()).count();
    let before = of_first();
    assert!(before > 800, "{before}");
    // More of them than the fewest ghosts.
    for _ in 0..4 {
        (first..objects).for_each(|number| drop(find(&store, number)));
    }
    let wanted = (first..objects).filter(|number| samples::find(&store, *number).is_some()).count();
    assert!(wanted > 550, "{wanted} of 600 were kept");
    assert!(of_first() < before - 300, "{} of {before} are there still", of_first());
}
