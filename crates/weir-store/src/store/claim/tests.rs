//! Who gets what is freed: a body that is about to begin, or those that are under way.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::samples::{body, key, proof, put};
use crate::{Full, Generation, Writer};

const MEMORY: u64 = 4 << 20;
const LENGTH: usize = 60_000;

/// A store whose memory is held by what has left it, and by a body under way that would take more.
fn full() -> (Store, Vec<Arc<Generation>>, Writer) {
    let store = Store::new(MEMORY);
    let (generation, mut writer) =
        store.begin(proof(&[], &[]), key(1), store.ledger().current(), None).unwrap();
    // What its readers have yet to read is not dropped.
    writer.let_go(0);
    let mut held = vec![generation];
    let mut number = 10;
    while store.usage().used_bytes < MEMORY / 2 {
        let one = put(&store, number, LENGTH);
        store.retire(&one);
        held.push(one);
        number += 1;
    }
    while takes_more(&mut writer) {}
    (store, held, writer)
}

/// Pushes a little more. Whether memory is found for it.
fn takes_more(writer: &mut Writer) -> bool {
    let bytes = body(1, writer.position(), 10_000);
    !matches!(writer.push(bytes), Err(Full { .. }))
}

fn needed(store: &Store) -> u64 {
    store.needed_bytes(&key(2), &proof(&[], &[]), 500_000)
}

fn begins(store: &Store) -> bool {
    store.begin(proof(&[], &[]), key(2), store.ledger().current(), Some(500_000)).is_ok()
}

/// The claim, where none is before it in line.
fn claim(store: &Store) -> Option<Claim> {
    match pin!(store.claim(needed(store))).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(claim) => Some(claim),
        Poll::Pending => None,
    }
}

#[test]
fn what_is_freed_next_is_kept_for_a_body_that_is_about_to_begin() {
    let (store, mut held, mut writer) = full();
    assert!(!store.has_room(needed(&store)) && !begins(&store));
    let mut first = claim(&store).unwrap();
    assert!(!first.is_met() && !first.may_be_met(), "nothing waits for a volume");
    loop {
        drop(held.pop().unwrap());
        if first.is_met() {
            break;
        }
        assert!(!takes_more(&mut writer), "the body under way took it");
    }
    // What is freed beyond the claim is for all.
    while takes_more(&mut writer) {}
    assert!(first.may_be_met() && !begins(&store));
    first.give();
    assert!(begins(&store));
}

#[test]
fn without_a_claim_those_under_way_take_it() {
    let (store, mut held, mut writer) = full();
    for _ in 0..5 {
        drop(held.pop());
        while takes_more(&mut writer) {}
    }
    assert!(!store.has_room(needed(&store)) && !begins(&store));
}

#[test]
fn claims_stand_in_line() {
    let (store, mut held, _writer) = full();
    let mut first = claim(&store).unwrap();
    assert!(claim(&store).is_none(), "one is before it");
    held.truncate(held.len() - 5);
    assert!(first.is_met());
    drop(first);
    assert!(claim(&store).unwrap().is_met());
}

#[test]
fn a_claim_is_woken_for_what_is_freed() {
    let (store, mut held, writer) = full();
    let mut first = claim(&store).unwrap();
    let mut under_way = writer.wait_for_memory();
    assert!(!first.is_met());
    let is_woken = |claim: &mut Claim| {
        pin!(claim.freed()).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    };
    assert!(!is_woken(&mut first));
    drop(held.pop());
    assert!(is_woken(&mut first), "whatever waits besides");
    drop(first);
    writer.arm(&mut under_way);
}

#[test]
fn there_is_no_room_where_reserves_take_all_that_they_may() {
    let store = Store::new(MEMORY);
    let mut under_way = Vec::new();
    while let Ok(begun) =
        store.begin(proof(&[], &[]), key(under_way.len() as u64), store.ledger().current(), Some(500_000))
    {
        under_way.push(begun);
    }
    assert!(store.usage().used_bytes < MEMORY / 4, "little of it is used");
    assert!(!store.has_room(needed(&store)));
    // It needs a little more than the reserve of one.
    under_way.truncate(under_way.len() - 2);
    assert!(store.has_room(needed(&store)));
}
