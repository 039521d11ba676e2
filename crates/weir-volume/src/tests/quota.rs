//! Quotas: a site stays at or below its quota, its own oldest objects go first, and no other site's.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::power::act;
use super::world::{Crash, Random, World, owner_of, settings};
use crate::stock::Stock;
use crate::testing::CrashDisk;
use crate::testing::samples;
use crate::write::put::PutError;
use crate::write::storing::End;

const MIB: u64 = 1 << 20;

fn owner(key: u64) -> u64 {
    owner_of(&samples::key(key).full)
}

fn limit(world: &World, quotas: &[(u64, u64)]) {
    let quotas: HashMap<u64, u64> = quotas.iter().map(|(key, quota)| (owner(*key), *quota)).collect();
    world.shared.quotas.store(Arc::new(quotas));
}

#[test]
fn the_oldest_of_the_site_goes_first_and_no_other_sites() {
    let mut world = World::new(CrashDisk::new(1), settings(8 * MIB, MIB)).unwrap();
    // Keys 3, 6 and 9 belong to one site; 1, 4 and 7 to another.
    let keys = [0, 3, 6, 9, 1, 4, 7];
    let mut objects: Vec<(u64, u64)> = Vec::new();
    for round in 0..6 {
        objects.extend(keys.map(|key| (key, world.store(key, 60_000 + round))));
    }
    limit(&world, &[(3, 500_000)]);
    world.pass(Duration::ZERO);
    assert!(world.stock(3).bytes <= 500_000 && world.stock(3).bytes > 430_000, "{:?}", world.stock(3));
    assert_eq!(world.stock(1).objects, 18);
    let of_site: Vec<bool> = objects
        .iter()
        .filter(|(key, _)| owner(*key) == owner(3))
        .map(|(_, object)| world.find(*object).is_some())
        .collect();
    assert!(of_site.is_sorted(), "the oldest are gone: {of_site:?}");
    for round in 0..40 {
        world.store(9, 50_000 + round);
        world.pass(Duration::from_millis(1));
        assert!(world.stock(3).bytes <= 500_000);
    }
    assert_eq!(world.shared.usage().over_quota, 24 + 40 - world.stock(3).objects);
    world.assert_stocks();
    world.sync();
    let world = world.reopen(Crash::Power);
    assert!(world.stock(3).bytes <= 500_000 && world.stock(3).objects > 7);
}

#[test]
fn at_zero_nothing_stays_not_even_what_is_empty() {
    let mut world = World::new(CrashDisk::new(1), settings(8 * MIB, MIB)).unwrap();
    for key in 0..30 {
        world.store(key, key % 4 * 100);
    }
    limit(&world, &[(3, 0)]);
    world.pass(Duration::ZERO);
    assert_eq!((world.stock(3), world.stock(1).objects), (Stock::default(), 9));
    let late = world.store(6, 10);
    world.pass(Duration::ZERO);
    assert!(world.find(late).is_none());
    let part = world.begin(1, 9000, true);
    world.push(part, 0, 5000);
    world.end(part, End::Rest);
    limit(&world, &[(1, 0), (3, 0)]);
    assert_eq!(world.resume(part), Some(PutError::OverQuota));
    world.pass(Duration::ZERO);
    limit(&world, &[]);
    let again = world.store(6, 10);
    world.pass(Duration::ZERO);
    assert!(world.find(again).is_some());
}

#[test]
fn an_arriving_object_is_left_alone_until_it_has_ended() {
    let mut world = World::new(CrashDisk::new(1), settings(8 * MIB, MIB)).unwrap();
    limit(&world, &[(3, 300_000)]);
    let old = world.store(3, 100_000);
    let slow = world.begin(6, 900_000, false);
    world.push(slow, 0, 600_000);
    world.pass(Duration::from_secs(1));
    assert!(world.find(old).is_none() && world.find(slow).is_some());
    world.push(slow, 600_000, 300_000);
    world.end(slow, End::Whole(900_000));
    world.pass(Duration::from_secs(1));
    assert!(world.find(slow).is_none(), "it is more than all that is allowed");
    assert_eq!(world.stock(3), Stock::default());
}

#[test]
fn random_lives_under_quotas() {
    for seed in 0..30 {
        let mut random = Random(seed);
        let mut world = World::new(CrashDisk::new(seed), settings(2 * MIB, 128 << 10)).unwrap();
        let mut open = Vec::new();
        for step in 0..200 {
            act(&mut world, &mut random, &mut open);
            if step % 50 == 10 {
                limit(&world, &[(0, random.below(400_000)), (1, random.below(300_000) + 1)]);
            }
            if step % 20 == 0 {
                world.assert_true();
                world.assert_stocks();
            }
        }
        for (object, _) in open {
            world.end(object, End::Rest);
        }
        world.pass(Duration::from_secs(5));
        let quotas = world.shared.quotas.load_full();
        for (owner, quota) in quotas.iter() {
            let held = world.shared.stocks.of(*owner).bytes;
            assert!(held <= *quota, "seed {seed}: {held} of {quota}");
        }
        world.assert_stocks();
        world.sync();
        world.reopen(Crash::Power).assert_stocks();
    }
}
