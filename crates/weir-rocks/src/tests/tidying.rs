//! Unwanted rows are removed, and the cost of compactions is reported and bounded.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use weir_testkit::Random;

use super::*;

/// Rows that are put.
const ROWS: u32 = 20_000;
/// The length of a row's value in bytes.
const VALUE_BYTES: usize = 128;
/// The bytes of all values together.
const FILLED_BYTES: u64 = ROWS as u64 * VALUE_BYTES as u64;
/// What an opening tidies up in the background it has, on an idle machine, by then.
const TIDIED_WITHIN: Duration = Duration::from_secs(5);
/// By then a compaction that is due each second has come: its threads give way to all others, and on a busy
/// machine they wait.
const PATIENCE: Duration = Duration::from_secs(300);

fn impatient() -> Settings {
    Settings { rewrite_after: Duration::from_secs(1), ..small() }
}

/// Rows whose values do not compress.
fn fill(rows: &dyn Rows) {
    let mut random = Random::new(7);
    for number in 0..ROWS {
        let value: [u8; VALUE_BYTES] = std::array::from_fn(|_| random.number() as u8);
        rows.apply(&[Change::Put { key: format!("key {number:08}").as_bytes(), value: &value }]).unwrap();
    }
    rows.sync().unwrap();
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn unwanted_rows_leave_and_give_their_room_back() {
    let folder = Folder::new();
    let dropped = Arc::new(AtomicBool::new(false));
    let wanted: Wanted = {
        let dropped = dropped.clone();
        Arc::new(move |key, _| !dropped.load(Ordering::Relaxed) || key.ends_with(b"0"))
    };
    let rows = open(&folder.0, &impatient(), wanted).unwrap();
    fill(&*rows);
    let full = rows.usage();
    assert!(full.disk_bytes > FILLED_BYTES, "{full:?}");
    dropped.store(true, Ordering::Relaxed);
    until("unwanted rows stay", || keys(&*rows).len() as u32 == ROWS / 10);
    assert!(keys(&*rows).iter().all(|key| key.ends_with('0')));
    until("their room stays taken", || rows.usage().disk_bytes < full.disk_bytes / 4);
    assert!(rows.usage().written_bytes > full.written_bytes);
}

#[test]
fn a_panic_of_the_judge_keeps_the_row() {
    let folder = Folder::new();
    let asked = Arc::new(AtomicU32::new(0));
    let wanted: Wanted = {
        let asked = asked.clone();
        Arc::new(move |_, _| {
            asked.fetch_add(1, Ordering::Relaxed);
            panic!("asked");
        })
    };
    let rows = open(&folder.0, &impatient(), wanted).unwrap();
    put(&*rows, "a", "1");
    rows.sync().unwrap();
    until("nobody was asked", || asked.load(Ordering::Relaxed) > 0);
    drop(rows);
    assert_eq!(keys(&*opened(&folder.0)), ["a"]);
}

#[test]
fn usage_is_reported_and_memory_bounded() {
    let folder = Folder::new();
    let rows = opened(&folder.0);
    let before = rows.usage();
    fill(&*rows);
    let after = rows.usage();
    assert!(after.written_bytes - before.written_bytes >= FILLED_BYTES, "{after:?}");
    assert!(after.disk_bytes >= FILLED_BYTES, "{after:?}");
    for _ in 0..3 {
        fill(&*rows);
        let usage = rows.usage();
        assert!((1..=MEMORY_BYTES_MIN as u64 * 3 / 2).contains(&usage.memory_bytes), "{usage:?}");
    }
}

#[test]
fn opening_again_and_again_leaves_no_files_behind() {
    let folder = Folder::new();
    let count = || std::fs::read_dir(&folder.0).unwrap().count();
    for _ in 0..4 {
        put(&*opened(&folder.0), "a", "1");
    }
    let before = count();
    for _ in 0..48 {
        put(&*opened(&folder.0), "a", "1");
    }
    // Files go in the background, some of them with a later opening, however long a busy machine takes.
    // Were one left by each opening, forty-eight stayed, and one more each time.
    until("files stay", || {
        let _rows = opened(&folder.0);
        let begun = Instant::now();
        while count() > before + 24 && begun.elapsed() < TIDIED_WITHIN {
            std::thread::sleep(Duration::from_millis(50));
        }
        count() <= before + 24
    });
}
