//! What was purged leaves the disk, its marks go, and everything else stays cached; also when the process is
//! killed in between.

use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_testkit::{Origin, Resource, Weir, until};

use crate::durable::settle;
use crate::server::server;

const OBJECTS: usize = 300;
const BYTES: usize = 100_000;

/// Objects with a tag that will be purged, and some with another.
fn filled(origin: &Origin) -> Weir {
    let volume =
        "[cache]\nmemory = \"64MiB\"\n[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"128MiB\"\n";
    let weir = server(&[origin]).more(volume).start();
    for number in 0..OBJECTS {
        let (path, tag) = name(number);
        let body = vec![number as u8; BYTES];
        let resource = Resource::fresh(body).header("Cache-Control", "max-age=600").header("Cache-Tag", tag);
        origin.put(&path, resource);
        assert_eq!(weir.get(&path).status(), 200);
        // A busy drive may leave some objects out at first.
        until("it is on the volume", || weir.metric("weir_volume_objects") == Some(number as f64 + 1.0));
    }
    settle(&weir);
    weir
}

/// Every thirtieth object stays.
fn name(number: usize) -> (String, &'static str) {
    (format!("/{number}"), if number.is_multiple_of(30) { "stays" } else { "goes" })
}

fn volume(weir: &Weir) -> PathBuf {
    weir.folder().join("volume")
}

/// The bytes of all files in a folder on the file system, as `du` counts them.
fn taken(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::read_dir(folder).map_or(0, |entries| {
        let of = |entry: std::fs::DirEntry| match entry.metadata() {
            Ok(data) if data.is_dir() => taken(&entry.path()),
            Ok(data) => data.blocks() * 512,
            Err(_) => 0,
        };
        entries.flatten().map(of).sum()
    })
}

/// A number of the status, by its place in the JSON.
fn status(weir: &Weir, place: &str) -> u64 {
    let output = weir.command(&["status", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    value.pointer(place).and_then(serde_json::Value::as_u64).unwrap_or_else(|| panic!("no {place}"))
}

fn purge(weir: &Weir, arguments: &[&str]) {
    let output = weir.command(&[&["purge"], arguments].concat());
    assert!(output.code == Some(0), "{output:?}");
}

/// Checks that what stays is still there, and that what goes is not.
fn assert_purged(origin: &Origin, weir: &Weir) {
    let before = origin.total();
    for number in (0..OBJECTS).filter(|number| number.is_multiple_of(30)) {
        let found = weir.get(&name(number).0);
        assert!(found.is_hit(), "{number} is lost");
        assert!(found.body == vec![number as u8; BYTES]);
    }
    assert_eq!(origin.total(), before);
    for number in [1, 7, 151, 299] {
        assert!(!weir.get(&name(number).0).is_hit(), "{number} was purged");
    }
}

#[test]
fn a_purged_tag_gives_its_space_back() {
    let origin = Origin::start();
    let weir = filled(&origin);
    let full = taken(&volume(&weir));
    purge(&weir, &["--tag", "goes"]);
    assert_eq!(status(&weir, "/ledger/marks"), 1);
    until("the mark is dropped", || status(&weir, "/ledger/marks") == 0);
    assert_eq!(status(&weir, "/volumes/0/objects"), 10);
    purge(&weir, &["--tag", "stays"]);
    until("the other mark is dropped", || status(&weir, "/ledger/marks") == 0);
    assert_eq!(status(&weir, "/volumes/0/objects"), 0);
    // The segment that is being written stays.
    until("the files are gone", || taken(&volume(&weir)) < full / 3);
    assert!(status(&weir, "/volumes/0/used_bytes") < full / 2);
    assert!(weir.metric("weir_volume_segments_freed_total") > Some(2.0));
    assert_eq!(weir.metric("weir_volume_objects"), Some(0.0));
}

#[test]
fn a_kill_in_the_middle_of_a_sweep_brings_nothing_back() {
    let origin = Origin::start();
    for pause_ms in [5000, 5300] {
        let mut weir = filled(&origin);
        purge(&weir, &["--tag", "goes"]);
        std::thread::sleep(Duration::from_millis(pause_ms));
        weir.signal("KILL");
        weir.start_again();
        assert_purged(&origin, &weir);
        until("the mark is dropped", || status(&weir, "/ledger/marks") == 0);
        // Those that were fetched again are written behind their responses.
        until("all are on the volume", || status(&weir, "/volumes/0/objects") == 14);
        weir.signal("KILL");
        weir.start_again();
        let found = weir.get("/0");
        assert!(found.is_hit());
    }
}

#[test]
fn a_softly_purged_object_is_validated_after_its_mark_was_dropped() {
    let origin = Origin::start();
    let mut weir = filled(&origin);
    purge(&weir, &["--soft", "--tag", "goes"]);
    until("the mark is dropped", || status(&weir, "/ledger/marks") == 0);
    assert_eq!(status(&weir, "/volumes/0/objects"), OBJECTS as u64);
    weir.signal("KILL");
    weir.start_again();
    assert!(weir.get("/0").is_hit());
    assert!(!weir.get("/1").is_hit());
}
