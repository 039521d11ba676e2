//! The numbers of a ledger on a volume: they never say less than the volume holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::real::{open, store};
use crate::numbers::Bears;
use crate::numbers::Durable;
use crate::testing::Folder;

const SIZE_BYTES: u64 = 16 << 20;

/// Removes the index, or makes it one of the version before, so that it is made again.
fn lose_index(folder: &Folder, is_older: bool) {
    for entry in std::fs::read_dir(folder.path().join("index")).unwrap() {
        let path = entry.unwrap().path();
        if is_older {
            let mut bytes = std::fs::read(&path).unwrap();
            let at = if path.to_string_lossy().contains("journal") { 8 } else { 16 };
            assert_eq!(bytes[at], 3);
            bytes[at] = 2;
            std::fs::write(path, bytes).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
    }
}

/// Opens the volume until it has a whole checkpoint.
fn await_checkpoint(folder: &Folder) {
    loop {
        let (volume, recovered) = open(folder, SIZE_BYTES);
        if !recovered.was_rebuilt {
            return;
        }
        // The writer writes it between other work.
        std::thread::sleep(std::time::Duration::from_millis(100));
        volume.close();
    }
}

#[test]
fn the_largest_stamp_is_known_after_every_kind_of_start() {
    let folder = Folder::new("bears");
    let (volume, _) = open(&folder, SIZE_BYTES);
    assert_eq!(volume.bears(), Bears::default());
    // The stamp is the key.
    for key in [5, 900, 7] {
        store(&volume, key, 3000);
    }
    volume.sync();
    assert_eq!(volume.bears().largest, 900);
    volume.close();
    drop(volume);
    await_checkpoint(&folder);
    for lose in [None, Some(false), Some(true)] {
        if let Some(is_older) = lose {
            lose_index(&folder, is_older);
        }
        let (volume, recovered) = open(&folder, SIZE_BYTES);
        assert_eq!((recovered.was_rebuilt, recovered.objects), (lose.is_some(), 3));
        assert_eq!(volume.bears().largest, 900, "{lose:?}");
        volume.close();
    }
    let (volume, _) = open(&folder, SIZE_BYTES);
    volume.set_swept(1000).unwrap();
    volume.close();
    drop(volume);
    assert_eq!(open(&folder, SIZE_BYTES).0.bears().largest, 1000);
}

#[test]
fn how_far_the_ledger_was_is_noted_though_nothing_else_is_written() {
    let folder = Folder::new("bears-ledger");
    let ledger = Arc::new(AtomicU64::new(10));
    let (volume, _) = open(&folder, SIZE_BYTES);
    volume.shared.follow(4, Arc::clone(&ledger));
    store(&volume, 5, 3000);
    volume.sync();
    let frames = volume.reached().epoch;
    ledger.store(70, Ordering::Release);
    volume.sync();
    assert_eq!(volume.reached().epoch, frames + 1, "one frame more");
    volume.close();
    drop(volume);
    let (volume, _) = open(&folder, SIZE_BYTES);
    assert_eq!(volume.bears(), Bears { largest: 70, reached: Durable { ledger: 4, number: 70 } });
    volume.sync();
    let frames = volume.reached().epoch;
    volume.sync();
    assert_eq!(volume.reached().epoch, frames, "nothing is new");
}
