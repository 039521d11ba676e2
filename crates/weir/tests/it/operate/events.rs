//! Events of what is stored: each kind, to a file and to a socket; evictions from a volume; and events that
//! are lost because nobody reads them.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use serde_json::Value;
use weir_testkit::{Origin, Resource, Weir, free_port, pattern, until};

use crate::server::{listed, server, setup};

fn told(weir: &Weir) -> Vec<Value> {
    let text = std::fs::read_to_string(weir.folder().join("events.json")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn has(weir: &Weir, kind: &str, part: &str) -> bool {
    told(weir).iter().any(|event| event["event"] == kind && event.to_string().contains(part))
}

const TO_FILE: &str = "[events]\nfile = \"{folder}/events.json\"\n";

#[test]
fn each_kind_of_event_is_written() {
    let origin = Origin::start();
    origin.put("/x", Resource::fresh("hello"));
    origin.put("/check", Resource::new("hello").header("Cache-Control", "no-cache").etag("\"1\""));
    origin.put("/short", Resource::new("hello").header("Cache-Control", "max-age=1"));
    for number in 0..40 {
        origin.put(&format!("/big/{number}"), Resource::fresh(vec![7; 1 << 20]));
    }
    let dead = format!(
        "[upstream.dead]\norigins = [\"http://127.0.0.1:{}\", \"http://127.0.0.1:{}\"]\n",
        free_port(),
        free_port()
    );
    let more = format!(
        "{dead}[[site]]\nhosts = [\"dead.test\"]\nupstream = \"dead\"\n[cache]\nmemory = \"16MiB\"\n{TO_FILE}"
    );
    let weir = server(&[&origin]).more(&more).start();
    weir.get("/x");
    weir.get("/check");
    weir.get("/check");
    until("stored", || has(&weir, "stored", "/x\""));
    until("revalidated", || has(&weir, "revalidated", "/check"));
    weir.get("/short");
    std::thread::sleep(Duration::from_millis(2100));
    weir.get("/short");
    until("expired", || has(&weir, "expired", "/short"));
    let url = "http://localhost/x";
    assert_eq!(weir.command(&["purge", url]).code, Some(0));
    let is_told = |event: &Value| {
        let actor = event["actor"].as_str().unwrap_or_default();
        event["event"] == "purged"
            && event["scope"].is_object()
            && event["scope"].to_string().contains(url)
            && event["key"].is_null()
            && actor.starts_with("user:")
    };
    until("the purge is told", || told(&weir).iter().any(is_told));
    until("purged", || has(&weir, "purged", "command") && has(&weir, "purged", "/x"));
    for number in 0..40 {
        weir.get(&format!("/big/{number}"));
    }
    until("evicted", || has(&weir, "evicted", "memory"));
    until("the origin is out", || {
        weir.client().get("dead.test", "/", &[]);
        has(&weir, "origin", "ejected")
    });
    let stored = told(&weir).into_iter().find(|event| event["event"] == "stored").unwrap();
    let time = stored["time"].as_str().unwrap();
    assert!(time.len() == 24 && time.ends_with('Z'), "{stored}");
    assert_eq!((&stored["site"], &stored["body_bytes"]), (&"*".into(), &5.into()), "{stored}");
}

#[test]
fn an_object_that_begins_as_a_part_is_an_event_once_it_is_whole() {
    const LENGTH: usize = 40 << 20;
    let (origin, short) = (Origin::start(), 500_000);
    // One object that memory cannot keep, and one that comes by ranges.
    origin.put("/long", Resource::fresh(pattern(1, LENGTH)).etag("\"1\"").ranges());
    origin.put("/short", Resource::fresh(pattern(2, short)).etag("\"2\"").ranges());
    let volume = "[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"256MiB\"\n";
    let more = format!("[cache]\nmemory = \"64MiB\"\n{volume}{TO_FILE}kinds = [\"stored\"]\n");
    let weir = server(&[&origin]).more(&more).start();
    let stored = |name: &str| -> Vec<Value> {
        told(&weir).into_iter().filter(|event| event["key"].as_str().unwrap().ends_with(name)).collect()
    };
    assert_eq!(weir.get("/long").body.len(), LENGTH);
    until("the long one is told", || !stored("/long").is_empty());
    assert_eq!(stored("/long")[0]["body_bytes"].as_u64(), Some(LENGTH as u64));
    weir.get_with("/short", &[("Range", "bytes=200000-200009")]);
    until("a part of it is held", || weir.metric("weir_fills_running") == Some(0.0));
    assert!(stored("/short").is_empty());
    assert_eq!(weir.get("/short").body.len(), short);
    until("the short one is told", || !stored("/short").is_empty());
    assert_eq!((stored("/short")[0]["body_bytes"].as_u64(), stored("/short").len()), (Some(short as u64), 1));
    assert_eq!(stored("/long").len(), 1);
}

#[test]
fn a_reload_begins_and_ends_events_and_a_rotation_opens_the_file_again() {
    let origin = Origin::start();
    for name in ["/a", "/b", "/c", "/d"] {
        origin.put(name, Resource::fresh("hello"));
    }
    let weir = server(&[&origin]).start();
    weir.get("/a");
    weir.rewrite_config(&server(&[&origin]).more(&format!("{TO_FILE}kinds = [\"stored\"]\n")).text());
    assert_eq!(weir.reload().code, Some(0));
    weir.get("/b");
    until("b is told", || has(&weir, "stored", "/b"));
    let file = weir.folder().join("events.json");
    std::fs::rename(&file, weir.folder().join("events.1")).unwrap();
    weir.signal("USR1");
    until("the file is made again", || file.exists());
    weir.get("/c");
    until("c is told", || has(&weir, "stored", "/c"));
    weir.rewrite_config(&server(&[&origin]).text());
    assert_eq!(weir.reload().code, Some(0));
    weir.get("/d");
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(told(&weir).len(), 1);
}

#[test]
fn a_reader_of_events_that_stalls_delays_nobody_and_losses_are_counted() {
    let origin = Origin::start();
    let setup = setup();
    let path = setup.folder().join("events.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let requests = 6000;
    origin.otherwise(|exchange| {
        exchange.reply(200, &[("Cache-Control", "max-age=600")], "x");
    });
    let more = "[events]\nsocket = \"{folder}/events.sock\"\nbuffer = 100\nkinds = [\"stored\"]\n";
    let weir = server(&[&origin]).more(more).start_in(setup);
    let mut client = weir.client();
    let long = "y".repeat(500);
    for number in 0..requests {
        assert_eq!(client.get("localhost", &format!("/{number}/{long}"), &[]).status(), 200);
    }
    // Nobody has read a byte so far.
    until("some is lost", || weir.metric("weir_events_dropped_total").unwrap_or(0.0) > 0.0);
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    let (mut stored, mut lost) = (0, 0);
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { break };
        let event: Value = serde_json::from_str(&line).unwrap();
        match event["event"].as_str() {
            Some("stored") => stored += 1,
            Some("dropped") => lost += event["count"].as_u64().unwrap(),
            _ => panic!("{line}"),
        }
        if stored + lost == requests {
            break;
        }
    }
    assert_eq!(stored + lost, requests, "{stored} told and {lost} lost");
    assert!(stored >= 100 && lost > 0);
    assert_eq!(weir.metric("weir_events_dropped_total"), Some(lost as f64));
}

/// The URLs of the objects on the volume, by `weir list`.
fn on_volume(weir: &Weir) -> HashSet<String> {
    let output = weir.command(&["list", "--json", "--limit", "10000"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let below = listed(&output.stdout).0.into_iter().filter(|object| object["volume"] == true);
    below.map(|object| object["url"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_eviction_from_a_volume_is_an_event() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let number: usize = exchange.request.target.trim_start_matches('/').parse().unwrap();
        exchange.reply(200, &[("Cache-Control", "max-age=3600")], pattern(number as u64, 5000 + 50 * number));
    });
    let small = "[[site]]\nhosts = [\"small.test\"]\nupstream = \"main\"\nquota = \"1MiB\"\n";
    let cache = "[cache]\nmemory = \"16MiB\"\nadmission = \"always\"\n";
    let volume = "[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"8MiB\"\n";
    let events = format!("{TO_FILE}kinds = [\"evicted\"]\n");
    let weir = server(&[&origin]).more(small).more(cache).more(volume).more(&events).start();
    let mut client = weir.client();
    let mut asked = HashSet::new();
    for number in 0..900 {
        for host in if number % 4 == 0 { &["localhost", "small.test"][..] } else { &["localhost"] } {
            assert_eq!(client.get(host, &format!("/{number}"), &[]).status(), 200);
            asked.insert(format!("http://{host}/{number}"));
        }
        // One object is requested all the time, so that some are written again.
        assert_eq!(client.get("localhost", "/0", &[]).status(), 200);
    }
    let left = |why: &str| {
        let of_volume = told(&weir).into_iter().filter(|event| event["reason"] == why);
        of_volume.collect::<Vec<Value>>()
    };
    let count = |series: &str| weir.metric(series).unwrap_or(0.0) as usize;
    let counted = || (count("weir_volume_evicted_total"), count("weir_volume_over_quota_total"));
    let mut before = (0, 0);
    until("nothing leaves any more, and all is told", || {
        std::thread::sleep(Duration::from_millis(300));
        let now = counted();
        let is_calm = std::mem::replace(&mut before, now) == now;
        is_calm && (left("volume").len(), left("quota").len()) == now
    });
    let (evicted, over_quota) = counted();
    assert!(evicted > 200 && over_quota > 20, "{evicted} for room, {over_quota} over the quota");
    assert_eq!(weir.metric("weir_events_dropped_total"), Some(0.0));
    let folder = weir.folder().join("volume").display().to_string();
    let there = on_volume(&weir);
    let mut keys = HashSet::new();
    for event in left("volume").into_iter().chain(left("quota")) {
        let key = event["key"].as_str().unwrap().to_owned();
        assert!(asked.contains(&key), "{event}");
        let (host, number) = key["http://".len()..].split_once('/').unwrap();
        assert_eq!(event["event"], "evicted", "{event}");
        assert_eq!(event["site"], if host == "small.test" { host } else { "*" }, "{event}");
        assert!(event["reason"] == "volume" || host == "small.test", "{event}");
        assert_eq!(event["body_bytes"], 5000 + 50 * number.parse::<usize>().unwrap(), "{event}");
        assert_eq!(event["volume"], folder, "{event}");
        // The object that is requested all the time may have come back.
        assert!(key == "http://localhost/0" || keys.insert(key.clone()) && !there.contains(&key), "{event}");
    }
    // An eviction from memory names no volume.
    assert!(told(&weir).iter().all(|event| (event["reason"] == "memory") == event["volume"].is_null()));
}
