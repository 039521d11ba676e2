//! What a volume has for one request while memory is full: it visits, and pushes nothing out.

use std::sync::Arc;

use super::{Folder, MEMORY, bytes_of, find, open, put, wait};
use crate::inside::Visitor;
use crate::samples::{self, body, key, now};
use crate::{Found, Scope, Store};

const LENGTH: usize = 15_000;
/// More than memory holds.
const OBJECTS: u64 = 400;
/// Asked for first, so that they fill it.
const FIRST: u64 = 300;

/// A store whose volume has all objects, and whose memory is filled with the first ones.
fn full(folder: &Folder) -> Store {
    for first in (0..OBJECTS).step_by(100) {
        let store = open(folder);
        (first..first + 100).for_each(|number| drop(put(&store, number, LENGTH)));
        store.close();
    }
    let store = open(folder);
    for number in 0..FIRST {
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
