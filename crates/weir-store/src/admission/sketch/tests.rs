//! A sketch is never too low between agings, rarely too high, and it forgets.

use std::collections::HashMap;

use proptest::prelude::*;
use xxhash_rust::xxh3::xxh3_128;

use super::{Extent, FREQUENCY_MAX, Sketch};

fn digest(number: u64) -> u128 {
    xxh3_128(&number.to_le_bytes())
}

fn sketch(objects: u64) -> Sketch {
    Sketch::new(Extent::of(objects, u64::MAX))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_estimate_is_never_too_low_between_agings(notes in prop::collection::vec(0u64..300, 0..2000)) {
        let sketch = sketch(1024);
        let mut truth = HashMap::new();
        for number in notes {
            sketch.note(digest(number));
            *truth.entry(number).or_insert(0u32) += 1;
        }
        for (number, count) in truth {
            prop_assert!(sketch.frequency(digest(number)) >= count.min(FREQUENCY_MAX));
        }
    }

    #[test]
    fn what_was_noted_in_the_last_period_is_known(
        before in prop::collection::vec(0u64..1000, 0..500),
        after in prop::collection::vec(0u64..1000, 0..500),
    ) {
        let sketch = sketch(1024);
        before.iter().for_each(|number| sketch.note(digest(*number)));
        sketch.grow_old();
        after.iter().for_each(|number| sketch.note(digest(*number)));
        for number in &before {
            prop_assert!(sketch.frequency(digest(*number)) >= 1);
            if after.contains(number) {
                prop_assert!(sketch.frequency(digest(*number)) >= 2, "asked for before, and again");
            }
        }
    }
}

#[test]
fn few_are_taken_for_others_at_the_end_of_a_period() {
    const OBJECTS: u64 = 10_000;
    let sketch = sketch(OBJECTS);
    let period = sketch.extent().period;
    // Half of the notes are of keys that are asked for once, the other half four times each.
    for number in 0..period / 2 {
        sketch.note(digest(number));
        sketch.note(digest((1 << 40) + number % (period / 8)));
    }
    assert!(sketch.is_due());
    let strangers = (1 << 50..).take(10_000).filter(|number| sketch.frequency(digest(*number)) > 0).count();
    assert!(strangers < 300, "{strangers} of 10,000 never asked for are known");
    let above = (0..10_000).filter(|number| sketch.frequency(digest(*number)) > 1).count();
    assert!(above < 500, "{above} of 10,000 asked for once are taken for more");
    let exact = (0..period / 8).filter(|number| sketch.frequency(digest((1 << 40) + number)) == 4).count();
    assert!(exact as u64 > period / 8 * 95 / 100, "{exact} of {} are exact", period / 8);
}

#[test]
fn aging_halves_and_forgets() {
    let sketch = sketch(1024);
    (0..9).for_each(|_| sketch.note(digest(1)));
    sketch.note(digest(2));
    assert_eq!((sketch.frequency(digest(1)), sketch.frequency(digest(2))), (9, 1));
    sketch.grow_old();
    assert_eq!((sketch.frequency(digest(1)), sketch.frequency(digest(2))), (5, 1));
    sketch.grow_old();
    assert_eq!((sketch.frequency(digest(1)), sketch.frequency(digest(2))), (0, 0), "unasked for two periods");
    // What is counted shows as soon as it is asked for again.
    sketch.note(digest(1));
    assert_eq!(sketch.frequency(digest(1)), 3);
}

#[test]
fn a_count_ends_at_the_most() {
    let sketch = sketch(1024);
    (0..100).for_each(|_| sketch.note(digest(1)));
    assert_eq!(sketch.frequency(digest(1)), FREQUENCY_MAX);
    assert!(sketch.frequency(digest(2)) == 0);
}

#[test]
fn memory_is_bounded() {
    for objects in [0, 1000, 65_536, 1 << 24] {
        for bytes_max in [64 << 10, 1 << 20, 1 << 30] {
            let extent = Extent::of(objects, bytes_max);
            assert!(extent.memory_bytes() <= bytes_max, "{objects} objects in {bytes_max}");
        }
    }
    assert!(Extent::of(65_536, 1 << 30).period >= 2 * 65_536);
}

#[test]
fn all_threads_count() {
    let sketch = sketch(1024);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..5).for_each(|_| sketch.note(digest(7))));
        }
    });
    // Two threads that open a door at once may both take it for the first time.
    assert!((13..=15).contains(&sketch.frequency(digest(7))));
}
