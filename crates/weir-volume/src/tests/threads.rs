//! The threads: a full queue refuses and never waits, a panic ejects the volume, readers race with eviction.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;

use super::real::{check, clock, open, store};
use crate::settings::{Clock, VolumeSettings};
use crate::state::VolumeState;
use crate::testing::CrashDisk;
use crate::testing::Folder;
use crate::testing::samples;
use crate::tests::world::head;
use crate::volume::Volume;
use crate::write::put::PutError;

#[test]
fn a_full_queue_fails_the_put_and_gives_its_room_back() {
    let mut settings = VolumeSettings::of(64 << 20, clock());
    settings.queue_bytes = 300_000;
    let (volume, _) = Volume::open(Arc::new(CrashDisk::new(1)), &settings).unwrap();
    let volume = Arc::new(volume);
    let put = volume.begin(&samples::key(1), head(1, 0), 1, None).unwrap();
    assert_eq!(put.push(0, samples::body(1, 0, 400_000)), Err(PutError::QueueFull));
    assert_eq!(put.error(), Some(PutError::QueueFull));
    assert_eq!(put.push(0, samples::body(1, 0, 10)), Err(PutError::QueueFull));
    assert_eq!(put.finish(400_000), Err(PutError::QueueFull));
    volume.sync().unwrap();
    assert!(volume.find(samples::key(1).digest).is_empty());
    assert_eq!(volume.usage().queue_full, 1);
    // The queue's room is given back again and again, also that of a body which never gets long enough to be
    // written.
    for key in 2..30 {
        let put = volume.begin(&samples::key(key), head(key, 0), 1, None).unwrap();
        put.push(0, samples::body(key, 0, 50_000)).unwrap();
        put.push(50_000, samples::body(key, 50_000, 50_000)).unwrap();
        volume.sync().unwrap();
        if key % 2 == 0 {
            put.finish(100_000).unwrap();
        }
    }
    volume.sync().unwrap();
    for key in 2..30 {
        let expected = (key % 2 == 0).then_some(100_000);
        assert_eq!(check(&volume, key, key), expected, "{key}");
    }
}

#[test]
fn a_panic_of_the_writer_ejects_the_volume_and_nobody_waits() {
    let moments = Arc::new(AtomicU64::new(0));
    let is_over = Arc::new(AtomicBool::new(false));
    let own = Arc::clone(&is_over);
    let clock = Clock::new(move || {
        assert!(!own.load(Ordering::Relaxed), "the clock stops");
        std::time::Duration::from_millis(moments.fetch_add(1, Ordering::Relaxed))
    });
    let (volume, _) =
        Volume::open(Arc::new(CrashDisk::new(1)), &VolumeSettings::of(64 << 20, clock)).unwrap();
    let volume = Arc::new(volume);
    store(&volume, 1, 1000);
    volume.sync().unwrap();
    is_over.store(true, Ordering::Relaxed);
    let _ = volume.store(&samples::key(2), Bytes::new(), 1, &[]);
    let _ = volume.sync();
    volume.close();
    assert_eq!(volume.state(), VolumeState::Ejected);
    assert!(volume.find(samples::key(1).digest).is_empty());
    assert_eq!(volume.store(&samples::key(3), Bytes::new(), 1, &[]), Err(PutError::Failed));
    assert_eq!(volume.sync(), None);
}

/// A purge must reach what is served, even if nothing can be stored.
#[test]
fn a_volume_that_stores_no_more_still_removes() {
    let disk = CrashDisk::new(1);
    let (volume, _) = Volume::open(Arc::new(disk.clone()), &VolumeSettings::of(64 << 20, clock())).unwrap();
    let volume = Arc::new(volume);
    store(&volume, 1, 1000);
    volume.sync().unwrap();
    let key = samples::key(1);
    let record = volume.record(volume.find(key.digest)[0], &key).unwrap().unwrap();
    while volume.state() == VolumeState::Up {
        disk.fail_at(0, crate::testing::Fault::Io);
        // This store fails, or makes the next one fail.
        let _ = volume.store(&samples::key(2), Bytes::new(), 1, &[]);
        let _ = volume.sync();
    }
    assert_eq!(volume.state(), VolumeState::ReadOnly);
    assert_eq!(volume.store(&samples::key(3), Bytes::new(), 1, &[]), Err(PutError::Failed));
    assert_eq!(check(&volume, 1, 1), Some(1000));
    volume.remove(key.digest, record.number).unwrap();
    assert_eq!(volume.sync(), None, "it is not durable");
    assert!(volume.find(key.digest).is_empty());
}

#[test]
fn a_panic_of_a_reader_ejects_the_volume() {
    let (volume, _) =
        Volume::open(Arc::new(CrashDisk::new(1)), &VolumeSettings::of(64 << 20, clock())).unwrap();
    volume.on_reader(|| panic!("a reader's")).unwrap();
    volume.close();
    assert_eq!(volume.state(), VolumeState::Ejected);
}

/// A new head takes the place of the old one. A reader that looks in between finds one of them.
#[test]
fn an_object_whose_head_is_refreshed_is_found_at_every_moment() {
    let (volume, _) =
        Volume::open(Arc::new(CrashDisk::new(1)), &VolumeSettings::of(64 << 20, clock())).unwrap();
    let volume = Arc::new(volume);
    store(&volume, 1, 300_000);
    volume.sync().unwrap();
    let key = samples::key(1);
    let number = volume.record(volume.find(key.digest)[0], &key).unwrap().unwrap().number;
    let is_over = AtomicBool::new(false);
    let missed = std::thread::scope(|scope| {
        let look = scope.spawn(|| {
            let mut missed = 0;
            while !is_over.load(Ordering::Relaxed) {
                missed += u64::from(volume.find(key.digest).is_empty());
            }
            missed
        });
        for _ in 0..200 {
            for version in 0..100 {
                volume.refresh(key.digest, number, head(1, version), 1).unwrap();
            }
            volume.sync().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        look.join().unwrap()
    });
    assert_eq!(missed, 0);
}

/// All threads read while the volume is filled several times over: they get right bytes or none.
#[test]
fn readers_race_with_eviction() {
    let folder = Folder::new("race");
    let (volume, _) = open(&folder, 8 << 20);
    let stored = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    let whole = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (volume, stored, is_over, whole) = (&volume, &stored, &is_over, &whole);
            scope.spawn(move || {
                let mut random = super::world::Random(thread);
                while !is_over.load(Ordering::Relaxed) {
                    let newest = stored.load(Ordering::Relaxed);
                    let key = newest.saturating_sub(random.below(80));
                    // Compares every byte that comes.
                    if let Some(length) = checked(volume, key) {
                        assert_eq!(length, 30_000 + key * 100);
                        whole.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for key in 0..700 {
            store(&volume, key, 30_000 + key * 100);
            stored.store(key, Ordering::Relaxed);
            if key % 20 == 0 {
                volume.sync().unwrap();
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    volume.sync().unwrap();
    let usage = volume.usage();
    assert!(usage.segments_dropped > 20 && usage.damaged == 0, "{usage:?}");
    assert!(whole.load(Ordering::Relaxed) > 0);
    assert_eq!(volume.state(), VolumeState::Up);
}

/// As [`check`], but the object may go while it is read.
fn checked(volume: &Volume, key: u64) -> Option<u64> {
    let full = samples::key(key);
    let candidate = *volume.find(full.digest).first()?;
    let record = volume.record(candidate, &full).ok()??;
    let mut position = crate::Position::default();
    let mut at = 0;
    loop {
        match volume.read(&record, &mut position, at, 65_536).ok()? {
            crate::Part::Bytes(checked) => {
                let bytes = checked.into_bytes();
                assert_eq!(bytes, samples::body(key, at, bytes.len()));
                at += bytes.len() as u64;
            }
            crate::Part::End => return Some(at),
            crate::Part::Gap => return None,
        }
    }
}
