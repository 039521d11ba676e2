//! Very many origins: what is left out to save work changes no share.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::Group;
use crate::choice::pick::{Pick, Ranks, mixed};

const ORIGINS: usize = 1000;

/// The best of all lots, each with its logarithm.
fn best_of_all(point: u64, weights: &[u32], seeds: &[u64]) -> Option<usize> {
    let factor = mixed(point) | 1;
    let cost = |at: usize| {
        let lot = (point ^ seeds[at]).wrapping_mul(factor) as f64;
        -(1.0 - (lot + 0.5) / 2_f64.powi(64)).ln() / f64::from(weights[at])
    };
    (0..weights.len()).min_by(|one, other| cost(*one).total_cmp(&cost(*other)))
}

proptest! {
    #[test]
    fn a_hash_falls_to_the_best_of_all_lots(
        weights in prop_oneof![
            prop::collection::vec(1u32..=1000, 1..40),
            prop::collection::vec(7u32..=7, 1..40),
            prop::collection::vec(prop_oneof![Just(1u32), Just(2), Just(1000)], 1..40),
        ],
        name in any::<u64>(),
        point in any::<u64>(),
        shut in any::<u64>(),
    ) {
        let seeds: Vec<u64> = (0..weights.len() as u64).map(|at| mixed(name ^ at)).collect();
        let ranks = Ranks::new(&weights, &seeds);
        prop_assert_eq!(ranks.best(point, |_| true), best_of_all(point, &weights, &seeds));
        let open: Vec<usize> = (0..weights.len()).filter(|at| shut >> (at % 64) & 1 == 0).collect();
        let weights: Vec<u32> = open.iter().map(|at| weights[*at]).collect();
        let seeds: Vec<u64> = open.iter().map(|at| seeds[*at]).collect();
        let expect = best_of_all(point, &weights, &seeds).map(|at| open[at]);
        prop_assert_eq!(ranks.best(point, |at| open.contains(&at)), expect);
    }
}

/// How many requests each origin gets while so many are under way, in order.
fn counts(pick: &Pick, weights: &[u32], under_way: usize) -> Vec<u32> {
    let mut group = Group::new(weights);
    let mut running = VecDeque::new();
    let mut counts = vec![0; weights.len()];
    for _ in 0..50 * ORIGINS {
        let at = group.next(pick);
        let load = &group.loads[at];
        load.begin();
        load.measure(1000, 0);
        load.add_bytes(1000);
        counts[at] += 1;
        running.push_back(at);
        if running.len() > under_way {
            running.pop_front().into_iter().for_each(|ended| group.loads[ended].end());
        }
    }
    counts
}

#[test]
fn picks_that_compare_share_among_a_thousand() {
    let compare = [Pick::LeastRequests, Pick::Latency, Pick::ByRequests, Pick::ByTraffic, Pick::ByBusyness];
    for pick in compare {
        for under_way in [50, 1500] {
            let counts = counts(&pick, &[1; ORIGINS], under_way);
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(*least >= 25 && *most <= 80, "{pick:?} {under_way}: {least} to {most}");
        }
    }
}

#[test]
fn weights_count_among_a_thousand() {
    // The heavy ones stand together, which is the worst for looking at a row of them.
    let weights: Vec<u32> = (0..ORIGINS).map(|at| if at < ORIGINS / 2 { 1 } else { 3 }).collect();
    for pick in [Pick::LeastRequests, Pick::ByRequests, Pick::ByTraffic, Pick::ByBusyness] {
        let counts = counts(&pick, &weights, 3000);
        let of_heavy: u32 = counts[ORIGINS / 2..].iter().sum();
        let share = f64::from(of_heavy) / f64::from(counts.iter().sum::<u32>());
        assert!((share - 0.75).abs() < 0.03, "{pick:?}: {share}");
        assert!(counts.iter().all(|count| *count > 0), "{pick:?}");
    }
}
