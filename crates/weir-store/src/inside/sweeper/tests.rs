//! Purging, sweeping and crashing: what was purged is never found again, all else is, and the space is freed.
//!
//! `WEIR_SWEEP_SEEDS` sets how many histories are run, `WEIR_SWEEP_SEED` runs one.

mod world;

use std::collections::BTreeSet;
use std::time::Duration;

use weir_policy::Interval;

use self::world::{Beside, Target, World, fetch};
use super::{Pass, Stuck};
use crate::catalogue::{Change, Rows};
use crate::{Force, Place, Stamp};

const SEEDS: u64 = 60;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Random stores, purges, sweeps and crashes in several processes.
fn course(seed: u64) {
    let mut world = World::new(seed, if seed.is_multiple_of(3) { Beside::Nothing } else { Beside::Rows });
    for _ in 0..4 {
        for _ in 0..world.below(120) {
            world.act();
        }
        world.crash();
        world.assert_true();
    }
    world.finish();
}

#[test]
fn nothing_purged_comes_back_and_nothing_else_is_lost() {
    if let Some(seed) = number("WEIR_SWEEP_SEED") {
        return course(seed);
    }
    for seed in 0..number("WEIR_SWEEP_SEEDS").unwrap_or(SEEDS) {
        if let Err(panic) = std::panic::catch_unwind(|| course(seed)) {
            println!("WEIR_SWEEP_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn a_purged_tag_gives_its_space_back_and_its_mark_goes() {
    for beside in [Beside::Nothing, Beside::Rows] {
        let mut world = World::new(1, beside);
        for number in 0..60 {
            world.store(number, 60_000, if number < 50 { 1 } else { 2 });
        }
        world.settle();
        let full = world.store.volumes()[0].usage;
        assert_eq!(full.objects, 60);
        world.purge(Target::Tag(1), Force::Hard);
        assert_eq!(world.store.ledger().marks(), 1);
        assert_eq!(world.pass(), Ok(()));
        let swept = world.store.volumes()[0].usage;
        assert_eq!((swept.objects, swept.swept), (10, 50));
        assert_eq!(world.store.ledger().marks(), 0);
        // The segments between are dropped. The newest ones stay, with the live objects and the removals.
        assert!(swept.used_bytes < full.used_bytes / 3, "{} of {}", swept.used_bytes, full.used_bytes);
        assert!(swept.segments_freed > 10, "{}", swept.segments_freed);
        world.assert_true();
        world.crash();
        world.assert_true();
        assert_eq!(world.store.volumes()[0].usage.objects, 10);
    }
}

/// What a reader has begun it reads to the end, from the volume alone; no look-up finds it.
#[test]
fn a_body_that_is_swept_stays_for_those_who_read_it() {
    const LENGTH: u64 = 400_000;
    for target in [Target::All, Target::Site(2), Target::Tag(1), Target::Url(1), Target::Prefix(2)] {
        let mut world = World::new(1, Beside::Nothing);
        world.store(1, LENGTH, 1);
        world.settle();
        // Memory has none of it any more.
        world.crash();
        let found = world.find(1).unwrap();
        let mut all = Vec::new();
        assert!(fetch(&found, &mut Place::default(), &mut all, usize::MAX) && all.len() as u64 == LENGTH);
        let (mut place, mut bytes) = (Place::default(), Vec::new());
        found.note_reader(&mut place, || 7, Interval { start: 0, end: LENGTH });
        assert!(fetch(&found, &mut place, &mut bytes, 100_000));
        // Its segment is closed.
        (50..54).for_each(|key| world.store(key, 200_000, 2));
        world.settle();
        world.purge(target, Force::Hard);
        assert_eq!(world.pass(), Ok(()));
        world.sync();
        let usage = world.store.volumes()[0].usage;
        assert!(usage.segments_freed > 0 && usage.kept_bytes > 0, "{target:?}: {usage:?}");
        assert!(world.find(1).is_none());
        assert!(fetch(&found, &mut place, &mut bytes, usize::MAX) && bytes == all, "{target:?}");
        assert!(!place.is_lost());
        // Nobody else reads there.
        let mut stranger = Vec::new();
        drop(place);
        std::thread::sleep(Duration::from_secs(2));
        assert_eq!(world.store.volumes()[0].usage.kept_bytes, 0);
        assert!(!fetch(&found, &mut Place::default(), &mut stranger, usize::MAX));
        world.assert_true();
    }
}

#[test]
fn a_mark_that_all_was_swept_by_goes_after_a_crash_as_well() {
    let mut world = World::new(1, Beside::Nothing);
    world.purge(Target::Tag(1), Force::Hard);
    world.note_swept();
    world.crash();
    assert_eq!(world.store.ledger().marks(), 1);
    world.tick();
    assert_eq!(world.store.ledger().marks(), 0);
    world.finish();
}

/// All memory is stamped before marks are dropped, also where there are none.
#[test]
fn a_pass_without_marks_makes_nothing_dead() {
    for beside in [Beside::Nothing, Beside::Rows] {
        let mut world = World::new(1, beside);
        world.store(1, 3000, 1);
        world.settle();
        world.crash();
        assert_eq!(world.found(), BTreeSet::from([1]), "it is in memory from here on");
        world.settle();
        assert_eq!(world.pass(), Ok(()));
        world.purge(Target::Tag(2), Force::Hard);
        while world.store.sweep() {}
        world.assert_true();
        assert_eq!(world.found(), BTreeSet::from([1]));
    }
}

/// The power fails at every operation of a pass in turn.
#[test]
fn a_crash_at_every_operation_of_a_pass() {
    for beside in [Beside::Nothing, Beside::Rows] {
        for cut in 0.. {
            let mut world = World::new(cut, beside);
            for number in 0..12 {
                world.store(number, 3000, number % 3);
            }
            world.settle();
            world.purge(Target::Tag(1), Force::Hard);
            world.purge(Target::Tag(2), Force::Soft);
            world.purge(Target::Tag(0), Force::Lifetime(Duration::from_secs(5000)));
            world.cut_at(cut);
            let passed = world.pass();
            let was_cut = world.is_down();
            assert!(was_cut || passed.is_ok(), "{passed:?}");
            world.crash();
            world.assert_true();
            // The next process finishes what this one began.
            world.settle();
            assert_eq!(world.pass(), Ok(()));
            world.assert_true();
            assert_eq!(world.store.volumes()[0].usage.objects, 8);
            if !was_cut {
                break;
            }
        }
    }
}

/// The power may leave a segment's header and none of its records. The catalogue goes on behind it.
#[test]
fn a_segment_without_records_holds_no_catalogue_up() {
    let mut world = World::new(1, Beside::Rows);
    world.store(1, 3000, 1);
    world.settle();
    world.crash_leaving_a_header(2);
    // What is written from here on lies in segments behind that one.
    world.store(2, 3000, 1);
    world.settle();
    world.purge(Target::Tag(1), Force::Hard);
    assert_eq!(world.pass(), Ok(()));
    assert_eq!(world.store.ledger().marks(), 0);
    world.finish();
}

/// The pass waits for the catalogue to reach the log's end, and then the segment of that end is dropped.
#[test]
fn a_segment_that_goes_is_not_waited_for() {
    let mut world = World::new(1, Beside::Rows);
    world.store(1, 3000, 2);
    world.settle();
    world.rows = world::rows_of_another();
    world.crash_leaving_a_header(2);
    world.sync();
    world.purge(Target::Tag(1), Force::Hard);
    assert_eq!(world.pass_without_covering(), Err(Stuck::Behind));
    world.reclaim();
    assert_eq!(world.pass(), Ok(()));
}

#[test]
fn what_was_purged_softly_stays_outdated_without_its_mark() {
    for beside in [Beside::Nothing, Beside::Rows] {
        let mut world = World::new(5, beside);
        for number in 0..6 {
            world.store(number, 2000, number % 2);
        }
        world.settle();
        world.purge(Target::Tag(1), Force::Soft);
        assert_eq!(world.pass(), Ok(()));
        assert_eq!(world.store.ledger().marks(), 0);
        world.crash();
        assert_eq!(world.outdated(), BTreeSet::from([1, 3, 5]));
        // An index that is made again does not know it either.
        world.crash_without_index();
        assert_eq!(world.outdated(), BTreeSet::from([1, 3, 5]));
    }
}

#[test]
fn what_was_retained_stays_so_without_its_mark() {
    for beside in [Beside::Nothing, Beside::Rows] {
        let mut world = World::new(5, beside);
        for number in 0..6 {
            world.store(number, 2000, number % 2);
        }
        world.settle();
        let mut late = world.begin(7, 300_000, 1);
        world.push(&mut late, 200_000);
        world.purge(Target::Tag(1), Force::Soft);
        world.purge(Target::Tag(1), Force::Lifetime(Duration::from_secs(5000)));
        assert_eq!(world.pass(), Err(Stuck::Arriving), "the fill is waited for");
        world.push(&mut late, 100_000);
        world.seal(late);
        world.settle();
        assert_eq!(world.pass(), Ok(()));
        assert_eq!(world.store.ledger().marks(), 0);
        world.crash();
        assert_eq!(world.found().len(), 7);
        world.assert_true();
        world.crash_without_index();
        world.assert_true();
        // Shorter than before, and the process ends before the sweep.
        world.purge(Target::All, Force::Lifetime(Duration::from_secs(300)));
        world.crash();
        world.assert_true();
        world.finish();
    }
}

#[test]
fn an_index_made_again_brings_nothing_back() {
    for seed in 0..8 {
        let mut world = World::new(seed, if seed % 2 == 0 { Beside::Rows } else { Beside::Nothing });
        for number in 0..40 {
            world.store(number, 40_000, number % 4);
        }
        world.settle();
        world.purge(Target::Tag(seed % 4), Force::Hard);
        world.purge(Target::Url(7), Force::Hard);
        assert_eq!(world.pass(), Ok(()));
        // More objects arrive, are purged, and leave with the segments of their removals.
        for number in 40..60 {
            world.store(number, 40_000, 9);
        }
        world.settle();
        world.purge(Target::Tag(9), Force::Hard);
        assert_eq!(world.pass(), Ok(()));
        world.crash_without_index();
        world.assert_true();
        world.settle();
        assert_eq!(world.pass(), Ok(()));
        world.assert_true();
    }
}

/// A record is read twice where it has several rows. Meanwhile the first look may have replaced it, and then
/// the index cannot say any more that it was judged before.
#[test]
fn a_head_that_was_replaced_while_it_was_read_is_not_what_is_judged() {
    let mut world = World::new(1, Beside::Nothing);
    world.purge(Target::All, Force::Hard);
    world.store(1, 100_000, 1);
    world.settle();
    assert_eq!(world.pass(), Ok(()));
    assert_eq!(world.store.ledger().marks(), 0);
    let (tier, before) = (world.tier(), world.candidate(1));
    world.purge(Target::Url(1), Force::Lifetime(Duration::from_secs(5000)));
    assert_eq!(world.pass(), Ok(()));
    let replaced = tier.volume.record(before, &world::on_volume(1)).unwrap().unwrap();
    assert!(replaced.stamp < tier.volume.swept() && !tier.volume.is_current(&replaced));
    let mut pass = Pass::new(world.store.inside_for_tests(), &tier);
    assert_eq!(pass.look(&replaced), Ok(()));
    assert_eq!(pass.settle(), Ok(()));
    world.sync();
    world.crash();
    assert_eq!(world.found(), BTreeSet::from([1]));
    world.assert_true();
}

/// A mark stays while something that it concerns is arriving; otherwise that would be found afterwards.
#[test]
fn a_fill_that_was_under_way_is_waited_for() {
    for beside in [Beside::Nothing, Beside::Rows] {
        let mut world = World::new(3, beside);
        world.store(1, 1000, 1);
        world.settle();
        let mut purged = world.begin(2, 300_000, 1);
        let mut other = world.begin(3, 300_000, 2);
        world.push(&mut purged, 200_000);
        world.push(&mut other, 200_000);
        world.purge(Target::Tag(1), Force::Hard);
        assert_eq!(world.pass(), Err(Stuck::Arriving));
        // What was there is removed all the same, with the part of the fill that was published.
        assert_eq!(world.store.volumes()[0].usage.objects, 1);
        assert_eq!(world.store.ledger().marks(), 1);
        world.push(&mut purged, 100_000);
        world.seal(purged);
        assert_eq!(world.pass(), Err(Stuck::Arriving));
        world.push(&mut other, 100_000);
        world.seal(other);
        world.settle();
        assert_eq!(world.pass(), Ok(()));
        assert_eq!(world.store.ledger().marks(), 0);
        world.assert_true();
        assert_eq!(world.found(), BTreeSet::from([3]));
        world.crash();
        assert_eq!(world.found(), BTreeSet::from([3]));
    }
}

/// What was asked for before the marks were dropped and arrives afterwards is not kept.
#[test]
fn a_response_that_comes_after_its_mark_has_gone_is_dead() {
    let mut world = World::new(3, Beside::Rows);
    let early = world.store.ledger().current();
    world.store(1, 1000, 2);
    world.settle();
    world.purge(Target::Tag(1), Force::Hard);
    assert_eq!(world.pass(), Ok(()));
    world.store_at(early, 2, 1000, 1);
    world.settle();
    assert_eq!(world.found(), BTreeSet::from([1]));
    world.crash();
    assert_eq!(world.found(), BTreeSet::from([1]));
    assert!(world.store.ledger().current() > Stamp::of(early.number()));
}

#[test]
fn a_catalogue_that_is_late_lost_or_of_another_volume_is_made_again() {
    let mut world = World::new(4, Beside::Rows);
    for number in 0..30 {
        world.store(number, 1000, number % 2);
    }
    assert!(world.store.sync_for_tests());
    world.purge(Target::Tag(1), Force::Hard);
    assert_eq!(world.pass_without_covering(), Err(Stuck::Behind));
    world.settle();
    assert_eq!(world.pass(), Ok(()));
    assert_eq!(world.found().len(), 15);
    world.rows = world::rows_of_another();
    world.crash();
    world.settle();
    world.purge(Target::Tag(0), Force::Hard);
    assert_eq!(world.pass(), Ok(()));
    assert!(world.found().is_empty());
}

/// Verifying recounts the rows: missing ones are added, useless ones removed.
#[test]
fn a_recount_mends_the_catalogue() {
    let mut world = World::new(4, Beside::Rows);
    for number in 0..20 {
        world.store(number, 1000, number % 2);
    }
    world.settle();
    world.rows.tidy_by(None);
    let full = world.rows.content();
    assert_eq!(full.len(), 1 + 20 * 4);
    let verify = |world: &World| {
        let verified = world.store.verify(&|| std::ops::ControlFlow::Continue(())).remove(0).1.unwrap();
        (verified.objects, verified.rows_missing, verified.rows_superfluous)
    };
    assert_eq!(verify(&world), (20, 0, 0));
    let lost: Vec<_> = full.iter().skip(1).step_by(7).map(|(key, _)| Change::Remove { key }).collect();
    let strange = [3, 0, 0, 0, 0, 0, 0, 0, 9];
    let more = [Change::Put { key: &strange, value: &[7; 28] }, Change::Put { key: &[9], value: &[] }];
    world.rows.apply(&lost).unwrap();
    world.rows.apply(&more).unwrap();
    assert_eq!(verify(&world), (20, lost.len() as u64, 2));
    // A row that is made again tells the time of its response to some milliseconds.
    let keys = |rows: &[(Vec<u8>, Vec<u8>)]| rows.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    assert!(keys(&world.rows.content()) == keys(&full), "the rows are not mended");
    assert_eq!(verify(&world), (20, 0, 0));
    // What is not covered yet is not missing, and what has left keeps its rows for a while.
    world.store(30, 1000, 3);
    world.store(0, 1000, 4);
    assert!(world.store.sync_for_tests());
    assert_eq!(verify(&world), (21, 0, 4));
    world.settle();
    assert_eq!(verify(&world), (21, 0, 0));
}

#[test]
fn rows_that_fail_are_done_without() {
    let mut world = World::new(4, Beside::Rows);
    for number in 0..30 {
        world.store(number, 1000, number % 2);
    }
    world.settle();
    world.rows.fail_in(0);
    world.purge(Target::Tag(1), Force::Hard);
    assert_eq!(world.pass(), Err(Stuck::Failed));
    assert_eq!(world.store.ledger().marks(), 1);
    assert_eq!(world.pass(), Ok(()));
    assert_eq!(world.store.volumes()[0].usage.objects, 15);
}

/// A volume that takes nothing more keeps its marks; memory is swept as always.
#[test]
fn a_volume_that_fails_keeps_the_marks() {
    let mut world = World::new(4, Beside::Nothing);
    world.store(1, 1000, 1);
    world.settle();
    world.cut_at(0);
    world.purge(Target::Tag(1), Force::Hard);
    assert_eq!(world.pass(), Err(Stuck::Failed));
    assert_eq!(world.store.ledger().marks(), 1);
    assert!(world.found().is_empty());
}
