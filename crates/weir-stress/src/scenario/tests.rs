//! Scenarios against an honest caching proxy and against those that lie, and the pure parts.

mod comparing;
mod early;
mod liar;
mod parts;
mod programs;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Parser;
use serde_json::Value;

use crate::{StressArgs, StressError};
use liar::{Liar, Lie, free_port};

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    args: StressArgs,
}

/// A folder of its own for a test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("stress-tests-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run_file(text: &str, more: &[&str]) -> Result<super::Outcome, StressError> {
    let folder = Folder::new();
    let file = folder.0.join("stress.toml");
    std::fs::write(&file, text).unwrap();
    run_path(&file, more)
}

fn run_path(file: &std::path::Path, more: &[&str]) -> Result<super::Outcome, StressError> {
    let words = ["stress", file.to_str().unwrap(), "-q"];
    let args = Command::try_parse_from(words.iter().chain(more)).unwrap().args;
    let is_held = |error: &StressError| error.to_string().contains("the origin cannot listen");
    // What another test starts has the port of a run that has ended for as long as it has not begun itself.
    for _ in 0..40 {
        match super::run(&args) {
            Err(error) if is_held(&error) => std::thread::sleep(Duration::from_millis(50)),
            done => return done,
        }
    }
    super::run(&args)
}

/// Runs a module's settings before a liar.
fn run_module(lie: Lie, module: &str) -> super::Outcome {
    let origin = free_port();
    let server = Liar::start(lie, origin);
    run_file(&scenario(origin, server, module), &[]).unwrap()
}

fn scenario(origin: SocketAddr, server: SocketAddr, module: &str) -> String {
    format!(
        "[origin]\nlisten = \"{origin}\"\n\
         [[origin.part]]\npath = \"/p/\"\nsize = \"3 KB\"\n\
         [[origin.part]]\npath = \"/short/\"\nsize = \"3 KB\"\nmax_age = 1\nchanges_every = 0.2\n\
         [[server]]\nname = \"liar\"\nurl = \"http://{server}\"\n\
         purge = {{ method = \"PURGE\" }}\n\
         [server.says]\nurl = \"{{url}}/__stats\"\nformat = \"prometheus\"\n\
         figures = {{ requests = \"requests\", client_bytes = \"client_bytes\", objects = \"objects\", \
         origin_requests = \"origin_requests\", origin_bytes = \"origin_bytes\", \
         stored_bytes = \"stored\" }}\n\
         [[module]]\n{module}\n"
    )
}

/// The kinds of faults of the first module on the first server.
fn faults(outcome: &super::Outcome) -> Vec<&'static str> {
    let tally = outcome.modules[0].sides[0].tally();
    super::table::faults(&tally).into_iter().map(|(word, _)| word).collect()
}

fn figure(outcome: &super::Outcome, name: &str) -> f64 {
    let figures = outcome.modules[0].figures(0);
    figures.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("no {name}: {outcome}")).1
}

const SIMPLE: &str =
    "kind = \"simple\"\ntimes = 2\nurls = [{ path = \"/p/1\" }, { path = \"/p/2\", bytes = 3000 }]";
const RANGE: &str = "kind = \"range\"\nusers = 3\nranges = 30\nsize = \"50 KB\"";
const CHANGING: &str = "kind = \"range\"\nusers = 2\nseconds = 4.0\nsize = \"2 KB\"\n\
      during = \"changing\"\nchanges_every = 0.3\n\
     forms = [\"single\"]";
const HERD: &str = "kind = \"herd\"\nusers = 20\nobjects = 2\nsize = \"20 KB\"\n\
      limits = [\"origin_requests_per_object <= 1\"]";
const SPREAD: &str = "kind = \"spread\"\nusers = 4\nobjects = 20\nrequests = 200\nsize = \"1 KB..9 KB\"";
const FILES: &str = "kind = \"files\"\nsizes = [\"5 KB\", \"90 KB\"]\ncount = 3\ntimes = 3";
const MISS: &str = "kind = \"miss\"\nusers = 4\nrequests = 100";
const CONNECT: &str = "kind = \"connect\"\nusers = 4\nrequests = 100\nobjects = 5";
const SLOW_AT_A_RATE: &str = "kind = \"slow\"\nusers = 2\nrate = 100.0\nreaders = 2\nsenders = 0\n\
      stallers = 0\nleavers = 0\nseconds = 1.0\nalone = 0.5\nsize = \"100 KB\"";
const SLOW: &str = "kind = \"slow\"\nusers = 2\nreaders = 3\nsenders = 2\nstallers = 2\nleavers = 2\n\
      seconds = 1.5\nstall = 0.3\n\
     size = \"100 KB\"\ngive = 2000\nlimits = [\"readers_cut = 0\", \"stallers_cut = 0\"]";
const FAULTS: &str = "kind = \"origin-faults\"\nusers = 3\nseconds = 0.4\nsize = \"40 KB\"\n\
      objects = 4\nrecovery = 4.0\ntimeout = 3.0";
const STATISTICS: &str = "kind = \"statistics\"\n\
      tests = [\"count\", \"purge\", \"expiry\", \"overfull\"]\nobjects = 20\n\
     times = 3\nsize = 5000\ncapacity = \"400 KB\"\nlifetime = 1\nwithin = 0.2";
const MIXED: &str = "kind = \"mixed\"\nrate = 200\nseconds = 1.0\n\
     traffic = [{ path = \"/mixed/{}\", size = \"10 KB\", ranges = 0.3, leave = 0.1, objects = 10 }]";
const MIXED_SLOWLY: &str = "kind = \"mixed\"\nrate = 200\nseconds = 1.0\n\
     traffic = [{ path = \"/mixed/{}\", size = \"200 KB\", ranges = 0.5, no_cache = 0.1, slow = 0.3, \
     take = \"1 MB\", objects = 10 }]";
const OLD: &str =
    "kind = \"mixed\"\nrate = 50\nseconds = 4.5\ntraffic = [{ path = \"/short/{}\", objects = 2 }]";

#[test]
fn an_honest_server_is_found_honest_by_every_module() {
    for module in [
        SIMPLE,
        RANGE,
        CHANGING,
        HERD,
        SPREAD,
        FILES,
        MISS,
        CONNECT,
        SLOW,
        SLOW_AT_A_RATE,
        FAULTS,
        MIXED,
        MIXED_SLOWLY,
        OLD,
    ] {
        let outcome = run_module(Lie::Honest, module);
        assert!(outcome.is_good(), "{module}\n{outcome}");
        assert!(figure(&outcome, "requests") > 0.0, "{outcome}");
    }
}

#[test]
fn usual_users_beside_slow_ones_ask_at_their_rate() {
    let outcome = run_module(Lie::Honest, SLOW_AT_A_RATE);
    // 100 a second for a second.
    let requests = figure(&outcome, "requests");
    assert!((50.0..=100.0).contains(&requests), "{outcome}");
}

#[test]
fn what_a_server_that_hangs_leaves_no_time_for_is_not_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for mut stream in listener.incoming().map(Result::unwrap) {
            let mut text = [0; 4096];
            let length = stream.read(&mut text).unwrap_or(0);
            match text[..length].windows(7).any(|word| word == b"/mixed/") {
                true => drop(counted.fetch_add(1, Ordering::Relaxed)),
                // Before it measures, it asks whether the server is there.
                false => stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").unwrap(),
            }
            held.push(stream);
        }
    });
    let module = "kind = \"mixed\"\nusers = 2\nrate = 1000\nseconds = 1.0\ntimeout = 0.3\n\
         traffic = [{ path = \"/mixed/{}\" }]";
    let outcome = run_file(&scenario(free_port(), server, module), &[]).unwrap();
    let tally = outcome.modules[0].sides[0].tally();
    let faults: u64 = super::table::faults(&tally).into_iter().map(|(_, count)| count).sum();
    assert!(faults >= 900, "each that was due is a fault: {outcome}");
    assert!(asked.load(Ordering::Relaxed) < 50, "{asked:?}");
}

#[test]
fn each_lie_is_caught_by_each_module_that_should() {
    let table: [(Lie, &str, &str); 28] = [
        (Lie::Byte, SIMPLE, "content"),
        (Lie::Byte, RANGE, "content"),
        (Lie::Byte, HERD, "content"),
        (Lie::Byte, SPREAD, "content"),
        (Lie::Byte, FILES, "content"),
        (Lie::Byte, MISS, "content"),
        (Lie::Byte, CONNECT, "content"),
        (Lie::Byte, SLOW, "content"),
        (Lie::Byte, FAULTS, "content"),
        (Lie::Byte, STATISTICS, "content"),
        (Lie::Byte, MIXED, "content"),
        (Lie::Cut, SIMPLE, "short"),
        (Lie::Cut, RANGE, "short"),
        (Lie::Cut, SPREAD, "short"),
        (Lie::Cut, MIXED, "short"),
        (Lie::Shorter, SIMPLE, "length"),
        (Lie::Shorter, HERD, "length"),
        (Lie::Shorter, SPREAD, "length"),
        (Lie::Shorter, SLOW, "length"),
        (Lie::StoresCut, FAULTS, "length"),
        (Lie::OtherRange, RANGE, "range"),
        (Lie::OtherRange, MIXED, "range"),
        (Lie::OtherWhole, RANGE, "range"),
        (Lie::OtherWhole, MIXED, "range"),
        (Lie::ShiftedRange, RANGE, "content"),
        (Lie::ShiftedRange, FAULTS, "content"),
        (Lie::Old, CHANGING, "old"),
        (Lie::Old, OLD, "old"),
    ];
    for (lie, module, fault) in table {
        let outcome = run_module(lie, module);
        assert!(faults(&outcome).contains(&fault), "{lie:?} {module}\n{outcome}");
        assert!(!outcome.is_good(), "{outcome}");
    }
}

#[test]
fn what_a_server_says_of_itself_is_compared_with_both_ends() {
    // One that counts requests for its figures as well, as nginx does, is as honest.
    for lie in [Lie::Honest, Lie::CountsReads] {
        let honest = run_module(lie, STATISTICS);
        assert!(honest.is_good(), "{lie:?}\n{honest}");
    }
    // And one that counts late, also after the purges, where nothing waits for the end of the pass.
    let late = STATISTICS.replace("within = 0.2", "within = 4.0");
    let honest = run_module(Lie::CountsLate, &late);
    assert!(honest.is_good(), "{honest}");
    for (lie, test, word) in [
        (Lie::Count, "count", "requests"),
        (Lie::Bytes, "count", "client_bytes"),
        (Lie::KeepsPurged, "purge", "purged"),
        (Lie::Old, "expiry", "asked for again"),
        (Lie::Swells, "overfull", "more than its 400000"),
    ] {
        let outcome = run_module(lie, STATISTICS);
        assert!(figure(&outcome, &format!("{test}_differences")) > 0.0, "{lie:?}\n{outcome}");
        assert!(faults(&outcome).contains(&"count") && !outcome.is_good(), "{outcome}");
        assert!(outcome.to_string().contains(word), "{outcome}");
    }
}

#[test]
fn limits_that_are_not_kept_fail_the_run() {
    let herd = run_module(Lie::Forgets, HERD);
    assert!(faults(&herd).is_empty() && !herd.is_good(), "{herd}");
    assert_eq!(figure(&herd, "origin_requests_per_object"), 20.0);
    assert!(herd.to_string().contains("limit BROKEN: liar: origin_requests_per_object <= 1 (20)"), "{herd}");
    let late = run_module(Lie::Late, &format!("{SIMPLE}\nlimits = [\"first_byte_p50_ms < 30\"]"));
    assert!(!late.is_good(), "{late}");
    let (origin, bound) = (free_port(), format!("{SIMPLE}\nlimits = [\"nginx: first_byte_p50_ms < 30\"]"));
    let (late, quick) = (Liar::start(Lie::Late, origin), Liar::start(Lie::Honest, origin));
    let both = scenario(origin, late, &bound).replace(
        "[[module]]",
        &format!("[[server]]\nname = \"nginx\"\nurl = \"http://{quick}\"\n[[module]]"),
    );
    let other = run_file(&both, &[]).unwrap();
    assert!(other.is_good(), "a limit of one server is none of another's: {other}");
    let missing = run_module(Lie::Honest, &format!("{SIMPLE}\nlimits = [\"no_such_figure < 30\"]"));
    assert!(!missing.is_good(), "a figure that is not there keeps no limit: {missing}");
    let allowed = run_module(Lie::Byte, &format!("{SIMPLE}\nlimits = [\"faults_content <= 4\"]"));
    assert!(allowed.is_good(), "{allowed}");
    let sulks = run_module(Lie::Sulks, FAULTS);
    assert!(faults(&sulks).contains(&"status"), "it does not come back: {sulks}");
}

#[test]
fn fields_and_digests_are_compared() {
    let other = "9834876dcfb05cb167a5c24953eba58c4ac89b1adf57f28f2f9d09af107ee8f0";
    let floor = crate::tests::floor();
    let text = |more: &str| {
        format!(
            "[[server]]\nname = \"floor\"\nurl = \"http://{floor}\"\n[[module]]\nkind = \"simple\"\n\
             urls = [{{ path = \"/1KB\", {more} }}]\n"
        )
    };
    let digest: String = {
        let body = crate::offsets::body(1024);
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &body);
        digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    };
    for (more, fault) in [
        (format!("sha256 = \"{digest}\""), None),
        (format!("sha256 = \"{other}\""), Some("content")),
        ("bytes = 1025".to_owned(), Some("length")),
        ("status = 404".to_owned(), Some("status")),
        ("fields = { server = \"floor\" }".to_owned(), None),
        ("fields = { server = \"nginx\" }".to_owned(), Some("field")),
        ("cache_status = \"hit\"".to_owned(), Some("field")),
    ] {
        let outcome = run_file(&text(&more), &[]).unwrap();
        assert_eq!(faults(&outcome), fault.into_iter().collect::<Vec<_>>(), "{more}: {outcome}");
    }
    let hit = "kind = \"simple\"\nurls = [{ path = \"/p/1\", cache_status = \"miss\" }, \
               { path = \"/p/1\", cache_status = \"hit\" }]";
    let outcome = run_module(Lie::Honest, hit);
    assert!(outcome.is_good(), "{outcome}");
}

#[test]
fn several_servers_take_turns_and_modules_run_side_by_side() {
    let origin = free_port();
    let (one, other) = (Liar::start(Lie::Honest, origin), Liar::start(Lie::Late, origin));
    let module = "kind = \"simple\"\nurls = [{ path = \"/p/1\" }]\ntimes = 5\n\
                  limits = [\"ratio_whole_p50 > 1.5\"]\n\
                  [[module]]\nkind = \"spread\"\nrequests = 20\nobjects = 5\nusers = 2\nbeside = true";
    let text = format!("rounds = 2\n{}", scenario(origin, one, module));
    let text = text.replace(
        "[[module]]\nkind = \"simple\"",
        &format!("[[server]]\nname = \"late\"\nurl = \"http://{other}\"\n[[module]]\nkind = \"simple\""),
    );
    let outcome = run_file(&text, &[]).unwrap();
    assert!(outcome.is_good(), "{outcome}");
    for module in &outcome.modules {
        assert_eq!(module.sides.iter().map(|side| side.turns.len()).collect::<Vec<_>>(), [4, 4]);
    }
    let json = outcome.json();
    let ratio = &json["modules"][0]["sides"][1]["ratios"]["whole_p50"];
    assert!(ratio["ratio"].as_f64().unwrap() > 1.5 && ratio["interval"].is_array(), "{json}");
    assert!(outcome.rows.iter().any(|row| row.module == "spread" && row.server == "late"));
    let page = outcome.html();
    assert!(page.contains("<svg") && page.contains("ratio_whole_p50") && !page.contains("<script"), "{page}");
    let csv = outcome.csv();
    let columns = csv.lines().next().unwrap().split(',').count();
    assert!(csv.lines().count() > 8 && csv.lines().all(|line| line.split(',').count() == columns), "{csv}");
}

/// The process that runs the tests is the floor server's; its own figures are those of `/proc`.
#[test]
fn what_a_process_uses_is_read_by_its_id() {
    let floor = crate::tests::floor();
    let pid = std::process::id();
    let text = format!(
        "[[server]]\nname = \"floor\"\nurl = \"http://{floor}\"\npid = {pid}\n\
         [[module]]\nkind = \"spread\"\npath = \"/1KB\"\nseconds = 1.2\nusers = 8\n\
         limits = [\"cpu_us_per_request > 0\", \"resident_mb > 1\"]\n"
    );
    let outcome = run_file(&text, &[]).unwrap();
    // The floor has its own bodies, and the catalogue nothing to compare them with.
    assert!(outcome.is_good(), "{outcome}");
    assert!(outcome.rows.iter().any(|row| row.used.cpu_seconds > 0.0));
    let said = outcome.to_string();
    assert_eq!(said.matches("bodies of /1KB are compared with nothing").count(), 1, "{said}");
}

fn said(text: &str) -> String {
    run_file(text, &[]).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn mistakes_in_a_file_are_told_with_what_to_write() {
    let module =
        |text: &str| format!("[[server]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n[[module]]\n{text}");
    for (text, part) in [
        (String::new(), "[[module]]"),
        ("[[module]]\nkind = \"miss\"".to_owned(), "no [[server]]"),
        (module("kind = \"mess\""), "write one of simple, range"),
        (module("kind = \"miss\"\nuser = 3"), "unknown field `user`"),
        (module("kind = \"miss\"\nusers = 0"), "1 to 100000"),
        (module("kind = \"spread\"\nseconds = -1.0"), "above 0"),
        (module("kind = \"spread\"\nsize = \"3 Elephants\""), "no size"),
        (module("kind = \"spread\"\nsize = \"9 KB..3 KB\""), "smaller size first"),
        (module("kind = \"herd\"\nlimits = [\"fast\"]"), "no limit"),
        (module("kind = \"mixed\""), "either `log`"),
        (module("kind = \"statistics\"\ntests = [\"overfull\"]"), "`capacity`"),
        (module("kind = \"simple\"\nurls = [{ path = \"x\" }]"), "begins with /"),
        (module("kind = \"miss\"\n[[module]]\nkind = \"miss\""), "another `name`"),
        (module("kind = \"miss\"\n[[module]]\nkind = \"statistics\"\nbeside = true"), "runs alone"),
        (module("kind = \"miss\"").replace("127.0.0.1", "192.0.2.1"), "--i-own-this-host"),
        (module("kind = \"miss\"").replace("name = \"a\"", "name = \"a/b\""), "no name of a server"),
        (module("kind = \"miss\""), "did not answer"),
        (module("kind = \"statistics\""), "`says`"),
        (module("kind = \"spread\"\ncold = true"), "`command`"),
        (module("kind = \"mixed\"\nlog = \"no/such.log\""), "no/such.log: No such file"),
        (module("kind = \"miss\"\nlimits = [\"b: faults = 0\"]"), "a server that there is not; there are a"),
    ] {
        let text = text.replace("[[server]]\n", "[[server]]\nready_within = 0.2\n");
        let error = said(&text);
        assert!(error.contains(part), "{text}\n{error}");
    }
}

#[test]
fn a_recorded_log_is_played_with_the_lengths_that_it_says() {
    let folder = Folder::new();
    let log = folder.0.join("access.log");
    let line = |second: u32, path: &str, bytes: u32| {
        format!(
            "::1 - - [10/Oct/2026:13:55:{second:02} +0200] \"GET {path} HTTP/1.1\" 200 {bytes} \"-\" \"x\"\n"
        )
    };
    let text = [line(36, "/a", 100), line(37, "/b?x=1", 2000), line(38, "/a", 100)].concat();
    std::fs::write(&log, text + "nonsense\n").unwrap();
    let module = format!("kind = \"mixed\"\nlog = {:?}\nspeed = 4.0", log.display().to_string());
    let outcome = run_module(Lie::Honest, &module);
    assert!(outcome.is_good(), "{outcome}");
    assert_eq!((figure(&outcome, "requests"), figure(&outcome, "bytes")), (3.0, 2200.0));
    assert_eq!(figure(&outcome, "origin_requests"), 2.0);
    let said = outcome.to_string();
    assert!(said.contains("lines of the log: 3 are played, 1 passed over, the first: nonsense"), "{said}");
    // Two seconds, four times as fast.
    assert!(outcome.modules[0].sides[0].tally().seconds >= 0.49, "{outcome}");
}

#[test]
fn the_report_of_a_run_is_one_json_object() {
    let outcome = run_module(Lie::Byte, SIMPLE);
    let json: Value = serde_json::from_str(&outcome.json().to_string()).unwrap();
    assert_eq!(json["good"], false);
    let side = &json["modules"][0]["sides"][0];
    assert_eq!((side["clean"].as_bool(), side["statuses"]["200"].as_u64()), (Some(false), Some(4)));
    assert_eq!(side["figures"]["faults_content"], 4.0);
    assert!(side["first_fault"].as_str().unwrap().contains("from byte 1500 on"), "{json}");
}
