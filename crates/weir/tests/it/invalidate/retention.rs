//! Lifetimes that are ordered (`weir ttl`): of each scope, longer and shorter, while a fill is under way,
//! with variants and parts, across kills and upgrades, and for a token of one site.

use std::time::Duration;

use serde_json::Value;
use weir_testkit::{Client, Drive, Gate, Origin, Output, Resource, Weir, pattern, until};

use crate::durable::settle;
use crate::server::{server, setup};

const VOLUME: &str =
    "[cache]\nmemory = \"64MiB\"\n[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"128MiB\"\n";
const OTHER: &str = "[[site]]\nhosts = [\"other.test\"]\nupstream = \"main\"\n";

fn ttl(weir: &Weir, args: &[&str]) -> Output {
    let output = weir.command(&[&["ttl"], args].concat());
    assert_eq!(output.code, Some(0), "{args:?} {output:?}");
    output
}

/// What is said of the stored response that a request would get.
fn stored(weir: &Weir, url: &str) -> Value {
    let output = weir.command(&["explain", "--json", url]);
    let explained: Value = serde_json::from_str(&output.stdout).unwrap();
    let all = explained["stored"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|stored| stored["selected"] == true).unwrap_or_default()
}

/// The seconds that it stays fresh, about.
fn left(weir: &Weir, path: &str) -> i64 {
    stored(weir, &format!("http://localhost{path}"))["ttl_left_s"].as_i64().unwrap()
}

fn is_about(left: i64, expect: i64) -> bool {
    (expect - 60..=expect).contains(&left)
}

fn aged(body: &str, control: &str, tag: &str) -> Resource {
    Resource::new(body).header("Cache-Control", control).header("Cache-Tag", tag).etag("\"1\"")
}

const PATHS: [&str; 3] = ["/a", "/dir/b", "/dir/c"];

#[test]
fn each_scope_changes_exactly_what_it_names_longer_and_shorter() {
    let origin = Origin::start();
    origin.put("/a", aged("a", "max-age=600", "red"));
    origin.put("/dir/b", aged("b", "max-age=600", "blue"));
    origin.put("/dir/c", aged("c", "max-age=600", "red"));
    let weir = server(&[&origin]).more(OTHER).start();
    let all = || PATHS.iter().map(|path| ("localhost", *path)).chain([("other.test", "/a")]);
    let scopes: [(&[&str], [bool; 4]); 6] = [
        (&["http://localhost/a"], [true, false, false, false]),
        (&["localhost/a", "localhost/dir/b"], [true, true, false, false]),
        (&["--prefix", "localhost/dir/"], [false, true, true, false]),
        (&["--tag", "red"], [true, false, true, true]),
        (&["--tag", "red", "--site", "other.test"], [false, false, false, true]),
        (&["--all"], [true, true, true, true]),
    ];
    for (args, expect) in scopes {
        assert_eq!(weir.command(&["purge", "--all"]).code, Some(0));
        all().for_each(|(host, path)| drop(weir.client().get(host, path, &[])));
        for (word, seconds) in [("2h", 7200), ("3m", 180), ("1h", 3600)] {
            let said = ttl(&weir, &[args, &[word]].concat());
            assert!(said.stdout.starts_with("fresh until 20") && said.stdout.contains("(mark "), "{said:?}");
            for ((host, path), is_meant) in all().zip(expect) {
                let stored = stored(&weir, &format!("http://{host}{path}"));
                let expect = if is_meant { seconds } else { 600 };
                assert!(
                    is_about(stored["ttl_left_s"].as_i64().unwrap(), expect),
                    "{args:?} {path}: {stored}"
                );
                assert_eq!(stored["source"], if is_meant { "retention" } else { "max-age" });
            }
        }
        let asked = origin.total();
        assert!(all().all(|(host, path)| weir.client().get(host, path, &[]).is_hit()), "{args:?}");
        assert_eq!(origin.total(), asked);
        ttl(&weir, &[args, &["0s"]].concat());
        for ((host, path), is_meant) in all().zip(expect) {
            let answer = weir.client().get(host, path, &[]);
            assert_eq!(
                answer.fwd().as_deref() == Some("stale"),
                is_meant,
                "{args:?} {path} {:?}",
                answer.head
            );
        }
    }
}

#[test]
fn what_is_past_its_own_lifetime_is_a_hit_until_the_ordered_one_ends() {
    let origin = Origin::start();
    origin.put("/x", aged("x", "max-age=1", "t"));
    let weir = server(&[&origin]).start();
    weir.get("/x");
    ttl(&weir, &["--tag", "t", "4s"]);
    std::thread::sleep(Duration::from_millis(2100));
    assert!(weir.get("/x").is_hit(), "its own has ended");
    until("the ordered one has ended", || !weir.get("/x").is_hit());
    assert_eq!(origin.requests("/x")[1].header("if-none-match").as_deref(), Some("\"1\""));
    // What the origin confirms has a lifetime of its own again.
    std::thread::sleep(Duration::from_millis(2100));
    assert!(!weir.get("/x").is_hit());
    // What is stale is fresh again.
    std::thread::sleep(Duration::from_millis(2100));
    ttl(&weir, &["--tag", "t", "1h"]);
    assert!(weir.get("/x").is_hit() && is_about(left(&weir, "/x"), 3600));
    let shown = weir.command(&["explain", "http://localhost/x"]).stdout;
    assert!(shown.contains("(retention)") && shown.contains("by an order of user:"), "{shown}");
    assert!(shown.contains("for the tag t"), "{shown}");
}

#[test]
fn what_may_not_be_stored_or_must_be_asked_about_stays_so() {
    let origin = Origin::start();
    origin.put("/no-cache", aged("x", "no-cache", "t"));
    origin.put("/zero", aged("x", "max-age=0", "t"));
    origin.put("/no-store", aged("x", "no-store", "t"));
    let weir = server(&[&origin]).start();
    for path in ["/no-cache", "/zero", "/no-store"] {
        weir.get(path);
        ttl(&weir, &["--tag", "t", "1h"]);
        ttl(&weir, &["--site", "*", "1h"]);
        let asked = origin.count(path);
        assert!(!weir.get(path).is_hit(), "{path}");
        assert_eq!(origin.count(path), asked + 1, "{path}");
    }
    assert!(stored(&weir, "http://localhost/no-store").is_null());
}

#[test]
fn variants_and_parts_have_it() {
    let origin = Origin::start();
    origin.put("/v", aged("v", "max-age=600", "t").header("Vary", "Accept-Language"));
    let large = Resource::new(pattern(1, 3_000_000)).ranges().header("Cache-Control", "max-age=600");
    origin.put("/part", large.header("Cache-Tag", "t").etag("\"p\""));
    let weir = server(&[&origin]).more(VOLUME).start();
    for language in ["de", "fr"] {
        weir.get_with("/v", &[("Accept-Language", language)]);
    }
    let range = [("Range", "bytes=1000000-1000999")];
    assert_eq!(weir.get_with("/part", &range).status(), 206);
    ttl(&weir, &["--tag", "t", "2h"]);
    let explained = weir.command(&["explain", "--json", "http://localhost/v"]).stdout;
    let explained: Value = serde_json::from_str(&explained).unwrap();
    let variants = explained["stored"].as_array().unwrap();
    assert_eq!(variants.len(), 2);
    assert!(variants.iter().all(|one| is_about(one["ttl_left_s"].as_i64().unwrap(), 7200)), "{variants:?}");
    assert!(is_about(left(&weir, "/part"), 7200));
    let again = weir.get_with("/part", &range);
    assert!(again.is_hit() && again.body == pattern(1, 3_000_000)[1_000_000..1_001_000]);
    // The rest arrives, and it is one response with that lifetime.
    assert!(weir.get("/part").body == pattern(1, 3_000_000));
    assert!(is_about(left(&weir, "/part"), 7200));
}

#[test]
fn a_fill_under_way_has_it_before_and_after_its_head() {
    for is_head_known in [false, true] {
        let (origin, gate) = (Origin::start(), Gate::new());
        let body = pattern(1, 300_000);
        let resource = Resource::new(&body).header("Cache-Control", "max-age=600").header("Cache-Tag", "t");
        let resource =
            if is_head_known { resource.body_gate(100_000, &gate) } else { resource.head_gate(&gate) };
        origin.put("/x", resource);
        let weir = server(&[&origin]).start();
        let ask = || {
            let mut client = weir.client();
            client.send_get("localhost", "/x", &[]);
            client
        };
        let mut first: Client = ask();
        origin.await_count("/x", 1);
        if is_head_known {
            assert_eq!(first.recv_head_only().unwrap().header("content-length").as_deref(), Some("300000"));
        }
        ttl(&weir, &["--tag", "t", "2h"]);
        // A longer lifetime is no reason to fetch it twice.
        let mut second = ask();
        gate.open();
        let mut got = if is_head_known { Vec::new() } else { first.recv().unwrap().body };
        while got.len() < body.len() {
            let piece = first.read_some();
            assert!(!piece.is_empty(), "cut after {}", got.len());
            got.extend(piece);
        }
        assert!(got == body && second.recv().unwrap().body == body);
        assert_eq!(origin.count("/x"), 1);
        assert!(is_about(left(&weir, "/x"), 7200), "{is_head_known}");
    }
}

/// Objects on a volume that are stale by themselves a moment after they came.
fn on_volume(origin: &Origin, count: usize) -> Weir {
    let weir = server(&[origin]).more(VOLUME).start();
    for number in 0..count {
        origin.put(&format!("/{number}"), aged("x", "max-age=1", "t"));
        weir.get(&format!("/{number}"));
        until("it is on the volume", || weir.metric("weir_volume_objects") >= Some(number as f64 + 1.0));
    }
    settle(&weir);
    weir
}

fn marks(weir: &Weir) -> u64 {
    let status: Value = serde_json::from_str(&weir.command(&["status", "--json"]).stdout).unwrap();
    status["ledger"]["marks"].as_u64().unwrap()
}

#[test]
fn it_outlasts_a_kill_before_during_and_after_the_sweep() {
    let origin = Origin::start();
    for pause_ms in [0, 5000, 5300] {
        let mut weir = on_volume(&origin, 60);
        ttl(&weir, &["--tag", "t", "2h"]);
        std::thread::sleep(Duration::from_millis(pause_ms));
        weir.signal("KILL");
        weir.start_again();
        let asked = origin.total();
        assert!((0..60).all(|number| weir.get(&format!("/{number}")).is_hit()), "{pause_ms}");
        assert_eq!(origin.total(), asked);
        until("the mark is dropped", || marks(&weir) == 0);
        weir.signal("KILL");
        weir.start_again();
        assert!((0..60).all(|number| weir.get(&format!("/{number}")).is_hit()), "{pause_ms}: in the heads");
        assert!(is_about(left(&weir, "/7"), 7200));
        // A purge after it, and a kill.
        assert_eq!(weir.command(&["purge", "--soft", "--tag", "t"]).code, Some(0));
        weir.signal("KILL");
        weir.start_again();
        assert_eq!(weir.get("/3").fwd().as_deref(), Some("stale"));
    }
}

#[test]
fn on_a_full_disk_it_is_in_force_until_a_restart_and_says_so() {
    let Some(drive) = Drive::tmpfs(8 << 20) else { return };
    let origin = Origin::start();
    origin.put("/x", aged("x", "max-age=600", "t"));
    let setup = setup();
    let state = drive.path().join("state");
    std::fs::create_dir(&state).unwrap();
    std::os::unix::fs::symlink(state, setup.folder().join("state")).unwrap();
    let mut weir = server(&[&origin]).more(VOLUME).start_in(setup);
    weir.get("/x");
    until("it is on the volume", || weir.metric("weir_volume_objects") >= Some(1.0));
    drive.fill_up_to(0);
    // What the ledger's last page has room for is written.
    let order = |number: u32| weir.command(&["ttl", "--tag", "t", &format!("{number}s")]);
    let refused = (7200..8000).map(order).find(|output| output.code != Some(0)).expect("no room");
    assert!(refused.stderr.contains("in force until a restart only"), "{refused:?}");
    assert!(left(&weir, "/x") > 7000, "it is in force");
    assert!(weir.get("/x").is_hit(), "clients are answered");
    drive.empty();
    until("the ledger is on disk again", || ttl_code(&weir, &["--tag", "t", "3h"]) == Some(0));
    weir.signal("KILL");
    weir.start_again();
    until("the volume has come", || weir.get("/x").is_hit());
    assert!(is_about(left(&weir, "/x"), 3 * 3600), "{}", left(&weir, "/x"));
}

fn ttl_code(weir: &Weir, args: &[&str]) -> Option<i32> {
    weir.command(&[&["ttl"], args].concat()).code
}

#[test]
fn it_is_listed_in_the_history_told_and_outlasts_upgrades() {
    let origin = Origin::start();
    origin.put("/x", aged("x", "max-age=600", "t"));
    let events = "[events]\nfile = \"{folder}/events\"\nkinds = [\"retained\"]\n";
    let mut weir = server(&[&origin]).more(VOLUME).more(events).start();
    assert!(ttl(&weir, &[]).stdout.starts_with("no lifetime is ordered"));
    weir.get("/x");
    ttl(&weir, &["--tag", "t", "1h"]);
    let upgraded = weir.upgrade(&[]);
    assert_eq!(upgraded.code, Some(0), "{upgraded:?}");
    ttl(&weir, &["localhost/x", "2h"]);
    until("the volume has come", || stored(&weir, "http://localhost/x")["source"] == "retention");
    assert!(is_about(left(&weir, "/x"), 7200));
    let listed = weir.command(&["list", "--json"]).stdout;
    let (objects, _) = crate::server::listed(&listed);
    assert!(objects[0]["lifetime_s"].as_u64() >= Some(7000), "{listed}");
    let shown: Value = serde_json::from_str(&ttl(&weir, &["--json"]).stdout).unwrap();
    let rows = shown["retentions"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{shown}");
    assert_eq!((&rows[0]["scope"]["url"], &rows[0]["lifetime_s"]), (&"localhost/x".into(), &7200.into()));
    assert_eq!(rows[1]["scope"]["tags"][0], "t");
    let history = weir.command(&["history", "--act", "ttl"]).stdout;
    assert!(history.lines().count() == 2 && history.contains("\"lifetime_s\":7200"), "{history}");
    let told = || std::fs::read_to_string(weir.folder().join("events")).unwrap_or_default();
    until("it is told", || {
        told().contains("\"event\":\"retained\"") && told().contains("\"lifetime_s\":7200")
    });
    for (args, expect) in [
        (&["--tag", "t", "soon"][..], "the last word is how long"),
        (&["--site", "nowhere.test", "1h"], "no site is named nowhere.test"),
        (&["nowhere/x#y", "1h"], "leave it out"),
    ] {
        let refused = weir.command(&[&["ttl"], args].concat());
        assert!(refused.code == Some(1) && refused.stderr.contains(expect), "{refused:?}");
    }
    assert_eq!(ttl(&weir, &[]).stdout.lines().count(), 2);
}

#[test]
fn a_token_of_one_site_orders_and_sees_its_own_alone() {
    let origin = Origin::start();
    for path in ["/a", "/b"] {
        origin.put(path, aged("x", "max-age=600", "t"));
    }
    let site = |host| format!("[[site]]\nhosts = [\"{host}\"]\nupstream = \"main\"\n");
    let sites = site("a.test") + &site("b.test");
    let weir = server(&[&origin]).more(&sites).start();
    for (host, path) in [("a.test", "/a"), ("b.test", "/b")] {
        weir.client().get(host, path, &[]);
    }
    let file = weir.folder().join("token");
    std::fs::write(&file, weir.token("admin", &["a.test"])).unwrap();
    let (url, file) = (format!("http://127.0.0.1:{}", weir.admin().port()), file.display().to_string());
    let of_a =
        |args: &[&str]| weir.command(&[&["ttl"], args, &["--url", &url, "--token-file", &file]].concat());
    for args in [
        &["--all", "2h"][..],
        &["--site", "b.test", "2h"],
        &["b.test/b", "2h"],
        &["--prefix", "b.test/", "2h"],
    ] {
        let refused = of_a(args);
        assert!(refused.code == Some(1) && refused.stderr.contains("a.test"), "{args:?} {refused:?}");
    }
    let done = of_a(&["--tag", "t", "2h"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let source = |url: &str| stored(&weir, url)["source"].clone();
    assert_eq!(
        (source("http://a.test/a"), source("http://b.test/b")),
        ("retention".into(), "max-age".into())
    );
    ttl(&weir, &["--site", "b.test", "1h"]);
    let seen = of_a(&[]).stdout;
    assert!(seen.lines().count() == 1 && seen.starts_with("the tag t of a.test"), "{seen}");
    assert_eq!(ttl(&weir, &[]).stdout.lines().count(), 2);
    // The same tag on all sites replaces its order. That of the other site holds for what bears no such tag.
    ttl(&weir, &["--tag", "t", "1h"]);
    assert!(of_a(&[]).stdout.starts_with("no lifetime is ordered"));
    assert_eq!(ttl(&weir, &[]).stdout.lines().count(), 2);
    // What gave the lifetime was ordered for all sites: this token hears until when, and not by whom.
    let explained =
        weir.command(&["explain", "http://a.test/a", "--url", &url, "--token-file", &file]).stdout;
    assert!(explained.contains("by an order (`weir ttl`)"), "{explained}");
}
