//! Which errors a damaged database gives, and that it can be made again.

use std::thread;

use super::*;
use crate::{OpenError, destroy};

/// Three tables with a row each.
fn filled() -> Folder {
    let folder = Folder::new();
    let rows = opened(&folder.0);
    for key in ["a", "b", "c"] {
        put(&*rows, key, "1");
        rows.sync().unwrap();
    }
    folder
}

fn file(folder: &Folder, end: &str) -> PathBuf {
    let mut files = std::fs::read_dir(&folder.0).unwrap().map(|file| file.unwrap().path());
    files.find(|path| path.display().to_string().contains(end)).unwrap()
}

/// Damage is reported as such, and the rows are made again once the database was destroyed.
fn check_damaged(folder: &Folder) {
    let error = open(&folder.0, &small(), all()).unwrap_err();
    assert!(matches!(error, OpenError::Damaged(_)), "{error:?}");
    assert!(error.to_string().starts_with("the catalogue cannot be opened: "), "{error}");
    destroy(&folder.0).unwrap();
    assert!(!folder.0.exists());
    let rows = opened(&folder.0);
    assert_eq!(keys(&*rows), [""; 0]);
    put(&*rows, "d", "1");
    assert_eq!(keys(&*rows), ["d"]);
}

#[test]
fn a_lost_table_is_damage() {
    let folder = filled();
    std::fs::remove_file(file(&folder, ".sst")).unwrap();
    check_damaged(&folder);
}

#[test]
fn a_cut_table_is_damage() {
    let folder = filled();
    let table = file(&folder, ".sst");
    let bytes = std::fs::read(&table).unwrap();
    std::fs::write(&table, &bytes[..bytes.len() / 2]).unwrap();
    check_damaged(&folder);
}

#[test]
fn a_corrupt_list_of_tables_is_damage() {
    let folder = filled();
    let list = file(&folder, "MANIFEST-");
    let mut bytes = std::fs::read(&list).unwrap();
    bytes.iter_mut().skip(20).step_by(3).for_each(|byte| *byte ^= 0x5a);
    std::fs::write(&list, bytes).unwrap();
    check_damaged(&folder);
}

#[test]
fn a_lost_list_of_tables_is_damage() {
    let folder = filled();
    std::fs::remove_file(file(&folder, "MANIFEST-")).unwrap();
    check_damaged(&folder);
}

#[test]
fn a_corrupt_name_of_the_list_is_damage() {
    let folder = filled();
    std::fs::write(folder.0.join("CURRENT"), "nonsense").unwrap();
    check_damaged(&folder);
}

#[test]
fn a_block_that_changed_is_an_error_of_the_search() {
    let folder = filled();
    let table = file(&folder, ".sst");
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[3] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    let rows = opened(&folder.0);
    let error = rows.scan(b"", &mut |_, _| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(error.act, "read rows");
}

#[test]
fn a_folder_that_cannot_be_made_is_no_damage() {
    let folder = Folder::new();
    std::fs::write(&folder.0, "a file").unwrap();
    let error = open(&folder.0, &small(), all()).unwrap_err();
    assert!(matches!(error, OpenError::Refused(_)), "{error:?}");
    std::fs::remove_file(&folder.0).unwrap();
}

#[test]
fn rows_that_are_open_elsewhere_are_neither_opened_nor_destroyed() {
    let folder = filled();
    let rows = opened(&folder.0);
    let error = open(&folder.0, &small(), all()).unwrap_err();
    assert!(matches!(error, OpenError::Held(_)), "{error:?}");
    destroy(&folder.0).unwrap_err();
    assert_eq!(keys(&*rows), ["a", "b", "c"]);
}

#[test]
fn a_lock_is_waited_for() {
    let folder = filled();
    let rows = opened(&folder.0);
    let holder = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        drop(rows);
    });
    let patient = Settings { lock_patience: Duration::from_secs(20), ..small() };
    assert_eq!(keys(&*open(&folder.0, &patient, all()).unwrap()), ["a", "b", "c"]);
    holder.join().unwrap();
}

#[test]
fn destroying_missing_rows_is_no_error() {
    destroy(&Folder::new().0).unwrap();
}
