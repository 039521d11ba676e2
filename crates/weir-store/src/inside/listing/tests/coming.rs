//! While objects come, go and change, each that stays is listed once, on whichever page it is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;
use crate::samples::find_as;

const STAYING: u64 = 200;

/// Whether those that stay get new heads meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heads {
    Written,
    /// A walk can miss an object whose head moves ahead of it.
    Left,
}

/// Stores and replaces others, and gives those that stay new heads, until it is told to end.
fn disturb(store: &Store, heads: Heads, is_over: &AtomicBool) {
    let mut round = 0u64;
    while !is_over.load(Ordering::Relaxed) {
        round += 1;
        put(store, STAYING + round % 300, 2000);
        if round.is_multiple_of(50) {
            store.purge(&[Mark::hard(Scope::Site(9))], now(), Box::new(|_| {}));
        }
        let key = key(round * 7 % STAYING);
        if let Some(own) = find_as(store, &key, &|_| true).filter(|_| heads == Heads::Written) {
            let stored = own.head().stored.clone();
            store.freshen(&own, stored, store.ledger().current());
            if let Some(home) = own.home() {
                // As after a 304, without the pause between two heads of one object.
                let digest = crate::volume::key::digest(&key.full, key.site);
                let head = crate::volume::codec::encode(&own.head().stored, now());
                let _ = home.volume().refresh(digest, own.object(), head.into(), own.stamp().number());
            }
        }
        std::thread::sleep(Duration::from_micros(300));
    }
}

/// What stays, and how often it was met on all pages.
fn staying(store: &Store, listing: Listing) -> BTreeMap<Vec<u8>, u32> {
    let (mut found, mut listing) = (BTreeMap::new(), listing);
    loop {
        let Page { objects, next, .. } = list(store, &listing).unwrap();
        for object in objects {
            let number = std::str::from_utf8(object.key.url()).unwrap().rsplit('/').next().unwrap();
            if number.parse::<u64>().unwrap() < STAYING {
                *found.entry(object.key.full.to_vec()).or_default() += 1;
            }
        }
        match next {
            Some(next) => listing.after = next,
            None => return found,
        }
    }
}

fn expected_of(wanted: fn(u64) -> bool) -> BTreeMap<Vec<u8>, u32> {
    (0..STAYING).filter(|number| wanted(*number)).map(|number| (key(number).full.to_vec(), 1)).collect()
}

#[test]
fn what_stays_is_listed_once_while_others_come_and_go() {
    for rows in [Some(CrashRows::new(3)), None] {
        let folder = Folder::new("listing-coming");
        let store = open(&folder, rows.as_ref());
        (0..STAYING).for_each(|number| put(&store, number, 2000));
        assert!(store.sync_for_tests());
        store.cover_for_tests(u64::MAX);
        let heads = if rows.is_some() { Heads::Written } else { Heads::Left };
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| disturb(&store, heads, &is_over));
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    store.sync_for_tests();
                    store.cover_for_tests(u64::MAX);
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            let ends = Ends(&is_over);
            for _ in 0..20 {
                let of = |limit| Listing { limit, ..Listing::default() };
                assert!(staying(&store, of(600)) == expected_of(|_| true), "rows: {}", rows.is_some());
                let tag = Some(tags::tag_hash(b"tag3"));
                let tagged = staying(&store, Listing { tag, ..of(600) });
                assert!(tagged == expected_of(|number| number % 5 == 3), "rows: {}", rows.is_some());
                if rows.is_some() {
                    assert!(staying(&store, of(7)) == expected_of(|_| true), "page by page");
                }
            }
            drop(ends);
        });
        store.close();
    }
}

/// Ends the threads, also where an assertion fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
