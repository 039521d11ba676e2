//! The old process is killed in the middle of an upgrade. The new one, which has been offered everything,
//! goes on by itself.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use weir_testkit::{Resource, Weir, pattern, until};

use super::origin;
use super::volumes::{await_volume, filled, on_disk};

/// Threads of the new process. The existence of each shows how far the process has come.
const MOMENTS: [&str; 3] = ["weir-accounts", "weir-ledger", "weir-worker-0"];

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

/// The process that another has started.
fn child_of(pid: u32) -> Option<u32> {
    let parent = format!("PPid:\t{pid}\n");
    fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let child = entry.file_name().to_str()?.parse().ok()?;
        fs::read_to_string(entry.path().join("status")).ok()?.contains(&parent).then_some(child)
    })
}

fn has_thread(pid: u32, name: &str) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks
        .map(|task| fs::read_to_string(task.path().join("comm")).unwrap_or_default())
        .any(|of| of.trim() == name)
}

/// Begins an upgrade; the new process.
fn begun(weir: &mut Weir) -> u32 {
    let old = weir.main_pid();
    weir.signal("USR2");
    loop {
        match child_of(old) {
            Some(new) => return new,
            None => assert!(weir.runs(), "it ended before its successor began: {}", weir.stderr()),
        }
    }
}

#[test]
fn the_new_process_goes_on_when_the_old_one_is_killed() {
    for moment in MOMENTS {
        let origin = origin();
        let mut weir = on_disk(&origin, "64MiB").start();
        let paths = filled(&origin, &weir);
        // It lies on the volume: what is only in memory ends with its process.
        weir.signal("TERM");
        weir.wait(std::time::Duration::from_secs(20)).unwrap();
        weir.start_again();
        let purged = format!("http://localhost{}", paths[3]);
        assert_eq!(weir.command(&["purge", &purged]).code, Some(0));
        let new = begun(&mut weir);
        while !has_thread(new, moment) {
            assert!(
                fs::exists(format!("/proc/{new}")).unwrap(),
                "it ended before {moment}: {}",
                weir.stderr()
            );
        }
        // The new process says nothing more until the old one has ended.
        signal(new, Signal::STOP);
        weir.signal("KILL");
        weir.wait(std::time::Duration::from_secs(20)).unwrap();
        signal(new, Signal::CONT);
        until("the new process is in charge", || weir.main_pid() == new);
        assert_eq!(weir.get("/a").body, pattern(1, 3000), "{moment}");
        await_volume(&weir);
        for (number, path) in paths.iter().enumerate().filter(|(number, _)| *number != 3) {
            let answer = weir.get(path);
            assert!(answer.is_hit(), "{moment}, {path}: {}", answer.cache_status());
            assert_eq!(answer.body, pattern(number as u64, 1000 * number));
        }
        origin.put(&paths[3], Resource::fresh(pattern(99, 500)));
        assert_eq!(weir.get(&paths[3]).body, pattern(99, 500), "{moment}: what was purged stays so");
        assert_eq!(weir.command(&["purge", "--all"]).code, Some(0), "{moment}");
        assert!(!weir.get(&paths[4]).is_hit(), "{moment}");
        let status = weir.command(&["status", "--json"]);
        assert!(status.stdout.contains(&format!("\"pid\": {new}")), "{moment}: {status:?}");
        // The new process can be upgraded in its turn.
        super::upgraded(&mut weir, &[]);
    }
}

#[test]
fn an_old_process_that_ends_early_ends_the_new_one() {
    let origin = origin();
    let mut weir = on_disk(&origin, "64MiB").start();
    let new = begun(&mut weir);
    while !has_thread(new, "weir-ledger") && fs::exists(format!("/proc/{new}")).unwrap() {}
    signal(new, Signal::STOP);
    weir.signal("TERM");
    weir.signal("TERM");
    weir.wait(std::time::Duration::from_secs(20)).unwrap();
    signal(new, Signal::CONT);
    // It was stopped late where it is in charge: it had all that the old one had.
    until("the new one ends, too, or is in charge", || {
        !has_thread(new, "weir-ledger") || weir.main_pid() == new
    });
    if weir.main_pid() == new {
        assert_eq!(weir.get("/a").body, pattern(1, 3000), "it serves");
    }
}
