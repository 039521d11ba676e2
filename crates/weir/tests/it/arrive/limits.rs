//! Every limit for clients with its status. What is refused is refused before an origin learns of it.

use std::time::Duration;

use weir_testkit::{Origin, Random, Resource, Trouble, Weir};

use crate::server::{before, server};

/// Answers with the length of the request's content, if that is whole.
pub(super) fn origin() -> Origin {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let length = exchange.body().len();
        exchange.reply(200, &[("Cache-Control", "no-store")], length.to_string());
    });
    origin
}

fn small(origin: &Origin) -> Weir {
    let limits = "[limits]\nline = \"1KiB\"\nhead = \"4KiB\"\nfields = 20\nbody = \"10KiB\"\n\
    head_time = \"400ms\"\n\
                  idle = \"600ms\"\nbody_rate = \"1KiB\"\nsend_stall = \"700ms\"";
    server(&[origin]).more(limits).start()
}

/// Sends a request and returns the status of its answer. The connection must be closed after it.
fn refused(weir: &Weir, request: &str) -> u16 {
    let mut client = weir.client();
    client.send(request);
    let answer = client.recv().unwrap_or_else(|why| panic!("{request:.60?}: {why}"));
    assert!(
        client.is_closed_within(Duration::from_secs(10)),
        "{request:.60?} is not the last of its connection"
    );
    answer.status()
}

fn get(more: &str) -> String {
    format!("GET /x HTTP/1.1\r\nHost: localhost\r\n{more}\r\n")
}

#[test]
fn heads_have_limits() {
    let origin = origin();
    let weir = small(&origin);
    let line = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(1100));
    assert_eq!(refused(&weir, &line), 414);
    assert_eq!(refused(&weir, &get(&format!("X-A: {}\r\n", "a".repeat(4100)))), 431);
    assert_eq!(refused(&weir, &get(&"X-A: a\r\n".repeat(20))), 431);
    assert_eq!(origin.total(), 0);
    let below = get(&"X-A: a\r\n".repeat(18));
    let mut client = weir.client();
    client.send(below);
    assert_eq!(client.recv().unwrap().status(), 200);
}

#[test]
fn the_default_limits_are_the_documented_ones() {
    let origin = origin();
    let weir = before(&origin);
    let line = |bytes: usize| format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(bytes));
    assert_eq!(refused(&weir, &line(8300)), 414);
    assert_eq!(refused(&weir, &get(&"X-A: a\r\n".repeat(101))), 431);
    let mut client = weir.client();
    client.send(line(8000));
    assert_eq!(client.recv().unwrap().status(), 200);
    client.send(get(&format!("X-A: {}\r\n", "a".repeat(20_000))));
    assert_eq!(client.recv().unwrap().status(), 200);
}

#[test]
fn bodies_have_a_limit_in_both_shapes() {
    let origin = origin();
    let weir = small(&origin);
    let post = |more: &str| format!("POST /x HTTP/1.1\r\nHost: localhost\r\n{more}\r\n");
    assert_eq!(refused(&weir, &(post("Content-Length: 10241\r\n") + &"x".repeat(10_241))), 413);
    let expecting = post("Content-Length: 99999\r\nExpect: 100-continue\r\n");
    let mut client = weir.client();
    client.send(expecting);
    assert_eq!(client.recv().unwrap().status(), 413);
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(4096)).repeat(3);
    let mut client = weir.client();
    client.send(post("Transfer-Encoding: chunked\r\n") + &chunk + "0\r\n\r\n");
    assert_eq!(client.recv().unwrap().status(), 413);
    let mut client = weir.client();
    client.send(post("Content-Length: 10240\r\n") + &"x".repeat(10_240));
    assert_eq!(client.recv().unwrap().text(), "10240");
}

#[test]
fn a_head_that_does_not_come_is_a_408_and_an_idle_connection_just_closed() {
    let origin = origin();
    let weir = small(&origin);
    assert_eq!(refused(&weir, "GET /x HTTP/1.1\r\nHost: local"), 408);
    let mut idle = weir.client();
    assert!(idle.is_closed_within(Duration::from_secs(10)));
    assert!(idle.read_to_end().is_empty());
    let mut used = weir.client();
    used.get("localhost", "/x", &[]);
    assert!(used.is_closed_within(Duration::from_secs(10)));
    assert!(used.read_to_end().is_empty());
}

#[test]
fn a_head_that_drips_is_a_408() {
    let origin = origin();
    let weir = small(&origin);
    let mut client = weir.client();
    client.send("GET /x HTTP/1.1\r\n");
    for _ in 0..30 {
        std::thread::sleep(Duration::from_millis(50));
        if !client.send("X-A: b\r\n") {
            break;
        }
    }
    match client.recv() {
        Ok(answer) => assert_eq!(answer.status(), 408),
        // The reset that our own late bytes cause may overtake the answer.
        Err(why) => assert!(matches!(why, Trouble::Closed), "{why}"),
    }
    assert_eq!(origin.total(), 0);
}

#[test]
fn a_body_below_the_least_rate_is_a_408() {
    let origin = origin();
    let weir = small(&origin);
    let mut client = weir.client();
    client.send("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000\r\n\r\nxx");
    assert_eq!(client.recv().map(|answer| answer.status()), Ok(408));
}

#[test]
fn a_client_that_takes_nothing_is_cut() {
    let origin = Origin::start();
    origin.put("/x", Resource::new(vec![b'x'; 64 << 20]).header("Cache-Control", "no-store"));
    let weir = small(&origin);
    let mut client = weir.client();
    client.send_get("localhost", "/x", &[]);
    weir_testkit::until("the request is under way", || origin.count("/x") == 1);
    weir_testkit::until("the stalled client is cut", || {
        weir.metric("weir_requests_running").is_some_and(|running| running == 0.0)
    });
    assert!(matches!(client.recv(), Err(Trouble::Cut(_))));
}

#[test]
fn unsupported_requests_have_their_status() {
    let origin = origin();
    let weir = before(&origin);
    let cases = [
        ("GET /x HTTP/2.0\r\nHost: localhost\r\n\r\n", 505),
        ("GET /x HTTP/1.2\r\nHost: localhost\r\n\r\n", 505),
        ("POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        ("GET /x HTTP/1.1\r\nHost: localhost\r\nExpect: 200-ok\r\n\r\n", 417),
        ("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n\r\n", 405),
        ("TRACE /x HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        ("GET /x HTTP/1.1\r\n\r\n", 400),
        ("GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("GET /x HTTP/1.1\r\nHost: user@localhost\r\n\r\n", 400),
        ("GET /x HTTP/1.1\r\nHost: local host\r\n\r\n", 400),
        ("GET  /x HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("nonsense\r\n\r\n", 400),
    ];
    for (request, status) in cases {
        assert_eq!(refused(&weir, request), status, "{request:?}");
    }
    assert_eq!(origin.total(), 0);
}

#[test]
fn a_refusal_says_why_and_names_no_origin() {
    let origin = origin();
    let weir = before(&origin);
    let mut client = weir.client();
    client.send(
        "GET /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    let answer = client.recv().unwrap();
    assert_eq!(answer.status(), 400);
    assert_eq!(answer.header("connection").as_deref(), Some("close"));
    assert!(
        answer.header("cache-status").is_some_and(|value| value.starts_with("weir")),
        "{:?}",
        answer.head
    );
    assert!(!answer.text().contains(&origin.addr().port().to_string()));
}

#[test]
fn a_silent_tunnel_is_cut() {
    let origin = Origin::start();
    origin.on("/ws", |exchange| {
        exchange.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n");
        exchange.peer_left_within(Duration::from_secs(30));
        exchange.close();
    });
    let weir = server(&[&origin]).more("[limits]\ntunnel_idle = \"500ms\"").start();
    let mut client = weir.client();
    client.send_get("localhost", "/ws", &[("Connection", "Upgrade"), ("Upgrade", "x")]);
    assert_eq!(client.recv_head_only().unwrap().status, 101);
    assert!(client.is_closed_within(Duration::from_secs(10)));
}

#[test]
fn noise_is_refused_and_harms_nobody() {
    let origin = origin();
    let weir = before(&origin);
    let mut random = Random::new(1);
    let words: [&[u8]; 14] = [
        b"GET ",
        b"POST ",
        b"/x",
        b" HTTP/1.1",
        b"\r\n",
        b"\n",
        b"\r",
        b"Host: a",
        b"Content-Length: ",
        b"5",
        b"Transfer-Encoding: chunked",
        b"\0",
        b": ",
        b"\xff",
    ];
    for _ in 0..300 {
        let noise: Vec<u8> = (0..random.below(40)).flat_map(|_| random.one_of(&words).to_vec()).collect();
        let mut client = weir.client().patience(Duration::from_millis(20));
        client.send(&noise);
        client.finish();
        let said = client.read_to_end();
        assert!(said.is_empty() || said.starts_with(b"HTTP/1.1 "), "{noise:?}: {said:?}");
    }
    assert_eq!(weir.get("/x").status(), 200);
    assert_eq!(weir.metric("weir_panics_total"), Some(0.0));
}

#[test]
fn another_protocol_is_turned_away() {
    let origin = origin();
    let weir = before(&origin);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".as_slice();
    let hello = b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03".as_slice();
    for bytes in [preface, hello, b"SSH-2.0-x\r\n", b"HELO mail.example\r\n"] {
        let mut client = weir.client();
        client.send(bytes);
        client.finish();
        let said = client.read_to_end();
        assert!(
            said.is_empty() || said.starts_with(b"HTTP/1.1 4") || said.starts_with(b"HTTP/1.1 505"),
            "{said:?}"
        );
    }
    assert_eq!(origin.total(), 0);
}
