//! The scenarios of `weir stress` that are shipped, on the real binary: they run, find nothing wrong with it,
//! and keep their limits. Those with another server are tried if it is installed.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use weir_testkit::{Authority, free_port, program, until};

use crate::answer::lint::skipped;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// `weir stress`, whose program cargo builds for the tests of its own package.
fn stress() -> Command {
    let program = Path::new(WEIR).with_file_name("weir-stress");
    assert!(
        program.is_file(),
        "there is no {}: `cargo test -p weir -p weir-stress --test it` builds it",
        program.display()
    );
    let mut command = Command::new(WEIR);
    command.arg("stress");
    command
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A folder for a scenario, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("weir-it-stress-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a scenario with ports of its own in place of those that it has, and this build of Weir.
fn run(name: &str, text: &str, more: &[&str]) -> Value {
    let folder = Folder::new(name);
    let mut text = text.to_owned();
    for port in ["18080", "18081", "18082", "19121", "19221"] {
        text = text.replace(&format!("127.0.0.1:{port}"), &format!("127.0.0.1:{}", free_port()));
    }
    let file = folder.0.join("stress.toml");
    std::fs::write(&file, text).unwrap();
    let path = format!("{}:{}", Path::new(WEIR).parent().unwrap().display(), std::env::var("PATH").unwrap());
    let done = stress()
        .args([file.to_str().unwrap(), "--json", "-q", "--quick"])
        .args(more)
        .env("PATH", path)
        .current_dir(root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let json = serde_json::from_str(&said)
        .unwrap_or_else(|_| panic!("{name}: {}", String::from_utf8_lossy(&done.stderr)));
    assert!(done.status.success(), "{name}: {said}");
    json
}

fn shipped(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("-v").output().is_ok()
}

fn figure(json: &Value, module: usize, name: &str) -> f64 {
    let figures = &json["modules"][module]["sides"][0]["figures"];
    figures[name].as_f64().unwrap_or_else(|| panic!("no {name}: {json}"))
}

#[test]
fn a_day_of_mixed_traffic_beside_slow_clients_and_a_crawl_is_played() {
    if !is_there("python3") {
        return skipped();
    }
    let text = shipped("examples/stress/endurance.toml").replace("86400.0", "40.0").replace("300.0", "30.0");
    // How soon an unoptimised build answers says nothing.
    let text = text.replace("whole_p99_ms < 2000", "whole_p99_ms < 60000");
    let json = run("endurance", &text, &[]);
    assert_eq!(json["modules"].as_array().unwrap().len(), 3, "{json}");
    assert!(figure(&json, 0, "requests") > 50.0 && figure(&json, 2, "pages") > 0.0, "{json}");
}

#[test]
fn no_download_is_disturbed_by_changes_and_clients_of_all_kinds() {
    let text = shipped("examples/stress/churn.toml").replace("seconds = 60.0", "seconds = 150.0");
    // What an unoptimised build can do, on less of the drive.
    let text = text.replace("rate = 60.0", "rate = 20.0").replace("--disk 4GB", "--disk 1GB");
    let json = run("churn", &text, &[]);
    assert!(figure(&json, 0, "requests") > 150.0 && figure(&json, 0, "origin_requests") > 50.0, "{json}");
}

#[test]
fn files_are_filled_once_and_held_beside_nginx() {
    let text = shipped("examples/stress/files.toml");
    let sizes = "[\"500 KB\", \"1 MB\", \"5 MB\", \"10 MB\", \"25 MB\", \"50 MB\"]";
    assert!(text.contains(sizes) && text.contains("count = 10"));
    let text = text.replace(sizes, "[\"500 KB\", \"5 MB\"]").replace("count = 10", "count = 2");
    let more: &[&str] = if is_there("nginx") { &[] } else { &["--servers", "weir"] };
    let json = run("files", &text, more);
    assert!(figure(&json, 0, "held_5000KB_p50_ms") > 0.0, "{json}");
}

#[test]
fn purges_beside_hits_disturb_no_response() {
    if !is_there("python3") || !is_there("taskset") {
        return skipped();
    }
    let text = shipped("bench/purges.toml").replace("rate = 10000.0", "rate = 500.0");
    let text = text.replace("rate = 1000,", "rate = 64,").replace("users = 64", "users = 4");
    let text = text.replace("taskset -c 0 ", "");
    let json = run("purges", &text, &[]);
    assert!(figure(&json, 2, "purges") > 0.0 && figure(&json, 4, "purges") > 0.0, "{json}");
}

/// What Weir logs of one run is the traffic of the next.
#[test]
fn a_log_that_weir_wrote_is_played_again() {
    let folder = Folder::new("recorded");
    let log = folder.0.join("access.log");
    let server = |log: &str| {
        format!(
            "[[server]]\nname = \"weir\"\nurl = \"http://127.0.0.1:18080\"\n\
             command = \"weir run --origin http://{{origin}} --listen {{listen}} --admin 127.0.0.1:18081 \
             --state {{scratch}}/state --log {log}\"\n"
        )
    };
    let recorded = format!(
        "{}[[module]]\nkind = \"spread\"\nobjects = 10\nsize = \"1 KB..20 KB\"\nrequests = 400\nusers = 4\n",
        server(&format!("json:{}", log.display()))
    );
    run("record", &recorded, &[]);
    let lines = std::fs::read_to_string(&log).unwrap().lines().count() as f64;
    assert!(lines >= 40.0, "{lines}");
    let played = format!(
        "{}[[module]]\nkind = \"mixed\"\nlog = {:?}\nspeed = 2.0\nlimits = [\"left = 0\"]\n",
        server("off"),
        log.display().to_string()
    );
    let json = run("play", &played, &[]);
    // All but the first look whether the server is ready, which is no object.
    assert!(figure(&json, 0, "requests") >= 40.0 && figure(&json, 0, "bytes") > 40_000.0, "{json}");
}

#[test]
fn herds_ranges_and_slow_readers_come_over_http2() {
    let folder = Folder::new("identity");
    let (chain, key) = Authority::new().issue(&["127.0.0.1"]);
    std::fs::write(folder.0.join("chain.pem"), chain).unwrap();
    std::fs::write(folder.0.join("key.pem"), key).unwrap();
    let server = format!(
        "[[server]]\nname = \"weir\"\nurl = \"https://127.0.0.1:18080\"\nhttp2 = true\ninsecure = true\n\
         command = \"weir run --config {{scratch}}/weir.toml --state {{scratch}}/state --log off\"\n\
         [server.files]\n\"weir.toml\" = '''\n[[listen]]\naddress = \"{{listen}}\"\ntls = true\n\
         [admin]\nlisten = \"127.0.0.1:18081\"\n[[certificate]]\nchain = \"{0}/chain.pem\"\n\
         key = \"{0}/key.pem\"\ndefault = true\n[upstream.main]\norigins = [\"http://{{origin}}\"]\n\
         [[site]]\nhosts = [\"*\"]\nupstream = \"main\"\n'''\n",
        folder.0.display()
    );
    let modules = "\
         [[module]]\nkind = \"herd\"\nusers = 20\nsize = \"300 KB\"\n\
         limits = [\"origin_requests_per_object <= 1\"]\n\
         [[module]]\nkind = \"range\"\nusers = 3\nsize = \"300 KB\"\n\
         [[module]]\nkind = \"slow\"\nseconds = 20.0\nreaders = 5\nstallers = 3\nleavers = 3\n\
         stall = 0.3\nsize = \"100 KB\"\ntake = \"200 KB\"\n\
         limits = [\"readers_cut = 0\", \"stallers_cut = 0\", \
         \"readers_whole > 0\"]\n\
         [[module]]\nkind = \"spread\"\nrequests = 500\nusers = 4\n";
    let json = run("http2", &format!("{server}{modules}"), &[]);
    assert_eq!(json["modules"].as_array().unwrap().len(), 4, "{json}");
}

/// What a volume has taken is there after an orderly end.
#[test]
fn fills_are_kept_over_a_restart() {
    let text = "[[server]]\nname = \"weir\"\nurl = \"http://127.0.0.1:18080\"\n\
         command = \"weir run --origin http://{origin} --listen {listen} --admin 127.0.0.1:18081 \
         --cache {scratch}/cache --disk 256MB --memory 32MB --log off\"\n\
         [[module]]\nkind = \"fill\"\nobjects = 60\nsize = \"40 KB\"\nrestart = \"told\"\n\
         limits = [\"kept_percent = 100\", \"restart_ready_ms > 0\"]\n";
    let json = run("restart", text, &[]);
    assert_eq!(figure(&json, 0, "requests"), 6.0, "{json}");
}

/// A gate tells what is wrong from what could not be tried.
#[test]
fn the_exit_status_says_whether_it_was_wrong_or_could_not_run() {
    let folder = Folder::new("exit");
    let port = free_port();
    let file = folder.0.join("stress.toml");
    let text = format!(
        "[[server]]\nname = \"none\"\nurl = \"http://127.0.0.1:{port}\"\nready_within = 0.1\n\
         [[module]]\nkind = \"miss\"\n"
    );
    std::fs::write(&file, text).unwrap();
    let gone = format!("http://127.0.0.1:{port}/");
    for (words, code, said) in [
        (&["no-such.toml"][..], 2, "weir-stress: no-such.toml: No such file"),
        (&[file.to_str().unwrap()], 2, "did not answer"),
        (&["127.0.0.1/x"], 2, "no target"),
        (&[&gone, "--seconds", "1e300"], 2, "up to a week"),
        (&[&gone, "-n", "1", "-c", "1"], 1, ""),
    ] {
        let done = stress().args(words).output().unwrap();
        let error = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{words:?}: {error}");
        assert!(error.contains(said), "{words:?}: {error}");
    }
}

/// Told to end, it tells what was measured, and is no verdict.
#[test]
fn a_run_that_is_told_to_end_is_neither_good_nor_bad() {
    let (folder, port) = (Folder::new("told"), free_port());
    let file = folder.0.join("stress.toml");
    let text = format!(
        "[[server]]\nname = \"weir\"\nurl = \"http://127.0.0.1:{port}\"\n\
         command = \"{WEIR} run --origin http://{{origin}} --listen {{listen}} --admin 127.0.0.1:{} \
         --state {{scratch}}/state --log off\"\n\
         [[module]]\nkind = \"spread\"\nobjects = 10\nusers = 2\nseconds = 300\n",
        free_port()
    );
    std::fs::write(&file, text).unwrap();
    let told = stress()
        .args([file.to_str().unwrap(), "--json", "-q"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let listens = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    until("its server is there", listens);
    std::thread::sleep(Duration::from_secs(2));
    kill_process(Pid::from_raw(i32::try_from(told.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    let done = told.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert_eq!(done.status.code(), Some(2), "{said}\n{}", String::from_utf8_lossy(&done.stderr));
    let json: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&json["whole"], &json["good"]), (&Value::Bool(false), &Value::Bool(false)), "{json}");
    until("its server has ended", || !listens());
}

/// Weir says nothing of what a site holds as long as it holds nothing.
#[test]
fn statistics_of_a_weir_that_begins_empty_are_right() {
    let json = run("statistics", &shipped("examples/stress/quick.toml"), &["--only", "statistics"]);
    assert_eq!(figure(&json, 0, "count_differences"), 0.0, "{json}");
}

/// A copy of this build of Weir, alone in a folder.
fn alone(folder: &Folder) -> PathBuf {
    let weir = folder.0.join("weir");
    std::fs::hard_link(WEIR, &weir).or_else(|_| std::fs::copy(WEIR, &weir).map(|_| ())).unwrap();
    weir
}

/// It is another program, with the same arguments and exit status: the one beside comes first, then that in
/// `PATH`.
#[test]
fn the_program_is_looked_for_beside_weir_and_then_in_the_path() {
    let (folder, other) = (Folder::new("beside"), Folder::new("in-path"));
    let weir = alone(&folder);
    let run = || {
        let mut command = Command::new(&weir);
        command.args(["stress", "--help", "-x", "a b", "", "--json"]).env("PATH", &other.0);
        command.output().unwrap()
    };
    // `PATH` names one folder, so that the shell is known by its whole name.
    let says = |word: &str| format!("printf '%s.' {word} \"$0\" \"$@\"; exit 7");
    program(&other.0.join("weir-stress"), &says("path"));
    let done = run();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(said.starts_with("path.") && said.ends_with(".--help.-x.a b..--json."), "{said}");
    assert_eq!(done.status.code(), Some(7));
    program(&folder.0.join("weir-stress"), &says("beside"));
    assert!(run().stdout.starts_with(b"beside."));
}

#[test]
fn without_the_program_it_is_said_what_builds_it() {
    let folder = Folder::new("without");
    let weir = alone(&folder);
    let done = Command::new(&weir).args(["stress", "http://127.0.0.1:1/"]).env("PATH", &folder.0).output();
    let done = done.unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{said}");
    let expect = format!("which is neither in {} nor in PATH; `make build` builds both", folder.0.display());
    assert!(said.contains(&expect), "{said}");
}

#[test]
fn its_help_is_that_of_the_command() {
    let done = stress().arg("--help").output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(said.contains("Usage: weir stress [OPTIONS] <URL>") && said.contains("--rounds"), "{said}");
}
