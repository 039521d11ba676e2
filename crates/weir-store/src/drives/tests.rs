//! Volumes come, fail, are emptied and go, on drives that do what a test says, without a socket.

mod rig;

use std::time::Duration;

use proptest::prelude::*;
use weir_disk::testing::{CrashDisk, Fault};
use weir_disk::{Disk, Room};

use self::rig::{Rig, SIZE_BYTES, World, wanted};
use super::{Begin, Change, Drain, Unopened, Wanted};
use crate::VolumeState;
use crate::register::Distrust;
use crate::samples::put;

const A: &str = "/drives/a";
const B: &str = "/drives/b";

fn s(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn machine(names: &[&str]) -> Rig {
    let rig = Rig::default();
    names.iter().zip(1..).for_each(|(name, seed)| rig.put(name, &CrashDisk::new(seed)));
    rig
}

/// One volume that holds something.
fn with_an_object() -> World {
    let world = World::start(&machine(&[A]), &CrashDisk::new(9), &[wanted(A)]).unwrap();
    put(&world.store, 1, 1000);
    world.until("it is written", |world| world.objects(A) == 1);
    assert!(matches!(&world.rig.changes()[..], [(name, Change::Opened { .. })] if name == A));
    world
}

/// What was told of volume A, but that it was opened.
fn told(world: &World) -> Vec<Change> {
    let changes = world.rig.changes().into_iter();
    let of_a = changes.filter(|(name, change)| name == A && !matches!(change, Change::Opened { .. }));
    of_a.map(|(_, change)| change).collect()
}

#[test]
fn volumes_are_opened_and_found_again_by_the_next_process() {
    let world = with_an_object();
    let (rig, power) = (world.rig.clone(), world.power.clone());
    let report = world.report(A);
    assert_eq!((report.state, report.why, report.drain), (VolumeState::Up, None, None));
    assert_eq!(report.held.unwrap().usage.size_bytes, SIZE_BYTES);
    world.end();
    let world = World::start(&rig, &power, &[wanted(A)]).unwrap();
    assert_eq!((world.state(A), world.objects(A)), (VolumeState::Up, 1));
    assert_eq!(told(&world), [], "nothing is amiss with it");
}

#[test]
fn what_a_person_has_to_mend_ends_the_start() {
    let (rig, power) = (machine(&[A]), CrashDisk::new(9));
    rig.lock(A, true);
    let error = World::start(&rig, &power, &[wanted(A)]).unwrap_err();
    assert!(matches!(&error, Unopened::InUse(name) if name == A), "{error}");
    rig.lock(A, false);
    rig.disk(A).put("segments/00000001.seg", Some(b"of another"));
    let error = World::start(&rig, &power, &[wanted(A)]).unwrap_err();
    assert!(error.sentence().contains("segments and no superblock"), "{}", error.sentence());
    let small = Wanted { size_bytes: Some(1), ..wanted(B) };
    rig.put(B, &CrashDisk::new(2));
    assert!(World::start(&rig, &power, &[small]).unwrap_err().sentence().contains("a volume has between"));
}

#[test]
fn a_known_folder_without_its_volume_does_not_end_the_start() {
    let world = with_an_object();
    let (rig, power) = (world.rig.clone(), world.power.clone());
    world.end();
    ["superblock", "superblock-2"].iter().for_each(|name| rig.disk(A).put(name, None));
    let world = World::start(&rig, &power, &[wanted(A)]).unwrap();
    assert_eq!(world.state(A), VolumeState::Ejected);
    assert!(world.report(A).why.unwrap().contains("no superblock"));
}

#[test]
fn a_drive_that_fails_at_the_start_is_tried_again_ever_later() {
    let (rig, power) = (machine(&[A]), CrashDisk::new(9));
    rig.disk(A).fail_from(0, Fault::Io);
    let world = World::start(&rig, &power, &[wanted(A)]).unwrap();
    let report = world.report(A);
    assert_eq!((report.state, report.rests_for), (VolumeState::Ejected, Some(s(5))));
    assert!(report.held.is_none());
    assert!(matches!(&told(&world)[..], [Change::NotOpened(why)] if why.contains("the device fails")));
    world.pass(s(4));
    assert_eq!(world.state(A), VolumeState::Ejected, "not before its time");
    world.pass(s(1));
    assert_eq!(world.state(A), VolumeState::Probing);
    world.until("it fails again", |world| world.state(A) == VolumeState::Ejected);
    assert_eq!(world.report(A).rests_for, Some(s(10)), "twice as long");
    assert_eq!(told(&world), [], "the same is not told again");
    rig.disk(A).fail_no_more();
    world.pass(s(10));
    world.until("it is opened", |world| world.state(A) == VolumeState::Up);
    assert_eq!(told(&world), [Change::Up]);
}

#[test]
fn a_drive_that_does_not_answer_is_slow_and_then_let_go() {
    let world = with_an_object();
    world.rig.disk(A).hold();
    world.pass(s(0));
    world.pass(s(3));
    assert_eq!(world.state(A), VolumeState::Slow);
    assert_eq!(told(&world), [Change::Slow(s(2))]);
    world.rig.disk(A).let_go();
    world.pass_until("it keeps up again", s(1), |world| world.state(A) == VolumeState::Up);
    assert_eq!(told(&world), [Change::Up]);
    world.rig.disk(A).hold();
    world.pass(s(0));
    world.pass(s(31));
    assert_eq!(world.state(A), VolumeState::Ejected);
    assert!(world.report(A).why.unwrap().contains("has not come back"));
    assert_eq!(world.objects(A), 1, "what it held is told on");
    world.pass(s(600));
    assert_eq!(world.state(A), VolumeState::Ejected, "its folder is not free before it is closed");
    world.rig.disk(A).let_go();
    world.pass_until("it is opened again", s(1), |world| world.state(A) == VolumeState::Up);
    assert!(told(&world).contains(&Change::Distrusted(Distrust::Away)));
}

#[test]
fn a_volume_whose_reads_fail_is_let_go() {
    let world = with_an_object();
    let tier = world.supervisor.tiers_for_tests().remove(0);
    tier.volume().sync();
    world.rig.disk(A).fail_from(0, Fault::Io);
    for _ in 0..crate::volume::READ_ERRORS_MAX {
        let _ = tier.volume().walk(|_| std::ops::ControlFlow::Continue(()));
    }
    drop(tier);
    world.pass(s(0));
    assert_eq!(world.state(A), VolumeState::Ejected);
    assert!(matches!(&told(&world)[..], [Change::LetGo(why)] if why.starts_with("32 reads")));
    world.rig.disk(A).fail_no_more();
    world.pass_until("it is opened again", s(1), |world| world.state(A) == VolumeState::Up);
}

#[test]
fn in_the_folder_beneath_a_mount_that_is_gone_no_volume_is_made() {
    let world = with_an_object();
    world.rig.mount(A, false);
    world.until("it is let go", |world| world.state(A) == VolumeState::Ejected);
    assert_eq!(told(&world), [Change::LetGo("its folder is not there any more".to_owned())]);
    world.pass_until("it is looked for", s(1), |world| {
        world.report(A).why.is_some_and(|why| why == format!("no drive is mounted where {A} was"))
    });
    world.rig.mount(A, true);
    world.pass_until("it is back", s(1), |world| world.state(A) == VolumeState::Up);
    assert_eq!(world.objects(A), 1);
    assert!(told(&world).contains(&Change::Distrusted(Distrust::Away)));
}

#[test]
fn a_drive_that_is_read_only_at_the_start_is_opened_again_when_it_can_be_written() {
    let world = with_an_object();
    let (rig, power) = (world.rig.clone(), world.power.clone());
    world.end();
    rig.protect(A, true);
    let world = World::start(&rig, &power, &[wanted(A)]).unwrap();
    assert_eq!((world.state(A), world.objects(A)), (VolumeState::ReadOnly, 1));
    assert_eq!(told(&world), [Change::Unstoring("nothing can be written")]);
    rig.protect(A, false);
    world.until("it is opened again", |world| world.state(A) == VolumeState::Up);
    assert_eq!(world.objects(A), 1);
    assert!(matches!(told(&world).first(), Some(Change::OpenedAgain(_))));
}

#[test]
fn a_file_system_that_others_have_filled_takes_nothing_until_there_is_room() {
    let world = with_an_object();
    let free = world.rig.disk(A).room().unwrap();
    world.rig.disk(A).set_room(Room { free_bytes: 0, ..free });
    (2..12).for_each(|number| drop(put(&world.store, number, 60_000)));
    world.until("it is full", |world| world.state(A) == VolumeState::Full);
    assert_eq!(told(&world), [Change::Unstoring("others have filled the file system")]);
    world.rig.disk(A).set_room(free);
    world.pass_until("it tries again", s(1), |world| world.state(A) == VolumeState::Up);
    world.pass(s(1));
    assert_eq!(told(&world), [], "it may be full again at once");
    world.pass_until("that is told", s(1), |world| told(world) == [Change::Storing]);
    assert_eq!(world.state(A), VolumeState::Up);
}

#[test]
fn a_drained_volume_is_emptied_onto_the_others() {
    let world = with_an_object();
    world.rig.put(B, &CrashDisk::new(2));
    let drained = Wanted { is_drained: true, ..wanted(A) };
    world.supervisor.configure(&[drained.clone(), wanted(B)]);
    assert_eq!(world.report(A).drain, Some(Drain::Draining));
    world.pass_until("it is empty", s(1), |world| world.report(A).drain == Some(Drain::Drained));
    assert_eq!((world.objects(A), world.objects(B)), (0, 1));
    assert_eq!(told(&world), [Change::Emptied]);
    assert_eq!(world.state(A), VolumeState::Up, "it goes on serving");
    world.supervisor.configure(&[wanted(A), wanted(B)]);
    assert_eq!(world.report(A).drain, None);
}

#[test]
fn another_size_weight_or_budget_holds_at_once() {
    let world = with_an_object();
    let other = Wanted {
        size_bytes: Some(4 << 20),
        weight: std::num::NonZeroU32::new(7),
        write_budget_bytes: Some(1 << 30),
        ..wanted(A)
    };
    world.supervisor.configure(&[other]);
    let held = world.report(A).held.unwrap();
    assert_eq!((held.usage.size_bytes, held.weight), (4 << 20, 7));
    assert_eq!(held.budget.limit_bytes, Some(1 << 30));
    assert_eq!(told(&world), [Change::Resized(4 << 20), Change::Budgeted]);
}

#[test]
fn a_volume_that_is_taken_out_is_away_when_it_is_put_back() {
    let world = with_an_object();
    world.supervisor.configure(&[]);
    assert!(!world.report(A).state.eq(&VolumeState::Up), "it is asked nothing any more");
    world.until("it is closed and forgotten", |world| world.find(A).is_none());
    assert_eq!(told(&world), [], "nothing has failed");
    world.supervisor.configure(&[wanted(A)]);
    world.until("it is opened", |world| world.state(A) == VolumeState::Up);
    assert_eq!(world.objects(A), 1);
    assert!(told(&world).contains(&Change::Distrusted(Distrust::Away)));
}

#[test]
fn a_copy_of_a_volume_is_not_used_beside_it() {
    let world = with_an_object();
    let copy = CrashDisk::new(3);
    for path in world.rig.disk(A).paths() {
        copy.put(&path, Some(&world.rig.disk(A).content(&path).unwrap()));
    }
    world.rig.put(B, &copy);
    world.supervisor.configure(&[wanted(A), wanted(B)]);
    world.until("it is refused", |world| world.state(B) == VolumeState::Ejected);
    assert!(world.report(B).why.unwrap().contains("one is a copy of the other"));
    assert_eq!(world.state(A), VolumeState::Up);
}

#[test]
fn while_another_process_has_the_volumes_none_is_opened() {
    let first = with_an_object();
    let second = World::new(&first.rig, &first.power, Begin::Later);
    second.supervisor.configure(&[wanted(A)]);
    second.supervisor.await_start().unwrap();
    second.pass(s(60));
    assert_eq!((second.state(A), second.report(A).held.is_none()), (VolumeState::Probing, true));
    assert!(second.store.expects_volumes());
    first.end();
    second.supervisor.begin();
    second.until("it is opened", |world| world.state(A) == VolumeState::Up);
    assert_eq!(second.objects(A), 1);
    assert!(!second.store.expects_volumes());
    assert_eq!(told(&second), [], "it was not away");
}

#[test]
fn a_register_that_cannot_be_written_is_written_when_it_can_be() {
    let world = with_an_object();
    world.power.fail_from(0, Fault::Full);
    world.pass_until("it is said", s(1), |world| world.rig.said_of_register() == ["unwritten"]);
    world.pass(s(5));
    assert!(world.rig.said_of_register().is_empty(), "once");
    world.power.fail_no_more();
    world.pass_until("it is written", s(1), |world| world.rig.said_of_register() == ["written"]);
}

/// What may happen to a machine with two drives.
#[derive(Debug, Clone, Copy)]
enum Turn {
    Pass(u64),
    Mount(&'static str, bool),
    Hold(&'static str, bool),
    Fail(&'static str, bool),
    Configure { a: bool, b: bool, drains: bool },
    Put(u64),
}

fn turn() -> impl Strategy<Value = Turn> {
    let drive = || prop_oneof![Just(A), Just(B)];
    prop_oneof![
        (0..40_u64).prop_map(Turn::Pass),
        (drive(), any::<bool>()).prop_map(|(name, is)| Turn::Mount(name, is)),
        (drive(), any::<bool>()).prop_map(|(name, is)| Turn::Hold(name, is)),
        (drive(), any::<bool>()).prop_map(|(name, is)| Turn::Fail(name, is)),
        any::<[bool; 3]>().prop_map(|[a, b, drains]| Turn::Configure { a, b, drains }),
        (0..50_u64).prop_map(Turn::Put),
    ]
}

fn take_turn(world: &World, turn: Turn) {
    match turn {
        Turn::Pass(seconds) => world.pass(s(seconds)),
        Turn::Mount(name, is_mounted) => world.rig.mount(name, is_mounted),
        Turn::Hold(name, true) => world.rig.disk(name).hold(),
        Turn::Hold(name, false) => world.rig.disk(name).let_go(),
        Turn::Fail(name, true) => world.rig.disk(name).fail_from(0, Fault::Io),
        Turn::Fail(name, false) => world.rig.disk(name).fail_no_more(),
        Turn::Configure { a, b, drains } => {
            let one = |name, is: bool| is.then(|| Wanted { is_drained: drains && is, ..wanted(name) });
            let volumes: Vec<Wanted> = [one(A, a), one(B, b)].into_iter().flatten().collect();
            world.supervisor.configure(&volumes);
        }
        Turn::Put(number) => drop(put(&world.store, number, 5000)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// A folder is never opened twice nor beneath a mount (the rig says so), and once drives are well and
    /// wanted they come back by themselves.
    #[test]
    fn whatever_drives_do_they_are_up_again_when_they_are_well(
        turns in prop::collection::vec(turn(), 1..40),
    ) {
        let rig = machine(&[A, B]);
        let world = World::start(&rig, &CrashDisk::new(9), &[wanted(A), wanted(B)]).unwrap();
        for turn in turns {
            take_turn(&world, turn);
            world.pass(s(0));
        }
        for name in [A, B] {
            rig.mount(name, true);
            rig.disk(name).let_go();
            rig.disk(name).fail_no_more();
        }
        world.supervisor.configure(&[wanted(A), wanted(B)]);
        world.pass_until("all are up", s(1), |world| {
            [A, B].iter().all(|name| world.find(name).is_some_and(|told| told.state == VolumeState::Up))
        });
        let busy = |change: &Change| matches!(change, Change::NotOpened(why) if why.contains("another Weir"));
        prop_assert!(!rig.changes().iter().any(|(_, change)| busy(change)));
        world.end();
    }
}

#[test]
fn what_is_told_of_volumes_waits_for_no_state_folder() {
    let world = with_an_object();
    world.power.hold();
    // A note is due.
    world.advance(s(11));
    let (supervisor, looked) = (world.supervisor.clone(), std::sync::mpsc::channel());
    let look = std::thread::spawn(move || supervisor.look_after(Duration::ZERO));
    while !look.is_finished() {
        let (supervisor, say) = (world.supervisor.clone(), looked.0.clone());
        std::thread::spawn(move || say.send(supervisor.reports()));
        let told = looked.1.recv_timeout(s(60)).expect("the reports wait");
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].held.as_ref().map(|held| held.usage.objects), Some(1));
    }
    assert_eq!(world.rig.said_of_register(), ["unwritten"]);
    world.power.let_go();
    world.pass_until("it is written", s(1), |world| world.rig.said_of_register() == ["written"]);
}
