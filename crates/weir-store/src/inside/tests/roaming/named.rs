//! Named cases of drives and ledgers that do not belong together: what a purge forbids does not come back.

use super::installation::{Kept, RECORD_BYTES, State};
use super::truth::Use;
use super::world::{AHEAD, End, Target, World};
use crate::{Force, MARKS_MAX};

const OBJECTS: u64 = 6;
const ALL: [Kept; 3] = [Kept::Ledger, Kept::End, Kept::Register];

/// One drive, and an installation that has it.
fn with_one(clock: i64) -> (World, usize) {
    let mut world = World::new(1, 1);
    let own = world.set_up(clock, MARKS_MAX);
    world.attach(own, 0);
    (world, own)
}

/// Stores all objects, durably.
fn fill(world: &mut World, installation: usize) {
    (0..OBJECTS).for_each(|url| world.put(installation, url));
    world.sync(installation);
}

/// The process ends in order, the state folder is changed, and another process begins.
fn restart_after(world: &mut World, installation: usize, act: impl FnOnce(&mut World)) {
    world.end(installation, End::Stop);
    act(world);
    world.start(installation);
    world.attach(installation, 0);
    world.call(installation);
}

fn restart(world: &mut World, installation: usize) {
    restart_after(world, installation, |_| {});
}

/// The drive goes to another installation.
fn carry(world: &mut World, to: usize) {
    world.eject(0, false);
    world.attach(to, 0);
}

/// Every object is answered as the origin has it, before and after a sweep and a restart.
fn assert_current(world: &mut World, installation: usize) {
    for round in ["at once", "after a sweep", "after a restart"] {
        for url in 0..OBJECTS {
            let got = world.get(installation, url);
            let version = world.truth.version(url);
            assert!(matches!(got, Ok((got, _)) if got == version), "{round}: {got:?} of {version}");
        }
        match round {
            "at once" => world.sweep(0),
            _ => restart(world, installation),
        }
    }
}

/// What the origin has meanwhile is not what is held.
fn change_all(world: &mut World) {
    (0..OBJECTS).for_each(|url| world.truth.change(url));
}

/// Nothing that is held is used, revalidated or not.
fn assert_all_dead(world: &mut World, installation: usize) {
    for url in 0..OBJECTS {
        assert!(!world.holds(installation, url), "{url} is there");
    }
}

/// Two installations, the second set up so many seconds later.
fn pair(seconds: u64) -> (World, usize, usize) {
    let mut world = World::new(1, 1);
    let older = world.set_up(0, MARKS_MAX);
    world.pass(seconds);
    let later = world.set_up(0, MARKS_MAX);
    (world, older, later)
}

#[test]
fn a_drive_of_an_installation_set_up_later_is_suspect() {
    let (mut world, older, later) = pair(3600);
    world.attach(later, 0);
    fill(&mut world, later);
    carry(&mut world, older);
    change_all(&mut world);
    assert_current(&mut world, older);
}

#[test]
fn a_purge_concerns_a_drive_of_an_installation_set_up_later() {
    for target in [Target::Url(1), Target::Tag(1), Target::All] {
        for sweeps_before in [false, true] {
            let (mut world, older, later) = pair(3600);
            world.attach(later, 0);
            fill(&mut world, later);
            if sweeps_before {
                world.purge(later, Target::Url(2), Force::Hard);
                world.sweep(0);
            }
            carry(&mut world, older);
            world.purge(older, target, Force::Hard);
            assert_current(&mut world, older);
        }
    }
}

#[test]
fn a_soft_purge_concerns_a_drive_of_an_installation_set_up_later() {
    let (mut world, older, later) = pair(3600);
    world.attach(later, 0);
    fill(&mut world, later);
    carry(&mut world, older);
    world.purge(older, Target::All, Force::Soft);
    assert_current(&mut world, older);
}

#[test]
fn of_a_failover_pair_each_has_the_drive_in_turn() {
    let (mut world, first, second) = pair(9);
    world.end(second, End::Stop);
    world.attach(first, 0);
    fill(&mut world, first);
    for turn in 0..4 {
        let (from, to) = if turn % 2 == 0 { (first, second) } else { (second, first) };
        world.purge(from, Target::Tag(turn % 3), Force::Hard);
        world.end(from, End::Stop);
        world.pass(60);
        change_all(&mut world);
        world.start(to);
        world.attach(to, 0);
        world.call(to);
        world.purge(to, Target::Tag((turn + 1) % 3), Force::Hard);
        for url in 0..OBJECTS {
            let (got, version) = (world.get(to, url), world.truth.version(url));
            assert!(matches!(got, Ok((got, _)) if got == version), "turn {turn}: {got:?} of {version}");
        }
        world.sync(to);
    }
    assert_current(&mut world, first);
}

/// A state folder is kept, used for some starts, and put back.
fn rolled_back(act: impl FnOnce(&mut World, usize)) -> (World, usize) {
    let (mut world, own) = with_one(0);
    world.copy(own);
    for _ in 0..3 {
        world.pass(60);
        restart(&mut world, own);
    }
    fill(&mut world, own);
    world.purge(own, Target::Tag(0), Force::Hard);
    restart_after(&mut world, own, |world| act(world, own));
    (world, own)
}

fn put_back(world: &mut World, own: usize, files: &[Kept]) {
    let state = world.installations[own].copies[0].clone();
    world.replace(own, files, &state);
}

fn put_all_back(world: &mut World, own: usize) {
    put_back(world, own, &ALL);
}

fn put_ledger_back(world: &mut World, own: usize) {
    put_back(world, own, &[Kept::Ledger]);
}

#[test]
fn a_state_that_was_put_back_forgets_no_purge() {
    let (mut world, own) = rolled_back(put_all_back);
    assert_current(&mut world, own);
}

#[test]
fn a_purge_concerns_what_is_there_after_the_state_was_put_back() {
    let (mut world, own) = rolled_back(put_all_back);
    world.purge(own, Target::All, Force::Hard);
    assert_current(&mut world, own);
}

#[test]
fn a_ledger_that_was_put_back_forgets_no_purge() {
    let (mut world, own) = rolled_back(put_ledger_back);
    assert_current(&mut world, own);
}

#[test]
fn a_purge_concerns_what_is_there_after_the_ledger_was_put_back() {
    for target in [Target::Url(1), Target::Tag(1), Target::All] {
        let (mut world, own) = rolled_back(put_ledger_back);
        world.purge(own, target, Force::Hard);
        assert_current(&mut world, own);
    }
}

/// A state folder is copied while the process runs, and put back after that very process has ended, as a
/// backup may be.
fn put_back_from_the_same_run(then: impl FnOnce(&mut World, usize)) {
    let (mut world, own) = with_one(0);
    fill(&mut world, own);
    world.copy(own);
    world.purge(own, Target::Tag(0), Force::Hard);
    then(&mut world, own);
    restart_after(&mut world, own, |world| put_all_back(world, own));
    assert_current(&mut world, own);
}

#[test]
fn a_state_put_back_from_a_copy_of_the_same_run_is_behind_what_was_stored_since() {
    put_back_from_the_same_run(|world, own| {
        world.put(own, OBJECTS);
        world.sync(own);
    });
}

#[test]
fn a_state_put_back_from_a_copy_of_the_same_run_is_behind_what_was_swept_since() {
    put_back_from_the_same_run(|world, own| {
        world.purge(own, Target::Tag(1), Force::Soft);
        world.sweep(0);
        world.purge(own, Target::Tag(2), Force::Hard);
    });
}

#[test]
fn a_state_put_back_from_a_copy_of_the_same_run_is_behind_a_purge_before_an_orderly_end() {
    put_back_from_the_same_run(|_, _| {});
}

#[test]
fn what_is_stored_after_a_drive_came_from_elsewhere_is_believed_at_the_next_start() {
    let (mut world, older, later) = pair(3600);
    world.attach(later, 0);
    fill(&mut world, later);
    carry(&mut world, older);
    fill(&mut world, older);
    for end in [End::Stop, End::Power, End::Kill] {
        world.end(older, end);
        world.start(older);
        world.attach(older, 0);
        world.call(older);
        for url in 0..OBJECTS {
            assert_eq!(world.get(older, url), Ok((1, Use::Plain)), "after {end:?}");
        }
    }
}

fn lose_ledger(world: &mut World, own: usize) {
    world.replace(own, &[Kept::Ledger], &State::new());
}

#[test]
fn all_is_dead_when_a_ledger_is_lost() {
    let (mut world, own) = with_one(0);
    fill(&mut world, own);
    world.pass(60);
    restart_after(&mut world, own, |world| lose_ledger(world, own));
    assert_all_dead(&mut world, own);
}

#[test]
fn all_is_dead_when_a_ledger_is_lost_that_began_under_a_clock_ahead() {
    let (mut world, own) = with_one(AHEAD);
    world.installations[own].clock = 0;
    restart(&mut world, own);
    fill(&mut world, own);
    world.pass(60);
    restart_after(&mut world, own, |world| lose_ledger(world, own));
    assert_all_dead(&mut world, own);
    fill(&mut world, own);
    world.purge(own, Target::All, Force::Hard);
    assert_current(&mut world, own);
}

/// A dozen starts within seconds, something stored, and the ledger lost.
fn lost_after_a_dozen_starts() -> (World, usize) {
    let (mut world, own) = with_one(0);
    for _ in 0..12 {
        world.pass(1);
        restart(&mut world, own);
    }
    fill(&mut world, own);
    restart_after(&mut world, own, |world| lose_ledger(world, own));
    (world, own)
}

#[test]
fn all_is_dead_when_a_ledger_is_lost_after_a_dozen_starts_within_seconds() {
    let (mut world, own) = lost_after_a_dozen_starts();
    assert_all_dead(&mut world, own);
}

#[test]
fn a_purge_concerns_what_is_there_after_a_dozen_starts_and_the_loss_of_the_ledger() {
    let (mut world, own) = lost_after_a_dozen_starts();
    world.purge(own, Target::All, Force::Hard);
    assert_current(&mut world, own);
}

/// Some purges, and then the end of the ledger's file is changed.
fn after_the_end_of_the_ledger(damage: impl FnOnce(&mut Vec<u8>)) {
    let (mut world, own) = with_one(0);
    fill(&mut world, own);
    // What is purged by its URL is removed at once.
    for tag in 0..3 {
        world.purge(own, Target::Tag(tag), Force::Hard);
    }
    restart_after(&mut world, own, |world| {
        let mut state = world.installations[own].state();
        damage(state.get_mut(&Kept::Ledger).unwrap());
        world.replace(own, &[Kept::Ledger], &state);
    });
    assert_current(&mut world, own);
}

#[test]
fn a_flipped_bit_in_the_last_record_forgets_no_purge() {
    after_the_end_of_the_ledger(|ledger| {
        let at = ledger.len() - RECORD_BYTES + 20;
        ledger[at] ^= 1;
    });
}

#[test]
fn a_file_that_is_shorter_by_whole_records_forgets_no_purge() {
    for records in 1..=3 {
        after_the_end_of_the_ledger(|ledger| ledger.truncate(ledger.len() - records * RECORD_BYTES));
    }
}

#[test]
fn a_file_that_is_shorter_by_whole_records_after_a_start_forgets_no_purge() {
    for records in 1..=4 {
        let (mut world, own) = with_one(0);
        fill(&mut world, own);
        (0..3).for_each(|tag| world.purge(own, Target::Tag(tag), Force::Hard));
        // The file is written again.
        restart(&mut world, own);
        restart_after(&mut world, own, |world| {
            let mut state = world.installations[own].state();
            let ledger = state.get_mut(&Kept::Ledger).unwrap();
            ledger.truncate(ledger.len() - records * RECORD_BYTES);
            world.replace(own, &[Kept::Ledger], &state);
        });
        assert_current(&mut world, own);
    }
}

#[test]
fn a_file_that_is_shorter_by_a_part_of_its_last_record_forgets_no_purge() {
    after_the_end_of_the_ledger(|ledger| ledger.truncate(ledger.len() - 10));
}

#[test]
fn a_sound_restart_keeps_what_was_not_purged() {
    let (mut world, own) = with_one(0);
    fill(&mut world, own);
    world.purge(own, Target::Url(0), Force::Hard);
    restart(&mut world, own);
    for url in 1..OBJECTS {
        assert_eq!(world.get(own, url), Ok((1, Use::Plain)));
    }
}
