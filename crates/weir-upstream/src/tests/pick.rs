//! The wheel: over any whole round each origin has exactly its weight, and never strays far in between.

use proptest::prelude::*;

use crate::pick::Wheel;

#[test]
fn picks_are_spread() {
    let mut wheel = Wheel::new(3);
    let weights = [5, 1, 1];
    let picks: Vec<_> = (0..7).map(|_| wheel.turn(|index| weights[index], |_| true).unwrap()).collect();
    assert_eq!(picks, [0, 0, 1, 0, 2, 0, 0]);
}

#[test]
fn nobody_eligible() {
    assert_eq!(Wheel::new(3).turn(|_| 1, |_| false), None);
}

proptest! {
    #[test]
    fn shares_are_the_weights(weights in prop::collection::vec(1u32..50, 1..8), rounds in 1usize..4) {
        let sum: u32 = weights.iter().sum();
        let mut wheel = Wheel::new(weights.len());
        let mut picks = vec![0u32; weights.len()];
        for turn in 1..=(sum as usize * rounds) {
            picks[wheel.turn(|index| weights[index], |_| true).unwrap()] += 1;
            for (index, picked) in picks.iter().enumerate() {
                let due = turn as f64 * f64::from(weights[index]) / f64::from(sum);
                prop_assert!((f64::from(*picked) - due).abs() <= weights.len() as f64);
            }
        }
        for (picked, weight) in picks.iter().zip(&weights) {
            prop_assert_eq!(*picked, weight * rounds as u32);
        }
    }

    #[test]
    fn only_the_eligible_are_picked(
        weights in prop::collection::vec(1u32..50, 1..8),
        masks in prop::collection::vec(any::<u8>(), 1..200),
    ) {
        let mut wheel = Wheel::new(weights.len());
        for mask in masks {
            let eligible = |index: usize| mask >> index & 1 == 1;
            match wheel.turn(|index| weights[index], eligible) {
                Some(index) => prop_assert!(eligible(index)),
                None => prop_assert!((0..weights.len()).all(|index| !eligible(index))),
            }
        }
    }
}
