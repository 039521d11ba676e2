//! The counts of each owner match the records after every kind of change.

use std::time::Duration;

use super::power::act;
use super::world::{Crash, Random, World, owner_of, settings};
use crate::read::reader::Wait;
use crate::settings::EXTENT_DELAY;
use crate::stock::Stock;
use crate::testing::CrashDisk;
use crate::testing::samples;
use crate::write::storing::End;

const MIB: u64 = 1 << 20;

fn world() -> World {
    World::new(CrashDisk::new(1), settings(8 * MIB, MIB)).unwrap()
}

fn stock(objects: u64, bytes: u64) -> Stock {
    Stock { objects, bytes }
}

/// The number of sites that a recount finds wrong.
fn recount(world: &mut World) -> u64 {
    let (done, wait) = crossbeam_channel::bounded(1);
    world.engine.recount_for(done);
    world.pass(Duration::ZERO);
    wait.try_recv().expect("the recount has ended")
}

#[test]
fn every_change_of_an_object_is_counted() {
    let mut world = world();
    // Keys 1, 4 and 7 belong to one site.
    let small = world.store(1, 3000);
    assert_eq!(world.stock(1), stock(1, 3000));
    world.store(2, 5);
    world.store(1, 0);
    assert_eq!((world.stock(1), world.stock(2)), (stock(2, 3000), stock(1, 5)));
    let slow = world.begin(4, 700_000, true);
    world.push(slow, 0, 100_000);
    world.pass(EXTENT_DELAY);
    assert_eq!(world.stock(1), stock(3, 68_536), "what is found of it counts");
    world.push(slow, 100_000, 400_000);
    world.end(slow, End::Rest);
    assert_eq!(world.stock(1), stock(3, 503_000));
    world.refresh(small);
    world.refresh(slow);
    assert_eq!(world.stock(1), stock(3, 503_000));
    assert_eq!(world.resume(slow), None);
    world.push(slow, 400_000, 300_000);
    world.end(slow, End::Whole(700_000));
    assert_eq!(world.stock(1), stock(3, 703_000));
    let dropped = world.begin(7, 900_000, true);
    world.push(dropped, 0, 600_000);
    world.pass(EXTENT_DELAY);
    assert_eq!(world.stock(1).objects, 4);
    assert!(world.stock(1).bytes > 1_200_000);
    world.end(dropped, End::Abandon);
    assert_eq!(world.stock(1), stock(3, 703_000));
    world.remove(slow);
    world.remove(slow);
    assert_eq!((world.stock(1), world.stock(2)), (stock(2, 3000), stock(1, 5)));
    world.assert_stocks();
    assert_eq!(recount(&mut world), 0);
    world.sync();
    let world = world.reopen(Crash::Power);
    assert_eq!((world.stock(1), world.stock(2)), (stock(2, 3000), stock(1, 5)));
}

#[test]
fn a_segment_takes_with_it_what_lies_in_it_and_no_more() {
    let mut world = world();
    let long = world.begin(1, 3 * MIB, true);
    for part in 0..12 {
        world.push(long, part * MIB / 4, MIB / 4);
        world.store(2, 1000);
    }
    world.end(long, End::Whole(3 * MIB));
    assert_eq!(world.stock(1), stock(1, 3 * MIB));
    let mut before = world.stock(1).bytes;
    let mut drops = 0;
    // The last segment has the object's head.
    while world.stock(1).objects == 1 {
        assert!(world.engine.drop_oldest_for_tests());
        world.assert_stocks();
        assert!(world.stock(1).bytes < before);
        before = world.stock(1).bytes;
        drops += 1;
        if world.shared.segments.len() == 1 {
            break;
        }
    }
    assert!(drops > 2, "{drops}");
}

#[test]
fn every_change_is_counted_in_the_middle_of_a_drop() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let mut world = World::new(CrashDisk::new(seed), settings(2 * MIB, 128 << 10)).unwrap();
        let mut open = Vec::new();
        for _ in 0..150 {
            act(&mut world, &mut random, &mut open);
            world.nudge(Duration::from_millis(1));
            world.assert_stocks();
            if random.below(6) == 0 {
                world.sync();
            }
        }
        world.sync();
        world.reopen(if seed % 2 == 0 { Crash::Power } else { Crash::Kill }).assert_stocks();
    }
}

#[test]
fn a_damaged_record_is_not_held() {
    for at in 0..60u64 {
        let mut world = world();
        let objects = [world.store(1, 3000), world.store(2, 200_000), world.store(3, 70_000)];
        world.refresh(objects[0]);
        world.sync();
        let path = world.disk.paths().into_iter().find(|path| path.ends_with(".seg")).unwrap();
        let end = world.disk.content(&path).unwrap().len() as u64;
        world.disk.flip(&path, 64 + at * (end - 64) / 60, 1);
        let before: u64 = (1..4).map(|key| world.stock(key).objects).sum();
        let report = world.verify();
        world.assert_stocks();
        let after: u64 = (1..4).map(|key| world.stock(key).objects).sum();
        assert_eq!((before, after), (3, 3 - report.damaged), "at {at}");
        assert_eq!(recount(&mut world), 0, "at {at}");
        world.sync();
        world.reopen(Crash::Power).assert_stocks();
    }
}

#[test]
fn a_recount_reports_and_corrects_what_is_wrong() {
    let mut world = world();
    for key in 0..60 {
        world.store(key, key * 100);
    }
    assert_eq!(recount(&mut world), 0);
    world.shared.stocks.corrupt_for_tests(owner_of(&samples::key(1).full));
    world.shared.stocks.corrupt_for_tests(99);
    assert_eq!(recount(&mut world), 2);
    world.assert_stocks();
    assert_eq!(recount(&mut world), 0);
}

#[test]
fn a_recount_goes_on_while_all_changes() {
    for seed in 0..30 {
        let mut random = Random(seed);
        let mut world = World::new(CrashDisk::new(seed), settings(2 * MIB, 128 << 10)).unwrap();
        let mut open = Vec::new();
        for _ in 0..40 {
            act(&mut world, &mut random, &mut open);
        }
        for _ in 0..10 {
            world.ask_for_recount();
            for _ in 0..10 {
                act(&mut world, &mut random, &mut open);
                world.nudge(Duration::from_millis(1));
            }
            world.pass(Duration::ZERO);
        }
        world.assert_stocks();
    }
}

#[test]
fn an_index_of_an_older_format_is_made_again_from_the_segments() {
    let mut world = world();
    for key in 0..40 {
        world.store(key, key * 2000);
    }
    world.pass(Duration::from_secs(5));
    world.sync();
    let before: Vec<Stock> = (0..3).map(|key| world.stock(key)).collect();
    let object = *world.objects.keys().next().unwrap();
    for path in world.disk.paths().into_iter().filter(|path| path.starts_with("index/")) {
        // The version of a journal, and of a checkpoint.
        let at = if path.contains("journal") { 8 } else { 16 };
        world.disk.flip(&path, at, 1);
    }
    let world = world.reopen(Crash::Kill);
    assert!(world.recovered.was_rebuilt);
    assert_eq!((0..3).map(|key| world.stock(key)).collect::<Vec<_>>(), before);
    let key = world.key_of(object);
    let candidate = world.shared.candidates(key.digest)[0];
    assert!(world.shared.record(candidate, &key.full, Wait::Device).unwrap().is_some());
}

#[test]
fn a_missing_segment_leaves_the_books() {
    let mut world = world();
    let long = world.begin(1, 2 * MIB, true);
    for part in 0..8 {
        world.push(long, part * MIB / 4, MIB / 4);
        world.store(2, 100_000);
    }
    world.end(long, End::Whole(2 * MIB));
    // With a checkpoint; without one the index would be made again.
    world.pass(Duration::from_secs(5));
    world.refresh(long);
    world.sync();
    // The newest segment has the head of an object whose bytes lie in older ones.
    let newest = *world.shared.segments.numbers().last().unwrap();
    let path = crate::index::segment::path(newest);
    assert!(world.disk.paths().iter().any(|path| path.contains("checkpoint")));
    let (disk, settings) = (world.disk.clone(), world.settings.clone());
    let objects = world.objects.clone();
    drop(world);
    weir_disk::Disk::unlink(&disk, &path).unwrap();
    let mut world = World::new(disk, settings).unwrap();
    world.objects = objects;
    assert_eq!(world.stock(1), stock(0, 0));
    assert!(world.stock(2).objects > 0);
    world.assert_stocks();
}
