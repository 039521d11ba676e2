//! The ledger as a whole: durability on files that fail and lose power, and in a real folder.

mod handover;
mod loss;

use std::collections::HashSet;
use std::sync::mpsc;

use bytes::Bytes;
use proptest::prelude::*;
use weir_disk::OsDisk;
use weir_disk::testing::{CrashDisk, Fault};

use super::scribe::START_GAP;
use super::*;
use crate::samples::now;

fn site(number: u64) -> Mark {
    Mark::hard(Scope::Site(number))
}

fn key(site: u64) -> CacheKey {
    CacheKey::new(Bytes::from(format!("http://s{site}.test/"))).of_site(site)
}

fn judge(ledger: &Ledger, of: u64, stamp: Stamp) -> Judged {
    ledger.judge(&key(of), &Tags::default(), stamp)
}

fn is_stale(judged: Judged) -> bool {
    matches!(judged, Judged::Changed(Change { until: None, after: Some(_), .. }))
}

fn open(power: &CrashDisk) -> Result<Ledger, OpenError> {
    Ledger::open(1000, Arc::new(power.process()), 0, now())
}

/// Purges and waits for the acknowledgement.
fn purge(ledger: &Ledger, wanted: &[Mark]) -> Result<Stamp, Unwritten> {
    let (done, result) = mpsc::channel();
    let made = ledger.purge(wanted, now(), Box::new(move |written| done.send(written).unwrap()));
    let written = result.recv().unwrap();
    assert!(written.iter().all(|acknowledged| *acknowledged == made));
    written.map(|made| made.stamp)
}

#[test]
fn a_mark_is_in_force_at_once_and_acknowledged_when_it_is_durable() {
    let power = CrashDisk::new(1);
    let ledger = open(&power).unwrap();
    let before = ledger.current();
    let stamp = purge(&ledger, &[site(1), Mark::soft(Scope::Site(2))]).unwrap();
    assert_eq!(judge(&ledger, 1, before), Judged::Dead);
    assert!(is_stale(judge(&ledger, 2, before)));
    assert_eq!(judge(&ledger, 3, before), Judged::Alive);
    let state = ledger.state();
    assert_eq!((state.number, state.durable, state.marks), (stamp.number(), stamp.number(), 2));
    power.cut(1);
    drop(ledger);
    let ledger = open(&power).unwrap();
    assert!(ledger.current().number() >= stamp.number() + START_GAP);
    assert_eq!(judge(&ledger, 1, before), Judged::Dead);
    assert!(is_stale(judge(&ledger, 2, before)));
    assert_eq!(judge(&ledger, 1, stamp), Judged::Alive);
    assert_eq!(judge(&ledger, 3, before), Judged::Alive);
}

#[test]
fn what_nobody_waits_for_is_written_all_the_same() {
    let power = CrashDisk::new(1);
    let ledger = open(&power).unwrap();
    let before = ledger.current();
    let stamp = ledger.mark(&[site(1)], now());
    assert_eq!(judge(&ledger, 1, before), Judged::Dead);
    drop(ledger);
    let ledger = open(&power).unwrap();
    assert_eq!(judge(&ledger, 1, before), Judged::Dead);
    assert!(ledger.current() > stamp);
}

#[test]
fn many_who_come_together_share_a_sync() {
    let power = CrashDisk::new(1);
    let ledger = open(&power).unwrap();
    let before = ledger.current();
    let syncs = power.syncs();
    power.hold();
    let (done, results) = mpsc::channel();
    for number in 1..=1000 {
        let done = done.clone();
        ledger.purge(&[site(number)], now(), Box::new(move |written| done.send(written).unwrap()));
    }
    power.let_go();
    let stamps: HashSet<u64> = (0..1000).map(|_| results.recv().unwrap().unwrap().stamp.number()).collect();
    assert_eq!(stamps.len(), 1000);
    // At most two batches, each with one sync of the ledger and one of its end.
    assert!(power.syncs() - syncs <= 4, "{}", power.syncs() - syncs);
    power.cut(7);
    drop(ledger);
    let ledger = open(&power).unwrap();
    assert!((1..=1000).all(|number| judge(&ledger, number, before) == Judged::Dead));
    assert_eq!(judge(&ledger, 1001, before), Judged::Alive);
}

#[test]
fn a_failed_sync_is_reported_and_the_file_is_written_again() {
    for fault in [Fault::Io, Fault::Full] {
        let power = CrashDisk::new(1);
        let ledger = open(&power).unwrap();
        let before = ledger.current();
        purge(&ledger, &[site(1)]).unwrap();
        power.fail_at(1, fault);
        let error = purge(&ledger, &[site(2)]).unwrap_err();
        assert!(
            error.to_string().contains("device fails") || error.to_string().contains("no storage space"),
            "{error}"
        );
        assert_eq!(judge(&ledger, 2, before), Judged::Dead);
        assert!(ledger.state().failure.is_some() || ledger.state().durable == ledger.state().number);
        purge(&ledger, &[site(3)]).unwrap();
        assert_eq!(ledger.state().failure, None);
        power.cut(3);
        drop(ledger);
        let ledger = open(&power).unwrap();
        assert!((1..=3).all(|number| judge(&ledger, number, before) == Judged::Dead));
    }
}

#[test]
fn the_file_stays_short() {
    let power = CrashDisk::new(1);
    let ledger = open(&power).unwrap();
    for _ in 0..30 {
        let wanted: Vec<Mark> = (0..1000).map(|_| site(1)).collect();
        purge(&ledger, &wanted).unwrap();
    }
    assert!(
        power.content("ledger").map_or(0, |bytes| bytes.len()) < 5200 * 64,
        "{}",
        power.content("ledger").map_or(0, |bytes| bytes.len())
    );
    drop(ledger);
    let ledger = open(&power).unwrap();
    assert_eq!((power.content("ledger").map_or(0, |bytes| bytes.len()), ledger.marks()), (2 * 64, 1));
}

#[test]
fn marks_that_may_be_lost_become_one_of_everything() {
    let power = CrashDisk::new(1);
    let ledger = open(&power).unwrap();
    let stamp = purge(&ledger, &[site(1), site(2), site(3)]).unwrap();
    drop(ledger);
    power.flip("ledger", (64 + 10) as u64, 1);
    let ledger = open(&power).unwrap();
    assert_eq!(judge(&ledger, 99, stamp), Judged::Dead);
    assert_eq!(judge(&ledger, 99, ledger.current()), Judged::Alive);
}

#[test]
fn a_power_cut_while_many_marks_are_written_purges_nothing_else() {
    let mut torn = 0;
    for seed in 0..60 {
        let power = CrashDisk::new(1);
        let ledger = open(&power).unwrap();
        let before = ledger.current();
        purge(&ledger, &[site(1)]).unwrap();
        // They fill several sectors, which the device keeps in any order.
        let many: Vec<Mark> = (2..60).map(site).collect();
        power.fail_at(1 + seed % 3, Fault::PowerCut);
        purge(&ledger, &many).unwrap_err();
        assert!(power.is_down());
        power.cut(seed);
        drop(ledger);
        let ledger = open(&power).unwrap();
        torn += usize::from(ledger.past() == Past::Torn);
        assert_ne!(ledger.past(), Past::Damaged, "{seed}");
        assert_eq!(judge(&ledger, 1, before), Judged::Dead, "{seed}: it was acknowledged");
        assert_eq!(judge(&ledger, 99, before), Judged::Alive, "{seed}: it was never purged");
    }
    assert!(torn > 5, "{torn}");
}

#[test]
fn a_new_ledger_begins_beyond_one_that_was_lost() {
    let lost = open(&CrashDisk::new(1)).unwrap();
    let stamp = purge(&lost, &[site(1)]).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(3));
    let new = open(&CrashDisk::new(1)).unwrap();
    assert!(new.current() > stamp);
    assert!(
        new.past() == Past::New && new.id() != lost.id(),
        "so that what was used with that one is not believed"
    );
}

#[test]
fn a_ledger_that_cannot_be_written_at_the_start_is_in_force_and_broken_until_it_can() {
    for at in 0.. {
        let power = CrashDisk::new(1);
        let first = open(&power).unwrap();
        let before = first.current();
        purge(&first, &[site(1)]).unwrap();
        drop(first);
        power.fail_at(at, Fault::Io);
        // Where nothing can be read, nothing is known of what is dead.
        let opened =
            open(&power).inspect_err(|error| assert!(matches!(error, OpenError::Unread(_)), "{error}"));
        assert_eq!(opened.is_err(), at < 3, "reading is the first: opened, measured, read");
        let Ok(ledger) = opened else { continue };
        if at < 6 {
            assert_eq!(ledger.past(), Past::Unproven, "what cannot be read of how far it came says nothing");
            continue;
        }
        if at == 15 {
            let of = "both read; made, written, synced, renamed, the folder synced; its end written";
            assert_eq!(ledger.state().failure, None, "{of}");
            return;
        }
        assert_eq!(judge(&ledger, 1, before), Judged::Dead, "{at}");
        power.fail_at(0, Fault::Io);
        let error = purge(&ledger, &[site(2)]).unwrap_err();
        assert!(
            error.to_string().contains("device fails") || error.to_string().contains("no storage space"),
            "{error}"
        );
        assert_eq!(judge(&ledger, 2, before), Judged::Dead);
        purge(&ledger, &[site(3)]).unwrap();
        let state = ledger.state();
        assert_eq!((state.failure, state.durable), (None, state.number));
        power.cut(at);
        drop(ledger);
        let ledger = open(&power).unwrap();
        assert!((1..=3).all(|number| judge(&ledger, number, before) == Judged::Dead), "{at}");
    }
}

#[test]
fn a_folder_keeps_it() {
    let folder = std::env::temp_dir().join(format!("weir-ledger-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let open = || Ledger::open(10, Arc::new(OsDisk::at(&folder)), 0, now());
    let ledger = open().unwrap();
    let before = ledger.current();
    let stamp = purge(&ledger, &[site(1)]).unwrap();
    drop(ledger);
    let ledger = open().unwrap();
    assert_eq!(judge(&ledger, 1, before), Judged::Dead);
    assert_eq!(judge(&ledger, 2, before), Judged::Alive);
    assert!(ledger.current() > stamp);
    let metadata = std::fs::metadata(folder.join("ledger")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o7777, 0o600);
    assert!(!folder.join("ledger.new").exists());
    drop(ledger);
    std::fs::create_dir_all(folder.join("ledger.new/somebody's")).unwrap();
    let ledger = open().unwrap();
    assert_eq!(ledger.state().failure, None);
    let stamp = purge(&ledger, &[site(2)]).unwrap();
    drop(ledger);
    assert_eq!(judge(&open().unwrap(), 2, Stamp::of(stamp.number() - 1)), Judged::Dead);
    std::fs::write(folder.join("ledger"), b"no ledger").unwrap();
    assert!(matches!(open(), Err(OpenError::Unreadable(Unreadable::Foreign))));
    std::fs::remove_file(folder.join("ledger")).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, folder.join("ledger"), fifo, 0o600.into(), 0).unwrap();
    let error = open().unwrap_err();
    assert!(matches!(error, OpenError::Unread(_)) && error.to_string().contains("named pipe"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What happens to a ledger in a property test.
#[derive(Debug, Clone)]
enum Act {
    Purge(u64),
    Mark(u64),
    Together(Vec<u64>),
    Fail { operations: u64, fault: Fault },
    Cut(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let fault = prop_oneof![Just(Fault::Io), Just(Fault::Full), Just(Fault::PowerCut)];
    prop_oneof![
        6 => (1..50_u64).prop_map(Act::Purge),
        4 => (1..50_u64).prop_map(Act::Mark),
        3 => prop::collection::vec(1..50_u64, 1..8).prop_map(Act::Together),
        3 => (0..10_u64, fault).prop_map(|(operations, fault)| Act::Fail { operations, fault }),
        3 => any::<u64>().prop_map(Act::Cut),
    ]
}

/// What was asked of the ledger, and what it promised.
#[derive(Default)]
struct Told {
    /// The largest acknowledged mark of each site.
    acknowledged: std::collections::HashMap<u64, Stamp>,
    /// The sites that were ever marked.
    wanted: HashSet<u64>,
    /// The largest number ever seen.
    highest: u64,
    /// The number at the beginning.
    begun: u64,
}

impl Told {
    fn note(&mut self, number: u64, stamp: Stamp) {
        let known = self.acknowledged.entry(number).or_insert(stamp);
        *known = stamp.max(*known);
    }

    fn check(&self, ledger: &Ledger) {
        for (number, stamp) in &self.acknowledged {
            let older = Stamp::of(stamp.number() - 1);
            assert_eq!(
                judge(ledger, *number, older),
                Judged::Dead,
                "the purge {stamp:?} of {number} is lost"
            );
        }
        for number in (1..50).filter(|number| !self.wanted.contains(number)) {
            assert_eq!(
                judge(ledger, number, Stamp::of(self.begun)),
                Judged::Alive,
                "{number} was never purged"
            );
        }
        assert_eq!(judge(ledger, 49, ledger.current()), Judged::Alive);
        assert!(ledger.current().number() >= self.highest, "the counter went back");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// After any faults and cuts of the power no acknowledged purge is lost, nothing is purged that nobody
    /// purged, and no number is given twice.
    #[test]
    fn no_acknowledged_purge_is_lost(acts in prop::collection::vec(act(), 1..40)) {
        let power = CrashDisk::new(1);
        let mut ledger = open(&power).unwrap();
        let mut told = Told { begun: ledger.current().number(), ..Told::default() };
        for act in acts {
            match act {
                Act::Purge(number) => {
                    told.wanted.insert(number);
                    if let Ok(stamp) = purge(&ledger, &[site(number)]) {
                        told.note(number, stamp);
                    }
                }
                Act::Mark(number) => {
                    told.wanted.insert(number);
                    ledger.mark(&[site(number)], now());
                }
                Act::Together(numbers) => {
                    let (done, results) = mpsc::channel();
                    for number in &numbers {
                        let (done, number) = (done.clone(), *number);
                        let told = move |written| done.send((number, written)).unwrap();
                        ledger.purge(&[site(number)], now(), Box::new(told));
                    }
                    told.wanted.extend(&numbers);
                    drop(done);
                    for (number, written) in results {
                        written.into_iter().for_each(|made| told.note(number, made.stamp));
                    }
                }
                Act::Fail { operations, fault } => power.fail_at(operations, fault),
                Act::Cut(seed) => {
                    told.highest = told.highest.max(ledger.current().number());
                    power.cut(seed);
                    drop(ledger);
                    ledger = open(&power).unwrap();
                    let fresh = ledger.current().number();
                    prop_assert!(fresh > told.highest);
                }
            }
            told.highest = told.highest.max(ledger.current().number());
            told.check(&ledger);
        }
    }
}
