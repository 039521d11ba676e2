//! Several volumes: added, emptied and detached under load; gone and back; dying under load; slow.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use weir_testkit::{Drive, Origin, Response, Weir, pattern, until};

use crate::server::server;

/// Objects of one length with a common version, which can be raised.
struct Shelf {
    bytes: usize,
    version: AtomicU64,
    /// The requests that were answered with a body, by object.
    sent: Vec<AtomicUsize>,
    /// The requests that were answered with 304.
    confirmed: AtomicUsize,
}

impl Shelf {
    fn new(count: usize, bytes: usize) -> Arc<Shelf> {
        let sent = (0..count).map(|_| AtomicUsize::new(0)).collect();
        Arc::new(Shelf { bytes, version: AtomicU64::new(1), sent, confirmed: AtomicUsize::new(0) })
    }

    fn body(&self, number: usize, version: u64) -> Vec<u8> {
        pattern(number as u64 * 1000 + version, self.bytes)
    }

    fn origin(self: &Arc<Shelf>) -> Origin {
        let origin = Origin::start();
        let shelf = Arc::clone(self);
        origin.otherwise(move |exchange| {
            let number: usize = exchange.request.target.trim_start_matches('/').parse().unwrap();
            let version = shelf.version.load(Ordering::SeqCst);
            let tag = format!("\"{number}-{version}\"");
            let fields = [
                ("Cache-Control", "max-age=3600, stale-while-revalidate=600, stale-if-error=600"),
                ("ETag", &tag),
                ("Surrogate-Key", if number.is_multiple_of(2) { "even" } else { "odd" }),
            ];
            if exchange.request.header("if-none-match").as_deref() == Some(tag.as_str()) {
                shelf.confirmed.fetch_add(1, Ordering::SeqCst);
                exchange.reply(304, &fields, "");
                return;
            }
            shelf.sent[number].fetch_add(1, Ordering::SeqCst);
            exchange.reply(200, &fields, shelf.body(number, version));
        });
        origin
    }

    /// The version of a response. Panics unless it is one, whole.
    fn judge(&self, number: usize, found: &Response) -> u64 {
        assert_eq!(found.status(), 200, "{number}: {:?}", found.head);
        let tag = found.header("etag").unwrap_or_default().trim_matches('"').to_owned();
        let version = tag.split_once('-').and_then(|(_, version)| version.parse().ok()).unwrap_or(0);
        assert!(found.body == self.body(number, version), "{number}: version {version} has other bytes");
        version
    }

    /// Requests each of these objects. Returns their versions.
    fn ask(&self, weir: &Weir, numbers: impl IntoIterator<Item = usize>) -> Vec<u64> {
        let mut client = weir.client();
        let versions = numbers
            .into_iter()
            .map(|number| self.judge(number, &client.get("x", &format!("/{number}"), &[])));
        versions.collect()
    }

    fn sent_all(&self) -> usize {
        self.sent.iter().map(|count| count.load(Ordering::SeqCst)).sum()
    }
}

/// Requests objects until it is stopped, and counts the requests. A wrong answer panics.
struct Load {
    ends: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<usize>,
}

impl Load {
    fn begin(shelf: &Arc<Shelf>, weir: &Weir, step: usize) -> Load {
        Load::among(shelf, weir, shelf.sent.len(), step)
    }

    /// Requests the first `count` objects.
    fn among(shelf: &Arc<Shelf>, weir: &Weir, count: usize, step: usize) -> Load {
        let (shelf, ends) = (Arc::clone(shelf), Arc::new(AtomicBool::new(false)));
        let (mut client, is_ended) = (weir.client(), Arc::clone(&ends));
        let thread = std::thread::spawn(move || {
            let mut asked = 0;
            while !is_ended.load(Ordering::SeqCst) {
                let number = asked * step % count;
                shelf.judge(number, &client.get("x", &format!("/{number}"), &[]));
                asked += 1;
            }
            asked
        });
        Load { ends, thread }
    }

    fn end(self) -> usize {
        self.ends.store(true, Ordering::SeqCst);
        self.thread.join().expect("a request failed")
    }
}

/// A config with these volumes. `{folder}` is Weir's own.
fn text(origin: &Origin, volumes: &[&str]) -> String {
    let volumes: String = volumes.iter().map(|lines| format!("[[cache.volume]]\n{lines}\n")).collect();
    server(&[origin]).more(&format!("[cache]\nmemory = \"2MiB\"\nadmission = \"always\"\n{volumes}")).text()
}

fn start(origin: &Origin, volumes: &[&str]) -> Weir {
    crate::server::setup().run_config(&text(origin, volumes))
}

fn reload(weir: &Weir, origin: &Origin, volumes: &[&str]) {
    weir.rewrite_config(&text(origin, volumes));
    let reloaded = weir.reload();
    assert_eq!(reloaded.code, Some(0), "{reloaded:?}");
}

/// The entry of `weir volumes` for the volume whose path ends with `name`.
fn told(weir: &Weir, name: &str) -> serde_json::Value {
    let output = weir.command(&["volumes", "--json"]);
    let all: Vec<serde_json::Value> = serde_json::from_str(&output.stdout).unwrap();
    let is_it = |one: &serde_json::Value| one["path"].as_str().is_some_and(|path| path.ends_with(name));
    all.into_iter().find(is_it).unwrap_or_default()
}

fn await_state(weir: &Weir, name: &str, state: &str) {
    until(&format!("{name} is {state}"), || told(weir, name)["state"] == state);
}

fn await_stored(weir: &Weir, count: f64) {
    until("all is on the volumes", || weir.metric("weir_volume_objects") == Some(count));
}

const A: &str = "path = \"{folder}/a\"\nsize = \"64MiB\"";
const B: &str = "path = \"{folder}/b\"\nsize = \"64MiB\"";

#[test]
fn volumes_are_added_emptied_and_detached_under_load_without_loss() {
    let shelf = Shelf::new(600, 30_000);
    let origin = shelf.origin();
    let weir = start(&origin, &[A]);
    // What a drive that does not keep up has left out is stored when it is fetched again.
    until("all is on the volume", || {
        shelf.ask(&weir, 0..300);
        weir.metric("weir_volume_objects") == Some(300.0)
    });
    let load = Load::among(&shelf, &weir, 300, 7);
    reload(&weir, &origin, &[A, B]);
    await_state(&weir, "/b", "up");
    assert!(load.end() > 0);
    let there = |name: &str| told(&weir, name)["objects"].as_u64().unwrap_or_default();
    until("all is on the volumes", || {
        shelf.ask(&weir, 0..600);
        there("/a") + there("/b") == 600
    });
    // From here on each object is on a volume.
    let fetched = shelf.sent_all();
    let load = Load::begin(&shelf, &weir, 7);
    assert!(there("/a") >= 300 && (90..=210).contains(&there("/b")), "{} {}", there("/a"), there("/b"));
    // Resized, weighted differently and emptied.
    reload(
        &weir,
        &origin,
        &[&format!("{A}\ndrain = true"), "path = \"{folder}/b\"\nsize = \"96MiB\"\nweight = 5"],
    );
    until("a is empty", || told(&weir, "/a")["drain"] == "drained");
    assert_eq!((there("/a"), there("/b")), (0, 600));
    assert_eq!(told(&weir, "/b")["size_bytes"], 96 << 20);
    reload(&weir, &origin, &[B]);
    until("a is gone", || told(&weir, "/a").is_null());
    assert!(load.end() > 0);
    shelf.ask(&weir, 0..600);
    assert_eq!(shelf.sent_all(), fetched, "nothing was fetched again");
    let verified = weir.command(&["verify"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

#[test]
fn a_detached_volume_that_returns_is_validated() {
    let shelf = Shelf::new(100, 30_000);
    let origin = shelf.origin();
    let mut weir = start(&origin, &[A, B]);
    shelf.ask(&weir, 0..100);
    await_stored(&weir, 100.0);
    let on_a = told(&weir, "/a")["objects"].as_u64().unwrap() as usize;
    assert!((30..=70).contains(&on_a), "{on_a}");
    reload(&weir, &origin, &[B]);
    until("a is gone", || told(&weir, "/a").is_null());
    weir.signal("TERM");
    weir.wait(Duration::from_secs(30));
    // What was on a is fetched again, newer, and stored on b.
    weir.start_again();
    shelf.version.store(2, Ordering::SeqCst);
    let versions = shelf.ask(&weir, 0..100);
    let fetched = versions.iter().filter(|version| **version == 2).count();
    assert!(fetched >= on_a && fetched <= on_a + 5, "{fetched} of {on_a}");
    let newer: HashSet<usize> = (0..100).filter(|number| versions[*number] == 2).collect();
    weir.command(&["purge", "--tag", "even"]);
    reload(&weir, &origin, &[A, B]);
    await_state(&weir, "/a", "up");
    assert_eq!(told(&weir, "/a")["suspect"], true);
    let versions = shelf.ask(&weir, 0..100);
    for (number, version) in versions.iter().enumerate() {
        let must_be_new = newer.contains(&number) || number % 2 == 0;
        assert!(*version == 2 || !must_be_new, "{number} is of version {version}");
    }
}

#[test]
fn another_path_to_a_folder_names_the_same_volume() {
    let shelf = Shelf::new(10, 30_000);
    let origin = shelf.origin();
    let weir = start(&origin, &[A]);
    shelf.ask(&weir, 0..10);
    await_stored(&weir, 10.0);
    let before = told(&weir, "/a");
    reload(&weir, &origin, &["path = \"{folder}/./a/\"\nsize = \"32MiB\""]);
    let after = told(&weir, "/a");
    assert!(["id", "state", "suspect", "objects"].iter().all(|of| after[of] == before[of]), "{after}");
    assert_eq!(after["size_bytes"], 32 << 20);
}

#[test]
fn a_pulled_drive_that_returns_serves_nothing_purged_or_replaced() {
    let Some(mut drive) = Drive::ext4(96 << 20) else { return };
    let shelf = Shelf::new(120, 30_000);
    let origin = shelf.origin();
    let on_drive = format!("path = \"{}/weir\"\nsize = \"64MiB\"", drive.path().display());
    let mut weir = start(&origin, &[&on_drive, B]);
    let rounds = std::env::var("WEIR_PULLS").map_or(2, |count| count.parse().unwrap());
    for round in 1..=rounds {
        shelf.ask(&weir, 0..120);
        until("all is on the volumes", || weir.metric("weir_volume_objects") >= Some(120.0));
        drive.pull();
        await_state(&weir, "mount/weir", "ejected");
        let purged = weir.command(&["purge", "--tag", "even"]);
        assert_eq!(purged.code, Some(0), "{purged:?}");
        let version = shelf.version.fetch_add(1, Ordering::SeqCst) + 1;
        // They are stored again in newer versions, if they lay on the missing drive or were purged.
        let versions = shelf.ask(&weir, 0..60);
        if round % 2 == 0 {
            weir.signal("KILL");
            weir.wait(Duration::from_secs(30));
            weir.start_again();
        }
        drive.mount();
        await_state(&weir, "mount/weir", "up");
        assert_eq!(told(&weir, "mount/weir")["suspect"], true);
        let after = shelf.ask(&weir, 0..120);
        for (number, is) in after.into_iter().enumerate() {
            let must_be_new = number % 2 == 0 || versions.get(number) == Some(&version);
            assert!(is == version || !must_be_new, "{number} is of version {is}");
        }
        // Everything on the drive was validated; what was on the other one was not.
        shelf.ask(&weir, 0..120);
    }
}

#[test]
fn a_file_system_that_dies_under_load_costs_no_request() {
    let Some(drive) = Drive::ext4(96 << 20) else { return };
    let requests = std::env::var("WEIR_DYING_REQUESTS").map_or(4000, |count| count.parse().unwrap());
    let shelf = Shelf::new(400, 30_000);
    let origin = shelf.origin();
    let on_drive = format!("path = \"{}/weir\"\nsize = \"64MiB\"", drive.path().display());
    let weir = start(&origin, &[&on_drive, B]);
    until("most is on the volumes", || {
        shelf.ask(&weir, 0..400);
        weir.metric("weir_volume_objects") >= Some(390.0)
    });
    let loads: Vec<Load> = [7, 11, 13].map(|step| Load::begin(&shelf, &weir, step)).into();
    drive.forget_pages();
    drive.cut_power();
    await_state(&weir, "mount/weir", "ejected");
    let mut asked = 0;
    while asked < requests {
        asked += shelf.ask(&weir, 0..400).len();
    }
    let asked: usize = asked + loads.into_iter().map(Load::end).sum::<usize>();
    assert!(asked >= requests);
    println!("{asked} requests, none failed");
    // The other volume goes on.
    assert_eq!(told(&weir, "/b")["state"], "up");
    let before = shelf.sent_all();
    shelf.ask(&weir, 0..400);
    until("all is on the other one", || {
        shelf.ask(&weir, 0..400);
        told(&weir, "/b")["objects"].as_u64() >= Some(395)
    });
    assert!(shelf.sent_all() - before < 400, "what was on the other one is not fetched again");
}

#[test]
fn a_slow_drive_delays_only_its_own_objects() {
    let Some(drive) = Drive::ext4(96 << 20) else { return };
    let shelf = Shelf::new(200, 60_000);
    let origin = shelf.origin();
    // The drive gives a read once a second: one that takes longer than this waits behind another.
    let slow =
        format!("path = \"{}/weir\"\nsize = \"64MiB\"\nread_timeout = \"700ms\"", drive.path().display());
    let weir = start(&origin, &[&slow, &format!("{B}\nread_timeout = \"30s\"")]);
    until("most is on the volumes", || {
        shelf.ask(&weir, 0..200);
        weir.metric("weir_volume_objects") >= Some(195.0)
    });
    drive.forget_pages();
    let Some(throttle) = drive.throttle_reads(weir.pid(), 1) else { return };
    let sent = |number: usize| shelf.sent[number].load(Ordering::SeqCst);
    await_slow(&shelf, &weir);
    assert_eq!(told(&weir, "/b")["state"], "up");
    let mut client = weir.client();
    let mut slowest = Duration::ZERO;
    let mut untouched = 0;
    for number in 0..200 {
        let begun = std::time::Instant::now();
        let (before, found) = (sent(number), client.get("x", &format!("/{number}"), &[]));
        shelf.judge(number, &found);
        // A head in memory may be a hit although the origin sends the body.
        if found.is_hit() && sent(number) == before {
            slowest = slowest.max(begun.elapsed());
            untouched += 1;
        }
    }
    assert!(untouched >= 60, "{untouched} of the other volume, or of memory");
    println!("{untouched} hits beside a drive that reads once a second, the slowest after {slowest:?}");
    drop(throttle);
    await_state(&weir, "mount/weir", "up");
    until("it is asked again", || {
        let before = shelf.sent_all();
        shelf.ask(&weir, 0..200);
        shelf.sent_all() - before < 100
    });
}

/// Requests what lies on a slow volume until Weir notices.
fn await_slow(shelf: &Shelf, weir: &Weir) {
    until("it is slow", || {
        shelf.ask(weir, (0..200).step_by(9));
        told(weir, "mount/weir")["state"] == "slow"
    });
}

#[test]
fn two_volumes_may_not_be_copies_of_each_other() {
    let shelf = Shelf::new(10, 1000);
    let origin = shelf.origin();
    let mut weir = start(&origin, &[A]);
    shelf.ask(&weir, 0..10);
    await_stored(&weir, 10.0);
    weir.signal("TERM");
    weir.wait(Duration::from_secs(30));
    copy(&weir.folder().join("a"), &weir.folder().join("b"));
    weir.rewrite_config(&text(&origin, &[A, B]));
    weir.start_again();
    shelf.ask(&weir, 0..10);
    let (a, b) = (told(&weir, "/a"), told(&weir, "/b"));
    assert_eq!([&a["state"], &b["state"]].iter().filter(|state| **state == "up").count(), 1, "{a} {b}");
    let refused = if a["state"] == "up" { b } else { a };
    assert!(refused["reason"].as_str().is_some_and(|why| why.contains("copy")), "{refused}");
}

#[test]
fn one_of_two_copies_used_in_turn_is_validated() {
    let shelf = Shelf::new(400, 1000);
    let origin = shelf.origin();
    let mut weir = start(&origin, &[A]);
    let (own, aside) = (weir.folder().join("a"), weir.folder().join("aside"));
    let stop = |weir: &mut Weir| {
        weir.signal("TERM");
        weir.wait(Duration::from_secs(30));
    };
    let swap = || {
        let between = own.with_file_name("between");
        std::fs::rename(&own, &between).unwrap();
        std::fs::rename(&aside, &own).unwrap();
        std::fs::rename(&between, &aside).unwrap();
    };
    shelf.ask(&weir, 0..10);
    await_stored(&weir, 10.0);
    stop(&mut weir);
    copy(&own, &aside);
    // The original runs for longer than the copy will.
    weir.start_again();
    for more in [100, 200, 300, 400] {
        shelf.ask(&weir, 10..more);
        await_stored(&weir, more as f64);
        std::thread::sleep(Duration::from_millis(1200));
    }
    assert_eq!(told(&weir, "/a")["suspect"], false);
    stop(&mut weir);
    swap();
    weir.start_again();
    assert_eq!(told(&weir, "/a")["suspect"], true, "the copy is behind");
    shelf.version.store(2, Ordering::SeqCst);
    assert_eq!(shelf.ask(&weir, 0..10), [2; 10]);
    await_stored(&weir, 10.0);
    stop(&mut weir);
    // The original comes back, and knows nothing of these.
    swap();
    weir.start_again();
    assert_eq!(told(&weir, "/a")["suspect"], true);
    assert_eq!(shelf.ask(&weir, 0..10), [2; 10]);
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}
