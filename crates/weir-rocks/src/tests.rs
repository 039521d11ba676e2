//! Rows on a real drive: what they keep, what they drop, and what they take.

#![allow(clippy::disallowed_methods)]

mod crash;
mod damage;
mod tidying;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use weir_volume::catalogue::{Change, Rows, Wanted};

use crate::{MEMORY_BYTES_MIN, Settings, open};

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weir-rocks-{}-{number}", std::process::id()));
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Settings with little memory, so that a test writes tables, and little patience for a lock.
fn small() -> Settings {
    Settings {
        memory_bytes: MEMORY_BYTES_MIN,
        lock_patience: Duration::from_millis(200),
        ..Settings::default()
    }
}

fn all() -> Wanted {
    Arc::new(|_, _| true)
}

fn opened(folder: &Path) -> Arc<dyn Rows> {
    open(folder, &small(), all()).unwrap()
}

fn put(rows: &dyn Rows, key: &str, value: &str) {
    rows.apply(&[Change::Put { key: key.as_bytes(), value: value.as_bytes() }]).unwrap();
}

fn keys(rows: &dyn Rows) -> Vec<String> {
    let mut keys = Vec::new();
    rows.scan(b"", &mut |key, _| {
        keys.push(String::from_utf8(key.to_vec()).unwrap());
        ControlFlow::Continue(())
    })
    .unwrap();
    keys
}

#[test]
fn closed_rows_can_be_opened_by_another() {
    let folder = Folder::new();
    let rows = opened(&folder.0);
    put(&*rows, "a", "1");
    rows.close();
    let other = opened(&folder.0);
    assert_eq!(keys(&*other), ["a"]);
    put(&*other, "b", "2");
    assert!(rows.sync().is_err() && rows.apply(&[Change::Remove { key: b"a" }]).is_err());
    assert!(rows.scan(b"", &mut |_, _| ControlFlow::Continue(())).is_err());
    rows.close();
    drop(rows);
    assert_eq!(keys(&*other), ["a", "b"]);
}

#[test]
fn closing_keeps_what_was_not_synced() {
    let folder = Folder::new();
    let rows = opened(&folder.0);
    put(&*rows, "a", "1");
    drop(rows);
    assert_eq!(keys(&*opened(&folder.0)), ["a"]);
}
