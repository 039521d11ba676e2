//! The volumes move from one process to the next: the new one finds what is stored, and not what was purged.

use std::collections::HashSet;
use std::time::Duration;

use weir_testkit::{Client, Origin, Resource, Weir, pattern, until};

use super::{Load, origin, upgraded};
use crate::durable::settle;
use crate::server::{Server, server};

pub(super) fn on_disk(origin: &Origin, memory: &str) -> Server {
    let volume = "[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"256MiB\"";
    server(&[origin]).more(&format!("[cache]\nmemory = \"{memory}\"\n{volume}"))
}

/// Waits until the new process has its volume.
pub(super) fn await_volume(weir: &Weir) {
    until("the volume is up", || {
        let volumes = weir.command(&["status", "--json"]).stdout;
        volumes.contains("\"state\": \"up\"")
    });
}

/// Stores some objects and waits until they are on the volume.
pub(super) fn filled(origin: &Origin, weir: &Weir) -> Vec<String> {
    let paths: Vec<String> = (0..30).map(|number| format!("/kept/{number}")).collect();
    for (number, path) in paths.iter().enumerate() {
        origin.put(path, Resource::fresh(pattern(number as u64, 1000 * number)).etag("\"1\""));
        assert_eq!(weir.get(path).status(), 200);
    }
    until("all are on the volume", || {
        paths.iter().for_each(|path| assert_eq!(weir.get(path).status(), 200));
        weir.metric("weir_volume_objects") >= Some(paths.len() as f64)
    });
    paths
}

#[test]
fn the_cache_is_warm_after_an_upgrade() {
    let origin = origin();
    let mut weir = on_disk(&origin, "64MiB").start();
    let paths = filled(&origin, &weir);
    for round in 0..3 {
        upgraded(&mut weir, &[]);
        await_volume(&weir);
        for (number, path) in paths.iter().enumerate() {
            let answer = weir.get(path);
            assert!(answer.is_hit(), "{path} in round {round}: {}", answer.cache_status());
            assert_eq!(answer.body, pattern(number as u64, 1000 * number));
            assert_eq!(origin.count(path), 1, "{path} in round {round}");
        }
        weir.get(&format!("/later/{round}"));
    }
    let verified = weir.command(&["verify", "--json"]);
    assert!(verified.stdout.contains("\"damaged\": 0"), "{verified:?}");
    assert!(weir.wait(Duration::from_secs(20)).is_some_and(|status| status.success()));
}

#[test]
fn purges_before_and_after_an_upgrade_hold() {
    let origin = origin();
    let mut weir = on_disk(&origin, "64MiB").start();
    let paths = filled(&origin, &weir);
    let purge = |weir: &Weir, path: &str| {
        let url = format!("http://localhost{path}");
        let output = weir.command(&["purge", &url]);
        assert_eq!(output.code, Some(0), "{output:?}");
    };
    let mut purged = Vec::new();
    for round in 0..3 {
        // One just before, one as soon as the new process answers, one once it has the volume.
        purge(&weir, &paths[3 * round]);
        upgraded(&mut weir, &[]);
        purge(&weir, &paths[3 * round + 1]);
        await_volume(&weir);
        purge(&weir, &paths[3 * round + 2]);
        purged.extend(3 * round..3 * round + 3);
    }
    weir.restart();
    for (number, path) in paths.iter().enumerate() {
        let answer = weir.get(path);
        assert_eq!(answer.is_hit(), !purged.contains(&number), "{path}: {}", answer.cache_status());
        assert_eq!(answer.body, pattern(number as u64, 1000 * number));
    }
}

#[test]
fn no_request_fails_while_the_volume_moves() {
    let origin = origin();
    let mut weir = on_disk(&origin, "16MiB").start();
    let paths = filled(&origin, &weir);
    let load = Load::start(&weir, 8, 4);
    for _ in 0..4 {
        load.go_on(200);
        upgraded(&mut weir, &[]);
        await_volume(&weir);
    }
    load.go_on(200);
    load.end();
    assert!(paths.iter().all(|path| weir.get(path).is_hit()));
}

#[test]
fn objects_fetched_before_the_volume_moved_outlive_a_kill() {
    let origin = origin();
    let mut weir = on_disk(&origin, "64MiB").start();
    let hot: Vec<String> = (0..20).map(|number| format!("/hit?{number}")).collect();
    let load = Load::start(&weir, 8, 4);
    load.go_on(400);
    upgraded(&mut weir, &[]);
    await_volume(&weir);
    load.go_on(400);
    load.end();
    until("all that is hot lies on the volume", || {
        // What came before there was a volume is written to it when it is used again.
        assert!(hot.iter().all(|path| weir.client().get("x", path, &[]).is_hit()));
        let listed = weir.command(&["list", "--json", "--prefix", "x/hit", "--limit", "100"]).stdout;
        let (objects, _) = crate::server::listed(&listed);
        let objects = objects.iter();
        // What both processes fetched may lie there twice.
        let below: HashSet<_> =
            objects.filter(|object| object["volume"] == true).map(|object| &object["url"]).collect();
        below.len() == hot.len()
    });
    // What the volume got is on the drive after a moment.
    settle(&weir);
    let pid = weir.main_pid().to_string();
    assert!(std::process::Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    weir.restart();
    for path in &hot {
        let answer = weir.client().get("x", path, &[]);
        assert!(answer.is_hit(), "{path}: {}", answer.cache_status());
    }
}

/// A reader of `/film`, which lies on the drive, in the process before an upgrade.
fn film_across_an_upgrade(weir: &mut Weir, film: &[u8]) -> Client {
    assert!(weir.get("/film").body == film);
    weir.restart();
    let mut reader = weir.client();
    reader.send_get("x", "/film", &[]);
    // Its kernel's buffers take some. The rest is read after the old process has released the volume.
    std::thread::sleep(Duration::from_millis(300));
    upgraded(weir, &[]);
    await_volume(weir);
    reader
}

#[test]
fn a_reader_of_the_volume_gets_its_bytes_from_the_old_process() {
    const LENGTH: usize = 40_000_000;
    let origin = origin();
    origin.put("/film", Resource::fresh(pattern(9, LENGTH)).etag("\"1\"").ranges());
    let mut weir = on_disk(&origin, "16MiB").start();
    let mut reader = film_across_an_upgrade(&mut weir, &pattern(9, LENGTH));
    let asked = origin.count("/film");
    leave_page_cache(&weir);
    let answer = reader.recv().unwrap();
    assert!(answer.body == pattern(9, LENGTH), "{} bytes", answer.body.len());
    assert_eq!(origin.count("/film"), asked, "all of it lies on the drive");
    assert_eq!(reader.get("x", "/film", &[("Range", "bytes=0-9")]).body, pattern(9, LENGTH)[..10]);
}

/// Has the kernel forget what it holds of the volume's files.
fn leave_page_cache(weir: &Weir) {
    for segment in std::fs::read_dir(weir.folder().join("volume/segments")).unwrap() {
        let file = std::fs::File::open(segment.unwrap().path()).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
}

#[test]
fn a_reader_in_the_old_process_gets_no_other_bytes_where_the_new_one_drops_what_it_reads() {
    const LENGTH: usize = 40_000_000;
    let origin = origin();
    origin.put("/film", Resource::fresh(pattern(9, LENGTH)).etag("\"1\"").ranges());
    let volume = "[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"96MiB\"";
    let mut weir = server(&[&origin])
        .more(&format!("[cache]\nmemory = \"16MiB\"\nadmission = \"always\"\n{volume}"))
        .start();
    let mut reader = film_across_an_upgrade(&mut weir, &pattern(9, LENGTH));
    let on_drive = |weir: &Weir| -> u64 {
        let files = std::fs::read_dir(format!("/proc/{}/fd", weir.pid())).unwrap().flatten();
        let names = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        names.filter(|name| name.to_string_lossy().ends_with(".seg (deleted)")).count() as u64
    };
    let gone = |weir: &Weir| {
        weir.metric("weir_volume_objects").is_some_and(|_| {
            !weir.client().get("x", "/film", &[("Cache-Control", "only-if-cached")]).is_hit()
        })
    };
    for number in 0..200 {
        let path = format!("/other/{number}");
        origin.put(&path, Resource::fresh(pattern(number, 1_000_000)));
        assert!(weir.get(&path).body == pattern(number, 1_000_000));
    }
    until("the new process has dropped it", || gone(&weir));
    until("no file that it dropped is held open by the old one", || on_drive(&weir) == 0);
    let answer = reader.recv().unwrap();
    assert!(answer.body == pattern(9, LENGTH), "{} bytes", answer.body.len());
}

#[test]
fn an_object_beyond_memory_is_stored_after_an_upgrade() {
    const LENGTH: usize = 40_000_000;
    let origin = origin();
    let film = || Resource::fresh(pattern(9, LENGTH)).etag("\"1\"").ranges();
    origin.put("/before", film());
    origin.put("/after", film());
    let mut weir = on_disk(&origin, "16MiB").start();
    assert!(weir.get("/before").body == pattern(9, LENGTH));
    // What a busy drive left out is stored at the next request.
    until("it is kept", || weir.get("/before").is_hit());
    upgraded(&mut weir, &[]);
    await_volume(&weir);
    assert!(weir.get("/after").body == pattern(9, LENGTH));
    until("it is kept", || weir.get("/after").is_hit());
    assert!(weir.get("/before").is_hit());
}
