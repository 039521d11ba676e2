//! Compares what is stored by four counts: the test's own, the origin's requests, the volume's books, and a
//! recount of all records.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use weir_testkit::{Origin, Resource, Weir, until};

use crate::durable::{restart, settle};
use crate::server::{Server, server};

/// A site for every host with these lines, a second site, and a volume of this size.
fn two_sites(origin: &Origin, lines: &str, size: &str) -> Server {
    let other = "[[site]]\nhosts = [\"other.test\"]\nupstream = \"main\"\n";
    let volume = format!("[[cache.volume]]\npath = \"{{folder}}/volume\"\nsize = \"{size}\"\n");
    let cache = "[cache]\nmemory = \"16MiB\"\nadmission = \"always\"\n";
    server(&[origin]).site(lines).more(other).more(cache).more(&volume)
}

fn put(origin: &Origin, path: &str, length: usize, max_age: u32) {
    let body: Vec<u8> = path.bytes().cycle().take(length).collect();
    let resource = Resource::fresh(body).header("Cache-Control", &format!("max-age={max_age}"));
    origin.put(path, resource.etag(&format!("\"{length}\"")).ranges());
}

fn get_of_other(weir: &Weir, path: &str) -> weir_testkit::Response {
    weir.client().get("other.test", path, &[])
}

/// The numbers of `weir verify`, which must agree with the books.
fn verified(weir: &Weir) -> (u64, u64) {
    let output = weir.command(&["verify", "--json"]);
    let found: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((output.code, &found["counts_corrected"]), (Some(0), &0.into()), "{output:?}");
    assert_eq!(found["damaged"], 0, "{found}");
    (found["objects"].as_u64().unwrap(), found["body_bytes"].as_u64().unwrap())
}

/// A site's objects on the volume, with path and bytes, by `weir list`.
fn listed(weir: &Weir, site: &str) -> BTreeMap<String, u64> {
    let output = weir.command(&["list", "--json", "--limit", "10000", "--site", site]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let objects = crate::server::listed(&output.stdout).0.into_iter();
    let below = objects.filter(|object| object["volume"] == true);
    let path = |url: &str| url.splitn(4, '/').last().unwrap_or_default().to_owned();
    below
        .map(|object| (path(object["url"].as_str().unwrap()), object["held_bytes"].as_u64().unwrap()))
        .collect()
}

/// The volume's count for a site: objects and bytes, by `weir sites`.
fn booked(weir: &Weir, site: &str) -> (u64, u64) {
    let output = weir.command(&["sites", "--json"]);
    let all: Value = serde_json::from_str(&output.stdout).unwrap();
    let own = all["sites"].as_array().unwrap().iter().find(|own| own["site"] == site);
    let volume = &own.unwrap_or_else(|| panic!("no {site} in {all}"))["held"]["volume"];
    (volume["objects"].as_u64().unwrap_or(0), volume["bytes"].as_u64().unwrap_or(0))
}

/// The bytes that the origin was asked for in ranges of a path.
fn asked_in_ranges(origin: &Origin, path: &str) -> u64 {
    let of = |range: String| {
        let (first, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        last.parse::<u64>().unwrap() - first.parse::<u64>().unwrap() + 1
    };
    origin
        .requests(path)
        .iter()
        .filter_map(|request| request.header("range").map(|own| of(own.to_string())))
        .sum()
}

#[test]
fn the_books_are_right_through_purges_expiry_and_restarts() {
    let origin = Origin::start();
    let mut weir = two_sites(&origin, "", "128MiB").start();
    let lengths = [0, 1, 1000, 65_536, 100_000, 700_000, 3_000_000];
    for (number, length) in lengths.iter().enumerate() {
        put(&origin, &format!("/{number}"), *length, 600);
        assert_eq!(weir.get(&format!("/{number}")).body.len(), *length);
        assert_eq!(get_of_other(&weir, &format!("/{number}")).body.len(), *length);
    }
    put(&origin, "/soon", 5000, 1);
    assert_eq!(weir.get("/soon").body.len(), 5000);
    put(&origin, "/part", 8 << 20, 600);
    assert_eq!(weir.get_with("/part", &[("Range", "bytes=3000000-3100000")]).body.len(), 100_001);
    settle(&weir);
    let part = asked_in_ranges(&origin, "/part");
    assert!((100_001..8 << 20).contains(&part), "{part}");
    let one_site: u64 = lengths.iter().map(|length| *length as u64).sum();
    assert_eq!(verified(&weir), (16, 2 * one_site + 5000 + part));
    // An expired object counts until it is replaced or evicted; a replaced one counts once.
    assert_eq!(weir.get("/soon").body.len(), 5000);
    put(&origin, "/soon", 6000, 1);
    std::thread::sleep(Duration::from_millis(1500));
    until("the new one has come", || weir.get("/soon").body.len() == 6000);
    settle(&weir);
    assert_eq!(verified(&weir), (16, 2 * one_site + 6000 + part));
    // A purged object leaves with the sweep.
    let url = "http://other.test/6";
    assert_eq!(weir.command(&["purge", url]).code, Some(0));
    until("it has left the volume", || weir.metric("weir_volume_objects") == Some(15.0));
    assert_eq!(verified(&weir), (15, 2 * one_site - 3_000_000 + 6000 + part));
    assert_eq!(listed(&weir, "other.test").values().sum::<u64>(), one_site - 3_000_000);
    let (own, other) = ((9, one_site + 6000 + part), (6, one_site - 3_000_000));
    assert_eq!((booked(&weir, "*"), booked(&weir, "other.test")), (own, other));
    for signal in ["TERM", "KILL", "TERM"] {
        restart(&mut weir, signal);
        assert_eq!(verified(&weir), (15, 2 * one_site - 3_000_000 + 6000 + part), "after {signal}");
        assert_eq!((booked(&weir, "*"), booked(&weir, "other.test")), (own, other), "after {signal}");
    }
}

#[test]
fn the_books_agree_with_the_records_after_kills_under_load() {
    let origin = Origin::start();
    let mut weir = two_sites(&origin, "", "24MiB").start();
    for number in 0..400 {
        put(&origin, &format!("/{number}"), 1000 + number * 700, 600);
    }
    for round in 0..4 {
        let address = weir.addr();
        let load = std::thread::spawn(move || {
            // Until the process is gone.
            for number in 0..100 {
                let path = format!("/{}", (number * 37 + round * 91) % 400);
                let host = if number % 2 == 0 { "other.test" } else { "localhost" };
                if ask(address, &path, host).is_none() {
                    return;
                }
            }
        });
        std::thread::sleep(Duration::from_millis(300 + 250 * round as u64));
        weir.signal("KILL");
        load.join().unwrap();
        assert!(weir.wait(Duration::from_secs(30)).is_some());
        weir.start_again();
        let (objects, bytes) = verified(&weir);
        assert_eq!(weir.metric("weir_volume_objects"), Some(objects as f64));
        let all = [listed(&weir, "other.test"), listed(&weir, "*")];
        assert_eq!(all.iter().map(BTreeMap::len).sum::<usize>() as u64, objects, "round {round}");
        let whole: u64 = all.iter().flat_map(BTreeMap::values).sum();
        assert!(bytes <= whole, "{bytes} of {whole}: what was cut is held in part");
    }
}

/// Sends a request on a connection of its own. `None` if nobody answers any more.
fn ask(address: std::net::SocketAddr, path: &str, host: &str) -> Option<()> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    (!answer.is_empty()).then_some(())
}

#[test]
fn the_books_are_right_after_many_evictions() {
    let origin = Origin::start();
    let weir = two_sites(&origin, "", "16MiB").start();
    for number in 0..400 {
        let path = format!("/{number}");
        put(&origin, &path, 100_000, 600);
        weir.get(&path);
        if number % 4 == 0 {
            get_of_other(&weir, &path);
        }
    }
    settle(&weir);
    let (objects, bytes) = verified(&weir);
    assert!(weir.metric("weir_volume_evicted_total").unwrap() > 200.0);
    assert!(bytes <= 16 << 20 && objects > 60, "{objects} objects, {bytes} bytes");
    let all = [listed(&weir, "*"), listed(&weir, "other.test")];
    assert_eq!(all.iter().map(BTreeMap::len).sum::<usize>() as u64, objects);
}

#[test]
fn a_site_stays_under_its_quota_at_its_own_cost() {
    let origin = Origin::start();
    let mut weir = two_sites(&origin, "quota = \"2MiB\"\n", "128MiB").start();
    for number in 0..50 {
        let path = format!("/{number}");
        put(&origin, &path, 100_000, 600);
        weir.get(&path);
        get_of_other(&weir, &path);
    }
    settle(&weir);
    let bytes = |weir: &Weir, site| listed(weir, site).values().sum::<u64>();
    until("what is too much has gone", || bytes(&weir, "*") <= 2 << 20);
    assert_eq!((bytes(&weir, "other.test"), booked(&weir, "other.test")), (5_000_000, (50, 5_000_000)));
    let left = listed(&weir, "*");
    assert!(left.len() >= 19, "no more than is needed went: {left:?}");
    let oldest = left.keys().map(|path| path.parse::<u32>().unwrap()).min().unwrap();
    assert_eq!(50 - oldest, left.len() as u32, "the oldest went first: {left:?}");
    let (objects, held) = verified(&weir);
    assert_eq!((objects, held), (50 + left.len() as u64, 5_000_000 + bytes(&weir, "*")));
    // A reload changes the quota.
    let reload = |weir: &Weir, lines: &str| {
        weir.rewrite_config(&two_sites(&origin, lines, "128MiB").text());
        assert_eq!(weir.reload().code, Some(0));
    };
    reload(&weir, "quota = \"0\"\n");
    until("nothing of it is stored", || listed(&weir, "*").is_empty());
    put(&origin, "/late", 1000, 600);
    weir.get("/late");
    assert!(weir.get("/late").is_hit(), "memory keeps it");
    settle(&weir);
    assert!(listed(&weir, "*").is_empty());
    assert_eq!(verified(&weir), (50, 5_000_000));
    restart(&mut weir, "KILL");
    assert_eq!(verified(&weir), (50, 5_000_000));
    assert!(!weir.get("/late").is_hit() && get_of_other(&weir, "/7").is_hit());
    reload(&weir, "");
    put(&origin, "/later", 1000, 600);
    weir.get("/later");
    until("it is stored again", || listed(&weir, "*").contains_key("later"));
}
