//! The life of an object that a client requested in part: what else of it is fetched, why, and how often.

use std::sync::Arc;

use weir_testkit::{Client, Fault, Gate, Origin, Resource, Response, Weir, pattern, until};

use crate::counted::{Counted, Version};
use crate::server::{before, server};

const LENGTH: usize = 4_000_123;
const CHUNK: u64 = 1 << 20;
const BLOCK: u64 = 64 << 10;
const FRESH: Fields = &[("Cache-Control", "max-age=3600")];

fn counted(origin: &Origin, tag: &str, body: &[u8]) -> Arc<Counted> {
    Counted::new(Version::new(tag, body), FRESH).at(origin, "/x")
}

fn ranged(weir: &Weir, target: &str, first: usize, count: usize) -> Response {
    weir.get_with(target, &[("Range", &format!("bytes={first}-{}", first + count - 1))])
}

/// Requests a part and compares it.
fn part(weir: &Weir, body: &[u8], first: usize, count: usize) -> Response {
    let found = ranged(weir, "/x", first, count);
    assert_eq!(found.status(), 206, "{:?}", found.head);
    let range = format!("bytes {first}-{}/{}", first + count - 1, body.len());
    assert_eq!(found.header("content-range"), Some(range));
    assert!(found.body == body[first..first + count], "{first}: other bytes");
    found
}

fn send(weir: &Weir, first: usize, count: usize) -> Client {
    let mut client = weir.client();
    client.send_get("localhost", "/x", &[("Range", &format!("bytes={first}-{}", first + count - 1))]);
    client
}

/// The Range of each request to the origin; empty if it had none.
fn asked(origin: &Origin) -> Vec<String> {
    origin.requests("/x").iter().map(|request| request.header("range").unwrap_or_default()).collect()
}

fn is_quiet(weir: &Weir) {
    until("nothing is fetched", || weir.metric("weir_fills_running") == Some(0.0));
}

#[test]
fn a_cold_range_costs_its_chunk_and_no_more() {
    for (site, range) in [
        ("", "bytes=2162688-3145727"),
        ("range = { chunk = \"256KiB\" }", "bytes=2162688-2359295"),
        ("range = { chunk = \"256KiB\", fill = \"touched\" }", "bytes=2162688-2359295"),
    ] {
        let (origin, body) = (Origin::start(), pattern(1, LENGTH));
        let counted = counted(&origin, "\"1\"", &body);
        let weir = server(&[&origin]).site(site).start();
        part(&weir, &body, 2_200_000, BLOCK as usize);
        is_quiet(&weir);
        until("what came with it is held", || part(&weir, &body, 2_300_000, 10).is_hit());
        assert_eq!(asked(&origin), [range]);
        assert!(counted.bytes() <= CHUNK);
        let whole = weir.get("/x");
        assert!(whole.body == body);
        until("it is held whole", || weir.get("/x").is_hit());
        assert_eq!((counted.bytes(), counted.bytes_again()), (LENGTH as u64, 0), "{:?}", counted.sent());
    }
}

#[test]
fn short_ranges_here_and_there_cost_a_block_each_and_no_chunks() {
    const RANGES: usize = 32;
    const STEP: usize = 1_500_000;
    let (origin, body) = (Origin::start(), pattern(1, 50_000_000));
    let counted = counted(&origin, "\"1\"", &body);
    let weir = server(&[&origin]).more("[cache]\nmemory = \"128MiB\"").start();
    let block = BLOCK as usize;
    // One within a block, and one across the border of two.
    for (offset, blocks) in [(500, 1), (700_000 / block * block - 50, 2)] {
        let before = counted.bytes();
        for place in (0..RANGES).map(|number| (number * STEP).next_multiple_of(block) + offset) {
            part(&weir, &body, place, 100);
            is_quiet(&weir);
            until("it is held", || part(&weir, &body, place, 100).is_hit());
        }
        let cost = counted.bytes() - before;
        assert!(cost <= RANGES as u64 * blocks * BLOCK, "{cost} bytes: {:?}", asked(&origin));
    }
    assert_eq!((origin.total(), counted.bytes_again()), (2 * RANGES, 0), "{:?}", counted.sent());
    assert!(weir.get("/x").body == body);
}

#[test]
fn a_short_range_does_not_make_its_block_read_on() {
    let (origin, body, gate) = (Origin::start(), pattern(3, LENGTH), Gate::new());
    let counted = Counted::new(Version::new("\"1\"", &body[..]), FRESH).gate(40_000, &gate).at(&origin, "/x");
    let weir = before(&origin);
    let (block, ahead) = (CHUNK as usize * 2, 50_000);
    let mut first = send(&weir, block + ahead, 10);
    until("what lies before it has come", || part(&weir, &body, block + 30_000, 10).is_hit());
    // It crosses the border: of the next block, no more is fetched.
    let mut second = send(&weir, block + ahead, 20_000);
    until("both are asking", || weir.metric("weir_requests_running") == Some(2.0));
    gate.open();
    assert!(first.recv().unwrap().body == body[block + ahead..block + ahead + 10]);
    assert!(second.recv().unwrap().body == body[block + ahead..block + ahead + 20_000]);
    is_quiet(&weir);
    assert!(counted.bytes() <= 2 * BLOCK, "{:?}", counted.sent());
}

#[test]
fn a_reader_by_short_ranges_gets_chunks_from_the_third_block_on() {
    const STEP: usize = 16 << 10;
    let chunks = ["bytes=1048576-2097151", "bytes=2097152-3145727", "bytes=3145728-4000122"];
    // From the start of a block, and with ranges across the border of two.
    for (start, first) in [
        (0, &["bytes=0-65535", "bytes=65536-1048575"][..]),
        (100_000, &["bytes=65536-131071", "bytes=131072-196607", "bytes=196608-1048575"]),
    ] {
        let (origin, body) = (Origin::start(), pattern(1, LENGTH));
        let counted = counted(&origin, "\"1\"", &body);
        let weir = before(&origin);
        for first in (start..LENGTH - STEP).step_by(STEP) {
            part(&weir, &body, first, STEP);
        }
        is_quiet(&weir);
        assert_eq!(asked(&origin), [first, &chunks].concat());
        assert_eq!(counted.bytes_again(), 0, "{:?}", counted.sent());
    }
}

#[test]
fn a_set_of_single_bytes_costs_a_block_for_each_and_no_chunks() {
    const RANGES: usize = 32;
    let (origin, body) = (Origin::start(), pattern(1, (RANGES + 1) * CHUNK as usize));
    let counted = counted(&origin, "\"1\"", &body);
    let weir = server(&[&origin]).more("[cache]\nmemory = \"128MiB\"").start();
    // Of a cold object, and of one that is stored in part.
    for (round, offset) in [(1, 5000), (2, 600_000)] {
        let places = (0..RANGES).map(|number| number * CHUNK as usize + offset);
        let set: Vec<String> = places.clone().map(|at| format!("{at}-{at}")).collect();
        let found = weir.get_with("/x", &[("Range", &format!("bytes={}", set.join(",")))]);
        assert_eq!(found.status(), 206, "{:?}", found.head);
        let text = &found.body;
        for at in places {
            let place = format!("bytes {at}-{at}/{}\r\n\r\n", body.len());
            let behind = text.windows(place.len()).position(|window| window == place.as_bytes());
            assert_eq!(text[behind.unwrap() + place.len()], body[at], "{at}");
        }
        is_quiet(&weir);
        let most = round * RANGES as u64 * 2 * BLOCK;
        assert!(counted.bytes() <= most, "{} bytes: {:?}", counted.bytes(), asked(&origin));
    }
    assert!(weir.get("/x").body == body);
}

#[test]
fn a_touched_object_is_completed_in_the_background_if_configured() {
    // The others are longer than what a transfer keeps ahead of its readers.
    for (length, first) in [(LENGTH, 2_200_000), (30_000_000, 15_000_000), (30_000_000, 29_999_000)] {
        let (origin, body) = (Origin::start(), pattern(2, length));
        let counted = counted(&origin, "\"1\"", &body);
        let site = "range = { fill = \"whole\", chunk = \"256KiB\" }";
        let weir = server(&[&origin]).site(site).start();
        part(&weir, &body, first, 100);
        until("all has been sent", || counted.bytes() >= length as u64);
        until("it is held whole", || {
            let found = weir.get_with("/x", &[("Cache-Control", "only-if-cached")]);
            found.status() == 200 && found.body == body
        });
        let before = origin.total();
        assert!(weir.get("/x").is_hit());
        assert_eq!(origin.total(), before);
        assert_eq!((counted.bytes(), counted.bytes_again()), (length as u64, 0), "{:?}", counted.sent());
    }
}

#[test]
fn a_range_during_the_completion_is_fetched_once() {
    let (origin, body, gate) = (Origin::start(), pattern(2, LENGTH), Gate::new());
    let counted =
        Counted::new(Version::new("\"1\"", &body[..]), FRESH).gate(300_000, &gate).at(&origin, "/x");
    let site = "range = { fill = \"whole\", chunk = \"256KiB\" }";
    let weir = server(&[&origin]).site(site).start();
    part(&weir, &body, 2_200_000, 100);
    until("the rest is asked for", || origin.total() >= 2);
    let mut clients: Vec<Client> = (0..6).map(|_| send(&weir, 0, 1_000_000)).collect();
    until("all are asking", || weir.metric("weir_requests_running") == Some(6.0));
    gate.open();
    for client in &mut clients {
        assert!(client.recv().unwrap().body == body[..1_000_000]);
    }
    until("all has been sent", || counted.bytes() >= LENGTH as u64);
    until("it is held whole", || weir.get("/x").is_hit());
    assert_eq!(counted.bytes_again(), 0, "{:?}", counted.sent());
}

#[test]
fn an_origin_that_breaks_off_does_not_keep_the_rest_from_coming() {
    let (origin, body) = (Origin::start(), pattern(2, LENGTH));
    origin.put("/x", Resource::fresh(&body).etag("\"1\"").ranges().fault(Fault::Truncate(400_000)));
    let weir = server(&[&origin]).site("range = { fill = \"whole\", chunk = \"256KiB\" }").start();
    part(&weir, &body, 2_200_000, 100);
    until("it is held whole", || {
        let found = weir.get_with("/x", &[("Cache-Control", "only-if-cached")]);
        found.status() == 200 && found.body == body
    });
    // Each transfer brings at most 400,000 bytes.
    assert!(origin.total() <= 16, "{:?}", asked(&origin));
}

#[test]
fn many_clients_of_one_cold_range_are_one_request() {
    let (origin, body, gate) = (Origin::start(), pattern(3, LENGTH), Gate::new());
    origin.put("/x", Resource::fresh(&body).etag("\"1\"").ranges().head_gate(&gate));
    let weir = before(&origin);
    let mut clients: Vec<Client> = (0..50).map(|_| send(&weir, 2_200_000, 1000)).collect();
    until("all are asking", || weir.metric("weir_requests_running") == Some(50.0));
    gate.open();
    for client in &mut clients {
        let found = client.recv().unwrap();
        assert_eq!(found.status(), 206);
        assert!(found.body == body[2_200_000..2_201_000]);
    }
    assert_eq!(asked(&origin), ["bytes=2162688-2228223"]);
}

#[test]
fn many_clients_of_one_chunk_cost_it_once() {
    for backwards in [false, true] {
        let (origin, body, gate) = (Origin::start(), pattern(3, LENGTH), Gate::new());
        let counted = Counted::new(Version::new("\"1\"", &body[..]), FRESH).gate(0, &gate).at(&origin, "/x");
        let weir = before(&origin);
        let first = |number: usize| {
            let place = if backwards { 49 - number } else { number };
            CHUNK as usize * 2 + place * 20_000
        };
        let mut clients: Vec<Client> = (0..50).map(|number| send(&weir, first(number), 1000)).collect();
        until("all are asking", || weir.metric("weir_requests_running") == Some(50.0));
        gate.open();
        for (number, client) in clients.iter_mut().enumerate() {
            let found = client.recv().unwrap();
            assert_eq!(found.status(), 206);
            assert!(found.body == body[first(number)..first(number) + 1000]);
        }
        is_quiet(&weir);
        // Each request fetches its block, unless another has. A reader that goes on fetches the rest of the
        // chunk up to where another has begun.
        assert!(origin.total() as u64 <= CHUNK / BLOCK, "{:?}", asked(&origin));
        assert!(counted.bytes() <= 2 * CHUNK, "{backwards}: {:?}", counted.sent());
    }
}

#[test]
fn an_object_that_changes_all_the_time_is_fetched_whole() {
    let origin = Origin::start();
    let body = |version: u64| pattern(version, LENGTH);
    let counted = counted(&origin, "\"0\"", &body(0));
    let weir = before(&origin);
    part(&weir, &body(0), 0, 100);
    for version in [1, 2] {
        counted.change(Version::new(&format!("\"{version}\""), body(version)));
        let found = part(&weir, &body(version), CHUNK as usize * (version as usize + 1), 100);
        assert_eq!(found.header("etag"), Some(format!("\"{version}\"")));
    }
    let before = asked(&origin).len();
    counted.change(Version::new("\"3\"", body(3)));
    let output = weir.command(&["purge", "http://localhost/x"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    part(&weir, &body(3), 3_000_000, 100);
    assert_eq!(asked(&origin)[before..], [""]);
    is_quiet(&weir);
    assert!(weir.get("/x").is_hit());
}

type Fields = &'static [(&'static str, &'static str)];

/// Responses that may not be stored, and what a client sends with the request.
const UNSTORED: [(&str, &str, Fields); 4] = [
    ("no-store", "", &[]),
    ("private, max-age=60", "", &[]),
    ("max-age=60", "a=b", &[]),
    ("max-age=60", "", &[("Authorization", "Basic YTpi")]),
];

#[test]
fn a_cold_range_of_an_unstorable_object_is_passed_on() {
    for (control, cookie, fields) in UNSTORED {
        let (origin, body) = (Origin::start(), pattern(4, LENGTH));
        let mut resource = Resource::new(&body).etag("\"1\"").ranges().header("Cache-Control", control);
        if !cookie.is_empty() {
            resource = resource.header("Set-Cookie", cookie);
        }
        origin.put("/x", resource);
        let weir = before(&origin);
        for (number, first) in [2_200_000, 2_200_000, 100, 2_200_050].into_iter().enumerate() {
            let range = format!("bytes={first}-{}", first + 999);
            let fields: Vec<(&str, &str)> = [&[("Range", &range[..])], fields].concat();
            let found = weir.get_with("/x", &fields);
            assert_eq!(found.status(), 206, "{control} {number}: {:?}", found.head);
            assert_eq!(
                found.header("content-range"),
                Some(format!("bytes {first}-{}/{LENGTH}", first + 999))
            );
            assert!(found.body == body[first..first + 1000] && !found.is_hit(), "{control} {number}");
            assert_eq!(found.header("set-cookie").is_some(), !cookie.is_empty(), "{:?}", found.head);
        }
        for field in [("Range", "bytes=2200000-2200009"), ("X-Any", "whole")] {
            let held = weir.get_with("/x", &[("Cache-Control", "only-if-cached"), field]);
            assert_eq!(held.status(), 504, "{control}: {:?}", held.head);
        }
        let whole: Vec<(&str, &str)> = [&[("X-Any", "whole")], fields].concat();
        assert!(weir.get_with("/x", &whole).body == body);
    }
}

#[test]
fn a_range_without_a_strong_validator_is_right() {
    for tag in ["W/\"1\"", ""] {
        let (origin, body) = (Origin::start(), pattern(5, LENGTH));
        let plain = Resource::fresh(&body).ranges();
        origin.put("/x", if tag.is_empty() { plain } else { plain.etag(tag) });
        let weir = before(&origin);
        for first in [2_200_000, 2_200_000, 0, 3_999_000, 2_300_000] {
            part(&weir, &body, first, 1000);
        }
        let suffix = weir.get_with("/x", &[("Range", "bytes=-10")]);
        assert!(suffix.status() == 206 && suffix.body == body[LENGTH - 10..]);
        // Another body under the same weak tag, or none: the part that was sent has left nothing behind.
        let newer = pattern(6, LENGTH);
        let plain = Resource::fresh(&newer).ranges();
        origin.put("/x", if tag.is_empty() { plain } else { plain.etag(tag) });
        part(&weir, &newer, 2_200_000, 1000);
        assert!(weir.get("/x").body == newer);
        part(&weir, &newer, 2_200_000, 1000);
        assert!(weir.get("/x").is_hit());
    }
}
