//! Retentions by each scope, as the store's callers see them: longer and shorter, with purges before and
//! after, while a fill is under way, with 304s, and within bounds.

use super::*;
use crate::ledger::TooMany;
use crate::samples::now;
use std::sync::mpsc;
use std::time::Duration;
use weir_policy::{StoredFlags, freshness};

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);
/// What the samples say of themselves.
const OWN: Duration = Duration::from_secs(600);

fn put_tagged(store: &Store, number: u64, tags: &str) -> Arc<Generation> {
    let stamp = store.ledger().current();
    let proof = proof(&[], &[("surrogate-key", tags)]);
    let (generation, mut writer) = store.begin(proof, key(number).of_site(5), stamp, Some(10)).unwrap();
    writer.push(body(number, 0, 10)).unwrap();
    writer.seal().unwrap();
    generation
}

fn retain(store: &Store, scope: Scope, lifetime: Duration) -> Stamp {
    let (done, acknowledged) = mpsc::channel();
    let mark = Mark::lifetime(scope, lifetime);
    store.retain(&[mark], now(), Box::new(move |written| done.send(written).unwrap())).unwrap();
    acknowledged.recv().unwrap().unwrap().stamp
}

fn purge(store: &Store, mark: Mark) {
    store.purge(&[mark], now(), Box::new(|_| {}));
}

/// Whether it is fresh for about so long: half of it may have gone by on a busy machine.
fn is_left(generation: &Generation, left: Duration) -> bool {
    let found = freshness(&generation.head().stored, now()).left();
    found <= left && found * 2 >= left
}

#[test]
fn a_retention_of_each_scope_concerns_what_it_names() {
    for (scope, expect) in purge::scopes() {
        for lifetime in [HOUR, MINUTE, Duration::ZERO] {
            for is_swept in [false, true] {
                let store = Store::new(MEMORY);
                put_tagged(&store, 1, "red");
                put_tagged(&store, 2, "blue");
                put(&store, 3, 10);
                retain(&store, scope, lifetime);
                while is_swept && store.sweep() {}
                for (number, is_concerned) in [1, 2, 3].into_iter().zip(expect) {
                    let found = find(&store, number).unwrap();
                    let left = if is_concerned { lifetime } else { OWN };
                    assert!(is_left(&found, left), "{scope:?} {number}");
                    assert_eq!(found.head().stored.facts.flags.has(StoredFlags::RETAINED), is_concerned);
                }
                let after = put_tagged(&store, 1, "red");
                assert!(is_left(&after, OWN), "what is asked for later has a lifetime of its own");
            }
        }
    }
}

#[test]
fn the_newest_decides_with_purges_before_and_after() {
    let store = Store::new(MEMORY);
    let generation = put_tagged(&store, 1, "red");
    let (tag, site) = (Scope::tag(b"red"), Scope::Site(5));
    for is_looked_at_between in [false, true] {
        let look = || drop(is_looked_at_between.then(|| find(&store, 1).unwrap()));
        retain(&store, tag, MINUTE);
        look();
        retain(&store, site, HOUR);
        assert!(is_left(&find(&store, 1).unwrap(), HOUR));
        retain(&store, site, HOUR);
        look();
        retain(&store, tag, MINUTE);
        assert!(is_left(&find(&store, 1).unwrap(), MINUTE));
        purge(&store, Mark::soft(site));
        look();
        retain(&store, tag, HOUR);
        let found = find(&store, 1).unwrap();
        assert!(is_left(&found, HOUR) && !found.head().stored.facts.flags.has(StoredFlags::PURGED));
        look();
        purge(&store, Mark::soft(tag));
        let found = find(&store, 1).unwrap();
        assert!(found.head().stored.facts.flags.has(StoredFlags::PURGED) && is_left(&found, Duration::ZERO));
    }
    retain(&store, tag, HOUR);
    purge(&store, Mark::hard(site));
    assert!(find(&store, 1).is_none());
    retain(&store, tag, HOUR);
    assert!(find(&store, 1).is_none() && generation.is_whole(), "what was purged stays purged");
}

#[test]
fn a_fill_in_flight_has_the_lifetime_once_it_comes() {
    let store = Store::new(MEMORY);
    let stamp = store.ledger().current();
    let (early, writer) = store.begin(proof(&[], &[("xkey", "red")]), key(1), stamp, None).unwrap();
    retain(&store, Scope::tag(b"red"), HOUR);
    assert!(is_left(&find(&store, 1).unwrap(), HOUR), "while it arrives");
    writer.seal().unwrap();
    assert!(is_left(&find(&store, 1).unwrap(), HOUR) && is_left(&early, HOUR));
    // Its head comes after the order.
    let (_, writer) = store.begin(proof(&[], &[("xkey", "red")]), key(2), stamp, None).unwrap();
    writer.seal().unwrap();
    assert!(is_left(&find(&store, 2).unwrap(), HOUR));
    // A soft purge, and then the order, while it is under way.
    let stamp = store.ledger().current();
    purge(&store, Mark::soft(Scope::All));
    retain(&store, Scope::tag(b"red"), MINUTE);
    let (_, writer) = store.begin(proof(&[], &[("xkey", "red")]), key(3), stamp, None).unwrap();
    writer.seal().unwrap();
    assert!(is_left(&find(&store, 3).unwrap(), MINUTE));
}

#[test]
fn a_part_and_each_variant_have_it() {
    let store = Store::new(MEMORY);
    let stamp = store.ledger().current();
    let (part, mut writer) =
        store.begin_part(proof(&[], &[]), key(1), stamp, 20, Interval::new(0, 10)).unwrap();
    writer.push(body(1, 0, 10)).unwrap();
    writer.rest();
    let vary = [("vary", "accept-encoding")];
    for coding in ["gzip", "br"] {
        let stored = proof(&[("accept-encoding", coding)], &vary);
        let (_, writer) = store.begin(stored, key(2), stamp, Some(0)).unwrap();
        writer.seal().unwrap();
    }
    retain(&store, Scope::All, HOUR);
    assert!(store.may_serve(&part) && is_left(&part, HOUR));
    let variants = store.variants(key(2).digest, &key(2).full);
    assert_eq!(variants.len(), 2);
    assert!(variants.iter().all(|variant| is_left(variant, HOUR)));
    // The rest of the part arrives after the order.
    let mut writer = store.resume(&part, Interval::new(10, 20)).unwrap();
    writer.push(body(1, 10, 10)).unwrap();
    writer.seal().unwrap();
    assert!(is_left(&find(&store, 1).unwrap(), HOUR));
}

#[test]
fn a_304_asked_for_before_has_it_and_one_after_says_its_own() {
    let store = Store::new(MEMORY);
    let generation = put(&store, 1, 10);
    let own = generation.head().stored.clone();
    for is_seen_meanwhile in [false, true] {
        let before = store.ledger().current();
        retain(&store, Scope::All, HOUR);
        assert!(!is_seen_meanwhile || is_left(&find(&store, 1).unwrap(), HOUR));
        assert!(store.freshen(&generation, own.clone(), before));
        assert!(is_left(&find(&store, 1).unwrap(), HOUR));
        assert!(store.freshen(&generation, own.clone(), store.ledger().current()));
        assert!(is_left(&find(&store, 1).unwrap(), OWN));
    }
}

#[test]
fn beyond_the_room_nothing_of_an_order_is_in_force_until_the_sweep() {
    let store = Store::with(Settings { marks_max: 16, ..Settings::of(MEMORY) });
    (0..20).for_each(|number| drop(put(&store, number, 10)));
    let order = |number: u64| Mark::lifetime(crate::samples::url(number), HOUR);
    let all: Vec<Mark> = (0..16).map(order).collect();
    store.retain(&all, now(), Box::new(|_| {})).unwrap();
    let refused = store.retain(&[order(3), order(17)], now(), Box::new(|_| panic!("it was refused")));
    assert!(matches!(refused, Err(TooMany::Retentions { kind: "URLs", most: 16, kept: 16, .. })));
    assert!(is_left(&find(&store, 17).unwrap(), OWN));
    while store.sweep() {}
    assert_eq!(store.usage().marks, 0, "they are in the heads");
    store.retain(&[order(17)], now(), Box::new(|_| {})).unwrap();
    for number in 0..20 {
        let is_retained = number < 16 || number == 17;
        assert!(is_left(&find(&store, number).unwrap(), if is_retained { HOUR } else { OWN }), "{number}");
    }
}

/// How many objects bear the tag. `WEIR_RETAINED=1000000` for the largest.
const OBJECTS: u64 = 20_000;

/// The order is given without a search, and a look-up or the sweep writes it into each head.
#[test]
fn a_tag_of_many_objects_is_retained_without_a_search() {
    let wanted = std::env::var("WEIR_RETAINED").ok().and_then(|count| count.parse().ok());
    let count: u64 = wanted.unwrap_or(OBJECTS);
    let store = Store::new(count * (8 << 10));
    (0..count).for_each(|number| drop(put_tagged(&store, number, "news")));
    assert_eq!(store.usage().objects, count);
    let before = store.ledger().marks();
    retain(&store, Scope::tag(b"news"), HOUR);
    assert_eq!(store.ledger().marks() - before, 1);
    let untouched = |number: &u64| {
        let all = store.inside_for_tests().memory.index.all(key(*number).digest);
        !all[0].head().stored.facts.flags.has(StoredFlags::RETAINED)
    };
    assert_eq!((0..count).filter(untouched).count() as u64, count, "nothing was touched");
    assert!(is_left(&find(&store, count / 2).unwrap(), HOUR));
    while store.sweep() {}
    assert_eq!((0..count).filter(untouched).count(), 0);
    assert!((0..count).step_by(97).all(|number| is_left(&find(&store, number).unwrap(), HOUR)));
    assert_eq!(store.usage().generations, count);
}
