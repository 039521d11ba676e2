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
        let budget = WriteBudget::new(Some(limit));
        let (mut time, mut written, mut today, mut day) = (20_000 * DAY_S, 0, 0, 20_000);
        for (pause, bytes) in steps {
            time += pause;
            budget.tick(at(0, time), written);
            if time / DAY_S > day {
                (day, today) = (time / DAY_S, 0);
            }
            if budget.allows(written, 0, bytes) {
                written += bytes;
                today += bytes;
            }
            prop_assert!(today <= limit && budget.used_bytes(written) == today);
        }
    }
}

proptest! {
    #[test]
    fn after_a_kill_the_count_is_at_most_a_step_too_large(
        lives in prop::collection::vec(
            prop::collection::vec((0u64..3, 1u64..9_000, 0u64..30_000), 0..40), 1..10,
        ),
    ) {
        const LIMIT: u64 = 640_000;
        let folder = Folder::new("budget");
        let (mut time, mut today, mut day, mut kills) = (20_000 * DAY_S, 0, 20_000, 0);
        for life in lives {
            let budget = WriteBudget::new(Some(LIMIT));
            let (file, found) = SpentFile::open(&OsDisk::at(folder.path()), 1).unwrap();
            budget.tick(at(0, time), 0);
            if let Some(found) = found {
                budget.carry(found);
            }
            *budget.count.lock() = Some(file);
            let counted = budget.used_bytes(0);
            let most = today + kills * (LIMIT / STEPS_A_DAY);
            prop_assert!(counted >= today && counted <= most, "{today} <= {counted} <= {most}");
            budget.renew(counted);
            let mut written = 0;
            for (act, bytes, pause) in life {
                match act {
                    // The thread that ticks once a second may come late.
                    0 => {
                        time += pause;
                        budget.tick(at(0, time), written);
                        if time / DAY_S > day {
                            (day, today, kills) = (time / DAY_S, 0, 0);
                        }
                        budget.renew(budget.used_bytes(written));
                    }
                    _ if budget.allows(written, 0, bytes) => {
                        budget.grant(budget.used_bytes(written) + bytes);
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
fn grants_are_written_seldom_and_an_orderly_end_writes_the_exact_count() {
    const LIMIT: u64 = 6_400_000;
    let folder = Folder::new("budget");
    let budget = WriteBudget::new(Some(LIMIT));
    budget.tick(at(20_000, 0), 0);
    *budget.count.lock() = Some(SpentFile::open(&OsDisk::at(folder.path()), 1).unwrap().0);
    let found = || SpentFile::open(&OsDisk::at(folder.path()), 1).unwrap().1;
    let (mut told, mut changes) = (None, 0);
    for written in (0..LIMIT).step_by(1000) {
        budget.grant(budget.used_bytes(written) + 1000);
        budget.renew(budget.used_bytes(written));
        changes += u64::from(found() != told);
        told = found();
    }
    assert!(changes <= 3 * STEPS_A_DAY, "{changes}");
    budget.note(budget.used_bytes(LIMIT));
    assert_eq!(found(), Some(Spent { day: 20_000, bytes: LIMIT }));
    // Without a budget the count is what had been written at the last look.
    budget.limit_bytes.store(super::UNLIMITED, super::Ordering::Relaxed);
    budget.grant(budget.used_bytes(LIMIT + 5));
    assert_eq!(found().unwrap().bytes, LIMIT);
    budget.renew(budget.used_bytes(LIMIT + 5));
    assert_eq!(found().unwrap().bytes, LIMIT + 5);
}

#[test]
fn a_day_begins_with_nothing_used_and_a_clock_set_back_begins_none() {
    let budget = WriteBudget::new(Some(1000));
    budget.tick(at(20_000, DAY_S - 1), 0);
    assert!(budget.allows(0, 0, 900) && !budget.allows(900, 0, 100), "the last part is kept back");
    assert!(!budget.allows(0, 900, 100), "what waits counts");
    budget.tick(at(20_001, 0), 900);
    assert_eq!(budget.used_bytes(900), 0);
    assert!(budget.allows(900, 0, 900));
    budget.tick(at(20_000, 0), 1800);
    assert_eq!(budget.used_bytes(1800), 900);
    budget.tick(at(20_001, 5), 1800);
    assert_eq!(budget.used_bytes(1800), 900, "the same day goes on");
}

#[test]
fn writes_of_others_count() {
    let budget = WriteBudget::new(Some(1000));
    budget.beside_bytes.store(50, super::Ordering::Relaxed);
    budget.tick(at(20_000, 0), 0);
    budget.beside_bytes.store(550, super::Ordering::Relaxed);
    assert_eq!(budget.used_bytes(100), 650);
    assert!(!budget.allows(100, 0, 400));
}

#[test]
fn a_restart_carries_the_day_over() {
    for (day, used) in [(20_000, 700), (20_001, 700), (19_999, 0)] {
        let budget = WriteBudget::new(Some(1000));
        budget.tick(at(20_000, 10), 0);
        budget.carry(Spent { day, bytes: 700 });
        assert_eq!(budget.used_bytes(0), used, "of day {day}");
    }
}

#[test]
fn the_pace_is_a_twenty_fourth_ahead_at_most() {
    let budget = WriteBudget::new(Some(2_400_000));
    let part = for_bodies(2_400_000) / PARTS_A_DAY;
    budget.tick(at(20_000, 0), 0);
    assert_eq!((budget.ahead(part, 0), budget.ahead(part + 1, 0), budget.ahead(part, 1)), (0, 1, 1));
    assert_eq!(budget.ahead(4 * part, 0), 3);
    budget.tick(at(20_000, DAY_S / 2), 0);
    assert_eq!((budget.ahead(13 * part, 0), budget.ahead(14 * part, 0)), (0, 1));
    assert_eq!(WriteBudget::new(None).ahead(u64::MAX / 2, 0), 0);
}
