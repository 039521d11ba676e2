//! Clients that leave: what was fetched only for them ends with them and frees what others need.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use weir_testkit::{Exchange, Gate, Origin, Resource, Weir, until};

use crate::server::{before, server};

/// Longer than any scenario waits.
const LONG: Duration = Duration::from_secs(120);
const CONNECTIONS: usize = 3;
const UPSTREAM: &str = "connections = 3\nqueue_wait = \"200ms\"\nfirst_byte = \"5m\"\n\
between_bytes = \"5m\"\neject = { failures = 0 }";

/// An origin whose `/ok` is never fresh.
fn origin() -> Origin {
    let origin = Origin::start();
    origin.put("/ok", Resource::new("ok").header("Cache-Control", "no-store"));
    origin
}

fn silent(exchange: &mut Exchange<'_>) {
    exchange.peer_left_within(LONG);
}

/// As many clients as there are connections send this and leave once the origin has it. Then the origin must
/// be free again.
fn leave(origin: &Origin, weir: &Weir, request: impl Fn(usize) -> String) {
    let asked = origin.total();
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            let mut client = weir.client();
            client.send(request(number));
            client
        })
        .collect();
    until("all connections are taken", || origin.total() >= asked + CONNECTIONS);
    drop(clients);
    until("the connections are free again", || weir.get("/ok").status() == 200);
    until("nothing is under way", || weir.metric("weir_requests_running") == Some(0.0));
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

#[test]
fn a_fill_without_readers_frees_its_connection() {
    let origin = origin();
    origin.otherwise(silent);
    let weir = server(&[&origin]).upstream(UPSTREAM).start();
    leave(&origin, &weir, |number| get(&format!("/{number}")));
    until("no fill is left", || weir.metric("weir_fills_running") == Some(0.0));
}

#[test]
fn a_request_past_the_cache_ends_with_its_client() {
    let origin = origin();
    origin.otherwise(silent);
    let weir = server(&[&origin]).upstream(UPSTREAM).start();
    leave(&origin, &weir, |number| {
        format!("POST /{number} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx")
    });
}

#[test]
fn a_silent_event_stream_ends_with_its_client() {
    let origin = origin();
    origin.otherwise(|exchange| {
        exchange
            .send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\r\n");
        silent(exchange);
    });
    let weir = server(&[&origin]).upstream(UPSTREAM).start();
    leave(&origin, &weir, |number| get(&format!("/{number}")));
}

#[test]
fn a_client_that_pipelined_much_is_seen_to_leave() {
    let origin = origin();
    origin.otherwise(silent);
    let weir = server(&[&origin]).upstream(UPSTREAM).start();
    // More than is kept during a response; the rest stays in the kernel.
    leave(&origin, &weir, |number| get(&format!("/{number}")) + &get("/next").repeat(3000));
}

#[test]
fn the_rest_of_a_part_ends_with_its_client() {
    let origin = origin();
    origin.otherwise(|exchange| match exchange.request.header("range").as_deref() {
        Some(first) if first.starts_with("bytes=0-") => {
            let range = ("Content-Range", "bytes 0-262143/1048576");
            let headers = [("ETag", "\"1\""), ("Cache-Control", "max-age=60"), range];
            exchange.reply(206, &headers, vec![b'x'; 256 << 10]);
        }
        _ => silent(exchange),
    });
    let site = "range = { chunk = \"256KiB\" }";
    let weir = server(&[&origin]).upstream(UPSTREAM).site(site).start();
    let part = |number: usize, range: &str| {
        format!("GET /{number} HTTP/1.1\r\nHost: localhost\r\nRange: bytes={range}\r\n\r\n")
    };
    for number in 0..CONNECTIONS {
        let mut client = weir.client();
        client.send(part(number, "0-1023"));
        assert_eq!(client.recv().map(|answer| answer.status()), Ok(206));
    }
    leave(&origin, &weir, |number| part(number, "524288-"));
}

#[test]
fn a_joining_client_gets_the_fill_that_its_leader_left() {
    let (origin, gate) = (Origin::start(), Gate::new());
    origin.put("/x", Resource::fresh("hello").head_gate(&gate));
    let weir = before(&origin);
    let mut lead = weir.client();
    lead.send(get("/x"));
    origin.await_count("/x", 1);
    let mut joins = weir.client();
    joins.send(get("/x"));
    until("it is joined", || {
        weir.metric("weir_requests_collapsed_total").is_some_and(|joined| joined >= 1.0)
    });
    drop(lead);
    // Longer than a fill goes on whose head nobody waits for.
    std::thread::sleep(Duration::from_secs(3));
    gate.open();
    assert_eq!(joins.recv().unwrap().text(), "hello");
    assert_eq!(origin.count("/x"), 1);
}

#[test]
fn a_client_that_closes_its_side_gets_the_whole_response() {
    let origin = Origin::start();
    let pieces = AtomicUsize::new(0);
    origin.on("/x", move |exchange| {
        exchange.send("HTTP/1.1 200 OK\r\nContent-Length: 12\r\nCache-Control: no-store\r\n\r\n");
        for _ in 0..12 {
            std::thread::sleep(Duration::from_millis(250));
            pieces.fetch_add(1, Ordering::SeqCst);
            exchange.send("x");
        }
    });
    let weir = server(&[&origin]).more("[limits]\nhalf_close = \"1s\"").start();
    let mut client = weir.client();
    client.send(get("/x"));
    client.finish();
    assert_eq!(client.recv().map(|answer| answer.text().len()), Ok(12));
}

#[test]
fn without_time_for_a_closed_side_the_request_ends() {
    let origin = Origin::start();
    origin.on("/x", |exchange| {
        let left = exchange.peer_left_within(LONG);
        exchange.reply(200, &[], if left { "left" } else { "there" });
    });
    let weir = server(&[&origin]).more("[limits]\nhalf_close = \"0s\"").start();
    let mut client = weir.client();
    client.send("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    origin.await_count("/x", 1);
    client.finish();
    assert!(client.is_closed_within(Duration::from_secs(10)));
}
