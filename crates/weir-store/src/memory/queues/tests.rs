//! What `queues` must do, by example.

use super::*;
use crate::budget::Budget;
use crate::samples::{key, loose};
use proptest::prelude::*;
use std::sync::Weak;

/// The lists and the sums agree, and every generation knows its place.
fn check(queues: &Queues) {
    let mut seen = 0;
    for (home, queue) in [(Home::Small, &queues.small), (Home::Main, &queues.main)] {
        let (mut place, mut before, mut count, mut bytes) = (queue.oldest, NO_PLACE, 0, 0);
        while place != NO_PLACE {
            let node = queues.node(place);
            assert_eq!((node.home, node.older, node.generation.place()), (home, before, place));
            count += 1;
            bytes += node.weight_bytes;
            (before, place) = (place, node.newer);
        }
        assert_eq!((queue.newest, queue.count, queue.bytes), (before, count, bytes));
        seen += count;
    }
    assert_eq!(queues.nodes.iter().flatten().count(), seen);
    assert_eq!(queues.nodes.len() - queues.free.len(), seen);
}

/// Links a generation of that weight. The queues are its only owner.
fn link(queues: &mut Queues, budget: &Arc<Budget>, number: u64, weight_bytes: u64) -> Weak<Generation> {
    let generation = loose(budget, number);
    let weak = Arc::downgrade(&generation);
    queues.link(generation, weight_bytes);
    weak
}

fn note_uses(generation: &Weak<Generation>, uses: u8) {
    (0..uses).for_each(|_| {
        let _ = generation.upgrade().unwrap().label.note_use();
    });
}

#[test]
fn what_was_not_used_goes_first_in_its_order() {
    let (budget, mut queues) = (Budget::new(1 << 20), Queues::new(100));
    let all: Vec<_> = (0..5).map(|number| link(&mut queues, &budget, number, 10)).collect();
    note_uses(&all[0], 3);
    let victims = queues.pick(20);
    let gone: Vec<_> = victims.iter().map(|victim| victim.key().clone()).collect();
    assert_eq!(gone, [key(1), key(2)]);
    check(&queues);
    assert_eq!(queues.load(), Load { count: 3, bytes: 30 });
}

#[test]
fn what_comes_back_goes_to_the_main_queue() {
    let (budget, mut queues) = (Budget::new(1 << 20), Queues::new(100));
    link(&mut queues, &budget, 1, 10);
    assert_eq!(queues.pick(1).len(), 1);
    link(&mut queues, &budget, 1, 10);
    link(&mut queues, &budget, 2, 10);
    assert_eq!((queues.small.count, queues.main.count), (1, 1));
}

#[test]
fn what_is_being_read_is_passed_over() {
    let (budget, mut queues) = (Budget::new(1 << 20), Queues::new(100));
    let all: Vec<_> = (0..3).map(|number| link(&mut queues, &budget, number, 10)).collect();
    let reader = all[0].upgrade().unwrap();
    assert_eq!(queues.pick(20).len(), 2);
    assert_eq!(queues.load().count, 1);
    assert!(queues.pick(1).is_empty());
    drop(reader);
    assert_eq!(queues.pick(1).len(), 1);
    check(&queues);
}

#[test]
fn nothing_leaves_in_vain() {
    let (budget, mut queues) = (Budget::new(1 << 20), Queues::new(100));
    let all: Vec<_> = (0..4).map(|number| link(&mut queues, &budget, number, 10)).collect();
    note_uses(&all[1], 3);
    let reader = all[0].upgrade().unwrap();
    for _ in 0..3 {
        assert!(queues.pick(31).is_empty());
        assert_eq!(queues.load(), Load { count: 4, bytes: 40 });
        check(&queues);
    }
    drop(reader);
    assert_eq!(queues.pick(31).len(), 4);
}

/// Also where one search would end before it has seen all of them.
#[test]
fn of_very_many_none_leaves_in_vain() {
    let (budget, mut queues) = (Budget::new(1 << 20), Queues::new(100));
    let count = STEPS_MAX + 10;
    (0..count).for_each(|number| drop(link(&mut queues, &budget, number as u64, 1)));
    assert!(queues.pick(count as u64 + 1).is_empty());
    assert_eq!(queues.load().count, count);
}

#[test]
fn a_search_is_bounded_even_if_everything_is_used() {
    let (budget, mut queues) = (Budget::new(1 << 20), Queues::new(100));
    for number in 0..2000 {
        let generation = link(&mut queues, &budget, number, 1);
        note_uses(&generation, 3);
    }
    assert_eq!(queues.pick(1).len(), 1);
    check(&queues);
}

#[test]
fn a_hot_set_survives_a_scan() {
    let (budget, mut queues) = (Budget::new(1 << 20), Queues::new(10_000));
    let hot: Vec<_> = (0..50).map(|number| link(&mut queues, &budget, number, 100)).collect();
    for number in 0..10_000 {
        if number % 20 == 0 {
            hot.iter().filter_map(Weak::upgrade).for_each(|generation| {
                let _ = generation.label.note_use();
            });
        }
        link(&mut queues, &budget, 1000 + number, 100);
        while queues.load().bytes > 10_000 {
            drop(queues.pick(1));
        }
    }
    assert_eq!(hot.iter().filter_map(Weak::upgrade).count(), 50);
    check(&queues);
}

#[derive(Debug, Clone)]
enum Act {
    Link { number: u64, weight: u64 },
    Unlink { index: usize },
    Use { index: usize },
    Pick { need: u64 },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0u64..60, 1u64..50).prop_map(|(number, weight)| Act::Link { number, weight }),
        1 => (0usize..100).prop_map(|index| Act::Unlink { index }),
        3 => (0usize..100).prop_map(|index| Act::Use { index }),
        2 => (1u64..200).prop_map(|need| Act::Pick { need }),
    ]
}

proptest! {
    #[test]
    fn lists_and_sums_agree_after_any_acts(acts in prop::collection::vec(act(), 0..200)) {
        let (budget, mut queues) = (Budget::new(1 << 20), Queues::new(500));
        let mut all: Vec<(Weak<Generation>, u64)> = Vec::new();
        for act in acts {
            let at = |index: usize, all: &[(Weak<Generation>, u64)]| all.get(index)?.0.upgrade();
            match act {
                Act::Link { number, weight } => {
                    all.push((link(&mut queues, &budget, number, weight), weight));
                }
                Act::Use { index } => drop(at(index, &all).inspect(|generation| {
                let _ = generation.label.note_use();
            })),
                Act::Unlink { index } => {
                    if let Some(generation) = at(index, &all) {
                        prop_assert!(queues.unlink(&generation).is_some());
                        prop_assert!(queues.unlink(&generation).is_none());
                    }
                }
                Act::Pick { need } => {
                    let held = queues.load().bytes;
                    drop(queues.pick(need));
                    let freed = held - queues.load().bytes;
                    let is_right = if need <= held { freed >= need } else { freed == 0 };
                    prop_assert!(is_right, "{freed} of {held} for {need}");
                }
            }
            check(&queues);
            all.retain(|(generation, _)| generation.strong_count() > 0);
            let load = Load { count: all.len(), bytes: all.iter().map(|(_, weight)| weight).sum() };
            prop_assert_eq!(queues.load(), load);
        }
    }
}
