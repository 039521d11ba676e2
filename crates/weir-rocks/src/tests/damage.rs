//! What is said of a database that cannot be opened, and that it can be made anew.

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

/// What is damaged is said to be, and is made anew once it was destroyed.
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
fn a_spoilt_list_of_tables_is_damage() {
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
fn a_spoilt_name_of_the_list_is_damage() {
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
fn a_lock_that_is_let_go_is_waited_for() {
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
fn destroying_what_is_not_there_is_no_error() {
    destroy(&Folder::new().0).unwrap();
}
