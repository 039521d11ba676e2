//! The program `weir-stress` itself: what it prints in each form, and its exit status. Cargo builds a program
//! before the tests of its package run, so that whatever runs all tests named `it` has `weir-stress` beside
//! `weir`, where the scenarios of `weir stress` look for it.

#![forbid(unsafe_code)]
// Scenarios fail by panicking.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use weir_stress::floor::Floor;
use weir_stress::{PROFILE, warning};

/// A server to load.
fn floor() -> SocketAddr {
    let floor = Floor::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = floor.address();
    std::thread::spawn(move || floor.run());
    address
}

fn stress(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir-stress")).args(words).output().unwrap()
}

fn out(done: &Output) -> String {
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// A file of this test alone, removed at its end.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weir-stress-it-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Whether a report says of which build it is, and what its figures are worth.
fn names_its_build(report: &str) -> bool {
    report.contains(&format!("profile {PROFILE}")) && warning().is_none_or(|words| report.contains(words))
}

fn check_build(report: &str) {
    let json: Value = serde_json::from_str(report).unwrap();
    assert_eq!(
        (&json["profile"], &json["shipped"]),
        (&PROFILE.into(), &warning().is_none().into()),
        "{json}"
    );
}

#[test]
fn a_report_of_one_url_names_the_build_that_measured() {
    let url = format!("http://{}/1KB", floor());
    let done = stress(&[&url, "-n", "20", "-c", "2"]);
    assert!(done.status.success() && names_its_build(&out(&done)), "{}", out(&done));
    let warned = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(warned.contains("not the shipped build"), warning().is_some(), "{warned}");
    let done = stress(&[&url, "-n", "20", "-c", "2", "--json"]);
    check_build(&out(&done));
}

#[test]
fn a_report_of_a_scenario_names_the_build_in_each_form() {
    let scenario = format!(
        "[[server]]\nname = \"floor\"\nurl = \"http://{}\"\n\
         [[module]]\nkind = \"spread\"\npath = \"/1KB\"\nrequests = 20\nusers = 2\n",
        floor()
    );
    let file = File::new("build.toml", &scenario);
    let (page, rows) = (File::new("page.html", ""), File::new("rows.csv", ""));
    let done = stress(&[file.path(), "-q", "--html", page.path(), "--csv", rows.path()]);
    assert!(done.status.success(), "{done:?}");
    assert!(names_its_build(&out(&done)), "{}", out(&done));
    assert!(names_its_build(&page.text()), "{}", page.text());
    let rows = rows.text();
    assert!(rows.starts_with("at_s,") && rows.lines().next().unwrap().ends_with(",profile"), "{rows}");
    assert!(rows.lines().skip(1).all(|row| row.ends_with(&format!(",{PROFILE}"))), "{rows}");
    let done = stress(&[file.path(), "-q", "--json"]);
    check_build(&out(&done));
}

#[test]
fn the_exit_status_says_whether_it_was_wrong_or_could_not_run() {
    let url = format!("http://{}/1KB", floor());
    for (words, code, said) in [
        (&["no-such.toml"][..], 2, "weir-stress: no-such.toml: No such file"),
        (&["127.0.0.1/x"], 2, "no target"),
        (&[&url, "--seconds", "1e300"], 2, "up to a week"),
        (&[&url, "-n", "1", "-c", "1", "--status", "404"], 1, ""),
        (&[&url, "-n", "1", "-c", "1"], 0, ""),
    ] {
        let done = stress(words);
        let error = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{words:?}: {error}");
        assert!(error.contains(said), "{words:?}: {error}");
    }
}
