//! A ledger that passes from one process to the next.

use std::sync::mpsc;

use super::*;
use weir_disk::testing::{CrashDisk, Fault};

/// Takes marks as another process would, or fails to.
struct Other {
    ledger: Option<Ledger>,
    taken: mpsc::Sender<usize>,
}

impl Successor for Other {
    fn take(&mut self, marks: &[Mark]) -> std::io::Result<()> {
        let marks = Mark::of_bytes(&Mark::to_bytes(marks)).unwrap();
        let _ = self.taken.send(marks.len());
        match &self.ledger {
            Some(ledger) => purge(ledger, &marks).map(|_| ()).map_err(std::io::Error::other),
            None => Err(std::io::Error::other("gone")),
        }
    }
}

#[test]
fn what_is_marked_while_the_file_is_given_away_goes_to_who_has_it() {
    let power = CrashDisk::new(1);
    let old = open(&power).unwrap();
    let before = old.current();
    purge(&old, &[site(1)]).unwrap();
    let unawaited = old.mark(&[site(2)], now());
    old.release().unwrap();
    assert_eq!(old.state().durable, unawaited.number(), "what was marked before is in the file");
    let (acknowledged, told) = mpsc::channel();
    old.purge(&[site(3)], now(), Box::new(move |written| acknowledged.send(written.is_ok()).unwrap()));
    old.mark(&[site(4)], now());
    assert_eq!(judge(&old, 3, before), Judged::Dead, "in force at once where it was made");
    let new = open(&power).unwrap();
    for (of, dead) in [(1, Judged::Dead), (2, Judged::Dead), (3, Judged::Alive), (4, Judged::Alive)] {
        assert_eq!(judge(&new, of, before), dead, "{of}");
    }
    assert!(told.try_recv().is_err(), "nobody has it");
    let (taken, took) = mpsc::channel();
    old.hand_over(Box::new(Other { ledger: Some(new), taken }));
    assert!(told.recv().unwrap());
    assert_eq!(took.recv().unwrap(), 2);
    old.mark(&[site(5)], now());
    assert_eq!(took.try_recv(), Ok(1), "who marks waits for the other");
    // Marks that are dropped here do not concern the other process.
    old.retire_marks(old.current());
    drop(old);
    assert!(took.try_recv().is_err());
    power.cut(3);
    let later = open(&power).unwrap();
    for of in 1..=5 {
        assert_eq!(judge(&later, of, before), Judged::Dead, "{of}");
    }
    assert_eq!(judge(&later, 6, before), Judged::Alive);
}

#[test]
fn who_marks_right_after_it_was_given_away_waits_for_the_other_as_well() {
    for _ in 0..20 {
        let power = CrashDisk::new(1);
        let old = open(&power).unwrap();
        old.release().unwrap();
        let new = open(&power).unwrap();
        let (taken, took) = mpsc::channel();
        old.hand_over(Box::new(Other { ledger: Some(new), taken }));
        old.mark(&[site(1)], now());
        assert_eq!(took.try_recv(), Ok(1));
    }
}

#[test]
fn a_file_that_nobody_took_is_written_again() {
    let power = CrashDisk::new(1);
    let ledger = open(&power).unwrap();
    let before = ledger.current();
    purge(&ledger, &[site(1)]).unwrap();
    ledger.release().unwrap();
    let (acknowledged, told) = mpsc::channel();
    ledger.purge(&[site(2)], now(), Box::new(move |written| acknowledged.send(written.is_ok()).unwrap()));
    // The other process has opened it and died.
    drop(open(&power).unwrap());
    ledger.resume();
    assert!(told.recv().unwrap());
    purge(&ledger, &[site(3)]).unwrap();
    power.cut(4);
    drop(ledger);
    let ledger = open(&power).unwrap();
    for of in 1..=3 {
        assert_eq!(judge(&ledger, of, before), Judged::Dead, "{of}");
    }
}

#[test]
fn a_successor_that_fails_acknowledges_nothing() {
    let power = CrashDisk::new(1);
    let ledger = open(&power).unwrap();
    ledger.release().unwrap();
    let (taken, _took) = mpsc::channel();
    ledger.hand_over(Box::new(Other { ledger: None, taken }));
    assert!(purge(&ledger, &[site(1)]).is_err());
    assert!(ledger.release().is_err(), "what is given away cannot be given twice");
}

#[test]
fn a_file_that_cannot_be_written_is_not_given_away() {
    let power = CrashDisk::new(1);
    let ledger = open(&power).unwrap();
    let before = ledger.current();
    ledger.mark(&[site(1)], now());
    power.fail_at(0, Fault::Io);
    assert!(ledger.release().is_err());
    purge(&ledger, &[site(2)]).unwrap();
    power.cut(5);
    drop(ledger);
    assert_eq!(judge(&open(&power).unwrap(), 1, before), Judged::Dead);
}

#[test]
fn a_drive_that_hangs_ends_the_handover_and_loses_nothing() {
    let power = CrashDisk::new(1);
    let ledger = open(&power).unwrap();
    let before = ledger.current();
    ledger.prove().unwrap();
    power.hold();
    ledger.mark(&[site(1)], now());
    let why = ledger.release().unwrap_err();
    assert!(why.to_string().contains("does not answer"), "{why}");
    assert!(ledger.is_away(), "until it is taken back");
    ledger.resume();
    power.let_go();
    purge(&ledger, &[site(2)]).unwrap();
    ledger.prove().unwrap();
    power.cut(6);
    drop(ledger);
    let ledger = open(&power).unwrap();
    assert_eq!([judge(&ledger, 1, before), judge(&ledger, 2, before)], [Judged::Dead; 2]);
}
