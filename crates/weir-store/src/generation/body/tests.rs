//! What `body` must do, by example.

use super::*;
use crate::budget::Budget;
use crate::samples;
use proptest::prelude::*;
use std::sync::Arc;

const SEED: u64 = 5;

fn growing(length: Option<u64>) -> (Arc<Budget>, Body) {
    let budget = Budget::new(1 << 30);
    let body = Body::new(length, budget.nothing());
    (budget, body)
}

/// Writes `[at, at + length)` as a writer does: cut at block borders, with complete blocks joined.
fn write(budget: &Arc<Budget>, body: &Body, id: u32, mut at: u64, length: u64) {
    let end = at + length;
    while at < end {
        let border = (at / BLOCK_BYTES as u64 + 1) * BLOCK_BYTES as u64;
        let count = border.min(end) - at;
        let charge = budget.charge(count + BLOCK_OVERHEAD_BYTES).unwrap();
        let bytes = samples::body(SEED, at, count as usize);
        if let Added::Complete(number) = body.add(id, at, bytes, charge) {
            body.join(number);
        }
        at += count;
    }
}

fn check_read(body: &Body, offset: u64, max: usize) -> Option<u64> {
    match body.read(offset, max) {
        Read::Piece(bytes) => {
            assert!(!bytes.is_empty() && bytes.len() <= max.min(PIECE_BYTES_MAX));
            assert_eq!(bytes, samples::body(SEED, offset, bytes.len()));
            Some(bytes.len() as u64)
        }
        _ => None,
    }
}

#[test]
fn a_small_body_of_known_length_is_one_allocation_of_its_size() {
    let (budget, body) = growing(Some(1000));
    let id = body.join_writer(0, 1000).unwrap();
    write(&budget, &body, id, 0, 1000);
    body.leave_writer(id);
    assert!(body.seal());
    assert_eq!(budget.used_bytes(), 1000 + BLOCK_OVERHEAD_BYTES);
    assert_eq!(body.sealed().unwrap().one().unwrap().len(), 1);
}

#[test]
fn a_reader_waits_only_for_what_is_coming() {
    let (budget, body) = growing(Some(200_000));
    let id = body.join_writer(0, 100_000).unwrap();
    assert!(matches!(body.read(50_000, 1), Read::NotYet));
    assert!(matches!(body.read(100_000, 1), Read::Gone));
    assert!(matches!(body.read(200_000, 1), Read::End));
    write(&budget, &body, id, 0, 60_000);
    assert!(matches!(body.read(70_000, 1), Read::NotYet));
    body.leave_writer(id);
    assert!(matches!(body.read(70_000, 1), Read::Gone));
    assert_eq!(body.held(), Intervals::of(Interval { start: 0, end: 60_000 }));
    assert!(!body.seal());
}

#[test]
fn a_window_forgets_whole_blocks_from_the_front() {
    let (budget, body) = growing(None);
    let id = body.join_writer(0, u64::MAX).unwrap();
    write(&budget, &body, id, 0, 10 * BLOCK_BYTES as u64 + 100);
    let before = budget.used_bytes();
    assert_eq!(body.slide(3 * BLOCK_BYTES as u64 + 5, u64::MAX), 3 * BLOCK_BYTES as u64);
    assert_eq!(body.window_start(), 3 * BLOCK_BYTES as u64);
    assert_eq!(before - budget.used_bytes(), 3 * (BLOCK_BYTES as u64 + BLOCK_OVERHEAD_BYTES));
    assert!(matches!(body.read(0, 1), Read::Gone));
    assert_eq!(check_read(&body, body.window_start(), 10), Some(10));
    assert_eq!(body.slide(u64::MAX, u64::MAX), 7 * BLOCK_BYTES as u64 + 100);
    assert_eq!(budget.used_bytes(), 0);
}

#[test]
fn a_slot_dropped_while_it_is_joined_stays_dropped() {
    let (budget, body) = growing(None);
    let id = body.join_writer(0, u64::MAX).unwrap();
    let charge = budget.charge(BLOCK_BYTES as u64 + BLOCK_OVERHEAD_BYTES).unwrap();
    body.add(id, 0, samples::body(SEED, 0, BLOCK_BYTES), charge);
    body.slide(u64::MAX, u64::MAX);
    body.join(0);
    body.install(0, vec![0; BLOCK_BYTES].into_boxed_slice());
    assert_eq!((budget.used_bytes(), body.held_bytes()), (0, 0));
}

/// An act on a body in a property test.
#[derive(Debug, Clone)]
enum Act {
    Write { at: u64, length: u64 },
    Read { at: u64, max: usize },
}

fn act(length: u64) -> impl Strategy<Value = Act> {
    let write = (0..length, 1u64..100_000)
        .prop_map(move |(at, count)| Act::Write { at, length: count.min(length - at) });
    let read = (0..length + 10, 1usize..100_000).prop_map(|(at, max)| Act::Read { at, max });
    prop_oneof![write, read]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn writes_anywhere_read_back_the_same(acts in prop::collection::vec(act(300_000), 1..40)) {
        let (budget, body) = growing(Some(300_000));
        let mut model = Intervals::new();
        for act in acts {
            match act {
                Act::Write { at, length } => {
                    let id = body.join_writer(at, at + length).unwrap();
                    write(&budget, &body, id, at, length);
                    body.leave_writer(id);
                    model.insert(Interval { start: at, end: at + length });
                }
                Act::Read { at, max } => {
                    let read = check_read(&body, at, max);
                    prop_assert_eq!(read.is_some(), model.run_at(at) > 0);
                    prop_assert!(read.unwrap_or(0) <= model.run_at(at));
                }
            }
            prop_assert_eq!(body.held(), model.clone());
            prop_assert_eq!(body.held_bytes(), model.length());
        }
        let whole = Interval { start: 0, end: 300_000 };
        prop_assert_eq!(body.seal(), model.contains(whole));
        let id = body.join_writer(0, 300_000);
        for gap in model.gaps(whole) {
            write(&budget, &body, id.unwrap(), gap.start, gap.length());
        }
        if let Some(id) = id {
            prop_assert!(!body.seal(), "a writer is still there");
            body.leave_writer(id);
        }
        prop_assert!(body.seal() && body.is_whole());
        let mut at = 0;
        while at < 300_000 {
            at += check_read(&body, at, 70_000).unwrap();
        }
        prop_assert_eq!(budget.used_bytes(), 300_000 + 5 * BLOCK_OVERHEAD_BYTES);
        drop(body);
        prop_assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn pushes_of_any_size_make_the_same_body(
        sizes in prop::collection::vec(1u64..150_000, 1..12),
        is_known in any::<bool>(),
        window in prop::option::of(0u64..300_000),
    ) {
        let length: u64 = sizes.iter().sum();
        let (budget, body) = growing(is_known.then_some(length));
        let id = body.join_writer(0, if is_known { length } else { u64::MAX }).unwrap();
        let mut at = 0;
        for size in sizes {
            write(&budget, &body, id, at, size);
            at += size;
            if let Some(window) = window {
                body.slide(at.saturating_sub(window), u64::MAX);
            }
            prop_assert!(check_read(&body, at - 1, 1).is_some());
            prop_assert!(matches!(body.read(at, 1), Read::NotYet | Read::End));
            let mut offset = body.window_start();
            while offset < at {
                offset += check_read(&body, offset, 50_000).unwrap();
            }
        }
        body.end_at(length);
        body.leave_writer(id);
        prop_assert!(matches!(body.read(length, 1), Read::End));
        if body.window_start() == 0 {
            prop_assert!(body.seal());
            let blocks = length.div_ceil(BLOCK_BYTES as u64);
        prop_assert_eq!(budget.used_bytes(), length + blocks * BLOCK_OVERHEAD_BYTES);
        }
        drop(body);
        prop_assert_eq!(budget.used_bytes(), 0);
    }
}
