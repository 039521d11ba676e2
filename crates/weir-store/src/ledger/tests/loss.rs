//! A ledger that is cut off, damaged, put back from a copy, or taken away. A loss is noticed, and nothing is
//! taken for lost that is not.

use super::*;
use weir_disk::testing::CrashDisk;

fn open_from(power: &CrashDisk, least: u64) -> Ledger {
    Ledger::open(1000, Arc::new(power.process()), least, now()).unwrap()
}

/// A ledger with two purges, closed; and the number of the last.
fn with_two_purges(power: &CrashDisk) -> u64 {
    let ledger = open(power).unwrap();
    purge(&ledger, &[site(1)]).unwrap();
    purge(&ledger, &[site(2)]).unwrap().number()
}

fn assert_suspect(power: &CrashDisk, past: Past, last: u64) {
    let ledger = open(power).unwrap();
    assert_eq!(ledger.past(), past);
    assert!(ledger.suspect_before().number() > last, "all that may have been purged is suspect");
    assert_eq!(ledger.suspect_before(), ledger.current());
    let suspect_before = ledger.suspect_before();
    drop(ledger);
    let later = open(power).unwrap();
    assert_eq!((later.past(), later.suspect_before()), (Past::Whole, suspect_before), "it is not forgotten");
}

#[test]
fn one_that_was_closed_killed_or_lost_its_power_is_whole() {
    let power = CrashDisk::new(1);
    assert_eq!(open(&power).unwrap().past(), Past::New);
    for seed in 0..50 {
        let ledger = open(&power).unwrap();
        assert_eq!((ledger.past(), ledger.suspect_before().number()), (Past::Whole, 0));
        purge(&ledger, &[site(seed)]).unwrap();
        ledger.step();
        if seed % 2 == 0 {
            power.cut(seed);
        }
    }
}

#[test]
fn a_bit_of_the_last_record_is_missed() {
    for bit in [0, 8 * 20, 8 * 63] {
        let power = CrashDisk::new(1);
        let last = with_two_purges(&power);
        let at = power.content("ledger").map_or(0, |bytes| bytes.len()) - 64 + bit / 8;
        power.flip("ledger", (at) as u64, 1);
        assert_suspect(&power, Past::Torn, last);
    }
}

#[test]
fn whole_records_that_are_gone_are_missed() {
    let power = CrashDisk::new(1);
    let last = with_two_purges(&power);
    let bytes = power.content("ledger").unwrap();
    power.put("ledger", Some(&bytes[..bytes.len() - 64]));
    assert_suspect(&power, Past::Behind, last);
    // A part of a record, and bytes behind it that are none.
    let changes: [fn(&mut Vec<u8>); 2] =
        [|bytes| bytes.truncate(bytes.len() - 1), |bytes| bytes.extend([0; 64])];
    for change in changes {
        let power = CrashDisk::new(1);
        let last = with_two_purges(&power);
        let mut bytes = power.content("ledger").unwrap();
        change(&mut bytes);
        power.put("ledger", Some(&bytes));
        assert_suspect(&power, Past::Torn, last);
    }
}

#[test]
fn records_that_were_there_at_the_start_and_are_gone_are_missed() {
    let power = CrashDisk::new(1);
    let last = with_two_purges(&power);
    drop(open(&power).unwrap());
    let bytes = power.content("ledger").unwrap();
    assert_eq!(bytes.len(), 64 * 3, "the header, and the two");
    power.put("ledger", Some(&bytes[..bytes.len() - 64]));
    assert_suspect(&power, Past::Torn, last);
}

#[test]
fn a_copy_from_before_is_known_by_its_second_place_and_by_the_register() {
    let power = CrashDisk::new(1);
    let ledger = open(&power).unwrap();
    purge(&ledger, &[site(1)]).unwrap();
    let (copy, end) = (power.content("ledger").unwrap(), power.content("ledger.end").unwrap());
    let last = purge(&ledger, &[site(2)]).unwrap().number();
    drop(ledger);
    power.put("ledger", Some(&copy));
    let both = CrashDisk::new(1);
    both.put("ledger", Some(&copy));
    both.put("ledger.end", Some(&end));
    assert_suspect(&power, Past::Behind, last);
    let ledger = open_from(&both, last);
    assert_eq!(ledger.past(), Past::Behind);
    assert!(ledger.suspect_before().number() > last);
}

#[test]
fn without_its_second_place_it_proves_nothing() {
    let other = CrashDisk::new(1);
    with_two_purges(&other);
    let of_another = other.content("ledger.end").unwrap();
    for end in [None, Some(&b""[..]), Some(&[7; 64]), Some(&of_another)] {
        let power = CrashDisk::new(1);
        let last = with_two_purges(&power);
        power.put("ledger.end", end);
        assert_suspect(&power, Past::Unproven, last);
    }
}

#[test]
fn one_of_version_1_gets_an_id_and_is_believed() {
    let power = CrashDisk::new(1);
    power.put("ledger", Some(include_bytes!("../record/golden-1.ledger")));
    let first = open(&power).unwrap();
    assert_eq!((first.past(), first.is_adopted(), first.suspect_before().number()), (Past::Whole, true, 0));
    let id = first.id();
    drop(first);
    let again = open(&power).unwrap();
    assert_eq!((again.past(), again.is_adopted(), again.id()), (Past::Whole, true, id));
    // Where the power fails during the first start, the ledger is as it was.
    for at in 0..16 {
        let power = CrashDisk::new(1);
        power.put("ledger", Some(include_bytes!("../record/golden-1.ledger")));
        power.fail_at(at, Fault::Io);
        let _ = open(&power);
        power.cut(at);
        let opened = open(&power).unwrap();
        assert_eq!((opened.past(), opened.is_adopted()), (Past::Whole, true), "{at}");
    }
}

#[test]
fn one_that_is_lost_is_another_from_then_on() {
    let power = CrashDisk::new(1);
    with_two_purges(&power);
    let (id, number) = {
        let ledger = open(&power).unwrap();
        (ledger.id(), ledger.current())
    };
    power.put("ledger", None);
    let new = open(&power).unwrap();
    assert_eq!(new.past(), Past::New);
    assert!(new.id() != id && new.current() > number);
    // Whatever the clock says.
    let early = Now { wall: std::time::SystemTime::UNIX_EPOCH, ..now() };
    power.put("ledger", None);
    let earlier = Ledger::open(10, Arc::new(power.process()), 0, early).unwrap();
    assert!(earlier.current() > new.current());
    let late = Now { wall: early.wall + std::time::Duration::from_secs(400 * 31_557_600), ..early };
    let far = Ledger::open(10, Arc::new(CrashDisk::new(1).process()), 0, late).unwrap();
    assert!(far.current().number() < 1 << 63, "there are numbers left");
}

#[test]
fn one_that_is_taken_away_or_replaced_under_a_running_weir_is_written_again() {
    for put in [None, Some(&b"no ledger"[..])] {
        let power = CrashDisk::new(1);
        let ledger = open(&power).unwrap();
        let before = ledger.current();
        purge(&ledger, &[site(1)]).unwrap();
        power.put("ledger", put);
        purge(&ledger, &[site(2)]).unwrap();
        power.cut(1);
        drop(ledger);
        let ledger = open(&power).unwrap();
        assert_eq!(ledger.past(), Past::Whole);
        for of in [1, 2] {
            assert_eq!(judge(&ledger, of, before), Judged::Dead, "{of}");
        }
    }
}

#[test]
fn a_leap_is_durable_and_marks_lie_beyond_it() {
    let power = CrashDisk::new(1);
    let ledger = open(&power).unwrap();
    let far = ledger.current().number() + (1 << 50);
    ledger.raise(far);
    ledger.raise(far - 5);
    assert_eq!(ledger.current().number(), far);
    power.cut(1);
    drop(ledger);
    let ledger = open(&power).unwrap();
    assert!(ledger.current().number() > far && ledger.past() == Past::Whole);
    assert!(purge(&ledger, &[site(1)]).unwrap().number() > far);
}
