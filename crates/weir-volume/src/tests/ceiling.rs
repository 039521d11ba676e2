//! The ceiling is never passed, the oldest go first, and little is written beside bodies.

use std::time::Duration;

use weir_disk::Room;

use super::world::{Crash, Random, World, settings};
use crate::read::reader::{Part, Position, Wait};
use crate::settings::FREE_BYTES_MAX;
use crate::testing::CrashDisk;
use crate::write::put::PutError;
use crate::write::storing::End;

const MIB: u64 = 1 << 20;

#[test]
fn a_volume_filled_many_times_over_stays_below_its_size_and_keeps_the_newest() {
    for (seed, lengths) in [(1, 100), (2, 4000), (3, 300_000)] {
        let size = 4 * MIB;
        let mut world = World::new(CrashDisk::new(seed), settings(size, 256 << 10)).unwrap();
        let mut random = Random(seed);
        let mut written = 0;
        let mut newest = Vec::new();
        while written < 5 * size {
            let length = random.below(lengths) + 1;
            let object = world.store(written, length);
            assert_eq!(world.ended(object), None);
            newest.push(object);
            written += length + 600;
            world.pass(Duration::from_millis(20));
        }
        let usage = world.shared.usage();
        assert!(world.disk.most_bytes() <= size, "{}", world.disk.most_bytes());
        assert!(usage.used_bytes <= size && usage.used_bytes >= world.disk.used_bytes());
        assert!(usage.segments_dropped > 10 && usage.evicted > 0);
        let found = world.assert_true();
        let kept: Vec<u64> =
            newest.iter().rev().take_while(|object| found.contains(object)).copied().collect();
        assert_eq!(kept.len(), found.len(), "the newest, without a hole");
        let bytes: u64 = kept.iter().map(|object| world.objects[object].length).sum();
        assert!(lengths == 100 || bytes > size / 2, "{bytes} of {size} are bodies");
        world.sync();
        let world = world.reopen(Crash::Power);
        assert_eq!(world.assert_true(), found);
        assert!(world.disk.used_bytes() <= size);
    }
}

#[test]
fn dropping_happens_in_small_steps_before_the_room_is_needed() {
    let mut world = World::new(CrashDisk::new(1), settings(4 * MIB, 256 << 10)).unwrap();
    for key in 0..200 {
        let before = world.shared.usage().segments_dropped;
        world.store(key, 40_000);
        assert_eq!(world.shared.usage().segments_dropped, before, "a store drops nothing");
        world.pass(Duration::from_millis(10));
    }
    assert!(world.shared.usage().segments_dropped > 10);
}

#[test]
fn little_is_written_beside_bodies() {
    for (length, piece) in [(256 << 10, 16_384), (MIB, 100_000), (5 * MIB + 1, 65_536), (20 * MIB, 400_000)] {
        let mut world = World::new(CrashDisk::new(1), settings(256 * MIB, 16 * MIB)).unwrap();
        for key in 0..(20 * MIB / length).max(1) {
            let object = world.begin(key, length, true);
            let mut at = 0;
            while at < length {
                let count = piece.min(length - at);
                world.push(object, at, count);
                at += count;
                world.pass(Duration::from_millis(1));
            }
            world.end(object, End::Whole(length));
        }
        world.sync();
        let usage = world.shared.usage();
        let stored = length * world.objects.len() as u64;
        let segments = world.disk.written_bytes("segments/");
        assert_eq!(usage.body_bytes, stored);
        assert_eq!(usage.body_bytes + usage.head_bytes, segments, "what is counted is what is written");
        let all = world.disk.written_bytes("") as f64 / stored as f64;
        assert!(segments as f64 <= 1.05 * stored as f64 && all <= 1.05, "{all} at {length}");
    }
}

#[test]
fn a_slow_body_costs_little_more() {
    let mut world = World::new(CrashDisk::new(1), settings(256 * MIB, 16 * MIB)).unwrap();
    let length = 12 * MIB;
    let object = world.begin(1, length, true);
    for at in (0..length).step_by(32_768) {
        world.push(object, at, 32_768);
        world.pass(Duration::from_millis(100));
    }
    world.end(object, End::Whole(length));
    let record = world.find(object).unwrap();
    assert_eq!(world.read_all(&record), length);
    let written = world.disk.written_bytes("segments/") as f64 / length as f64;
    assert!(written <= 1.05, "{written}");
}

#[test]
fn a_twentieth_of_the_file_system_stays_free() {
    let mut world = World::new(CrashDisk::new(1), settings(8 * MIB, 256 << 10)).unwrap();
    world.disk.set_room(Room { total_bytes: 100 * MIB, free_bytes: 5 * MIB + (256 << 10) });
    let first = world.store(1, 200_000);
    assert_eq!(world.ended(first), None);
    world.disk.set_room(Room { total_bytes: 100 * MIB, free_bytes: 5 * MIB });
    let second = world.store(2, 200_000);
    assert_eq!(world.ended(second), Some(PutError::Full));
    // It gives back what it has.
    assert!(world.find(first).is_none());
    world.disk.set_room(Room { total_bytes: 100 * MIB, free_bytes: 50 * MIB });
    world.pass(Duration::from_secs(5));
    let third = world.store(3, 200_000);
    assert!(world.find(third).is_some());
}

/// A twentieth of 200 GiB would be 10 GiB.
#[test]
fn no_more_than_a_named_number_of_bytes_stays_free() {
    let total_bytes = 200 << 30;
    let mut world = World::new(CrashDisk::new(1), settings(8 * MIB, 256 << 10)).unwrap();
    world.disk.set_room(Room { total_bytes, free_bytes: FREE_BYTES_MAX + (256 << 10) });
    let first = world.store(1, 200_000);
    assert_eq!(world.ended(first), None);
    world.disk.set_room(Room { total_bytes, free_bytes: FREE_BYTES_MAX });
    let second = world.store(2, 200_000);
    assert_eq!(world.ended(second), Some(PutError::Full));
}

#[test]
fn a_smaller_size_holds_at_the_next_opening() {
    let mut world = World::new(CrashDisk::new(1), settings(8 * MIB, 256 << 10)).unwrap();
    for key in 0..60 {
        world.store(key, 100_000);
        world.pass(Duration::from_millis(10));
    }
    world.sync();
    let (disk, objects) = (world.disk.clone(), world.objects.clone());
    drop(world);
    let mut world = World::new(disk, settings(3 * MIB, 256 << 10)).unwrap();
    world.objects = objects;
    world.engine.step(Duration::from_secs(1), false);
    let last = world.store(99, 1000);
    assert!(world.find(last).is_some());
    world.assert_ceiling();
}

#[test]
fn a_body_whose_beginning_was_evicted_has_a_gap_and_no_other_bytes() {
    let mut world = World::new(CrashDisk::new(1), settings(4 * MIB, 256 << 10)).unwrap();
    let object = world.begin(1, 6 * MIB, true);
    for at in (0..6 * MIB).step_by(MIB as usize) {
        world.push(object, at, MIB);
        world.pass(Duration::from_millis(10));
    }
    world.end(object, End::Whole(6 * MIB));
    assert_eq!(world.ended(object), None);
    let record = world.find(object).unwrap();
    let held = world.read_all(&record);
    assert!((MIB..6 * MIB).contains(&held), "{held}");
    let part = world.shared.read(&record, &mut Position::default(), 0, 10, Wait::Device);
    assert_eq!(part.unwrap(), Part::Gap);
    // A reader that began before the segment went gets a gap as well.
    let object = world.store(2, 400_000);
    let record = world.find(object).unwrap();
    let mut position = Position::default();
    world.shared.read(&record, &mut position, 0, 1000, Wait::Device).unwrap();
    for key in 100..120 {
        world.store(key, 250_000);
    }
    assert_eq!(world.shared.read(&record, &mut position, 1000, 1000, Wait::Device).unwrap(), Part::Gap);
}

/// Bytes of a dropped segment count for as long as a reader has them open. No other segment is dropped for
/// that.
#[test]
fn a_dropped_segment_counts_while_a_reader_has_it_open() {
    let mut world = World::new(CrashDisk::new(1), settings(4 * MIB, MIB)).unwrap();
    let first = world.store(1, 200_000);
    let number = world.shared.segments.numbers()[0];
    let held = world.shared.segments.segment(number).unwrap();
    let mut key = 2;
    while world.shared.segments.has(number) {
        world.store(key, 200_000);
        world.pass(Duration::from_millis(10));
        key += 1;
    }
    assert!(world.find(first).is_none());
    let full = world.shared.usage().full;
    let before = world.shared.segments.len();
    while world.shared.usage().full == full {
        world.store(key, 200_000);
        world.pass(Duration::from_millis(10));
        key += 1;
    }
    assert!(world.shared.segments.len() + 1 >= before, "no others are dropped for it");
    drop(held);
    let last = world.store(key, 200_000);
    assert!(world.find(last).is_some(), "at once, without a pause");
    world.assert_ceiling();
}
