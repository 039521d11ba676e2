//! The contract of rows on real files, and with a real process that is killed in the middle of its work.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use weir_testkit::Random;
use weir_volume::testing::conformance::{Script, like_a_map, removes_only_unwanted_rows};

use super::*;
use crate::OpenError;

const SEEDS: u64 = 6;
/// Kills, one after another, over the same rows.
const KILLS: u64 = 8;
/// Tells the process where its rows are. Its script begins behind what is in them.
const FOLDER_VARIABLE: &str = "WEIR_ROCKS_CHILD";

#[test]
fn rows_are_like_a_map() {
    for seed in 0..SEEDS {
        let folder = Folder::new();
        like_a_map(seed, &mut |wanted| open(&folder.0, &small(), wanted).unwrap());
    }
}

#[test]
fn only_unwanted_rows_are_removed() {
    for seed in 0..SEEDS {
        let folder = Folder::new();
        let settings = Settings { rewrite_after: Duration::from_secs(1), ..small() };
        removes_only_unwanted_rows(seed, &mut |wanted| open(&folder.0, &settings, wanted).unwrap());
    }
}

/// Applies its script and reports it, until it is killed.
fn child(folder: &Path) {
    let (script, mut random) = (Script { seed: 1 }, Random::new(u64::from(std::process::id())));
    let rows = opened(folder);
    for number in script.prefix(&*rows) + 1.. {
        script.apply(&*rows, number);
        println!("applied {number}");
        if random.below(60) == 0 {
            rows.sync().unwrap();
            println!("synced {number}");
        }
    }
}

/// The batches that a child reported as applied and as synced before it was killed after `lines` lines.
fn killed_after(folder: &Path, lines: u64) -> (u64, u64) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::crash::what_was_synced_survives_a_kill", "--nocapture"])
        .env(FOLDER_VARIABLE, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut applied, mut synced, mut seen) = (0, 0, 0);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        match line.split_once(' ') {
            Some(("applied", number)) => applied = number.parse().unwrap(),
            Some(("synced", number)) => synced = number.parse().unwrap(),
            _ => continue,
        }
        seen += 1;
        // Its last reports are in the pipe, and are read to the end.
        if seen == lines {
            let error = open(folder, &small(), all()).unwrap_err();
            assert!(matches!(error, OpenError::Held(_)), "{error:?}");
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(seen >= lines, "it ended by itself");
    (applied, synced)
}

#[test]
fn what_was_synced_survives_a_kill() {
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE) {
        return child(Path::new(&folder));
    }
    let (folder, mut random) = (Folder::new(), Random::new(5));
    let (mut survived, mut lost) = (0, 0);
    for _ in 0..KILLS {
        let (applied, synced) = killed_after(&folder.0, 20 + random.below(200));
        let before = survived;
        survived = Script { seed: 1 }.prefix(&*opened(&folder.0));
        assert!(survived >= synced.max(before), "{survived} batches of {synced} that were synced");
        assert!(survived <= applied + 1, "{survived} batches of {applied} that were applied");
        lost += applied.saturating_sub(survived);
    }
    assert!(survived > 0 && lost > 0, "nothing was ever synced, or nothing was in memory when it was killed");
}
