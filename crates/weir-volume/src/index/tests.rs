//! The index against a plain set, and what it costs.

use std::collections::BTreeSet;

use proptest::prelude::*;
use xxhash_rust::xxh3::xxh3_128;

use super::{Index, KeyHash, LOCATION_BITS, Location};

fn hash(number: u64) -> KeyHash {
    KeyHash::of(xxh3_128(&number.to_le_bytes()))
}

#[test]
fn an_object_costs_at_most_ten_bytes_at_a_million() {
    for (shard_bits, most) in [(12, 10.0), (16, 13.0)] {
        let index = Index::new(shard_bits);
        for number in 0..1_000_000 {
            assert!(index.insert(hash(number), Location::of(number * 31)));
        }
        assert_eq!(index.len(), 1_000_000);
        let each = index.memory_bytes() as f64 / 1e6;
        assert!(each <= most, "{each} bytes an object with {shard_bits} bits");
        for number in (0..1_000_000).step_by(1001) {
            assert!(index.find(hash(number)).contains(&Location::of(number * 31)));
        }
        // Half of the entries go, and their memory is given back.
        for shard in 0..index.shards() {
            index.retain(shard, |location| location.bits() % 62 == 0);
        }
        assert_eq!(index.len(), 500_000);
        assert!(index.memory_bytes() as f64 / 5e5 <= 2.0 * most);
    }
}

#[test]
fn few_strangers_share_a_tag() {
    let index = Index::new(12);
    for number in 0..200_000 {
        index.insert(hash(number), Location::of(number));
    }
    let strangers: usize = (200_000..400_000).map(|number| index.find(hash(number)).len()).sum();
    assert!(strangers < 20, "{strangers}");
}

#[derive(Debug, Clone)]
enum Act {
    Insert(u64, u64),
    Remove(u64, u64),
    Drop(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    // Few hashes and locations, so that they collide. Some share their tag and differ in bits that are not
    // kept.
    let hashes = prop_oneof![0u64..4, (0u64..4).prop_map(|n| n << 62), Just(u64::MAX)];
    let act = prop_oneof![
        5 => (hashes.clone(), 0u64..20).prop_map(|(hash, at)| Act::Insert(hash, at << 36)),
        3 => (hashes, 0u64..20).prop_map(|(hash, at)| Act::Remove(hash, at << 36)),
        1 => (0u64..20).prop_map(|at| Act::Drop(at << 36)),
    ];
    proptest::collection::vec(act, 0..200)
}

proptest! {
    #[test]
    fn the_first_entry_is_found_however_they_are_spread(
        tags in proptest::collection::vec(
            prop_oneof![any::<u64>(), 0u64..50, u64::MAX - 50..u64::MAX], 0..300,
        ),
        wanted in prop_oneof![any::<u64>(), 0u64..50, u64::MAX - 50..u64::MAX],
    ) {
        let mut entries = tags;
        entries.sort_unstable();
        entries.dedup();
        let tag = wanted >> LOCATION_BITS << LOCATION_BITS;
        let expected = entries.partition_point(|entry| *entry < tag);
        prop_assert_eq!(super::first_of(&entries, tag), expected);
        for entry in entries.iter().copied().chain([wanted]) {
            prop_assert_eq!(super::search(&entries, entry), entries.binary_search(&entry));
        }
    }

    #[test]
    fn it_is_a_set(acts in acts()) {
        let index = Index::new(2);
        let mask = (1 << LOCATION_BITS) - 1;
        // What the index keeps of a hash: two bits for the shard, 24 for the tag.
        let kept = |hash: u64| hash >> 38;
        let mut set = BTreeSet::new();
        for act in acts {
            match act {
                Act::Insert(hash, at) => {
                    let is_new = set.insert((kept(hash), at & mask));
                    prop_assert_eq!(index.insert(KeyHash(hash), Location::of(at)), is_new);
                }
                Act::Remove(hash, at) => {
                    let was = set.remove(&(kept(hash), at & mask));
                    prop_assert_eq!(index.remove(KeyHash(hash), Location::of(at)), was);
                }
                Act::Drop(at) => {
                    for shard in 0..index.shards() {
                        index.retain(shard, |location| location != Location::of(at));
                    }
                    set.retain(|(_, location)| *location != at & mask);
                }
            }
            prop_assert_eq!(index.len(), set.len() as u64);
        }
        for hash in [0, 1, 2, 3, 1 << 62, 2 << 62, 3 << 62, u64::MAX] {
            let found: Vec<u64> = index.find(KeyHash(hash)).into_iter().map(Location::bits).collect();
            let expected: Vec<u64> =
                set.iter().filter(|(own, _)| *own == kept(hash)).map(|(_, at)| *at).collect();
            prop_assert_eq!(found, expected);
        }
        // A copy that is filled from its entries is the same.
        let copy = Index::new(2);
        for shard in 0..4 {
            prop_assert!(copy.fill(shard, index.shard(shard)));
        }
        prop_assert_eq!(copy.len(), index.len());
    }
}
