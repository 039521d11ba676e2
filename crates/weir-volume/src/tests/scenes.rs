//! Courses of objects, one at a time.

use std::time::Duration;

use weir_policy::Interval;

use super::world::{Crash, World, head, settings};
use crate::format::record::Kind;
use crate::read::reader::{Part, Position, Wait};
use crate::settings::{EXTENT_DELAY, HEAD_BYTES_MAX, SYNC_INTERVAL};
use crate::testing::CrashDisk;
use crate::write::put::PutError;
use crate::write::storing::{End, ObjectHead, Put};

const MIB: u64 = 1 << 20;

fn world() -> World {
    World::new(CrashDisk::new(1), settings(8 * MIB, MIB)).unwrap()
}

#[test]
fn bodies_of_every_size_come_back() {
    let mut world = world();
    let lengths = [0, 1, 63, 64, 65, 16_000, 65_535, 65_536, 65_537, 262_144, 262_145, 1_500_000, 3_000_000];
    let objects: Vec<u64> =
        lengths.iter().enumerate().map(|(key, length)| world.store(key as u64, *length)).collect();
    for (object, length) in objects.iter().zip(lengths) {
        let record = world.find(*object).unwrap_or_else(|| panic!("{length}"));
        assert_eq!(record.length, Some(length));
        assert_eq!(record.head, head(*object, 0));
        assert_eq!(world.read_all(&record), length);
        assert!(record.was_whole());
        assert_eq!(record.body().is_some(), length <= 16_000, "{length}");
        let mut position = Position::default();
        let end = world.shared.read(&record, &mut position, length, 10, Wait::Device).unwrap();
        assert_eq!(end, Part::End);
    }
    let world = {
        world.sync();
        world.reopen(Crash::Power)
    };
    assert_eq!(world.assert_true().len(), lengths.len());
}

#[test]
fn an_object_longer_than_a_segment_and_than_four_gigabytes() {
    // The offsets alone are large: only three pieces of it are held.
    let mut world = world();
    let length = (1 << 42) + 5;
    let object = world.begin(1, length, true);
    for offset in [0, 1 << 33, length - 100_000] {
        world.push(object, offset, 100_000);
    }
    world.end(object, End::Rest);
    world.sync();
    let world = world.reopen(Crash::Power);
    let record = world.find(object).unwrap();
    assert_eq!(record.length, Some(length));
    assert_eq!(world.read_all(&record), 300_000);
    let mut position = Position::default();
    assert_eq!(world.shared.read(&record, &mut position, 1 << 32, 10, Wait::Device).unwrap(), Part::Gap);
    assert_eq!(world.shared.read(&record, &mut position, length, 10, Wait::Device).unwrap(), Part::End);
}

#[test]
fn a_read_uses_memory_of_the_thread_that_asked() {
    let mut world = world();
    let object = world.store(1, 300_000);
    let record = world.find(object).unwrap();
    for (offset, max, length) in
        [(0, 100_000, 65_536), (65_536, 1, 1), (100_000, 65_536, 31_072), (299_999, 9, 1)]
    {
        let mut position = Position::default();
        position.make_room();
        let room = position.room_for_tests();
        let read = std::thread::scope(|scope| {
            let work = || world.shared.read(&record, &mut position, offset, max, Wait::Device).unwrap();
            scope.spawn(work).join().unwrap()
        });
        let Part::Bytes(bytes) = read else { panic!("{read:?}") };
        assert_eq!(*bytes.bytes(), crate::testing::samples::body(object, offset, length));
        assert!(room.contains(&bytes.bytes().as_ptr()), "{offset}");
    }
}

#[test]
fn a_small_object_is_one_read_and_a_larger_one_two() {
    let mut world = world();
    // So many such records were read before.
    (0..30).for_each(|_| world.shared.first_read.note(16_000));
    for (length, reads) in [(0, 1), (3000, 1), (15_000, 1), (40_000, 2), (60_000, 2)] {
        let object = world.store(length, length);
        let key = world.key_of(object);
        let candidate = world.shared.candidates(key.digest)[0];
        let before = world.disk.operations();
        let record = world.shared.record(candidate, &key.full, Wait::Device).unwrap().unwrap();
        if length > 0 {
            let part = world.shared.read(&record, &mut Position::default(), 0, 65_536, Wait::Device).unwrap();
            let Part::Bytes(bytes) = part else { panic!("{part:?}") };
            assert_eq!(*bytes.bytes(), crate::testing::samples::body(object, 0, length as usize));
        }
        assert_eq!(world.disk.operations() - before, reads, "{length}");
        // From the page cache the same comes, in smaller reads.
        let resident = world.shared.record(candidate, &key.full, Wait::Never).unwrap().unwrap();
        assert_eq!(resident.body(), record.body());
        assert_eq!((resident.head.clone(), world.read_all(&resident)), (record.head.clone(), length));
    }
}

#[test]
fn every_range_of_a_body_is_what_it_should_be() {
    let mut world = world();
    for length in [5000, 200_000, 700_000] {
        let object = world.store(length, length);
        let record = world.find(object).unwrap();
        for offset in [0, 1, 4999, 65_535, 65_536, 65_537, 131_072, 262_143, 262_144, 699_999] {
            for max in [1, 100, 65_536, 100_000, usize::MAX] {
                let mut position = Position::default();
                let part = world.shared.read(&record, &mut position, offset, max, Wait::Device).unwrap();
                match part {
                    Part::Bytes(checked) => {
                        let bytes = checked.into_bytes();
                        assert!(!bytes.is_empty() && bytes.len() <= max.min(crate::PIECE_BYTES_MAX));
                        assert_eq!(bytes, crate::testing::samples::body(object, offset, bytes.len()));
                    }
                    Part::End => assert!(offset >= length),
                    Part::Gap => panic!("gap"),
                }
            }
        }
    }
}

#[test]
fn a_slow_body_is_found_before_its_end_and_its_last_bytes_afterwards() {
    let mut world = world();
    let object = world.begin(1, 300_000, false);
    world.push(object, 0, 70_000);
    assert!(world.find(object).is_none());
    world.pass(EXTENT_DELAY);
    world.pass(EXTENT_DELAY);
    let record = world.find(object).unwrap();
    assert_eq!((record.length, world.read_all(&record)), (None, 65_536));
    world.push(object, 70_000, 230_000);
    world.end(object, End::Whole(300_000));
    let record = world.find(object).unwrap();
    assert_eq!((record.length, world.read_all(&record)), (Some(300_000), 300_000));
}

#[test]
fn an_abandoned_put_is_not_found_and_never_comes_back() {
    let mut world = world();
    let object = world.begin(1, 900_000, true);
    world.push(object, 0, 600_000);
    world.pass(EXTENT_DELAY);
    assert!(world.find(object).is_some());
    world.end(object, End::Abandon);
    assert!(world.find(object).is_none());
    world.push(object, 600_000, 300_000);
    world.end(object, End::Whole(900_000));
    assert!(world.find(object).is_none());
    world.sync();
    assert!(world.reopen(Crash::Power).find(object).is_none());
}

#[test]
fn a_partial_object_is_completed_after_a_restart() {
    let mut world = world();
    let object = world.begin(1, 500_000, true);
    world.push(object, 100_000, 100_000);
    world.end(object, End::Rest);
    world.sync();
    let mut world = world.reopen(Crash::Kill);
    assert_eq!(world.read_all(&world.find(object).unwrap()), 100_000);
    assert_eq!(world.resume(object), None);
    world.push(object, 0, 250_000);
    world.push(object, 250_000, 250_000);
    world.end(object, End::Whole(500_000));
    let record = world.find(object).unwrap();
    assert_eq!(world.read_all(&record), 500_000);
    let written = world.shared.usage().body_bytes;
    assert_eq!(written, 400_000, "what was held is not written again");
    assert_eq!(world.shared.index.len(), 1);
}

#[test]
fn a_refreshed_head_writes_no_body_and_lives_through_a_restart() {
    let mut world = world();
    let small = world.store(1, 2000);
    let large = world.store(2, 400_000);
    let empty = world.store(3, 0);
    let before = world.shared.usage().body_bytes;
    for object in [small, large, empty] {
        world.refresh(object);
        let record = world.find(object).unwrap();
        assert_eq!(record.head, head(object, 1));
        assert_eq!(world.read_all(&record), world.objects[&object].length);
    }
    assert_eq!(world.shared.usage().body_bytes, before);
    assert_eq!(world.shared.index.len(), 3);
    world.sync();
    let world = world.reopen(Crash::Power);
    for object in [small, large, empty] {
        assert_eq!(world.find(object).unwrap().head, head(object, 1));
    }
}

#[test]
fn a_head_refreshed_while_the_body_comes_is_the_one_that_stays() {
    let mut world = world();
    let object = world.begin(1, 200_000, true);
    world.push(object, 0, 150_000);
    world.refresh(object);
    world.push(object, 150_000, 50_000);
    world.end(object, End::Whole(200_000));
    let record = world.find(object).unwrap();
    assert_eq!((record.head.clone(), world.read_all(&record)), (head(object, 1), 200_000));
}

/// A segment was looked at while nothing named its bytes. What names them before it is freed keeps it.
#[test]
fn a_segment_that_a_head_has_named_since_is_not_freed() {
    let mut world = World::new(CrashDisk::new(1), settings(8 * MIB, 256 << 10)).unwrap();
    let object = world.store(1, 400_000);
    let segment = world.find(object).unwrap().extents[0].place.segment;
    let seen = world.shared.segments.segment(segment).unwrap().seen();
    world.refresh(object);
    world.engine.free(segment, seen, false);
    assert_eq!(world.read_all(&world.find(object).unwrap()), 400_000);
    // Looked at again, it is freed: the writer is not asked whether it is of use.
    let seen = world.shared.segments.segment(segment).unwrap().seen();
    world.engine.free(segment, seen, false);
    assert!(!world.shared.segments.has(segment));
}

/// The open segment takes more, is closed, and only then is freed.
#[test]
fn a_segment_that_has_grown_since_is_not_freed() {
    let mut world = World::new(CrashDisk::new(1), settings(8 * MIB, 256 << 10)).unwrap();
    let gone = world.store(1, 1000);
    let segment = world.find(gone).unwrap().place().segment;
    world.remove(gone);
    let seen = world.shared.segments.segment(segment).unwrap().seen();
    let object = world.store(2, 500_000);
    let record = world.find(object).unwrap();
    assert!(record.extents[0].place.segment == segment && record.place().segment > segment);
    world.engine.free(segment, seen, false);
    assert_eq!(world.read_all(&record), 500_000);
}

#[test]
fn a_removal_survives_the_loss_of_the_index() {
    let mut world = world();
    let (kept, gone) = (world.store(1, 3000), world.store(1, 4000));
    let large = world.store(1, 300_000);
    world.sync();
    world.remove(gone);
    world.remove(large);
    world.sync();
    for path in world.disk.paths() {
        if path.starts_with("index/") {
            world.disk.flip(&path, 0, 16);
        }
    }
    let world = world.reopen(Crash::Kill);
    assert!(world.recovered.was_rebuilt);
    assert!(world.find(kept).is_some() && world.find(gone).is_none() && world.find(large).is_none());
}

#[test]
fn many_variants_share_a_key() {
    let mut world = world();
    let objects: Vec<u64> = (0..100).map(|n| world.store(1, n * 10)).collect();
    let key = world.key_of(objects[0]);
    let candidates = world.shared.candidates(key.digest);
    assert_eq!(candidates.len(), 100);
    let newest = world.shared.record(candidates[0], &key.full, Wait::Device).unwrap().unwrap();
    assert_eq!(newest.number, objects[99]);
    assert!(objects.iter().all(|object| world.find(*object).is_some()));
}

#[test]
fn another_key_with_the_same_digest_is_told_apart() {
    let mut world = world();
    let object = world.store(1, 100);
    let key = world.key_of(object);
    let candidate = world.shared.candidates(key.digest)[0];
    assert!(world.shared.record(candidate, b"http://other/", Wait::Device).unwrap().is_none());
}

#[test]
fn keys_of_eight_kilobytes_and_long_heads() {
    let mut world = world();
    let status = crate::write::put::PutStatus::new();
    let key = weir_policy::CacheKey::new(vec![b'k'; 8192].into());
    let long = bytes::Bytes::from(vec![b'h'; 100_000]);
    let put = |head: bytes::Bytes, status: &std::sync::Arc<crate::write::put::PutStatus>| {
        let key = key.clone();
        let described = ObjectHead { digest: key.digest, key: key.full, head, stamp: 0, length: Some(0) };
        Put::new(described, std::sync::Arc::clone(status))
    };
    world.engine.begin(77, put(long.clone(), &status));
    world.engine.end(77, key.digest, End::Whole(0));
    assert_eq!(status.error(), None);
    let candidate = world.shared.candidates(key.digest)[0];
    let record = world.shared.record(candidate, &key.full, Wait::Device).unwrap().unwrap();
    assert_eq!(record.head, long);
    let too_long = bytes::Bytes::from(vec![b'h'; HEAD_BYTES_MAX + 1]);
    world.engine.begin(78, put(too_long, &status));
    assert_eq!(status.error(), Some(PutError::TooLarge));
}

#[test]
fn a_flipped_bit_is_never_served() {
    for at in 0..40u64 {
        let mut world = world();
        let small = world.store(1, 3000);
        let large = world.store(2, 200_000);
        world.sync();
        let path = world.disk.paths().into_iter().find(|path| path.ends_with(".seg")).unwrap();
        let end = world.disk.content(&path).unwrap().len() as u64;
        world.disk.flip(&path, 64 + at * (end - 64) / 40, 1);
        let mut served = 0;
        for object in [small, large] {
            let Some(record) = world.find(object) else { continue };
            let mut position = Position::default();
            let mut offset = 0;
            while let Ok(Part::Bytes(checked)) =
                world.shared.read(&record, &mut position, offset, 65_536, Wait::Device)
            {
                let bytes = checked.into_bytes();
                assert_eq!(bytes, crate::testing::samples::body(object, offset, bytes.len()));
                offset += bytes.len() as u64;
            }
            served += u64::from(offset == world.objects[&object].length);
        }
        let report = world.verify();
        assert_eq!(report.objects, served, "at {at}: {report:?}");
        assert_eq!(report.objects + report.damaged, 2, "at {at}");
        assert_eq!(world.shared.index.len(), served, "what is wrong was dropped");
    }
}

#[test]
fn the_kinds_of_records_are_as_few_as_can_be() {
    let mut world = world();
    world.store(1, 1000);
    let slow = world.begin(2, 1_000_000, true);
    world.push(slow, 0, 1_000_000);
    world.end(slow, End::Whole(1_000_000));
    world.sync();
    let mut kinds = Vec::new();
    for number in world.shared.segments.numbers() {
        let segment = world.shared.segments.segment(number).unwrap();
        let scanned =
            crate::read::scan::scan(&world.shared, &segment, 64, crate::read::scan::Depth::Bodies, |found| {
                assert!(found.is_sound);
                kinds.push(found.described.header.kind);
            });
        assert_eq!(scanned.unwrap(), segment.end());
    }
    let count = |kind| kinds.iter().filter(|own| **own == kind).count();
    assert_eq!((count(Kind::Object), count(Kind::Extent)), (1, 4));
    assert_eq!(count(Kind::Head), 4, "three on the way, one at the end: {kinds:?}");
}

#[test]
fn a_sync_comes_by_itself() {
    let mut world = world();
    let object = world.store(1, 1000);
    let epoch = world.shared.usage().durable_epoch;
    world.pass(SYNC_INTERVAL);
    assert!(world.shared.usage().durable_epoch > epoch);
    let world = world.reopen(Crash::Power);
    assert!(world.find(object).is_some());
    assert_eq!(world.recovered.scanned, 0, "the journal had it");
}

#[test]
fn a_slot_that_was_used_before_has_no_old_entries() {
    let mut world = world();
    let old = world.store(1, 500_000);
    let number = world.shared.segments.numbers()[0];
    world.store(2, 900_000);
    while world.shared.segments.has(number) {
        assert!(world.engine.drop_oldest_for_tests());
    }
    world.sync();
    world.engine.skip_segments_for_tests(number + world.shared.segments.geometry.slots());
    let new: Vec<u64> = (10..14).map(|key| world.store(key, 400_000)).collect();
    world.sync();
    assert!(world.shared.segments.numbers().iter().any(|own| *own > 1000));
    let world = world.reopen(Crash::Power);
    assert!(world.find(old).is_none());
    assert!(new.iter().all(|object| world.find(*object).is_some()));
}

#[test]
fn what_was_dropped_of_a_body_that_is_being_stored_is_written_again() {
    let mut world = world();
    let slow = world.begin(1, 1_000_000, true);
    world.push(slow, 0, 300_000);
    world.pass(EXTENT_DELAY);
    let first = world.shared.segments.numbers()[0];
    world.store(2, 900_000);
    while world.shared.segments.has(first) {
        assert!(world.engine.drop_oldest_for_tests());
    }
    world.push(slow, 0, 300_000);
    world.push(slow, 300_000, 700_000);
    world.pass(EXTENT_DELAY);
    world.end(slow, End::Whole(1_000_000));
    world.sync();
    let record = world.find(slow).unwrap();
    assert_eq!(world.read_all(&record), 1_000_000);
    let world = world.reopen(Crash::Power);
    assert_eq!(world.read_all(&world.find(slow).unwrap()), 1_000_000);
}

#[test]
fn the_reader_of_a_long_object_finds_all_of_it_after_its_removal() {
    let mut world = world();
    let long = world.begin(1, 700_000, true);
    world.push(long, 0, 300_000);
    world.pass(EXTENT_DELAY);
    world.push(long, 300_000, 400_000);
    world.end(long, End::Whole(700_000));
    let small = world.store(2, 1000);
    let under_way = world.begin(3, 700_000, true);
    world.push(under_way, 0, 500_000);
    world.pass(EXTENT_DELAY);
    world.push(under_way, 500_000, 100_000);
    let all = Interval { start: 0, end: u64::MAX };
    let _readers = [long, under_way].map(|object| world.shared.readers.begin(object, 1, all));
    let record = world.withdraw(long).unwrap();
    assert_eq!(world.read_all(&record), 700_000);
    let record = world.withdraw(under_way).unwrap();
    assert_eq!(world.shared.held(&record).length(), 600_000);
    assert_eq!(world.ended(under_way), Some(PutError::Removed));
    assert!(world.withdraw(small).is_none(), "nobody reads it");
    let is_listed = |object| world.find(object).is_some();
    assert!(![long, under_way, small].into_iter().any(is_listed));
    world.sync();
    let world = world.reopen(Crash::Power);
    assert!(world.indexed().is_empty());
}

#[test]
fn a_checkpoint_takes_the_place_of_the_journal() {
    let mut world = world();
    for round in 0..40 {
        for key in 0..100 {
            world.store(round * 100 + key, 50);
        }
        world.pass(Duration::from_secs(1));
    }
    world.sync();
    let index: Vec<String> =
        world.disk.paths().into_iter().filter(|path| path.starts_with("index/")).collect();
    assert!(index.len() <= 3, "{index:?}");
    let usage = world.shared.usage();
    assert!(usage.checkpoint_bytes > 0);
    let each = (usage.journal_bytes + usage.checkpoint_bytes) / 4000;
    assert!(each <= 100, "{each} bytes of index an object");
    let world = world.reopen(Crash::Power);
    assert_eq!(world.assert_true().len(), 4000);
    assert!(!world.recovered.was_rebuilt && world.recovered.scanned == 0);
}
