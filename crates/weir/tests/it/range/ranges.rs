//! Ranges of stored responses: one, several, those that are not answered, and conditions (RFC 9110 §13.1.5,
//! §14).

use std::time::Duration;

use weir_testkit::{
    Client, Fault, Gate, Origin, Resource, Response, Weir, byteranges as parts, pattern, until,
};

use crate::durable::restart;
use crate::server::{before, server};

const LENGTH: usize = 10_000;
const VOLUME: &str =
    "[cache]\nmemory = \"16MiB\"\n[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"256MiB\"";

/// A Weir that has stored `/x`, and the body of `/x`.
fn holding(resource: impl FnOnce(&[u8]) -> Resource) -> (Origin, Weir, Vec<u8>) {
    let (origin, body) = (Origin::start(), pattern(3, LENGTH));
    origin.put("/x", resource(&body));
    let weir = before(&origin);
    assert!(weir.get("/x").body == body);
    (origin, weir, body)
}

fn tagged(body: &[u8]) -> Resource {
    Resource::fresh(body).etag("\"1\"").header("Content-Type", "text/x-bytes")
}

fn ranged(weir: &Weir, target: &str, range: &str) -> Response {
    weir.get_with(target, &[("Range", range)])
}

fn ask(weir: &Weir, target: &str, range: &str) -> Client {
    let mut client = weir.client();
    client.send_get("localhost", target, &[("Range", range)]);
    client
}

#[test]
fn head_knows_no_ranges() {
    let (origin, weir, _) = holding(tagged);
    for range in ["bytes=0-9", "bytes=0-0,-1", "bytes=10000-"] {
        let mut client = weir.client();
        client.send(format!("HEAD /x HTTP/1.1\r\nHost: localhost\r\nRange: {range}\r\n\r\n"));
        let found = client.recv_head().unwrap();
        assert_eq!((found.status(), found.header("content-range")), (200, None), "{range}");
        assert_eq!(found.header("content-length").as_deref(), Some("10000"));
        assert_eq!(found.header("content-type").as_deref(), Some("text/x-bytes"));
        // The connection can take another request.
        let status = client.get("localhost", "/x", &[("Range", range)]).status();
        assert_eq!(status, if range == "bytes=10000-" { 416 } else { 206 });
    }
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn old_clients_get_parts_by_length_too() {
    let (_origin, weir, body) = holding(tagged);
    let mut client = weir.client();
    client.send("GET /x HTTP/1.0\r\nHost: localhost\r\nRange: bytes=0-0,-1\r\n\r\n");
    let found = client.recv().unwrap();
    assert_eq!(parts(&found, &body, Some("text/x-bytes")), [(0, 0), (9999, 9999)]);
}

#[test]
fn several_ranges_of_what_lies_on_the_volume() {
    const LENGTH: usize = 24_000_000;
    let (origin, body) = (Origin::start(), pattern(5, LENGTH));
    origin.put("/x", tagged(&body).ranges());
    let mut weir = server(&[&origin]).more(VOLUME).start();
    assert!(weir.get("/x").body == body);
    until("it is on the volume", || weir.get("/x").is_hit());
    restart(&mut weir, "TERM");
    let found = ranged(&weir, "/x", "bytes=20000000-22999999,-1,65000-66000,131072-131072");
    let expect = [(20_000_000, 22_999_999), (LENGTH - 1, LENGTH - 1), (65_000, 66_000), (131_072, 131_072)];
    assert_eq!(parts(&found, &body, Some("text/x-bytes")), expect);
    assert!(found.is_hit(), "{}", found.cache_status());
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn several_ranges_of_a_part_cost_its_gaps_alone() {
    const LENGTH: usize = 12_000_000;
    let (origin, body) = (Origin::start(), pattern(9, LENGTH));
    origin.put("/x", tagged(&body).ranges().fault(Fault::Truncate(2_000_000)));
    let weir = server(&[&origin]).start();
    // What came before it broke off is stored.
    assert!(begin(&weir, "/x").recv().is_err());
    origin.put("/x", tagged(&body).ranges());
    // What was fetched for the request that was cut comes first.
    until("nothing more is asked for", || {
        let before = origin.count("/x");
        std::thread::sleep(Duration::from_millis(300));
        origin.count("/x") == before
    });
    let before = origin.count("/x");
    let found = ranged(&weir, "/x", "bytes=11000000-11099999,0-99,9000000-9099999,1000000-1999999");
    let expect = [(11_000_000, 11_099_999), (0, 99), (9_000_000, 9_099_999), (1_000_000, 1_999_999)];
    assert_eq!(parts(&found, &body, Some("text/x-bytes")), expect);
    let asked = |from: usize| -> Vec<usize> {
        let ranges =
            origin.requests("/x").split_off(from).into_iter().map(|request| request.header("range").unwrap());
        ranges.map(|range| range[6..].split('-').next().unwrap().parse().unwrap()).collect()
    };
    assert!(
        !asked(before).is_empty() && asked(before).iter().all(|start| *start >= 8_000_000),
        "{:?}",
        asked(before)
    );
    let now = origin.count("/x");
    // It is stored by now.
    let found = ranged(&weir, "/x", "bytes=9000000-9099999,500-599");
    assert_eq!(parts(&found, &body, Some("text/x-bytes")), [(9_000_000, 9_099_999), (500, 599)]);
    assert!(found.is_hit(), "{}", found.cache_status());
    assert_eq!(origin.count("/x"), now);
    assert!(weir.get("/x").body == body);
    assert!(asked(now).iter().all(|start| *start >= 3_000_000), "{:?}", asked(now));
}

#[test]
fn a_part_whose_origin_has_changed_is_not_sent_in_parts_of_two_versions() {
    const LENGTH: usize = 12_000_000;
    let (origin, body, newer) = (Origin::start(), pattern(9, LENGTH), pattern(10, LENGTH));
    origin.put("/x", tagged(&body).ranges().fault(Fault::Truncate(2_000_000)));
    let weir = server(&[&origin]).start();
    assert!(begin(&weir, "/x").recv().is_err());
    origin.put("/x", tagged(&newer).etag("\"2\"").ranges());
    // The first part is stored, the second is not.
    let found = ranged(&weir, "/x", "bytes=0-99,11000000-11000099");
    assert_eq!(found.header("etag").as_deref(), Some("\"2\""));
    match found.status() {
        200 => assert!(found.body == newer),
        _ => assert_eq!(parts(&found, &newer, Some("text/x-bytes")), [(0, 99), (11_000_000, 11_000_099)]),
    }
}

#[test]
fn parts_ahead_of_a_running_fill_are_waited_for() {
    const LENGTH: usize = 6_000_000;
    let (origin, body, gate) = (Origin::start(), pattern(4, LENGTH), Gate::new());
    origin.put("/x", tagged(&body).body_gate(1_000_000, &gate));
    let weir = before(&origin);
    let mut lead = ask(&weir, "/x", "bytes=0-");
    lead.recv_head_only().unwrap();
    let mut client = ask(&weir, "/x", "bytes=0-9,5000000-5099999,500-599");
    until("both read", || weir.metric("weir_requests_running") == Some(2.0));
    gate.open();
    let found = client.recv().unwrap();
    assert_eq!(parts(&found, &body, Some("text/x-bytes")), [(0, 9), (5_000_000, 5_099_999), (500, 599)]);
    assert_eq!(origin.count("/x"), 1);
}

/// Requests the whole.
fn begin(weir: &Weir, path: &str) -> Client {
    let mut client = weir.client();
    client.send_get("localhost", path, &[]);
    client
}

/// Reads `count` bytes of a body.
fn drain(client: &mut Client, count: usize) {
    let mut left = count;
    while left > 0 {
        let piece = client.read_some();
        assert!(!piece.is_empty(), "{left} bytes are missing");
        left = left.saturating_sub(piece.len());
    }
}

#[test]
fn parts_of_a_running_fill_beyond_memory_are_read_from_the_volume() {
    const LENGTH: usize = 40_000_000;
    let (origin, body, gate) = (Origin::start(), pattern(4, LENGTH), Gate::new());
    origin.put("/x", tagged(&body).ranges().body_gate(30_000_000, &gate));
    let weir = server(&[&origin]).more(VOLUME).start();
    let mut lead = begin(&weir, "/x");
    lead.recv_head_only().unwrap();
    drain(&mut lead, 29_000_000);
    until("what has come is on the volume", || {
        weir.metric("weir_volume_written_body_bytes_total").is_some_and(|bytes| bytes > 20e6)
    });
    let mut client = ask(&weir, "/x", "bytes=0-9,19000000-19000009,1000-1999,5000000-5999999");
    let found = client.recv().unwrap();
    let expect = [(0, 9), (19_000_000, 19_000_009), (1000, 1999), (5_000_000, 5_999_999)];
    assert_eq!(parts(&found, &body, Some("text/x-bytes")), expect);
    assert_eq!(origin.count("/x"), 1, "all of it has come already");
    gate.open();
    drain(&mut lead, 10_000_000);
    assert_eq!(origin.count("/x"), 1);
}
