//! Purges by each scope, hard and soft, as the store's callers see them.

use super::*;
use crate::samples::now;
use std::sync::mpsc;
use std::time::Duration;
use weir_policy::{StoredFlags, Tags, freshness};

const PAGE: &str = "http://example.test/object/";

fn put_tagged(store: &Store, number: u64, tags: &str) -> Arc<Generation> {
    let stamp = store.ledger().current();
    let proof = proof(&[], &[("surrogate-key", tags)]);
    let (generation, mut writer) = store.begin(proof, key(number).of_site(5), stamp, Some(10)).unwrap();
    writer.push(body(number, 0, 10)).unwrap();
    writer.seal().unwrap();
    generation
}

fn purge(store: &Store, mark: Mark) -> Stamp {
    let (done, acknowledged) = mpsc::channel();
    store.purge(&[mark], now(), Box::new(move |written| done.send(written).unwrap()));
    acknowledged.recv().unwrap().unwrap().stamp
}

fn is_stale(generation: &Generation) -> bool {
    let head = generation.head();
    let is_fresh = freshness(&head.stored, now()).is_fresh();
    assert_eq!(is_fresh, !head.stored.facts.flags.has(StoredFlags::PURGED));
    !is_fresh
}

pub(super) fn scopes() -> [(Scope, [bool; 3]); 6] {
    [
        (Scope::All, [true, true, true]),
        (Scope::Site(5), [true, true, false]),
        (Scope::tag(b"red"), [true, false, false]),
        (Scope::prefix(0, PAGE), [true, true, true]),
        (Scope::prefix(0, &format!("{PAGE}2")), [false, true, false]),
        (Scope::Url { site: 0, digest: key(3).digest }, [false, false, true]),
    ]
}

fn objects(store: &Store) {
    put_tagged(store, 1, "red");
    put_tagged(store, 2, "blue");
    put(store, 3, 10);
}

#[test]
fn a_hard_purge_of_each_scope_takes_what_it_concerns() {
    for (scope, expect) in scopes() {
        let store = Store::new(MEMORY);
        objects(&store);
        let mark = purge(&store, Mark::hard(scope));
        let gone = [1, 2, 3].map(|number| find(&store, number).is_none());
        assert_eq!(gone, expect, "{scope:?}");
        while store.sweep() {}
        assert_eq!(store.usage().generations, expect.iter().filter(|gone| !**gone).count() as u64);
        let left = [1, 2, 3].map(|number| find(&store, number)).into_iter().flatten();
        assert!(left.into_iter().all(|left| left.stamp() == mark), "what lives is stamped again");
        objects(&store);
        assert!([1, 2, 3].iter().all(|number| find(&store, *number).is_some()));
    }
}

#[test]
fn a_soft_purge_of_each_scope_makes_stale_what_it_concerns() {
    for (scope, expect) in scopes() {
        for is_swept in [false, true] {
            let store = Store::new(MEMORY);
            objects(&store);
            let mark = purge(&store, Mark::soft(scope));
            while is_swept && store.sweep() {}
            let stale = [1, 2, 3].map(|number| is_stale(&find(&store, number).unwrap()));
            assert_eq!(stale, expect, "{scope:?}");
            for (number, is_stale) in [1, 2, 3].into_iter().zip(expect) {
                let stamp = find(&store, number).unwrap().stamp();
                assert!(stamp == mark || (!is_stale && !is_swept), "looked at once and not again");
            }
            let variants = store.variants(key(1).digest, &key(1).full);
            assert!(variants.len() == 1 && is_stale(&variants[0]) == expect[0]);
            assert!(store.usage().used_bytes <= store.usage().limit_bytes);
        }
    }
}

#[test]
fn a_304_asked_for_after_a_soft_purge_makes_fresh_and_one_before_does_not() {
    let store = Store::new(MEMORY);
    let generation = put(&store, 1, 10);
    let fresh = generation.head().stored.clone();
    let before = store.ledger().current();
    purge(&store, Mark::soft(Scope::All));
    for is_seen_meanwhile in [false, true] {
        assert!(!is_seen_meanwhile || is_stale(&find(&store, 1).unwrap()));
        assert!(store.freshen(&generation, fresh.clone(), before));
        assert!(is_stale(&find(&store, 1).unwrap()));
    }
    assert!(store.freshen(&generation, fresh, store.ledger().current()));
    assert!(!is_stale(&find(&store, 1).unwrap()));
}

#[test]
fn a_304_that_brings_a_purged_tag_ends_it() {
    let store = Store::new(MEMORY);
    let generation = put_tagged(&store, 1, "red");
    let mut stored = generation.head().stored.clone();
    stored.headers.insert("surrogate-key", http::HeaderValue::from_static("blue"));
    stored.tags = Tags::read(&stored.headers);
    let asked = store.ledger().current();
    purge(&store, Mark::hard(Scope::tag(b"blue")));
    assert!(find(&store, 1).is_some());
    assert!(!store.freshen(&generation, stored.clone(), asked));
    assert!(find(&store, 1).is_none() && generation.is_retired());
    assert!(store.freshen(&generation, stored, store.ledger().current()));
    purge(&store, Mark::hard(Scope::tag(b"red")));
    assert!(find(&store, 1).is_some(), "it bears that tag no more");
    purge(&store, Mark::hard(Scope::tag(b"blue")));
    assert!(find(&store, 1).is_none());
}

#[test]
fn a_fill_in_flight_ends_up_dead_or_stale() {
    for (scope, expect) in scopes() {
        let [is_concerned, ..] = expect;
        for force in [Force::Hard, Force::Soft] {
            let store = Store::new(MEMORY);
            let stamp = store.ledger().current();
            let late = proof(&[], &[("xkey", "red")]);
            let (early, writer) =
                store.begin(proof(&[], &[("xkey", "red")]), key(1).of_site(5), stamp, None).unwrap();
            purge(&store, Mark { scope, force });
            writer.seal().unwrap();
            let judge = |found: Option<Arc<Generation>>| match (found, force) {
                (found, Force::Hard) => found.is_none(),
                (found, _) => is_stale(&found.unwrap()),
            };
            assert_eq!(judge(find(&store, 1)), is_concerned, "{scope:?}");
            assert_eq!(early.is_retired(), is_concerned && force == Force::Hard);
            assert!(early.is_whole(), "its readers have all of it");
            let (_, writer) = store.begin(late, key(1).of_site(5), stamp, None).unwrap();
            writer.seal().unwrap();
            assert_eq!(judge(find(&store, 1)), is_concerned, "{scope:?}");
        }
    }
}

#[test]
fn what_was_asked_for_before_a_soft_purge_does_not_replace_what_was_asked_for_after_it() {
    let store = Store::new(MEMORY);
    let before = store.ledger().current();
    purge(&store, Mark::soft(Scope::All));
    let new = put(&store, 1, 20);
    for is_seen_meanwhile in [false, true] {
        let (old, writer) = store.begin(proof(&[], &[]), key(1), before, None).unwrap();
        assert!(!is_seen_meanwhile || is_stale(&find(&store, 1).unwrap()));
        writer.seal().unwrap();
        assert!(Arc::ptr_eq(&find(&store, 1).unwrap(), &new) && !is_stale(&new));
        assert_eq!(old.retirement(), Some(Retirement::Replaced));
    }
    let (newer, writer) = store.begin(proof(&[], &[]), key(1), store.ledger().current(), None).unwrap();
    let (old, old_writer) = store.begin(proof(&[], &[]), key(1), before, None).unwrap();
    old_writer.seal().unwrap();
    writer.seal().unwrap();
    assert!(Arc::ptr_eq(&find(&store, 1).unwrap(), &newer) && old.is_retired() && new.is_retired());
    purge(&store, Mark::soft(Scope::All));
    put(&store, 1, 30);
    assert_eq!(newer.retirement(), Some(Retirement::Replaced));
}

#[test]
fn what_lives_through_a_crowd_of_soft_purges_is_stale_and_kept() {
    let settings = Settings { marks_max: 16, ..Settings::of(MEMORY) };
    let store = Store::with(settings);
    (0..20).for_each(|number| drop(put(&store, number, 10)));
    for number in 0..200_u64 {
        purge(&store, Mark::soft(Scope::tag(&number.to_le_bytes())));
        purge(&store, Mark::soft(Scope::Url { site: 0, digest: key(number % 10).digest }));
        assert!(store.usage().marks <= 32);
    }
    while store.sweep() {}
    for number in 0..20 {
        assert_eq!(is_stale(&find(&store, number).unwrap()), number < 10, "{number}");
    }
}

#[test]
fn the_windows_of_staleness_open_when_it_is_purged() {
    let store = Store::new(MEMORY);
    let generation = put(&store, 1, 10);
    let moment = now();
    let later = Now { mono: moment.mono + Duration::from_secs(100), ..moment };
    store.purge(&[Mark::soft(Scope::All)], later, Box::new(|_| {}));
    find(&store, 1).unwrap();
    let stored = &generation.head().stored;
    let at = |seconds: u64| Now { mono: later.mono + Duration::from_secs(seconds), ..later };
    assert_eq!(freshness(stored, at(7)).staleness(), Duration::from_secs(7));
}

#[test]
fn marks_are_dropped_as_far_as_they_concern_nothing_under_way() {
    let store = Store::with(Settings { marks_max: 64, ..Settings::of(MEMORY) });
    let mark = |digest| store.invalidate(Scope::Url { site: 5, digest }, now());
    let asking = store.ledger().ask();
    for digest in 100..105 {
        mark(digest);
    }
    while store.sweep() {}
    assert_eq!(store.usage().marks, 5, "they are newer than what is under way");
    let begun = store.begin(proof(&[], &[]), key(1), asking.stamp(), Some(10)).unwrap();
    let (_, mut writer) = begun;
    writer.push(body(1, 0, 10)).unwrap();
    writer.seal().unwrap();
    drop(asking);
    assert!(find(&store, 1).is_some());
    mark(105);
    while store.sweep() {}
    assert_eq!(store.usage().marks, 0);
    assert!(find(&store, 1).is_some(), "what lives was stamped again");
}

#[test]
fn what_is_being_completed_outlives_the_marks_that_do_not_concern_it() {
    let store = Store::with(Settings { marks_max: 64, ..Settings::of(MEMORY) });
    let stamp = store.ledger().current();
    let first = Interval::new(0, 10);
    let (part, mut writer) = store.begin_part(proof(&[], &[]), key(1), stamp, 20, first).unwrap();
    writer.push(body(1, 0, 10)).unwrap();
    writer.rest();
    for digest in 100..110 {
        store.invalidate(Scope::Url { site: 5, digest }, now());
    }
    let mut writer = store.resume(&part, Interval::new(10, 20)).unwrap();
    for digest in 110..115 {
        store.invalidate(Scope::Url { site: 5, digest }, now());
    }
    while store.sweep() {}
    assert_eq!(store.usage().marks, 5, "those that are newer than its further transfer");
    writer.push(body(1, 10, 10)).unwrap();
    writer.rest();
    assert!(find(&store, 1).is_some_and(|found| found.is_whole()));
}
