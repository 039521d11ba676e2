//! What is written to the volume, and what is not: by the real store over a real folder.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{DISK, MEMORY, find, find_key, until};
use crate::samples::{Folder, body, key, now, proof, put, url};
use crate::tier::{Entered, LateWrite, Seating, Stall};
use crate::volume::{Clock, OsDisk, Volume, VolumeSettings};
use crate::{AdmissionMode, AdmissionSettings, Ledger, MARKS_MAX, Settings, Store, VolumeReport};

/// A store over the volume and the state folder in that folder, as a new process would open it.
#[allow(clippy::disallowed_methods)]
fn open(folder: &Folder, mode: AdmissionMode, write_budget_bytes: Option<u64>) -> Store {
    let since = Instant::now();
    let mut settings = VolumeSettings::of(DISK, Clock::new(move || since.elapsed()));
    settings.queue_bytes = MEMORY / 4;
    settings.write_budget_bytes = write_budget_bytes;
    let state = folder.path().join("state");
    std::fs::create_dir_all(&state).unwrap();
    let disk = Arc::new(OsDisk::take(&folder.path().join("volume")).unwrap());
    let (volume, _) = Volume::open(disk, &settings).unwrap();
    let admission = AdmissionSettings { mode, disk: Some(Arc::new(OsDisk::at(&state))), volumes_bytes: DISK };
    let settings = Settings { admission, ..Settings::of(MEMORY) };
    Store::with_volume(settings, Ledger::new(MARKS_MAX), volume, None, now).unwrap()
}

#[test]
fn what_was_used_most_before_the_volume_came_is_written_without_another_use() {
    for mode in [AdmissionMode::Always, AdmissionMode::Auto, AdmissionMode::Second] {
        let folder = Folder::new("admission");
        let admission = AdmissionSettings { mode, disk: None, volumes_bytes: DISK };
        let settings = Settings { admission, ..Settings::of(MEMORY) };
        let store = Store::with(settings);
        store.expect_volumes();
        (0..20).for_each(|number| drop(put(&store, number, 10_000)));
        // One use more than is counted: no further one is noted.
        (0..8).for_each(|_| (0..20).for_each(|number| drop(find(&store, number))));
        let since = now().mono;
        let mut settings = VolumeSettings::of(DISK, Clock::new(move || now().mono.duration_since(since)));
        settings.queue_bytes = MEMORY / 4;
        let disk = Arc::new(OsDisk::take(&folder.path().join("volume")).unwrap());
        let (volume, _) = Volume::open(disk, &settings).unwrap();
        drop(store.attach(volume, None, Seating::of("volume", 1), now).unwrap());
        store.end_expecting();
        until_promoted(&store, 20);
    }
}

fn state(store: &Store) -> VolumeReport {
    store.volumes().remove(0)
}

fn objects(store: &Store) -> u64 {
    assert!(store.sync_for_tests());
    state(store).usage.objects
}

/// Waits until so many bodies were written from memory.
fn until_promoted(store: &Store, count: u64) {
    until(|| (state(store).written_later >= count).then_some(()));
    // Of several in a row the last one is handed over before the next task is taken.
    until(|| (objects(store) >= count).then_some(()));
}

#[test]
fn second_stores_nothing_that_is_asked_for_once() {
    let folder = Folder::new("admission");
    let store = open(&folder, AdmissionMode::Second, None);
    (0..50).for_each(|number| drop(put(&store, number, 10_000)));
    assert_eq!(objects(&store), 0);
    let state = state(&store);
    assert_eq!((state.admitted, state.written_later, store.admission_usage().refused), (0, 0, 50));
}

#[test]
fn what_is_asked_for_again_in_memory_is_written_from_there() {
    let folder = Folder::new("admission");
    let store = open(&folder, AdmissionMode::Second, None);
    (0..20).for_each(|number| drop(put(&store, number, 10_000 + number as usize)));
    (0..10).for_each(|number| assert!(find(&store, number).is_some()));
    until_promoted(&store, 10);
    store.close();
    drop(store);
    let store = open(&folder, AdmissionMode::Second, None);
    for number in 0..20 {
        let found = find(&store, number);
        assert_eq!(found.is_some(), number < 10, "{number}");
        if let Some(found) = found {
            assert_eq!(super::bytes_of(&found).unwrap(), body(number, 0, 10_000 + number as usize));
        }
    }
}

#[test]
fn what_left_memory_is_written_when_it_comes_again() {
    let folder = Folder::new("admission");
    let store = open(&folder, AdmissionMode::Second, None);
    // Three times what memory holds.
    (0..1200).for_each(|number| drop(put(&store, number, 10_000)));
    assert!(find(&store, 0).is_none(), "it was evicted");
    drop(put(&store, 0, 10_000));
    assert_eq!(objects(&store), 1);
}

#[test]
fn what_was_asked_for_is_known_after_a_restart() {
    let folder = Folder::new("admission");
    let store = open(&folder, AdmissionMode::Second, None);
    (0..10).for_each(|number| drop(put(&store, number, 10_000)));
    store.close();
    drop(store);
    let store = open(&folder, AdmissionMode::Second, None);
    (5..15).for_each(|number| drop(put(&store, number, 10_000)));
    assert_eq!(objects(&store), 5, "those that were asked for before");
}

#[test]
fn auto_takes_all_while_there_is_room_and_then_what_is_asked_for_again() {
    let folder = Folder::new("admission");
    let store = open(&folder, AdmissionMode::Auto, None);
    let mut number = 0;
    while store.admission_usage().refused == 0 {
        drop(put(&store, number, 100_000));
        assert!(store.sync_for_tests());
        number += 1;
        assert!(number < 1000, "the volume takes more than it holds");
    }
    let full = state(&store).usage;
    assert!(full.used_bytes > DISK / 4 * 3, "{} of {DISK} are used", full.used_bytes);
    (2000..2050).for_each(|number| drop(put(&store, number, 100_000)));
    let refused = store.admission_usage().refused;
    assert!(refused >= 45, "{refused}");
    let admitted = state(&store).admitted;
    (2000..2010).for_each(|number| drop(put(&store, number, 100_000)));
    assert!(state(&store).admitted >= admitted + 10);
}

#[test]
fn the_newer_one_counts_whichever_was_written_first() {
    let folder = Folder::new("admission");
    let store = open(&folder, AdmissionMode::Always, None);
    // The volume is held up, and a new version stays in memory.
    drop(put(&store, 1, 10_000));
    assert_eq!(objects(&store), 1);
    store.set_admission(AdmissionMode::Second);
    drop(put(&store, 1, 20_000));
    assert_eq!(objects(&store), 1, "what replaces something on the volume is written as well");
    let found = find(&store, 1).unwrap();
    assert_eq!(found.length(), Some(20_000));
    // A newer one that is arriving keeps the older one from being written.
    let old = put(&store, 2, 10_000);
    let stamp = store.ledger().current();
    let (newer, mut writer) = store.begin(proof(&[], &[]), key(2), stamp, Some(30_000)).unwrap();
    assert!(store.inside_for_tests().write_later(&old).is_none());
    writer.push(body(2, 0, 30_000)).unwrap();
    writer.seal().unwrap();
    assert!(newer.is_whole());
    store.close();
    drop((store, newer, old, found));
    let store = open(&folder, AdmissionMode::Second, None);
    assert_eq!(find(&store, 1).unwrap().length(), Some(20_000));
    assert_eq!(find(&store, 2).unwrap().length(), Some(30_000));
}

#[test]
fn what_was_written_late_does_not_replace_what_began_before_it() {
    let folder = Folder::new("admission");
    let store = open(&folder, AdmissionMode::Second, None);
    let old = put(&store, 1, 10_000);
    // The newer one has its number on the volume, and is not in the index yet.
    let inside = store.inside_for_tests();
    let stamp = store.ledger().current();
    let newer = store.generation_for_tests(proof(&[], &[]), key(1), stamp, Some(30_000));
    let _put = inside.volumes.tiers.begin(&newer).unwrap();
    let late = inside.write_later(&old).unwrap();
    assert!(old.object() > newer.object());
    inside.memory.begin(&newer);
    late.finish(&old, 10_000, crate::inside::Keeper::Memory, |_| {});
    assert_eq!(objects(&store), 0, "the older one is taken out again");
}

#[test]
fn a_used_up_budget_ends_storing_and_nothing_else() {
    const BUDGET: u64 = 2 << 20;
    let folder = Folder::new("admission");
    let store = open(&folder, AdmissionMode::Always, Some(BUDGET));
    for number in 0..300 {
        drop(put(&store, number, 20_000));
        std::thread::sleep(Duration::from_micros(300));
    }
    assert!(store.sync_for_tests());
    let VolumeReport { budget, usage, .. } = state(&store);
    let written = usage.body_bytes + usage.head_bytes + usage.journal_bytes + usage.checkpoint_bytes;
    assert_eq!(budget.used_bytes, written);
    assert!(written <= BUDGET && written > BUDGET / 10 * 8, "{written} of {BUDGET}");
    assert!(budget.refused > 0 && budget.limit_bytes == Some(BUDGET));
    // What was stored is served, and can be removed for good.
    let stored = usage.objects;
    assert!(stored > 50 && find(&store, 5).is_some());
    store.invalidate(url(5), now());
    assert!(find(&store, 5).is_none());
    until(|| (objects(&store) == stored - 1).then_some(()));
    // A version that cannot be stored replaces the older one in any case.
    drop(put(&store, 6, 30_000));
    until(|| (objects(&store) == stored - 2).then_some(()));
    assert_eq!(find(&store, 6).unwrap().length(), Some(30_000));
    store.close();
    drop(store);
    // A restart grants nothing again.
    let store = open(&folder, AdmissionMode::Always, Some(BUDGET));
    assert!(state(&store).budget.used_bytes >= written);
    assert!(find(&store, 6).is_none() && find(&store, 7).is_some());
    drop(put(&store, 1000, 200_000));
    assert_eq!(objects(&store), stored - 2);
}

#[test]
fn what_lies_in_memory_is_served_whatever_the_volume_takes() {
    let folder = Folder::new("admission");
    let store = open(&folder, AdmissionMode::Always, Some(1));
    drop(put(&store, 1, 10_000));
    assert_eq!(find_key(&store, &key(1), &|_| true).unwrap().length(), Some(10_000));
    assert_eq!(objects(&store), 0);
}

/// A body whose hand-over panics.
struct Panics;

impl LateWrite for Panics {
    fn holding_bytes(&self) -> u64 {
        7
    }

    fn release(&mut self) -> bool {
        true
    }

    fn hand_over(self: Box<Self>, _: &mut Stall) {
        panic!("it breaks");
    }
}

#[test]
fn a_hand_over_that_panics_leaves_nothing_waiting_for_ever() {
    let folder = Folder::new("admission");
    let store = open(&folder, AdmissionMode::Always, None);
    let inside = store.inside_for_tests();
    let tier = inside.volumes.tiers.all().iter().next().map(Arc::clone).unwrap();
    for _ in 0..3 {
        assert!(tier.late.enter(Box::new(Panics), u64::MAX).is_some());
    }
    let served = std::panic::catch_unwind(AssertUnwindSafe(|| tier.serve_late()));
    assert!(served.is_err());
    assert_eq!((tier.late.is_empty(), tier.late.holding_bytes()), (true, 0));
    assert!(
        matches!(tier.late.enter(Box::new(Panics), u64::MAX), Some(Entered::First)),
        "a job serves again"
    );
    while tier.late.next().is_some() {}
}
