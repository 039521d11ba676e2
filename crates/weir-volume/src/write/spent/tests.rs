//! What was written today is known after a restart, and a torn count leaves the one before.

use super::{Spent, SpentFile};
use crate::testing::Folder;

#[test]
fn what_was_written_today_is_known_after_a_restart() {
    let folder = Folder::new("spent");
    let (mut file, said) = SpentFile::open(folder.path(), 7).unwrap();
    assert_eq!(said, None);
    for bytes in 1..=5 {
        file.write(Spent { day: 20_000, bytes }).unwrap();
        assert!(file.unsynced().is_some() && file.unsynced().is_none());
        assert_eq!(SpentFile::open(folder.path(), 7).unwrap().1, Some(Spent { day: 20_000, bytes }));
    }
    assert_eq!(SpentFile::open(folder.path(), 8).unwrap().1, None);
}

#[test]
fn a_torn_count_leaves_the_one_before() {
    let folder = Folder::new("spent");
    let (mut file, _) = SpentFile::open(folder.path(), 7).unwrap();
    file.write(Spent { day: 20_000, bytes: 100 }).unwrap();
    file.write(Spent { day: 20_000, bytes: 200 }).unwrap();
    let path = folder.path().join(format!("written-{:032x}", 7));
    let mut bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 128);
    // The second write went to the first slot.
    bytes[40] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(SpentFile::open(folder.path(), 7).unwrap().1, Some(Spent { day: 20_000, bytes: 100 }));
}
