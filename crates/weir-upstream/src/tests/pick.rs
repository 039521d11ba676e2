//! Picks as pure functions: shares, ties, what is never picked, what a hash moves.

mod hash;
mod many;
mod narrowed;
mod shares;

use std::collections::HashSet;
use std::sync::LazyLock;

use http::HeaderMap;
use proptest::prelude::*;

use crate::choice::load::{Board, Load};
use crate::choice::pick::{
    Asked, Field, HashOf, Lane, Moment, Pick, Picked, Picking, Place, Sequence, Turns, mixed, seed,
};

/// All picks, for requests for this path.
fn all_picks() -> Vec<Pick> {
    let of_path = Pick::Hash { of: HashOf::Path, bound: 1.25 };
    let others = [
        Pick::RoundRobin,
        Pick::Random,
        Pick::LeastRequests,
        Pick::TwoChoices,
        Pick::Latency,
        Pick::ByRequests,
        Pick::ByTraffic,
        Pick::ByBusyness,
        Pick::ClientAddress,
        Pick::First,
    ];
    others.into_iter().chain([of_path]).collect()
}

static NO_FIELDS: LazyLock<HeaderMap> = LazyLock::new(HeaderMap::new);

/// A request of nobody for this path.
fn of_path<'r>(picking: &'r Picking, target: &'r str) -> Asked<'r> {
    Asked { picking, target: target.as_bytes(), headers: &NO_FIELDS }
}

/// Origins that were tried.
#[derive(Default)]
struct Tried(HashSet<usize>);

impl Field for Tried {
    fn is_open(&self, member: usize) -> bool {
        !self.0.contains(&member)
    }
}

/// A lane with the counters of its origins, and how many picks there were.
struct Group {
    lane: Lane,
    loads: Vec<Load>,
    turn: u64,
}

impl Group {
    /// Origins of these weights, with room for a thousand requests each.
    fn new(weights: &[u32]) -> Group {
        let named: Vec<(u64, u32)> =
            weights.iter().enumerate().map(|(at, weight)| (at as u64, *weight)).collect();
        Group::named(&named)
    }

    /// Origins of these names and weights.
    fn named(origins: &[(u64, u32)]) -> Group {
        let board = Board::default();
        let loads: Vec<Load> = origins.iter().map(|_| board.add(1000)).collect();
        let place = |(member, (name, weight)): (usize, &(u64, u32))| Place {
            member,
            weight: *weight,
            seed: seed(&format!("http://o{name}")),
            load: loads[member].clone(),
            gauges: Default::default(),
        };
        let lane = Lane::new(origins.iter().enumerate().map(place).collect());
        Group { lane, loads, turn: 0 }
    }

    fn choose(&mut self, picks: &[Pick], asked: &Asked<'_>, tried: &Tried) -> Option<Picked> {
        self.turn += 1;
        let moment = Moment::new(Turns::At(self.turn - 1), mixed(self.turn), 0);
        let picked = self.lane.pick(picks, tried, asked, &moment);
        picked.iter().for_each(|picked| self.lane.take(picks, picked.at));
        picked
    }

    fn next(&mut self, pick: &Pick) -> usize {
        let picking = Picking::default();
        let target = format!("/{}", self.turn);
        self.choose(std::slice::from_ref(pick), &of_path(&picking, &target), &Tried::default()).unwrap().at
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
    let mut none = Group::new(&[]);
    for pick in all_picks() {
        let picking = Picking::default();
        assert_eq!(none.choose(&[pick], &of_path(&picking, "/"), &Tried::default()), None);
    }
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
    fn turns_are_the_weights(weights in prop::collection::vec(1u32..50, 1..8), rounds in 1usize..4) {
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
        one in 0usize..11,
        other in 0usize..11,
        path in "/[a-z]{0,3}",
    ) {
        let set = |mask: u8| (0..8).filter(|at| mask >> at & 1 == 1).collect::<HashSet<usize>>();
        let (tried, full) = (Tried(set(tried)), set(full));
        let mut group = Group { turn: turn.min(u64::MAX - 1), ..Group::new(&weights) };
        full.iter().filter_map(|at| group.loads.get(*at)).for_each(|load| load.set_room(0));
        let picks = [all_picks()[one].clone(), all_picks()[other].clone()];
        let is_free = |at: &usize| tried.is_open(*at) && !full.contains(at);
        let picking = Picking::default();
        match group.choose(&picks, &of_path(&picking, &path), &tried) {
            None => prop_assert!((0..weights.len()).all(|at| !tried.is_open(at))),
            Some(picked) => {
                prop_assert!(tried.is_open(picked.at));
                prop_assert!(is_free(&picked.at) || !(0..weights.len()).any(|at| is_free(&at)));
            }
        }
    }
}
