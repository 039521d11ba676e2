//! A writer that cannot go on is woken: by a reader that frees memory, and by its volume.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use weir_disk::testing::CrashDisk;

use crate::samples::{body, key, now, proof, put};
use crate::volume::{Clock, Volume, VolumeSettings};
use crate::{InUse, Ledger, MARKS_MAX, Settings, Store, Writer, WriterWait};

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

/// A writer of a body that only the volume can keep, and that is ahead of a drive which stands still.
fn ahead_of(disk: &CrashDisk, store: &Store) -> Writer {
    let stamp = store.ledger().current();
    let (_, mut writer) = store.begin(proof(&[], &[]), key(1), stamp, Some(MEMORY)).unwrap();
    disk.hold();
    while writer.volume_is_behind(Duration::ZERO).is_none() {
        writer.push(body(1, writer.position(), PIECE)).unwrap();
        assert!(writer.is_writing_to_volume() && writer.position() < MEMORY, "the queue is bounded");
    }
    writer
}

#[test]
fn a_writer_that_is_ahead_of_its_volume_is_woken_when_that_has_room() {
    let disk = CrashDisk::new(1);
    let store = store_on(&disk);
    let mut writer = ahead_of(&disk, &store);
    let mut room = writer.wait_for_volume();
    writer.arm(&mut room);
    assert!(writer.volume_is_behind(Duration::ZERO).is_some() && !is_over(&mut room));
    disk.let_go();
    while writer.volume_is_behind(Duration::ZERO).is_some() {
        wait_for(&mut room);
        writer.arm(&mut room);
    }
    assert!(writer.is_writing_to_volume());
}

#[test]
fn a_drive_that_stands_still_costs_the_storing_after_a_bounded_wait() {
    let disk = CrashDisk::new(1);
    let store = store_on(&disk);
    let mut writer = ahead_of(&disk, &store);
    let patience = writer.volume_is_behind(Duration::ZERO).unwrap();
    assert_eq!(writer.volume_is_behind(patience / 2), Some(patience / 2));
    assert_eq!(writer.volume_is_behind(patience / 2), None);
    assert!(!writer.is_writing_to_volume());
    disk.let_go();
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
