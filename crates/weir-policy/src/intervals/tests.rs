//! `Intervals` against a bitmap, and by hand.

use super::{Interval, Intervals};
use proptest::prelude::*;

fn set(parts: &[(u64, u64)]) -> Intervals {
    let mut set = Intervals::new();
    for (start, end) in parts {
        set.insert(Interval::new(*start, *end));
    }
    set
}

fn pairs(intervals: impl Iterator<Item = Interval>) -> Vec<(u64, u64)> {
    intervals.map(|part| (part.start, part.end)).collect()
}

#[test]
fn joins_what_touches() {
    for (given, expect) in [
        (vec![(0, 5), (5, 9)], vec![(0, 9)]),
        (vec![(5, 9), (0, 5)], vec![(0, 9)]),
        (vec![(0, 2), (4, 6), (8, 9), (1, 8)], vec![(0, 9)]),
        (vec![(0, 2), (3, 4)], vec![(0, 2), (3, 4)]),
        (vec![(3, 3)], vec![]),
        (vec![(2, 8), (3, 4)], vec![(2, 8)]),
    ] {
        assert_eq!(pairs(set(&given).iter()), expect, "{given:?}");
    }
}

#[test]
fn finds_gaps() {
    let held = set(&[(2, 4), (6, 8)]);
    for (wanted, expect) in [
        ((0, 10), vec![(0, 2), (4, 6), (8, 10)]),
        ((2, 4), vec![]),
        ((3, 7), vec![(4, 6)]),
        ((4, 6), vec![(4, 6)]),
        ((8, 8), vec![]),
        ((20, 30), vec![(20, 30)]),
    ] {
        assert_eq!(pairs(held.gaps(Interval::new(wanted.0, wanted.1))), expect, "{wanted:?}");
    }
}

#[test]
#[should_panic(expected = "backwards")]
fn refuses_to_run_backwards() {
    let _ = Interval::new(2, 1);
}

const SIZE: u64 = 64;

proptest! {
    #[test]
    fn agrees_with_a_bitmap(
        steps in proptest::collection::vec((any::<bool>(), 0..SIZE, 0..SIZE), 0..40),
        wanted in (0..SIZE, 0..SIZE),
    ) {
        let mut held = Intervals::new();
        let mut bitmap = [false; SIZE as usize];
        for (is_added, a, b) in steps {
            let interval = Interval::new(a.min(b), a.max(b));
            if is_added { held.insert(interval) } else { held.remove(interval) }
            bitmap[interval.start as usize..interval.end as usize].fill(is_added);
        }
        let mut parts: Vec<Interval> = Vec::new();
        for (at, is_held) in bitmap.iter().enumerate().filter(|(_, is_held)| **is_held) {
            prop_assert!(is_held);
            match parts.last_mut() {
                Some(last) if last.end == at as u64 => last.end += 1,
                _ => parts.push(Interval::new(at as u64, at as u64 + 1)),
            }
        }
        prop_assert_eq!(held.iter().collect::<Vec<_>>(), parts);
        let wanted = Interval::new(wanted.0.min(wanted.1), wanted.0.max(wanted.1));
        let within = &bitmap[wanted.start as usize..wanted.end as usize];
        prop_assert_eq!(held.contains(wanted), within.iter().all(|held| *held));
        let mut holes = Intervals::new();
        for gap in held.gaps(wanted) {
            prop_assert!(!gap.is_empty() && wanted.contains(gap));
            prop_assert!(bitmap[gap.start as usize..gap.end as usize].iter().all(|held| !held));
            prop_assert!(holes.iter().last().is_none_or(|last| last.end < gap.start), "in order and apart");
            holes.insert(gap);
        }
        prop_assert_eq!(holes.length(), within.iter().filter(|held| !**held).count() as u64);
        prop_assert_eq!(holes.count(), held.gaps(wanted).count());
        for at in 0..SIZE {
            let run = bitmap[at as usize..].iter().take_while(|held| **held).count() as u64;
            prop_assert_eq!(held.run_at(at), run);
        }
        prop_assert_eq!(held.length(), bitmap.iter().filter(|held| **held).count() as u64);
        prop_assert_eq!(held.is_empty(), bitmap.iter().all(|held| !held));
    }
}
