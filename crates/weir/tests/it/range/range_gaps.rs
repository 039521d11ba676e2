//! Gaps of stored parts: who fills them, from which origin, how many at a time; and what happens to stale
//! parts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use weir_testkit::{Client, Gate, Origin, Resource, Response, Weir, pattern, until};

use crate::server::{before, server};

const CHUNK: usize = 256 << 10;
const BLOCK: usize = 64 << 10;
/// At first every fourth chunk is stored.
const HOLES: usize = 6;
const LENGTH: usize = HOLES * 4 * CHUNK;
const SITE: &str = "range = { chunk = \"256KiB\", ahead = \"8MiB\", parallel = 3 }";

fn tagged(body: &[u8], tag: &str, control: &str) -> Resource {
    Resource::new(body).header("Cache-Control", control).etag(tag).ranges()
}

fn ranged(weir: &Weir, first: usize, count: usize) -> Response {
    weir.get_with("/x", &[("Range", &format!("bytes={first}-{}", first + count - 1))])
}

/// Requests a part and compares it.
fn part(weir: &Weir, body: &[u8], first: usize, count: usize) -> Response {
    let found = ranged(weir, first, count);
    assert_eq!(found.status(), 206, "{:?}", found.head);
    assert!(found.body == body[first..first + count], "{first}: other bytes");
    found
}

fn ask(weir: &Weir) -> Client {
    let mut client = weir.client();
    client.send_get("localhost", "/x", &[]);
    client
}

/// The Range of each request to the origin; empty if it had none.
fn asked(origin: &Origin) -> Vec<String> {
    origin.requests("/x").iter().map(|request| request.header("range").unwrap_or_default()).collect()
}

/// A Weir that has stored every fourth chunk.
fn with_holes(origin: &Origin, body: &[u8]) -> Weir {
    origin.put("/x", tagged(body, "\"1\"", "max-age=3600"));
    let weir = server(&[origin]).site(SITE).start();
    for number in 0..HOLES {
        part(&weir, body, number * 4 * CHUNK, CHUNK);
    }
    until("nothing is fetched", || weir.metric("weir_fills_running") == Some(0.0));
    for number in 0..HOLES {
        assert!(part(&weir, body, number * 4 * CHUNK, CHUNK).is_hit());
    }
    assert_eq!(origin.total(), HOLES);
    weir
}

/// Its gaps in the order in which they are requested.
fn holes() -> Vec<String> {
    (0..HOLES)
        .map(|number| format!("bytes={}-{}", (number * 4 + 1) * CHUNK, (number + 1) * 4 * CHUNK - 1))
        .collect()
}

/// How many requests are being answered, and the most that were.
#[derive(Default)]
struct Crowd {
    now: AtomicUsize,
    peak: AtomicUsize,
}

/// Lets requests for the first gap pass, and holds the heads of all others until the gate is opened.
fn hold_up(origin: &Origin, body: &[u8], gate: &Gate) -> Arc<Crowd> {
    let (body, crowd) = (body.to_vec(), Arc::new(Crowd::default()));
    let (gate, counts) = (gate.clone(), crowd.clone());
    origin.on("/x", move |exchange| {
        let now = counts.now.fetch_add(1, Ordering::SeqCst) + 1;
        counts.peak.fetch_max(now, Ordering::SeqCst);
        let range = exchange.request.header("range").unwrap_or_default();
        let range = range.strip_prefix("bytes=").and_then(|range| range.split_once('-')).unwrap_or_default();
        let (first, last) = (range.0.parse().unwrap_or(0), range.1.parse().unwrap_or(LENGTH - 1));
        // They come on several connections, in any order.
        if first >= 4 * CHUNK {
            gate.pass();
        }
        exchange.send(format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {first}-{last}/{LENGTH}\r\n\
             Content-Length: {}\r\nCache-Control: max-age=3600\r\nETag: \"1\"\r\n\r\n",
            last - first + 1
        ));
        exchange.send(&body[first..last]);
        // With the last byte the next request may come.
        counts.now.fetch_sub(1, Ordering::SeqCst);
        exchange.send(&body[last..=last]);
    });
    crowd
}

/// Receives the body at all of these clients, and opens the gate once three requests are under way.
fn read_all(
    clients: &mut [Client],
    body: &[u8],
    is_ready: impl Fn() -> bool,
    (crowd, gate): (&Crowd, &Gate),
) {
    std::thread::scope(|scope| {
        for client in clients {
            scope.spawn(|| assert!(client.recv().unwrap().body == body));
        }
        until("all are reading", is_ready);
        until("three are under way", || crowd.now.load(Ordering::SeqCst) == 3);
        gate.open();
    });
}

#[test]
fn gaps_ahead_of_a_reader_are_fetched_together_but_not_too_many() {
    let (origin, body, gate) = (Origin::start(), pattern(1, LENGTH), Gate::new());
    let weir = with_holes(&origin, &body);
    let crowd = hold_up(&origin, &body, &gate);
    read_all(&mut [ask(&weir)], &body, || true, (&crowd, &gate));
    assert_eq!(crowd.peak.load(Ordering::SeqCst), 3);
    assert_eq!(sorted(asked(&origin).split_off(HOLES)), sorted(holes()));
    assert!(weir.get("/x").is_hit());
}

fn sorted(mut ranges: Vec<String>) -> Vec<String> {
    ranges.sort_by_key(|range| (range.len(), range.clone()));
    ranges
}

#[test]
fn gaps_are_not_fetched_once_for_each_reader() {
    let (origin, body, gate) = (Origin::start(), pattern(1, LENGTH), Gate::new());
    let weir = with_holes(&origin, &body);
    let crowd = hold_up(&origin, &body, &gate);
    let mut clients: Vec<Client> = (0..20).map(|_| ask(&weir)).collect();
    let is_ready = || weir.metric("weir_requests_running") == Some(20.0);
    read_all(&mut clients, &body, is_ready, (&crowd, &gate));
    // One request for each gap, except where a transfer ends while another begins.
    let gaps = asked(&origin).split_off(HOLES);
    assert!(holes().iter().all(|hole| gaps.contains(hole)), "{gaps:?}");
    assert!(gaps.len() <= 2 * HOLES, "{gaps:?}");
}

/// A Weir that has stored the first chunk of `/x`, stale by now.
fn stale(origin: &Origin, body: &[u8], control: &str) -> Weir {
    origin.put("/x", tagged(body, "\"1\"", control));
    let weir = server(&[origin]).site(SITE).start();
    part(&weir, body, 0, CHUNK);
    std::thread::sleep(Duration::from_millis(2100));
    weir
}

#[test]
fn a_stale_part_is_sent_at_once_and_then_confirmed() {
    let (origin, body, gate) = (Origin::start(), pattern(2, LENGTH), Gate::new());
    let weir = stale(&origin, &body, "max-age=1, stale-while-revalidate=600");
    origin.put("/x", tagged(&body, "\"1\"", "max-age=3600").head_gate(&gate));
    for _ in 0..3 {
        // The origin says nothing before the gate is opened.
        assert!(part(&weir, &body, 70_000, 1000).is_hit());
    }
    origin.await_count("/x", 2);
    gate.open();
    until("it is fresh", || part(&weir, &body, 70_000, 1000).cache_status().contains("ttl=3"));
    assert_eq!(origin.count("/x"), 2, "{:?}", asked(&origin));
    assert_eq!(origin.requests("/x")[1].header("if-none-match").as_deref(), Some("\"1\""));
    // It is the same part, and its gap is filled.
    part(&weir, &body, 5 * CHUNK, 1000);
    assert!(part(&weir, &body, 0, CHUNK).is_hit());
    assert_eq!(asked(&origin)[2..], [format!("bytes={}-{}", 5 * CHUNK, 5 * CHUNK + BLOCK - 1)]);
}

#[test]
fn a_stale_part_that_has_changed_is_replaced() {
    let (origin, body, newer) = (Origin::start(), pattern(2, LENGTH), pattern(3, LENGTH));
    let weir = stale(&origin, &body, "max-age=1, stale-while-revalidate=600");
    origin.put("/x", tagged(&newer, "\"2\"", "max-age=3600"));
    assert!(ranged(&weir, 70_000, 1000).body == body[70_000..71_000]);
    until("the new one is there", || {
        let found = ranged(&weir, 70_000, 1000);
        let (tag, version) = match found.header("etag").as_deref() {
            Some("\"1\"") => ("\"1\"", &body),
            _ => ("\"2\"", &newer),
        };
        assert!(found.header("etag").as_deref() == Some(tag) && found.body == version[70_000..71_000]);
        tag == "\"2\""
    });
    part(&weir, &newer, 5 * CHUNK, 1000);
    assert!(weir.get("/x").body == newer);
}

#[test]
fn a_stale_part_is_sent_while_its_origin_fails_and_a_gap_is_an_error() {
    let (origin, body) = (Origin::start(), pattern(2, LENGTH));
    let weir = stale(&origin, &body, "max-age=1, stale-if-error=600");
    let address = origin.addr();
    origin.put("/x", Resource::new("down").status(503));
    let fails = |statuses: &[u16]| {
        for _ in 0..3 {
            let held = part(&weir, &body, 70_000, 1000);
            assert!(held.cache_status().contains("stale-if-error"), "{:?}", held.head);
            for missing in [ranged(&weir, 5 * CHUNK, 1000), weir.get("/x"), ranged(&weir, CHUNK - 10, 1000)] {
                assert!(statuses.contains(&missing.status()), "{:?}", missing.head);
            }
        }
    };
    fails(&[503]);
    drop(origin);
    fails(&[502, 503, 504]);
    let origin = Origin::listen(&address.to_string());
    origin.put("/x", tagged(&body, "\"1\"", "max-age=3600"));
    until("it is there again", || ranged(&weir, 5 * CHUNK, 1000).status() == 206);
    part(&weir, &body, 5 * CHUNK, 1000);
    assert!(weir.get("/x").body == body);
}

#[test]
fn a_confirmed_part_is_sent_from_the_store() {
    let (origin, body) = (Origin::start(), pattern(4, LENGTH));
    origin.put("/x", tagged(&body, "\"1\"", "no-cache"));
    let weir = server(&[&origin]).site(SITE).start();
    part(&weir, &body, 0, CHUNK);
    for _ in 0..2 {
        part(&weir, &body, 70_000, 1000);
    }
    let requests = origin.requests("/x");
    assert_eq!(requests.len(), 3, "{:?}", asked(&origin));
    for request in &requests[1..] {
        assert_eq!(request.header("if-none-match").as_deref(), Some("\"1\""));
    }
    // A gap costs its confirmation and its transfer.
    part(&weir, &body, 5 * CHUNK, 1000);
    assert!(origin.total() <= 5, "{:?}", asked(&origin));
    for knows_ranges in [true, false] {
        let (tag, newer) =
            (if knows_ranges { "\"2\"" } else { "\"3\"" }, pattern(u64::from(knows_ranges), LENGTH));
        let plain = Resource::new(&newer).header("Cache-Control", "no-cache").etag(tag);
        origin.put("/x", if knows_ranges { plain.ranges() } else { plain });
        for first in [70_000, 70_000, 5 * CHUNK, 9 * CHUNK] {
            let found = ranged(&weir, first, 1000);
            assert_eq!(found.header("etag").as_deref(), Some(tag));
            // While the whole is coming, a request past the cache gets the whole from an origin without
            // ranges.
            let is_whole = !knows_ranges && found.status() == 200;
            let expect = if is_whole { &newer[..] } else { &newer[first..first + 1000] };
            assert!((is_whole || found.status() == 206) && found.body == expect, "{:?}", found.head);
        }
        assert!(weir.get("/x").body == newer);
    }
}

/// An origin with a version of its own.
fn origin_of(body: &[u8], tag: &str) -> Origin {
    let origin = Origin::start();
    origin.put("/x", tagged(body, tag, "max-age=3600"));
    origin
}

#[test]
fn a_gap_is_filled_from_the_origin_with_the_same_version() {
    let bodies = [pattern(5, LENGTH), pattern(6, LENGTH)];
    let origins = [origin_of(&bodies[0], "\"0\""), origin_of(&bodies[1], "\"1\"")];
    let weir = server(&[&origins[0], &origins[1]]).site(SITE).start();
    let found = ranged(&weir, 0, 1000);
    let maker: usize = found.header("etag").unwrap().trim_matches('"').parse().unwrap();
    assert!(found.body == bodies[maker][..1000]);
    for place in [7, 3, 9, 15, 12, 1] {
        part(&weir, &bodies[maker], place * CHUNK, 1000);
    }
    assert!(weir.get("/x").body == bodies[maker]);
    assert!(weir.get("/x").is_hit());
    assert_eq!(origins[1 - maker].total(), 0, "{:?}", asked(&origins[1 - maker]));
}

#[test]
fn nothing_is_mixed_when_the_origin_with_the_version_is_gone() {
    let bodies = [pattern(5, LENGTH), pattern(6, LENGTH)];
    let mut origins = vec![origin_of(&bodies[0], "\"0\""), origin_of(&bodies[1], "\"1\"")];
    let weir = server(&[&origins[0], &origins[1]]).site(SITE).start();
    let maker: usize = ranged(&weir, 0, 1000).header("etag").unwrap().trim_matches('"').parse().unwrap();
    drop(origins.remove(maker));
    let mut others = 0;
    until("the other origin is asked", || {
        for place in [7, 0, 3, 9, 15, 12, 1] {
            let found = ranged(&weir, place * CHUNK, 1000);
            if found.status() >= 500 {
                continue;
            }
            let named: usize = found.header("etag").unwrap().trim_matches('"').parse().unwrap();
            assert!(
                found.status() == 206 && found.body == bodies[named][place * CHUNK..place * CHUNK + 1000]
            );
            others += usize::from(named != maker);
        }
        others > 20
    });
    assert!(weir.get("/x").body == bodies[1 - maker]);
}

#[test]
fn a_part_outlives_a_failure_of_its_gap() {
    let (origin, body) = (Origin::start(), pattern(7, LENGTH));
    origin.put("/x", tagged(&body, "\"1\"", "max-age=3600"));
    let weir = before(&origin);
    part(&weir, &body, 0, 1000);
    origin.put("/x", Resource::new("down").status(503));
    assert_eq!(ranged(&weir, 3 << 20, 1000).status(), 503);
    assert!(part(&weir, &body, 0, 1000).is_hit());
    origin.put("/x", tagged(&body, "\"1\"", "max-age=3600"));
    part(&weir, &body, 3 << 20, 1000);
    assert!(part(&weir, &body, 0, 1000).is_hit());
}
