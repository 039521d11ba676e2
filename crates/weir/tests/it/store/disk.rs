//! What lies on the volume: it survives the process, it is never wrong, and it stays within its size.

use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_testkit::{Origin, Random, Resource, Weir, free_port, until};

use crate::durable::settle;
use crate::server::{Server, server};

const VOLUME: &str = "[[cache.volume]]\npath = \"{folder}/volume\"\n";

fn on_disk(origin: &Origin, memory: &str, size: &str) -> Server {
    server(&[origin])
        .more(&format!("[cache]\nmemory = \"{memory}\"\nadmission = \"always\"\n{VOLUME}size = \"{size}\""))
}

/// Bytes that name their object, version and position.
fn body(name: &str, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 32);
    while bytes.len() < length {
        bytes.extend_from_slice(format!("{name}:{:>12}\n", bytes.len()).as_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn put(origin: &Origin, path: &str, length: usize) -> Vec<u8> {
    let body = body(path, length);
    origin.put(path, Resource::fresh(body.clone()).header("Cache-Control", "max-age=600").etag("\"1\""));
    body
}

fn volume(weir: &Weir) -> PathBuf {
    weir.folder().join("volume")
}

/// The bytes of all files in a folder.
fn size_of(folder: &Path) -> u64 {
    std::fs::read_dir(folder).map_or(0, |entries| {
        entries
            .flatten()
            .map(|entry| match entry.metadata() {
                Ok(data) if data.is_dir() => size_of(&entry.path()),
                Ok(data) => data.len(),
                Err(_) => 0,
            })
            .sum()
    })
}

#[test]
fn stored_objects_survive_a_restart() {
    let origin = Origin::start();
    let mut weir = on_disk(&origin, "64MiB", "256MiB").start();
    let lengths = [0, 1, 1000, 20_000, 65_536, 300_000, 5_000_000];
    let bodies: Vec<_> = lengths
        .iter()
        .map(|length| {
            let path = format!("/{length}");
            let body = put(&origin, &path, *length);
            assert_eq!(weir.get(&path).body, body);
            (path, body)
        })
        .collect();
    weir.signal("TERM");
    weir.start_again();
    for round in 0..2 {
        for (path, body) in &bodies {
            let found = weir.get(path);
            assert!(found.is_hit(), "{path} in round {round}: {:?}", found.head);
            assert!(found.age().is_some());
            assert_eq!(&found.body, body, "{path}");
        }
    }
    let (path, body) = bodies.last().unwrap();
    let part = weir.get_with(path, &[("Range", "bytes=3000000-3099999")]);
    assert_eq!((part.status(), &part.body[..]), (206, &body[3_000_000..3_100_000]));
    assert_eq!(weir.get_with(path, &[("If-None-Match", "\"1\"")]).status(), 304);
    assert_eq!(origin.total(), bodies.len());
}

#[test]
fn an_object_beyond_memory_is_fetched_once() {
    let origin = Origin::start();
    let body = put(&origin, "/large", 24_000_000);
    let weir = on_disk(&origin, "8MiB", "256MiB").start();
    assert_eq!(weir.get("/large").body, body);
    until("the large object is on the volume", || weir.get("/large").is_hit());
    let before = origin.count("/large");
    for _ in 0..3 {
        let found = weir.get("/large");
        assert!(found.is_hit() && found.body == body, "{:?}", found.head);
    }
    assert_eq!(origin.count("/large"), before);
    assert!(weir.rss_peak() < 120 << 20, "{} bytes resident", weir.rss_peak());
}

#[test]
fn the_size_is_kept_and_the_oldest_go() {
    let origin = Origin::start();
    let weir = on_disk(&origin, "16MiB", "16MiB").start();
    for number in 0..120 {
        let path = format!("/{number}");
        let body = put(&origin, &path, 300_000);
        assert_eq!(weir.get(&path).body, body);
        let size = size_of(&volume(&weir));
        assert!(size <= 16 << 20, "{size} bytes after {number}");
    }
    settle(&weir);
    assert!(size_of(&volume(&weir)) > 8 << 20);
    let is_held = |number: usize| {
        weir.get_with(&format!("/{number}"), &[("Cache-Control", "only-if-cached")]).status() == 200
    };
    assert!(!is_held(0));
    let kept = (80..120).filter(|number| is_held(*number)).count();
    assert!(kept >= 20, "{kept} of the last 40 are held");
}

#[test]
fn bits_that_flipped_while_weir_was_down_are_a_miss() {
    let origin = Origin::start();
    let mut weir = on_disk(&origin, "8MiB", "64MiB").start();
    let lengths = [500, 5000, 50_000, 500_000];
    let bodies: Vec<_> = lengths.iter().map(|length| put(&origin, &format!("/{length}"), *length)).collect();
    for length in lengths {
        weir.get(&format!("/{length}"));
    }
    weir.signal("TERM");
    assert!(weir.wait(Duration::from_secs(30)).is_some());
    let mut random = Random::new(3);
    for entry in std::fs::read_dir(volume(&weir).join("segments")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        for _ in 0..30 {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
        std::fs::write(&path, bytes).unwrap();
    }
    weir.start_again();
    for _ in 0..3 {
        for (length, body) in lengths.iter().zip(&bodies) {
            let path = format!("/{length}");
            // A large body may break off after its first sound part. It never ends cleanly, and the next one
            // is whole.
            let mut client = weir.client();
            client.send_get("localhost", &path, &[]);
            if let Ok(found) = client.recv() {
                assert_eq!((found.status(), &found.body), (200, body), "{path}");
            }
        }
    }
    for (length, body) in lengths.iter().zip(&bodies) {
        let found = weir.get(&format!("/{length}"));
        assert!(found.is_hit() && &found.body == body);
    }
}

#[test]
fn verifying_drops_only_damaged_objects() {
    let origin = Origin::start();
    let mut weir = on_disk(&origin, "8MiB", "64MiB").start();
    let bodies: Vec<_> = (0..10).map(|number| put(&origin, &format!("/{number}"), 100_000)).collect();
    for number in 0..10 {
        weir.get(&format!("/{number}"));
    }
    weir.signal("TERM");
    assert!(weir.wait(Duration::from_secs(30)).is_some());
    let segment = std::fs::read_dir(volume(&weir).join("segments")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&segment).unwrap();
    let wrong = bytes.windows(8).position(|window| window == b"/3:     ").unwrap();
    bytes[wrong + 5] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    weir.start_again();
    let verify = || {
        let output = weir.command(&["verify", "--json"]);
        assert_eq!(output.code, Some(0), "{output:?}");
        let found: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        (found["objects"].as_u64(), found["damaged"].as_u64())
    };
    assert_eq!(verify(), (Some(9), Some(1)));
    assert_eq!(verify(), (Some(9), Some(0)));
    for (number, body) in bodies.iter().enumerate() {
        let found = weir.get(&format!("/{number}"));
        assert_eq!(&found.body, body);
        assert_eq!(found.is_hit(), number != 3, "{number}");
    }
    let without = server(&[&origin]).start().command(&["verify"]);
    assert_ne!(without.code, Some(0));
    assert!(without.stderr.contains("no volume"), "{without:?}");
}

#[test]
fn a_volume_that_is_lost_is_a_cold_cache() {
    let origin = Origin::start();
    let mut weir = on_disk(&origin, "8MiB", "64MiB").start();
    let body = put(&origin, "/x", 100_000);
    weir.get("/x");
    weir.signal("TERM");
    assert!(weir.wait(Duration::from_secs(30)).is_some());
    std::fs::remove_dir_all(volume(&weir).join("index")).unwrap();
    weir.start_again();
    let found = weir.get("/x");
    assert!(found.is_hit() && found.body == body, "the index is made again: {:?}", found.head);
    weir.signal("TERM");
    assert!(weir.wait(Duration::from_secs(30)).is_some());
    std::fs::remove_dir_all(volume(&weir)).unwrap();
    weir.start_again();
    assert_eq!(weir.get("/x").body, body);
    assert!(weir.get("/x").is_hit());
    assert_eq!(origin.count("/x"), 2);
}

#[test]
fn a_lost_ledger_makes_the_volumes_content_unusable() {
    let origin = Origin::start();
    let mut weir = on_disk(&origin, "8MiB", "64MiB").start();
    put(&origin, "/x", 1000);
    weir.get("/x");
    weir.signal("TERM");
    assert!(weir.wait(Duration::from_secs(30)).is_some());
    std::fs::remove_dir_all(weir.state()).unwrap();
    weir.start_again();
    // What was purged is not known any more.
    assert!(!weir.get("/x").is_hit());
    assert!(weir.get("/x").is_hit());
    assert_eq!(origin.count("/x"), 2);
}

#[test]
fn invalidations_by_unsafe_requests_survive_a_kill() {
    let origin = Origin::start();
    let mut weir = on_disk(&origin, "8MiB", "64MiB").start();
    put(&origin, "/x", 1000);
    weir.get("/x");
    settle(&weir);
    let mut client = weir.client();
    client.send("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    client.recv().unwrap();
    settle(&weir);
    weir.signal("KILL");
    weir.start_again();
    assert!(!weir.get("/x").is_hit());
}

#[test]
fn a_folder_that_cannot_be_used_is_explained_and_the_status_not_zero() {
    let setup = crate::server::setup();
    let blocker = setup.file("blocker", "a file");
    let folder = blocker.join("cache").display().to_string();
    let admin = format!("127.0.0.1:{}", free_port());
    let output = setup.command(&[
        "run",
        "--origin",
        "http://127.0.0.1:9",
        "--listen",
        "127.0.0.1:0",
        "--admin",
        &admin,
        "--state",
        "state",
        "--cache",
        &folder,
    ]);
    assert_ne!(output.code, Some(0));
    assert!(
        output.stderr.contains("cannot use the volume") && output.stderr.contains("blocker"),
        "{}",
        output.stderr
    );
}

/// The number of variants: `WEIR_DISK_VARIANTS`, or some.
fn variants() -> usize {
    std::env::var("WEIR_DISK_VARIANTS").map_or(3000, |text| text.parse().unwrap())
}

#[test]
fn long_keys_and_many_variants_survive_a_restart() {
    const VARIANTS_A_KEY: usize = 30;
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let own = exchange.request.header("x-own").unwrap_or_default();
        let body = format!("{own} of {}", exchange.request.target);
        exchange.reply(200, &[("Cache-Control", "max-age=3600"), ("Vary", "X-Own")], body);
    });
    let mut weir = on_disk(&origin, "64MiB", "1GiB").start();
    let long = "k".repeat(7000);
    let all: Vec<(String, String)> = (0..variants())
        .map(|number| (number / VARIANTS_A_KEY, number % VARIANTS_A_KEY))
        .map(|(key, own)| match key {
            0 => (format!("/{long}"), own.to_string()),
            key => (format!("/{key}"), own.to_string()),
        })
        .collect();
    let ask = |weir: &Weir| {
        let mut client = weir.client();
        let is_hit = |(path, own): &(String, String)| {
            let found = client.get("localhost", path, &[("X-Own", own)]);
            assert_eq!(found.text(), format!("{own} of {path}"));
            found.is_hit()
        };
        all.iter().map(is_hit).filter(|is_hit| *is_hit).count()
    };
    assert_eq!(ask(&weir), 0);
    weir.signal("TERM");
    weir.start_again();
    assert_eq!(ask(&weir), all.len());
    assert_eq!(origin.total(), all.len());
}
