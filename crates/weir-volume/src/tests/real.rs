//! The same on a real file system.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weir_disk::{Disk, OsDisk};

use crate::read::reader::{Part, Position, ReadError};
use crate::recover::{OpenError, Recovered};
use crate::settings::{Clock, VolumeSettings};
use crate::testing::Folder;
use crate::testing::samples;
use crate::tests::world::head;
use crate::volume::Volume;

pub(super) fn clock() -> Clock {
    let start = samples::now().mono;
    Clock::new(move || samples::now().since(start))
}

pub(super) fn open(folder: &Folder, size_bytes: u64) -> (Arc<Volume>, Recovered) {
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::take(folder.path()).unwrap());
    let (volume, recovered) = Volume::open(disk, &VolumeSettings::of(size_bytes, clock())).unwrap();
    (Arc::new(volume), recovered)
}

/// Reads the object under a key, whatever its number, and compares it. Returns its length.
pub(super) fn check(volume: &Volume, key: u64, seed: u64) -> Option<u64> {
    let key = samples::key(key);
    let candidate = *volume.find(key.digest).first()?;
    let record = volume.record(candidate, &key).ok()??;
    assert_eq!(record.head, head(seed, 0));
    let mut position = Position::default();
    let mut at = 0;
    loop {
        let part = match volume.try_read(&record, &mut position, at, 200_000) {
            Err(ReadError::NotResident) => volume.read(&record, &mut position, at, 200_000),
            part => part,
        };
        match part.unwrap() {
            Part::Bytes(checked) => {
                let bytes = checked.into_bytes();
                assert_eq!(bytes, samples::body(seed, at, bytes.len()));
                at += bytes.len() as u64;
            }
            Part::End => return Some(at),
            Part::Gap => return None,
        }
    }
}

pub(super) fn store(volume: &Arc<Volume>, key: u64, length: u64) {
    let mut parts = Vec::new();
    let mut at = 0;
    while at < length {
        let count = (length - at).min(50_000);
        parts.push(samples::body(key, at, count as usize));
        at += count;
    }
    volume.store(&samples::key(key), head(key, 0), key, &parts).unwrap();
}

fn used_on_disk(folder: &Folder) -> u64 {
    let walk = |path: &str| std::fs::read_dir(folder.path().join(path)).unwrap();
    let files = ["segments", "index", ""].into_iter().flat_map(walk);
    files
        .map(|entry| entry.unwrap().metadata().unwrap())
        .filter(|file| file.is_file())
        .map(|file| file.len())
        .sum()
}

#[test]
fn objects_live_through_restarts_on_a_real_file_system() {
    let folder = Folder::new("volume");
    let lengths = |key: u64| [0, 100, 5000, 70_000, 400_000, 9_000_000][key as usize % 6];
    let (volume, recovered) = open(&folder, 256 << 20);
    assert_eq!(recovered, Recovered::default());
    for key in 0..30 {
        store(&volume, key, lengths(key));
    }
    volume.sync().unwrap();
    for key in 0..30 {
        assert_eq!(check(&volume, key, key), Some(lengths(key)));
    }
    let other = OsDisk::take(folder.path());
    assert_eq!(other.unwrap_err().kind(), std::io::ErrorKind::ResourceBusy);
    drop(volume);
    let (volume, recovered) = open(&folder, 256 << 20);
    assert_eq!((recovered.objects, recovered.scanned, recovered.was_rebuilt), (30, 0, false));
    assert!((0..30).all(|key| check(&volume, key, key) == Some(lengths(key))));
    assert_eq!(volume.verify(&|| std::ops::ControlFlow::Continue(())).unwrap().objects, 30);
    let segments = volume.segments();
    let mut stamps = Vec::new();
    let count = volume.walk(|record| {
        assert!(segments.contains(&record.segment()));
        stamps.push(record.stamp);
        std::ops::ControlFlow::Continue(())
    });
    stamps.sort_unstable();
    assert_eq!((count.unwrap(), stamps), (30, (0..30).collect()));
    volume.close();
    drop(volume);
    // Without its index.
    std::fs::remove_dir_all(folder.path().join("index")).unwrap();
    let (volume, recovered) = open(&folder, 256 << 20);
    assert_eq!((recovered.objects, recovered.was_rebuilt), (30, true));
    assert!((0..30).all(|key| check(&volume, key, key) == Some(lengths(key))));
}

#[test]
fn what_is_read_when_a_volume_is_handed_over_is_read_on_until_its_segment_is_dropped() {
    let folder = Folder::new("handed-over");
    let size = 64 << 20;
    let (old, _) = open(&folder, size);
    store(&old, 1, 9_000_000);
    old.sync().unwrap();
    let candidate = old.find(samples::key(1).digest)[0];
    let record = old.record(candidate, &samples::key(1)).unwrap().unwrap();
    let read_on = |at: u64| {
        let mut position = Position::default();
        match old.read(&record, &mut position, at, 10_000) {
            Ok(Part::Bytes(bytes)) => {
                assert_eq!(bytes.bytes(), &samples::body(1, at, bytes.bytes().len()), "at {at}");
                true
            }
            Ok(Part::Gap) | Err(ReadError::Gone | ReadError::Device(_)) => false,
            other => panic!("{other:?}"),
        }
    };
    old.hand_over();
    assert!(old.find(samples::key(1).digest).is_empty() && old.usage().objects == 0);
    assert!(old.begin(&samples::key(2), head(2, 0), 2, None).is_err(), "nothing is stored any more");
    let (new, recovered) = open(&folder, size);
    assert_eq!(recovered.objects, 1);
    assert!(read_on(0) && read_on(8_900_000));
    let (done, answered) = std::sync::mpsc::channel();
    old.on_reader(move || done.send(()).unwrap()).unwrap();
    answered.recv().unwrap();
    // The new one drops what the old one reads.
    for key in 10..150 {
        store(&new, key, 1_000_000);
        new.sync().unwrap();
    }
    assert!(new.find(samples::key(1).digest).is_empty());
    assert!(read_on(0) && read_on(8_900_000), "its files are still open");
    old.let_dropped_go().unwrap();
    assert!(!read_on(0) && !read_on(8_900_000), "a gap, and no other bytes");
    assert!(old.segments().is_empty(), "no file of it is held open");
}

#[test]
fn the_folder_never_holds_more_than_its_size() {
    let folder = Folder::new("full");
    let size = 16 << 20;
    let (volume, _) = open(&folder, size);
    for key in 0..600 {
        // A store does not wait for room in the queue, but this test does.
        store(&volume, key, 100_000);
        if key % 10 == 0 {
            volume.sync().unwrap();
            assert!(used_on_disk(&folder) <= size);
        }
    }
    volume.sync().unwrap();
    let usage = volume.usage();
    assert!(usage.segments_dropped > 0 && usage.used_bytes <= size, "{usage:?}");
    assert_eq!(check(&volume, 599, 599), Some(100_000));
    assert_eq!(check(&volume, 0, 0), None);
    drop(volume);
    let (volume, recovered) = open(&folder, size);
    // A segment of five objects may have been half dropped.
    assert!(recovered.objects.abs_diff(usage.objects) <= 5, "{recovered:?} {usage:?}");
    assert_eq!(volume.verify(&|| std::ops::ControlFlow::Continue(())).unwrap().damaged, 0);
}

#[test]
fn a_damaged_superblock_is_named_and_nothing_is_touched() {
    let folder = Folder::new("damaged");
    let (volume, _) = open(&folder, 16 << 20);
    store(&volume, 1, 1000);
    drop(volume);
    let path = folder.path().join("superblock");
    let whole = std::fs::read(&path).unwrap();
    // Volumes had one copy before.
    std::fs::remove_file(folder.path().join("superblock-2")).unwrap();
    let try_open = || {
        let disk: Arc<dyn Disk> = Arc::new(OsDisk::take(folder.path()).unwrap());
        Volume::open(disk, &VolumeSettings::of(16 << 20, clock()))
    };
    let mut bytes = whole.clone();
    bytes[20] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert!(matches!(try_open(), Err(OpenError::Superblock(_))));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(try_open(), Err(OpenError::NoSuperblock)));
    std::fs::write(&path, &whole).unwrap();
    let (volume, _) = try_open().unwrap();
    assert_eq!(check(&volume, 1, 1), Some(1000));
    assert!(matches!(
        Volume::open(Arc::new(crate::testing::CrashDisk::new(1)), &VolumeSettings::of(1000, clock())),
        Err(OpenError::Size(1000))
    ));
}

#[test]
fn a_reader_on_the_volumes_thread_gets_bytes() {
    let folder = Folder::new("reader");
    let (volume, _) = open(&folder, 16 << 20);
    store(&volume, 1, 300_000);
    volume.sync().unwrap();
    let (done, wait) = crossbeam_channel::bounded(1);
    let own = Arc::clone(&volume);
    volume.on_reader(move || done.send(check(&own, 1, 1)).unwrap()).unwrap();
    assert_eq!(wait.recv_timeout(Duration::from_secs(20)).unwrap(), Some(300_000));
    // A job may be the last holder of the volume.
    let own = Arc::clone(&volume);
    let (go, begin) = crossbeam_channel::bounded::<()>(1);
    let (done, wait) = crossbeam_channel::bounded(1);
    volume
        .on_reader(move || {
            begin.recv().unwrap();
            drop(own);
            done.send(()).unwrap();
        })
        .unwrap();
    drop(volume);
    go.send(()).unwrap();
    wait.recv_timeout(Duration::from_secs(20)).unwrap();
}

#[test]
fn a_handle_dropped_in_the_middle_leaves_nothing() {
    let folder = Folder::new("dropped");
    let (volume, _) = open(&folder, 64 << 20);
    let key = samples::key(1);
    let put = volume.begin(&key, Bytes::from_static(b"head"), 1, None).unwrap();
    put.push(0, samples::body(1, 0, 3_000_000)).unwrap();
    volume.sync().unwrap();
    assert!(!volume.find(key.digest).is_empty());
    drop(put);
    volume.sync().unwrap();
    assert!(volume.find(key.digest).is_empty());
    let put = volume.begin(&key, head(1, 0), 1, Some(3_000_000)).unwrap();
    put.push(0, samples::body(1, 0, 1_000_000)).unwrap();
    put.rest().unwrap();
    volume.sync().unwrap();
    let candidate = volume.find(key.digest)[0];
    let record = volume.record(candidate, &key).unwrap().unwrap();
    assert_eq!(volume.held(&record).length(), 1_000_000);
    let put = volume.resume(record.digest, record.number, record.stamp).unwrap();
    put.push(1_000_000, samples::body(1, 1_000_000, 2_000_000)).unwrap();
    put.finish(3_000_000).unwrap();
    volume.refresh(record.digest, record.number, head(1, 0), 9).unwrap();
    volume.sync().unwrap();
    assert_eq!(check(&volume, 1, 1), Some(3_000_000));
    volume.remove(key.digest, record.number).unwrap();
    volume.sync().unwrap();
    assert!(volume.find(key.digest).is_empty());
}

#[test]
fn an_object_has_one_open_put_at_a_time() {
    let folder = Folder::new("hands");
    let (volume, _) = open(&folder, 64 << 20);
    let key = samples::key(1);
    let put = volume.begin(&key, head(1, 0), 1, Some(3_000_000)).unwrap();
    put.push(0, samples::body(1, 0, 1_500_000)).unwrap();
    volume.sync().unwrap();
    // Its end would be taken for the first put's.
    let other = volume.resume(key.digest, put.number(), 1);
    assert!(other.map(crate::Put::rest).is_err());
    put.push(1_500_000, samples::body(1, 1_500_000, 1_500_000)).unwrap();
    put.finish(3_000_000).unwrap();
    volume.sync().unwrap();
    assert_eq!(check(&volume, 1, 1), Some(3_000_000));
}

/// Epochs that are written after an index was made again are not those of the lost one.
#[test]
fn reached_is_counted_from_the_opening() {
    let folder = Folder::new("found");
    let (volume, _) = open(&folder, 64 << 20);
    store(&volume, 1, 1000);
    volume.sync().unwrap();
    drop(volume);
    std::fs::remove_dir_all(folder.path().join("index")).unwrap();
    let (volume, recovered) = open(&folder, 64 << 20);
    assert!(recovered.was_rebuilt);
    store(&volume, 2, 1000);
    assert!(volume.sync().is_some_and(|epoch| epoch > 0));
    assert!(volume.found().epoch == 0 && volume.found().end > 0);
    assert!(volume.reached().epoch > 0 && volume.reached().end > volume.found().end);
}
