//! State folders and volumes that do not belong together, on the real program: exchanged, restored from a
//! copy, damaged file by file, after an orderly end and after a kill. What an acknowledged purge forbids is
//! never answered, and a Weir that does not start says why.

mod damaged;
mod wandering;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_testkit::{Exchange, Origin, Weir, until};

use crate::server::{server, setup};

/// The objects of the origin. Half of them have the tag `first`, the others `second`.
const COUNT: usize = 12;

/// An origin whose objects have versions. The entity tags of a request tell it which version a client has.
struct Versions {
    origin: Origin,
    now: Arc<Mutex<HashMap<usize, u64>>>,
}

impl Versions {
    fn start() -> Versions {
        let now: Arc<Mutex<HashMap<usize, u64>>> =
            Arc::new(Mutex::new((0..COUNT).map(|number| (number, 1)).collect()));
        let origin = Origin::start();
        let seen = Arc::clone(&now);
        origin.otherwise(move |exchange| reply(exchange, &seen.lock().unwrap()));
        Versions { origin, now }
    }

    /// Gives these objects a newer version from now on.
    fn renew(&self, numbers: impl Iterator<Item = usize>) {
        let mut now = self.now.lock().unwrap();
        numbers.for_each(|number| *now.entry(number).or_default() += 1);
    }

    fn least(&self) -> HashMap<usize, u64> {
        self.now.lock().unwrap().clone()
    }
}

fn reply(exchange: &mut Exchange<'_>, now: &HashMap<usize, u64>) {
    let number: usize = exchange.request.path().trim_start_matches('/').parse().unwrap_or(0);
    let version = now.get(&number).copied().unwrap_or(0);
    let (etag, tag) = (format!("\"{version}\""), if is_first(number) { "first" } else { "second" });
    let head =
        [("ETag", &*etag), ("Cache-Control", "max-age=3600, stale-while-revalidate=600"), ("Cache-Tag", tag)];
    if exchange.request.header("if-none-match").as_deref() == Some(&*etag) {
        exchange.reply(304, &head, "");
    } else {
        let mut body = format!("version {version} of {number}\n").into_bytes();
        body.resize(3000 + number * 2000, b'.');
        exchange.reply(200, &head, body);
    }
}

fn is_first(number: usize) -> bool {
    number < COUNT / 2
}

fn firsts() -> impl Iterator<Item = usize> {
    (0..COUNT).filter(|number| is_first(*number))
}

/// A config with these volumes and next to no memory.
fn text(origin: &Origin, volumes: &[&str]) -> String {
    let volume = |name: &&str| format!("[[cache.volume]]\npath = \"{{folder}}/{name}\"\nsize = \"32MiB\"\n");
    let volumes: String = volumes.iter().map(volume).collect();
    server(&[origin]).more(&format!("[cache]\nmemory = \"4MiB\"\nadmission = \"always\"\n{volumes}")).text()
}

fn start(origin: &Origin) -> Weir {
    setup().run_config(&text(origin, &["volume"]))
}

/// The versions that are answered now.
fn answers(weir: &Weir) -> HashMap<usize, u64> {
    let mut client = weir.client();
    let version = |number: usize| {
        let response = client.get("localhost", &format!("/{number}"), &[]);
        let body = String::from_utf8_lossy(&response.body).into_owned();
        let version = body.strip_prefix("version ").and_then(|rest| rest.split(' ').next()?.parse().ok());
        let whole = version.filter(|_| response.status() == 200 && body.len() == 3000 + number * 2000);
        (number, whole.unwrap_or_else(|| panic!("/{number}: {:?} {body:.60}", response.head)))
    };
    (0..COUNT).map(version).collect()
}

/// Checks that no answer is older than purges allow.
fn check(weir: &Weir, least: &HashMap<usize, u64>, when: &str) {
    for (number, version) in answers(weir) {
        let least = least[&number];
        assert!(
            version >= least,
            "{when}: version {version} of {number}, purged below {least}\n{}",
            weir.stderr()
        );
    }
}

/// Requests all objects until they are on the volume.
fn store(weir: &Weir) {
    until("all is on the volume", || {
        answers(weir);
        weir.metric("weir_volume_objects").is_some_and(|objects| objects >= COUNT as f64)
    });
}

fn purge(weir: &Weir, args: &[&str]) {
    let output = weir.command(&[&["purge"], args].concat());
    assert_eq!(output.code, Some(0), "{args:?}: {}{}", output.stdout, output.stderr);
}

/// How a Weir ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Stop,
    Kill,
}

fn end(weir: &mut Weir, ending: Ending) {
    weir.signal(if ending == Ending::Stop { "TERM" } else { "KILL" });
    assert!(weir.wait(Duration::from_secs(30)).is_some(), "it does not end");
}

/// Copies a folder with all that is in it, except sockets and locks.
fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to).unwrap();
    let mode = std::fs::metadata(from).unwrap().permissions();
    std::fs::set_permissions(to, mode).unwrap();
    for path in entries(from) {
        let name = path.file_name().unwrap();
        match std::fs::metadata(&path).unwrap().is_dir() {
            true => copy(&path, &to.join(name)),
            false if name == "lock" || name == "control.sock" => {}
            false => drop(std::fs::copy(&path, to.join(name)).unwrap()),
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}
