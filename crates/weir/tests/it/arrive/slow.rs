//! Slow clients: their share of an origin's connections is bounded, so that others find some.

use std::time::Duration;

use weir_testkit::{Client, Exchange, Origin, Resource, Response, Weir, pattern, until};

use crate::server::{Server, server};

const UPSTREAM: &str = "connections = 4\nqueue_wait = \"200ms\"\nfirst_byte = \"5m\"\nbetween_bytes = \"5m\"";
const LONG: Duration = Duration::from_secs(120);

/// An origin whose `/ok` is never fresh. `script` answers all other paths.
fn origin(script: impl Fn(&mut Exchange<'_>) + Send + Sync + 'static) -> Origin {
    let origin = Origin::start();
    origin.put("/ok", Resource::new("ok").header("Cache-Control", "no-store"));
    origin.otherwise(script);
    origin
}

/// Sends a request as a client that a trusted proxy names.
fn send(weir: &Weir, client: &str, line: &str, more: &str) -> Client {
    let mut proxy = weir.client();
    let line = line.to_owned();
    proxy.send(format!("{line} HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {client}\r\n{more}"));
    proxy
}

fn status(weir: &Weir, client: &str, target: &str) -> u16 {
    send(weir, client, &format!("GET {target}"), "\r\n").recv().unwrap().status()
}

/// Checks a 503. Log and client name the bound.
fn refused_at(answer: &Response, word: &str, text: &str) {
    let cache_status = answer.cache_status();
    assert_eq!(answer.status(), 503, "{cache_status}");
    assert!(cache_status.contains(&format!("detail={word}")), "{cache_status}");
    assert!(answer.text().contains(text), "{}", answer.text());
}

fn running(weir: &Weir, count: f64) {
    until("all are under way", || weir.metric("weir_requests_running") == Some(count));
}

fn origin_metric(origin: &Origin, weir: &Weir, name: &str) -> f64 {
    let series = format!("{name}{{upstream=\"main\",origin=\"{}\"}}", origin.url());
    weir.metric(&series).unwrap_or_else(|| panic!("no {series}"))
}

#[test]
fn a_small_body_takes_no_connection_before_it_is_whole() {
    let origin = origin(|exchange| {
        let body = exchange.body();
        exchange.reply(200, &[], body);
    });
    let weir = server(&[&origin]).upstream(UPSTREAM).start();
    let more = "Content-Length: 5\r\n\r\nhel";
    let mut uploads: Vec<Client> = (0..6).map(|_| send(&weir, "192.0.2.1", "POST /x", more)).collect();
    let more = "Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n";
    let mut chunked = send(&weir, "192.0.2.1", "POST /x", more);
    let more = "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    let mut expecting = send(&weir, "192.0.2.1", "POST /x", more);
    assert_eq!(expecting.recv_head_only().map(|head| head.status), Ok(100), "nobody else is asked for it");
    running(&weir, 8.0);
    for _ in 0..4 {
        assert_eq!(weir.get("/ok").status(), 200);
    }
    assert_eq!(origin.count("/x"), 0);
    chunked.send("2\r\nlo\r\n0\r\n\r\n");
    expecting.send("hello");
    for upload in &mut uploads {
        upload.send("lo");
    }
    for upload in uploads.iter_mut().chain([&mut chunked, &mut expecting]) {
        assert_eq!(upload.recv().unwrap().text(), "hello");
    }
}

#[test]
fn one_client_with_slow_uploads_leaves_connections_to_others() {
    let origin = origin(|exchange| drop(exchange.body()));
    let weir = server(&[&origin]).upstream(UPSTREAM).start();
    let more = format!("Content-Length: 1000000\r\n\r\n{}", "x".repeat(100_000));
    let _uploads: Vec<Client> = (0..6).map(|_| send(&weir, "192.0.2.1", "POST /x", &more)).collect();
    origin.await_count("/x", 2);
    for _ in 0..4 {
        assert_eq!(status(&weir, "192.0.2.2", "/ok"), 200);
    }
    let mut waits = send(&weir, "192.0.2.1", "GET /ok", "\r\n");
    refused_at(&waits.recv().unwrap(), "client-share", "this client");
    assert_eq!(origin.count("/x"), 2);
}

#[test]
fn one_client_that_reads_slowly_leaves_connections_to_others() {
    let origin = origin(|exchange| {
        exchange.send("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\n\r\n");
        while exchange.send([b'x'; 65536]) {}
    });
    let weir = server(&[&origin]).upstream(UPSTREAM).start();
    let mut readers: Vec<Client> =
        (0..2).map(|number| send(&weir, "192.0.2.1", &format!("GET /{number}"), "\r\n")).collect();
    for reader in &mut readers {
        assert_eq!(reader.recv_head_only().map(|head| head.status), Ok(200));
    }
    let _more: Vec<Client> =
        (2..6).map(|number| send(&weir, "192.0.2.1", &format!("GET /{number}"), "\r\n")).collect();
    for _ in 0..4 {
        assert_eq!(status(&weir, "192.0.2.2", "/ok"), 200);
    }
    assert_eq!(status(&weir, "192.0.2.1", "/ok"), 503);
}

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: x\r\n\r\n";

/// An origin with silent event streams, and with tunnels below `/ws`.
fn silent() -> Origin {
    origin(|exchange| {
        if exchange.request.target.starts_with("/ws") {
            exchange.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n");
        } else {
            let fields = "Content-Type: text/event-stream\r\nCache-Control: no-store\r\n";
            exchange.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
        }
        exchange.peer_left_within(LONG);
        exchange.close();
    })
}

/// Three of each, all established.
fn establish(weir: &Weir) -> Vec<Client> {
    (0..6)
        .map(|number| {
            let (target, more, expect) = match number % 2 {
                0 => (format!("GET /events{number}"), "\r\n", 200),
                _ => (format!("GET /ws{number}"), UPGRADE, 101),
            };
            let mut client = send(weir, "192.0.2.1", &target, more);
            assert_eq!(client.recv_head_only().map(|head| head.status), Ok(expect), "{target}");
            client
        })
        .collect()
}

#[test]
fn silent_event_streams_and_tunnels_leave_the_connections_to_requests() {
    let origin = silent();
    let weir = server(&[&origin]).upstream(UPSTREAM).start();
    let _open = establish(&weir);
    for _ in 0..4 {
        assert_eq!(weir.get("/ok").status(), 200);
    }
}

#[test]
fn event_streams_and_tunnels_have_a_bound_of_their_own() {
    let origin = silent();
    let upstream = format!("{UPSTREAM}\nstreams = 6\nclient_share = 100");
    let weir = server(&[&origin]).upstream(&upstream).start();
    let open = establish(&weir);
    assert_eq!(origin_metric(&origin, &weir, "weir_origin_streams"), 6.0);
    for (target, more) in [("GET /events", "\r\n"), ("GET /ws", UPGRADE)] {
        let mut refused = send(&weir, "192.0.2.1", target, more);
        refused_at(&refused.recv().unwrap(), "streams", "tunnels and event streams");
    }
    assert_eq!(weir.get("/ok").status(), 200);
    drop(open);
    until("they have ended", || origin_metric(&origin, &weir, "weir_origin_streams") == 0.0);
    let mut again = send(&weir, "192.0.2.1", "GET /events", "\r\n");
    assert_eq!(again.recv_head_only().map(|head| head.status), Ok(200));
}

#[test]
fn a_client_with_its_share_of_streams_gets_a_reason() {
    let origin = silent();
    let weir = server(&[&origin]).upstream(&format!("{UPSTREAM}\nstreams = 2")).start();
    let mut first = send(&weir, "192.0.2.1", "GET /events", "\r\n");
    assert_eq!(first.recv_head_only().map(|head| head.status), Ok(200));
    for (target, more) in [("GET /events", "\r\n"), ("GET /ws", UPGRADE)] {
        let mut refused = send(&weir, "192.0.2.1", target, more);
        refused_at(&refused.recv().unwrap(), "client-share", "this client");
    }
    let mut other = send(&weir, "192.0.2.2", "GET /events", "\r\n");
    assert_eq!(other.recv_head_only().map(|head| head.status), Ok(200));
}

const LENGTH: usize = 64 << 20;

/// A site that demands a megabyte a second from clients whose response holds a connection.
fn hasty(origin: &Origin) -> Server {
    server(&[origin]).more("[limits]\nsend_stall = \"2s\"\nread_rate = \"1MiB\"")
}

#[test]
fn a_slow_reader_of_an_origin_is_cut_and_one_of_a_stored_body_is_not() {
    let origin = Origin::start();
    origin.put("/past", Resource::new(vec![b'x'; LENGTH]).header("Cache-Control", "no-store"));
    origin.put("/held", Resource::fresh(pattern(1, LENGTH)));
    let weir = hasty(&origin).more("[cache]\nmemory = \"256MiB\"").start();
    assert_eq!(weir.get("/held").body.len(), LENGTH);
    let mut slow = weir.client();
    slow.send_get("localhost", "/past", &[]);
    let mut held = weir.client();
    held.send_get("localhost", "/held", &[]);
    for client in [&mut slow, &mut held] {
        assert_eq!(client.recv_head_only().map(|head| head.status), Ok(200));
    }
    // A few bytes at a time, so that the send buffer is never empty.
    until("the slow one is cut", || {
        let _ = (slow.read_some(), held.read_some());
        std::thread::sleep(Duration::from_millis(100));
        weir.metric("weir_requests_running") == Some(1.0)
    });
    drop(slow);
    let rest = std::iter::from_fn(|| Some(held.read_some())).take_while(|some| !some.is_empty());
    assert!(rest.map(|some| some.len()).sum::<usize>() > LENGTH / 2);
}

#[test]
fn a_client_held_back_by_its_rate_is_not_too_slow() {
    let origin = Origin::start();
    origin.put("/past", Resource::new(vec![b'x'; 2 << 20]).header("Cache-Control", "no-store"));
    let weir = hasty(&origin).site("rate = { limit = \"400kB/s\" }").start();
    let answer = weir.get("/past");
    assert_eq!((answer.status(), answer.body.len()), (200, 2 << 20));
}

#[test]
fn a_burst_of_one_clients_fills_leaves_connections_to_others() {
    let origin = origin(|exchange| {
        // It hangs longer than the test goes on, and no longer than its client is there.
        exchange.peer_left_within(LONG);
    });
    let weir = server(&[&origin]).upstream(UPSTREAM).start();
    let burst: Vec<Client> =
        (0..12).map(|number| send(&weir, "192.0.2.1", &format!("GET /hang/{number}"), "\r\n")).collect();
    until("some of them hang", || origin.total() >= 2);
    for _ in 0..5 {
        assert_eq!(status(&weir, "192.0.2.2", "/ok"), 200, "{} hang", origin.total());
    }
    drop(burst);
}
