//! The turns of a lane: over any whole round each origin has exactly its weight, and never strays far in
//! between.

use std::collections::HashSet;

use proptest::prelude::*;

use crate::pick::{Field, Lane, Pick, Sequence};

/// Origins of which these are left out, or have no room.
struct Of {
    tried: HashSet<usize>,
    full: HashSet<usize>,
}

impl Field for Of {
    fn is_open(&self, member: usize) -> bool {
        !self.tried.contains(&member)
    }

    fn has_room(&self, member: usize) -> bool {
        !self.full.contains(&member)
    }
}

#[test]
fn picks_are_spread() {
    let sequence = Sequence::new(&[5, 1, 1]);
    let picks: Vec<_> = (0..7).map(|turn| sequence.at(turn)).collect();
    assert_eq!(picks, [0, 0, 1, 0, 2, 0, 0]);
}

#[test]
fn nobody_takes_a_share() {
    let none = Of { tried: HashSet::new(), full: HashSet::new() };
    assert_eq!(Lane::new(Vec::new(), &[]).pick(&[Pick::RoundRobin], &none, 7), None);
}

#[test]
fn a_long_round_is_spread_too() {
    let weights: Vec<u32> = (1..=1000).collect();
    let sequence = Sequence::new(&weights);
    assert!(matches!(sequence, Sequence::Spread(_)));
    let sum: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    let mut picks = vec![0u64; weights.len()];
    for turn in 0..sum {
        picks[sequence.at(turn)] += 1;
    }
    for (picked, weight) in picks.iter().zip(&weights) {
        // At random they would stray by thirty and more.
        assert!(picked.abs_diff(u64::from(*weight)) <= 8, "{picked} turns of weight {weight}");
    }
}

proptest! {
    #[test]
    fn shares_are_the_weights(weights in prop::collection::vec(1u32..50, 1..8), rounds in 1usize..4) {
        let sum: u32 = weights.iter().sum();
        let sequence = Sequence::new(&weights);
        let mut picks = vec![0u32; weights.len()];
        for turn in 1..=(sum as usize * rounds) {
            picks[sequence.at(turn as u64 - 1)] += 1;
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
    fn only_the_open_are_picked_and_those_with_room_first(
        weights in prop::collection::vec(1u32..50, 1..8),
        tried in any::<u8>(),
        full in any::<u8>(),
        turn in any::<u64>(),
    ) {
        let set = |mask: u8| (0..8).filter(|at| mask >> at & 1 == 1).collect::<HashSet<usize>>();
        let of = Of { tried: set(tried), full: set(full) };
        let all: Vec<usize> = (0..weights.len()).collect();
        match Lane::new(all.clone(), &weights).pick(&[Pick::RoundRobin], &of, turn) {
            None => prop_assert!(all.iter().all(|at| of.tried.contains(at))),
            Some(at) => {
                prop_assert!(!of.tried.contains(&at));
                let is_free = |at: &usize| of.is_open(*at) && of.has_room(*at);
                prop_assert!(is_free(&at) || !all.iter().any(is_free));
            }
        }
    }
}
