//! Drives that move between installations, and ledgers that are restored from copies.

use super::*;

/// The arguments of a purge.
const PURGES: [&[&str]; 2] = [&["--tag", "first"], &["--all"]];

/// Waits for the longest time that a sweep takes.
fn await_sweep(weir: &Weir, what: &str) {
    let passes = || weir.metric("weir_volume_sweeps_total").unwrap_or(0.0);
    let before = passes();
    until(what, || passes() > before);
}

/// Newer versions, a purge of the old ones, a sweep, and another start: nothing old is answered.
fn purge_and_check(weir: &mut Weir, versions: &Versions, args: &[&str]) {
    check(weir, &versions.least(), "as it arrived");
    store(weir);
    versions.renew(firsts());
    purge(weir, args);
    check(weir, &versions.least(), "after the purge");
    await_sweep(weir, "it is swept");
    check(weir, &versions.least(), "after the sweep");
    end(weir, Ending::Kill);
    weir.start_again();
    check(weir, &versions.least(), "after another start");
}

/// An installation whose ledger is seconds ahead of any other's: each start advances it by four.
fn ahead(origin: &Origin) -> Weir {
    let mut weir = start(origin);
    for _ in 0..6 {
        end(&mut weir, Ending::Kill);
        weir.start_again();
    }
    weir
}

#[test]
fn a_purge_concerns_a_drive_that_comes_from_an_installation_ahead() {
    std::thread::scope(|scope| {
        for args in PURGES {
            let versions = Versions::start();
            scope.spawn(move || {
                let mut older = start(&versions.origin);
                end(&mut older, Ending::Stop);
                let mut younger = ahead(&versions.origin);
                store(&younger);
                end(&mut younger, Ending::Stop);
                versions.renew(firsts());
                copy(&younger.folder().join("volume"), &older.folder().join("volume"));
                older.start_again();
                purge_and_check(&mut older, &versions, args);
            });
        }
    });
}

#[test]
fn a_drive_of_another_installation_is_validated_and_used() {
    let versions = Versions::start();
    let mut older = start(&versions.origin);
    store(&older);
    end(&mut older, Ending::Stop);
    // Its marks, dropped and kept, are larger than every number on the drive.
    let mut younger = ahead(&versions.origin);
    store(&younger);
    purge(&younger, &["--tag", "first"]);
    await_sweep(&younger, "it is swept");
    purge(&younger, &["--all"]);
    end(&mut younger, Ending::Stop);
    copy(&older.folder().join("volume"), &younger.folder().join("volume"));
    for _ in 0..2 {
        younger.start_again();
        check(&younger, &versions.least(), "as it arrived");
        let requests = |number| versions.origin.requests(&format!("/{number}"));
        let is_conditional = |number| requests(number).last().unwrap().header("if-none-match").is_some();
        assert!((0..COUNT).all(is_conditional), "each is confirmed: {}", younger.stderr());
        end(&mut younger, Ending::Stop);
    }
}

#[test]
fn two_installations_use_one_drive_in_turn() {
    let versions = Versions::start();
    let mut one = start(&versions.origin);
    end(&mut one, Ending::Stop);
    let mut other = ahead(&versions.origin);
    store(&other);
    for turn in 0..4 {
        let (from, to) = if turn % 2 == 0 { (&mut other, &mut one) } else { (&mut one, &mut other) };
        end(from, if turn < 2 { Ending::Stop } else { Ending::Kill });
        copy(&from.folder().join("volume"), &to.folder().join("volume"));
        versions.renew(0..COUNT);
        to.start_again();
        check(to, &versions.least(), "as it arrived");
        store(to);
        versions.renew(firsts());
        purge(to, &["--tag", "first"]);
        check(to, &versions.least(), "after the purge");
    }
}

/// The files of the state folder that are restored.
const PARTS: [&[&str]; 3] = [&["ledger"], &["ledger", "ledger.end"], &["ledger", "ledger.end", "volumes"]];

#[test]
fn a_restored_state_forgets_no_purge() {
    std::thread::scope(|scope| {
        for (starts, parts) in
            [(0, PARTS[0]), (0, PARTS[1]), (1, PARTS[2]), (3, PARTS[0]), (3, PARTS[1]), (3, PARTS[2])]
        {
            for ending in [Ending::Stop, Ending::Kill] {
                // If it is killed within seconds after a purge, no third place knows of the purge.
                if starts > 0 || parts.len() == 1 || ending == Ending::Stop {
                    scope.spawn(move || put_back(starts, parts, ending));
                }
            }
        }
    });
}

/// Copies the state; after `starts` starts and a purge restores these files of it.
fn put_back(starts: usize, parts: &[&str], ending: Ending) {
    let versions = Versions::start();
    let mut weir = start(&versions.origin);
    store(&weir);
    let kept = weir.folder().join("kept");
    copy(&weir.state(), &kept);
    for _ in 0..starts {
        end(&mut weir, ending);
        weir.start_again();
    }
    check(&weir, &versions.least(), "before");
    versions.renew(firsts());
    purge(&weir, &["--tag", "first"]);
    end(&mut weir, ending);
    for part in parts {
        match std::fs::read(kept.join(part)) {
            Ok(bytes) => std::fs::write(weir.state().join(part), bytes).unwrap(),
            Err(_) => std::fs::remove_file(weir.state().join(part)).unwrap(),
        }
    }
    weir.start_again();
    let when = format!("{parts:?} of {starts} starts before, {ending:?}");
    check(&weir, &versions.least(), &when);
    store(&weir);
    versions.renew(firsts());
    purge(&weir, &["--all"]);
    check(&weir, &versions.least(), &when);
    end(&mut weir, ending);
    weir.start_again();
    check(&weir, &versions.least(), &when);
}

#[test]
fn one_drive_shows_that_the_state_is_a_copy() {
    for ending in [Ending::Stop, Ending::Kill] {
        shows_for_another(ending);
    }
}

fn shows_for_another(ending: Ending) {
    let versions = Versions::start();
    let both = text(&versions.origin, &["volume", "other"]);
    let mut weir = setup().run_config(&both);
    store(&weir);
    end(&mut weir, Ending::Stop);
    let kept = weir.folder().join("kept");
    copy(&weir.state(), &kept);
    // Without the other drive: the copy does not know of it.
    weir.rewrite_config(&text(&versions.origin, &["volume"]));
    weir.start_again();
    versions.renew(firsts());
    purge(&weir, &["--tag", "first"]);
    if ending == Ending::Stop {
        await_sweep(&weir, "it is swept");
    }
    end(&mut weir, ending);
    copy(&kept, &weir.state());
    weir.rewrite_config(&both);
    weir.start_again();
    weir.await_stderr("is ahead of the ledger");
    check(&weir, &versions.least(), "with the other drive");
}

#[test]
fn a_drive_of_a_lost_ledger_is_not_used_any_more() {
    for starts in [0, 12] {
        let versions = Versions::start();
        let mut weir = start(&versions.origin);
        store(&weir);
        for _ in 0..starts {
            end(&mut weir, Ending::Kill);
            weir.start_again();
        }
        end(&mut weir, Ending::Stop);
        std::fs::remove_file(weir.state().join("ledger")).unwrap();
        let before = versions.origin.total();
        weir.start_again();
        weir.await_stderr("was used with a ledger that is lost");
        answers(&weir);
        let asked = versions.origin.total() - before;
        assert_eq!(asked, COUNT, "after {starts} starts all is asked for");
        let conditional =
            |number| versions.origin.requests(&format!("/{number}")).last().unwrap().header("if-none-match");
        assert!((0..COUNT).all(|number| conditional(number).is_none()), "and nothing of it is left");
    }
}

#[test]
fn a_ledger_that_is_taken_away_under_a_running_weir_is_written_again() {
    let versions = Versions::start();
    let mut weir = start(&versions.origin);
    store(&weir);
    std::fs::remove_file(weir.state().join("ledger")).unwrap();
    versions.renew(firsts());
    purge(&weir, &["--tag", "first"]);
    assert!(weir.state().join("ledger").is_file());
    end(&mut weir, Ending::Kill);
    weir.start_again();
    let before = versions.origin.total();
    check(&weir, &versions.least(), "after another start");
    assert_eq!(versions.origin.total() - before, firsts().count(), "what was not purged is there");
}

fn is_suspect(weir: &Weir) -> bool {
    let output = weir.command(&["volumes", "--json"]);
    let all: Vec<serde_json::Value> = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(all.len(), 1, "{output:?}");
    all[0]["suspect"] == true
}

#[test]
fn starts_and_upgrades_that_are_killed_leave_nothing_suspect() {
    let versions = Versions::start();
    let mut weir = start(&versions.origin);
    store(&weir);
    for round in 0..24 {
        end(&mut weir, Ending::Stop);
        let config = weir.folder().join("weir.toml").display().to_string();
        let mut killed = std::process::Command::new(crate::server::binary());
        killed.args(["run", "--config", &config]).env("STATE_DIRECTORY", weir.state());
        killed.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
        let mut killed = killed.stderr(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(5 * round));
        killed.kill().unwrap();
        killed.wait().unwrap();
        weir.start_again();
        assert!(!is_suspect(&weir), "killed {} ms after its start: {}", 5 * round, weir.stderr());
    }
    for round in 0..8 {
        assert_eq!(weir.upgrade(&[]).code, Some(0));
        std::thread::sleep(Duration::from_millis(10 * round));
        let new = rustix::process::Pid::from_raw(i32::try_from(weir.main_pid()).unwrap()).unwrap();
        rustix::process::kill_process(new, rustix::process::Signal::KILL).unwrap();
        weir.restart();
        assert!(!is_suspect(&weir), "killed {} ms after an upgrade: {}", 10 * round, weir.stderr());
    }
    let before = versions.origin.total();
    answers(&weir);
    assert_eq!(versions.origin.total(), before, "all is there and believed");
}
