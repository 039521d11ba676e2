//! Who wins a key, and how evenly.

use proptest::prelude::*;

use super::Bidder;

/// The digests of so many keys.
fn digests(count: u32) -> impl Iterator<Item = u128> {
    (0..count).map(|number| xxhash_rust::xxh3::xxh3_128(&number.to_le_bytes()))
}

/// Which of the volumes, by identity and weight, has a key.
fn winner(volumes: &[(u128, u64)], digest: u128) -> u128 {
    let bid = |(id, weight): &(u128, u64)| (Bidder::new(*id, *weight).score(digest), *id);
    volumes.iter().map(bid).max_by(|one, other| one.0.total_cmp(&other.0)).unwrap().1
}

#[test]
fn shares_are_the_weights() {
    let volumes = [(1, 100), (2, 200), (3, 300), (4, 50)];
    let total: u64 = volumes.iter().map(|(_, weight)| weight).sum();
    let mut counts = std::collections::HashMap::new();
    const KEYS: u32 = 200_000;
    for digest in digests(KEYS) {
        *counts.entry(winner(&volumes, digest)).or_insert(0u32) += 1;
    }
    for (id, weight) in volumes {
        let wanted = f64::from(KEYS) * weight as f64 / total as f64;
        let off = (f64::from(counts[&id]) - wanted).abs() / wanted;
        assert!(off < 0.05, "volume {id} has {} of {wanted}", counts[&id]);
    }
}

#[test]
fn nobody_wins_without_weight() {
    assert!(digests(10_000).all(|digest| winner(&[(1, 0), (2, 1)], digest) == 2));
}

proptest! {
    /// A volume that is added takes keys for itself alone, one that is removed gives away its own alone.
    #[test]
    fn what_comes_or_goes_moves_its_own_share_only(
        weights in prop::collection::vec(1u64..1000, 1..8), added in 1u64..1000, seed: u64,
    ) {
        let before: Vec<(u128, u64)> =
            weights.iter().enumerate().map(|(at, weight)| (u128::from(seed) + at as u128, *weight)).collect();
        let new = u128::from(seed) + 1000;
        let mut after = before.clone();
        after.push((new, added));
        for digest in digests(500) {
            let (was, is) = (winner(&before, digest), winner(&after, digest));
            prop_assert!(is == was || is == new);
        }
    }

    /// A volume that grows takes from others, and gives nothing away.
    #[test]
    fn what_grows_only_takes(weights in prop::collection::vec(1u64..1000, 2..8), more in 1u64..1000) {
        let before: Vec<(u128, u64)> =
            weights.iter().enumerate().map(|(at, weight)| (at as u128, *weight)).collect();
        let mut after = before.clone();
        after[0].1 += more;
        for digest in digests(500) {
            let (was, is) = (winner(&before, digest), winner(&after, digest));
            prop_assert!(is == was || is == 0);
        }
    }
}
