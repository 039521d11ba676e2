//! A volume whose drive is read-only when it is opened: it serves what it has, and nothing on it changes.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_disk::{Disk, DiskFile, Identity, Room};

use super::real::{check, clock, store};
use crate::settings::VolumeSettings;
use crate::testing::CrashDisk;
use crate::testing::samples;
use crate::{Volume, VolumeState};

/// A disk that cannot be changed.
#[derive(Debug)]
struct Sealed {
    disk: CrashDisk,
    tried: Arc<AtomicU64>,
    is_writable: AtomicBool,
}

#[derive(Debug)]
struct SealedFile(Arc<dyn DiskFile>, Arc<AtomicU64>);

fn refused<T>(tried: &AtomicU64) -> io::Result<T> {
    tried.fetch_add(1, Ordering::SeqCst);
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Disk for Sealed {
    fn create(&self, _: &str) -> io::Result<Arc<dyn DiskFile>> {
        refused(&self.tried)
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(SealedFile(self.disk.open(path)?, Arc::clone(&self.tried))))
    }

    fn unlink(&self, _: &str) -> io::Result<()> {
        refused(&self.tried)
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        refused(&self.tried)
    }

    fn make_folder(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.disk.list(folder)
    }

    fn sync_folder(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn identity(&self, path: &str) -> io::Result<Option<Identity>> {
        self.disk.identity(path)
    }

    fn room(&self) -> io::Result<Room> {
        self.disk.room()
    }

    fn is_sealed(&self) -> bool {
        true
    }

    fn is_writable(&self) -> bool {
        self.is_writable.load(Ordering::SeqCst)
    }
}

impl DiskFile for SealedFile {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(into, offset)
    }

    fn read_resident_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_resident_at(into, offset)
    }

    fn write_all_at(&self, _: &[&[u8]], _: u64) -> io::Result<()> {
        refused(&self.1)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn identity(&self) -> io::Result<Identity> {
        self.0.identity()
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        refused(&self.1)
    }
}

fn settings() -> VolumeSettings {
    VolumeSettings { segment_bytes: Some(128 << 10), ..VolumeSettings::of(4 << 20, clock()) }
}

fn open(disk: impl Disk + 'static) -> Arc<Volume> {
    Arc::new(Volume::open(Arc::new(disk), &settings()).unwrap().0)
}

fn contents(disk: &CrashDisk) -> BTreeMap<String, Vec<u8>> {
    let content = |path: String| disk.content(&path).map(|bytes| (path, bytes));
    disk.paths().into_iter().filter_map(content).collect()
}

fn held(volume: &Volume) -> Vec<u64> {
    (0..30).filter(|key| check(volume, *key, *key).is_some()).collect()
}

#[test]
fn a_sealed_volume_serves_what_it_has_and_nothing_of_it_is_changed() {
    let disk = CrashDisk::new(1);
    let volume = open(disk.clone());
    (0..30).for_each(|key| store(&volume, key, 40_000));
    volume.sync().unwrap();
    volume.renew_opening(7);
    assert_eq!(held(&volume).len(), 30);
    drop(volume);
    // What a crash may leave: files that are not needed, a file that is no segment, a torn record.
    let put = |path: &str, offset: u64| {
        let file = disk.open(path).or_else(|_| disk.create(path)).unwrap();
        file.write_all_at(&[&[7; 100]], offset).unwrap();
    };
    put("index/checkpoint-00009999", 0);
    put("index/journal-00000000", 0);
    put("segments/00000000.seg", 0);
    let newest = disk.paths().into_iter().rfind(|path| path.starts_with("segments/")).unwrap();
    put(&newest, disk.content(&newest).unwrap().len() as u64);
    disk.unlink("superblock-2").unwrap();
    let before = contents(&disk);

    let tried = Arc::new(AtomicU64::new(0));
    let sealed = Arc::new(Sealed {
        disk: disk.clone(),
        tried: Arc::clone(&tried),
        is_writable: AtomicBool::new(false),
    });
    let volume = Arc::new(Volume::open(Arc::clone(&sealed) as Arc<dyn Disk>, &settings()).unwrap().0);
    assert_eq!(tried.swap(0, Ordering::SeqCst), 1, "nothing was tried but the superblock's second copy");
    assert_eq!(volume.state(), VolumeState::ReadOnly);
    assert_eq!(held(&volume).len(), 30);
    let opening = volume.renew_opening(8);
    assert_eq!(opening.own, opening.found, "it is the same opening still");
    assert!(opening.found > 0);
    // It does not shrink: what left the index would be back.
    volume.resize(1 << 20);
    assert!(volume.store(&samples::key(77), bytes::Bytes::new(), 77, &[]).is_err());
    let key = samples::key(3);
    let record = volume.record(volume.find(key.digest)[0], &key).unwrap().unwrap();
    assert!(!volume.has_failed_removals());
    volume.remove(key.digest, record.number).unwrap();
    assert_eq!(volume.sync(), None, "nothing is durable");
    assert!(volume.has_failed_removals(), "what was removed is back at the next opening, and that is known");
    assert_eq!(held(&volume), (0..30).filter(|key| *key != 3).collect::<Vec<_>>());
    assert_eq!(volume.verify(&|| std::ops::ControlFlow::Continue(())).unwrap().damaged, 0);
    volume.write_again();
    assert_eq!(volume.state(), VolumeState::ReadOnly, "it stays so for as long as it is open");
    assert!(volume.is_there() && !volume.is_unsealed());
    sealed.is_writable.store(true, Ordering::SeqCst);
    let begun = samples::now();
    while !volume.is_unsealed() {
        assert!(volume.is_there() && samples::now().since(begun.mono).as_secs() < 20);
        std::thread::yield_now();
    }
    assert_eq!(volume.state(), VolumeState::ReadOnly);
    drop(volume);
    assert_eq!(tried.load(Ordering::SeqCst), 0);
    assert_eq!(contents(&disk), before);

    let volume = open(disk);
    assert_eq!(held(&volume).len(), 30);
    store(&volume, 30, 40_000);
    assert!(volume.sync().is_some());
}
