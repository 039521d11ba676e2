//! A writer that cannot go on is woken: by a reader that frees memory, and by its volume.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use weir_disk::testing::CrashDisk;

use crate::samples::{body, key, now, proof, put, until};
use crate::volume::{Clock, Volume, VolumeSettings, key as volume_key};
use crate::{HELD_BACK_MAX, InUse, Ledger, MARKS_MAX, Reading, Settings, Store, Writer, WriterWait};

const MEMORY: u64 = 4 << 20;
const PIECE: usize = 65_536;

/// Whether the wait is over by now.
fn is_over(wait: &mut WriterWait) -> bool {
    pin!(wait.over()).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
}

/// Waits in real time, for longer than anything takes.
fn wait_for(wait: &mut WriterWait) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let over = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), wait.over()).await });
    assert!(over.is_ok(), "it is woken");
}

#[allow(clippy::disallowed_methods)]
fn store_on(disk: &CrashDisk) -> Store {
    let since = Instant::now();
    let mut settings = VolumeSettings::of(64 << 20, Clock::new(move || since.elapsed()));
    settings.queue_bytes = 512 << 10;
    let (volume, _) = Volume::open(Arc::new(disk.clone()), &settings).unwrap();
    let settings = Settings { window_bytes: 512 << 10, ..Settings::of(MEMORY) };
    Store::with_volume(settings, Ledger::new(MARKS_MAX), volume, None, now).unwrap()
}

/// A writer that is ahead of a drive which stands still.
fn ahead_of(disk: &CrashDisk, store: &Store, length: u64, reading: Reading) -> Writer {
    let stamp = store.ledger().current();
    let (_, mut writer) = store.begin(proof(&[], &[]), key(1), stamp, Some(length)).unwrap();
    disk.hold();
    while writer.volume_is_behind(Duration::ZERO, reading).is_none() {
        writer.push(body(1, writer.position(), PIECE)).unwrap();
        assert!(writer.is_writing_to_volume() && writer.position() < length, "the queue is bounded");
    }
    writer
}

/// One of a body that only the volume can keep.
fn ahead_with_a_window(disk: &CrashDisk, store: &Store) -> Writer {
    ahead_of(disk, store, MEMORY, Reading::HeldBack)
}

fn given_up(store: &Store) -> u64 {
    store.volumes()[0].usage.queue_full
}

#[test]
fn a_writer_that_is_ahead_of_its_volume_is_woken_when_that_has_room() {
    let disk = CrashDisk::new(1);
    let store = store_on(&disk);
    let mut writer = ahead_with_a_window(&disk, &store);
    let mut room = writer.wait_for_volume();
    writer.arm(&mut room);
    assert!(writer.volume_is_behind(Duration::ZERO, Reading::HeldBack).is_some() && !is_over(&mut room));
    disk.let_go();
    while writer.volume_is_behind(Duration::ZERO, Reading::HeldBack).is_some() {
        wait_for(&mut room);
        writer.arm(&mut room);
    }
    assert!(writer.is_writing_to_volume());
}

#[test]
fn a_drive_that_holds_a_reader_back_for_a_second_costs_the_storing() {
    let disk = CrashDisk::new(1);
    let store = store_on(&disk);
    let mut writer = ahead_with_a_window(&disk, &store);
    assert_eq!(writer.volume_is_behind(HELD_BACK_MAX / 2, Reading::HeldBack), Some(HELD_BACK_MAX / 2));
    // What holds nobody back does not count.
    assert!(writer.volume_is_behind(20 * HELD_BACK_MAX, Reading::Nobody) > Some(HELD_BACK_MAX));
    assert!(writer.volume_is_behind(20 * HELD_BACK_MAX, Reading::Behind).is_some());
    assert_eq!(writer.volume_is_behind(HELD_BACK_MAX / 2, Reading::HeldBack), None);
    assert!(!writer.is_writing_to_volume());
    assert_eq!(given_up(&store), 1);
    disk.let_go();
}

#[test]
fn a_body_that_memory_holds_waits_there_for_a_drive_that_holds_its_readers_back() {
    const LENGTH: u64 = 1 << 20;
    let disk = CrashDisk::new(1);
    let store = store_on(&disk);
    let mut writer = ahead_of(&disk, &store, LENGTH, Reading::HeldBack);
    assert_eq!(writer.volume_is_behind(HELD_BACK_MAX, Reading::HeldBack), None);
    assert!(writer.is_writing_to_volume(), "no reader waits any more");
    while writer.position() < LENGTH {
        writer.push(body(1, writer.position(), PIECE)).unwrap();
        // As a transfer asks: before the reader has had what came, and after.
        for reading in [Reading::Behind, Reading::HeldBack] {
            assert_eq!(writer.volume_is_behind(Duration::ZERO, reading), None);
        }
    }
    writer.seal().unwrap();
    disk.let_go();
    until(|| store.volumes()[0].usage.body_bytes >= LENGTH);
    assert_eq!(given_up(&store), 0);
}

#[test]
fn a_drive_that_writes_nothing_costs_a_body_without_readers_after_a_bounded_wait() {
    let disk = CrashDisk::new(1);
    let store = store_on(&disk);
    let mut writer = ahead_with_a_window(&disk, &store);
    let left = writer.volume_is_behind(Duration::ZERO, Reading::Nobody).unwrap();
    assert_eq!(writer.volume_is_behind(left / 2, Reading::Nobody), Some(left / 2));
    assert_eq!(writer.volume_is_behind(left / 2, Reading::Nobody), None);
    assert!(!writer.is_writing_to_volume());
    disk.let_go();
}

#[test]
fn a_body_that_memory_keeps_goes_at_the_drives_pace_or_a_window_ahead_of_it() {
    const LENGTH: u64 = 2 << 20;
    let [alone, read] = [Reading::Nobody, Reading::Behind].map(|reading| {
        let disk = CrashDisk::new(1);
        let store = store_on(&disk);
        let writer = ahead_of(&disk, &store, LENGTH, reading);
        disk.let_go();
        writer.position()
    });
    // The queue of 512 KiB, and what the engine has taken out of it.
    assert!(alone < 1 << 20, "{alone}");
    assert!(read >= alone + (256 << 10), "{read} is a window ahead of {alone}");
}

#[test]
fn what_waits_for_a_drive_is_kept_though_memory_is_needed() {
    // The queue takes three of them; four more are an eighth of the memory.
    const KEPT: u64 = 7;
    let disk = CrashDisk::new(1);
    let store = store_on(&disk);
    disk.hold();
    (1..=KEPT).for_each(|number| drop(put(&store, number, 120_000)));
    (10..60).for_each(|number| drop(put(&store, number, 120_000)));
    assert!(store.usage().evicted > 10, "memory was needed");
    disk.let_go();
    store.close();
    let tiers = store.inside.volumes.tiers.all();
    let is_kept = |number: &u64| {
        let key = key(*number);
        tiers.iter().any(|tier| tier.count_of(volume_key::digest(&key.full, key.site)) > 0)
    };
    let lost: Vec<u64> = (1..=KEPT).filter(|number| !is_kept(number)).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

/// Fills the memory with two bodies, and with a third of which nobody has read anything.
fn full(store: &Store) -> (Writer, Bytes) {
    let stamp = store.ledger().current();
    let (_, mut writer) = store.begin(proof(&[], &[]), key(3), stamp, None).unwrap();
    writer.let_go(0);
    let pushed = (0..32).find_map(|_| writer.push(body(3, writer.position(), PIECE)).err());
    (writer, pushed.expect("others have most of the memory").rest)
}

/// A wait for memory after which all that the writer can free by itself is freed.
fn waiting(writer: &mut Writer, mut rest: Bytes) -> (WriterWait, Bytes) {
    let mut memory = writer.wait_for_memory();
    for _ in 0..4 {
        writer.arm(&mut memory);
        rest = writer.push(rest).unwrap_err().rest;
        let _ = is_over(&mut memory);
    }
    writer.arm(&mut memory);
    assert!(!is_over(&mut memory), "nothing is freed");
    (memory, rest)
}

#[test]
fn a_writer_without_memory_is_woken_by_the_reader_that_lets_go_of_a_body() {
    let store = Store::new(1 << 20);
    let [first, second] = [1, 2].map(|number| InUse::new(put(&store, number, 450_000)));
    let (mut writer, rest) = full(&store);
    let (mut memory, rest) = waiting(&mut writer, rest);
    drop(first);
    assert!(is_over(&mut memory), "what was read can be evicted");
    writer.push(rest).unwrap();
    drop(second);
}

#[test]
fn a_writer_without_memory_is_woken_by_the_reader_that_lets_go_of_the_last_bytes() {
    let store = Store::new(1 << 20);
    let [first, second] = [1, 2].map(|number| put(&store, number, 450_000));
    let held: Vec<Bytes> =
        [&first, &second].iter().flat_map(|held| held.blocks().unwrap().to_vec()).collect();
    drop((first, second));
    let (mut writer, rest) = full(&store);
    assert!(store.usage().evicted > 0, "they left the index, but not the memory");
    let (mut memory, rest) = waiting(&mut writer, rest);
    drop(held);
    assert!(is_over(&mut memory));
    writer.push(rest).unwrap();
}
