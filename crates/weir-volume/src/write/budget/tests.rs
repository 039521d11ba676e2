//! A budget in virtual time.

use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use weir_disk::OsDisk;

use super::{DAY_S, PARTS_A_DAY, STEPS_A_DAY, Spent, WriteBudget, for_bodies};
use crate::testing::Folder;
use crate::write::spent::SpentFile;

fn at(day: u64, second: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(day * DAY_S + second)
}

proptest! {
    #[test]
    fn bodies_never_take_more_than_a_days_budget(
        steps in prop::collection::vec((0u64..20_000, 1u64..5_000), 1..400),
        limit in 10_000u64..1_000_000,
    ) {
        let purse = WriteBudget::new(Some(limit));
        let (mut time, mut written, mut today, mut day) = (20_000 * DAY_S, 0, 0, 20_000);
        for (pause, bytes) in steps {
            time += pause;
            purse.tick(at(0, time), written);
            if time / DAY_S > day {
                (day, today) = (time / DAY_S, 0);
            }
            if purse.allows(written, 0, bytes) {
                written += bytes;
                today += bytes;
            }
            prop_assert!(today <= limit && purse.used_bytes(written) == today);
        }
    }
}

proptest! {
    #[test]
    fn a_kill_at_any_moment_counts_no_less_than_was_written_and_a_step_more_at_most(
        lives in prop::collection::vec(prop::collection::vec((0u64..3, 1u64..9_000, 0u64..30_000), 0..40), 1..10),
    ) {
        const LIMIT: u64 = 640_000;
        let folder = Folder::new("purse");
        let (mut time, mut today, mut day, mut kills) = (20_000 * DAY_S, 0, 20_000, 0);
        for life in lives {
            let purse = WriteBudget::new(Some(LIMIT));
            let (file, found) = SpentFile::open(&OsDisk::at(folder.path()), 1).unwrap();
            purse.tick(at(0, time), 0);
            if let Some(found) = found {
                purse.carry(found);
            }
            *purse.count.lock() = Some(file);
            let counted = purse.used_bytes(0);
            let most = today + kills * (LIMIT / STEPS_A_DAY);
            prop_assert!(counted >= today && counted <= most, "{today} <= {counted} <= {most}");
            purse.renew(counted);
            let mut written = 0;
            for (act, bytes, pause) in life {
                match act {
                    // The thread that ticks once a second may come late.
                    0 => {
                        time += pause;
                        purse.tick(at(0, time), written);
                        if time / DAY_S > day {
                            (day, today, kills) = (time / DAY_S, 0, 0);
                        }
                        purse.renew(purse.used_bytes(written));
                    }
                    _ if purse.allows(written, 0, bytes) => {
                        purse.grant(purse.used_bytes(written) + bytes);
                        written += bytes;
                        today += bytes;
                    }
                    _ => {}
                }
            }
            kills += 1;
        }
    }
}

#[test]
fn what_is_granted_is_written_down_seldom_and_an_orderly_end_says_what_was_written() {
    const LIMIT: u64 = 6_400_000;
    let folder = Folder::new("purse");
    let purse = WriteBudget::new(Some(LIMIT));
    purse.tick(at(20_000, 0), 0);
    *purse.count.lock() = Some(SpentFile::open(&OsDisk::at(folder.path()), 1).unwrap().0);
    let found = || SpentFile::open(&OsDisk::at(folder.path()), 1).unwrap().1;
    let (mut told, mut changes) = (None, 0);
    for written in (0..LIMIT).step_by(1000) {
        purse.grant(purse.used_bytes(written) + 1000);
        purse.renew(purse.used_bytes(written));
        changes += u64::from(found() != told);
        told = found();
    }
    assert!(changes <= 3 * STEPS_A_DAY, "{changes}");
    purse.note(purse.used_bytes(LIMIT));
    assert_eq!(found(), Some(Spent { day: 20_000, bytes: LIMIT }));
    // Without a budget the count is what had been written at the last look.
    purse.limit_bytes.store(super::UNLIMITED, super::Ordering::Relaxed);
    purse.grant(purse.used_bytes(LIMIT + 5));
    assert_eq!(found().unwrap().bytes, LIMIT);
    purse.renew(purse.used_bytes(LIMIT + 5));
    assert_eq!(found().unwrap().bytes, LIMIT + 5);
}

#[test]
fn a_day_begins_with_nothing_used_and_a_clock_set_back_begins_none() {
    let purse = WriteBudget::new(Some(1000));
    purse.tick(at(20_000, DAY_S - 1), 0);
    assert!(purse.allows(0, 0, 900) && !purse.allows(900, 0, 100), "the last part is kept back");
    assert!(!purse.allows(0, 900, 100), "what waits counts");
    purse.tick(at(20_001, 0), 900);
    assert_eq!(purse.used_bytes(900), 0);
    assert!(purse.allows(900, 0, 900));
    purse.tick(at(20_000, 0), 1800);
    assert_eq!(purse.used_bytes(1800), 900);
    purse.tick(at(20_001, 5), 1800);
    assert_eq!(purse.used_bytes(1800), 900, "the same day goes on");
}

#[test]
fn what_is_written_beside_counts() {
    let purse = WriteBudget::new(Some(1000));
    purse.beside_bytes.store(50, super::Ordering::Relaxed);
    purse.tick(at(20_000, 0), 0);
    purse.beside_bytes.store(550, super::Ordering::Relaxed);
    assert_eq!(purse.used_bytes(100), 650);
    assert!(!purse.allows(100, 0, 400));
}

#[test]
fn a_restart_carries_the_day_over() {
    for (day, used) in [(20_000, 700), (20_001, 700), (19_999, 0)] {
        let purse = WriteBudget::new(Some(1000));
        purse.tick(at(20_000, 10), 0);
        purse.carry(Spent { day, bytes: 700 });
        assert_eq!(purse.used_bytes(0), used, "of day {day}");
    }
}

#[test]
fn the_pace_is_a_twenty_fourth_ahead_at_most() {
    let purse = WriteBudget::new(Some(2_400_000));
    let part = for_bodies(2_400_000) / PARTS_A_DAY;
    purse.tick(at(20_000, 0), 0);
    assert_eq!((purse.ahead(part, 0), purse.ahead(part + 1, 0), purse.ahead(part, 1)), (0, 1, 1));
    assert_eq!(purse.ahead(4 * part, 0), 3);
    purse.tick(at(20_000, DAY_S / 2), 0);
    assert_eq!((purse.ahead(13 * part, 0), purse.ahead(14 * part, 0)), (0, 1));
    assert_eq!(WriteBudget::new(None).ahead(u64::MAX / 2, 0), 0);
}
