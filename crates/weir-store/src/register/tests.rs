//! Which volumes were there all the time, and which were not.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use weir_disk::OsDisk;

use super::{Arriving, Bears, Distrust, NAME, Opening, Reached, Register, State};
use crate::Durable;
use crate::Ledger;
use crate::ledger::Stamp;
use crate::samples::{Folder, now};
use weir_disk::testing::{CrashDisk, Fault};

fn open(folder: &Folder) -> Register {
    let (register, is_damaged) = Register::open(Arc::new(OsDisk::at(folder.path()))).unwrap();
    assert!(!is_damaged);
    register
}

fn volume(id: u128, epoch: u64) -> Arriving<'static> {
    Arriving {
        id,
        path: "/drives/a b",
        reached: Reached { epoch, end: 2 * epoch },
        opening: Opening { found: 5, own: 5 },
        bears: Bears::default(),
        is_empty: false,
        is_mount: true,
    }
}

fn bears(largest: u64) -> Bears {
    Bears { largest, ..Bears::default() }
}

#[test]
fn one_that_was_there_all_the_time_is_believed() {
    let (folder, ledger) = (Folder::new("register-0"), Ledger::default());
    let first = open(&folder).arrive(Arriving { is_empty: true, ..volume(7, 0) }, &ledger).unwrap();
    assert!(first.distrust.is_none());
    open(&folder).note(&[(7, Reached { epoch: 41, end: 82 })], 1000, &ledger).unwrap();
    assert_eq!(open(&folder).numbers(), 1000);
    let again = open(&folder).arrive(volume(7, 41), &ledger).unwrap();
    assert_eq!((again.distrust, again.suspect_before, again.dead_before), (None, Stamp::of(0), Stamp::of(0)));
}

#[test]
fn one_that_is_unknown_behind_or_was_away_is_asked_about() {
    let (folder, ledger) = (Folder::new("register-1"), Ledger::default());
    let register = open(&folder);
    // From another installation.
    let before = ledger.current();
    let arrival = register.arrive(volume(1, 5), &ledger).unwrap();
    assert!(arrival.distrust.is_some() && arrival.suspect_before > before);
    // An old copy.
    register.note(&[(1, Reached { epoch: 9, end: 18 })], 0, &ledger).unwrap();
    let restored = open(&folder).arrive(volume(1, 8), &ledger).unwrap();
    assert!(restored.distrust.is_some() && restored.suspect_before > arrival.suspect_before);
    // One whose index was made again is judged by its log.
    register.note(&[(1, Reached { epoch: 9, end: 18 })], 0, &ledger).unwrap();
    let remade = |end| Arriving { reached: Reached { epoch: 0, end }, ..volume(1, 0) };
    assert!(open(&folder).arrive(remade(18), &ledger).unwrap().distrust.is_none());
    open(&folder).note(&[(1, Reached { epoch: 9, end: 18 })], 0, &ledger).unwrap();
    let restored = open(&folder).arrive(remade(17), &ledger).unwrap();
    assert!(restored.distrust.is_some());
    // It is away for a while.
    let register = open(&folder);
    register.leave(1, true).unwrap();
    assert!(register.is_somebody_away());
    let back = open(&folder).arrive(volume(1, 100), &ledger).unwrap();
    assert!(back.distrust.is_some() && back.suspect_before > restored.suspect_before);
    // It stays suspect when it is there again all the time.
    assert_eq!(open(&folder).arrive(volume(1, 100), &ledger).unwrap().suspect_before, back.suspect_before);
}

#[test]
fn what_was_away_while_marks_went_is_dead() {
    let (folder, ledger) = (Folder::new("register-2"), Ledger::default());
    ledger.raise(77);
    let register = open(&folder);
    for id in [1, 2, 3] {
        register
            .arrive(Arriving { path: ["/a", "/b", "/c"][id as usize - 1], ..volume(id, 0) }, &ledger)
            .unwrap();
    }
    register.leave(1, true).unwrap();
    register.lose(Stamp::of(77), &[2], &[(3, Reached { epoch: 12, end: 24 })]).unwrap();
    let register = open(&folder);
    let dead = |id| register.arrive(volume(id, 50), &ledger).unwrap().dead_before;
    assert_eq!([dead(1), dead(2), dead(3)], [Stamp::of(77), Stamp::of(77), Stamp::of(0)]);
}

#[test]
fn one_that_is_still_being_opened_is_waited_for_and_lacks_what_is_lost_meanwhile() {
    let (folder, ledger) = (Folder::new("register-late"), Ledger::default());
    ledger.raise(77);
    let register = open(&folder);
    register.arrive(Arriving { path: "/a", is_empty: true, ..volume(1, 0) }, &ledger).unwrap();
    register.arrive(Arriving { path: "/b", is_empty: true, ..volume(2, 0) }, &ledger).unwrap();
    // The next process has opened one of them, and not yet the other.
    let register = open(&folder);
    assert!(register.arrive(Arriving { path: "/a", ..volume(1, 5) }, &ledger).unwrap().distrust.is_none());
    assert!(register.is_somebody_away());
    register.lose(Stamp::of(77), &[], &[]).unwrap();
    let late = register.arrive(Arriving { path: "/b", ..volume(2, 5) }, &ledger).unwrap();
    assert_eq!((late.distrust, late.dead_before), (None, Stamp::of(77)));
    assert!(!register.is_somebody_away());
}

#[test]
fn what_nobody_expects_is_not_waited_for_and_not_believed() {
    let (folder, ledger) = (Folder::new("register-3"), Ledger::default());
    let register = open(&folder);
    register.arrive(volume(1, 0), &ledger).unwrap();
    register.call(&["/drives/other"], &[]).unwrap();
    assert!(!register.is_somebody_away());
    assert!(register.was_mount("/drives/a b"));
    assert!(register.arrive(volume(1, 10), &ledger).unwrap().distrust.is_some());
    // Another drive in the same folder.
    register.arrive(volume(2, 0), &ledger).unwrap();
    assert!(!register.is_somebody_away());
    assert!(register.arrive(volume(1, 10), &ledger).unwrap().distrust.is_some());
}

#[test]
fn the_golden_text_is_what_is_written_and_read() {
    let golden = "weir volumes 3\nnumbers 5\nledger 1311768467463790320\n\
        announced 0000000000000001 fedcba9876543210\n\
        volume 000000000000000000000000000000fe present expected epoch 3 end 6 opening 0000000000000005 \
        ledger feed0000000000000000000000000001 trusted 0 dead 0 mount /drives/a b\n\
        sum 18a290c36106beb4\n";
    let entry = super::Entry {
        reached: Reached { epoch: 3, end: 6 },
        opening: 5,
        ledger: 0xfeed_0000_0000_0000_0000_0000_0000_0001,
        is_present: true,
        is_expected: true,
        is_mount: true,
        path: "/drives/a b".to_owned(),
        ..super::Entry::default()
    };
    let volumes = std::collections::BTreeMap::from([(0xfe, entry)]);
    let (ledger, announced) = (0x1234_5678_9abc_def0, vec![1, 0xfedc_ba98_7654_3210]);
    let state = State { numbers: 5, ledger, announced, volumes };
    assert_eq!(state.to_text(), golden);
    assert_eq!(State::read(golden.as_bytes()), Some(state.clone()));
    // The version before knows no ledger.
    let before = "weir volumes 2\nnumbers 5\n\
        volume 000000000000000000000000000000fe present expected epoch 3 end 6 opening 0000000000000005 \
        trusted 0 dead 0 mount /drives/a b\n\
        sum d5206ee493bbe3b9\n";
    let mut without = State { ledger: 0, announced: Vec::new(), ..state };
    without.volumes.values_mut().for_each(|entry| entry.ledger = 0);
    assert_eq!(State::read(before.as_bytes()), Some(without));
}

#[test]
fn what_was_cut_or_flipped_knows_nothing() {
    let mut state = State { numbers: 9, ..State::default() };
    state.volumes.insert(3, super::Entry { path: "/a\n\"ü\\".to_owned(), ..super::Entry::default() });
    let text = state.to_text().into_bytes();
    assert_eq!(State::read(&text), Some(state));
    for at in 0..text.len() {
        assert_eq!(State::read(&text[..at]), None, "cut at {at}");
        let mut flipped = text.clone();
        flipped[at] ^= 4;
        assert_eq!(State::read(&flipped), None, "flipped at {at}");
    }
}

#[test]
fn one_that_owed_something_and_has_said_it_is_believed_again() {
    let (folder, ledger) = (Folder::new("register-removals"), Ledger::default());
    let register = open(&folder);
    register.arrive(Arriving { is_empty: true, ..volume(7, 0) }, &ledger).unwrap();
    register.leave(7, true).unwrap();
    register.settle(7, Reached { epoch: 41, end: 82 }).unwrap();
    assert!(!register.is_somebody_away());
    assert!(open(&folder).arrive(volume(7, 41), &ledger).unwrap().distrust.is_none());
    // As far as it was then, and no less.
    assert!(open(&folder).arrive(volume(7, 40), &ledger).unwrap().distrust.is_some());
}

#[test]
fn one_of_two_copies_that_are_used_in_turn_is_asked_about() {
    let (folder, ledger) = (Folder::new("register-fork"), Ledger::default());
    let at = |epoch, found, own| Arriving { opening: Opening { found, own }, ..volume(7, epoch) };
    let first = Arriving { is_empty: true, ..at(0, 0, 1) };
    assert!(open(&folder).arrive(first, &ledger).unwrap().distrust.is_none());
    // Copied at 100; the original goes on.
    open(&folder).note(&[(7, Reached { epoch: 200, end: 400 })], 0, &ledger).unwrap();
    // The copy takes its place, and goes on to 150.
    assert!(open(&folder).arrive(at(100, 1, 2), &ledger).unwrap().distrust.is_some());
    open(&folder).note(&[(7, Reached { epoch: 150, end: 300 })], 0, &ledger).unwrap();
    assert!(open(&folder).arrive(at(150, 2, 3), &ledger).unwrap().distrust.is_none());
    // The original is put back: it is ahead, and lacks what the copy has seen.
    assert!(open(&folder).arrive(at(200, 1, 4), &ledger).unwrap().distrust.is_some());
}

#[test]
fn what_could_not_be_written_is_written_the_next_time() {
    let (folder, ledger) = (Folder::new("register-unwritten"), Ledger::default());
    let register = open(&folder);
    register.arrive(Arriving { is_empty: true, ..volume(7, 3) }, &ledger).unwrap();
    let obstacle = Obstacle::put(&folder);
    assert!(register.leave(7, true).is_err() && register.is_unwritten());
    drop(obstacle);
    register.leave(7, true).unwrap();
    assert!(!register.is_unwritten());
    assert!(open(&folder).arrive(volume(7, 3), &ledger).unwrap().distrust.is_some());
}

/// Lets the file be read and not written.
struct Obstacle(std::path::PathBuf);

impl Obstacle {
    fn put(folder: &Folder) -> Obstacle {
        let path = folder.path().join(NAME);
        std::fs::rename(&path, folder.path().join("kept")).unwrap();
        std::fs::create_dir(&path).unwrap();
        Obstacle(path)
    }
}

impl Drop for Obstacle {
    fn drop(&mut self) {
        std::fs::remove_dir(&self.0).unwrap();
        std::fs::rename(self.0.with_file_name("kept"), &self.0).unwrap();
    }
}

#[test]
fn a_volume_is_used_without_being_noted_only_where_it_is_suspect_afterwards() {
    let ledger = Ledger::default();
    let opening = |found, own| Arriving { opening: Opening { found, own }, ..volume(7, 3) };
    // What a volume is told then, and whether it is used. A start after that reads what was written before.
    for (own, is_used) in [(6, true), (5, false), (0, true)] {
        let folder = Folder::new("register-full");
        open(&folder).arrive(Arriving { is_empty: true, ..opening(4, 5) }, &ledger).unwrap();
        let register = open(&folder);
        let obstacle = Obstacle::put(&folder);
        let arrival = register.arrive(opening(5, own), &ledger);
        assert_eq!(arrival.is_ok(), is_used, "{own}");
        assert!(arrival.iter().all(|arrival| arrival.distrust.is_none()));
        // What only memory has says nothing of the disk.
        register.leave(7, true).unwrap_err();
        assert!(register.arrive(opening(5, 5), &ledger).is_err());
        drop(obstacle);
        let next = open(&folder).arrive(opening(own, 9), &ledger).unwrap();
        assert_eq!(next.distrust.is_some(), is_used, "{own}");
    }
}

#[test]
fn the_ledger_goes_beyond_all_that_a_volume_bears() {
    let (folder, ledger) = (Folder::new("register-ahead"), Ledger::default());
    let number = |of: &Ledger| of.current().number();
    let ahead = Arriving { bears: bears(1000), ..volume(7, 3) };
    let foreign = open(&folder).arrive(ahead, &ledger).unwrap();
    assert_eq!(foreign.distrust, Some(Distrust::Unknown));
    assert!(foreign.suspect_before.number() > 1000 && number(&ledger) > 1000);
    assert_eq!(open(&folder).arrive(ahead, &ledger).unwrap().distrust, None);
    // It goes on with this ledger, which is then put back from a copy while the register is not.
    let further = Arriving { bears: bears(number(&ledger) + 1000), ..volume(7, 3) };
    let behind = open(&folder).arrive(further, &ledger).unwrap();
    assert_eq!(behind.distrust, Some(Distrust::Ahead));
    assert!(behind.suspect_before > foreign.suspect_before && number(&ledger) > further.bears.largest);
    // Marks that the ledger has lost may concern the others.
    open(&folder).arrive(Arriving { path: "/b", is_empty: true, ..volume(9, 0) }, &ledger).unwrap();
    let further = Arriving { bears: bears(number(&ledger) + 1000), ..volume(7, 3) };
    let behind = open(&folder).arrive(further, &ledger).unwrap();
    let other = open(&folder).arrive(Arriving { path: "/b", ..volume(9, 3) }, &ledger).unwrap();
    assert_eq!((other.distrust, other.suspect_before), (None, behind.suspect_before));
    let absurd = Arriving { bears: bears(u64::MAX), ..volume(8, 3) };
    assert!(open(&folder).arrive(absurd, &ledger).is_err());
}

#[test]
fn what_was_used_with_a_ledger_that_is_lost_is_dead() {
    let (folder, ledger) = (Folder::new("register-orphan"), Ledger::default());
    open(&folder).arrive(Arriving { is_empty: true, ..volume(7, 0) }, &ledger).unwrap();
    let other = Ledger::default();
    // For any two numbers.
    let orphan = open(&folder).arrive(Arriving { bears: bears(1 << 40), ..volume(7, 3) }, &other).unwrap();
    assert_eq!(orphan.distrust, Some(Distrust::Orphaned));
    assert!(orphan.dead_before.number() > 1 << 40);
    let again = open(&folder).arrive(volume(7, 3), &other).unwrap();
    assert_eq!((again.distrust, again.dead_before), (None, orphan.dead_before));
}

#[test]
fn it_says_how_far_the_ledger_came() {
    let (folder, ledger) = (Folder::new("register-ledger"), Ledger::default());
    assert_eq!(open(&folder).ledger_number(), 0);
    ledger.raise(500);
    open(&folder).note(&[], 0, &ledger).unwrap();
    assert_eq!(open(&folder).ledger_number(), 500);
    open(&folder).note(&[], 0, &Ledger::default()).unwrap();
    assert_eq!(open(&folder).ledger_number(), 500, "it never falls");
}

#[test]
fn a_volume_that_knows_more_of_this_very_ledger_shows_that_it_is_a_copy() {
    let (folder, power) = (Folder::new("register-proof"), CrashDisk::new(1));
    let open_ledger = || Ledger::open(100, Arc::new(power.process()), 0, now()).unwrap();
    let id = open_ledger().id();
    let ledger = open_ledger();
    let found = ledger.found();
    let reached = |ledger, number| Bears { largest: number, reached: Durable { ledger, number } };
    open(&folder).arrive(Arriving { is_empty: true, ..volume(7, 0) }, &ledger).unwrap();
    let register = open(&folder);
    let arrive = |volume| register.arrive(volume, &ledger).unwrap().distrust;
    // Also where it is suspect for another reason: away, unknown, or empty.
    let elsewhere = Opening { found: 99, own: 100 };
    let ahead = Arriving { bears: reached(id, found + 1), opening: elsewhere, ..volume(7, 3) };
    assert_eq!(arrive(ahead), Some(Distrust::Ahead));
    assert_eq!(arrive(Arriving { id: 8, path: "/8", is_empty: true, ..ahead }), Some(Distrust::Ahead));
    // Neither the number of another ledger, nor one that this ledger has reached by now.
    let foreign = Arriving { id: 9, path: "/9", bears: reached(77, found + 1), ..ahead };
    assert_eq!(arrive(foreign), Some(Distrust::Unknown));
    assert_eq!(
        arrive(Arriving { id: 10, path: "/10", bears: reached(id, found), ..ahead }),
        Some(Distrust::Unknown)
    );
    register.leave(7, true).unwrap();
    let back = Arriving { opening: Opening { found: 100, own: 101 }, ..ahead };
    assert_eq!(arrive(back), Some(Distrust::Away), "it followed the ledger");
}

/// The power fails at every operation of a change: the register says what was known before, or what was being
/// written.
#[test]
fn a_register_is_whole_after_any_power_cut() {
    for cut in 0..12 {
        for seed in 0..40 {
            let (disk, ledger) = (CrashDisk::new(seed), Ledger::default());
            let open = || Register::open(Arc::new(disk.process())).unwrap();
            let register = open().0;
            register.arrive(Arriving { is_empty: true, ..volume(7, 0) }, &ledger).unwrap();
            disk.fail_at(cut, Fault::PowerCut);
            let noted = register.note(&[(7, Reached { epoch: 41, end: 82 })], 1000, &ledger);
            disk.cut(seed);
            let (again, is_damaged) = open();
            assert!(!is_damaged);
            match noted {
                Ok(()) => assert_eq!(again.numbers(), 1000),
                Err(_) => assert!(again.numbers() == 1000 || again.numbers() == 0),
            }
            assert!(again.knows("/drives/a b"));
        }
    }
}

#[test]
fn a_start_that_was_killed_before_it_wrote_that_a_volume_came_is_known() {
    let (folder, ledger) = (Folder::new("register-killed"), Ledger::default());
    let mut found = 0;
    let mut start = |is_empty, is_killed: bool, calls: bool| {
        let register = open(&folder);
        register.announce();
        let opening = Opening { found, own: register.opening(7) };
        found = opening.own;
        let arriving = Arriving { is_empty, opening, ..volume(7, 3) };
        let distrust = (!is_killed).then(|| register.arrive(arriving, &ledger).unwrap().distrust);
        if calls {
            register.call(&["/drives/a b"], &[7]).unwrap();
        }
        (distrust, register.opening(7) != opening.own)
    };
    assert_eq!(start(true, false, true), (Some(None), true), "a second opening has another number");
    for killed in [1, 5, 15] {
        for _ in 0..killed {
            start(false, true, false);
        }
        assert_eq!(start(false, false, true).0, Some(None), "after {killed} that were killed");
    }
    // A start that calls the volumes says nothing about the starts before it.
    let other = open(&folder);
    other.announce();
    let elsewhere = Opening { found: other.opening(8), own: 1 };
    open(&folder).announce();
    open(&folder).call(&["/drives/a b"], &[7]).unwrap();
    let late = open(&folder);
    late.announce();
    let distrust = late.arrive(Arriving { opening: elsewhere, ..volume(7, 3) }, &ledger).unwrap().distrust;
    assert_eq!(distrust, Some(Distrust::Away), "another volume's number, of a start long ago");
}

/// What `ask` says, or nothing where it waits.
fn at_once<T: Send + 'static>(ask: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    const LONG: Duration = Duration::from_secs(60);
    let (say, said) = mpsc::channel();
    std::thread::spawn(move || say.send(ask()));
    said.recv_timeout(LONG).ok()
}

#[test]
fn a_drive_that_hangs_keeps_no_worker_waiting_and_a_writer_once() {
    let (disk, ledger) = (CrashDisk::new(1), Arc::new(Ledger::default()));
    let register = Arc::new(Register::open(Arc::new(disk.process())).unwrap().0);
    register.arrive(Arriving { is_empty: true, ..volume(7, 0) }, &ledger).unwrap();
    disk.hold();
    let own = Arc::clone(&register);
    let first = std::thread::spawn(move || own.leave(7, true));
    let own = Arc::clone(&register);
    // It is known at once, while the file is being written.
    let known = at_once(move || {
        while !own.is_somebody_away() {
            std::thread::yield_now();
        }
        (own.knows("/drives/a b"), own.numbers(), own.is_unwritten())
    });
    assert_eq!(known, Some((true, 0, true)));
    let why = first.join().unwrap().unwrap_err();
    assert_eq!(why.to_string(), "the drive of the state folder does not answer");
    // Nobody waits for the same write again.
    let (own, with) = (Arc::clone(&register), Arc::clone(&ledger));
    let later = at_once(move || {
        let noted = (0..1000).all(|number| own.note(&[], 5 + number, &with).is_err());
        (noted, own.arrive(Arriving { path: "/b", ..volume(8, 3) }, &with).is_err())
    });
    assert_eq!(later, Some((true, true)), "nor is a volume used that the next start would believe");
    disk.let_go();
    // The write that hung ends first.
    while register.note(&[], 2000, &ledger).is_err() {
        std::thread::yield_now();
    }
    assert!(!register.is_unwritten());
    let again = Register::open(Arc::new(disk.process())).unwrap().0;
    assert_eq!((again.numbers(), again.is_somebody_away()), (2000, true));
}
