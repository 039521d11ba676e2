//! What memory must do, by example.

use std::sync::Arc;

use super::Memory;
use super::sweep::SWEEP_STEP;
use crate::budget::{Charge, Reserve};
use crate::generation::{Generation, Head, NO_PLACE, Residence, Retirement};
use crate::samples::{body, find, key, now, proof, put, read_from, url};
use crate::{Read, Scope, Store, Writer};
use proptest::prelude::*;

const MEMORY: u64 = 1 << 20;

/// Every resident generation is in the index and in the queues; nothing else is in the queues.
fn check(memory: &Memory, all: &[Arc<Generation>]) {
    let state = memory.state.lock();
    let mut count = 0;
    let mut all: Vec<_> = all.iter().collect();
    all.sort_by_key(|generation| generation.label.sequence);
    all.dedup_by_key(|generation| generation.label.sequence);
    for generation in all {
        let is_indexed =
            memory.index.all(generation.label.key.digest).iter().any(|other| Arc::ptr_eq(other, generation));
        let is_queued = generation.place() != NO_PLACE;
        let expected = match generation.residence() {
            Residence::Filling => (true, false),
            Residence::Resident => (true, true),
            Residence::Retired(_) => (false, false),
        };
        assert_eq!((is_indexed, is_queued), expected, "{:?}", generation.residence());
        count += usize::from(is_queued);
    }
    assert!(state.queues.load().count >= count);
    assert!(memory.budget.used_bytes() <= memory.budget.limit_bytes());
}

#[test]
fn the_sweeper_drops_marks_and_hurts_nothing_that_lives() {
    let store = Store::with(crate::Settings { marks_max: 64, ..crate::Settings::of(16 << 20) });
    let generations: Vec<_> = (0..1500).map(|number| put(&store, number, 10)).collect();
    for number in 10_000..20_000 {
        store.invalidate(url(number), now());
        assert!(store.usage().marks <= 64);
    }
    store.invalidate(url(3), now());
    let alive = (0..1500).filter(|&number| find(&store, number).is_some()).count();
    assert_eq!(alive, 1499);
    drop(generations);
}

#[test]
fn what_is_published_during_a_sweep_lives_on() {
    let store = Store::with(crate::Settings { marks_max: 8, ..crate::Settings::of(16 << 20) });
    for number in 0..SWEEP_STEP as u64 + 10 {
        put(&store, number, 10);
    }
    let stamp = store.ledger().current();
    let (generation, writer) = store.begin(proof(&[], &[]), key(5000), stamp, None).unwrap();
    (0..4).for_each(|digest| {
        store.invalidate(Scope::Url { site: 0, digest }, now());
    });
    assert!(store.memory_for_tests().state.lock().sweep.is_some());
    store.retire(&find(&store, 0).unwrap());
    writer.seal().unwrap();
    assert!(generation.place() < SWEEP_STEP as u32, "it lies behind the cursor");
    while store.sweep() {}
    assert_eq!(store.usage().marks, 0);
    assert!(find(&store, 5000).is_some());
}

/// Reserves half of a memory, of which 300,000 bytes are drawn, and has others take what the rest leaves.
/// Returns who holds what.
fn crowd(memory: &Memory) -> (Reserve, [Charge; 2]) {
    let reserve = memory.budget.reserve(MEMORY / 2).unwrap();
    let others = memory.budget.charge(MEMORY / 2 - memory.budget.used_bytes()).unwrap();
    let drawn = memory.draw(&reserve, 0, DRAWN).unwrap();
    (reserve, [others, drawn])
}

const DRAWN: u64 = 300_000;

#[test]
fn nothing_is_evicted_in_vain() {
    let store = Store::new(MEMORY);
    (0..3).for_each(|number| drop(put(&store, number, 10_000)));
    let memory = store.memory_for_tests();
    let held = crowd(memory);
    assert!(memory.charge(20_000).is_none() && memory.reserve(20_000).is_none());
    assert!((0..3).all(|number| find(&store, number).is_some()), "all three would not have been enough");
    drop(held);
    assert!(memory.charge(MEMORY / 2).is_some());
}

#[test]
fn what_is_loaded_fits_beside_reserves_and_leaves_for_their_holders() {
    let store = Store::new(MEMORY);
    (0..3).for_each(|number| drop(put(&store, number, 10_000)));
    let memory = store.memory_for_tests();
    let (reserve, _held) = crowd(memory);
    let loaded = memory.charge_loaded(10_000).unwrap();
    assert!(memory.charge_loaded(MEMORY / 16).is_none(), "no more than a sixteenth is lent");
    assert!(memory.draw(&reserve, DRAWN, MEMORY / 2).is_none(), "more than the reserve has left");
    assert_eq!((0..3).filter(|&number| find(&store, number).is_some()).count(), 3);
    let _rest = memory.draw(&reserve, DRAWN, MEMORY / 2 - DRAWN).unwrap();
    assert_eq!((0..3).filter(|&number| find(&store, number).is_some()).count(), 2);
    assert!(memory.budget.used_bytes() <= MEMORY);
    drop(loaded);
}

#[test]
fn an_evicted_generation_is_read_to_its_end() {
    let store = Store::new(MEMORY);
    let reader = {
        put(&store, 1, 300_000);
        find(&store, 1).unwrap()
    };
    store.memory_for_tests().retire(&reader, Retirement::Evicted);
    (2..20).for_each(|number| drop(put(&store, number, 100_000)));
    assert!(find(&store, 1).is_none());
    assert_eq!(read_from(&reader, 0, 65_536).0, body(1, 0, 300_000));
}

#[test]
fn a_reader_keeps_its_object_from_eviction() {
    let store = Store::new(MEMORY);
    put(&store, 1, 300_000);
    let reader = find(&store, 1).unwrap();
    (2..50).for_each(|number| drop(put(&store, number, 100_000)));
    assert!(Arc::ptr_eq(&find(&store, 1).unwrap(), &reader));
}

#[test]
fn memory_comes_back_at_once_though_the_index_reclaims_late() {
    let store = Store::new(MEMORY);
    put(&store, 1, 400_000);
    let before = store.usage().used_bytes;
    store.retire(&find(&store, 1).unwrap());
    assert!(before - store.usage().used_bytes >= 400_000);
}

/// An act on a store in a property test.
#[derive(Debug, Clone)]
enum Act {
    Begin { number: u64, length: u64, is_known: bool, variant: bool },
    Push { index: usize, bytes: usize },
    Seal { index: usize },
    Rest { index: usize },
    Abandon { index: usize },
    Read { number: u64 },
    LetGo { index: usize },
    Retire { number: u64 },
    Freshen { index: usize },
    Invalidate { number: u64 },
    InvalidateAll,
    Sweep,
}

fn act() -> impl Strategy<Value = Act> {
    let begin = (0u64..12, 0u64..400_000, any::<bool>(), any::<bool>())
        .prop_map(|(number, length, is_known, variant)| Act::Begin { number, length, is_known, variant });
    prop_oneof![
        6 => begin,
        12 => (0usize..8, 1usize..150_000).prop_map(|(index, bytes)| Act::Push { index, bytes }),
        6 => (0usize..8).prop_map(|index| Act::Seal { index }),
        1 => (0usize..8).prop_map(|index| Act::Rest { index }),
        1 => (0usize..8).prop_map(|index| Act::Abandon { index }),
        8 => (0u64..12).prop_map(|number| Act::Read { number }),
        6 => (0usize..20).prop_map(|index| Act::LetGo { index }),
        1 => (0u64..12).prop_map(|number| Act::Retire { number }),
        2 => (0usize..20).prop_map(|index| Act::Freshen { index }),
        1 => (0u64..12).prop_map(|number| Act::Invalidate { number }),
        1 => Just(Act::InvalidateAll),
        1 => Just(Act::Sweep),
    ]
}

/// A store under test, its writers with their declared lengths, and generations that readers hold.
struct Scene {
    store: Store,
    writers: Vec<(Writer, u64)>,
    held: Vec<Arc<Generation>>,
}

impl Scene {
    fn act(&mut self, act: Act) {
        let store = &self.store;
        match act {
            Act::Begin { number, length, is_known, variant } => {
                let request: &[(&str, &str)] = if variant { &[("x-kind", "b")] } else { &[] };
                let proof = proof(request, &[("vary", "x-kind")]);
                let known = is_known.then_some(length);
                if self.writers.len() < 8
                    && let Ok((generation, writer)) =
                        store.begin(proof, key(number), store.ledger().current(), known)
                {
                    self.writers.push((writer, length));
                    self.held.push(generation);
                }
            }
            Act::Push { index, bytes } => {
                if let Some((writer, length)) = self.writers.get_mut(index) {
                    let at = writer.position();
                    let count = bytes.min((*length - at) as usize);
                    let _ = writer.push(body(writer.generation().label.sequence, at, count));
                }
            }
            Act::Seal { index } if index < self.writers.len() => {
                let (mut writer, length) = self.writers.swap_remove(index);
                let at = writer.position();
                let rest = body(writer.generation().label.sequence, at, (length - at) as usize);
                if writer.push(rest).is_ok() {
                    writer.seal().unwrap();
                }
            }
            Act::Rest { index } if index < self.writers.len() => self.writers.swap_remove(index).0.rest(),
            Act::Abandon { index } if index < self.writers.len() => {
                self.writers.swap_remove(index).0.abandon()
            }
            Act::Seal { .. } | Act::Rest { .. } | Act::Abandon { .. } => {}
            Act::Read { number } => self.held.extend(find(store, number)),
            Act::LetGo { index } => drop((index < self.held.len()).then(|| self.held.swap_remove(index))),
            Act::Retire { number } => drop(find(store, number).inspect(|found| store.retire(found))),
            Act::Freshen { index } => {
                if let Some(generation) = self.held.get(index) {
                    let stored = generation.head().stored.clone();
                    store.freshen(generation, stored, store.ledger().current());
                }
            }
            Act::Invalidate { number } => {
                store.invalidate(url(number), now());
                assert!(find(store, number).is_none());
            }
            Act::InvalidateAll => {
                store.invalidate(Scope::All, now());
                assert!((0..12).all(|number| find(store, number).is_none()));
            }
            Act::Sweep => drop(store.sweep()),
        }
    }

    fn check(&self) {
        check(self.store.memory_for_tests(), &self.held);
        for generation in &self.held {
            let start = generation.window_start();
            let (bytes, end) = read_from(generation, start, 100_000);
            assert_eq!(bytes, body(generation.label.sequence, start, bytes.len()));
            if generation.is_whole() {
                assert!(matches!(end, Read::End) && Some(bytes.len() as u64) == generation.length());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn any_acts_leave_index_queues_budget_and_bytes_in_order(acts in prop::collection::vec(act(), 1..60)) {
        let mut scene = Scene { store: Store::new(MEMORY), writers: Vec::new(), held: Vec::new() };
        for act in acts {
            scene.act(act);
            scene.check();
        }
        let budget = Arc::clone(&scene.store.memory_for_tests().budget);
        drop(scene);
        prop_assert_eq!(budget.used_bytes(), 0);
    }
}

#[test]
fn what_is_asked_for_again_and_again_outlives_a_scan() {
    let store = Store::new(MEMORY);
    (0..30).for_each(|number| drop(put(&store, number, 10_000)));
    for scanned in 1000..4000 {
        put(&store, scanned, 10_000);
        if scanned % 4 == 0 {
            assert!((0..30).all(|number| find(&store, number).is_some()), "lost at {scanned}");
        }
    }
}

#[test]
fn of_two_that_come_up_the_newer_one_stays_in_whatever_order() {
    for order in [[1, 2], [2, 1]] {
        let store = Store::new(MEMORY);
        let memory = store.memory_for_tests();
        let raised = order.map(|number| {
            let head = Head::new(proof(&[], &[]).into_stored(), memory.budget.nothing());
            let (body, charge) =
                (crate::generation::Body::small(bytes::Bytes::new()), memory.budget.nothing());
            let stamp = store.ledger().current();
            let generation = Arc::new(Generation::new(key(1), number, stamp, head, body, charge));
            generation.set_object(number);
            memory.add_loaded(&generation);
            generation
        });
        assert_eq!(find(&store, 1).unwrap().object(), 2, "{order:?}");
        assert_eq!(store.usage().generations, 1, "{order:?}");
        check(memory, &raised);
    }
}
