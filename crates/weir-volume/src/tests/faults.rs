//! The n-th operation fails, for every n: of opening, filling, evicting, removing, recovering.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::power::act;
use super::world::{Crash, Random, World, settings};
use crate::settings::{FULL_PAUSE, READ_ERRORS_MAX, WRITE_ERRORS_MAX};
use crate::state::VolumeState;
use crate::testing::{CrashDisk, Fault};
use crate::write::put::PutError;
use crate::write::storing::End;

/// A course in which one operation fails. Afterwards everything is right, also after a power cut.
fn course(seed: u64, n: u64, fault: Fault) -> bool {
    let mut random = Random(seed);
    let mut world = World::new(CrashDisk::new(n), settings(2 << 20, 128 << 10)).unwrap();
    let before = world.disk.operations();
    world.disk.fail_at(n, fault);
    let mut open = Vec::new();
    for _ in 0..60 {
        act(&mut world, &mut random, &mut open);
        world.assert_ceiling();
    }
    let has_failed = world.disk.operations() > before + n;
    world.disk.fail_no_more();
    world.assert_true();
    // Storing goes on after a while.
    world.pass(FULL_PAUSE + Duration::from_secs(1));
    let object = world.store(77, 5000);
    assert_eq!(world.ended(object), None, "{fault:?} at {n}");
    assert!(world.find(object).is_some());
    assert!(world.sync(), "{fault:?} at {n}");
    assert_eq!(world.shared.counters.state(), VolumeState::Up);
    let mut world = world.reopen(Crash::Power);
    assert!(world.find(object).is_some());
    assert_eq!(world.verify().damaged, 0, "{fault:?} at {n}");
    has_failed
}

#[test]
fn any_one_operation_may_fail() {
    for fault in [Fault::Io, Fault::Full] {
        let mut n = 0;
        while course(3, n, fault) {
            n += 1;
        }
        assert!(n > 150, "{n} operations");
    }
}

#[test]
fn opening_fails_whole_or_not_at_all() {
    let fill = |seed| {
        let mut world = World::new(CrashDisk::new(seed), settings(2 << 20, 128 << 10)).unwrap();
        let objects: Vec<u64> = (0..12).map(|key| world.store(key, key * 7000)).collect();
        world.sync();
        world.pass(Duration::from_secs(5));
        let late = world.store(50, 3000);
        (world, objects, late)
    };
    for fault in [Fault::Io, Fault::Full] {
        for n in 0.. {
            let (world, objects, late) = fill(n);
            let (disk, known) = (world.disk.clone(), world.objects.clone());
            drop(world);
            let before = disk.operations();
            disk.fail_at(n, fault);
            let opened = World::new(disk.clone(), settings(2 << 20, 128 << 10));
            let has_failed = disk.operations() > before + n;
            disk.fail_no_more();
            let mut world = match opened {
                Ok(world) => world,
                Err(_) => World::new(disk, settings(2 << 20, 128 << 10)).unwrap(),
            };
            world.objects = known;
            let found = world.assert_true();
            assert!(objects.iter().all(|object| found.contains(object)), "{fault:?} at {n}");
            assert!(found.iter().all(|object| objects.contains(object) || *object == late));
            assert!(world.sync());
            let world = world.reopen(Crash::Power);
            let found = world.assert_true();
            assert!(objects.iter().all(|object| found.contains(object)), "{fault:?} at {n}, then a cut");
            if !has_failed {
                assert!(n > 20, "{n} operations");
                break;
            }
        }
    }
}

#[test]
fn a_failed_sync_forgets_what_it_was_asked_for() {
    let mut world = World::new(CrashDisk::new(5), settings(4 << 20, 1 << 20)).unwrap();
    let before = world.store(1, 3000);
    assert!(world.sync());
    let lost = world.store(2, 3000);
    let under_way = world.begin(3, 600_000, true);
    world.push(under_way, 0, 300_000);
    world.disk.fail_at(0, Fault::Io);
    assert!(!world.sync());
    assert!(world.find(before).is_some(), "what was durable is served");
    assert!(world.find(lost).is_none(), "what may be lost is not");
    assert_eq!(world.ended(under_way), Some(PutError::Failed));
    let after = world.store(4, 3000);
    assert!(world.sync());
    let world = world.reopen(Crash::Power);
    let found = world.assert_true();
    assert!(found.contains(&before) && found.contains(&after) && !found.contains(&lost));
}

#[test]
fn a_full_file_system_ends_the_storing_and_nothing_else() {
    let mut world = World::new(CrashDisk::new(5), settings(4 << 20, 1 << 20)).unwrap();
    let before = world.store(1, 3000);
    world.sync();
    world.disk.fail_at(0, Fault::Full);
    let lost = world.store(2, 3000);
    assert_eq!(world.ended(lost), Some(PutError::Full));
    assert!(world.find(before).is_some());
    let too_early = world.store(3, 3000);
    assert_eq!(world.ended(too_early), Some(PutError::Full));
    world.pass(FULL_PAUSE);
    let after = world.store(4, 3000);
    assert!(world.find(after).is_some());
    assert_eq!(world.shared.counters.state(), VolumeState::Up, "no fault of the drive");
}

#[test]
fn a_failed_removal_is_retried_until_it_is_durable() {
    let has_failed_removals =
        |world: &World| world.shared.counters.has_failed_removals.load(Ordering::Relaxed);
    let (mut failed, mut settled) = (0, 0);
    for n in 0.. {
        let mut world = World::new(CrashDisk::new(5), settings(4 << 20, 1 << 20)).unwrap();
        let (object, other) = (world.store(1, 3000), world.store(2, 3000));
        assert!(world.sync() && !has_failed_removals(&world));
        // The fault comes after the read that finds the object.
        world.disk.fail_at(1, Fault::Full);
        world.remove(object);
        assert!(has_failed_removals(&world) && world.find(object).is_none());
        let before = world.disk.operations();
        world.disk.fail_at(n, Fault::Io);
        world.nudge(FULL_PAUSE);
        let has_failed = world.disk.operations() > before + n;
        if has_failed_removals(&world) {
            failed += 1;
            world.disk.fail_no_more();
            assert!(world.sync() && !has_failed_removals(&world), "at {n}");
        } else {
            settled += 1;
        }
        assert_eq!(world.reopen(Crash::Power).assert_true(), [other].into(), "at {n}");
        if !has_failed {
            break;
        }
    }
    assert!(failed >= 3 && settled >= 1, "failed {failed} times, settled {settled} times");
}

#[test]
fn a_failing_drive_is_no_longer_written_and_then_no_longer_read() {
    let mut world = World::new(CrashDisk::new(5), settings(4 << 20, 1 << 20)).unwrap();
    let object = world.store(1, 3000);
    world.sync();
    for n in 0..WRITE_ERRORS_MAX {
        assert_eq!(world.shared.counters.state(), VolumeState::Up, "after {n} errors");
        world.disk.fail_at(0, Fault::Io);
        world.store(2, 100);
    }
    assert_eq!(world.shared.counters.state(), VolumeState::ReadOnly);
    let refused = world.store(3, 100);
    assert_eq!(world.ended(refused), Some(PutError::Failed));
    let writes = world.disk.writes();
    world.pass(Duration::from_secs(60));
    assert_eq!(world.disk.writes(), writes);
    assert!(world.find(object).is_some());
    for _ in 0..READ_ERRORS_MAX {
        assert_eq!(world.shared.counters.state(), VolumeState::ReadOnly);
        world.disk.fail_at(0, Fault::Io);
        assert!(world.find(object).is_none());
    }
    assert_eq!(world.shared.counters.state(), VolumeState::Ejected);
    let operations = world.disk.operations();
    assert!(world.find(object).is_none());
    assert_eq!(world.disk.operations(), operations, "it is asked nothing more");
}

#[test]
fn an_abandoned_object_is_removed_even_after_a_failed_put() {
    let mut world = World::new(CrashDisk::new(5), settings(4 << 20, 1 << 20)).unwrap();
    let object = world.begin(1, 900_000, true);
    world.push(object, 0, 600_000);
    world.sync();
    assert!(world.find(object).is_some());
    world.disk.fail_at(0, Fault::Io);
    world.push(object, 600_000, 280_000);
    assert_eq!(world.ended(object), Some(PutError::Failed));
    world.end(object, End::Abandon);
    assert!(world.find(object).is_none());
    world.sync();
    assert!(world.reopen(Crash::Power).find(object).is_none());
}

#[test]
fn what_this_process_cannot_open_is_no_fault_of_the_drive() {
    let world = World::new(CrashDisk::new(5), settings(4 << 20, 1 << 20)).unwrap();
    let counters = &world.shared.counters;
    for errno in [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE, rustix::io::Errno::NOMEM] {
        for _ in 0..WRITE_ERRORS_MAX {
            assert!(counters.note_write(&errno.into()), "storing rests, as where there is no room");
        }
    }
    assert_eq!(counters.state(), VolumeState::Up);
    for _ in 0..WRITE_ERRORS_MAX {
        counters.note_write(&rustix::io::Errno::IO.into());
    }
    assert_eq!(counters.state(), VolumeState::ReadOnly);
}
