//! Wanted objects are written again before their segment is dropped: which, how many, and through crashes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::power::act;
use super::world::{Crash, Random, World, head, settings};
use crate::settings::EXTENT_DELAY;
use crate::testing::{CrashDisk, Fault};
use crate::write::reinsert::allowance_bytes;
use crate::write::storing::End;

const KIB: u64 = 1 << 10;
const SEGMENT: u64 = 128 * KIB;

fn world() -> World {
    World::new(CrashDisk::new(1), settings(2048 * KIB, SEGMENT)).unwrap()
}

/// Stores objects of other keys until a segment is dropped.
fn turn_over(world: &mut World, number: u64, from: u64) {
    for key in from.. {
        world.store(key, 9000);
        world.pass(Duration::from_millis(10));
        if !world.shared.segments.has(number) {
            return;
        }
    }
}

#[test]
fn used_objects_stay_and_unused_ones_go() {
    let mut world = world();
    let objects: Vec<u64> = (0..10).map(|key| world.store(key, 10_000)).collect();
    let long = world.begin(11, 12_000, true);
    world.push(long, 0, 9_000);
    world.end(long, End::Rest);
    let first = world.find(objects[0]).unwrap().segment();
    assert_eq!(world.find(long).unwrap().segment(), first);
    world.note_uses(objects[3], 2);
    world.note_uses(long, 1);
    turn_over(&mut world, first, 100);
    for object in &objects {
        assert_eq!(world.find(*object).is_some(), *object == objects[3], "object {object}");
    }
    let record = world.find(objects[3]).unwrap();
    assert_eq!((record.head.clone(), world.read_all(&record)), (head(objects[3], 0), 10_000));
    let part = world.find(long).unwrap();
    assert_eq!((part.length, world.read_all(&part)), (Some(12_000), 9_000));
    let usage = world.shared.usage();
    assert_eq!((usage.reinserted, usage.reinserted_bytes > 19_000), (2, true));
    world.assert_stocks();
    world.sync();
    let world = world.reopen(Crash::Power);
    assert_eq!(world.read_all(&world.find(objects[3]).unwrap()), 10_000);
}

#[test]
fn it_must_be_used_again_to_stay_for_good() {
    let mut world = world();
    let object = world.store(1, 10_000);
    world.note_uses(object, 2);
    let first = world.find(object).unwrap().segment();
    turn_over(&mut world, first, 100);
    let second = world.find(object).unwrap().segment();
    turn_over(&mut world, second, 1000);
    let third = world.find(object).expect("half of its uses are left").segment();
    turn_over(&mut world, third, 2000);
    assert!(world.find(object).is_none());
}

#[test]
fn at_most_a_quarter_of_a_segment_is_written_for_each_dropped() {
    let mut world = world();
    for key in 0..2000 {
        let object = world.store(key, 4000 + key % 3000);
        world.note_uses(object, 1 + key % 5);
        world.pass(Duration::from_millis(10));
        world.assert_ceiling();
    }
    let usage = world.shared.usage();
    let most = usage.segments_dropped * allowance_bytes(SEGMENT);
    assert!(usage.segments_dropped > 20 && usage.reinserted > 20, "{usage:?}");
    assert!(usage.reinserted_bytes <= most, "{} of {most}", usage.reinserted_bytes);
    world.assert_stocks();
}

#[test]
fn only_one_run_of_a_body_is_in_memory_during_reinsertion() {
    const RUN: u64 = 64 * KIB;
    let segment = 1024 * KIB;
    let mut world = World::new(CrashDisk::new(1), settings(8 * segment, segment)).unwrap();
    let object = world.begin(1, 3 * RUN, true);
    for run in 0..3 {
        world.push(object, run * RUN, RUN);
        world.pass(2 * EXTENT_DELAY);
    }
    world.end(object, End::Whole(3 * RUN));
    world.note_uses(object, 3);
    let record = world.find(object).unwrap();
    assert_eq!(record.extents.len(), 3);
    assert!(world.disk.most_read_bytes() < RUN);
    turn_over(&mut world, record.segment(), 100);
    let most = world.disk.most_read_bytes();
    assert_eq!(world.read_all(&world.find(object).unwrap()), 3 * RUN);
    assert!((RUN..2 * RUN).contains(&most), "{most} bytes were read at a time");
}

#[test]
fn without_a_budget_nothing_is_written_again() {
    // A put asks the budget before it stores; these tests store without asking.
    for (budget_bytes, is_kept) in [(1 << 20, false), (1 << 30, true)] {
        let mut settings = settings(2048 * KIB, SEGMENT);
        settings.write_budget_bytes = Some(budget_bytes);
        let mut world = World::new(CrashDisk::new(1), settings).unwrap();
        let object = world.store(1, 10_000);
        world.note_uses(object, 3);
        let first = world.find(object).unwrap().segment();
        turn_over(&mut world, first, 100);
        assert_eq!(world.find(object).is_some(), is_kept);
        assert_eq!(world.shared.usage().reinserted, u64::from(is_kept));
    }
}

#[test]
fn an_object_that_a_sweep_may_look_for_is_not_moved() {
    let mut world = world();
    let (old, new) = (world.store(1, 5000), world.store(2, 5000));
    world.note_uses(old, 3);
    world.note_uses(new, 3);
    // The stamps in these tests are the objects' numbers.
    world.shared.floor.store(new, Ordering::Release);
    let first = world.find(old).unwrap().segment();
    turn_over(&mut world, first, 100);
    assert!(world.find(old).is_none() && world.find(new).is_some());
}

#[test]
fn a_power_cut_at_every_operation_of_reinsertion_leaves_one_of_two() {
    let mut cut = 0;
    loop {
        let mut world = World::new(CrashDisk::new(cut), settings(2048 * KIB, SEGMENT)).unwrap();
        let objects: Vec<u64> = (0..8).map(|key| world.store(key, 3000 + key * 1000)).collect();
        objects.iter().for_each(|object| world.note_uses(*object, 3));
        world.store(50, 90_000);
        world.sync();
        world.disk.fail_at(cut, Fault::PowerCut);
        for key in 100..350 {
            world.store(key, 9000);
            world.pass(Duration::from_millis(10));
            if world.disk.is_down() {
                break;
            }
        }
        let was_cut = world.disk.is_down();
        assert!(was_cut || world.shared.usage().reinserted > 0);
        let mut world = world.reopen(if cut % 3 == 0 { Crash::Kill } else { Crash::Power });
        assert_eq!(world.verify().damaged, 0);
        world.assert_stocks();
        if !was_cut {
            break;
        }
        cut += 7;
    }
    assert!(cut > 200, "{cut}");
}

#[test]
fn random_courses_with_many_used_objects() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let mut world = World::new(CrashDisk::new(seed), settings(2048 * KIB, SEGMENT)).unwrap();
        let mut open = Vec::new();
        for step in 0..400 {
            act(&mut world, &mut random, &mut open);
            let known: Vec<u64> = world.objects.keys().copied().collect();
            if let Some(object) = known.get(random.below(known.len() as u64) as usize) {
                world.note_uses(*object, random.below(3));
            }
            if step % 40 == 0 {
                world.assert_true();
                world.assert_stocks();
            }
        }
        world.sync();
        world.reopen(Crash::Power).assert_stocks();
    }
}
