//! What was written today is known after a restart, and a torn count leaves the one before.

use super::{Spent, SpentFile};
use crate::testing::CrashDisk;

#[test]
fn what_was_written_today_is_known_after_a_restart() {
    let disk = CrashDisk::new(1);
    let (mut file, said) = SpentFile::open(&disk, 7).unwrap();
    assert_eq!(said, None);
    for bytes in 1..=5 {
        file.write(Spent { day: 20_000, bytes }).unwrap();
        assert!(file.unsynced().is_some() && file.unsynced().is_none());
        assert_eq!(SpentFile::open(&disk, 7).unwrap().1, Some(Spent { day: 20_000, bytes }));
    }
    assert_eq!(SpentFile::open(&disk, 8).unwrap().1, None);
}

#[test]
fn a_torn_count_leaves_the_one_before() {
    let disk = CrashDisk::new(1);
    let (mut file, _) = SpentFile::open(&disk, 7).unwrap();
    file.write(Spent { day: 20_000, bytes: 100 }).unwrap();
    file.write(Spent { day: 20_000, bytes: 200 }).unwrap();
    let path = format!("written-{:032x}", 7);
    assert_eq!(disk.content(&path).unwrap().len(), 128);
    // The second write went to the first slot.
    disk.flip(&path, 40, 1);
    assert_eq!(SpentFile::open(&disk, 7).unwrap().1, Some(Spent { day: 20_000, bytes: 100 }));
}
