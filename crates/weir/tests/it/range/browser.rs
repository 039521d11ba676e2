//! A real player in a real browser: headless Chromium plays, seeks to the end and back, and Weir fetches each
//! byte from the origin at most once.
//!
//! `tests/browser/run.mjs` drives it. Without Chromium or node, or if `make test` has not installed the
//! driver, the scenario is skipped with a message.

mod media;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use weir_testkit::{Origin, Resource};

use crate::counted::{Counted, Version};
use crate::server::before;

/// What Weir reads from a connection at a time, and may have read of a transfer that another one continues.
const PIECE_BYTES_MAX: u64 = 64 << 10;
/// The length of the media in seconds: some 30 MB of each kind.
const SECONDS: u32 = 180;
/// The longest time of the whole play. The browser is then ended.
const PLAY_MAX: Duration = Duration::from_secs(150);
/// The rate of the origin's link, a multiple of what the media needs. A player that gets everything at once
/// never seeks ahead.
const RATE: u64 = 4_000_000;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/browser")
}

/// The browser's path. `None`, with a message, if the scenario cannot run here.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let find = |name: &str| std::env::split_paths(&path).map(|p| p.join(name)).find(|p| p.is_file());
    let missing = |what: &str| {
        eprintln!("skipped: no {what} here; `make test` installs it");
        None
    };
    let Some(browser) = find("chromium") else { return missing("chromium") };
    if find("node").is_none() {
        return missing("node");
    }
    if !folder().join("node_modules/playwright-core").is_dir() {
        return missing("playwright-core");
    }
    Some(browser)
}

/// Lets the browser play the page, and returns its reports line by line.
fn play(browser: &Path, url: &str) -> Vec<String> {
    let mut command = Command::new("node");
    command.arg("--no-warnings").arg("run.mjs").arg(browser).arg(url).current_dir(folder());
    let mut node = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let output = node.stdout.take().unwrap();
    let (over, ended) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let said = std::io::read_to_string(output).unwrap_or_default();
        let _ = over.send(());
        said
    });
    if ended.recv_timeout(PLAY_MAX).is_err() {
        let _ = node.kill();
    }
    let _ = node.wait();
    reader.join().unwrap().lines().map(ToOwned::to_owned).collect()
}

/// Plays this media through a Weir of its own.
fn check(kind: &str, media: Vec<u8>) {
    let Some(browser) = browser() else { return };
    let (origin, media) = (Origin::start(), Arc::<[u8]>::from(media));
    let page = "<!doctype html><title>player</title><audio src=/media preload=metadata controls></audio>";
    origin.put("/", Resource::fresh(page).header("Content-Type", "text/html"));
    let headers = [("Cache-Control", "max-age=3600"), ("Content-Type", kind)];
    let counted = Counted::new(Version::new("\"1\"", media.clone()), &headers);
    let counted = counted.slow(RATE, Duration::from_millis(5)).at(&origin, "/media");
    let weir = before(&origin);
    let said = play(&browser, &format!("http://{}/", weir.addr()));
    println!("{said:?}\n{} requests, {} of {} bytes", origin.count("/media"), counted.bytes(), media.len());
    assert_eq!(said.last().map(String::as_str), Some("done"), "{said:?}");
    let ended = |line: &str| line.strip_prefix("end ")?.split_once(" of ").map(|(at, length)| at == length);
    assert!(said.iter().any(|line| ended(line) == Some(true)), "it did not come to the end: {said:?}");
    counted.set_rate(0);
    let whole = weir.client().get(&weir.addr().to_string(), "/media", &[]);
    assert!(whole.body[..] == media[..]);
    // What Weir has received, the page included. Other bytes that the origin sent were on their way when a
    // transfer was given up.
    let taken = weir.metric("weir_origin_body_bytes_total").unwrap() as u64;
    println!("{taken} bytes taken, {} sent, {} of them again", counted.bytes(), counted.bytes_again());
    let most = (media.len() + page.len()) as u64 + origin.count("/media") as u64 * PIECE_BYTES_MAX;
    assert!(taken <= most, "{taken} of {most} bytes: {:?}", counted.sent());
}

#[test]
fn a_player_seeks_in_a_wav_and_each_byte_is_taken_once() {
    check("audio/wav", media::wav(SECONDS));
}

#[test]
fn a_player_seeks_in_an_mp4_with_its_index_at_the_end_and_each_byte_is_taken_once() {
    check("audio/mp4", media::mp4(SECONDS));
}
