//! The keeper on files that fail, are cut off in the middle of a write, and lose what was not synced.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_disk::testing::{CrashDisk, Fault};

use super::*;

/// A drive that counts what is written to it, and fails from then on where it is told to.
fn drive() -> CrashDisk {
    let disk = CrashDisk::new(1);
    disk.spare_reads();
    disk
}

/// From the act after that many on all fail, a write in its middle; none where all succeed.
fn fail_after(disk: &CrashDisk, acts: Option<u64>) {
    disk.fail_no_more();
    if let Some(acts) = acts {
        disk.fail_from(acts, Fault::Full);
    }
}

fn bytes(disk: &CrashDisk, name: &str) -> Vec<u8> {
    disk.content(name).unwrap()
}

/// Changes what lies there, behind everybody's back.
fn change(disk: &CrashDisk, name: &str, harm: impl FnOnce(&mut Vec<u8>)) {
    let mut changed = bytes(disk, name);
    harm(&mut changed);
    disk.put(name, Some(&changed));
}

fn rename(disk: &CrashDisk, from: &str, to: &str) {
    let content = bytes(disk, from);
    disk.put(from, None);
    disk.put(to, Some(&content));
}

thread_local! {
    static WALL_S: Cell<u64> = const { Cell::new(0) };
}

fn wall() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(WALL_S.get())
}

fn set(day: &str, second: u64) {
    let midnight = (0..40_000).find(|day_s| Day::of(at(*day_s)).to_string() == day).unwrap();
    WALL_S.set(midnight * 86_400 + second);
}

fn at(day: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(day * 86_400)
}

/// One life of a process: its files, and what it has counted.
struct Life {
    keeper: Keeper,
    counted: Arc<Mutex<BTreeMap<&'static str, Flows>>>,
    files: CrashDisk,
}

impl Life {
    fn begin(files: &CrashDisk) -> Life {
        let counted: Arc<Mutex<BTreeMap<&'static str, Flows>>> = Arc::default();
        let source = counted.clone();
        let source = move || {
            let counted = source.lock();
            counted.iter().map(|(name, flows)| Counted { name: (*name).into(), flows: *flows }).collect()
        };
        let keeper = Keeper::open(Arc::new(files.clone()), Box::new(source), wall).unwrap();
        Life { keeper, counted, files: files.clone() }
    }

    fn count(&self, name: &'static str, hits: u64) {
        self.counted.lock().entry(name).or_default().add(&Flows {
            hits,
            client_bytes: hits * 1000,
            ..Flows::default()
        });
    }

    fn accounts(&self) -> Accounts {
        // Nobody is there to be asked for a look.
        let (orders, _) = bounded(1);
        let (book, state) = (self.keeper.book.clone(), self.keeper.state.clone());
        Accounts { book, disk: Arc::new(self.files.clone()), state, orders }
    }

    fn ever(&self, name: &str) -> u64 {
        let lines = self.accounts().since(None).unwrap().lines;
        lines.iter().find(|line| &*line.name == name).map_or(0, |line| line.ever.hits)
    }
}

/// Hits by account and period.
fn periods(files: &CrashDisk, first: Option<&str>) -> Vec<String> {
    let life = Life::begin(files);
    let first = first.map(|first| first.parse().unwrap());
    let (lines, sums) =
        (life.accounts().days(first).unwrap().lines, life.accounts().since(first).unwrap().lines);
    for (line, sum) in lines.iter().zip(&sums) {
        let mut total = Flows::default();
        line.periods.iter().for_each(|(_, flows)| total.add(flows));
        assert_eq!((line.total, line.total), (total, sum.total), "{line:?}");
    }
    let rows = lines.iter().flat_map(|line| {
        line.periods.iter().map(|(period, flows)| format!("{} {period} {}", line.name, flows.hits))
    });
    rows.collect()
}

#[test]
fn what_is_counted_goes_to_the_day_in_which_it_was() {
    let files = drive();
    set("2026-01-31", 86_399);
    let mut life = Life::begin(&files);
    life.count("a", 3);
    life.keeper.look();
    life.count("a", 4);
    life.count("b", 1);
    // Woken a moment after midnight: what came was of the day before.
    set("2026-02-01", 0);
    life.keeper.look();
    life.count("a", 10);
    life.keeper.look();
    let expect = ["a 2026-01-31 7", "a 2026-02-01 10", "b 2026-01-31 1"];
    assert_eq!(periods(&files, None), expect);
    assert_eq!(files.paths(), ["2026-01", "2026-02"]);
    // A restart changes nothing, and goes on.
    drop(life);
    let mut life = Life::begin(&files);
    assert_eq!((life.ever("a"), life.ever("b"), life.ever("c")), (17, 1, 0));
    life.count("a", 1);
    life.keeper.look();
    assert_eq!(life.ever("a"), 18);
    assert_eq!(periods(&files, Some("2026-02-01")), ["a 2026-02-01 11"]);
    assert_eq!(periods(&files, Some("2026-01-31")).len(), 3);
    assert_eq!(periods(&files, Some("2026-02-02")), Vec::<String>::new());
}

#[test]
fn a_pause_ends_at_midnight() {
    set("2026-03-01", 86_399);
    let life = Life::begin(&drive());
    assert_eq!(life.keeper.pause(), LOOK_EVERY);
    let nearly = || SystemTime::UNIX_EPOCH + Duration::from_millis(86_400_000 - 30);
    let keeper = Keeper { clock: nearly, ..life.keeper };
    assert_eq!(keeper.pause(), Duration::from_millis(30));
}

#[test]
fn a_clock_that_jumps_loses_nothing() {
    let files = drive();
    set("2026-03-01", 0);
    let mut life = Life::begin(&files);
    for (day, hits) in
        [("2026-03-01", 1), ("2031-05-05", 2), ("1999-01-01", 4), ("2026-03-02", 8), ("2026-03-02", 16)]
    {
        life.count("a", hits);
        set(day, 5);
        life.keeper.look();
    }
    life.count("a", 32);
    life.keeper.look();
    assert_eq!(life.ever("a"), 63);
    assert_eq!(Life::begin(&files).ever("a"), 63);
}

#[test]
fn old_months_are_folded_and_keep_their_sums() {
    let files = drive();
    set("2024-01-01", 0);
    let mut life = Life::begin(&files);
    let mut hits = 0;
    for day in 19_723..19_723 + 900 {
        WALL_S.set(day * 86_400 + 10);
        life.keeper.look();
        life.count("a", 2);
        hits += 2;
        life.keeper.look();
    }
    assert_eq!(life.ever("a"), hits);
    let rows = periods(&files, None);
    let months = rows.iter().filter(|row| row.split(' ').nth(1).unwrap().len() == 7).count();
    // 900 days from January 2024 on are 30 months, of which five are kept by their sums.
    assert_eq!(months, 30 - MONTHS_OF_DAYS, "{rows:?}");
    assert_eq!(rows[0], "a 2024-01 62");
    assert_eq!(Life::begin(&files).ever("a"), hits);
    // A month without days counts where all of it is asked for.
    assert_eq!(periods(&files, Some("2024-02-01"))[0], "a 2024-02 58");
    assert_eq!(periods(&files, Some("2024-02-02"))[0], "a 2024-03 62");
    // Folded again nothing changes.
    let again = Life::begin(&files);
    assert_eq!((again.ever("a"), periods(&files, None)), (hits, rows));
}

#[test]
fn two_processes_in_turn_count_each_thing_once() {
    let files = drive();
    set("2026-03-30", 0);
    let mut old = Life::begin(&files);
    old.count("a", 5);
    old.keeper.look();
    old.keeper.step_aside().unwrap();
    let mut new = Life::begin(&files);
    for round in 0..20_u64 {
        old.count("a", 1);
        new.count("a", 100);
        // Each has its files open for itself.
        for life in [&mut old, &mut new] {
            life.keeper.open = None;
            life.keeper.look();
        }
        let expect = 5 + (round + 1) * 101;
        assert_eq!((old.ever("a"), new.ever("a")), (expect, expect));
    }
    // Every later process finds all of it, and finds it once.
    drop((old, new));
    let mut third = Life::begin(&files);
    assert_eq!(third.ever("a"), 5 + 20 * 101);
    assert_eq!(periods(&files, None), ["a 2026-03-30 2025"]);
    assert_eq!(files.paths().len(), 2);
    // A process that cannot write does not give its files away.
    fail_after(&files, Some(0));
    third.count("a", 1);
    third.keeper.look();
    assert!(third.keeper.step_aside().is_err());
}

#[test]
fn what_cannot_be_written_is_kept_and_written_later() {
    let files = drive();
    set("2026-03-01", 0);
    for acts in 0..8 {
        let before = Life::begin(&files).ever("a");
        let mut life = Life::begin(&files);
        fail_after(&files, Some(acts));
        for _ in 0..4 {
            life.count("a", 1);
            life.keeper.look();
        }
        let state = life.accounts().state();
        assert_eq!(life.ever("a"), before + 4, "counted all the same");
        assert_eq!(state.failure.is_some(), state.failed > 0);
        assert!(state.failed > 0 || acts == 8 - 1, "{acts}: {state:?}");
        // Of what stands there nothing is more than was counted.
        let there = Life::begin(&files).ever("a");
        assert!(there >= before && there <= before + 4, "{there} of {before}");
        fail_after(&files, None);
        life.keeper.look();
        assert_eq!(life.accounts().state().failure, None);
        assert_eq!(Life::begin(&files).ever("a"), before + 4);
    }
}

#[test]
fn nothing_is_counted_twice_however_often_it_is_killed() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let files = drive();
        set("2026-03-30", 0);
        let (mut written, mut counted) = (0, 0);
        for _ in 0..8 {
            let mut life = Life::begin(&files);
            let there = life.ever("a");
            assert!(there >= written && there <= counted, "seed {seed}: {written} <= {there} <= {counted}");
            // What was not acknowledged may be there, and may go.
            counted = there;
            let mut acknowledged = 0;
            // It dies in the middle of one of its acts.
            fail_after(&files, Some(random.u64(0..30)));
            for _ in 0..random.usize(0..12) {
                let hits = random.u64(0..5);
                life.count("a", hits);
                counted += hits;
                WALL_S.set(WALL_S.get() + random.u64(0..20_000));
                life.keeper.look();
                if life.keeper.state.lock().failure.is_some() {
                    break;
                }
                acknowledged = counted - there;
                assert_eq!(life.ever("a"), counted);
            }
            written += acknowledged;
            drop(life);
            fail_after(&files, None);
            if random.bool() {
                files.cut(random.u64(..));
            }
        }
    }
}

#[test]
fn damage_is_survived_and_what_is_foreign_refused() {
    let files = drive();
    set("2026-03-30", 0);
    let mut life = Life::begin(&files);
    for _ in 0..5 {
        life.count("a", 1);
        life.count("b", 1);
        life.keeper.look();
    }
    // The second frame: the third and those after it say more.
    change(&files, "2026-03", |bytes| bytes[120] ^= 1);
    assert_eq!(Life::begin(&files).ever("a"), 5);
    let aside = files.paths()[0].clone();
    rename(&files, &aside, "2026-03");
    change(&files, "2026-03", |bytes| bytes[8] = 9);
    let source: Source = Box::new(Vec::new);
    let refused = Keeper::open(Arc::new(files.clone()), source, wall);
    assert!(matches!(refused, Err(AccountsError::Foreign { .. })));
    // One that was not finished, under whatever name, was never a file of the accounts.
    for (at, changed) in [(8, 9 ^ 1), (120, 1)] {
        change(&files, "2026-03", |bytes| bytes[at] ^= changed);
    }
    for unfinished in ["2026-03.new", "2026-03.new-2", "2026-03.left-7-7.new"] {
        files.put(unfinished, Some(&bytes(&files, "2026-03")));
        assert_eq!(Life::begin(&files).ever("a"), 5, "{unfinished}");
    }
    // What is no month's is left alone.
    files.paths().iter().for_each(|path| files.put(path, None));
    files.put("notes", Some(b""));
    assert_eq!(Life::begin(&files).ever("a"), 0);
}

/// What is told of files that are not whole.
fn unsound(life: &Life) -> Vec<String> {
    life.accounts().since(None).unwrap().unsound.iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_not_whole_is_told_of_and_kept_and_counting_goes_on() {
    type Harm = fn(&mut Vec<u8>);
    let harms: [(&str, Harm, u64, &str); 6] = [
        ("emptied", Vec::clear, 0, ": it is empty, which no crash can make; nothing of it can be read"),
        ("header alone", |bytes| bytes.truncate(16), 0, "it is empty, which no crash can make"),
        ("half a header", |bytes| bytes.truncate(9), 0, "9 bytes of it are damaged; nothing of it"),
        ("no header", |bytes| bytes[0] ^= 1, 3, "16 bytes of it are damaged; what is sound of it counts"),
        ("cut off", |bytes| bytes.truncate(bytes.len() - 3), 2, "bytes at its end are not whole"),
        ("last byte", |bytes| *bytes.last_mut().unwrap() ^= 1, 2, "bytes of it are damaged; what is sound"),
    ];
    for month_is_past in [false, true] {
        for (what, harm, left, expect) in harms {
            let files = drive();
            set("2026-03-30", 0);
            let mut life = Life::begin(&files);
            for _ in 0..3 {
                life.count("a", 1);
                life.keeper.look();
            }
            assert_eq!(unsound(&life), Vec::<String>::new());
            drop(life);
            change(&files, "2026-03", harm);
            let harmed = bytes(&files, "2026-03");
            set(if month_is_past { "2026-05-01" } else { "2026-03-31" }, 7);
            for round in 1..4 {
                let mut life = Life::begin(&files);
                life.count("a", 100);
                life.keeper.look();
                assert_eq!(life.ever("a"), left + round * 100, "{what}");
                let told = unsound(&life);
                assert_eq!(told.len(), 1, "{what}: {told:?}");
                assert!(
                    told[0].starts_with("accounts/2026-03.unsound-") && told[0].contains(expect),
                    "{told:?}"
                );
                assert_eq!(life.accounts().state().unsound, 1);
            }
            let aside: Vec<_> = files.paths().into_iter().filter(|name| name.contains("unsound")).collect();
            assert_eq!(aside.len(), 1, "{what}");
            assert_eq!(bytes(&files, &aside[0]), harmed, "{what}: what was found is as it was");
            // Somebody knows: it counts, and is not told of any more.
            rename(&files, &aside[0], &format!("{}.known", aside[0]));
            let life = Life::begin(&files);
            assert_eq!((unsound(&life), life.ever("a")), (vec![], left + 300), "{what}");
        }
    }
}

#[test]
fn what_cannot_be_set_aside_is_not_written_over() {
    let files = drive();
    set("2026-03-30", 0);
    let mut life = Life::begin(&files);
    life.count("a", 1);
    life.keeper.look();
    life.count("a", 1);
    life.keeper.look();
    change(&files, "2026-03", |bytes| *bytes.last_mut().unwrap() ^= 1);
    let harmed = bytes(&files, "2026-03");
    fail_after(&files, Some(0));
    let mut life = Life::begin(&files);
    life.count("a", 10);
    life.keeper.look();
    assert_eq!(bytes(&files, "2026-03"), harmed);
    assert_eq!((life.ever("a"), unsound(&life).len()), (1, 1));
    fail_after(&files, None);
    life.keeper.look();
    assert_eq!((life.ever("a"), unsound(&life).len()), (11, 1));
    assert_eq!(Life::begin(&files).ever("a"), 11);
    let aside = files.paths().into_iter().find(|name| name.contains("unsound")).unwrap();
    assert_eq!(bytes(&files, &aside), harmed);
}

#[test]
fn a_file_does_not_grow_without_bound_and_little_is_written() {
    let files = drive();
    set("2026-03-01", 0);
    let mut life = Life::begin(&files);
    let looks = 40_000;
    for _ in 0..looks {
        life.count("a", 1);
        life.keeper.look();
    }
    let length = bytes(&files, "2026-03").len() as u64;
    assert!(length < 2 * ADDED_BYTES_MIN, "{length}");
    let written = files.written_bytes("");
    assert!(written / looks < 60, "{} bytes a look", written / looks);
    // Nothing new, nothing written.
    life.keeper.look();
    assert_eq!(files.written_bytes(""), written);
}

#[test]
fn the_thread_answers_and_finishes() {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let folder = std::env::temp_dir().join(format!("weir-accounts-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let open = || Arc::new(weir_disk::OsDisk::at(&folder));
    let source = || {
        let flows = Flows { misses: COUNT.load(Ordering::Relaxed), ..Flows::default() };
        vec![Counted { name: "a".into(), flows }]
    };
    let start = || {
        COUNT.store(0, Ordering::Relaxed);
        Accounts::start(open(), Box::new(source), SystemTime::now).unwrap()
    };
    let accounts = start();
    COUNT.store(5, Ordering::Relaxed);
    // What was counted before the question is in the answer.
    assert_eq!(accounts.since(None).unwrap().lines[0].ever.misses, 5);
    COUNT.store(7, Ordering::Relaxed);
    accounts.finish(Duration::from_secs(10));
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [month] = &files[..] else { panic!("{files:?}") };
    let unfinished = std::path::PathBuf::from(format!("{}{UNFINISHED}", month.display()));
    std::fs::create_dir_all(unfinished.join("somebody's")).unwrap();
    let accounts = start();
    assert_eq!(accounts.since(None).unwrap().lines[0].ever.misses, 7);
    COUNT.store(2, Ordering::Relaxed);
    assert_eq!(accounts.since(None).unwrap().lines[0].ever.misses, 9);
    assert_eq!(accounts.state().failure, None, "what stands in the way of an unfinished file is passed by");
    accounts.finish(Duration::from_secs(10));
    let accounts = start();
    assert_eq!(accounts.since(None).unwrap().lines[0].ever.misses, 9);
    accounts.finish(Duration::from_secs(10));
    std::fs::remove_dir_all(&folder).unwrap();
}
