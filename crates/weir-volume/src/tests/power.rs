//! Power cuts at every moment of random courses: what was durable is there, nothing is wrong, and nothing
//! that was removed is back.
//!
//! `WEIR_VOLUME_SEEDS` sets how many courses are run (a hundred by default), `WEIR_VOLUME_SEED` a single one.

use std::collections::BTreeSet;
use std::time::Duration;

use super::world::{Crash, Random, World, settings};
use crate::testing::{CrashDisk, Fault};
use crate::write::storing::End;

const SEEDS: u64 = 100;

/// Does something at random. `open` has the objects whose bodies are coming, with their offsets.
pub(super) fn act(world: &mut World, random: &mut Random, open: &mut Vec<(u64, u64)>) {
    let known: Vec<u64> = world.objects.keys().copied().collect();
    let one = |random: &mut Random| known.get(random.below(known.len() as u64) as usize).copied();
    match random.below(20) {
        0..=5 => {
            let length = length(random);
            let object = world.store(random.below(30), length);
            world.note_uses(object, random.below(4));
        }
        6 | 7 => {
            let length = length(random);
            let object = world.begin(random.below(30), length, random.below(2) == 0);
            open.push((object, 0));
        }
        8..=11 if !open.is_empty() => {
            let at = random.below(open.len() as u64) as usize;
            let (object, offset) = open[at];
            let left = world.objects[&object].length - offset;
            let count = left.min(random.below(60_000) + 1);
            world.push(object, offset, count);
            open[at].1 += count;
            if open[at].1 == world.objects[&object].length {
                open.swap_remove(at);
                world.end(object, End::Whole(world.objects[&object].length));
            } else if random.below(8) == 0 {
                open.swap_remove(at);
                world.end(object, if random.below(2) == 0 { End::Rest } else { End::Abandon });
            }
        }
        12 => {
            if let Some(object) = one(random) {
                open.retain(|(own, _)| *own != object);
                world.remove(object);
            }
        }
        13 => {
            if let Some(object) = one(random) {
                world.refresh(object);
            }
        }
        14 => {
            let Some(object) = one(random) else { return };
            if open.iter().all(|(own, _)| *own != object) && world.resume(object).is_none() {
                let length = world.objects[&object].length;
                let start = random.below(length.max(1));
                world.push(object, start, (length - start).min(50_000));
                world.end(object, End::Rest);
            }
        }
        15 => {
            world.sync();
        }
        16 if random.below(10) == 0 => {
            world.verify();
        }
        16 if random.below(3) == 0 => world.ask_for_recount(),
        16 | 17 => world.nudge(Duration::from_millis(random.below(700))),
        _ => world.pass(Duration::from_millis(random.below(300))),
    }
}

fn length(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => 0,
        1..=4 => random.below(3000),
        5 => 65_536 * random.below(3) + random.below(2),
        6 => random.below(100_000),
        _ => random.below(260_000),
    }
}

/// A course of several lives, each ended by a power cut or a kill.
fn course(seed: u64) {
    let mut random = Random(seed);
    let disk = CrashDisk::new(seed);
    let mut settings = settings(2 << 20, 128 << 10);
    // Some courses write checkpoints all the time.
    settings.journal_bytes_min = seed.is_multiple_of(2).then_some(500);
    let mut world = World::new(disk, settings).unwrap();
    for _ in 0..3 {
        let mut open = Vec::new();
        let is_kill = random.below(4) == 0;
        world.disk.fail_at(random.below(400), Fault::PowerCut);
        for step in 0..random.below(250) {
            if world.disk.is_down() {
                break;
            }
            act(&mut world, &mut random, &mut open);
            world.assert_ceiling();
            if (step + seed).is_multiple_of(3) {
                world.assert_stocks();
            }
        }
        world = world.reopen(if is_kill { Crash::Kill } else { Crash::Power });
        let report = world.verify();
        assert_eq!(report.damaged, 0, "what was found was whole");
        assert_eq!(report.objects, world.shared.index.len());
        world.assert_ceiling();
        world.assert_stocks();
    }
}

/// What has left the index with a segment that is being dropped is gone for good after a sync: a sweep does
/// not see it, and ends with one.
#[test]
fn a_sync_ends_the_drop_of_a_segment() {
    let mut met = 0;
    for seed in 0..20 {
        let mut world = World::new(CrashDisk::new(seed), settings(2 << 20, 128 << 10)).unwrap();
        for key in 0..200 {
            world.store(key, 20_000);
            world.nudge(Duration::from_millis(1));
            if world.engine.dropping_for_tests().is_none() {
                continue;
            }
            met += 1;
            world.sync_by_command();
            assert_eq!(world.engine.dropping_for_tests(), None);
            let found: BTreeSet<u64> = world.indexed().iter().map(|record| record.number).collect();
            let world = world.reopen(Crash::Power);
            let after: BTreeSet<u64> = world.indexed().iter().map(|record| record.number).collect();
            assert_eq!(after, found, "seed {seed}");
            break;
        }
    }
    assert!(met > 10, "{met}");
}

#[test]
fn what_was_durable_survives_every_power_cut() {
    if let Some(seed) = number("WEIR_VOLUME_SEED") {
        return course(seed);
    }
    for seed in 0..number("WEIR_VOLUME_SEEDS").unwrap_or(SEEDS) {
        if let Err(panic) = std::panic::catch_unwind(|| course(seed)) {
            println!("WEIR_VOLUME_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

pub(super) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// What a killed process leaves lies in the page cache alone. What is built on it must not.
#[test]
fn a_power_cut_after_a_kill_takes_nothing_that_was_durable() {
    for seed in 0..60 {
        let disk = CrashDisk::new(seed);
        let mut world = World::new(disk, settings(4 << 20, 1 << 20)).unwrap();
        for key in 0..6 {
            world.store(key, key * 20_000);
        }
        if seed.is_multiple_of(2) {
            world.sync();
            world.remove(3);
        }
        // The process ends while it makes something durable.
        world.disk.fail_at(seed / 2 % 6, Fault::PowerCut);
        world.sync();
        let mut world = world.reopen(Crash::Kill);
        let found = world.assert_true();
        assert!(found.len() >= 5);
        // Without another segment nothing else would make the names durable.
        let more = usize::from(seed.is_multiple_of(3));
        if more > 0 {
            world.store(9, 100);
        }
        assert!(world.sync());
        assert_eq!(world.reopen(Crash::Power).assert_true().len(), found.len() + more);
    }
}

/// One fixed course, cut at every one of its operations.
#[test]
fn a_power_cut_at_every_operation() {
    let mut cut = 0;
    loop {
        let mut random = Random(7);
        let mut world = World::new(CrashDisk::new(cut), settings(2 << 20, 128 << 10)).unwrap();
        world.disk.fail_at(cut, Fault::PowerCut);
        let mut open = Vec::new();
        for _ in 0..60 {
            if world.disk.is_down() {
                break;
            }
            act(&mut world, &mut random, &mut open);
        }
        let was_cut = world.disk.is_down();
        let mut world = world.reopen(Crash::Power);
        assert_eq!(world.verify().damaged, 0);
        if !was_cut {
            break;
        }
        cut += 1;
    }
    assert!(cut > 200, "{cut} operations");
}

/// The power goes while a volume is made, and while one is recovered.
#[test]
fn a_power_cut_at_every_operation_of_opening() {
    for cut in 0.. {
        let disk = CrashDisk::new(cut);
        disk.fail_at(cut, Fault::PowerCut);
        let world = World::new(disk.clone(), settings(2 << 20, 128 << 10));
        let was_cut = disk.is_down();
        drop(world);
        disk.restart();
        let mut world = World::new(disk, settings(2 << 20, 128 << 10)).unwrap();
        let object = world.store(1, 100);
        assert!(world.find(object).is_some());
        if !was_cut {
            break;
        }
    }
    for cut in 0.. {
        let mut world = World::new(CrashDisk::new(cut), settings(2 << 20, 128 << 10)).unwrap();
        let durable: Vec<u64> = (0..10).map(|key| world.store(key, key * 9000)).collect();
        world.sync();
        world.pass(Duration::from_secs(5));
        let late: Vec<u64> = (10..20).map(|key| world.store(key, key * 900)).collect();
        let (disk, objects) = (world.disk.clone(), world.objects.clone());
        drop(world);
        disk.fail_at(cut, Fault::PowerCut);
        let world = World::new(disk.clone(), settings(2 << 20, 128 << 10));
        let was_cut = disk.is_down();
        drop(world);
        disk.restart();
        let mut world = World::new(disk, settings(2 << 20, 128 << 10)).unwrap();
        world.objects = objects;
        let found = world.assert_true();
        assert!(durable.iter().all(|object| found.contains(object)), "cut at {cut}");
        assert!(found.iter().all(|object| durable.contains(object) || late.contains(object)));
        if !was_cut {
            break;
        }
    }
}
