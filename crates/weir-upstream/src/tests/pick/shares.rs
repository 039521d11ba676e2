//! Shares at a million picks are those of the weights, as far as chance allows.

use super::{Group, all_picks};
use crate::choice::pick::{Pick, PickWord, Picking, Whose};

const PICKS: u32 = 1_000_000;
/// Above it lies one in ten thousand of the values that chance gives with seven degrees of freedom.
const CHI_SQUARED_MAX: f64 = 29.9;
const WEIGHTS: [u32; 8] = [1, 1, 2, 3, 5, 8, 100, 7];

fn chi_squared(counts: &[u32], weights: &[u32]) -> f64 {
    let all: u32 = weights.iter().sum();
    let picks: u32 = counts.iter().sum();
    let of_one = |(count, weight): (&u32, &u32)| {
        let expected = f64::from(picks) * f64::from(*weight) / f64::from(all);
        (f64::from(*count) - expected).powi(2) / expected
    };
    counts.iter().zip(weights).map(of_one).sum()
}

fn counts(pick: &Pick, weights: &[u32]) -> Vec<u32> {
    let mut group = Group::new(weights);
    let mut counts = vec![0; weights.len()];
    for _ in 0..PICKS {
        counts[group.next(pick)] += 1;
    }
    counts
}

/// While all origins are idle, and each request is for another path.
#[test]
fn shares_are_the_weights() {
    for pick in all_picks() {
        // One always has the first, the other needs a client.
        if matches!(pick.word(), PickWord::First | PickWord::ClientAddress) {
            continue;
        }
        let counts = counts(&pick, &WEIGHTS);
        let found = chi_squared(&counts, &WEIGHTS);
        assert!(found < CHI_SQUARED_MAX, "{pick:?}: {found} {counts:?}");
    }
}

#[test]
fn the_test_would_see_a_wrong_weight() {
    let counts = counts(&Pick::Random, &[1, 1, 2, 3, 5, 8, 100, 8]);
    assert!(chi_squared(&counts, &WEIGHTS) > CHI_SQUARED_MAX);
}

#[test]
fn clients_are_spread_by_weight() {
    let mut group = Group::new(&WEIGHTS);
    let mut counts = vec![0; WEIGHTS.len()];
    for client in 0..100_000_u32 {
        let address = std::net::Ipv4Addr::from_bits(client << 8 | 7);
        let picking = Picking { whose: Whose::Client, client: Some(address.into()), ..Picking::default() };
        let picked =
            group.choose(&[Pick::ClientAddress], &super::of_path(&picking, "/"), &super::Tried::default());
        counts[picked.unwrap().at] += 1;
    }
    let found = chi_squared(&counts, &WEIGHTS);
    assert!(found < CHI_SQUARED_MAX, "{found} {counts:?}");
}

/// Requests that go on share what is under way by weight.
#[test]
fn requests_under_way_are_shared_by_weight() {
    for pick in [Pick::LeastRequests, Pick::Latency, Pick::ByBusyness] {
        let mut group = Group::new(&WEIGHTS);
        for load in &group.loads {
            load.set_room(usize::MAX);
            load.measure(1000, 0);
        }
        for _ in 0..127_000 {
            let at = group.next(&pick);
            group.loads[at].begin();
        }
        for (load, weight) in group.loads.iter().zip(WEIGHTS) {
            let due = 1000 * weight;
            assert!(load.requests().abs_diff(due) <= 2, "{pick:?}: {} not {due}", load.requests());
        }
    }
}

#[test]
fn traffic_is_shared_by_weight() {
    let mut group = Group::new(&WEIGHTS);
    for number in 0..127_000_u64 {
        let at = group.next(&Pick::ByTraffic);
        group.loads[at].add_bytes(1000 + 100 * (number % 7));
    }
    let all: u64 = group.loads.iter().map(|load| load.bytes()).sum();
    for (load, weight) in group.loads.iter().zip(WEIGHTS) {
        let due = all * u64::from(weight) / 127;
        assert!(load.bytes().abs_diff(due) <= 8 * 1600, "{} not {due}", load.bytes());
    }
}

/// A thousand requests are under way, each ends after a thousand others: no origin is left without any.
#[test]
fn no_origin_starves() {
    for pick in all_picks().into_iter().filter(|pick| pick.word() != PickWord::First) {
        let mut group = Group::new(&[1; 8]);
        // One is a hundred times slower.
        for (at, load) in group.loads.iter().enumerate() {
            load.measure(if at == 3 { 100_000 } else { 1000 }, 0);
        }
        let mut under_way = std::collections::VecDeque::new();
        let mut counts = [0; 8];
        for _ in 0..20_000 {
            let at = group.next(&pick);
            group.loads[at].begin();
            counts[at] += 1;
            under_way.push_back(at);
            if under_way.len() > 1000 {
                let ended = under_way.pop_front().unwrap();
                group.loads[ended].end();
            }
        }
        assert!(counts.iter().all(|count| *count >= 15), "{pick:?}: {counts:?}");
    }
}
